//! The request for a start: what it takes, its priority, and how long it can wait. Knows no queue and no limit.

use std::time::Duration;

use super::limits::Weights;
use super::tick::Tick;

/// The priority of a start in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Priority {
    /// A first attempt.
    #[default]
    Fresh,
    /// A retry, which takes one from the retry budget.
    Retry,
    /// A retry after a rate limit, which the account paces: it costs nothing.
    PacedRetry,
}

impl Priority {
    #[inline]
    pub(crate) const fn is_retry(self) -> bool {
        !matches!(self, Self::Fresh)
    }
}

/// A start as a call requests it. Very many may wait, so each field's size counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StartRequest {
    pub(crate) weights: Weights,
    /// The latest time at which it may start; [`Tick::NEVER`] if there is none.
    bound: Tick,
    /// How long it waits for a lane in which nothing is sent (a pause, an open breaker), in milliseconds; [`u32::MAX`] if
    /// there is no limit.
    patience: u32,
    /// The attempt timeout of its call, in milliseconds; [`u32::MAX`] if there is none.
    attempt_timeout: u32,
    pub(crate) priority: Priority,
    pub(super) last: bool,
    /// Its bound is its call's total deadline, which also cuts its send.
    pub(super) cut_at_bound: bool,
    /// It ends instead of waiting for an open breaker or an empty retry budget.
    pub(super) fails_fast: bool,
}

impl Default for StartRequest {
    fn default() -> Self {
        Self {
            weights: Weights::default(),
            bound: Tick::NEVER,
            patience: u32::MAX,
            attempt_timeout: u32::MAX,
            priority: Priority::Fresh,
            last: false,
            cut_at_bound: false,
            fails_fast: false,
        }
    }
}

/// In milliseconds, rounded up, so that rounding never shortens a limit.
fn millis(time: Option<Duration>) -> u32 {
    let millis = time.map(|time| time.as_micros().div_ceil(1_000));
    millis.and_then(|millis| u32::try_from(millis).ok()).unwrap_or(u32::MAX)
}

fn time(millis: u32) -> Option<Duration> {
    (millis < u32::MAX).then(|| Duration::from_millis(millis.into()))
}

impl StartRequest {
    pub(crate) fn of(priority: Priority) -> Self {
        Self {
            priority,
            ..Self::default()
        }
    }

    /// Sets whether it is the last attempt of its call.
    pub(crate) fn last(self, last: bool) -> Self {
        Self { last, ..self }
    }

    /// Sets whether its bound is its call's total deadline.
    pub(crate) fn cut_at_bound(self, cut_at_bound: bool) -> Self {
        Self { cut_at_bound, ..self }
    }

    pub(crate) fn fails_fast(self, fails_fast: bool) -> Self {
        Self { fails_fast, ..self }
    }

    pub(crate) fn weighing(self, weights: Weights) -> Self {
        Self { weights, ..self }
    }

    pub(crate) fn until(self, bound: Option<Tick>) -> Self {
        Self {
            bound: bound.unwrap_or(Tick::NEVER),
            ..self
        }
    }

    pub(crate) fn patient(self, patience: Option<Duration>) -> Self {
        Self {
            patience: millis(patience),
            ..self
        }
    }

    pub(crate) fn answered_within(self, attempt_timeout: Option<Duration>) -> Self {
        Self {
            attempt_timeout: millis(attempt_timeout),
            ..self
        }
    }

    #[inline]
    pub(crate) fn bound(&self) -> Option<Tick> {
        Some(self.bound).filter(|bound| *bound < Tick::NEVER)
    }

    /// How long it waits for a lane in which nothing is sent.
    #[inline]
    pub(crate) fn patience(&self) -> Option<Duration> {
        time(self.patience)
    }

    #[inline]
    pub(crate) fn attempt_timeout(&self) -> Option<Duration> {
        time(self.attempt_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_and_none_stays_none() {
        let request = StartRequest::default();
        assert_eq!(
            (request.bound(), request.patience(), request.attempt_timeout()),
            (None, None, None)
        );
        for (given, kept) in [
            (Duration::ZERO, Duration::ZERO),
            (Duration::from_micros(1), Duration::from_millis(1)),
            (Duration::from_millis(20), Duration::from_millis(20)),
            (Duration::from_micros(20_001), Duration::from_millis(21)),
            (Duration::from_secs(86_400), Duration::from_secs(86_400)),
        ] {
            let request = request.patient(Some(given)).answered_within(Some(given));
            assert_eq!(
                (request.patience(), request.attempt_timeout()),
                (Some(kept), Some(kept))
            );
        }
        // longer than fits is longer than anybody waits
        let endless = request
            .patient(Some(Duration::MAX))
            .answered_within(Some(Duration::MAX));
        assert_eq!((endless.patience(), endless.attempt_timeout()), (None, None));
        let bound = Tick::default() + Duration::from_secs(1);
        assert_eq!(request.until(Some(bound)).bound(), Some(bound));
        assert_eq!(request.until(Some(bound)).until(None).bound(), None);
    }
}
