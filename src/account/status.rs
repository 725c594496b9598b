//! A snapshot of what an account knows, for people and dashboards. Nothing in it is secret.

use std::time::{Duration, SystemTime};

use super::breaker::BreakerState;
use super::state::State;
use super::tick::Tick;

/// What an account knows.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct AccountStatus {
    /// Requests in flight.
    pub in_flight: u32,
    /// The most that may be, if that is limited.
    pub max_in_flight: Option<u32>,
    /// How it stands to the others that share it.
    pub store: StoreStatus,
    /// Each lane.
    pub lanes: Vec<LaneStatus>,
}

/// How an account stands to those that share it through a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum StoreStatus {
    /// It is this process's own.
    None,
    /// So many processes share it, this one included.
    #[non_exhaustive]
    Shared {
        /// As the store counted them last.
        processes: u32,
    },
    /// The store is away, and this process keeps to its part of each limit.
    #[non_exhaustive]
    Away {
        /// Those that are thought to share it; each takes four fifths of an equal part.
        processes: u32,
    },
}

/// What an account knows of one lane.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LaneStatus {
    /// The host.
    pub host: String,
    /// The model, or the path where no model is named.
    pub model: String,
    /// Requests in flight.
    pub in_flight: u32,
    /// The most that may be, as learnt from refusals.
    pub learnt_max_in_flight: Option<u32>,
    /// Calls that wait for their start, those included that nobody polls.
    pub waiting: u32,
    /// The pace in force, in starts per minute; `None` if nothing slows it.
    pub starts_per_minute: Option<f64>,
    /// Until when nothing is sent, because the provider said so.
    pub paused_until: Option<SystemTime>,
    /// Until when calls are answered from memory, because a quota is used up.
    pub held_until: Option<SystemTime>,
    /// The state of the circuit breaker.
    pub breaker: BreakerStatus,
    /// When the next probe may be sent, while the circuit breaker is open and no probe is in flight.
    pub next_probe_at: Option<SystemTime>,
    /// The number of retries that the budget allows to start now.
    pub retries_left: f64,
    /// For how long nothing was sent.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::seconds"))]
    pub idle: Duration,
}

/// The state of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum BreakerStatus {
    /// All calls may start.
    Closed,
    /// No call may start before the next probe.
    Open,
    /// A probe may start or is in flight, or starts resume step by step.
    HalfOpen,
}

impl State {
    pub(crate) fn status(&self, now: Tick, wall: impl Fn(Tick) -> Option<SystemTime>) -> AccountStatus {
        let (in_flight, max_in_flight) = self.flight();
        let lanes = self.lanes().map(|lane| LaneStatus {
            host: lane.name.host.clone(),
            model: lane.name.model.clone(),
            in_flight: lane.ceiling.in_flight(),
            learnt_max_in_flight: lane.ceiling.limit(),
            waiting: lane.waiting() + lane.set_aside(),
            starts_per_minute: lane.bucket.map(|bucket| bucket.rate() * 60.0),
            paused_until: lane.pause.until(now).and_then(&wall),
            held_until: lane.hold.as_ref().and_then(|hold| hold.held_until(now)).and_then(&wall),
            next_probe_at: match lane.breaker.state(now) {
                BreakerState::Open(until) => wall(until),
                BreakerState::Closed | BreakerState::HalfOpen => None,
            },
            breaker: match lane.breaker.state(now) {
                BreakerState::Closed => BreakerStatus::Closed,
                BreakerState::Open(_) => BreakerStatus::Open,
                BreakerState::HalfOpen => BreakerStatus::HalfOpen,
            },
            retries_left: self.retries_left(lane, now),
            idle: now.since(lane.used_at),
        });
        AccountStatus {
            in_flight,
            max_in_flight,
            store: match self.sharing() {
                None => StoreStatus::None,
                Some(sharing) if sharing.away.is_some() => StoreStatus::Away {
                    processes: sharing.processes(),
                },
                Some(sharing) => StoreStatus::Shared {
                    processes: sharing.live,
                },
            },
            lanes: lanes.collect(),
        }
    }
}
