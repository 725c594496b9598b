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
    let rest = if one_of(word, &["T", "at"]) {
        after.trim_start()
    } else {
        rest
    };
    let (time, rest) = run(rest, |c| c.is_ascii_digit() || c == ':' || c == '.');
    let zone = zone(rest)?;
    let timestamp: Timestamp = format!("{date}T{time}{zone}").parse().ok()?;
    Some(timestamp.into())
}

/// `Z`, `UTC`, `GMT`, an offset, or an offset from one of these.
fn zone(text: &str) -> Option<String> {
    let (name, offset) = letters(text.trim_start_matches([' ', '(']));
    let named = one_of(name, &["Z", "UTC", "GMT"]);
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
