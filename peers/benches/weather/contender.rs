//! The retry layers that are compared, and how each is put around a transport. Measures nothing.

use std::error::Error;
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use peers::sdk::SdkStyle;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest_ai_retry::{Account, Backoff, RetryMiddleware, RetryPolicy};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::RetryTransientMiddleware;
use retry_policies::RetryDecision;
use testbed::sim::Transport;

use crate::incident::{GiveUp, Incident};
use crate::oracle::Oracle;

/// A retry layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Contender {
    /// Ours, `Account::default()`.
    Default,
    /// Ours, the rate configured.
    Built,
    /// Ours, `Account::adaptive()`.
    Adaptive,
    /// Ours as the gateway sets it up for an upstream with an `[account]` table that states no rate.
    GatewayTable,
    /// Ours as the gateway sets it up for an upstream without one.
    Gateway,
    /// `reqwest-retry` with as many sends and the same waits as our default policy.
    ReqwestRetry,
    /// What the providers' SDKs do.
    Sdk,
    /// No retry layer.
    Bare,
    /// It knows when an outage ends.
    Oracle,
    /// The same with the configured rate.
    PacedOracle,
}

/// How far the limits of a call of ours go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Patience {
    Usual,
    /// So far that neither attempts nor time run out.
    Raised,
}

/// The body that the gateway keeps for another attempt.
const GATEWAY_BUFFER: usize = 32 << 20;
/// Raised limits.
pub(crate) const RAISED_ATTEMPTS: u32 = 20;
const RAISED_TIME: Duration = Duration::from_secs(600);

impl Contender {
    pub(crate) const OURS: [Self; 5] = [
        Self::Default,
        Self::Built,
        Self::Adaptive,
        Self::GatewayTable,
        Self::Gateway,
    ];

    pub(crate) const OTHERS: [Self; 5] = [
        Self::ReqwestRetry,
        Self::Sdk,
        Self::Bare,
        Self::Oracle,
        Self::PacedOracle,
    ];

    pub(crate) fn is_ours(self) -> bool {
        Self::OURS.contains(&self)
    }

    /// The oracle that keeps the same pace.
    pub(crate) fn oracle(self, incident: &Incident) -> Self {
        match self {
            _ if incident.limited => Self::PacedOracle,
            Self::Built => Self::PacedOracle,
            _ => Self::Oracle,
        }
    }

    /// A word for the command line.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Default => "ours-default",
            Self::Built => "ours-built",
            Self::Adaptive => "ours-adaptive",
            Self::GatewayTable => "ours-gateway-table",
            Self::Gateway => "ours-gateway",
            Self::ReqwestRetry => "reqwest-retry",
            Self::Sdk => "sdk",
            Self::Bare => "bare",
            Self::Oracle => "oracle",
            Self::PacedOracle => "oracle-paced",
        }
    }

    /// A client that all workers share, and the account behind it where there is one to look at.
    pub(crate) fn client(
        self,
        transport: Transport,
        incident: &Incident,
        patience: Patience,
        seed: u64,
    ) -> Result<(ClientWithMiddleware, Option<Account>), Box<dyn Error + Send + Sync>> {
        let stack = ClientBuilder::new(RetryMiddleware::client_builder().build()?);
        let account = match self {
            Self::Default | Self::Gateway => Some(Account::default()),
            Self::Built => Some(Account::builder().requests_per_minute(incident.rate).build()?),
            Self::Adaptive => Some(Account::adaptive()),
            Self::GatewayTable => Some(Account::builder().build()?),
            _ => None,
        };
        let stack = match (self, &account) {
            (_, Some(account)) => stack.with(
                RetryMiddleware::builder()
                    .account(account.clone())
                    .policy(self.policy(incident, patience))
                    .seed(seed)
                    .build(),
            ),
            (Self::ReqwestRetry, None) => stack.with(RetryTransientMiddleware::new_with_policy(SameWaits::new(seed))),
            (Self::Sdk, None) => stack.with(SdkStyle::new(seed).retries(2)),
            (Self::Oracle, None) => stack.with(Oracle::new(incident, transport.simulation(), None)),
            (Self::PacedOracle, None) => stack.with(Oracle::new(incident, transport.simulation(), Some(incident.rate))),
            (_, None) => stack,
        };
        Ok((stack.with(transport).build(), account))
    }

    fn policy(self, incident: &Incident, patience: Patience) -> RetryPolicy {
        let mut policy = RetryPolicy::default();
        if matches!(self, Self::Gateway | Self::GatewayTable) {
            policy = policy.buffer_request(GATEWAY_BUFFER);
        }
        if patience == Patience::Raised {
            policy = policy.max_attempts(RAISED_ATTEMPTS).max_retry_time(RAISED_TIME);
        }
        if let Some(time) = incident.attempt_timeout {
            policy = policy.attempt_timeout(time);
        }
        if let Some(GiveUp::Deadline(time)) = incident.gives_up {
            policy = policy.total_deadline(time);
        }
        policy
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Default => "ours, default()",
            Self::Built => "ours, built",
            Self::Adaptive => "ours, adaptive()",
            Self::GatewayTable => "ours, gateway, [account]",
            Self::Gateway => "ours, gateway",
            Self::ReqwestRetry => "reqwest-retry 0.9",
            Self::Sdk => "SDK's loop",
            Self::Bare => "no retry layer",
            Self::Oracle => "oracle",
            Self::PacedOracle => "oracle, paced",
        })
    }
}

/// The attempts and waits of our default policy, for `reqwest-retry`, drawn by a seed.
struct SameWaits {
    rng: Mutex<StdRng>,
}

impl SameWaits {
    const RETRIES: u32 = 4;

    fn new(seed: u64) -> Self {
        Self {
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
        }
    }
}

impl retry_policies::RetryPolicy for SameWaits {
    fn should_retry(&self, _: SystemTime, retries: u32) -> RetryDecision {
        if retries >= Self::RETRIES {
            return RetryDecision::DoNotRetry;
        }
        let draw = self.rng.lock().map_or(0.5, |mut rng| rng.random::<f64>());
        RetryDecision::Retry {
            execute_after: SystemTime::now() + Backoff::default().delay(retries + 1, draw),
        }
    }
}
