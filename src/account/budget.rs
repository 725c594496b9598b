//! The retry budget of a lane: how fast retries may follow while many attempts fail. Knows no request and no queue.
//!
//! Retries add load just when a server has too much of it. An empty budget makes them wait; it ends no call. A retry that
//! the account paces anyway (after a rate limit, as a probe, while starts resume) costs nothing.

use std::time::Duration;

use super::tick::Tick;

/// How fast retries may follow while many attempts fail.
///
/// Each lane has a budget of its own. A retry takes one from it when it starts (not when it is decided, so that a retry that
/// is cancelled costs nothing); a success puts some back, and so does time. While the budget is empty, retries wait in the
/// queue within their calls' own limits, and fresh calls pass them. With
/// [`RetryPolicy::fail_fast`](crate::RetryPolicy::fail_fast) a call ends instead, with the response that it has. Retries that
/// the account paces by other means, after a rate limit or while the [`CircuitBreaker`](crate::CircuitBreaker) limits
/// starts, cost nothing.
///
/// ```
/// use reqwest_ai_retry::{Account, RetryBudget};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // a provider that asks for restraint: ten retries at once, then one for two successes, or one in five seconds
/// let budget = RetryBudget::new().reserve(10).per_success(0.5).min_per_second(0.2);
/// let account = Account::builder().retry_budget(budget).build()?;
/// # let _ = account; Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct RetryBudget {
    /// Whether it slows retries at all.
    pub on: bool,
    /// See [`reserve`](Self::reserve()).
    pub reserve: u32,
    /// See [`per_success`](Self::per_success()).
    pub per_success: f64,
    /// See [`min_per_second`](Self::min_per_second()).
    pub min_per_second: f64,
}

/// However many retries wait, each gets its turn within this time.
const TURN: Duration = Duration::from_secs(20);

impl RetryBudget {
    /// The default: 20 retries in reserve, 2 for each success, and at least one every two seconds.
    pub const fn new() -> Self {
        Self {
            on: true,
            reserve: 20,
            per_success: 2.0,
            min_per_second: 0.5,
        }
    }

    /// A budget that never slows retries.
    pub const fn off() -> Self {
        Self {
            on: false,
            ..Self::new()
        }
    }

    /// The number of retries that may start at once, which is also the most that can be saved (default 20, so that a pool of
    /// twenty workers gets over a short failure without an extra wait).
    pub const fn reserve(mut self, retries: u32) -> Self {
        self.reserve = retries;
        self
    }

    /// The number of retries that each success pays for (default 2: while a third or more of the sends succeeds, no retry
    /// is slowed).
    pub const fn per_success(mut self, retries: f64) -> Self {
        self.per_success = retries;
        self
    }

    /// The number of retries per second that time alone pays for (default 0.5): a budget that only successes fill would stay
    /// empty in an outage. The rate is higher while many retries wait, so that each gets its turn within 20 s.
    pub const fn min_per_second(mut self, retries: f64) -> Self {
        self.min_per_second = retries;
        self
    }

    /// The first field with an unusable value, and why it is.
    pub(crate) fn unusable(&self) -> Option<(&'static str, &'static str)> {
        if self.reserve == 0 {
            Some(("retry_budget.reserve", "must be greater than zero"))
        } else if !(self.per_success.is_finite() && self.per_success >= 0.0) {
            Some(("retry_budget.per_success", "must be a number that is not negative"))
        } else if !(self.min_per_second.is_finite() && self.min_per_second > 0.0) {
            Some(("retry_budget.min_per_second", "must be greater than zero"))
        } else {
            None
        }
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self::new()
    }
}

/// What a lane has left to spend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Budget {
    left: f64,
    counted_at: Tick,
}

impl Budget {
    #[inline]
    pub(crate) fn new(settings: &RetryBudget, now: Tick) -> Self {
        Self {
            left: f64::from(settings.reserve),
            counted_at: now,
        }
    }

    /// Retries per second that time pays for while this many wait.
    fn per_second(settings: &RetryBudget, waiting: u32) -> f64 {
        settings.min_per_second.max(f64::from(waiting) / TURN.as_secs_f64())
    }

    /// Retries that may start now, while this many wait.
    #[inline]
    pub(crate) fn left(&self, settings: &RetryBudget, waiting: u32, now: Tick) -> f64 {
        let seconds = now.seconds_since(self.counted_at).max(0.0);
        let left = self.left + seconds * Self::per_second(settings, waiting);
        left.min(f64::from(settings.reserve))
    }

    /// When the next retry may start.
    pub(crate) fn ready_at(&self, settings: &RetryBudget, waiting: u32, now: Tick) -> Tick {
        let lacking = 1.0 - self.left(settings, waiting, now);
        if !settings.on || lacking <= 0.0 {
            return Tick::default();
        }
        now.plus_seconds(lacking / Self::per_second(settings, waiting))
    }

    fn set(&mut self, settings: &RetryBudget, left: f64, now: Tick) {
        *self = Self {
            left: left.clamp(0.0, f64::from(settings.reserve)),
            counted_at: self.counted_at.max(now),
        };
    }

    /// Records a success.
    #[inline]
    pub(crate) fn deposit(&mut self, settings: &RetryBudget, waiting: u32, now: Tick) {
        // usually it is full
        if self.left < f64::from(settings.reserve) {
            let left = self.left(settings, waiting, now);
            self.set(settings, left + settings.per_success, now);
        }
    }

    /// Records a retry. (The clamp keeps rounding from putting one off for ever.)
    #[inline]
    pub(crate) fn withdraw(&mut self, settings: &RetryBudget, waiting: u32, now: Tick) {
        let left = self.left(settings, waiting, now);
        self.set(settings, left - 1.0, now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: RetryBudget = RetryBudget::new();

    fn drained(now: Tick) -> Budget {
        let mut budget = Budget::new(&SETTINGS, now);
        (0..20).for_each(|_| budget.withdraw(&SETTINGS, 0, now));
        budget
    }

    /// H10: two retries for each success, whatever the number, and not one more.
    #[test]
    fn the_ratio_is_exact() {
        let now = Tick::default();
        let mut budget = drained(now);
        for successes in 1..=10_000u32 {
            budget.deposit(&SETTINGS, 0, now);
            for _ in 0..2 {
                assert!(budget.ready_at(&SETTINGS, 0, now) <= now, "after {successes}");
                budget.withdraw(&SETTINGS, 0, now);
            }
            assert!(budget.ready_at(&SETTINGS, 0, now) > now, "after {successes}");
        }
    }

    /// H7: it fills again by successes and by time alone, the faster the more wait.
    #[test]
    fn an_empty_budget_fills_again() {
        let start = Tick::default();
        let budget = drained(start);
        assert_eq!(budget.ready_at(&SETTINGS, 0, start), start + Duration::from_secs(2));
        assert_eq!(
            budget.ready_at(&SETTINGS, 200, start),
            start + Duration::from_millis(100)
        );
        let much_later = start + Duration::from_secs(1_000);
        assert!(budget.left(&SETTINGS, 0, much_later) <= 20.0);
        assert_eq!(
            budget.ready_at(&RetryBudget::off(), 0, start),
            start.min(Tick::default())
        );
    }

    proptest! {
        /// Retries made never exceed the reserve, two for each success and what time pays for.
        #[test]
        fn retries_stay_within_their_share(steps in proptest::collection::vec((0u8..3, 0u64..5_000), 0..300)) {
            let mut now = Tick::default();
            let mut budget = Budget::new(&SETTINGS, now);
            let (mut successes, mut retries) = (0u32, 0u32);
            for (what, millis) in steps {
                now = now + Duration::from_millis(millis);
                if what == 0 {
                    budget.deposit(&SETTINGS, 0, now);
                    successes += 1;
                } else if budget.ready_at(&SETTINGS, 0, now) <= now {
                    budget.withdraw(&SETTINGS, 0, now);
                    retries += 1;
                }
                let allowed = 20.0 + 2.0 * f64::from(successes) + 0.5 * now.seconds_since(Tick::default());
                prop_assert!(f64::from(retries) <= allowed + 1e-6);
            }
        }
    }
}
