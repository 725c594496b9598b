//! Retries as the providers' SDKs make them: each call for itself, after the time the server stated, else after an exponential
//! backoff. Knows no other call, and unlike the SDKs does not stop after two.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, HeaderMap};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};

/// The hints that openai-python and its like believe, and their backoff without one.
const LONGEST_HINT: Duration = Duration::from_secs(60);
const FIRST: f64 = 0.5;
const LONGEST: f64 = 8.0;
const JITTER: f64 = 0.25;

pub(crate) struct SdkStyle {
    dice: Mutex<StdRng>,
}

impl SdkStyle {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Mutex::new(StdRng::seed_from_u64(seed)),
        }
    }

    fn wait(&self, headers: &HeaderMap, retries: i32) -> Duration {
        let number = |name| headers.get(name)?.to_str().ok()?.parse::<f64>().ok();
        let hint = number("retry-after-ms")
            .map(|millis| millis / 1000.0)
            .or_else(|| number("retry-after"))
            .map(Duration::from_secs_f64);
        hint.filter(|hint| !hint.is_zero() && *hint <= LONGEST_HINT)
            .unwrap_or_else(|| {
                let dice = self.dice.lock().map_or(0.0, |mut dice| dice.random::<f64>());
                Duration::from_secs_f64((FIRST * 2f64.powi(retries)).min(LONGEST) * (1.0 - JITTER * dice))
            })
    }
}

#[async_trait]
impl Middleware for SdkStyle {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let mut retries = 0;
        loop {
            let copy = request
                .try_clone()
                .ok_or_else(|| Error::middleware(std::io::Error::other("the request cannot be repeated")))?;
            let response = next.clone().run(copy, extensions).await?;
            let status = response.status();
            if !status.is_server_error() && !matches!(status.as_u16(), 408 | 409 | 429) {
                return Ok(response);
            }
            let wait = self.wait(response.headers(), retries);
            drop(response);
            tokio::time::sleep(wait).await;
            retries = retries.saturating_add(1);
        }
    }
}
