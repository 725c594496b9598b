//! The errors that are this crate's own: cuts that no `reqwest::Error` can be made for, and give-ups asked for as errors.
//! All their text is made of flags; none of it comes from a URL, a header or a body.

use std::time::SystemTime;

use http::StatusCode;
use reqwest_middleware::Error;

use crate::classify::Verdict;
use crate::outcome::{Outcome, StopReason};

/// An error of this crate. It travels as [`reqwest_middleware::Error::Middleware`]; [`RetryError::of`] finds it there. A
/// transport error is never wrapped: it comes back as [`reqwest_middleware::Error::Reqwest`].
///
/// ```
/// # async fn run(client: reqwest_middleware::ClientWithMiddleware) {
/// use reqwest_ai_retry::{RetryError, is_timeout};
///
/// if let Err(error) = client.get("https://api.example.com/v1/models").send().await {
///     if is_timeout(&error) {
///         eprintln!("too slow");
///     } else if let Some(ours) = RetryError::of(&error) {
///         eprintln!("{} (again at {:?})", ours.stop(), ours.retry_at());
///     }
/// }
/// # }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RetryError {
    /// An attempt was cut before its response headers came.
    #[error("no response headers within the {limit} after {} sends: {}", outcome.sends(), outcome.stop())]
    #[non_exhaustive]
    TimedOut {
        /// Which limit cut it.
        limit: TimeLimit,
        /// What had been done until then.
        outcome: Box<Outcome>,
    },
    /// The account refused the send, so that nothing was sent (or nothing more: see the outcome).
    #[error("not sent: {}", outcome.stop())]
    #[non_exhaustive]
    Refused {
        /// What had been done until then.
        outcome: Box<Outcome>,
        /// While the lane's circuit breaker is open: the verdict on the last send of the lane that failed, of whichever call.
        last: Option<Verdict>,
    },
    /// The call was ended by [`Operation::cancel`](crate::Operation::cancel).
    #[error("cancelled after {} sends", outcome.sends())]
    #[non_exhaustive]
    Cancelled {
        /// What had been done in the operation until then.
        outcome: Box<Outcome>,
    },
    /// A response was given up on, and either [`GiveUp::Error`](crate::GiveUp::Error) asks for an error, or the response
    /// had already been let go of when the refusal arose.
    #[error("gave up after {} sends on status {}: {}", outcome.sends(), status.as_u16(), outcome.stop())]
    #[non_exhaustive]
    GaveUp {
        /// The status of the last response.
        status: StatusCode,
        /// The verdict on it.
        verdict: Verdict,
        /// What had been done until then.
        outcome: Box<Outcome>,
    },
}

/// A limit of the policy that cuts an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TimeLimit {
    /// [`RetryPolicy::attempt_timeout`](crate::RetryPolicy::attempt_timeout).
    Attempt,
    /// [`RetryPolicy::total_deadline`](crate::RetryPolicy::total_deadline).
    Total,
}

impl std::fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Attempt => "attempt timeout",
            Self::Total => "total deadline",
        })
    }
}

impl RetryError {
    /// A start that was asked for without a call, and refused.
    pub(crate) fn refused(reason: StopReason, retry_at: Option<SystemTime>, last: Option<Verdict>) -> Self {
        let mut outcome = Outcome::begun();
        outcome.end(reason, std::time::Duration::ZERO, retry_at);
        Self::Refused {
            outcome: Box::new(outcome),
            last,
        }
    }

    /// The error of this crate in an error of the client, if it is one.
    pub fn of(error: &Error) -> Option<&Self> {
        match error {
            Error::Middleware(error) => error.downcast_ref(),
            Error::Reqwest(_) => None,
        }
    }

    /// What was done before.
    pub fn outcome(&self) -> &Outcome {
        match self {
            Self::TimedOut { outcome, .. }
            | Self::GaveUp { outcome, .. }
            | Self::Refused { outcome, .. }
            | Self::Cancelled { outcome } => outcome,
        }
    }

    /// Why the call ended.
    pub fn stop(&self) -> StopReason {
        self.outcome().stop()
    }

    /// The status of the last response, if there was one.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::GaveUp { status, .. } => Some(*status),
            Self::TimedOut { .. } | Self::Refused { .. } | Self::Cancelled { .. } => None,
        }
    }

    /// The verdict on the last attempt. If the call was refused before its first send because a circuit breaker is open, the
    /// verdict on the last failed send of the lane, by another call.
    pub fn verdict(&self) -> Option<&Verdict> {
        match self {
            Self::GaveUp { verdict, .. } => Some(verdict),
            Self::Refused { outcome, last } => outcome.verdict().or(last.as_ref()),
            Self::TimedOut { outcome, .. } | Self::Cancelled { outcome } => outcome.verdict(),
        }
    }

    /// When it is worth trying again, if that is known: the time that the server stated, or, if the account refused the call,
    /// the end of what it would have waited for (a pause, the next probe of an open circuit breaker, its turn).
    pub fn retry_at(&self) -> Option<SystemTime> {
        self.outcome().retry_at()
    }
}

/// Returns `true` if time ran out, by reqwest's timeouts or by ours. Covers both kinds of [`reqwest_middleware::Error`].
pub fn is_timeout(error: &Error) -> bool {
    match error {
        Error::Reqwest(error) => error.is_timeout(),
        Error::Middleware(_) => matches!(RetryError::of(error), Some(RetryError::TimedOut { .. })),
    }
}

/// Returns `true` if no connection could be made. Covers both kinds of [`reqwest_middleware::Error`].
pub fn is_connect(error: &Error) -> bool {
    match error {
        Error::Reqwest(error) => error.is_connect(),
        Error::Middleware(_) => false,
    }
}
