//! Counts the events of the middleware and the results of the workers. Knows nothing of the provider.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest_ai_retry::{Cause, Event, Verdict};
use tokio::time::Instant;

/// A timer is late by milliseconds, and the account makes up for it at the next start.
pub(crate) const LATENESS: Duration = Duration::from_millis(6);

/// The counts of a batch that is under way.
#[derive(Debug)]
pub(crate) struct Watch {
    begun: Instant,
    /// Between starts, as planned.
    spacing: Duration,
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
    /// How often the circuit breaker opened.
    pub(crate) openings: u64,
    /// How long calls waited for the account while it started none, beyond the planned spacing.
    pub(crate) held: Duration,
    /// The longest time from the beginning of a call to its last attempt.
    pub(crate) longest_wait: Duration,
    /// The calls that have not ended.
    calls: HashMap<u64, Call>,
    queued: u64,
    /// When the account last started an attempt, or a call began to wait after that.
    idle_since: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    begun: Duration,
    queued: bool,
}

impl Watch {
    pub(crate) fn new(spacing: Duration) -> Self {
        Self {
            begun: Instant::now(),
            spacing,
            counts: Mutex::default(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn event(&self, event: &Event<'_>) {
        let (mut counts, now) = (self.lock(), self.elapsed());
        match event {
            Event::Queued { call, .. } => counts.queue(call.id(), now),
            Event::AttemptStarted { call, attempt, .. } => {
                counts.start(call.id(), self.spacing, now);
                if *attempt == 1 {
                    counts.first_attempts += 1;
                } else {
                    counts.retries += 1;
                }
                counts.in_flight += 1;
                counts.most_in_flight = counts.most_in_flight.max(counts.in_flight);
                counts.starts.push(now);
            }
            Event::AttemptFinished {
                call, verdict: None, ..
            } => counts.end(call.id()),
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
            Event::GaveUp { call, .. } => counts.end(call.id()),
            // a success is in flight until its body has been read, which its worker reports
            Event::Recovered { outcome, .. } if outcome.sends() > 1 => counts.recovered += 1,
            Event::Paused { .. } => counts.pauses += 1,
            Event::BreakerOpened { .. } => counts.openings += 1,
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

    /// Reads the counts without a copy.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Counts) -> T) -> T {
        look(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // a panic elsewhere leaves the numbers valid
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    pub(crate) fn final_failures(&self) -> u64 {
        self.failures.values().sum()
    }

    fn call(&mut self, id: u64, now: Duration) -> &mut Call {
        self.calls.entry(id).or_insert(Call {
            begun: now,
            queued: false,
        })
    }

    fn queue(&mut self, id: u64, now: Duration) {
        self.call(id, now).queued = true;
        if self.queued == 0 {
            self.idle_since = now;
        }
        self.queued += 1;
    }

    fn start(&mut self, id: u64, spacing: Duration, now: Duration) {
        if self.queued > 0 {
            let beyond = (now - self.idle_since).saturating_sub(spacing);
            self.held += if beyond > LATENESS { beyond } else { Duration::ZERO };
        }
        self.idle_since = now;
        let call = self.call(id, now);
        let (begun, was_queued) = (call.begun, std::mem::take(&mut call.queued));
        self.queued -= u64::from(was_queued);
        self.longest_wait = self.longest_wait.max(now - begun);
    }

    fn end(&mut self, id: u64) {
        let ended = self.calls.remove(&id);
        self.queued -= u64::from(ended.is_some_and(|call| call.queued));
    }
}

fn is_refusal(verdict: &Verdict) -> bool {
    verdict.cause() == Cause::RateLimited
}
