//! A sliding window knows what was used in the last stretch of time. It does not know what is counted.

use std::collections::VecDeque;

use super::meter::{NEVER, Nanos};

/// `amount` in any stretch of length `per`: what was used at one moment is free again exactly `per` later.
#[derive(Clone, Debug)]
pub(crate) struct Sliding {
    amount: u64,
    per: Nanos,
    log: VecDeque<(Nanos, u64)>,
    used: u64,
}

impl Sliding {
    pub(crate) fn new(amount: u64, per: Nanos) -> Sliding {
        Sliding {
            amount,
            per,
            log: VecDeque::new(),
            used: 0,
        }
    }

    fn forget(&mut self, now: Nanos) {
        while let Some(&(at, cost)) = self.log.front() {
            if at.saturating_add(self.per) > now {
                break;
            }
            self.used -= cost;
            self.log.pop_front();
        }
    }

    pub(crate) fn ready_at(&self, now: Nanos, cost: u64) -> Nanos {
        if cost > self.amount {
            return NEVER;
        }
        let mut used = self.used;
        for &(at, spent) in &self.log {
            let free = at.saturating_add(self.per);
            if free > now && used.saturating_add(cost) <= self.amount {
                return now;
            }
            used -= spent;
            if free > now && used.saturating_add(cost) <= self.amount {
                return free;
            }
        }
        now
    }

    pub(crate) fn take(&mut self, now: Nanos, cost: u64) {
        self.forget(now);
        if cost > 0 {
            self.log.push_back((now, cost));
            self.used = self.used.saturating_add(cost);
        }
    }

    pub(crate) fn give_back(&mut self, taken: Nanos, amount: u64) {
        let first = self.log.partition_point(|(at, _)| *at < taken);
        let mut left = amount;
        for (at, cost) in self.log.range_mut(first..) {
            if *at > taken || left == 0 {
                break;
            }
            let back = left.min(*cost);
            *cost -= back;
            left -= back;
            self.used -= back;
        }
    }

    /// What is older than the newest `amount` can no longer decide anything, and is forgotten: else a client that does
    /// not stop would make the log grow without end.
    pub(crate) fn count_refusal(&mut self, now: Nanos) {
        self.take(now, 1);
        while let Some(&(_, cost)) = self.log.front() {
            if self.used - cost < self.amount {
                break;
            }
            self.used -= cost;
            self.log.pop_front();
        }
    }

    pub(crate) fn remaining(&self, now: Nanos) -> u64 {
        // Few entries are over at any time, since each change forgets them.
        let over = self.log.iter().take_while(|(at, _)| at.saturating_add(self.per) <= now);
        let over: u64 = over.map(|(_, cost)| cost).sum();
        self.amount.saturating_sub(self.used - over)
    }

    pub(crate) fn full_at(&self, now: Nanos) -> Nanos {
        match self.log.back() {
            Some((at, _)) => at.saturating_add(self.per).max(now),
            None => now,
        }
    }
}
