//! Which retry layers are measured, and how each is put around a client. Knows nothing of what is measured.

use std::fmt;
use std::str::FromStr;

use reqwest_ai_retry::{RetryMiddleware, RetryPolicy};
use reqwest_middleware::ClientBuilder;
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
