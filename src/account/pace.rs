//! The start rate in one dimension: a token bucket that tells when the next start fits. Knows no queue and no provider.

use super::tick::{Span, Tick};

/// Lateness of a timer that is made up for. tokio's timer is a millisecond wide; without this, every wake-up's lateness is
/// lost, and at 1,000 starts a second half of the rate with it.
const SLACK: Span = Span::millis(5);
/// What rounding up twice adds, taken off again: it must not make a full bucket wait.
const ROUNDING: Span = Span::exactly(2);

/// Rates that differ by less are the same.
const SAME_RATE: f64 = 1e-6;

/// A bucket that fills at a steady rate and is drained by starts.
///
/// Nothing is divided where a start is looked at or paid for: what a rate comes to in nanoseconds is worked out when it is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bucket {
    /// Units a second, as they were given.
    rate: f64,
    /// Nanoseconds for one unit.
    interval: f64,
    /// The same for one start, rounded up.
    one: Span,
    /// Units that the full bucket holds, at least one.
    capacity: f64,
    /// How long it takes to fill.
    filling: Span,
    /// When it was (or will be) empty.
    empty_at: Tick,
}

impl Bucket {
    /// `rate` units a second, full from the start. A rate that is no positive number gives one unit a day.
    #[inline]
    pub(crate) fn new(rate: f64, capacity: f64, now: Tick) -> Self {
        let interval = interval(rate);
        let capacity = if capacity.is_finite() { capacity.max(1.0) } else { 1.0 };
        let filling = filling(interval, capacity);
        Self {
            rate,
            interval,
            one: Span::nanos(interval),
            capacity,
            filling,
            empty_at: now - filling,
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
        1e9 / self.interval
    }

    /// What is in it; negative if it is in debt.
    #[cfg(test)]
    pub(crate) fn level(&self, now: Tick) -> f64 {
        (1e9 * now.seconds_since(self.empty_at) / self.interval).min(self.capacity)
    }

    /// When a start of this weight fits. One that is heavier than the bucket waits until it is full, and goes into debt:
    /// it must be possible to send it at all.
    #[inline]
    pub(crate) fn ready_at(&self, weight: f64) -> Tick {
        self.empty_at + self.time_for(weight.min(self.capacity)) - ROUNDING
    }

    /// How long it takes for so much to flow in.
    #[inline]
    fn time_for(&self, units: f64) -> Span {
        // what most buckets are asked
        if units == 1.0 {
            self.one
        } else {
            Span::nanos(units * self.interval)
        }
    }

    /// When a start of this weight would fit behind others of `ahead` in all, the first of them now at the earliest.
    #[inline]
    pub(crate) fn ready_behind(&self, ahead: f64, weight: f64, now: Tick) -> Tick {
        if ahead <= 0.0 {
            return self.ready_at(weight);
        }
        let mut behind = *self;
        behind.charge(ahead, now);
        behind.ready_at(weight)
    }

    /// The next start is not made before then.
    pub(crate) fn hold_until(&mut self, at: Tick) {
        self.empty_at = self.empty_at.max(at - self.one);
    }

    /// Pays for a start.
    #[inline]
    pub(crate) fn charge(&mut self, weight: f64, now: Tick) {
        let full = now - self.filling - SLACK;
        self.empty_at = self.empty_at.max(full) + self.time_for(weight);
    }

    /// Gives back what was paid too much.
    pub(crate) fn refund(&mut self, units: f64, now: Tick) {
        let full = now - self.filling;
        self.empty_at = (self.empty_at + Span::nanos(-units * self.interval)).max(full);
    }

    /// From now on at another rate; what is in it stays in it.
    #[inline]
    pub(crate) fn set_rate(&mut self, rate: f64, now: Tick) {
        if self.rate != rate {
            self.change_rate(rate, now);
        }
    }

    fn change_rate(&mut self, rate: f64, now: Tick) {
        // one that grows all the while would be another at each look, and each time a start that is due would be put off by
        // what is lost in rounding, for ever
        if (rate / self.rate - 1.0).abs() < SAME_RATE {
            return;
        }
        let (old, new) = (self.interval, interval(rate));
        (self.rate, self.interval, self.one) = (rate, new, Span::nanos(new));
        self.filling = filling(new, self.capacity);
        let filled = 1e9 * now.seconds_since(self.empty_at);
        let late = (filled - self.capacity * old).clamp(0.0, SLACK.as_nanos());
        self.empty_at = now + Span::nanos(-(filled / old).min(self.capacity) * new - late);
    }
}

/// Nanoseconds for one unit.
fn interval(rate: f64) -> f64 {
    const DAY: f64 = 86_400e9;
    if rate > 0.0 { (1e9 / rate).min(DAY) } else { DAY }
}

/// How long it takes to fill: rounded down, so that what is full is not taken for almost full.
fn filling(interval: f64, capacity: f64) -> Span {
    Span::nanos((interval * capacity).floor())
}
