//! The state of the limit on requests as the headers of an answer tell it, a success included. Knows no limit on tokens: a
//! request's own size is not known to be what they count.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use crate::classify::Seen;
use crate::retry_after::reset_in;

/// What the headers of one answer say of the limit on requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RequestLimit {
    /// In whatever window the provider counts: some say per minute, some per day, Azure per ten seconds.
    pub(crate) limit: Option<f64>,
    pub(crate) remaining: f64,
    /// Until the limit is whole again.
    pub(crate) reset: Option<Duration>,
}

const NAMES: [[&str; 3]; 4] = [
    [
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ],
    [
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ],
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
];

/// Is it one of those? Most answers have none, and to look for each by its name takes longer.
fn is_of_a_limit(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(name.as_bytes().first(), Some(b'x' | b'a' | b'r')) && name.contains("ratelimit")
}

impl RequestLimit {
    /// Reads it; a negative or unreadable value says nothing, and neither does a limit of zero (Azure sends -1 and 0 for
    /// what it does not know).
    #[inline]
    pub(crate) fn of(seen: &Seen<'_>) -> Option<Self> {
        let headers = seen.headers()?;
        if !headers.keys().any(is_of_a_limit) {
            return None;
        }
        NAMES.iter().find_map(|[limit, remaining, reset]| {
            let remaining = number(headers, remaining)?;
            let limit = match number(headers, limit) {
                Some(zero) if zero <= 0.0 => return None,
                limit => limit,
            };
            Some(Self {
                limit,
                remaining,
                reset: reset_in(seen, reset),
            })
        })
    }
}

fn number(headers: &HeaderMap, name: &str) -> Option<f64> {
    let number: f64 = headers.get(name)?.to_str().ok()?.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}
