//! Which retry layers are measured, and how each is put around a client. Knows nothing of what is measured.

pub mod pool;
pub mod sdk;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use reqwest_ai_retry::{Backoff, Jitter, RetryMiddleware, RetryPolicy};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::RetryTransientMiddleware;
use retry_policies::policies::ExponentialBackoff;

/// A retry layer with its default settings, for five sends at most where it retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// None: what the call costs without one.
    Bare,
    /// `reqwest_retry::RetryTransientMiddleware`, the peer that the ratios are taken to.
    ReqwestRetry,
    /// `RetryMiddleware::default()`.
    Ours,
    /// The same for one send, which need not keep the request.
    OursOnce,
}

impl Layer {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::Bare, Self::ReqwestRetry, Self::Ours, Self::OursOnce];

    /// Puts the layer on a stack.
    #[must_use]
    pub fn put_on(self, stack: ClientBuilder) -> ClientBuilder {
        match self {
            Self::Bare => stack,
            Self::ReqwestRetry => stack.with(RetryTransientMiddleware::new_with_policy(
                ExponentialBackoff::builder().build_with_max_retries(4),
            )),
            Self::Ours => stack.with(RetryMiddleware::default()),
            Self::OursOnce => stack.with(RetryMiddleware::new(RetryPolicy::default().max_attempts(1))),
        }
    }

    /// A word for the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::ReqwestRetry => "reqwest-retry",
            Self::Ours => "ours",
            Self::OursOnce => "ours-once",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bare => "no retry layer",
            Self::ReqwestRetry => "reqwest-retry 0.9",
            Self::Ours if cfg!(feature = "tracing") => "ours (tracing, no subscriber)",
            Self::Ours => "ours (without tracing)",
            Self::OursOnce => "ours, max_attempts(1)",
        })
    }
}

impl FromStr for Layer {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|layer| layer.word() == word);
        known.ok_or_else(|| format!("no layer is called {word:?}"))
    }
}

/// A client whose behaviour is looked at: three sends at most for each of its layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// `reqwest-retry`.
    ReqwestRetry,
    /// `reqwest-retry` over a client that retries by itself, with `reqwest::retry` told to repeat 429 and 5xx twice.
    ReqwestRetryOverReqwest,
    /// Ours.
    Ours,
}

impl Peer {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 3] = [Self::ReqwestRetry, Self::ReqwestRetryOverReqwest, Self::Ours];

    /// A client for loopback that waits so long between attempts, with so many of its middleware in a stack.
    ///
    /// # Errors
    ///
    /// If reqwest cannot build a client.
    pub fn client(self, wait: Duration, layers: usize) -> reqwest::Result<ClientWithMiddleware> {
        let below = match self {
            Self::ReqwestRetry => reqwest::Client::builder(),
            Self::ReqwestRetryOverReqwest => reqwest::Client::builder().retry(
                reqwest::retry::for_host("127.0.0.1")
                    .no_budget()
                    .max_retries_per_request(2)
                    .classify_fn(|seen| match seen.status() {
                        Some(status) if status.is_server_error() || status == 429 => seen.retryable(),
                        _ => seen.success(),
                    }),
            ),
            Self::Ours => RetryMiddleware::client_builder(),
        };
        let mut stack = ClientBuilder::new(below.build()?);
        for _ in 0..layers {
            stack = match self {
                Self::ReqwestRetry | Self::ReqwestRetryOverReqwest => {
                    let backoff = ExponentialBackoff::builder()
                        .retry_bounds(wait, wait)
                        .jitter(retry_policies::Jitter::None)
                        .build_with_max_retries(2);
                    stack.with(RetryTransientMiddleware::new_with_policy(backoff))
                }
                Self::Ours => stack.with(RetryMiddleware::new(
                    RetryPolicy::default()
                        .max_attempts(3)
                        .backoff(Backoff::constant(wait).jitter(Jitter::None)),
                )),
            };
        }
        Ok(stack.build())
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ReqwestRetry => "reqwest-retry 0.9",
            Self::ReqwestRetryOverReqwest => "the same over reqwest::retry",
            Self::Ours => "ours",
        })
    }
}
