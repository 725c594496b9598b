//! `[upstreams.NAME.account]`: every setting of the crate's `Account` that can be written down. Knows its defaults and what
//! contradicts itself.

use std::collections::BTreeMap;

use http::HeaderName;
use reqwest_ai_retry::{AccountBuilder, Charge, CircuitBreaker, Limits, RetryBudget};
use serde::{Deserialize, Serialize};

use super::span::Span;
use super::switch::Switch;
use super::{Invalid, refuse};

/// One allowance that all callers of the upstream share. The defaults are the crate's own.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Account {
    requests_per_minute: Option<u32>,
    requests_per_day: Option<u64>,
    input_tokens_per_minute: Option<u32>,
    output_tokens_per_minute: Option<u32>,
    max_concurrency: Option<u32>,
    output_charge: Charge,
    input_bytes_per_token: Option<f64>,
    slow_start: bool,
    start_ramp: Option<Span>,
    lane_by_header: Option<String>,
    max_pause: Span,
    quota_hold: Span,
    learning: bool,
    circuit_breaker: Switch<Breaker>,
    retry_budget: Switch<Budget>,
    models: BTreeMap<String, ModelLimits>,
}

/// When sends stop because nothing gets through.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Breaker {
    min_calls: u32,
    min_failures: u32,
    min_duration: Span,
    /// The least and the most.
    probe_interval: [Span; 2],
}

impl Default for Breaker {
    fn default() -> Self {
        let breaker = CircuitBreaker::new();
        let (least, most) = breaker.probe_interval;
        Self {
            min_calls: breaker.min_calls,
            min_failures: breaker.min_failures,
            min_duration: Span(breaker.min_duration),
            probe_interval: [Span(least), Span(most)],
        }
    }
}

impl Breaker {
    fn build(self) -> CircuitBreaker {
        let [Span(least), Span(most)] = self.probe_interval;
        CircuitBreaker::new()
            .min_calls(self.min_calls)
            .min_failures(self.min_failures)
            .min_duration(self.min_duration.0)
            .probe_interval(least, most)
    }
}

/// How fast retries may follow when many attempts fail.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Budget {
    reserve: u32,
    per_success: f64,
    min_per_second: f64,
}

impl Default for Budget {
    fn default() -> Self {
        let budget = RetryBudget::new();
        Self {
            reserve: budget.reserve,
            per_success: budget.per_success,
            min_per_second: budget.min_per_second,
        }
    }
}

impl Budget {
    fn build(self) -> RetryBudget {
        RetryBudget::new()
            .reserve(self.reserve)
            .per_success(self.per_success)
            .min_per_second(self.min_per_second)
    }
}

/// Limits of one model, besides the account's.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct ModelLimits {
    requests_per_minute: Option<u32>,
    requests_per_day: Option<u64>,
    input_tokens_per_minute: Option<u32>,
    output_tokens_per_minute: Option<u32>,
    max_concurrency: Option<u32>,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            requests_per_minute: None,
            requests_per_day: None,
            input_tokens_per_minute: None,
            output_tokens_per_minute: None,
            max_concurrency: None,
            output_charge: Charge::default(),
            input_bytes_per_token: None,
            slow_start: false,
            start_ramp: None,
            lane_by_header: None,
            max_pause: Span::seconds(300),
            quota_hold: Span::seconds(60),
            learning: true,
            circuit_breaker: Switch::default(),
            retry_budget: Switch::default(),
            models: BTreeMap::new(),
        }
    }
}

impl Account {
    pub(crate) fn build(&self) -> Result<reqwest_ai_retry::Account, Invalid> {
        self.builder()?.build().map_err(|error| {
            let (field, said) = (error.field(), error.to_string());
            let why = said.strip_prefix(field).and_then(|rest| rest.strip_prefix(": "));
            Invalid {
                // the crate names a model's limits as its own method has them
                key: match field.strip_prefix("model_limits(") {
                    Some(rest) => format!("models.{}", rest.replacen(").", ".", 1)),
                    None => field.to_owned(),
                },
                why: why.unwrap_or(&said).to_owned(),
            }
        })
    }

    fn builder(&self) -> Result<AccountBuilder, Invalid> {
        let mut builder = reqwest_ai_retry::Account::builder()
            .output_charge(self.output_charge)
            .max_pause(self.max_pause.0)
            .quota_hold(self.quota_hold.0)
            .learning(self.learning)
            .circuit_breaker(self.circuit_breaker.map_or(CircuitBreaker::off(), Breaker::build))
            .retry_budget(self.retry_budget.map_or(RetryBudget::off(), Budget::build));
        if let Some(requests) = self.requests_per_minute {
            builder = builder.requests_per_minute(requests);
        }
        if let Some(requests) = self.requests_per_day {
            builder = builder.requests_per_day(requests);
        }
        if let Some(tokens) = self.input_tokens_per_minute {
            builder = builder.input_tokens_per_minute(tokens);
        }
        if let Some(tokens) = self.output_tokens_per_minute {
            builder = builder.output_tokens_per_minute(tokens);
        }
        if let Some(requests) = self.max_concurrency {
            builder = builder.max_concurrency(requests);
        }
        if let Some(bytes_per_token) = self.input_bytes_per_token {
            if !(bytes_per_token.is_finite() && bytes_per_token > 0.0) {
                return refuse("input_bytes_per_token", "a token has more than no bytes");
            }
            builder = builder.estimate_input(move |request| {
                let bytes = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
                (bytes.len() as f64 / bytes_per_token).ceil() as u64
            });
        }
        if self.slow_start {
            builder = builder.slow_start();
        }
        if let Some(Span(length)) = self.start_ramp {
            builder = builder.start_ramp(length);
        }
        if let Some(header) = &self.lane_by_header {
            let Ok(name) = HeaderName::try_from(header) else {
                return refuse("lane_by_header", "this is no name of a header");
            };
            // only a keyed hash of it is kept, and it is shown nowhere: it may be a credential
            builder = builder.lane_by(move |_, headers| {
                let value = headers.get(&name).map(|value| value.as_bytes());
                String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
            });
        }
        for (model, limits) in &self.models {
            builder = builder.model_limits(model, limits.limits());
        }
        Ok(builder)
    }
}

impl ModelLimits {
    fn limits(&self) -> Limits {
        let mut limits = Limits::new();
        if let Some(requests) = self.requests_per_minute {
            limits = limits.requests_per_minute(requests);
        }
        if let Some(requests) = self.requests_per_day {
            limits = limits.requests_per_day(requests);
        }
        if let Some(tokens) = self.input_tokens_per_minute {
            limits = limits.input_tokens_per_minute(tokens);
        }
        if let Some(tokens) = self.output_tokens_per_minute {
            limits = limits.output_tokens_per_minute(tokens);
        }
        if let Some(requests) = self.max_concurrency {
            limits = limits.max_concurrency(requests);
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(text: &str) -> Account {
        toml::from_str(text).unwrap()
    }

    /// What a builder holds, as far as it can be seen from here.
    fn shown(builder: AccountBuilder) -> String {
        format!("{builder:?}")
    }

    #[test]
    fn the_defaults_are_the_crates_own() {
        assert_eq!(
            shown(Account::default().builder().unwrap()),
            shown(reqwest_ai_retry::Account::builder())
        );
    }

    #[test]
    fn every_setting_reaches_the_account() {
        let text = r#"
            requests_per_minute = 90
            requests_per_day = 10_000
            input_tokens_per_minute = 30_000
            output_tokens_per_minute = 8_000
            max_concurrency = 4
            output_charge = "upfront_settled"
            slow_start = true
            start_ramp = "30s"
            max_pause = "10m"
            quota_hold = "0s"
            learning = false
            circuit_breaker = { min_calls = 4, min_failures = 8, min_duration = "2s", probe_interval = ["1s", "9s"] }
            retry_budget = { reserve = 10, per_success = 0.5, min_per_second = 1 }

            [models.big]
            requests_per_minute = 30
            requests_per_day = 1_000
            input_tokens_per_minute = 10_000
            output_tokens_per_minute = 2_000
            max_concurrency = 2
        "#;
        let secs = Duration::from_secs;
        let expected = reqwest_ai_retry::Account::builder()
            .requests_per_minute(90)
            .requests_per_day(10_000)
            .input_tokens_per_minute(30_000)
            .output_tokens_per_minute(8_000)
            .max_concurrency(4)
            .output_charge(Charge::UpfrontSettled)
            .slow_start()
            .start_ramp(secs(30))
            .max_pause(secs(600))
            .quota_hold(Duration::ZERO)
            .learning(false)
            .circuit_breaker(
                CircuitBreaker::new()
                    .min_calls(4)
                    .min_failures(8)
                    .min_duration(secs(2))
                    .probe_interval(secs(1), secs(9)),
            )
            .retry_budget(RetryBudget::new().reserve(10).per_success(0.5).min_per_second(1.0))
            .model_limits(
                "big",
                Limits::new()
                    .requests_per_minute(30)
                    .requests_per_day(1_000)
                    .input_tokens_per_minute(10_000)
                    .output_tokens_per_minute(2_000)
                    .max_concurrency(2),
            );
        assert_eq!(shown(read(text).builder().unwrap()), shown(expected));
    }

    #[test]
    fn what_protects_is_switched_off_by_a_word_and_set_in_part() {
        let builder = reqwest_ai_retry::Account::builder;
        let off = builder()
            .circuit_breaker(CircuitBreaker::off())
            .retry_budget(RetryBudget::off());
        let text = "circuit_breaker = false\nretry_budget = false";
        assert_eq!(shown(read(text).builder().unwrap()), shown(off));
        let text = "circuit_breaker = true\nretry_budget = true";
        assert_eq!(shown(read(text).builder().unwrap()), shown(builder()));
        let part = builder()
            .circuit_breaker(CircuitBreaker::new().min_failures(9))
            .retry_budget(RetryBudget::new().reserve(3));
        let text = "circuit_breaker.min_failures = 9\nretry_budget.reserve = 3";
        assert_eq!(shown(read(text).builder().unwrap()), shown(part));
    }

    #[test]
    fn what_lets_nothing_pass_is_refused_by_its_key() {
        for (text, key) in [
            ("requests_per_minute = 0", "requests_per_minute"),
            ("max_concurrency = 0", "max_concurrency"),
            ("models.big.requests_per_day = 0", "models.big.requests_per_day"),
            ("models.\"big.1\".max_concurrency = 0", "models.big.1.max_concurrency"),
            ("circuit_breaker.min_calls = 0", "circuit_breaker.min_calls"),
            (
                "circuit_breaker.probe_interval = [\"2s\", \"1s\"]",
                "circuit_breaker.probe_interval",
            ),
            ("retry_budget.reserve = 0", "retry_budget.reserve"),
            ("retry_budget.min_per_second = -1", "retry_budget.min_per_second"),
            ("input_bytes_per_token = 0.0", "input_bytes_per_token"),
            ("lane_by_header = \"no name\"", "lane_by_header"),
        ] {
            assert_eq!(read(text).build().unwrap_err().key, key, "{text}");
        }
    }
}
