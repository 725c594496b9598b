//! A span knows how times are written: Go durations, protobuf durations, dates. It does not know where they are stated.

use std::time::{Duration, SystemTime};

use http::HeaderValue;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

/// In whole milliseconds, rounded up.
pub(super) fn millis_up(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// In whole seconds, rounded up.
pub(super) fn seconds_up(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

/// As Go writes a duration, rounded up to the millisecond: `6ms`, `1.5s`, `6m0s`, `23h47m36.648s`.
pub(super) fn go(time: Duration) -> String {
    let millis = millis_up(time);
    let (seconds, rest) = (millis / 1000, millis % 1000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let fraction = fraction(rest);
    match seconds {
        0 if rest > 0 => format!("{rest}ms"),
        0..60 => format!("{seconds}{fraction}s"),
        60..3600 => format!("{minutes}m{}{fraction}s", seconds % 60),
        _ => format!("{hours}h{minutes}m{}{fraction}s", seconds % 60),
    }
}

/// As the JSON of protobuf writes a duration, rounded up to the millisecond: `26s`, `0.540s`.
pub(super) fn protobuf(time: Duration) -> String {
    let millis = millis_up(time);
    match millis % 1000 {
        0 => format!("{}s", millis / 1000),
        rest => format!("{}.{rest:03}s", millis / 1000),
    }
}

fn fraction(millis: u64) -> String {
    match millis {
        0 => String::new(),
        _ => format!(".{millis:03}").trim_end_matches('0').to_owned(),
    }
}

/// RFC 3339 in whole seconds, rounded up.
pub(super) fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    timestamp(seconds_up(since)).to_string()
}

/// As the header `date` has it.
pub(super) fn http_date(at: SystemTime) -> HeaderValue {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&timestamp(since.as_secs()));
    let date = date.ok().and_then(|date| HeaderValue::try_from(date).ok());
    date.unwrap_or_else(|| HeaderValue::from_static(""))
}

fn timestamp(seconds: u64) -> Timestamp {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_the_providers_write_them() {
        let go = |micros| go(Duration::from_micros(micros));
        let written = [
            0,
            6_000,
            494_000,
            1_500_000,
            1_000_001,
            60_052_000,
            360_000_000,
            85_656_648_000,
        ]
        .map(go);
        let seen = [
            "0s",
            "6ms",
            "494ms",
            "1.5s",
            "1.001s",
            "1m0.052s",
            "6m0s",
            "23h47m36.648s",
        ];
        assert_eq!(written, seen);
        assert_eq!(protobuf(Duration::from_secs(26)), "26s");
        assert_eq!(protobuf(Duration::from_micros(539_478)), "0.540s");
    }

    #[test]
    fn moments_are_written_in_whole_seconds() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_748_877_347_400);
        assert_eq!(rfc3339(at), "2025-06-02T15:15:48Z");
        assert_eq!(http_date(at), "Mon, 02 Jun 2025 15:15:47 GMT");
    }
}
