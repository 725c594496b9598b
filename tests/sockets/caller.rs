//! The caller's side of a test: clients with waits of some milliseconds, and a clock that leaps over longer ones.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use reqwest::Response;
use reqwest_ai_retry::{Backoff, Clock, Jitter, Outcome, RetryMiddleware, RetryPolicy, StopReason};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

/// A path that no inference call has.
pub(crate) const ORDERS: &str = "/v1/orders";

pub(crate) const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The default policy, but with waits of 20 ms.
pub(crate) fn quick() -> RetryPolicy {
    RetryPolicy::default().backoff(Backoff::constant(millis(20)).min(millis(20)).jitter(Jitter::None))
}

/// The recommended client, without the proxies that the machine may have set.
pub(crate) fn recommended() -> reqwest::ClientBuilder {
    RetryMiddleware::client_builder().no_proxy()
}

pub(crate) fn over(client: reqwest::ClientBuilder, retry: RetryMiddleware) -> ClientWithMiddleware {
    ClientBuilder::new(client.build().unwrap()).with(retry).build()
}

/// The recommended client with this policy.
pub(crate) fn client(policy: RetryPolicy) -> ClientWithMiddleware {
    over(recommended(), RetryMiddleware::new(policy))
}

pub(crate) fn outcome(response: &Response) -> &Outcome {
    Outcome::of(response).unwrap()
}

pub(crate) fn stop(response: &Response) -> StopReason {
    outcome(response).stop()
}

/// A clock on which a sleep of up to `limit` takes 30 ms, whatever its length, and a longer one never ends.
#[derive(Debug, Clone)]
pub(crate) struct Leaping {
    limit: Duration,
    ahead: Arc<Mutex<Duration>>,
}

impl Leaping {
    pub(crate) fn up_to(limit: Duration) -> Self {
        Self {
            limit,
            ahead: Arc::default(),
        }
    }
}

impl Clock for Leaping {
    fn now(&self) -> Instant {
        Instant::now() + *self.ahead.lock().unwrap()
    }

    fn wall_now(&self) -> SystemTime {
        SystemTime::now() + *self.ahead.lock().unwrap()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let ends = at.saturating_duration_since(self.now()) <= self.limit;
        Box::pin(async move {
            if !ends {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(millis(30)).await;
            let left = at.saturating_duration_since(self.now());
            *self.ahead.lock().unwrap() += left;
        })
    }
}
