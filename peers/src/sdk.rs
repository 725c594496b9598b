//! Retries as the providers' SDKs make them: each call for itself, after the time the server stated, else after an exponential
//! backoff. Knows no other call.

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

/// An SDK's loop, as a middleware.
#[derive(Debug)]
pub struct SdkStyle {
    dice: Mutex<StdRng>,
    retries: Option<i32>,
}

impl SdkStyle {
    /// One that never stops, unlike the SDKs.
    pub fn new(seed: u64) -> Self {
        Self {
            dice: Mutex::new(StdRng::seed_from_u64(seed)),
            retries: None,
        }
    }

    /// At most so many retries; the SDKs' default is 2.
    #[must_use]
    pub fn retries(self, retries: i32) -> Self {
        Self {
            retries: Some(retries),
            ..self
        }
    }

    fn wait(&self, headers: Option<&HeaderMap>, retries: i32) -> Duration {
        let number = |name| headers?.get(name)?.to_str().ok()?.parse::<f64>().ok();
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
            let result = next.clone().run(copy, extensions).await;
            if !is_worth_another(&result) || self.retries.is_some_and(|most| retries >= most) {
                return result;
            }
            let wait = self.wait(result.as_ref().ok().map(Response::headers), retries);
            drop(result);
            tokio::time::sleep(wait).await;
            retries = retries.saturating_add(1);
        }
    }
}

fn is_worth_another(result: &Result<Response>) -> bool {
    match result {
        Ok(response) => response.status().is_server_error() || matches!(response.status().as_u16(), 408 | 409 | 429),
        Err(error) => matches!(error, Error::Reqwest(_)),
    }
}
