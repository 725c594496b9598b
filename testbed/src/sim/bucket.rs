//! A bucket knows the level of a token bucket, exactly. It does not know what its tokens stand for.

use super::meter::{NEVER, Nanos};

/// A token bucket in whole numbers: a token is `per` units, and `amount` units come back in each nanosecond.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    amount: i128,
    per: i128,
    full: i128,
    level: i128,
    at: Nanos,
}

impl Bucket {
    pub(crate) fn new(amount: u64, per: Nanos, burst: u64) -> Bucket {
        let full = i128::from(burst) * i128::from(per);
        Bucket {
            amount: i128::from(amount),
            per: i128::from(per),
            full,
            level: full,
            at: 0,
        }
    }

    fn level(&self, now: Nanos) -> i128 {
        let back = self.amount * i128::from(now.saturating_sub(self.at));
        (self.level + back).min(self.full)
    }

    /// When the level is `level` or more.
    fn reaches(&self, now: Nanos, level: i128) -> Nanos {
        let missing = level - self.level(now);
        if missing <= 0 {
            now
        } else if self.amount == 0 {
            NEVER
        } else {
            let wait = (missing + self.amount - 1) / self.amount;
            now.saturating_add(Nanos::try_from(wait).unwrap_or(NEVER))
        }
    }

    pub(crate) fn ready_at(&self, now: Nanos, cost: u64) -> Nanos {
        let cost = i128::from(cost) * self.per;
        if cost > self.full {
            NEVER
        } else {
            self.reaches(now, cost)
        }
    }

    /// Takes what was used little by little since the last change: what came back and what was taken
    /// meanwhile are set off against each other, so that nothing is lost to an overflow that did not happen.
    pub(crate) fn drain(&mut self, now: Nanos, cost: u64) {
        let back = self.amount * i128::from(now.saturating_sub(self.at));
        self.level = (self.level + back - i128::from(cost) * self.per).min(self.full);
        self.at = self.at.max(now);
    }

    pub(crate) fn take(&mut self, now: Nanos, cost: u64) {
        self.level = self.level(now) - i128::from(cost) * self.per;
        self.at = self.at.max(now);
    }

    pub(crate) fn give_back(&mut self, now: Nanos, amount: u64) {
        self.level = (self.level(now) + i128::from(amount) * self.per).min(self.full);
        self.at = self.at.max(now);
    }

    pub(crate) fn count_refusal(&mut self, now: Nanos) {
        let level = self.level(now);
        self.level = (level - self.per).max(level.min(0));
        self.at = self.at.max(now);
    }

    pub(crate) fn remaining(&self, now: Nanos) -> u64 {
        u64::try_from(self.level(now).max(0) / self.per.max(1)).unwrap_or(u64::MAX)
    }

    pub(crate) fn full_at(&self, now: Nanos) -> Nanos {
        self.reaches(now, self.full)
    }
}
