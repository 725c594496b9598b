//! What is told apart when a provider speaks: a lane of its own for each origin, model and (in an account that was not
//! built) credential, so that one model's refusal never stops another. Knows no queue discipline.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use http::{HeaderMap, header};
use reqwest::Url;

use super::breaker::Breaker;
use super::budget::Budget;
use super::concurrency::Ceiling;
use super::hold::Hold;
use super::learn::Rate;
use super::pace::Bucket;
use super::pause::Pause;
use super::queue::Line;
use super::tick::Tick;

/// A keyed hash of all that tells a lane. The credential is in it and nowhere else; the key is the process's own, so that
/// the hash says nothing to anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LaneKey(u64);

/// What may be told of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LaneName {
    pub(crate) host: String,
    pub(crate) model: String,
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) key: LaneKey,
    pub(crate) name: LaneName,
    /// Another one may stand in the same place later.
    pub(crate) generation: u32,
    pub(crate) rate: Rate,
    /// The lane's own pace, once anything is known of it.
    pub(crate) bucket: Option<Bucket>,
    pub(crate) pause: Pause,
    pub(crate) hold: Option<Hold>,
    pub(crate) breaker: Breaker,
    pub(crate) budget: Budget,
    pub(crate) ceiling: Ceiling,
    pub(crate) retries: Line,
    pub(crate) fresh: Line,
    /// Which of the account's models has limits of its own, if this one has.
    pub(crate) model: Option<usize>,
    pub(crate) used_at: Tick,
}

impl Lane {
    /// Nobody waits in it and nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.retries.is_empty() && self.fresh.is_empty() && self.ceiling.in_flight() == 0
    }

    pub(crate) fn waiting(&self) -> u32 {
        self.retries.len() + self.fresh.len()
    }
}
