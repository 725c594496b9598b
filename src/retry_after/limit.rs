//! The resets of limits that have names of their own (`x-ratelimit-reset-tokens`, `anthropic-ratelimit-requests-reset`,
//! `x-codex-primary-…`), of those that are used up. Knows no limit without a name.

use std::time::Duration;

use http::StatusCode;

use super::decimal::Decimal;
use super::header::{largest, values};
use super::ratelimit::{remains_nothing, until_reset};
use super::{Answer, DelaySource, ServerDelay};

/// What tells that a header is about a limit.
const LIMIT_WORDS: [&str; 3] = ["ratelimit", "rate-limit", "tokenlimit"];
/// The segments of a header name that name no limit.
const GENERIC: [&str; 6] = ["x", "ratelimit", "rate", "limit", "reset", "tokenlimit"];

/// The latest reset among the named limits with nothing remaining. The reset of a limit with something left is ignored,
/// however near it is.
pub(super) fn named_reset(answer: &Answer<'_>) -> Option<ServerDelay> {
    let names = answer.headers.keys().map(|name| name.as_str());
    let delay = names.filter_map(|name| exhausted(answer, name)).max()?;
    Some(ServerDelay::new(delay, DelaySource::LimitReset))
}

/// The latest reset among the windows of a ChatGPT plan that are used up; that of another window can be days away.
pub(super) fn plan_window(answer: &Answer<'_>) -> Option<ServerDelay> {
    let names = answer.headers.keys().map(|name| name.as_str());
    let windows = names.filter_map(|name| name.strip_prefix("x-codex-")?.strip_suffix("-used-percent"));
    let delays = windows.filter_map(|window| {
        let used = largest(
            answer.headers,
            &format!("x-codex-{window}-used-percent"),
            Decimal::parse,
        )?;
        let read = |field: &str| reset(answer, &format!("x-codex-{window}-{field}"));
        let delay = read("reset-after-seconds").or_else(|| read("reset-at"))?;
        (used >= Decimal::integer(100)).then_some(delay)
    });
    Some(ServerDelay::new(delays.max()?, DelaySource::PlanWindow))
}

/// The reset in this header, if it is the reset of a named limit that is used up.
fn exhausted(answer: &Answer<'_>, name: &str) -> Option<Duration> {
    let segments = || name.split('-');
    let of_limit = LIMIT_WORDS.iter().any(|word| name.contains(word));
    let named = segments().any(|segment| !GENERIC.contains(&segment));
    if !(of_limit && named && segments().any(|segment| segment == "reset")) {
        return None;
    }
    let sibling = |field| {
        let segments = segments().map(|segment| if segment == "reset" { field } else { segment });
        segments.collect::<Vec<_>>().join("-")
    };
    // Anthropic's plan windows (`unified-5h`) have a status instead of a remainder, and Azure's hyphenated variant comes
    // alone, on the refusal only
    let used_up = remains_nothing(answer, &sibling("remaining")).unwrap_or_else(|| {
        values(answer.headers, &sibling("status")).any(|status| status.eq_ignore_ascii_case("rejected"))
            || name.starts_with("x-rate-limit-reset-") && answer.status == StatusCode::TOO_MANY_REQUESTS
    });
    used_up.then(|| reset(answer, name)).flatten()
}

fn reset(answer: &Answer<'_>, name: &str) -> Option<Duration> {
    largest(answer.headers, name, |text| until_reset(text, answer.now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Envelope;
    use crate::retry_after::moment::Moment;
    use http::HeaderMap;

    #[test]
    fn a_reset_goes_with_the_remainder_of_its_own_limit() {
        let read = |remaining: &'static str, reset: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(remaining, "0".parse().unwrap());
            headers.insert(reset, "5".parse().unwrap());
            let answer = Answer {
                status: StatusCode::TOO_MANY_REQUESTS,
                headers: &headers,
                envelope: &Envelope::of(b""),
                now: Moment::from(std::time::UNIX_EPOCH),
            };
            named_reset(&answer).map(|delay| delay.duration().as_secs())
        };
        assert_eq!(
            read("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
            Some(5)
        );
        assert_eq!(
            read("x-ratelimit-tokens-remaining", "x-ratelimit-tokens-reset"),
            Some(5)
        );
        assert_eq!(read("x-ratelimit-remaining-tokens", "x-ratelimit-reset-requests"), None);
        assert_eq!(read("x-ratelimit-remaining", "x-ratelimit-reset"), None);
        assert_eq!(read("x-ratelimit-remaining", "x-rate-limit-reset"), None);
        assert_eq!(read("x-remaining-tokens", "x-reset-tokens"), None);
    }
}
