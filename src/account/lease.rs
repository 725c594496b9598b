//! What a process has been lent of an allowance that others share: starts with their times, and tokens for them. Knows neither
//! who lent it nor who waits.
//!
//! A start that is lent is spent at its time or a little later, and then it is forfeited: kept for later, the starts of a
//! process that was slow would come all at once.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use super::limits::Weights;
use super::tick::Tick;

/// Nothing is lent for later than this: a process that dies takes no more with it, and a pause reaches everybody within it.
pub(crate) const HORIZON: Duration = Duration::from_secs(1);
/// What a process is lent at once is about what it starts in so long, so that the number of its requests to the store does
/// not grow with its rate, and all that is lent lies well within the horizon.
const SPELL: f64 = 0.25;
/// And no more than this.
const MOST: f64 = 64.0;
/// A start may be late by so long, and by the time to the next one: with it no second has more than 2 % and one start above the
/// rate, and without it whatever a busy machine wakes up too late would be lost.
const LATE: f64 = 0.015;
/// A probe may be late by half of the time after which its process is taken for dead.
const PROBE_LATE: f64 = 0.5;

/// A place among those in flight everywhere; the number is the process's own.
pub(crate) type Seat = NonZeroU32;

/// A start that is lent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slot {
    pub(crate) due: Tick,
    pub(crate) seat: Option<Seat>,
}

/// What one lane has been lent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lease {
    slots: VecDeque<Slot>,
    /// Tokens to spend; less than nothing if answers took more than was reserved for them.
    tokens: Weights,
    /// Not before then.
    tokens_due: Tick,
    /// How late a start may be, in seconds.
    late: f64,
}

impl Lease {
    /// Starts to ask for at once, of a process that is one of `live` and of a limit of so many a second, if there is one.
    pub(crate) fn size(rate: Option<f64>, live: u32) -> u32 {
        let share = rate.unwrap_or(f64::INFINITY) / f64::from(live.max(1));
        (share * SPELL).clamp(1.0, MOST) as u32
    }

    /// Starts that are lent and not spent.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// When the next start may be made, if enough is lent for one of these weights.
    pub(crate) fn ready_at(&self, weights: Weights) -> Option<Tick> {
        let slot = self.slots.front()?;
        let lent = !self.lacks(weights);
        lent.then(|| slot.due.max(self.tokens_due))
    }

    /// Is it too few tokens for such a start?
    pub(crate) fn lacks(&self, weights: Weights) -> bool {
        let short = self.shortage(weights);
        short.input > 0.0 || short.output > 0.0
    }

    /// Tokens that such a start wants beyond those that are lent. What is lost in rounding is no want.
    pub(crate) fn shortage(&self, weights: Weights) -> Weights {
        let short = |wanted: f64, lent: f64| {
            let short = wanted - lent.max(0.0);
            if wanted > 0.0 && short > 1e-6 * wanted {
                wanted - lent
            } else {
                0.0
            }
        };
        Weights {
            input: short(weights.input, self.tokens.input),
            output: short(weights.output, self.tokens.output),
        }
    }

    /// Spends a start.
    pub(crate) fn spend(&mut self, weights: Weights) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.tokens.input -= weights.input;
        self.tokens.output -= weights.output;
        Some(slot)
    }

    /// Gives back, or if negative takes, tokens.
    pub(crate) fn refund(&mut self, tokens: Weights) {
        self.tokens.input += tokens.input;
        self.tokens.output += tokens.output;
    }

    /// Something is lent: starts, each with so many tokens, at a rate of so many a second.
    pub(crate) fn lend(&mut self, slots: impl IntoIterator<Item = Slot>, each: Weights, rate: Option<f64>) {
        self.late = LATE + rate.map_or(0.0, |rate| 1.0 / rate.max(1e-3));
        for slot in slots {
            self.slots.push_back(slot);
            self.refund(each);
        }
    }

    /// What is lent is a probe, which is waited for: it may be as late.
    pub(crate) fn lend_probe(&mut self) {
        self.late = PROBE_LATE;
    }

    /// Tokens alone are lent, for then.
    pub(crate) fn top_up(&mut self, tokens: Weights, due: Tick) {
        self.refund(tokens);
        self.tokens_due = self.tokens_due.max(due);
    }

    /// Whatever is lent in tokens, or owed, is no longer.
    pub(crate) fn settle(&mut self) -> Weights {
        std::mem::take(&mut self.tokens)
    }

    /// A start that is not to be made after all.
    pub(crate) fn give_back(&mut self) -> Option<Slot> {
        self.slots.pop_front()
    }

    /// The next start that is too late to be made.
    pub(crate) fn forfeit(&mut self, now: Tick) -> Option<Slot> {
        let late = self.late;
        let late = self
            .slots
            .front()
            .is_some_and(|slot| now.seconds_since(slot.due) > late);
        late.then(|| self.slots.pop_front()).flatten()
    }

    /// When the last start that is lent is due.
    pub(crate) fn last_due(&self) -> Option<Tick> {
        self.slots.back().map(|slot| slot.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(dues: impl IntoIterator<Item = f64>) -> Vec<Slot> {
        let slot = |due| Slot {
            due: Tick::default().plus_seconds(due),
            seat: None,
        };
        dues.into_iter().map(slot).collect()
    }

    #[test]
    fn a_lease_is_a_quarter_of_a_second_of_ones_share() {
        let sizes = [2.0, 100.0, 1_000.0].map(|rate| Lease::size(Some(rate), 4));
        assert_eq!(sizes, [1, 6, 62]);
        assert_eq!(Lease::size(Some(100_000.0), 1), 64);
        assert_eq!(Lease::size(None, 3), 64);
        assert_eq!(Lease::size(Some(0.0), 0), 1);
    }

    /// A process that slept does not make all its starts at once when it wakes up.
    #[test]
    fn a_start_that_is_too_late_is_forfeited() {
        let mut lease = Lease::default();
        lease.lend(slots([0.0, 0.01, 0.02, 5.0]), Weights::default(), Some(100.0));
        let now = Tick::default().plus_seconds(0.045);
        let mut lost = 0;
        while lease.forfeit(now).is_some() {
            lost += 1;
        }
        assert_eq!((lost, lease.len()), (2, 2), "late by 45 and 35 ms, and by 25");
    }

    #[test]
    fn a_start_heavier_than_its_tokens_wants_more_and_waits_for_them() {
        let mut lease = Lease::default();
        let each = Weights {
            input: 100.0,
            output: 0.0,
        };
        lease.lend(slots([0.0, 0.1]), each, Some(10.0));
        let heavy = Weights {
            input: 500.0,
            output: 0.0,
        };
        assert_eq!(lease.ready_at(heavy), None);
        let short = lease.shortage(heavy);
        assert!((short.input - 300.0).abs() < 1e-9, "{short:?}");
        let due = Tick::default().plus_seconds(2.0);
        lease.top_up(short, due);
        assert_eq!(lease.ready_at(heavy), Some(due));
        assert!(lease.spend(heavy).is_some() && lease.lacks(each));
    }

    #[test]
    fn what_answers_took_beyond_their_reserve_is_asked_for_too() {
        let mut lease = Lease::default();
        lease.refund(Weights {
            input: -50.0,
            output: 0.0,
        });
        let next = Weights {
            input: 100.0,
            output: 0.0,
        };
        assert_eq!(lease.shortage(next).input, 150.0);
        assert_eq!(lease.settle().input, -50.0);
        assert_eq!(lease.shortage(next).input, 100.0);
    }
}
