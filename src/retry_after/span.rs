//! A length of time as servers write it: Go's `1m0.052s`, protobuf's `34.074824224s`, .NET's `22.14:18:12`, and the
//! "463 hours 23 minutes" of prose. Knows no point in time.

use std::time::Duration;

use super::decimal::Decimal;
use super::scan::{digits, letters, one_of};

/// A microsecond, in nanoseconds.
const MICROSECOND: u64 = 1_000;
/// A millisecond, in nanoseconds.
pub(super) const MILLISECOND: u64 = 1_000_000;
/// A second, in nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The names of each unit, in any case. Both micro signs are in use; Go writes U+00B5. A month has no length.
const UNITS: [(u64, &str); 8] = [
    (1, "ns nanosecond nanoseconds"),
    (MICROSECOND, "us \u{b5}s \u{3bc}s microsecond microseconds"),
    (MILLISECOND, "ms msec msecs millis millisecond milliseconds"),
    (SECOND, "s sec secs second seconds"),
    (MINUTE, "m min mins minute minutes"),
    (HOUR, "h hr hrs hour hours"),
    (DAY, "d day days"),
    (7 * DAY, "w week weeks"),
];

/// All of `text` as a length of time.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let (span, rest) = leading(text)?;
    rest.is_empty().then_some(span)
}

/// The length of time that `text` begins with, and the rest. A number without a unit is none.
pub(super) fn leading(text: &str) -> Option<(Duration, &str)> {
    clock(text).or_else(|| chain(text))
}

/// Numbers with units, from the largest unit down. A unit that is not smaller than the one before it belongs to
/// something else: "in 5 seconds, 3 minutes is the limit".
fn chain(text: &str) -> Option<(Duration, &str)> {
    let (mut sum, mut smallest, mut rest) = term(text)?;
    while let Some((span, unit, after)) = term(joint(rest))
        && unit < smallest
    {
        (sum, smallest, rest) = (sum.saturating_add(span), unit, after);
    }
    Some((sum, rest))
}

/// One number with its unit: the length, the unit in nanoseconds, the rest.
fn term(text: &str) -> Option<(Duration, u64, &str)> {
    let (number, rest) = Decimal::leading(text)?;
    let (word, rest) = letters(rest.trim_start());
    let (unit, _) = *UNITS.iter().find(|(_, names)| one_of(word, names))?;
    Some((number.times(unit), unit, rest.strip_prefix("(s)").unwrap_or(rest)))
}

/// What follows the joint between two terms: nothing, a space, a comma, "and".
fn joint(text: &str) -> &str {
    let text = text.trim_start();
    let text = text.strip_prefix(',').unwrap_or(text).trim_start();
    match letters(text) {
        (word, rest) if one_of(word, "and") => rest.trim_start(),
        _ => text,
    }
}

/// .NET's `[days.]hours:minutes:seconds[.fraction]`. Two parts alone could be hours or minutes, so they are none.
fn clock(text: &str) -> Option<(Duration, &str)> {
    let (first, rest) = digits(text);
    let (days, hours, rest) = match rest.strip_prefix('.').map(digits) {
        Some((hours, rest)) => (first, hours, rest),
        None => ("0", first, rest),
    };
    let (minutes, rest) = digits(rest.strip_prefix(':')?);
    let (seconds, rest) = Decimal::leading(rest.strip_prefix(':')?)?;
    let minutes = Decimal::parse(minutes)?;
    if rest.starts_with(|c: char| c == ':' || c.is_alphanumeric()) || minutes.max(seconds) >= Decimal::integer(60) {
        return None;
    }
    let whole = Decimal::parse(days)?
        .times(DAY)
        .saturating_add(Decimal::parse(hours)?.times(HOUR));
    let part = minutes.times(MINUTE).saturating_add(seconds.times(SECOND));
    Some((whole.saturating_add(part), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syntax() {
        let cases = [
            ("6ms", 6_000_000),
            ("105.712425ms", 105_712_425),
            ("250us", 250_000),
            ("1.5\u{b5}s", 1_500),
            ("1.5\u{3bc}s", 1_500),
            ("7ns", 7),
            ("1.5s", 1_500_000_000),
            ("6m0s", 360_000_000_000),
            ("1m0.052s", 60_052_000_000),
            ("23h47m36.648s", 85_656_648_000_000),
            ("1h0m0s", 3_600_000_000_000),
            ("34.074824224s", 34_074_824_224),
            ("22.14:18:12", 1_952_292_000_000_000),
            ("00:01:02.5", 62_500_000_000),
            ("30:00:00", 108_000_000_000_000),
            ("463 hours 23 minutes", 1_668_180_000_000_000),
            ("1 Hour, 2 MINUTES and 3 secs", 3_723_000_000_000),
            ("1.5 days", 129_600_000_000_000),
            ("2 weeks", 1_209_600_000_000_000),
            ("0s", 0),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn no_span() {
        let texts = [
            "",
            "5",
            "s",
            "-5s",
            "+5s",
            "5 x",
            "5months",
            "5sx",
            "1e3s",
            "5s5s",
            "5s1m",
            "05:30",
            "1:2:3:4",
            "1:75:00",
            "1:00:60",
            "::",
            "1.2.3:4:5",
        ];
        for text in texts {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_rest_stays() {
        let rest = |text| leading(text).map(|(_, rest)| rest);
        assert_eq!(rest("5s. Visit"), Some(". Visit"));
        assert_eq!(rest("5 seconds, 3 minutes"), Some(", 3 minutes"));
        assert_eq!(rest("1 minute(s) and 5 second(s) left"), Some(" left"));
        assert_eq!(rest("1 hour and then"), Some(" and then"));
    }
}
