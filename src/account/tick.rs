//! Points in time as the account counts them: nanoseconds since it was made. Knows no clock.

use std::ops::{Add, Sub};
use std::time::{Duration, Instant};

/// A point in time. Arithmetic saturates: a wait beyond all bounds is a long wait, not a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Tick(i64);

impl Tick {
    /// Later than any time that is reached.
    pub(crate) const NEVER: Self = Self(i64::MAX);

    #[inline]
    pub(crate) fn at(instant: Instant, base: Instant) -> Self {
        match instant.checked_duration_since(base) {
            Some(since) => Self::default() + since,
            None => Self::default() - base.saturating_duration_since(instant),
        }
    }

    /// The clock's instant, if the clock can tell it.
    #[inline]
    pub(crate) fn instant(self, base: Instant) -> Option<Instant> {
        base.checked_add(Duration::from_nanos(u64::try_from(self.0).unwrap_or(0)))
    }

    /// From `earlier` to this; zero if it is not earlier.
    #[inline]
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Seconds from `earlier` to this, negative if it is later.
    #[inline]
    pub(crate) fn seconds_since(self, earlier: Self) -> f64 {
        self.0.saturating_sub(earlier.0) as f64 / 1e9
    }

    /// As a number of nanoseconds, for reckoning with another clock.
    pub(crate) const fn nanos(self) -> i64 {
        self.0
    }

    pub(crate) const fn of_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// This many seconds later (or earlier), rounded up: an admission a nanosecond early is one too many.
    #[inline]
    pub(crate) fn plus_seconds(self, seconds: f64) -> Self {
        self + Span::nanos(seconds * 1e9)
    }
}

/// A length of time as ticks are counted, so that adding it is an addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Span(i64);

impl Span {
    #[inline]
    pub(crate) const fn millis(millis: u32) -> Self {
        Self(millis as i64 * 1_000_000)
    }

    #[inline]
    pub(crate) const fn exactly(nanos: i64) -> Self {
        Self(nanos)
    }

    /// So many nanoseconds, rounded up.
    #[inline]
    pub(crate) fn nanos(nanos: f64) -> Self {
        // without `ceil`, which is a call where the processor is not known to have it
        let whole = nanos as i64;
        Self(whole.saturating_add(i64::from(nanos > whole as f64)))
    }

    #[inline]
    pub(crate) const fn as_nanos(self) -> f64 {
        self.0 as f64
    }
}

impl Add<Span> for Tick {
    type Output = Self;

    #[inline]
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Tick {
    type Output = Self;

    #[inline]
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add<Duration> for Tick {
    type Output = Self;

    #[inline]
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Tick {
    type Output = Self;

    #[inline]
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

/// In 64 bits all the way: 128 of them, as `as_nanos` gives, are slow to narrow.
#[inline]
fn nanos(duration: Duration) -> i64 {
    const MOST: u64 = i64::MAX as u64 / 1_000_000_000;
    match duration.as_secs() {
        seconds @ 0..MOST => seconds as i64 * 1_000_000_000 + i64::from(duration.subsec_nanos()),
        _ => i64::MAX,
    }
}
