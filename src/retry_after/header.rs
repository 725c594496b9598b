//! The headers made to state a delay: `retry-after-ms` and its kin, `Retry-After`, `X-Retry-In`. Knows no limits and
//! their state.

use std::time::Duration;

use http::HeaderMap;

use super::decimal::Decimal;
use super::moment::Moment;
use super::span::{self, MILLISECOND, SECOND};
use super::{Answer, DelaySource, ServerDelay};

/// `retry-after-ms`, else `x-ms-retry-after-ms`: milliseconds, whole or not.
pub(super) fn retry_after_ms(answer: &Answer<'_>) -> Option<ServerDelay> {
    let read = |name| {
        largest(answer.headers, name, |text| {
            Some(Decimal::parse(text)?.times(MILLISECOND))
        })
    };
    let delay = read("retry-after-ms").or_else(|| read("x-ms-retry-after-ms"))?;
    Some(ServerDelay::new(delay, DelaySource::RetryAfterMs))
}

/// `Retry-After`.
pub(super) fn retry_after(answer: &Answer<'_>) -> Option<ServerDelay> {
    let delay = largest(answer.headers, "retry-after", |text| wait(text, answer.now))?;
    Some(ServerDelay::new(delay, DelaySource::RetryAfter))
}

/// `X-Retry-In`: Traefik's Go duration.
pub(super) fn retry_in(answer: &Answer<'_>) -> Option<ServerDelay> {
    let delay = largest(answer.headers, "x-retry-in", |text| wait(text, answer.now))?;
    Some(ServerDelay::new(delay, DelaySource::RetryIn))
}

/// A wait as `Retry-After` states it: seconds, with a fraction if need be; a number too large for that is an epoch; a
/// date; or, off the standard but plain, a length with its unit.
pub(super) fn wait(text: &str, now: Moment) -> Option<Duration> {
    match Decimal::parse(text) {
        Some(number) => Some(seconds_or_epoch(number, now)),
        None => span::parse(text).or_else(|| Some(Moment::parse(text)?.after(now))),
    }
}

/// Seconds to wait, unless there are so many that it is an epoch.
pub(super) fn seconds_or_epoch(number: Decimal, now: Moment) -> Duration {
    Moment::epoch(number).map_or_else(|| number.times(SECOND), |moment| moment.after(now))
}

/// The largest readable value of this header. Where a hop added its own, both meant theirs as a minimum.
pub(super) fn largest<T: Ord>(headers: &HeaderMap, name: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    values(headers, name).filter_map(read).max()
}

/// The values of this header that are text, without the white space that HTTP allows around them.
pub(super) fn values<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| Some(value.to_str().ok()?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_name_the_largest_readable_value_counts() {
        let mut headers = HeaderMap::new();
        for value in ["5", " 9\t", "x", "-70"] {
            headers.append("retry-after", value.parse().unwrap());
        }
        assert_eq!(
            largest(&headers, "retry-after", Decimal::parse),
            Some(Decimal::integer(9))
        );
        assert_eq!(largest(&headers, "x-retry-in", Decimal::parse), None);
    }

    #[test]
    fn a_wait_is_a_number_a_span_or_a_date() {
        let now = Moment::from(std::time::UNIX_EPOCH + Duration::from_secs(1_445_412_470));
        let seconds = |text| wait(text, now).map(|delay| delay.as_secs());
        assert_eq!(seconds("10"), Some(10));
        assert_eq!(seconds("1445412480"), Some(10));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:28:00 GMT"), Some(10));
        assert_eq!(seconds("10s"), Some(10));
        assert_eq!(seconds("10 things"), None);
    }
}
