//! The delay that an answer states, in every form that servers use, and the order in which the forms bind. Knows no
//! policy: whether a delay is slept is decided elsewhere.

mod body;
mod decimal;
mod header;
mod limit;
mod moment;
mod prose;
mod ratelimit;
mod scan;
mod source;
mod span;

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::classify::Seen;
use crate::provider::Envelope;
use moment::Moment;

pub(crate) use ratelimit::split;
pub use source::DelaySource;

/// A delay that the server stated: a minimum, never to be shortened.
///
/// It is a whole number of milliseconds, rounded up. One too long to be held is as long as can be held (584 million
/// years), one that is past is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ServerDelay {
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::seconds"))]
    duration: Duration,
    source: DelaySource,
}

/// What a source is read from.
struct Answer<'a> {
    status: StatusCode,
    headers: &'a HeaderMap,
    envelope: &'a Envelope,
    now: Moment,
}

type Read = fn(&Answer<'_>) -> Option<ServerDelay>;

/// The headers that state a delay for this very request or for the limit that refused it, the most exact first.
const HEADERS: [Read; 5] = [
    header::retry_after_ms,
    // whole seconds are rounded by some and cut to 0 by others; X-Retry-In is exact
    |answer| larger(&[header::retry_after(answer), header::retry_in(answer)]),
    ratelimit::items,
    ratelimit::old_fields,
    ratelimit::reset,
];

/// What the body states.
const BODY: [Read; 4] = [
    body::number,
    body::quoted_headers,
    // Google states one delay up to three times, at times cut to whole seconds or older than the rest
    |answer| {
        larger(&[
            body::retry_info(answer),
            body::quota_reset(answer),
            prose::message(answer),
        ])
    },
    body::timestamp,
];

/// The state of single limits: when each is whole again, which is later than when a request fits in.
const LIMITS: [Read; 2] = [limit::named_reset, limit::plan_window];

impl ServerDelay {
    /// A delay of one's own making, for a rule that reads it where only it knows.
    pub const fn new(duration: Duration, source: DelaySource) -> Self {
        Self { duration, source }
    }

    /// The delay that this answer states, if it states one. Of several, the first binds: headers made for the purpose, the
    /// body's numbers, its prose, the state of single limits.
    pub fn of(seen: &Seen<'_>) -> Option<Self> {
        let answer = Answer {
            status: seen.status()?,
            headers: seen.headers()?,
            envelope: seen.envelope(),
            now: Moment::of_answer(seen)?,
        };
        let mut order = HEADERS.iter().chain(&BODY).chain(&LIMITS);
        order.find_map(|read| read(&answer)).map(Self::rounded_up)
    }

    /// How long to wait at least, counted from the receipt of the answer.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// Where it was stated.
    pub const fn source(&self) -> DelaySource {
        self.source
    }

    fn rounded_up(self) -> Self {
        let millis = self.duration.as_nanos().div_ceil(1_000_000);
        Self {
            duration: Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)),
            ..self
        }
    }
}

/// The time until the reset that a header of this name tells, on whatever answer.
pub(crate) fn reset_in(seen: &Seen<'_>, name: &str) -> Option<Duration> {
    let now = Moment::of_answer(seen)?;
    header::largest(seen.headers()?, name, |text| ratelimit::until_reset(text, now))
}

/// The largest of these; of equal ones the first.
fn larger(delays: &[Option<ServerDelay>]) -> Option<ServerDelay> {
    delays.iter().copied().flatten().reduce(|largest, delay| {
        if delay.duration > largest.duration {
            delay
        } else {
            largest
        }
    })
}
