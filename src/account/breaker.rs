//! The circuit breaker of a lane: after repeated failures nothing is sent for a while, then one probe. Knows no request.

use std::time::Duration;

use super::tick::Tick;

/// This many failures in a row open it.
const IN_A_ROW: u32 = 5;
/// Or this share of failures, of at least so many answers in a window.
const SHARE: f64 = 0.5;
const ENOUGH: f64 = 10.0;
const WINDOW: f64 = 30.0;
/// The first time it opens for this long, doubled each time a probe fails.
const OPEN_FIRST: Duration = Duration::from_secs(5);
const OPEN_LONGEST: Duration = Duration::from_secs(60);

/// Where a breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// All may pass.
    Closed,
    /// None may pass until then.
    Open(Tick),
    /// One probe may pass, or is on its way.
    HalfOpen { probing: bool },
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
    pub(crate) const fn is_probe(self) -> bool {
        self.probe
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Breaker {
    position: Position,
    generation: u32,
    in_a_row: u32,
    /// Answers and failures, fading away over the window.
    answers: f64,
    failures: f64,
    counted_at: Tick,
    /// How often it has opened without a success between.
    openings: u32,
}

impl Breaker {
    pub(crate) const fn new(now: Tick) -> Self {
        Self {
            position: Position::Closed,
            generation: 0,
            in_a_row: 0,
            answers: 0.0,
            failures: 0.0,
            counted_at: now,
            openings: 0,
        }
    }

    /// Where it stands, once time has had its say.
    pub(crate) fn position(&self, now: Tick) -> Position {
        match self.position {
            Position::Open(until) if until <= now => Position::HalfOpen { probing: false },
            position => position,
        }
    }

    /// Lets an attempt pass; to be called only if it may.
    pub(crate) fn pass(&mut self, now: Tick) -> Pass {
        self.position = self.position(now);
        let probe = self.position == Position::HalfOpen { probing: false };
        if probe {
            self.position = Position::HalfOpen { probing: true };
        }
        Pass {
            generation: self.generation,
            probe,
        }
    }

    /// A probe came back without an answer, or was dropped: another may go.
    pub(crate) fn give_back(&mut self, pass: Pass) {
        if pass.probe && pass.generation == self.generation {
            self.position = Position::HalfOpen { probing: false };
        }
    }

    /// Hears what came of an attempt. True if that changed where it stands.
    pub(crate) fn hear(&mut self, pass: Pass, health: Health, now: Tick) -> bool {
        if pass.generation != self.generation {
            return false;
        }
        match (health, pass.probe) {
            (Health::Silent, true) => self.give_back(pass),
            (Health::Silent, false) => return false,
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
                let many = self.answers >= ENOUGH && self.failures >= SHARE * self.answers;
                if self.in_a_row < IN_A_ROW && !many {
                    return false;
                }
                self.open(now);
            }
        }
        true
    }

    fn count(&mut self, health: Health, now: Tick) {
        let fading = (-now.seconds_since(self.counted_at).max(0.0) / WINDOW).exp();
        let ill = health == Health::Ill;
        self.answers = self.answers * fading + 1.0;
        self.failures = self.failures * fading + f64::from(u8::from(ill));
        self.counted_at = now;
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
