//! The retry budget of a lane: retries may add a share to its load, no more. Knows no request.
//!
//! A retry that the account itself paces costs nothing: it waits its turn like any send. Every other is a bet that the
//! server is well again, and when it is not, bets are what keeps it down.

use std::time::Duration;

use super::tick::Tick;

/// What one retry costs, in the time that alone gives it back: a budget that only successes fill stays empty in an outage.
/// All is counted in time, so that no share is lost to rounding.
const RETRY: Duration = Duration::from_secs(10);
/// What a first attempt adds: one retry for five (Finagle's and the SRE book's 20 % and 10 % are for services; at a few calls
/// a minute a tenth would never be a whole retry).
const DEPOSIT: Duration = Duration::from_secs(2);
/// What a new lane may spend at once, and the most that is saved: a fresh client whose first call fails may retry it.
const RESERVE: Duration = Duration::from_secs(200);

/// What is left to spend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Budget {
    left: Duration,
    counted_at: Tick,
}

impl Budget {
    #[inline]
    pub(crate) const fn new(now: Tick) -> Self {
        Self {
            left: RESERVE,
            counted_at: now,
        }
    }

    fn credit(&self, now: Tick) -> Duration {
        self.left.saturating_add(now.since(self.counted_at)).min(RESERVE)
    }

    fn set(&mut self, left: Duration, now: Tick) {
        *self = Self {
            left: left.min(RESERVE),
            counted_at: self.counted_at.max(now),
        };
    }

    /// Retries that may be made now.
    #[inline]
    pub(crate) fn left(&self, now: Tick) -> f64 {
        self.credit(now).as_secs_f64() / RETRY.as_secs_f64()
    }

    /// A first attempt was made.
    #[inline]
    pub(crate) fn deposit(&mut self, now: Tick) {
        // the usual case: no more is saved
        if self.left == RESERVE {
            return;
        }
        self.set(self.credit(now) + DEPOSIT, now);
    }

    /// Takes one retry, if there is one.
    #[inline]
    pub(crate) fn withdraw(&mut self, now: Tick) -> bool {
        let credit = self.credit(now);
        let rest = credit.checked_sub(RETRY);
        self.set(rest.unwrap_or(credit), now);
        rest.is_some()
    }

    /// A retry that was paid for was not made.
    #[inline]
    pub(crate) fn refund(&mut self, now: Tick) {
        self.set(self.credit(now) + RETRY, now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drained(now: Tick) -> Budget {
        let mut budget = Budget::new(now);
        while budget.withdraw(now) {}
        budget
    }

    /// H10: one retry for five first attempts, whatever the number, and not one for each.
    #[test]
    fn the_ratio_is_exact() {
        let now = Tick::default();
        let mut budget = drained(now);
        let mut made = 0;
        for first_attempts in 1..=100_000 {
            budget.deposit(now);
            made += u32::from(budget.withdraw(now));
            assert_eq!(made, first_attempts / 5, "after {first_attempts}");
        }
    }

    /// H7: it fills again, by first attempts and by time alone.
    #[test]
    fn an_empty_budget_fills_again() {
        let start = Tick::default();
        let mut budget = drained(start);
        let later = start + RETRY;
        assert!(!budget.withdraw(later - Duration::from_nanos(1)));
        assert!(budget.withdraw(later) && !budget.withdraw(later));
        (0..100).for_each(|_| budget.deposit(later));
        assert_eq!((0..100).filter(|_| budget.withdraw(later)).count(), 20);
    }

    proptest! {
        /// Retries made never exceed the reserve, a fifth of the first attempts and one every ten seconds.
        #[test]
        fn retries_stay_within_their_share(steps in proptest::collection::vec((0u8..3, 0u64..5_000), 0..300)) {
            let mut now = Tick::default();
            let mut budget = Budget::new(now);
            let (mut firsts, mut retries, mut refunds, mut elapsed) = (0u64, 0u64, 0u64, Duration::ZERO);
            for (what, millis) in steps {
                now = now + Duration::from_millis(millis);
                elapsed += Duration::from_millis(millis);
                match what {
                    0 => { budget.deposit(now); firsts += 1 }
                    1 if retries > refunds => { budget.refund(now); refunds += 1 }
                    _ => retries += u64::from(budget.withdraw(now)),
                }
                let made = RETRY * u32::try_from(retries - refunds).unwrap();
                prop_assert!(made <= RESERVE + DEPOSIT * u32::try_from(firsts).unwrap() + elapsed);
            }
        }
    }
}
