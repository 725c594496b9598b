//! An outage knows when a provider fails, how, and which calls it meets. It does not know what the provider answers else.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::call::Call;

/// What happens to a call that meets an outage. It is charged against no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is answered with this status: 500, 503, 529, or a 429 that states no delay.
    Status(u16),
    /// It is answered with this status and a `Retry-After` header.
    Hinted {
        /// The status: 429, 503.
        status: u16,
        /// The delay that the header states, in seconds.
        retry_after: u64,
    },
    /// The connection is reset before a response comes.
    ConnectionReset,
    /// No connection can be made. On a socket, where the connection exists already, it is reset instead.
    ConnectionRefused,
    /// It is never answered.
    Hang,
}

/// A time in which calls fail: all of them, or those that the methods below select.
///
/// ```
/// # use std::time::Duration;
/// # use testbed::sim::{Fault, Model, Outage, Shape};
/// let second = Duration::from_secs(1);
/// let brownout = Outage::new(10 * second, 40 * second, Fault::Status(529)).share(0.5).model("large");
/// let model = Model::new(Shape::Anthropic).failing(brownout);
/// # let _ = model;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// The first moment of it, since the start.
    pub from: Duration,
    /// The first moment after it.
    pub to: Duration,
    /// What happens meanwhile.
    pub fault: Fault,
    /// The part of the attempts that fail; `None` is all of them.
    share: Option<f64>,
    model: Option<Arc<str>>,
    prompts: Option<Arc<[u64]>>,
}

impl Outage {
    /// Every call fails from `from` until `to`.
    pub fn new(from: Duration, to: Duration, fault: Fault) -> Outage {
        Outage {
            from,
            to,
            fault,
            share: None,
            model: None,
            prompts: None,
        }
    }

    /// Every call fails, always.
    pub fn endless(fault: Fault) -> Outage {
        Outage::new(Duration::ZERO, Duration::MAX, fault)
    }

    /// Fails this part of the attempts only, from 0 to 1. Which ones depends on the provider's seed, the prompt and the
    /// number of its attempt, and not on the order in which they arrive: clients that differ in their waits meet the same
    /// failures.
    pub fn share(self, share: f64) -> Outage {
        Outage {
            share: Some(share),
            ..self
        }
    }

    /// The part of the attempts that fail, of those it is for.
    pub fn share_of_attempts(&self) -> f64 {
        self.share.unwrap_or(1.0)
    }

    /// Fails calls for this model only.
    pub fn model(self, model: &str) -> Outage {
        Outage {
            model: Some(Arc::from(model)),
            ..self
        }
    }

    /// Fails these prompts only, as [`Call::prompt`] numbers them.
    pub fn prompts(self, prompts: impl IntoIterator<Item = u64>) -> Outage {
        Outage {
            prompts: Some(prompts.into_iter().collect()),
            ..self
        }
    }

    /// Returns `true` if the `attempt`-th attempt of its prompt (1 for the first) fails when it arrives at `at`.
    pub(crate) fn meets(&self, at: Duration, call: &Call, attempt: u32, seed: u64) -> bool {
        let selected = self
            .model
            .as_ref()
            .is_none_or(|model| call.model.as_deref() == Some(&**model))
            && self
                .prompts
                .as_ref()
                .is_none_or(|prompts| prompts.contains(&call.prompt));
        self.contains(at) && selected && self.share.is_none_or(|share| draw(seed, call.prompt, attempt) < share)
    }

    /// Returns `true` if no call at all is answered at `at`.
    pub(crate) fn is_total_at(&self, at: Duration) -> bool {
        let everybody = self.share.is_none_or(|share| share >= 1.0) && self.model.is_none() && self.prompts.is_none();
        everybody && self.contains(at)
    }

    fn contains(&self, at: Duration) -> bool {
        self.from <= at && at < self.to
    }
}

/// Uniform in `[0, 1)`.
fn draw(seed: u64, prompt: u64, attempt: u32) -> f64 {
    let mut hasher = DefaultHasher::new();
    (seed, prompt, attempt).hash(&mut hasher);
    // 53 bits are what a float holds exactly
    (hasher.finish() >> 11) as f64 / (1u64 << 53) as f64
}
