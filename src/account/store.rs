//! What goes between an account and the store that it shares with others, as data, and what the account knows of that store.
//! Knows neither Redis nor a connection.

use std::sync::Arc;
use std::time::Duration;

use super::lease::{Lease, Seat};
use super::limits::Weights;
use super::tick::Tick;

/// Of the local rate, while the store is away: others may be more than they are thought to be.
const AWAY: f64 = 0.8;
/// After a failure the store is tried again after so long, doubled each time.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LONGEST: Duration = Duration::from_secs(10);

/// How often something that is told has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Version(pub(crate) u64);

impl Version {
    pub(crate) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A limit as a store counts it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Scope {
    /// Starts a second.
    pub(crate) starts: Option<f64>,
    /// Tokens a second, and the most at once.
    pub(crate) input: Option<(f64, f64)>,
    pub(crate) output: Option<(f64, f64)>,
    pub(crate) day: Option<u64>,
    pub(crate) in_flight: Option<u32>,
}

impl Scope {
    pub(crate) fn is_free(&self) -> bool {
        *self == Self::default()
    }
}

/// The learnt rate of a lane, in the parts that it is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Learnt {
    pub(crate) base: f64,
    pub(crate) guard: f64,
    pub(crate) scale: f64,
    /// It is a guess, which grows until the next refusal.
    pub(crate) growing: bool,
}

/// Where a breaker stands, as others are told.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Circuit {
    pub(crate) open: bool,
    pub(crate) left: Duration,
    /// How long the outage has lasted so far.
    pub(crate) lasted: Duration,
    /// How long a probe is waited for, and whether it is then known to be one that says nothing.
    pub(crate) patience: Duration,
    pub(crate) silent: bool,
}

/// Failures in a row, with no success between them: how many, of how many calls, and for how long. One process's share of
/// it goes to the store as what has been added since, and the sum over all comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RowEvidence {
    pub(crate) failures: u32,
    pub(crate) calls: u32,
    pub(crate) lasted: Duration,
}

/// What is known of a lane, each with the version of it: the newer one counts, wherever it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Facts {
    pub(crate) pause: Duration,
    pub(crate) rate: (Version, Option<Learnt>),
    pub(crate) ceiling: (Version, Option<u32>),
    pub(crate) circuit: (Version, Circuit),
}

/// What an account asks of the store, for one lane.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Order {
    pub(crate) lane: u32,
    pub(crate) generation: u32,
    /// The name of the lane, and of the model if that has limits.
    pub(crate) name: u64,
    pub(crate) model: Option<Arc<str>>,
    /// The account, the model, the lane.
    pub(crate) account_limit: Scope,
    pub(crate) model_limit: Scope,
    pub(crate) lane_limit: Scope,
    pub(crate) wanted: u32,
    pub(crate) each: Weights,
    /// Tokens for one that is heavier than what is lent.
    pub(crate) top_up: Weights,
    /// Tokens that were lent and not used; less than nothing if more were used.
    pub(crate) settled: Weights,
    pub(crate) unused: u32,
    pub(crate) facts: Facts,
    /// It keeps to an open circuit: the starts that it wants are probes.
    pub(crate) holds: bool,
    pub(crate) row: RowEvidence,
    /// How long ago the last send that got through was made.
    pub(crate) succeeded: Option<Duration>,
    pub(crate) first_seat: u32,
    pub(crate) given_up: Vec<Seat>,
    pub(crate) held: Vec<Seat>,
    pub(crate) sent_at: Tick,
}

impl Order {
    /// The rate that its starts are lent at.
    pub(crate) fn rate(&self) -> Option<f64> {
        [&self.account_limit, &self.model_limit, &self.lane_limit]
            .into_iter()
            .filter_map(|limit| limit.starts)
            .reduce(f64::min)
    }

    /// Is a place in flight taken with each start?
    pub(crate) fn takes_seats(&self) -> bool {
        [&self.account_limit, &self.model_limit, &self.lane_limit]
            .iter()
            .any(|limit| limit.in_flight.is_some())
    }
}

/// What the store answers. Times are from the moment at which it did.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Reply {
    /// The store's own clock, in microseconds.
    pub(crate) clock: i64,
    pub(crate) live: u32,
    /// Not all that was wanted could be had: when it is worth to ask again.
    pub(crate) again: Option<Duration>,
    /// The start that is lent is the one that shows whether the breaker may close.
    pub(crate) probe: bool,
    pub(crate) charged: Duration,
    pub(crate) facts: Facts,
    /// The failures of all processes together.
    pub(crate) row: RowEvidence,
    /// Processes in which calls wait for an open circuit.
    pub(crate) held: u32,
    pub(crate) in_flight: u32,
    pub(crate) slots: Vec<Duration>,
}

impl Learnt {
    /// As others are told.
    pub(crate) fn text(&self) -> String {
        format!("{}:{}:{}:{}", self.base, self.guard, self.scale, u8::from(self.growing))
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text
            .split(':')
            .map(|part| part.parse::<f64>().ok().filter(|part| part.is_finite()));
        let learnt = Self {
            base: parts.next()??,
            guard: parts.next()??,
            scale: parts.next()??,
            growing: parts.next()?? == 1.0,
        };
        let sound =
            learnt.base > 0.0 && (0.0..=0.9).contains(&learnt.guard) && learnt.scale > 0.0 && learnt.scale <= 1.0;
        sound.then_some(learnt)
    }
}

impl Reply {
    /// Reads what the script gave: its fields with a blank between them. `None` if it is not what the script gives.
    pub(crate) fn read(text: &str) -> Option<Self> {
        fn span(text: &str) -> Option<Duration> {
            Some(Duration::from_micros(text.parse().ok()?))
        }
        let mut fields = text.split(' ');
        let mut next = || fields.next();
        let (clock, live) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let again = Some(span(next()?)?).filter(|again| !again.is_zero());
        let (probe, charged, pause) = (next()? == "1", span(next()?)?, span(next()?)?);
        let rate = (Version(next()?.parse().ok()?), Learnt::read(next()?));
        let ceiling_version = Version(next()?.parse().ok()?);
        let ceiling = Some(next()?.parse().ok()?).filter(|most| *most > 0);
        let circuit_version = Version(next()?.parse().ok()?);
        let circuit = Circuit {
            open: next()? == "1",
            left: span(next()?)?,
            lasted: span(next()?)?,
            patience: span(next()?)?,
            silent: next()? == "1",
        };
        let row = RowEvidence {
            failures: next()?.parse().ok()?,
            calls: next()?.parse().ok()?,
            lasted: span(next()?)?,
        };
        let held = next()?.parse().ok()?;
        let (in_flight, slots) = (next()?.parse().ok()?, next()?);
        let slots = slots.split(',').filter(|due| !due.is_empty()).map(span);
        Some(Self {
            clock,
            live,
            again,
            probe,
            charged,
            facts: Facts {
                pause,
                rate,
                ceiling: (ceiling_version, ceiling),
                circuit: (circuit_version, circuit),
            },
            row,
            held,
            in_flight,
            slots: slots.collect::<Option<_>>()?,
        })
    }
}

/// What a lane has from the store, and what it has told it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tie {
    pub(crate) lease: Lease,
    /// What has been told, or heard, last.
    pub(crate) facts: Facts,
    /// Where the breaker stood when that was told or heard.
    pub(crate) mark: Option<Tick>,
    /// It has changed, though its mark has not.
    pub(crate) circuit_changed: bool,
    /// The store has lent the probe.
    pub(crate) may_probe: bool,
    /// Processes in which calls wait for the open circuit, this one included.
    pub(crate) held_processes: u32,
    /// The part of a row of failures that has been told, and when that row began.
    pub(crate) told_row: (Tick, RowEvidence),
    /// When the last send that got through was made.
    pub(crate) succeeded_at: Option<Tick>,
    /// Something is to be told soon.
    pub(crate) news: bool,
    pub(crate) asked_at: Option<Tick>,
    pub(crate) renewed_at: Option<Tick>,
    pub(crate) again_at: Tick,
    /// With no more than so many lent, more are asked for.
    pub(crate) low: u32,
    /// Starts of the day that were lent and forfeited.
    pub(crate) unused: u32,
    /// Those in flight, those that are there no more, and those of an order whose end is not known.
    pub(crate) held: Vec<Seat>,
    pub(crate) given_up: Vec<Seat>,
    /// In flight everywhere, if that is counted.
    pub(crate) everywhere: u32,
}

impl Tie {
    /// Whoever was in flight is so no longer.
    pub(crate) fn give_up(&mut self, seat: Seat) {
        if let Some(at) = self.held.iter().position(|held| *held == seat) {
            self.held.swap_remove(at);
            self.given_up.push(seat);
            self.news = true;
        }
    }

    /// Gives back all starts that are lent: while nothing gets through, none may be made but the probe.
    pub(crate) fn return_starts(&mut self) {
        self.may_probe = false;
        while let Some(slot) = self.lease.give_back() {
            self.unused += 1;
            if let Some(seat) = slot.seat {
                self.give_up(seat);
            }
        }
    }

    /// Forfeits what is too late.
    pub(crate) fn forfeit(&mut self, now: Tick) {
        while let Some(slot) = self.lease.forfeit(now) {
            self.unused += 1;
            if let Some(seat) = slot.seat {
                self.give_up(seat);
            }
        }
    }
}

/// How an account stands to its store.
#[derive(Debug, Clone)]
pub(crate) struct Sharing {
    /// The store is away: since when it was tried in vain how often, and when it is tried again.
    pub(crate) away: Option<Away>,
    /// Processes that share it, and the fewest that are thought to.
    pub(crate) live: u32,
    pub(crate) fewest: u32,
    /// What is to be added to the store's clock, in nanoseconds.
    offset: Option<i64>,
    pub(crate) next_seat: u32,
    /// There is something to ask of the store.
    pub(crate) due: bool,
    /// To be told with the next answer.
    pub(crate) untold: bool,
    /// Which lane is looked at first.
    pub(crate) turn: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Away {
    pub(crate) failures: u32,
    pub(crate) retry_at: Tick,
}

impl Sharing {
    pub(crate) fn new(fewest: u32) -> Self {
        Self {
            away: None,
            live: 1,
            fewest: fewest.max(1),
            offset: None,
            next_seat: 1,
            due: false,
            untold: false,
            turn: 0,
        }
    }

    /// The part of each limit that is this process's own while the store is away.
    #[cold]
    pub(crate) fn share(&self) -> f64 {
        match self.away {
            Some(_) => AWAY / f64::from(self.processes()),
            None => 1.0,
        }
    }

    pub(crate) fn processes(&self) -> u32 {
        self.live.max(self.fewest)
    }

    /// The moment at which the store answered, on the own clock. It lies between the question and the answer, so that the
    /// difference of the clocks is known the better the more was asked, and a clock that is put right is noticed at once.
    pub(crate) fn answered_at(&mut self, clock: i64, sent_at: Tick, received_at: Tick) -> Tick {
        let store = clock.saturating_mul(1_000);
        let (least, most) = (
            sent_at.nanos().saturating_sub(store),
            received_at.nanos().saturating_sub(store),
        );
        let offset = self.offset.unwrap_or(most).max(least).min(most);
        self.offset = Some(offset);
        Tick::of_nanos(store.saturating_add(offset))
    }

    /// It was tried in vain. True if that is the first time.
    pub(crate) fn failed(&mut self, now: Tick) -> bool {
        let failures = self.away.map_or(0, |away| away.failures);
        let pause = RETRY_FIRST
            .saturating_mul(2u32.saturating_pow(failures))
            .min(RETRY_LONGEST);
        self.away = Some(Away {
            failures: failures.saturating_add(1),
            retry_at: now + pause,
        });
        failures == 0
    }

    /// Numbers for so many places, none of them zero.
    pub(crate) fn seats(&mut self, number: u32) -> u32 {
        if self.next_seat.checked_add(number).is_none() {
            self.next_seat = 1;
        }
        let first = self.next_seat;
        self.next_seat += number;
        first
    }
}

/// Others hear of what is told within so long, while a lane is in use: well within what is lent ahead.
pub(crate) const LISTEN: Duration = Duration::from_millis(500);
/// The same while its sends fail or its calls are held, so that all stop together and go on together.
pub(crate) const LISTEN_IN_OUTAGE: Duration = Duration::from_millis(100);
/// For so long after its last start.
pub(crate) const IN_OUTAGE: Duration = Duration::from_secs(2);
/// The failures of all processes are counted together once those that are in use have all had the time to contradict.
pub(crate) const HEARD_BY_ALL: Duration = Duration::from_millis(600);
/// And while it is not, so that it counts as one of those that share.
pub(crate) const LISTEN_IDLE: Duration = Duration::from_secs(5);
/// A place in flight lasts ten seconds at the store, and is renewed after so long.
pub(crate) const RENEW: Duration = Duration::from_millis(2_500);
/// A lane that was not used for so long is not spoken of any more.
pub(crate) const FORGOTTEN: Duration = Duration::from_secs(60);
/// A pause that is no longer than known by more than this is the same one, seen by another clock.
pub(crate) const SAME_PAUSE: Duration = Duration::from_millis(50);
/// A lane is in use for so long after its last start.
pub(crate) const IN_USE: Duration = Duration::from_secs(10);
/// Between two questions about a lane: what comes together is asked together.
pub(crate) const TOGETHER: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &str =
        "1700000000000000 4 0 0 0 1500000 3 2:0.01:0.5:0 1 7 2 1 5000000 2 400000 0 9 5 700000 2 3 0,10000,20000";

    #[test]
    fn an_answer_is_read_as_the_script_writes_it() {
        let reply = Reply::read(REPLY).unwrap();
        assert_eq!((reply.live, reply.again, reply.probe), (4, None, false));
        assert_eq!(reply.facts.pause, Duration::from_millis(1_500));
        let learnt = Learnt {
            base: 2.0,
            guard: 0.01,
            scale: 0.5,
            growing: false,
        };
        assert_eq!(reply.facts.rate, (Version(3), Some(learnt)));
        assert_eq!(Learnt::read(&learnt.text()), Some(learnt));
        assert_eq!(reply.facts.ceiling, (Version(1), Some(7)));
        let circuit = reply.facts.circuit.1;
        assert!(circuit.open && circuit.left == Duration::from_secs(5) && circuit.lasted == Duration::from_micros(2));
        assert!(!circuit.silent && circuit.patience == Duration::from_millis(400));
        let row = RowEvidence {
            failures: 9,
            calls: 5,
            lasted: Duration::from_millis(700),
        };
        assert_eq!((reply.row, reply.held), (row, 2));
        assert_eq!((reply.in_flight, reply.slots.len()), (3, 3));
    }

    /// Whatever has been written into the keys: it is no answer, and no panic either.
    #[test]
    fn what_is_no_answer_is_none() {
        for text in [
            "",
            "x",
            "1 2",
            &REPLY[..40],
            &REPLY.replace("10000", "-1"),
            &REPLY.replace("17", "nan"),
        ] {
            assert_eq!(Reply::read(text), None, "{text}");
        }
        for rate in [
            "-",
            "0:0:1:0",
            "nan:0:1:0",
            "2:0.1",
            "inf:0:1:0",
            "2:0.95:1:0",
            "2:0:7:0",
        ] {
            assert_eq!(Learnt::read(rate), None, "{rate}");
        }
    }

    #[test]
    fn clocks_are_known_the_better_the_more_is_asked_and_may_be_put_right() {
        let mut sharing = Sharing::new(1);
        let ms = |millis: i64| Tick::of_nanos(millis * 1_000_000);
        // the store's clock is 1,000 s ahead; a slow answer says that within its time
        let store = |millis: i64| (1_000_000 + millis) * 1_000;
        assert_eq!(sharing.answered_at(store(50), ms(0), ms(80)), ms(80));
        assert_eq!(sharing.answered_at(store(101), ms(100), ms(102)), ms(102));
        // and what is known is kept when answers are slow again
        assert_eq!(sharing.answered_at(store(250), ms(200), ms(300)), ms(251));
        let back = |millis: i64| store(millis - 3_600_000);
        assert_eq!(sharing.answered_at(back(401), ms(400), ms(402)), ms(400));
        assert_eq!(sharing.answered_at(store(501), ms(500), ms(502)), ms(502));
    }

    #[test]
    fn a_store_that_is_away_is_tried_less_and_less_often() {
        let mut sharing = Sharing::new(4);
        assert_eq!(sharing.share(), 1.0);
        let now = Tick::default();
        assert!(sharing.failed(now) && !sharing.failed(now));
        (0..40).for_each(|_| assert!(!sharing.failed(now)));
        assert_eq!(sharing.away.unwrap().retry_at, now + RETRY_LONGEST);
        assert!((sharing.share() - 0.2).abs() < 1e-9);
    }
}
