//! A point in time as servers write it: an HTTP-date, RFC 3339 and its looser relatives, the seconds or milliseconds of
//! an epoch. Knows no clock but the one of the answer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::DATE;
use jiff::Timestamp;

use super::decimal::Decimal;
use super::scan::{digits, letters, one_of, run};
use super::span::{MILLISECOND, SECOND};
use crate::classify::Seen;

/// Above this a number is an epoch and no length of time: as seconds it would be more than 31 years.
const EPOCH_SECONDS: Decimal = Decimal::integer(1_000_000_000);
/// Above this an epoch counts milliseconds: as seconds it would lie beyond the year 5138.
const EPOCH_MILLISECONDS: Decimal = Decimal::integer(100_000_000_000);
/// The length of `Sun, 06 Nov 1994 08:49:37 GMT`.
const IMF_FIXDATE: usize = 29;

/// A point in time, as the time since 1970; what was before is as good as 1970, for it is past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(Duration);

impl Moment {
    /// When the answer was made: by its own `Date`, since the server's absolute times are by the server's clock, else
    /// when it was received.
    pub(super) fn of_answer(seen: &Seen<'_>) -> Option<Self> {
        let date = seen.headers()?.get(DATE).and_then(|date| date.to_str().ok());
        match date.and_then(Self::http_date) {
            Some(moment) => Some(moment),
            None => seen.received_at().map(Self::from),
        }
    }

    /// The time from `now` until this; nothing if it is past.
    pub(super) fn after(self, now: Self) -> Duration {
        self.0.saturating_sub(now.0)
    }

    /// All of `text` as a date with a time and a zone. Without a zone it could be any of 24 hours, so it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::http_date(text).or_else(|| iso(text)).or_else(|| {
            // the numeric zones of mail (`+0000`), which HTTP does not allow, and servers send
            let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
            Some(zoned.timestamp().into())
        })
    }

    /// The date that `text` begins with, whatever follows.
    pub(super) fn leading(text: &str) -> Option<Self> {
        iso(text)
            .or_else(|| text.get(..IMF_FIXDATE).and_then(Self::http_date))
            .or_else(|| {
                let (number, _) = Decimal::leading(text)?;
                Self::epoch(number)
            })
    }

    /// The three forms of RFC 9110, section 5.6.7.
    fn http_date(text: &str) -> Option<Self> {
        httpdate::parse_http_date(text.trim()).ok().map(Self::from)
    }

    /// An epoch in seconds or milliseconds, told apart by size; none if the number is too small to be either.
    pub(super) fn epoch(number: Decimal) -> Option<Self> {
        if number > EPOCH_MILLISECONDS {
            Some(Self(number.times(MILLISECOND)))
        } else {
            (number > EPOCH_SECONDS).then(|| Self(number.times(SECOND)))
        }
    }
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl From<Timestamp> for Moment {
    fn from(timestamp: Timestamp) -> Self {
        Self(Duration::try_from(timestamp.as_duration()).unwrap_or_default())
    }
}

/// `2025-07-01T00:00:00Z`, and what people make of it: `2025-07-01 at 00:00 UTC`, `2025-07-01 00:00:00 +0200`.
fn iso(text: &str) -> Option<Moment> {
    let (date, rest) = run(text, |c| c.is_ascii_digit() || c == '-');
    let rest = rest.trim_start_matches([',', ' ']);
    let (word, after) = letters(rest);
    let rest = if one_of(word, "T at") { after.trim_start() } else { rest };
    let (time, rest) = run(rest, |c| c.is_ascii_digit() || c == ':' || c == '.');
    let zone = zone(rest)?;
    let timestamp: Timestamp = format!("{date}T{time}{zone}").parse().ok()?;
    Some(timestamp.into())
}

/// `Z`, `UTC`, `GMT`, an offset, or an offset from one of these.
fn zone(text: &str) -> Option<String> {
    let (name, offset) = letters(text.trim_start_matches([' ', '(']));
    let named = one_of(name, "Z UTC GMT");
    if !named && !name.is_empty() {
        return None;
    }
    let (sign, rest) = run(offset, |c| c == '+' || c == '-');
    let (hours, rest) = digits(rest);
    match hours.len() {
        0 => named.then(|| "Z".to_owned()),
        1 | 2 => {
            let minutes = rest.strip_prefix(':').map_or("00", |rest| digits(rest).0);
            Some(format!("{sign}{hours:0>2}:{minutes}"))
        }
        _ => Some(format!("{sign}{hours}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(moment: Option<Moment>) -> Option<u64> {
        moment.map(|moment| moment.0.as_secs())
    }

    #[test]
    fn every_form_with_a_zone() {
        let texts = [
            "Tue, 01 Jul 2025 00:00:00 GMT",
            "Tuesday, 01-Jul-25 00:00:00 GMT",
            "Tue Jul  1 00:00:00 2025",
            "Tue, 01 Jul 2025 02:00:00 +0200",
            "2025-07-01T00:00:00Z",
            "2025-07-01t00:00:00z",
            "2025-07-01T00:00Z",
            "2025-06-30T20:00:00-04:00",
            "2025-07-01 at 00:00 UTC",
            "2025-07-01, 00:00:00 GMT",
            "2025-07-01 08:00:00 (UTC+8)",
            "2025-07-01 05:30:00 UTC+5:30",
            "2025-07-01 08:00:00 +0800",
        ];
        for text in texts {
            assert_eq!(seconds(Moment::parse(text)), Some(1_751_328_000), "{text}");
        }
    }

    #[test]
    fn no_moment() {
        let texts = [
            "",
            "Z",
            "UTC",
            "2025-07-01",
            "2025-07-01T00:00:00",
            "2025-07-01 00:00:00 CST",
            "2025-13-01T00:00:00Z",
            "2025-07-01T25:00:00Z",
            "Tue Jul 01 2025 00:00:00 GMT+0000 (Coordinated Universal Time)",
            "tomorrow",
            "30s",
        ];
        for text in texts {
            assert_eq!(Moment::parse(text), None, "{text}");
            assert_eq!(Moment::leading(text), None, "{text}");
        }
    }

    #[test]
    fn what_follows_a_date_does_not_matter() {
        let texts = [
            "2025-07-01T00:00:00Z (2056)",
            "2025-07-01 at 00:00 UTC.",
            "2025-07-01 00:00 UTC - see the docs",
            "Tue, 01 Jul 2025 00:00:00 GMT. Bye",
            "1751328000.",
            "1751328000000 ms",
        ];
        for text in texts {
            assert_eq!(seconds(Moment::leading(text)), Some(1_751_328_000), "{text}");
        }
    }

    #[test]
    fn an_epoch_is_told_by_its_size() {
        let epoch = |number| seconds(Moment::epoch(Decimal::integer(number)));
        assert_eq!(epoch(1_000_000_000), None);
        assert_eq!(epoch(1_000_000_001), Some(1_000_000_001));
        assert_eq!(epoch(100_000_000_000), Some(100_000_000_000));
        assert_eq!(epoch(1_751_328_000_999), Some(1_751_328_000));
        assert!(epoch(u64::MAX).is_some());
    }

    #[test]
    fn the_past_is_now() {
        let (early, late) = (Moment(Duration::from_secs(5)), Moment(Duration::from_secs(8)));
        assert_eq!(late.after(early), Duration::from_secs(3));
        assert_eq!(early.after(late), Duration::ZERO);
        assert_eq!(seconds(Moment::parse("1969-07-20T20:17:40Z")), Some(0));
    }
}
