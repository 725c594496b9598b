//! What became of a call: its attempts, how it ended, and what to tell whom. Knows nothing of how it was brought about.

use std::fmt;
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use reqwest::Response;
use smallvec::SmallVec;

use crate::classify::{Cause, Verdict};
use crate::error::RetryError;

/// Why a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum StopReason {
    /// The last attempt was answered well.
    Succeeded,
    /// Nothing but a change of the request, the key or the rights will help.
    Permanent,
    /// Money, credit or an allowance is used up; see [`Outcome::retry_at`] for when it comes back, if that was said.
    QuotaExhausted,
    /// [`RetryPolicy::max_attempts`](crate::RetryPolicy::max_attempts) sends were made.
    AttemptsSpent,
    /// The next wait would end after [`RetryPolicy::max_retry_time`](crate::RetryPolicy::max_retry_time).
    RetryTimeSpent,
    /// The delay that the server stated does not fit the time that is left; see [`Outcome::retry_at`].
    DelayPastDeadline,
    /// [`RetryPolicy::total_deadline`](crate::RetryPolicy::total_deadline) came, or would come before the next attempt.
    DeadlinePassed,
    /// The request cannot or may not be sent again.
    NotReplayable(Why),
    /// The lane's retry budget is empty, and the call could wait no longer, or is set to
    /// [`fail_fast`](crate::RetryPolicy::fail_fast). See [`RetryBudget`](crate::RetryBudget).
    RetryBudgetEmpty,
    /// The lane's circuit breaker is open, since nothing gets through, and the call could wait no longer, or is set to
    /// [`fail_fast`](crate::RetryPolicy::fail_fast). See [`CircuitBreaker`](crate::CircuitBreaker).
    CircuitOpen,
    /// The lane is paused, as the provider asked, for longer than this call can wait: beyond its deadline,
    /// [`max_retry_time`](crate::RetryPolicy::max_retry_time) or the account's
    /// [`max_pause`](crate::AccountBuilder::max_pause).
    PausedPastDeadline,
    /// The turn of this call would come after the time that it can wait.
    QueuePastDeadline,
    /// The server asked not to try again (`x-should-retry: false`).
    ServerSaidStop,
    /// Another retry middleware above owns this call; its count is the count sent.
    Nested,
    /// The same request had been given up before, in the same [`Operation`](crate::Operation), within the window of the
    /// [outer retry guard](crate::RetryMiddlewareBuilder::outer_retry_guard), or for the same layer above: it was answered
    /// from memory.
    OperationSpent,
    /// The call was dropped before its end.
    Cancelled,
}

/// Why a request cannot or may not be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Why {
    /// Its body is a stream, read once; see [`RetryPolicy::buffer_request`](crate::RetryPolicy::buffer_request).
    StreamingBody,
    /// Its body is a stream and longer than [`RetryPolicy::buffer_request`](crate::RetryPolicy::buffer_request) allows.
    BodyTooLarge,
    /// The failed attempt may have had an effect, and a repeat could have it twice; see [`Replay`](crate::Replay).
    NonIdempotent,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Succeeded => "succeeded",
            Self::Permanent => "the failure is permanent",
            Self::QuotaExhausted => "a quota is used up",
            Self::AttemptsSpent => "all attempts are spent",
            Self::RetryTimeSpent => "the time for retries is spent",
            Self::DelayPastDeadline => "the server's delay does not fit the time that is left",
            Self::DeadlinePassed => "the total deadline is reached",
            Self::NotReplayable(Why::StreamingBody) => "the request body is a stream and cannot be sent again",
            Self::NotReplayable(Why::BodyTooLarge) => "the request body is too large to be kept for another attempt",
            Self::NotReplayable(Why::NonIdempotent) => "the request may have had an effect and must not be sent twice",
            Self::RetryBudgetEmpty => "the budget for retries is used up",
            Self::CircuitOpen => "the circuit breaker is open, since the server keeps failing",
            Self::PausedPastDeadline => "the provider asked for a pause that is longer than this call can wait",
            Self::QueuePastDeadline => "the turn of this call would come too late",
            Self::ServerSaidStop => "the server asked not to try again",
            Self::Nested => "a retry layer above owns this call",
            Self::OperationSpent => "the same request had been given up before",
            Self::Cancelled => "the call was cancelled",
        })
    }
}

/// One send and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Attempt {
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::seconds"))]
    started: Duration,
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::seconds"))]
    elapsed: Duration,
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::status"))]
    status: Option<StatusCode>,
    verdict: Option<Verdict>,
}

impl Attempt {
    pub(crate) const fn new(
        started: Duration,
        elapsed: Duration,
        status: Option<StatusCode>,
        verdict: Option<Verdict>,
    ) -> Self {
        Self {
            started,
            elapsed,
            status,
            verdict,
        }
    }

    /// When it was sent, counted from the start of the call.
    pub const fn started(&self) -> Duration {
        self.started
    }

    /// How long it took until its headers (and what was read of the body of a failure).
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// The status, if it was answered.
    pub const fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// The verdict; `None` for a success.
    pub const fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }
}

/// What became of a call.
///
/// ```
/// # async fn run(client: reqwest_middleware::ClientWithMiddleware) -> reqwest_middleware::Result<()> {
/// use reqwest_ai_retry::{Outcome, StopReason};
///
/// let response = client.post("https://api.example.com/v1/chat/completions").body("{}").send().await?;
/// if let Some(outcome) = Outcome::of(&response) {
///     eprintln!("{} sends, waited {:?}: {}", outcome.sends(), outcome.waited(), outcome.stop());
///     if outcome.stop() == StopReason::QuotaExhausted {
///         eprintln!("{}", outcome.user_message());
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Outcome {
    /// Inline for the one attempt of a call that goes well, which then costs no allocation of its own.
    attempts: SmallVec<[Attempt; 1]>,
    sends: u32,
    stop: StopReason,
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::seconds"))]
    waited: Duration,
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::seconds"))]
    elapsed: Duration,
    retry_at: Option<SystemTime>,
    sdk_retry_count: Option<NonZeroU32>,
    #[cfg_attr(feature = "serde", serde(skip))]
    running: bool,
}

/// How far an outcome had come at some moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mark {
    attempts: usize,
    sends: u32,
    waited: Duration,
}

/// So many attempts of an operation are told one by one: a program may poll in it for days.
const ATTEMPTS_TOLD: usize = 1024;

impl Outcome {
    /// A call that has just begun; one that is dropped now was cancelled.
    pub(crate) fn begun() -> Self {
        Self {
            attempts: SmallVec::new_const(),
            sends: 0,
            stop: StopReason::Cancelled,
            waited: Duration::ZERO,
            elapsed: Duration::ZERO,
            retry_at: None,
            sdk_retry_count: None,
            running: true,
        }
    }

    /// A call that was cancelled before it began.
    pub(crate) fn cancelled() -> Self {
        Self {
            running: false,
            ..Self::begun()
        }
    }

    /// The outcome attached to a response: to every one that was retried, stopped or waited for. `None` for a success at
    /// the first attempt, and for a response that did not come through the middleware.
    pub fn of(response: &Response) -> Option<&Self> {
        response.extensions().get()
    }

    /// The outcome in an error of ours. A transport error comes back as the `reqwest` error it was and carries none: for
    /// it, read the outcome from the call's `http::Extensions`
    /// ([`execute_with_extensions`](reqwest_middleware::ClientWithMiddleware::execute_with_extensions)), where every call
    /// leaves one but a success at the first attempt.
    pub fn of_error(error: &reqwest_middleware::Error) -> Option<&Self> {
        RetryError::of(error).map(RetryError::outcome)
    }

    /// The attempts, first to last.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// How often the request was passed down. The same as the number of sends on the wire, unless something below repeats
    /// requests of its own accord (see [`RetryMiddleware::client_builder`](crate::RetryMiddleware::client_builder)).
    pub const fn sends(&self) -> u32 {
        self.sends
    }

    /// Why the call ended.
    pub const fn stop(&self) -> StopReason {
        self.stop
    }

    /// Time spent waiting, for admission and between attempts.
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// From the start of the call to its end (the headers of the last response).
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// When the server expects the next attempt, if the call failed and the server said so.
    pub const fn retry_at(&self) -> Option<SystemTime> {
        self.retry_at
    }

    /// Which repeat of an SDK's own loop this call was, if the request said so (`x-stainless-retry-count`, as the SDKs made
    /// by Stainless send it, OpenAI's and Anthropic's among them): that loop and this one multiply, and one of the two
    /// should be switched off. `None` for a first try.
    pub fn sdk_retry_count(&self) -> Option<u32> {
        self.sdk_retry_count.map(NonZeroU32::get)
    }

    /// The verdict on the last attempt; `None` after a success.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.attempts.last().and_then(Attempt::verdict)
    }

    /// A calm sentence for an end user: no status, no host, no technical term.
    pub fn user_message(&self) -> &'static str {
        match (self.stop, self.verdict().map(Verdict::cause)) {
            (StopReason::Succeeded, _) => "The answer is here.",
            (StopReason::Cancelled, _) => "The request was cancelled.",
            (_, Some(Cause::Balance)) => {
                "The AI service's credit for this account is used up. It will work again once credit is added."
            }
            (_, Some(Cause::SpendLimit)) => {
                "This account has reached the spending limit set for the AI service. It will work again once the limit is raised or renewed."
            }
            (_, Some(Cause::DailyAllowance | Cause::PlanWindow)) => {
                "This account has used up its current allowance of the AI service. It will work again when the allowance is renewed."
            }
            (StopReason::QuotaExhausted, _) => {
                "This account's allowance of the AI service is used up. It will work again when the allowance is renewed or raised."
            }
            (_, Some(Cause::ContentPolicy)) => {
                "The AI service declined this request because of its content rules. Changing the wording may help."
            }
            (_, Some(Cause::TooLarge)) => "This request is too long for the AI service. A shorter one will work.",
            (_, Some(Cause::Authentication | Cause::Permission)) => {
                "The AI service did not accept this account's access. Please check the account's settings."
            }
            (_, Some(Cause::Connect | Cause::Reset | Cause::Timeout)) => {
                "The AI service could not be reached. Please check the connection and try again in a little while."
            }
            (_, Some(Cause::RateLimited)) => {
                "The AI service is receiving requests faster than this account allows. Please try again in a little while."
            }
            (_, Some(Cause::Overloaded | Cause::ModelLoading | Cause::ServerError | Cause::Conflict)) => {
                "The AI service is busy at the moment. Please try again in a little while."
            }
            (StopReason::PausedPastDeadline | StopReason::QueuePastDeadline, _) => {
                "The AI service is receiving requests faster than this account allows. Please try again in a little while."
            }
            (StopReason::CircuitOpen, _) => "The AI service is busy at the moment. Please try again in a little while.",
            (StopReason::Permanent, _) => "The AI service could not handle this request as it is.",
            _ => "The request could not be completed. Please try again in a little while.",
        }
    }

    /// Was it a plain success at the first attempt, which is not worth a note?
    pub(crate) fn is_plain(&self) -> bool {
        self.stop == StopReason::Succeeded && self.sends <= 1 && self.waited.is_zero() && self.sdk_retry_count.is_none()
    }

    pub(crate) const fn note_sdk_retry(&mut self, count: u32) {
        self.sdk_retry_count = NonZeroU32::new(count);
    }

    /// The same call goes on.
    pub(crate) fn resumed(mut self) -> Self {
        self.stop = StopReason::Cancelled;
        self.running = true;
        self
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            attempts: self.attempts.len(),
            sends: self.sends,
            waited: self.waited,
        }
    }

    /// What came after the mark.
    pub(crate) fn since(&self, mark: Mark) -> Self {
        Self {
            attempts: self.attempts.iter().skip(mark.attempts).cloned().collect(),
            sends: self.sends.saturating_sub(mark.sends),
            waited: self.waited.saturating_sub(mark.waited),
            ..self.clone()
        }
    }

    /// Adds what a call did that began so much later, as the last that is known.
    pub(crate) fn absorb(&mut self, part: &Self, later: Duration) {
        self.attempts.extend(part.attempts.iter().cloned().map(|mut attempt| {
            attempt.started = attempt.started.saturating_add(later);
            attempt
        }));
        let too_many = self.attempts.len().saturating_sub(ATTEMPTS_TOLD);
        self.attempts.drain(..too_many);
        self.sends = self.sends.saturating_add(part.sends);
        self.waited = self.waited.saturating_add(part.waited);
        self.sdk_retry_count = part.sdk_retry_count.or(self.sdk_retry_count);
        self.end(
            part.stop,
            self.elapsed.max(part.elapsed.saturating_add(later)),
            part.retry_at,
        );
    }

    pub(crate) const fn count_send(&mut self) {
        self.sends = self.sends.saturating_add(1);
    }

    pub(crate) fn record(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
    }

    pub(crate) const fn add_wait(&mut self, wait: Duration) {
        self.waited = self.waited.saturating_add(wait);
    }

    pub(crate) const fn end(&mut self, stop: StopReason, elapsed: Duration, retry_at: Option<SystemTime>) {
        self.stop = stop;
        self.elapsed = elapsed;
        self.retry_at = retry_at;
        self.running = false;
    }

    /// Has an end been reached, whatever it was?
    pub(crate) const fn has_ended(&self) -> bool {
        !self.running
    }

    /// Does the failure leave something that a loop above would only repeat? Then it is told not to (DESIGN: an SDK that
    /// honours `x-should-retry` would otherwise start all over).
    pub(crate) fn is_exhausted(&self) -> bool {
        matches!(
            self.stop,
            StopReason::QuotaExhausted
                | StopReason::AttemptsSpent
                | StopReason::RetryTimeSpent
                | StopReason::DelayPastDeadline
                | StopReason::DeadlinePassed
                | StopReason::RetryBudgetEmpty
                | StopReason::OperationSpent
        )
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;
    use crate::classify::{Class, Delivery};
    use crate::retry_after::{DelaySource, ServerDelay};

    #[test]
    fn an_outcome_is_written_in_seconds_numbers_and_words() {
        let delay = ServerDelay::new(Duration::from_millis(1500), DelaySource::RetryAfter);
        let verdict = Verdict::new(Class::Retryable, Cause::RateLimited)
            .with_delivery(Delivery::Refused)
            .with_server_delay(Some(delay));
        let mut outcome = Outcome::begun();
        outcome.count_send();
        let status = StatusCode::TOO_MANY_REQUESTS;
        outcome.record(Attempt::new(
            Duration::ZERO,
            Duration::from_millis(250),
            Some(status),
            Some(verdict),
        ));
        outcome.end(
            StopReason::NotReplayable(Why::NonIdempotent),
            Duration::from_millis(250),
            None,
        );
        let expected = serde_json::json!({
            "attempts": [{
                "started": 0.0,
                "elapsed": 0.25,
                "status": 429,
                "verdict": {
                    "class": "retryable",
                    "cause": "rate_limited",
                    "scope": "unknown",
                    "delivery": "refused",
                    "layer": "unknown",
                    "server_delay": { "duration": 1.5, "source": "retry_after" },
                },
            }],
            "sends": 1,
            "stop": { "not_replayable": "non_idempotent" },
            "waited": 0.0,
            "elapsed": 0.25,
            "retry_at": null,
            "sdk_retry_count": null,
        });
        assert_eq!(serde_json::to_value(&outcome).unwrap(), expected);
    }
}
