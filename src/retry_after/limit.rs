//! The resets of limits that have names of their own (`x-ratelimit-reset-tokens`, `anthropic-ratelimit-requests-reset`,
//! `x-codex-primary-…`), of those that are used up. Knows no limit without a name.

use std::time::Duration;

use super::decimal::Decimal;
use super::header::{largest, values};
use super::ratelimit::{remains_nothing, until_reset};
use super::{Answer, DelaySource, ServerDelay};

/// The segments of a header name that tell that it is about limits, and name none.
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
    let of_limit = name.contains("ratelimit") || name.contains("rate-limit") || name.contains("tokenlimit");
    let named = name.split('-').any(|segment| !GENERIC.contains(&segment));
    let sibling = |field: &str| {
        let segments = name
            .split('-')
            .map(|segment| if segment == "reset" { field } else { segment });
        segments.collect::<Vec<_>>().join("-")
    };
    if !of_limit || !named || !name.split('-').any(|segment| segment == "reset") {
        return None;
    }
    // Anthropic's plan windows (`unified-5h`) have a status instead of a remainder, and Azure's hyphenated variant comes
    // alone, on the refusal only
    let rejected = || values(answer.headers, &sibling("status")).any(|status| status.eq_ignore_ascii_case("rejected"));
    let alone = || name.starts_with("x-rate-limit-reset-") && answer.status.as_u16() == 429;
    let binds = match answer.headers.contains_key(sibling("remaining")) {
        true => remains_nothing(answer, &sibling("remaining")) == Some(true),
        false => rejected() || alone(),
    };
    if binds { reset(answer, name) } else { None }
}

fn reset(answer: &Answer<'_>, name: &str) -> Option<Duration> {
    largest(answer.headers, name, |text| until_reset(text, answer.now))
}
