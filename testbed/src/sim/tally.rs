//! A tally knows what a provider has seen, in numbers. It does not know why.

use std::time::Duration;

use super::reply::{Outcome, Refusal};

/// What a provider has seen.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Calls sent to it, those included that were given up on the way.
    pub sends: u64,
    /// Calls admitted.
    pub admitted: u64,
    /// Admitted calls that came to their end.
    pub finished: u64,
    /// Admitted calls given up before.
    pub abandoned: u64,
    /// Calls that met an outage.
    pub failed: u64,
    /// Admitted calls under way now.
    pub in_flight: usize,
    /// The most there were of them at a time.
    pub peak_in_flight: usize,
    /// Tokens of the prompts of admitted calls.
    pub input_tokens: u64,
    /// Tokens produced by calls that have ended.
    pub output_tokens: u64,
    /// Every arrival, in order.
    pub arrivals: Vec<Arrival>,
    refused: [u64; 8],
}

/// A call as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, since the start.
    pub at: Duration,
    /// What became of it.
    pub outcome: Outcome,
}

impl Tally {
    /// Calls refused for this reason.
    pub fn refused_for(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize]
    }

    /// Calls refused for any reason.
    pub fn refused(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// When each admitted call arrived.
    pub fn admissions(&self) -> impl Iterator<Item = Duration> + '_ {
        let admitted = self
            .arrivals
            .iter()
            .filter(|arrival| arrival.outcome == Outcome::Admitted);
        admitted.map(|arrival| arrival.at)
    }

    pub(crate) fn arrived(&mut self, at: Duration, outcome: Outcome) {
        match outcome {
            Outcome::Admitted => {
                self.admitted += 1;
                self.in_flight += 1;
                self.peak_in_flight = self.peak_in_flight.max(self.in_flight);
            }
            Outcome::Refused(refusal) => self.refused[refusal as usize] += 1,
            Outcome::Failed(_) | Outcome::ConnectionReset | Outcome::ConnectionRefused | Outcome::Hung => {
                self.failed += 1;
            }
        }
        self.arrivals.push(Arrival { at, outcome });
    }

    pub(crate) fn ended(&mut self, whole: bool, produced: u64) {
        self.in_flight -= 1;
        self.output_tokens += produced;
        if whole {
            self.finished += 1;
        } else {
            self.abandoned += 1;
        }
    }
}
