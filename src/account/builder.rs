//! The set-up of an account, and the error of one that cannot work.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use reqwest::Url;

use super::Account;
use super::breaker::CircuitBreaker;
use super::budget::RetryBudget;
use super::lane::LaneNames;
use super::limits::Limits;
use super::size::{Charge, Sizes};
use super::state::Rules;
use crate::clock::{Clock, TokioClock};

/// Builds an [`Account`].
///
/// ```
/// use std::time::Duration;
/// use reqwest_ai_retry::{Account, Limits};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let account = Account::builder()
///     .requests_per_minute(90)
///     .input_tokens_per_minute(30_000)
///     .output_tokens_per_minute(8_000)
///     .max_concurrency(4)
///     .start_ramp(Duration::from_secs(30))
///     .model_limits("big-model", Limits::new().requests_per_minute(30))
///     .build()?;
/// # let _ = account; Ok(()) }
/// ```
#[must_use]
#[derive(Debug)]
pub struct AccountBuilder {
    rules: Rules,
    names: LaneNames,
    sizes: Sizes,
    clock: Arc<dyn Clock>,
    #[cfg(feature = "redis")]
    store: Option<super::RedisStore>,
}

/// A set-up that cannot work: which field, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BuildError {
    field: String,
    why: &'static str,
}

impl BuildError {
    /// The field at fault.
    pub fn field(&self) -> &str {
        &self.field
    }
}

impl Default for AccountBuilder {
    fn default() -> Self {
        Self {
            rules: Rules {
                limits: Limits::new(),
                models: Vec::new(),
                slow_start: false,
                learning: true,
                breaker: CircuitBreaker::new(),
                budget: RetryBudget::new(),
                max_pause: Duration::from_secs(300),
                longest_shared_hint: Duration::MAX,
                guesses: true,
                quota_hold: Some(Duration::from_secs(60)),
                ramp: None,
                max_lanes: 1024,
            },
            names: LaneNames {
                by_credential: false,
                by: None,
                limited: Vec::new(),
            },
            sizes: Sizes::default(),
            clock: Arc::new(TokioClock),
            #[cfg(feature = "redis")]
            store: None,
        }
    }
}

impl AccountBuilder {
    /// Starts per minute, evenly spaced, of all lanes together (default: unlimited until learned). A rate below the provider's
    /// is never exceeded. One that is the provider's own may be, while its headers show room that would go to waste: a bucket
    /// that stands full at the start. Where they show windows, starts may come up to two seconds before their turn, and are no
    /// more for that.
    pub fn requests_per_minute(mut self, requests: u32) -> Self {
        self.rules.limits = self.rules.limits.requests_per_minute(requests);
        self
    }

    /// Starts per day, counted over 24 hours from the first (default: unlimited).
    pub fn requests_per_day(mut self, requests: u64) -> Self {
        self.rules.limits = self.rules.limits.requests_per_day(requests);
        self
    }

    /// Input (prompt) tokens per minute (default: unlimited).
    pub fn input_tokens_per_minute(mut self, tokens: u32) -> Self {
        self.rules.limits = self.rules.limits.input_tokens_per_minute(tokens);
        self
    }

    /// Output (completion) tokens per minute (default: unlimited); see [`output_charge`](Self::output_charge).
    pub fn output_tokens_per_minute(mut self, tokens: u32) -> Self {
        self.rules.limits = self.rules.limits.output_tokens_per_minute(tokens);
        self
    }

    /// Requests in flight together (default: unlimited until learned). A permit is held until the response's body ends.
    pub fn max_concurrency(mut self, requests: u32) -> Self {
        self.rules.limits = self.rules.limits.max_concurrency(requests);
        self
    }

    /// How the provider charges output tokens (default: [`Charge::OnProduce`]). Mirror the provider: reserving less than it
    /// charges makes it refuse, reserving more leaves its allowance unused.
    pub fn output_charge(mut self, charge: Charge) -> Self {
        self.sizes.output = charge;
        self
    }

    /// Tells the input tokens of a request (default: a quarter of its bytes, corrected by what answers say).
    pub fn estimate_input(mut self, estimate: impl Fn(&reqwest::Request) -> u64 + Send + Sync + 'static) -> Self {
        self.sizes.estimate = Some(Arc::new(estimate));
        self
    }

    /// Brings a cold pool up gradually: one start a second at first, doubled ten times over `length` (default: none).
    pub const fn start_ramp(mut self, length: Duration) -> Self {
        self.rules.ramp = Some(length);
        self
    }

    /// Limits of one model, which its starts keep to besides the account's.
    pub fn model_limits(mut self, model: impl Into<String>, limits: Limits) -> Self {
        self.rules.models.push((model.into(), limits));
        self
    }

    /// Tells which lane a request belongs to, in place of origin and model.
    pub fn lane_by(mut self, lane: impl Fn(&Url, &HeaderMap) -> String + Send + Sync + 'static) -> Self {
        self.names.by = Some(Arc::new(lane));
        self
    }

    /// The longest pause that calls wait out (default 300 s); in a longer one they fail at once. A call that has not been sent
    /// yet also fails at once in a pause longer than its [`RetryPolicy::max_retry_time`](crate::RetryPolicy::max_retry_time).
    pub const fn max_pause(mut self, longest: Duration) -> Self {
        self.rules.max_pause = longest;
        self
    }

    /// How long calls are answered from memory once a quota is used up (default 60 s; zero: not at all).
    pub fn quota_hold(mut self, hold: Duration) -> Self {
        self.rules.quota_hold = Some(hold).filter(|hold| !hold.is_zero());
        self
    }

    /// When sends stop because nothing gets through, and how they resume (default: [`CircuitBreaker::new`];
    /// [`CircuitBreaker::off`] never stops them).
    pub const fn circuit_breaker(mut self, breaker: CircuitBreaker) -> Self {
        self.rules.breaker = breaker;
        self
    }

    /// How fast retries may follow while many attempts fail (default: [`RetryBudget::new`]; [`RetryBudget::off`] never slows
    /// them).
    pub const fn retry_budget(mut self, budget: RetryBudget) -> Self {
        self.rules.budget = budget;
        self
    }

    /// Whether rate-limit headers and refusals change the pace and the concurrency (default: yes). With `false`, only what is
    /// configured limits starts; a stated delay still pauses its lane, and breaker, retry budget and quota hold work as
    /// before. For a fixed allowance that is known, behind a provider whose headers or refusals mislead.
    pub const fn learning(mut self, on: bool) -> Self {
        self.rules.learning = on;
        self
    }

    /// Shares the account with every process that has one of the same name in this store (default: it is this process's own).
    /// All of them should be configured alike: each spends at its own configured rates.
    ///
    /// Shared are the configured limits, in each dimension, the limits of models and those in flight; and of each lane what is
    /// learned: pauses, rates, ceilings, and the state of its circuit breaker. A process's own are its queue, its retry budget,
    /// a quota hold (whose response is one caller's) and a start ramp. What a provider's headers show to be left is seen by all,
    /// so that it is not spent faster than the pace.
    #[cfg(feature = "redis")]
    pub fn redis(mut self, store: super::RedisStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Where time comes from (default: tokio's clock).
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The same clock as another's.
    pub(crate) fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Finds a rate that is not configured by slow start, as [`Account::adaptive`] does.
    pub const fn slow_start(mut self) -> Self {
        self.rules.slow_start = true;
        self
    }

    /// As an account that nobody built: see [`Account::default`].
    pub(crate) fn unbuilt(mut self) -> Self {
        self.rules.quota_hold = None;
        self.rules.longest_shared_hint = Duration::from_secs(60);
        self.rules.guesses = false;
        self.names.by_credential = true;
        self
    }

    /// The account.
    ///
    /// # Errors
    ///
    /// [`BuildError`], with the field's name, for a limit of zero, a model named twice, and a setting of the circuit breaker, the
    /// retry budget or the store that cannot work.
    pub fn build(self) -> Result<Account, BuildError> {
        let why = "a limit of zero lets nothing pass";
        if let Some(field) = self.rules.limits.zero_field() {
            return Err(BuildError {
                field: field.to_owned(),
                why,
            });
        }
        for (at, (model, limits)) in self.rules.models.iter().enumerate() {
            if let Some(field) = limits.zero_field() {
                return Err(BuildError {
                    field: format!("model_limits({model}).{field}"),
                    why,
                });
            }
            if self.rules.models.iter().take(at).any(|(other, _)| other == model) {
                return Err(BuildError {
                    field: format!("model_limits({model})"),
                    why: "the model is named twice",
                });
            }
        }
        let unusable = self.rules.breaker.unusable().or(self.rules.budget.unusable());
        if let Some((field, why)) = unusable {
            return Err(BuildError {
                field: field.to_owned(),
                why,
            });
        }
        #[cfg(feature = "redis")]
        if let Some((field, why)) = self.store.as_ref().and_then(super::RedisStore::unusable) {
            return Err(BuildError {
                field: field.to_owned(),
                why,
            });
        }
        Ok(self.made())
    }

    pub(crate) fn made(mut self) -> Account {
        let limits = || {
            self.rules
                .models
                .iter()
                .map(|(_, limits)| limits)
                .chain([&self.rules.limits])
        };
        self.names.limited = self.rules.models.iter().map(|(model, _)| model.clone()).collect();
        self.sizes.count = limits()
            .any(|limits| limits.input_tokens_per_minute.is_some() || limits.output_tokens_per_minute.is_some());
        let configured = limits().any(|limits| *limits != Limits::new());
        let quiet = !configured && !self.rules.slow_start && self.rules.ramp.is_none();
        #[cfg(feature = "redis")]
        if let Some(store) = self.store {
            return Account::shared(self.names, self.sizes, self.clock, self.rules, store);
        }
        Account::new(self.names, self.sizes, self.clock, quiet, self.rules)
    }
}
