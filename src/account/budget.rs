//! The retry budget of a lane: retries may add a share to its load, no more. Knows no request.
//!
//! A retry that the account itself paces costs nothing: it waits its turn like any send. Every other is a bet that the
//! server is well again, and when it is not, bets are what keeps it down.

use super::tick::Tick;

/// Retries per first attempt (Finagle's and the SRE book's 20 % and 10 % are for services; at a few calls a minute a tenth
/// would never be a whole retry).
const SHARE: f64 = 0.2;
/// What a new lane may spend at once, and the most that is saved: a fresh client whose first call fails may retry it.
const RESERVE: f64 = 20.0;
/// What time alone gives back, a second: a budget that only successes fill stays empty in an outage.
const BY_TIME: f64 = 0.1;

/// What is left to spend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Budget {
    left: f64,
    counted_at: Tick,
}

impl Budget {
    pub(crate) const fn new(now: Tick) -> Self {
        Self {
            left: RESERVE,
            counted_at: now,
        }
    }

    /// Retries that may be made now.
    pub(crate) fn left(&self, now: Tick) -> f64 {
        let by_time = now.seconds_since(self.counted_at).max(0.0) * BY_TIME;
        (self.left + by_time).min(RESERVE)
    }

    /// A first attempt was made.
    pub(crate) fn deposit(&mut self, now: Tick) {
        *self = Self {
            left: (self.left(now) + SHARE).min(RESERVE),
            counted_at: now,
        };
    }

    /// Takes one retry, if there is one.
    pub(crate) fn withdraw(&mut self, now: Tick) -> bool {
        let left = self.left(now);
        let enough = left >= 1.0;
        *self = Self {
            left: if enough { left - 1.0 } else { left },
            counted_at: now,
        };
        enough
    }
}
