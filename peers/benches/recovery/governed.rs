//! A hand-made pace as people put it together: governor and a semaphore before each send. Knows no answer.
//!
//! governor's own `until_ready` sleeps by real time, whatever tokio's clock does. Its limiter is here on a clock that reads
//! tokio's, and what `check` says is to be waited is waited on tokio's timer.

use std::num::NonZeroU32;

use async_trait::async_trait;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};
use tokio::sync::Semaphore;

#[derive(Debug, Clone)]
struct TokioClock;

impl Clock for TokioClock {
    type Instant = std::time::Instant;

    fn now(&self) -> Self::Instant {
        tokio::time::Instant::now().into_std()
    }
}

pub(crate) struct Governed {
    limiter: RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<std::time::Instant>>,
    in_flight: Semaphore,
}

impl Governed {
    pub(crate) fn new(per_minute: u32, in_flight: usize) -> Self {
        let per_minute = NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_minute(per_minute).allow_burst(NonZeroU32::MIN);
        Self {
            limiter: RateLimiter::direct_with_clock(quota, TokioClock),
            in_flight: Semaphore::new(in_flight),
        }
    }
}

#[async_trait]
impl Middleware for Governed {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let _permit = self.in_flight.acquire().await.map_err(Error::middleware)?;
        while let Err(not_yet) = self.limiter.check() {
            tokio::time::sleep(not_yet.wait_time_from(TokioClock.now())).await;
        }
        next.run(request, extensions).await
    }
}
