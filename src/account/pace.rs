//! The start rate in one dimension: a token bucket that tells when the next start fits. Knows no queue and no provider.

use std::time::Duration;

use super::tick::Tick;

/// Lateness of a timer that is made up for. tokio's timer is a millisecond wide; without this, every wake-up's lateness is
/// lost, and at 1,000 starts a second half of the rate with it.
const SLACK: Duration = Duration::from_millis(5);

/// A bucket that fills at a steady rate and is drained by starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bucket {
    /// Seconds for one unit.
    interval: f64,
    /// Units that the full bucket holds, at least one.
    capacity: f64,
    /// When it was (or will be) empty.
    empty_at: Tick,
}

impl Bucket {
    /// `rate` units a second, full from the start. A rate that is no positive number gives one unit a day.
    #[inline]
    pub(crate) fn new(rate: f64, capacity: f64, now: Tick) -> Self {
        let interval = interval(rate);
        let capacity = if capacity.is_finite() { capacity.max(1.0) } else { 1.0 };
        Self {
            interval,
            capacity,
            empty_at: now.plus_seconds(-capacity * interval),
        }
    }

    /// Units that the full bucket holds.
    #[inline]
    pub(crate) const fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Units a second.
    #[inline]
    pub(crate) fn rate(&self) -> f64 {
        1.0 / self.interval
    }

    /// What is in it; negative if it is in debt.
    #[cfg(test)]
    pub(crate) fn level(&self, now: Tick) -> f64 {
        (now.seconds_since(self.empty_at) / self.interval).min(self.capacity)
    }

    /// When a start of this weight fits. One that is heavier than the bucket waits until it is full, and goes into debt:
    /// it must be possible to send it at all.
    pub(crate) fn ready_at(&self, weight: f64) -> Tick {
        // what rounding up twice adds must not make a full bucket wait
        self.empty_at.plus_seconds(weight.min(self.capacity) * self.interval) - Duration::from_nanos(2)
    }

    /// When a start of this weight would fit behind others of `ahead` in all, the first of them now at the earliest.
    pub(crate) fn ready_behind(&self, ahead: f64, weight: f64, now: Tick) -> Tick {
        if ahead <= 0.0 {
            return self.ready_at(weight);
        }
        let mut behind = *self;
        behind.charge(ahead, now);
        behind.ready_at(weight)
    }

    /// Pays for a start.
    pub(crate) fn charge(&mut self, weight: f64, now: Tick) {
        let full = now.plus_seconds(-self.capacity * self.interval) - SLACK;
        self.empty_at = self.empty_at.max(full).plus_seconds(weight * self.interval);
    }

    /// Gives back what was paid too much.
    pub(crate) fn refund(&mut self, units: f64, now: Tick) {
        let full = now.plus_seconds(-self.capacity * self.interval);
        self.empty_at = self.empty_at.plus_seconds(-units * self.interval).max(full);
    }

    /// Gives back what a start of this weight paid at `paid_at`, since it was not made: but for what has come back in the
    /// meantime anyway, which a full bucket would not have kept.
    pub(crate) fn take_back(&mut self, weight: f64, paid_at: Tick, now: Tick) {
        let refilled = now.seconds_since(paid_at).max(0.0) / self.interval;
        self.refund((weight - refilled).max(0.0), now);
    }

    /// From now on at another rate; what is in it stays in it.
    pub(crate) fn set_rate(&mut self, rate: f64, now: Tick) {
        let (old, new) = (self.interval, interval(rate));
        if old == new {
            return;
        }
        self.interval = new;
        let filling = now.seconds_since(self.empty_at);
        let late = (filling - self.capacity * old).clamp(0.0, SLACK.as_secs_f64());
        self.empty_at = now.plus_seconds(-(filling / old).min(self.capacity) * new - late);
    }
}

fn interval(rate: f64) -> f64 {
    const DAY: f64 = 86_400.0;
    if rate > 0.0 { (1.0 / rate).min(DAY) } else { DAY }
}
