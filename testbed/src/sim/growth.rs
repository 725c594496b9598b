//! A growth limit knows how much more traffic is admitted than a while before. It does not know the level that is
//! allowed in the end.

use super::meter::Nanos;

/// Admits in each window at most `percent` of what came in the one before, and `floor` at least.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    per: Nanos,
    percent: u64,
    floor: u64,
    index: u64,
    before: u64,
    count: u64,
}

impl Growth {
    pub(crate) fn new(floor: u64, percent: u64, per: Nanos) -> Growth {
        Growth {
            per: per.max(1),
            percent,
            floor,
            index: 0,
            before: 0,
            count: 0,
        }
    }

    /// What the window of `now` has admitted, and the one before it.
    fn counts(&self, now: Nanos) -> (u64, u64) {
        match (now / self.per).saturating_sub(self.index) {
            0 => (self.count, self.before),
            1 => (0, self.count),
            _ => (0, 0),
        }
    }

    pub(crate) fn ready_at(&self, now: Nanos) -> Nanos {
        let (count, before) = self.counts(now);
        if count < self.floor.max(before.saturating_mul(self.percent) / 100) {
            now
        } else {
            (now / self.per + 1).saturating_mul(self.per)
        }
    }

    pub(crate) fn take(&mut self, now: Nanos) {
        let (count, before) = self.counts(now);
        (self.count, self.before) = (count + 1, before);
        self.index = self.index.max(now / self.per);
    }
}
