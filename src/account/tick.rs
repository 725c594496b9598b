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

    /// This many seconds later (or earlier), rounded up: an admission a nanosecond early is one too many.
    #[inline]
    pub(crate) fn plus_seconds(self, seconds: f64) -> Self {
        // without `ceil`, which is a call where the processor is not known to have it
        let nanos = seconds * 1e9;
        let whole = nanos as i64;
        let up = i64::from(nanos > whole as f64);
        Self(self.0.saturating_add(whole.saturating_add(up)))
    }
}

impl Add<Duration> for Tick {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Tick {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

/// In 64 bits all the way: 128 of them, as `as_nanos` gives, are slow to narrow.
fn nanos(duration: Duration) -> i64 {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(duration.subsec_nanos()))
}
