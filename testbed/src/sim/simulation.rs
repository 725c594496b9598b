//! A simulation knows the time of a provider on tokio's clock, which a test may have paused. It does not know who calls,
//! or how answers travel.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, sleep_until};

use super::call::Call;
use super::provider::Provider;
use super::reply::{Reply, Slot};
use super::tally::Tally;

/// A provider at work, without sockets. Clones are the same one.
///
/// It begins when it is made. Under a paused clock its times are virtual, rounded up to tokio's millisecond.
#[derive(Clone, Debug)]
pub struct Simulation(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    provider: Mutex<Provider>,
    start: Instant,
}

/// An answer whose head has come. Dropping it gives up the rest of its body, and what the call holds at the provider.
#[derive(Debug)]
pub struct Answer {
    /// The answer without the pieces of its body that have been taken.
    pub reply: Reply,
    /// When the last piece was, or the head.
    due: Instant,
    held: Held,
}

/// What a call holds at the provider, until it is dropped.
#[derive(Debug)]
struct Held {
    simulation: Simulation,
    slot: Option<Slot>,
}

impl Simulation {
    /// Starts the clock of a provider.
    pub fn new(provider: Provider) -> Simulation {
        Simulation(Arc::new(Shared {
            provider: Mutex::new(provider),
            start: Instant::now(),
        }))
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.start.elapsed()
    }

    /// Sends a call and waits for the head of its answer, for ever if there is none. Dropped before, the call is given
    /// up: on its way, or at the provider.
    pub async fn send(&self, call: &Call) -> Answer {
        let jitter = self.provider().send();
        if !jitter.is_zero() {
            sleep(jitter).await;
        }
        // The lock is taken in the order of arrival.
        let mut reply = self.provider().arrive(self.elapsed(), call);
        let held = Held {
            simulation: self.clone(),
            slot: reply.slot.take(),
        };
        match reply.head_after {
            Some(after) => sleep(after).await,
            None => std::future::pending().await,
        }
        let due = Instant::now();
        Answer { reply, due, held }
    }

    /// Sends a call and waits until all of its answer has come.
    pub async fn call(&self, call: &Call) -> Reply {
        let mut answer = self.send(call).await;
        let pieces = answer.reply.pieces.clone();
        while answer.next().await.is_some() {}
        Reply { pieces, ..answer.reply }
    }

    /// Looks at the provider.
    pub fn with<R>(&self, look: impl FnOnce(&Provider) -> R) -> R {
        look(&self.provider())
    }

    /// What the provider has seen so far.
    pub fn tally(&self) -> Tally {
        self.provider().tally().clone()
    }

    fn provider(&self) -> MutexGuard<'_, Provider> {
        // A test that panicked has failed already; the others go on.
        self.0.provider.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Provider> for Simulation {
    fn from(provider: Provider) -> Simulation {
        Simulation::new(provider)
    }
}

impl Answer {
    /// The next piece of the body, when it has come; after the last one the call has ended. Nothing is lost if this is
    /// dropped before.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(due) = self.due()? {
            sleep_until(due).await;
        }
        self.take()
    }

    /// When the next piece comes, if there is one; `None` within is at once.
    pub(crate) fn due(&self) -> Option<Option<Instant>> {
        let piece = self.reply.pieces.front()?;
        Some((!piece.after.is_zero()).then(|| self.due + piece.after))
    }

    /// Takes the piece that has come.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        let piece = self.reply.pieces.pop_front()?;
        self.due += piece.after;
        if self.reply.pieces.is_empty() {
            self.held.release();
        }
        Some(piece.bytes)
    }
}

impl Held {
    fn release(&mut self) {
        if let Some(slot) = self.slot.take() {
            let now = self.simulation.elapsed();
            self.simulation.provider().finish(now, slot);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}
