//! How long to wait before the next attempt when nobody says: the growth, its bounds and the jitter. Pure: the random
//! draw is an argument; knows no server delay and no deadline.

use std::time::Duration;

/// How much of the computed backoff is left to chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Jitter {
    /// Uniform between zero and the computed backoff: spreads a crowd best for the same load on the server (the
    /// exponential-backoff study of the AWS architecture blog). The default.
    #[default]
    Full,
    /// Uniform between half of the computed backoff and all of it: a wait that is never very short.
    Equal,
    /// Exactly the computed backoff: for tests, and for a caller who is alone.
    None,
}

/// The wait before the next attempt, doubled each time, bounded below and above.
///
/// ```
/// use std::time::Duration;
/// use reqwest_ai_retry::{Backoff, Jitter, RetryPolicy};
///
/// let policy = RetryPolicy::default().backoff(
///     Backoff::exponential(Duration::from_millis(500)).max(Duration::from_secs(8)).jitter(Jitter::Equal),
/// );
/// # let _ = policy;
/// ```
///
/// The default is `exponential(1 s).max(30 s)` with [`Jitter::Full`] and a floor of 50 ms: over five attempts it waits 15 s
/// at most, about as long as an overloaded model takes to recover, and no wait is so short that it only adds to the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    factor: u32,
    min: Duration,
    max: Duration,
    jitter: Jitter,
}

impl Backoff {
    /// `base` before the second attempt, twice that before the third, and so on.
    pub const fn exponential(base: Duration) -> Self {
        Self {
            base,
            factor: 2,
            ..Self::constant(base)
        }
    }

    /// The same wait before every attempt.
    pub const fn constant(wait: Duration) -> Self {
        Self {
            base: wait,
            factor: 1,
            min: Duration::from_millis(50),
            max: Duration::from_secs(30),
            jitter: Jitter::Full,
        }
    }

    /// The longest wait (default 30 s). Applied last, so that no overflow on the way can lift it. A server's delay may be
    /// longer, and is obeyed.
    #[must_use]
    pub const fn max(mut self, max: Duration) -> Self {
        self.max = max;
        self
    }

    /// The shortest wait (default 50 ms), jitter and a server's zero included: a `Retry-After: 0` without it is a hot loop.
    /// If it is above [`max`](Self::max), the maximum counts.
    #[must_use]
    pub const fn min(mut self, min: Duration) -> Self {
        self.min = min;
        self
    }

    /// How much is left to chance (default [`Jitter::Full`]).
    #[must_use]
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// The wait before the attempt that follows the `failed`-th one (1 for the first), for a draw from `[0, 1)`. A draw
    /// outside is taken to the nearer end, and one that is no number counts as 1.
    pub fn delay(&self, failed: u32, draw: f64) -> Duration {
        let growth = self.factor.saturating_pow(failed.saturating_sub(1));
        let full = self.base.saturating_mul(growth).min(self.max);
        let draw = if draw.is_nan() { 1.0 } else { draw.clamp(0.0, 1.0) };
        let wait = match self.jitter {
            Jitter::Full => scaled(full, draw),
            Jitter::Equal => scaled(full, 0.5 + draw / 2.0),
            Jitter::None => full,
        };
        wait.max(self.min).min(self.max)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1))
    }
}

/// A part of a duration. `Duration::mul_f64` panics beyond its range; a part of at most one cannot get there, but
/// rounding at the very end of the range can.
pub(crate) fn scaled(whole: Duration, part: f64) -> Duration {
    Duration::try_from_secs_f64(whole.as_secs_f64() * part).map_or(whole, |d| d.min(whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// A6: an exponent that is off by one halves every wait.
    #[test]
    fn first_delay_is_the_base_exactly() {
        let backoff = Backoff::exponential(s(1)).max(s(30)).jitter(Jitter::None);
        let waits: Vec<_> = (1..=7).map(|failed| backoff.delay(failed, 0.3)).collect();
        assert_eq!(waits, [s(1), s(2), s(4), s(8), s(16), s(30), s(30)]);
    }

    /// L1, L2: the exponent overflows long before the counter does, and then the cap must still hold.
    #[test]
    fn overflow_ends_at_the_cap() {
        for jitter in [Jitter::None, Jitter::Full, Jitter::Equal] {
            let backoff = Backoff::exponential(s(1)).max(s(30)).jitter(jitter);
            assert_eq!(backoff.delay(u32::MAX, 1.0), s(30));
        }
        let unbounded = Backoff::exponential(Duration::MAX).max(Duration::MAX);
        assert_eq!(unbounded.delay(u32::MAX, 1.0), Duration::MAX);
    }

    #[test]
    fn the_floor_holds_against_jitter_and_yields_to_the_cap() {
        assert_eq!(Backoff::default().delay(1, 0.0), Duration::from_millis(50));
        assert_eq!(Backoff::default().min(s(2)).delay(1, 0.5), s(2));
        assert_eq!(Backoff::default().min(s(9)).max(s(3)).delay(1, 0.5), s(3));
    }

    proptest! {
        #[test]
        fn delay_is_within_its_bounds(base: Duration, min: Duration, max: Duration, failed: u32, draw: f64, kind in 0..3) {
            let jitter = [Jitter::Full, Jitter::Equal, Jitter::None][kind as usize];
            let delay = Backoff::exponential(base).min(min).max(max).jitter(jitter).delay(failed, draw);
            prop_assert!(delay <= max);
            prop_assert!(delay >= min.min(max));
        }
    }
}
