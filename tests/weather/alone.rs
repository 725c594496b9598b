//! Retries as common retry layers make them: each call for itself, with the attempts and waits of the default policy. Knows no
//! other call and no hint.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Request, Response};
use reqwest_ai_retry::Backoff;
use reqwest_middleware::{Middleware, Next, Result};

const ATTEMPTS: u32 = 5;

pub(crate) struct Alone {
    rng: Mutex<StdRng>,
    timeout: Option<Duration>,
}

impl Alone {
    pub(crate) fn new(seed: u64, timeout: Option<Duration>) -> Self {
        Self {
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            timeout,
        }
    }
}

#[async_trait]
impl Middleware for Alone {
    async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        *request.timeout_mut() = self.timeout;
        let mut attempt = 1;
        loop {
            let copy = request.try_clone().expect("a body in memory");
            let result = next.clone().run(copy, extensions).await;
            let succeeded = result.as_ref().is_ok_and(|response| response.status().is_success());
            if succeeded || attempt == ATTEMPTS {
                return result;
            }
            let draw = self.rng.lock().expect("not poisoned").random::<f64>();
            tokio::time::sleep(Backoff::default().delay(attempt, draw)).await;
            attempt += 1;
        }
    }
}
