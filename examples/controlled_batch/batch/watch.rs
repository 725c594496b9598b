//! Counts what the events of the middleware tell, and what the workers end up with. Knows nothing of the provider.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest_ai_retry::{Cause, Event, Verdict};
use tokio::time::Instant;

/// The counts of a batch that is under way.
#[derive(Debug)]
pub(crate) struct Watch {
    begun: Instant,
    counts: Mutex<Counts>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) first_attempts: u64,
    pub(crate) retries: u64,
    /// Attempts that were refused for a rate limit.
    pub(crate) refused: u64,
    /// Attempts that failed otherwise.
    pub(crate) failed: u64,
    pub(crate) successes: u64,
    /// Successes that took more than one attempt.
    pub(crate) recovered: u64,
    /// Final failures, by what stopped them.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Pauses of the account.
    pub(crate) pauses: u64,
    pub(crate) in_flight: u64,
    pub(crate) most_in_flight: u64,
    /// When each attempt was started, in order.
    pub(crate) starts: Vec<Duration>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            counts: Mutex::default(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn event(&self, event: &Event<'_>) {
        let mut counts = self.lock();
        match event {
            Event::AttemptStarted { attempt, .. } => {
                if *attempt == 1 {
                    counts.first_attempts += 1;
                } else {
                    counts.retries += 1;
                }
                counts.in_flight += 1;
                counts.most_in_flight = counts.most_in_flight.max(counts.in_flight);
                counts.starts.push(self.elapsed());
            }
            Event::AttemptFinished {
                verdict: Some(verdict), ..
            } => {
                counts.in_flight -= 1;
                if is_refusal(verdict) {
                    counts.refused += 1;
                } else {
                    counts.failed += 1;
                }
            }
            // a success is in flight until its body has been read: its worker tells
            Event::Recovered { outcome, .. } if outcome.sends() > 1 => counts.recovered += 1,
            Event::Paused { .. } => counts.pauses += 1,
            _ => {}
        }
    }

    /// The body of a success has been read, or has broken off.
    pub(crate) fn body_ended(&self) {
        self.lock().in_flight -= 1;
    }

    pub(crate) fn succeeded(&self) {
        self.lock().successes += 1;
    }

    pub(crate) fn failed(&self, why: String) {
        *self.lock().failures.entry(why).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().clone()
    }

    /// Looks at the counts without copying them.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Counts) -> T) -> T {
        look(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // numbers are whole whatever happened to who counted last
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    pub(crate) fn final_failures(&self) -> u64 {
        self.failures.values().sum()
    }
}

fn is_refusal(verdict: &Verdict) -> bool {
    verdict.cause() == Cause::RateLimited
}
