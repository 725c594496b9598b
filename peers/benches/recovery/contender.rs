//! The ways to share an allowance that are compared, and how each is put around a transport. Knows no provider and
//! measures nothing.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use peers::sdk::SdkStyle;
use reqwest_ai_retry::{Account, RetryMiddleware, RetryPolicy};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::RetryTransientMiddleware;
use retry_policies::policies::ExponentialBackoff;
use testbed::sim::Transport;

use crate::governed::Governed;

/// More than any run takes: that a request is lost is to be a contender's own doing.
const MANY: u32 = 1_000_000;
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// A way to share an allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Ours, with the allowance configured.
    Configured,
    /// Ours, `Account::adaptive()`.
    Adaptive,
    /// Ours, with the account that a middleware has of its own.
    Default,
    /// `reqwest-retry` with three retries, as its examples have it.
    ReqwestRetry,
    /// `reqwest-retry` that does not give up, and waits a minute at most.
    ReqwestRetryUnlimited,
    /// What the providers' SDKs do, without their limit on retries: obeys `Retry-After`, each call for itself.
    Sdk,
    /// governor at 90 a minute, burst 1, behind a semaphore of 3, with the SDKs' retries.
    Governor,
}

impl Contender {
    pub(crate) const ALL: [Self; 7] = [
        Self::Configured,
        Self::Adaptive,
        Self::Default,
        Self::ReqwestRetry,
        Self::ReqwestRetryUnlimited,
        Self::Sdk,
        Self::Governor,
    ];

    pub(crate) const OURS: [Self; 3] = [Self::Configured, Self::Adaptive, Self::Default];

    pub(crate) fn is_ours(self) -> bool {
        Self::OURS.contains(&self)
    }

    /// A word for the command line.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Configured => "ours-configured",
            Self::Adaptive => "ours-adaptive",
            Self::Default => "ours-default",
            Self::ReqwestRetry => "reqwest-retry-3",
            Self::ReqwestRetryUnlimited => "reqwest-retry-unlimited",
            Self::Sdk => "sdk",
            Self::Governor => "governor",
        }
    }

    /// A client that all workers share, and the account behind it where there is one to look at.
    pub(crate) fn client(
        self,
        transport: Transport,
        allowance: u32,
        seed: u64,
    ) -> Result<(ClientWithMiddleware, Option<Account>), Box<dyn Error + Send + Sync>> {
        let stack = ClientBuilder::new(RetryMiddleware::client_builder().build()?);
        let account = match self {
            Self::Configured => Some(Account::builder().requests_per_minute(allowance).build()?),
            Self::Adaptive => Some(Account::adaptive()),
            Self::Default => Some(Account::default()),
            _ => None,
        };
        let stack = match (self, &account) {
            (_, Some(account)) => stack.with(
                RetryMiddleware::builder()
                    .account(account.clone())
                    .policy(RetryPolicy::default().max_attempts(MANY).max_retry_time(LONG))
                    .seed(seed)
                    .build(),
            ),
            (Self::ReqwestRetry, None) => stack.with(RetryTransientMiddleware::new_with_policy(
                ExponentialBackoff::builder().build_with_max_retries(3),
            )),
            (Self::ReqwestRetryUnlimited, None) => stack.with(RetryTransientMiddleware::new_with_policy(
                ExponentialBackoff::builder()
                    .retry_bounds(Duration::from_secs(1), Duration::from_secs(60))
                    .build_with_max_retries(MANY),
            )),
            (Self::Governor, None) => stack.with(SdkStyle::new(seed)).with(Governed::new(90, 3)),
            (_, None) => stack.with(SdkStyle::new(seed)),
        };
        Ok((stack.with(transport).build(), account))
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Configured => "ours, rate configured",
            Self::Adaptive => "ours, Account::adaptive()",
            Self::Default => "ours, default()",
            Self::ReqwestRetry => "reqwest-retry 0.9, 3 retries",
            Self::ReqwestRetryUnlimited => "reqwest-retry 0.9, unlimited",
            Self::Sdk => "SDK style, unlimited",
            Self::Governor => "governor 90/min + semaphore",
        })
    }
}
