//! A window knows what is used of an allowance that begins anew at fixed times. It does not know what is counted.

use super::meter::{NEVER, Nanos};

/// `amount` in each window of length `per`, which begin at multiples of `per` on a clock that is `phase` ahead.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    amount: u64,
    per: Nanos,
    phase: Nanos,
    /// Which window `used` is of.
    index: u64,
    used: u64,
}

impl Window {
    pub(crate) fn new(amount: u64, per: Nanos, phase: Nanos) -> Window {
        let per = per.max(1);
        Window {
            amount,
            per,
            phase,
            index: phase / per,
            used: 0,
        }
    }

    fn index_at(&self, at: Nanos) -> u64 {
        at.saturating_add(self.phase) / self.per
    }

    fn used(&self, now: Nanos) -> u64 {
        if self.index_at(now) > self.index { 0 } else { self.used }
    }

    /// The end of the window that `now` is in.
    pub(crate) fn end(&self, now: Nanos) -> Nanos {
        let next = (self.index_at(now) + 1).saturating_mul(self.per);
        next.saturating_sub(self.phase)
    }

    pub(crate) fn ready_at(&self, now: Nanos, cost: u64) -> Nanos {
        if cost > self.amount {
            NEVER
        } else if self.used(now).saturating_add(cost) <= self.amount {
            now
        } else {
            self.end(now)
        }
    }

    pub(crate) fn take(&mut self, now: Nanos, cost: u64) {
        self.used = self.used(now).saturating_add(cost);
        self.index = self.index.max(self.index_at(now));
    }

    /// A window that is over cannot be paid back.
    pub(crate) fn give_back(&mut self, now: Nanos, taken: Nanos, amount: u64) {
        if self.index_at(taken) == self.index_at(now) {
            self.used = self.used.saturating_sub(amount);
        }
    }

    pub(crate) fn remaining(&self, now: Nanos) -> u64 {
        self.amount.saturating_sub(self.used(now))
    }

    pub(crate) fn full_at(&self, now: Nanos) -> Nanos {
        if self.used(now) == 0 { now } else { self.end(now) }
    }
}
