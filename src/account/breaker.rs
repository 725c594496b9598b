//! The circuit breaker of a lane: after repeated failures nothing is sent for a while, then one probe. Knows no request.

use std::time::Duration;

use super::store::Circuit;
use super::tick::Tick;

/// This many failures in a row open it.
const IN_A_ROW: u32 = 5;
/// Or failures for half of at least so many answers in half a minute, counted in steps.
const ENOUGH: u32 = 10;
const STEP_SECONDS: u64 = 3;
const STEPS: usize = 10;
/// The first time it opens for this long, doubled each time a probe fails.
const OPEN_FIRST: Duration = Duration::from_secs(5);
const OPEN_LONGEST: Duration = Duration::from_secs(60);
/// A probe that has said nothing for this long is not waited for: another may go.
const LEASE: Duration = Duration::from_secs(60);

/// Where a breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// All may pass.
    Closed,
    /// None may pass until then.
    Open(Tick),
    /// One probe may pass, unless one is on its way; that one is waited for until then.
    HalfOpen { probing: Option<Tick> },
}

/// What came of an attempt, as far as a breaker cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// Served, or refused for the caller's own reasons: the server is well.
    Well,
    /// A server error, an overload, a broken connection.
    Ill,
    /// Neither (a rate limit): says nothing about the server's health.
    Silent,
}

/// A generation of a breaker: what was sent in an earlier one does not decide this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass {
    generation: u32,
    probe: bool,
}

impl Pass {
    /// Of what was sent before anything was known.
    pub(crate) const EARLY: Self = Self {
        generation: 0,
        probe: false,
    };

    #[inline]
    pub(crate) const fn is_probe(self) -> bool {
        self.probe
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Breaker {
    position: Position,
    generation: u32,
    in_a_row: u32,
    counts: Counts,
    /// How often it has opened without a success between.
    openings: u32,
}

impl Breaker {
    #[inline]
    pub(crate) fn new(now: Tick) -> Self {
        Self {
            position: Position::Closed,
            generation: 0,
            in_a_row: 0,
            counts: Counts::new(now),
            openings: 0,
        }
    }

    /// Where it stands, once time has had its say.
    #[inline]
    pub(crate) fn position(&self, now: Tick) -> Position {
        match self.position {
            Position::Open(until) | Position::HalfOpen { probing: Some(until) } if until <= now => {
                Position::HalfOpen { probing: None }
            }
            position => position,
        }
    }

    /// Nothing may pass now, and when that is worth to be asked again.
    #[inline]
    pub(crate) fn shut_until(&self, now: Tick) -> Option<Tick> {
        match self.position(now) {
            Position::Open(until) | Position::HalfOpen { probing: Some(until) } => Some(until),
            Position::Closed | Position::HalfOpen { probing: None } => None,
        }
    }

    /// Lets an attempt pass; to be called only if it may.
    #[inline]
    pub(crate) fn pass(&mut self, now: Tick) -> Pass {
        let probe = matches!(self.position(now), Position::HalfOpen { probing: None });
        if probe {
            self.position = Position::HalfOpen {
                probing: Some(now + LEASE),
            };
            // whatever is still on its way is of an earlier one, a probe that was given up on included
            self.generation = self.generation.wrapping_add(1);
        }
        Pass {
            generation: self.generation,
            probe,
        }
    }

    /// Where it stands, as others are told.
    pub(crate) fn circuit(&self, now: Tick) -> Circuit {
        let until = match self.position {
            Position::Closed => None,
            Position::Open(until) | Position::HalfOpen { probing: Some(until) } => Some(until),
            Position::HalfOpen { probing: None } => Some(now),
        };
        Circuit {
            open: until.is_some(),
            left: until.map_or(Duration::ZERO, |until| until.since(now)),
            openings: self.openings,
        }
    }

    /// Others have found that it stands so, at `at`.
    pub(crate) fn adopt(&mut self, circuit: Circuit, at: Tick, now: Tick) {
        let position = if circuit.open {
            Position::Open(at + circuit.left)
        } else {
            Position::Closed
        };
        if (position, self.position) != (Position::Closed, Position::Closed) {
            *self = Self {
                position,
                generation: self.generation.wrapping_add(1),
                openings: circuit.openings,
                ..Self::new(now)
            };
        }
    }

    /// The next attempt is the probe, for all that share it.
    pub(crate) const fn let_probe(&mut self) {
        self.position = Position::HalfOpen { probing: None };
    }

    /// A probe came back without an answer, or was dropped: another may go.
    #[inline]
    pub(crate) fn give_back(&mut self, pass: Pass) {
        if pass.probe && pass.generation == self.generation {
            self.position = Position::HalfOpen { probing: None };
        }
    }

    /// Hears what came of an attempt. True if that changed where it stands.
    #[inline]
    pub(crate) fn hear(&mut self, pass: Pass, health: Health, now: Tick) -> bool {
        if pass.generation != self.generation {
            return false;
        }
        match (health, pass.probe) {
            (Health::Silent, _) => {
                self.give_back(pass);
                return false;
            }
            // the server said something of its own accord: it is there
            (Health::Well, true) => {
                *self = Self {
                    generation: self.generation.wrapping_add(1),
                    ..Self::new(now)
                }
            }
            (Health::Ill, true) => self.open(now),
            (health, false) => {
                self.count(health, now);
                let (answers, failures) = self.counts.sum();
                let many = answers >= ENOUGH && failures >= answers.div_ceil(2);
                if self.in_a_row < IN_A_ROW && !many {
                    return false;
                }
                self.open(now);
            }
        }
        true
    }

    fn count(&mut self, health: Health, now: Tick) {
        let ill = health == Health::Ill;
        self.counts.add(ill, now);
        self.in_a_row = if ill { self.in_a_row.saturating_add(1) } else { 0 };
    }

    fn open(&mut self, now: Tick) {
        let doubled = OPEN_FIRST.saturating_mul(2u32.saturating_pow(self.openings));
        *self = Self {
            position: Position::Open(now + doubled.min(OPEN_LONGEST)),
            generation: self.generation.wrapping_add(1),
            openings: self.openings.saturating_add(1),
            ..Self::new(now)
        };
    }
}

/// Answers and failures of the last half a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    /// One for each step, in a ring.
    steps: [(u32, u32); STEPS],
    /// The step that was counted in last.
    newest: u64,
}

impl Counts {
    fn new(now: Tick) -> Self {
        Self {
            steps: [(0, 0); STEPS],
            newest: Self::step(now),
        }
    }

    fn step(now: Tick) -> u64 {
        now.since(Tick::default()).as_secs() / STEP_SECONDS
    }

    fn add(&mut self, failed: bool, now: Tick) {
        let step = Self::step(now).max(self.newest);
        for entered in (self.newest + 1..=step).take(STEPS) {
            if let Some(counts) = self.steps.get_mut(entered as usize % STEPS) {
                *counts = (0, 0);
            }
        }
        self.newest = step;
        if let Some((answers, failures)) = self.steps.get_mut(step as usize % STEPS) {
            *answers += 1;
            *failures += u32::from(failed);
        }
    }

    fn sum(&self) -> (u32, u32) {
        self.steps.iter().fold((0, 0), |(answers, failures), step| {
            (answers + step.0, failures + step.1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn told(breaker: &mut Breaker, healths: impl IntoIterator<Item = Health>, now: Tick) {
        for health in healths {
            let pass = breaker.pass(now);
            breaker.hear(pass, health, now);
        }
    }

    /// Open at `now`.
    fn opened(now: Tick) -> Breaker {
        let mut breaker = Breaker::new(now);
        told(&mut breaker, [Health::Ill; 5], now);
        assert_eq!(breaker.position(now), Position::Open(now + OPEN_FIRST));
        breaker
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_a_success_between_does_not_count_on() {
        let now = Tick::default();
        let mut breaker = Breaker::new(now);
        told(&mut breaker, [Health::Ill; 4], now);
        told(&mut breaker, [Health::Well], now);
        told(&mut breaker, [Health::Ill; 4], now);
        assert_eq!(breaker.position(now), Position::Closed);
        told(&mut breaker, [Health::Ill], now);
        assert_eq!(breaker.position(now), Position::Open(now + OPEN_FIRST));
    }

    #[test]
    fn half_of_ten_in_half_a_minute_opens_it_and_fewer_do_not() {
        let start = Tick::default();
        let mut breaker = Breaker::new(start);
        // as many ill as well, but never ten within the window
        for step in 0..40 {
            let health = if step % 2 == 0 { Health::Ill } else { Health::Well };
            told(&mut breaker, [health], start + s(8) * step);
        }
        assert_eq!(breaker.position(start + s(400)), Position::Closed);
        let mut breaker = Breaker::new(start);
        for step in 0..9 {
            let health = if step % 2 == 0 { Health::Ill } else { Health::Well };
            told(&mut breaker, [health], start);
        }
        assert_eq!(breaker.position(start), Position::Closed);
        told(&mut breaker, [Health::Ill], start);
        assert_eq!(breaker.position(start), Position::Open(start + OPEN_FIRST));
        let mut breaker = Breaker::new(start);
        for step in 0..100 {
            let health = if step % 3 == 0 { Health::Ill } else { Health::Well };
            told(&mut breaker, [health], start);
        }
        assert_eq!(breaker.position(start), Position::Closed, "a third is not a half");
    }

    #[test]
    fn what_says_nothing_of_the_server_opens_nothing() {
        let now = Tick::default();
        let mut breaker = Breaker::new(now);
        told(&mut breaker, [Health::Silent; 100], now);
        assert_eq!(breaker.position(now), Position::Closed);
    }

    /// G2: a probe that is dropped gives its place back, and so does one that is not heard of any more.
    #[test]
    fn a_probe_that_never_reports_holds_nothing_for_ever() {
        let now = Tick::default() + OPEN_FIRST;
        let mut breaker = opened(Tick::default());
        let dropped = breaker.pass(now);
        assert!(dropped.is_probe() && breaker.shut_until(now).is_some());
        breaker.give_back(dropped);
        let lost = breaker.pass(now);
        assert!(lost.is_probe());
        assert_eq!(breaker.shut_until(now + LEASE - s(1)), Some(now + LEASE));
        let later = now + LEASE;
        let next = breaker.pass(later);
        assert!(next.is_probe());
        // the lost one comes back after all: its place is another's by now
        breaker.give_back(lost);
        assert!(!breaker.hear(lost, Health::Ill, later));
        assert!(breaker.shut_until(later).is_some(), "one probe at a time");
        assert!(breaker.hear(next, Health::Well, later));
        assert_eq!(breaker.position(later), Position::Closed);
    }

    /// G5: what was sent before it opened decides nothing after.
    #[test]
    fn a_late_answer_of_an_earlier_generation_is_ignored() {
        let start = Tick::default();
        let mut breaker = Breaker::new(start);
        let early = breaker.pass(start);
        told(&mut breaker, [Health::Ill; 5], start);
        assert!(!breaker.hear(early, Health::Well, start));
        assert_eq!(breaker.shut_until(start), Some(start + OPEN_FIRST));
        let probing = start + OPEN_FIRST;
        let probe = breaker.pass(probing);
        assert!(!breaker.hear(early, Health::Ill, probing));
        assert!(breaker.hear(probe, Health::Well, probing));
        assert!(!breaker.hear(early, Health::Ill, probing));
        told(&mut breaker, [Health::Ill; 4], probing);
        assert_eq!(breaker.position(probing), Position::Closed, "all is counted anew");
    }

    #[test]
    fn it_stays_open_longer_each_time_a_probe_fails() {
        let mut now = Tick::default();
        let mut breaker = opened(now);
        for length in [5, 10, 20, 40, 60, 60] {
            let until = breaker.shut_until(now).unwrap();
            assert_eq!(until.since(now), s(length));
            now = until;
            told(&mut breaker, [Health::Ill], now);
        }
        let until = breaker.shut_until(now).unwrap();
        told(&mut breaker, [Health::Well], until);
        told(&mut breaker, [Health::Ill; 5], until);
        assert_eq!(
            breaker.shut_until(until),
            Some(until + OPEN_FIRST),
            "after a success from the start"
        );
    }
}
