//! The ways to put retries around an SDK that are compared, and what each promises. Knows no SDK and counts nothing.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest_ai_retry::{Account, Backoff, GiveUp, Operation, RetryMiddleware, RetryPolicy};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use crate::gateway::Guard;

/// Sends in all that our middleware is configured for: its default.
pub const MAX_ATTEMPTS: u32 = 5;

/// How an SDK is built.
#[derive(Debug, Clone)]
pub struct SetUp {
    /// Whether its own retries are left as they come, or stopped as its documentation says.
    pub own_retries: OwnRetries,
    /// The client that it sends through; `None` for the one it has by itself.
    pub client: Option<ClientWithMiddleware>,
    /// A client without middleware, for SDKs that take one or must be given one.
    pub plain: reqwest::Client,
}

/// The connections that all calls share: to make a client costs a thousand times what a call does.
#[derive(Debug)]
pub struct Connections {
    plain: reqwest::Client,
    ours: reqwest::Client,
}

impl Connections {
    /// # Errors
    ///
    /// If reqwest cannot build a client.
    pub fn new() -> reqwest::Result<Self> {
        // none is kept, since a port is given to one server after another
        Ok(Self {
            plain: reqwest::Client::builder().pool_max_idle_per_host(0).build()?,
            ours: RetryMiddleware::client_builder().pool_max_idle_per_host(0).build()?,
        })
    }

    /// The SDK's part of an arrangement, with a middleware of its own.
    pub fn set_up(&self, arrangement: Arrangement) -> SetUp {
        let policy = RetryPolicy::default()
            .max_attempts(MAX_ATTEMPTS)
            .backoff(Backoff::constant(Duration::from_millis(10)));
        let retry = RetryMiddleware::builder();
        let retry = match arrangement {
            Arrangement::AsItComes
            | Arrangement::Stopped
            | Arrangement::Gateway
            | Arrangement::GatewayStopped
            | Arrangement::GatewayGuarded => None,
            Arrangement::Stacked => Some(retry.policy(policy).account(forgetful())),
            Arrangement::StackedErrors => Some(retry.policy(policy.give_up(GiveUp::Error)).account(forgetful())),
            Arrangement::Ours | Arrangement::InOperation => Some(retry.policy(policy)),
            Arrangement::Guarded => Some(retry.policy(policy).outer_retry_guard(Duration::from_secs(60))),
        };
        SetUp {
            own_retries: match arrangement {
                Arrangement::Stopped | Arrangement::Ours | Arrangement::GatewayStopped => OwnRetries::Off,
                _ => OwnRetries::On,
            },
            client: retry.map(|retry| ClientBuilder::new(self.ours.clone()).with(retry.build()).build()),
            plain: self.plain.clone(),
        }
    }
}

/// An account to which no two sends belong together, so that the retry budget and the pace of a refused lane do not soften
/// what multiplies.
fn forgetful() -> Account {
    let sends = AtomicU64::new(0);
    let account = Account::builder().lane_by(move |_, _| sends.fetch_add(1, Ordering::Relaxed).to_string());
    account.build().unwrap_or_default()
}

/// The retries that an SDK has by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnRetries {
    /// As they come. Delays may be shortened, counts may not.
    On,
    /// Stopped.
    Off,
}

/// A way to put retries around an SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arrangement {
    /// Its own retries and client, nothing of ours.
    AsItComes,
    /// Its own retries stopped, nothing of ours.
    Stopped,
    /// Its own retries, over our middleware: what multiplies.
    Stacked,
    /// The same with `GiveUp::Error`, which some of them do not repeat.
    StackedErrors,
    /// Its own retries stopped, over our middleware.
    Ours,
    /// Its own retries, over our middleware, inside an `Operation`.
    InOperation,
    /// Its own retries, over our middleware with `outer_retry_guard`.
    Guarded,
    /// Its own retries and client, through our gateway.
    Gateway,
    /// Its own retries stopped, through our gateway.
    GatewayStopped,
    /// Its own retries and client, through our gateway with `outer_retry_guard`.
    GatewayGuarded,
}

impl Arrangement {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::AsItComes,
        Self::Stopped,
        Self::Stacked,
        Self::StackedErrors,
        Self::Ours,
        Self::InOperation,
        Self::Guarded,
        Self::Gateway,
        Self::GatewayStopped,
        Self::GatewayGuarded,
    ];

    /// The gateway that the SDK's base URL leads to, if it is one of ours.
    pub const fn gateway(self) -> Option<Guard> {
        match self {
            Self::Gateway | Self::GatewayStopped => Some(Guard::Off),
            Self::GatewayGuarded => Some(Guard::On),
            _ => None,
        }
    }

    /// How many sends it must cost to ask a server that always fails, if that is promised.
    pub const fn promise(self) -> Option<usize> {
        match self {
            Self::AsItComes | Self::Stopped | Self::Stacked | Self::StackedErrors | Self::Gateway => None,
            Self::Ours | Self::InOperation | Self::Guarded | Self::GatewayStopped | Self::GatewayGuarded => {
                Some(MAX_ATTEMPTS as usize)
            }
        }
    }

    /// The caller's part of it: makes one call.
    pub async fn run<T>(self, call: impl Future<Output = T>) -> T {
        match self {
            Self::InOperation => Operation::new().scope(call).await,
            _ => call.await,
        }
    }
}
