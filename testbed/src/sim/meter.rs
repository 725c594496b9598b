//! A meter knows how much of one limit is used at a moment. It does not know what is counted, or who is refused for it.

use super::bucket::Bucket;
use super::law::Law;
use super::sliding::Sliding;
use super::window::Window;

/// Nanoseconds since the start.
pub(crate) type Nanos = u64;

/// Not in any time.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// The state of one law. Times must not go back from one change to the next.
#[derive(Clone, Debug)]
pub(crate) enum Meter {
    Bucket(Bucket),
    Window(Window),
    Sliding(Sliding),
}

impl Meter {
    /// `phase` is how far the provider's clock is ahead of the time since the start.
    pub(crate) fn new(law: Law, phase: Nanos) -> Meter {
        match law {
            Law::Bucket { amount, per, burst } => Meter::Bucket(Bucket::new(amount, nanos(per), burst)),
            Law::Window { amount, per } => Meter::Window(Window::new(amount, nanos(per), phase)),
            Law::Sliding { amount, per } => Meter::Sliding(Sliding::new(amount, nanos(per))),
        }
    }

    /// The same, unused at `at`.
    pub(crate) fn starting_at(at: Nanos, law: Law, phase: Nanos) -> Meter {
        let mut meter = Meter::new(law, phase);
        // an empty charge brings it to that time
        meter.take(at, 0);
        meter
    }

    /// The first moment from `now` on at which `cost` fits, if nothing else comes; [`NEVER`] if it is more than the law
    /// ever allows.
    pub(crate) fn ready_at(&self, now: Nanos, cost: u64) -> Nanos {
        match self {
            Meter::Bucket(meter) => meter.ready_at(now, cost),
            Meter::Window(meter) => meter.ready_at(now, cost),
            Meter::Sliding(meter) => meter.ready_at(now, cost),
        }
    }

    /// Charges `cost`, into debt if need be.
    pub(crate) fn take(&mut self, now: Nanos, cost: u64) {
        match self {
            Meter::Bucket(meter) => meter.take(now, cost),
            Meter::Window(meter) => meter.take(now, cost),
            Meter::Sliding(meter) => meter.take(now, cost),
        }
    }

    /// Charges what was used little by little since the last change.
    pub(crate) fn drain(&mut self, now: Nanos, amount: u64) {
        match self {
            Meter::Bucket(meter) => meter.drain(now, amount),
            Meter::Window(meter) => meter.take(now, amount),
            Meter::Sliding(meter) => meter.take(now, amount),
        }
    }

    /// Takes back a part of what was charged at `taken`.
    pub(crate) fn give_back(&mut self, now: Nanos, taken: Nanos, amount: u64) {
        match self {
            Meter::Bucket(meter) => meter.give_back(now, amount),
            Meter::Window(meter) => meter.give_back(now, taken, amount),
            Meter::Sliding(meter) => meter.give_back(taken, amount),
        }
    }

    /// Counts a refused call against the limit, without driving it into debt.
    pub(crate) fn count_refusal(&mut self, now: Nanos) {
        match self {
            Meter::Bucket(meter) => meter.count_refusal(now),
            Meter::Window(meter) => meter.take(now, 1),
            Meter::Sliding(meter) => meter.count_refusal(now),
        }
    }

    /// What can still be had at `now`.
    pub(crate) fn remaining(&self, now: Nanos) -> u64 {
        match self {
            Meter::Bucket(meter) => meter.remaining(now),
            Meter::Window(meter) => meter.remaining(now),
            Meter::Sliding(meter) => meter.remaining(now),
        }
    }

    /// When all of the allowance is there again, if nothing else comes.
    pub(crate) fn full_at(&self, now: Nanos) -> Nanos {
        match self {
            Meter::Bucket(meter) => meter.full_at(now),
            Meter::Window(meter) => meter.full_at(now),
            Meter::Sliding(meter) => meter.full_at(now),
        }
    }
}

/// A duration in nanoseconds; five hundred years are for ever.
pub(crate) fn nanos(duration: std::time::Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(NEVER)
}
