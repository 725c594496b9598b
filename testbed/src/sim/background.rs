//! A background knows the calls of somebody else on the same account. It does not know the limits that they go through.

use super::meter::Nanos;

/// Calls that arrive evenly, `calls` in each `per`, the first after half an interval. One that does not fit waits at the
/// provider, ahead of everybody: its share cannot be taken from it, so what is left for others is a plain number.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    calls: u128,
    per: u128,
    next: u128,
}

impl Background {
    pub(crate) fn new(calls: u64, per: Nanos) -> Background {
        Background {
            calls: u128::from(calls.max(1)),
            per: u128::from(per),
            next: 0,
        }
    }

    /// When the next call arrives, or has arrived if it is waiting.
    pub(crate) fn next(&self) -> Nanos {
        let at = (2 * self.next + 1) * self.per / (2 * self.calls);
        Nanos::try_from(at).unwrap_or(Nanos::MAX)
    }

    /// The next call has got through.
    pub(crate) fn pass(&mut self) {
        self.next += 1;
    }
}
