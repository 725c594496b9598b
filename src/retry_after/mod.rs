//! The delay that an answer states, in every form that servers use. Knows no policy: whether a delay is slept is decided
//! elsewhere.

use std::time::Duration;

use crate::classify::Seen;

/// A delay that the server stated: a minimum, never to be shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ServerDelay {
    duration: Duration,
    source: DelaySource,
}

/// Where an answer stated its delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DelaySource {
    /// `retry-after-ms` or `x-ms-retry-after-ms`.
    RetryAfterMs,
    /// `Retry-After`, as seconds, an HTTP-date or an epoch.
    RetryAfter,
}

impl ServerDelay {
    /// A delay of one's own making, for a rule that reads it where only it knows.
    pub const fn new(duration: Duration, source: DelaySource) -> Self {
        Self { duration, source }
    }

    /// The delay that this answer states, if it states one.
    pub fn of(_seen: &Seen<'_>) -> Option<Self> {
        None
    }

    /// How long to wait at least, counted from the receipt of the answer.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// Where it was stated.
    pub const fn source(&self) -> DelaySource {
        self.source
    }
}
