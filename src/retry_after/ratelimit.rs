//! The state of the limit that refused a request: the IETF's `RateLimit` fields in their successive drafts, and
//! `X-RateLimit-Reset`. Knows no limits with names of their own.

use std::time::Duration;

use http::StatusCode;

use super::decimal::Decimal;
use super::header::{largest, values};
use super::moment::Moment;
use super::span::{self, SECOND};
use super::{Answer, DelaySource, ServerDelay};
use crate::provider::Envelope;

/// From here on a number of seconds is no plausible reset (three years); from 10⁹ on it is an epoch.
const LONGEST_RESET: Decimal = Decimal::integer(100_000_000);

/// Words of a body that refuses for the rate, with everything but letters taken out.
const REFUSED_FOR_RATE: [&str; 3] = ["ratelimit", "toomanyrequests", "throttl"];

/// The `RateLimit` field: of the items with nothing remaining, the latest reset. An item with something left did not
/// refuse the request.
pub(super) fn items(answer: &Answer<'_>) -> Option<ServerDelay> {
    let delay = values(answer.headers, "ratelimit").filter_map(exhausted).max()?;
    Some(ServerDelay::new(delay, DelaySource::RateLimit))
}

/// `RateLimit-Remaining` and `RateLimit-Reset` of the drafts up to 06; GitLab sends an epoch under the same name.
pub(super) fn old_fields(answer: &Answer<'_>) -> Option<ServerDelay> {
    let refused =
        remains_nothing(answer, "ratelimit-remaining").unwrap_or(answer.status == StatusCode::TOO_MANY_REQUESTS);
    let delay = largest(answer.headers, "ratelimit-reset", |text| until_reset(text, answer.now))?;
    refused.then(|| ServerDelay::new(delay, DelaySource::RateLimit))
}

/// `X-RateLimit-Reset`. GitHub and others send it with every answer, so that it counts only where the answer itself says
/// that the rate was the reason; but then also with something remaining, as in GitHub's secondary limits.
pub(super) fn reset(answer: &Answer<'_>) -> Option<ServerDelay> {
    let refused = match answer.status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::FORBIDDEN => speaks_of_rate(answer.envelope),
        StatusCode::SERVICE_UNAVAILABLE => remains_nothing(answer, "x-ratelimit-remaining") == Some(true),
        _ => false,
    };
    let delay = largest(answer.headers, "x-ratelimit-reset", |text| {
        until_reset(text, answer.now)
    })?;
    refused.then(|| ServerDelay::new(delay, DelaySource::RateLimitReset))
}

/// Whether this header says that nothing remains; `None` if it is absent or says nothing (Azure's `-1` is "unknown").
pub(super) fn remains_nothing(answer: &Answer<'_>, name: &str) -> Option<bool> {
    largest(answer.headers, name, Decimal::parse).map(Decimal::is_zero)
}

/// The time until a reset: by its size a number is seconds, an epoch in seconds, or one in milliseconds; else a length
/// with its unit, or a date. Zero says nothing: APISIX sends it with a limit that is used up.
pub(super) fn until_reset(text: &str, now: Moment) -> Option<Duration> {
    match Decimal::parse(text) {
        Some(number) if number.is_zero() => None,
        Some(number) if number < LONGEST_RESET => Some(number.times(SECOND)),
        Some(number) => Some(Moment::epoch(number)?.after(now)),
        None => match span::parse(text) {
            Some(span) => (!span.is_zero()).then_some(span),
            None => Some(Moment::parse(text)?.after(now)),
        },
    }
}

/// The latest reset among the items of one field value with nothing remaining. Draft 07 has one limit, spread over the
/// members of a dictionary (`limit=100, remaining=0, reset=30`); later drafts have an item for each limit
/// (`"default";r=0;t=30`), with the parameters in any order.
fn exhausted(field: &str) -> Option<Duration> {
    let dictionary = reset_of(
        split(field, ',').flat_map(|member| split(member, ';')),
        "remaining",
        "reset",
    );
    let items = split(field, ',').filter_map(|item| reset_of(split(item, ';'), "r", "t"));
    dictionary.into_iter().chain(items).max()
}

/// The reset among these parameters, if what remains is nothing.
fn reset_of<'a>(parameters: impl Iterator<Item = &'a str>, remaining: &str, reset: &str) -> Option<Duration> {
    let (mut left, mut seconds) = (None, None);
    for (key, value) in parameters.filter_map(|parameter| parameter.split_once('=')) {
        let number = Decimal::parse(value.trim().trim_matches('"'));
        match key.trim() {
            key if key.eq_ignore_ascii_case(remaining) => left = number,
            key if key.eq_ignore_ascii_case(reset) => seconds = number,
            _ => {}
        }
    }
    let seconds = seconds.filter(|seconds| !seconds.is_zero())?;
    left?.is_zero().then(|| seconds.times(SECOND))
}

/// The parts between separators; one inside quotes is part of a name.
pub(crate) fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
}

fn speaks_of_rate(envelope: &Envelope) -> bool {
    let codes = envelope.objects().flat_map(|object| {
        let fields = ["code", "type", "status", "reason"];
        fields.into_iter().filter_map(|field| object.get(field)?.as_str())
    });
    envelope.messages().chain(codes).any(|text| {
        let letters = text.chars().filter(char::is_ascii_alphabetic);
        let text: String = letters.map(|c| c.to_ascii_lowercase()).collect();
        REFUSED_FOR_RATE.iter().any(|word| text.contains(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_name_may_hold_separators() {
        let parts: Vec<_> = split(r#""a,b";r=0, c"#, ',').collect();
        assert_eq!(parts, [r#""a,b";r=0"#, " c"]);
        assert_eq!(split("\"open, end", ',').count(), 1);
    }

    #[test]
    fn only_what_is_used_up_has_a_reset() {
        let seconds = |field| exhausted(field).map(|delay| delay.as_secs());
        assert_eq!(seconds(r#""a";r=0;t=5,"b";t=9;r=0,"c";r=1;t=99"#), Some(9));
        assert_eq!(seconds("limit=1, reset=7, remaining=0"), Some(7));
        assert_eq!(seconds("limit=1, reset=7, remaining=2"), None);
        assert_eq!(seconds(r#""a";r=x;t=5"#), None);
    }

    #[test]
    fn a_reset_is_read_by_its_size() {
        let now = Moment::from(std::time::UNIX_EPOCH + Duration::from_secs(1_655_120_933));
        let seconds = |text| until_reset(text, now).map(|delay| delay.as_secs());
        assert_eq!(seconds("99999999"), Some(99_999_999));
        assert_eq!(seconds("100000000"), None);
        assert_eq!(seconds("1655120964"), Some(31));
        assert_eq!(seconds("1655120964000"), Some(31));
        assert_eq!(seconds("6m0s"), Some(360));
        assert_eq!(seconds("2022-06-13T11:49:00Z"), Some(7));
        assert_eq!(seconds("0s"), None);
    }
}
