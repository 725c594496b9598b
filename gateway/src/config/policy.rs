//! `[upstreams.NAME.policy]`: every setting of the crate's `RetryPolicy`. Knows its defaults and what contradicts itself.

use std::time::Duration;

use http::HeaderName;
use reqwest_ai_retry::{GiveUp, IdempotencyKey, Jitter, Replay, RetryPolicy};
use serde::{Deserialize, Serialize};

use super::size::Size;
use super::span::Span;
use super::{Invalid, refuse};

/// How often, how long and what to retry. The defaults are the crate's own, but for `buffer_request`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Policy {
    max_attempts: u32,
    max_retry_time: Span,
    max_queue_time: Option<Span>,
    attempt_timeout: Option<Span>,
    total_deadline: Option<Span>,
    replay: Replay,
    idempotency_key: Key,
    idempotency_header: String,
    buffer_request: Size,
    inspect_success: Size,
    inspect_stream_start: bool,
    give_up: GiveUp,
    fail_fast: bool,
    backoff: Backoff,
}

/// What is done about the idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Key {
    Keep,
    Generate,
}

/// How long to wait where the server does not say.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Backoff {
    growth: Growth,
    base: Span,
    min: Span,
    max: Span,
    jitter: Jitter,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Growth {
    Exponential,
    Constant,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            max_retry_time: Span::seconds(120),
            max_queue_time: None,
            attempt_timeout: None,
            total_deadline: None,
            replay: Replay::default(),
            idempotency_key: Key::Keep,
            idempotency_header: "idempotency-key".to_owned(),
            // what comes over a socket is a stream: without a copy of it, nothing could be sent again. The largest
            // request that a provider of text takes fits (Anthropic: 32 MB)
            buffer_request: Size(32 << 20),
            inspect_success: Size(0),
            inspect_stream_start: true,
            give_up: GiveUp::default(),
            fail_fast: false,
            backoff: Backoff::default(),
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            growth: Growth::Exponential,
            base: Span::seconds(1),
            min: Span(Duration::from_millis(50)),
            max: Span::seconds(30),
            jitter: Jitter::default(),
        }
    }
}

impl Policy {
    /// What a call that was given up on is answered with.
    pub(crate) const fn give_up(&self) -> GiveUp {
        self.give_up
    }

    pub(crate) fn build(&self) -> Result<RetryPolicy, Invalid> {
        if self.max_attempts == 0 {
            return refuse("max_attempts", "a call that is made is sent once: 1 never retries");
        }
        for (key, time) in [
            ("attempt_timeout", self.attempt_timeout),
            ("total_deadline", self.total_deadline),
        ] {
            if time == Some(Span::seconds(0)) {
                return refuse(key, "no call could be answered in no time");
            }
        }
        if self.backoff.min > self.backoff.max {
            return refuse("backoff.min", "it is above backoff.max");
        }
        let Ok(header) = HeaderName::try_from(&self.idempotency_header) else {
            return refuse("idempotency_header", "this is no name of a header");
        };
        let base = match self.backoff.growth {
            Growth::Exponential => reqwest_ai_retry::Backoff::exponential(self.backoff.base.0),
            Growth::Constant => reqwest_ai_retry::Backoff::constant(self.backoff.base.0),
        };
        let key = match self.idempotency_key {
            Key::Keep => IdempotencyKey::Keep,
            Key::Generate => IdempotencyKey::Generate,
        };
        let mut policy = RetryPolicy::default()
            .max_attempts(self.max_attempts)
            .max_retry_time(self.max_retry_time.0)
            .replay(self.replay)
            .idempotency_key(key.header(header))
            .inspect_stream_start(self.inspect_stream_start)
            .give_up(self.give_up)
            .fail_fast(self.fail_fast)
            .backoff(
                base.min(self.backoff.min.0)
                    .max(self.backoff.max.0)
                    .jitter(self.backoff.jitter),
            );
        if let Some(Span(time)) = self.max_queue_time {
            policy = policy.max_queue_time(time);
        }
        if let Some(Span(time)) = self.attempt_timeout {
            policy = policy.attempt_timeout(time);
        }
        if let Some(Span(time)) = self.total_deadline {
            policy = policy.total_deadline(time);
        }
        if let Some(bytes) = self.buffer_request.unless_zero() {
            policy = policy.buffer_request(bytes);
        }
        if let Some(bytes) = self.inspect_success.unless_zero() {
            policy = policy.inspect_success(bytes);
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(text: &str) -> Result<RetryPolicy, Invalid> {
        toml::from_str::<Policy>(text).unwrap().build()
    }

    #[test]
    fn the_defaults_are_the_crates_own_but_for_the_copy_of_the_request() {
        let header = IdempotencyKey::Keep.header(HeaderName::from_static("idempotency-key"));
        let expected = RetryPolicy::default().buffer_request(32 << 20).idempotency_key(header);
        assert_eq!(built("").unwrap(), expected);
    }

    #[test]
    fn every_setting_reaches_the_policy() {
        let text = r#"
            max_attempts = 4
            max_retry_time = "1m"
            max_queue_time = "10m"
            attempt_timeout = "20s"
            total_deadline = "90s"
            replay = "idempotent"
            idempotency_key = "generate"
            idempotency_header = "X-Idempotency-Key"
            buffer_request = 0
            inspect_success = "64KiB"
            inspect_stream_start = false
            give_up = "error"
            fail_fast = true
            backoff = { growth = "constant", base = "2s", min = "100ms", max = "10s", jitter = "equal" }
        "#;
        let secs = Duration::from_secs;
        let expected = RetryPolicy::default()
            .max_attempts(4)
            .max_retry_time(secs(60))
            .max_queue_time(secs(600))
            .attempt_timeout(secs(20))
            .total_deadline(secs(90))
            .replay(Replay::Idempotent)
            .idempotency_key(IdempotencyKey::Generate.header(HeaderName::from_static("x-idempotency-key")))
            .inspect_success(64 << 10)
            .inspect_stream_start(false)
            .give_up(GiveUp::Error)
            .fail_fast(true)
            .backoff(
                reqwest_ai_retry::Backoff::constant(secs(2))
                    .min(Duration::from_millis(100))
                    .max(secs(10))
                    .jitter(Jitter::Equal),
            );
        assert_eq!(built(text).unwrap(), expected);
    }

    #[test]
    fn what_contradicts_itself_is_refused_by_its_key() {
        for (text, key) in [
            ("max_attempts = 0", "max_attempts"),
            ("attempt_timeout = \"0s\"", "attempt_timeout"),
            ("total_deadline = \"0s\"", "total_deadline"),
            ("backoff.min = \"31s\"", "backoff.min"),
            ("idempotency_header = \"a key\"", "idempotency_header"),
        ] {
            assert_eq!(built(text).unwrap_err().key, key, "{text}");
        }
    }
}
