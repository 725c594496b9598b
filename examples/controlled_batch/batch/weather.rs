//! The failures that a rehearsal simulates: when sends fail, how many of them, and how. Knows no option and no clock.

use std::time::Duration;

use testbed::sim::{Fault, Outage};

/// An attempt that hangs is cut after this time, or after three times the latency if that is longer.
const CUT: Duration = Duration::from_secs(10);

/// What goes wrong at the provider, and how a send that meets it fails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Weather {
    pub(crate) outages: Vec<Incident>,
    pub(crate) brownouts: Vec<Incident>,
    pub(crate) failure: Option<Failure>,
}

/// A time in which sends fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Incident {
    pub(crate) from: Duration,
    /// [`Duration::MAX`] if it does not end.
    pub(crate) to: Duration,
    /// The share of sends that fail, per thousand.
    pub(crate) per_mille: u32,
}

/// How a send fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    Status(u16),
    Reset,
    Refused,
    Hang,
}

impl Weather {
    pub(crate) fn is_fair(&self) -> bool {
        self.outages.is_empty() && self.brownouts.is_empty()
    }

    pub(crate) fn failure(&self) -> Failure {
        self.failure.unwrap_or(Failure::Status(529))
    }

    pub(crate) fn incidents(&self) -> impl Iterator<Item = &Incident> {
        self.outages.iter().chain(&self.brownouts)
    }

    /// As the simulated provider expects it.
    pub(crate) fn simulated(&self) -> impl Iterator<Item = Outage> {
        let fault = match self.failure() {
            Failure::Status(status) => Fault::Status(status),
            Failure::Reset => Fault::ConnectionReset,
            Failure::Refused => Fault::ConnectionRefused,
            Failure::Hang => Fault::Hang,
        };
        self.incidents().map(move |incident| {
            let outage = Outage::new(incident.from, incident.to, fault);
            if incident.is_total() {
                outage
            } else {
                outage.share(incident.share())
            }
        })
    }

    /// The time after which an attempt is cut. Only a send that hangs needs one.
    pub(crate) fn attempt_timeout(&self, latency: Duration) -> Option<Duration> {
        let hangs = !self.is_fair() && self.failure() == Failure::Hang;
        hangs.then(|| CUT.max(latency * 3))
    }

    /// How long a batch takes that takes `fair` in fair weather and sends at the same pace in any.
    pub(crate) fn prolong(&self, fair: Duration) -> Duration {
        let mut changes: Vec<Duration> = self
            .incidents()
            .flat_map(|incident| [incident.from, incident.to])
            .collect();
        changes.push(Duration::MAX);
        changes.sort_unstable();
        let (mut now, mut left) = (Duration::ZERO, fair.as_secs_f64());
        for change in changes {
            let passes = 1.0 - self.failing_at(now);
            let until = change.saturating_sub(now).as_secs_f64() * passes;
            if left <= until {
                return now + Duration::from_secs_f64(left / passes);
            }
            (now, left) = (change, left - until);
        }
        Duration::MAX
    }

    /// The share of sends that fail at this moment.
    fn failing_at(&self, at: Duration) -> f64 {
        let there = self
            .incidents()
            .filter(|incident| incident.from <= at && at < incident.to);
        // they draw alike, so that the larger share contains the smaller one
        there.map(Incident::share).fold(0.0, f64::max)
    }
}

impl Incident {
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.per_mille) / 1000.0
    }

    pub(crate) const fn is_total(&self) -> bool {
        self.per_mille >= 1000
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.to == Duration::MAX
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Reset => f.write_str("connection reset"),
            Self::Refused => f.write_str("connection refused"),
            Self::Hang => f.write_str("no response"),
        }
    }
}

impl std::fmt::Display for Incident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.per_mille {
            1000.. => f.write_str("outage")?,
            part if part % 10 == 0 => write!(f, "brownout of {} %", part / 10)?,
            part => write!(f, "brownout of {}.{} %", part / 10, part % 10)?,
        }
        let (from, to) = (self.from.as_secs_f64(), self.to.as_secs_f64());
        if !self.is_endless() {
            write!(f, " from {from:.1} s to {to:.1} s")
        } else if self.from.is_zero() {
            f.write_str(" for the whole run")
        } else {
            write!(f, " from {from:.1} s on")
        }
    }
}
