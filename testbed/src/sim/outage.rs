//! An outage knows when a provider fails and how. It does not know the calls that it meets.

use std::time::Duration;

/// What happens to a call that arrives during an outage. It is charged against no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is answered with this status: 500, 503, 529.
    Status(u16),
    /// It is never answered.
    Hang,
}

/// A time in which every call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The first moment of it, since the start.
    pub from: Duration,
    /// The first moment after it.
    pub to: Duration,
    /// What happens meanwhile.
    pub fault: Fault,
}
