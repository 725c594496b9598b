//! The state of the limit on requests as the headers of an answer tell it, a success included. Knows no limit on tokens: a
//! request's own size is not known to be what they count.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use smallvec::SmallVec;

use crate::classify::Seen;
use crate::retry_after::{reset_in, split};

/// What the headers of one answer say of the limit on requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RequestLimit {
    /// In whatever unit the provider counts: some say per minute, some per day, Azure per ten seconds.
    pub(crate) limit: Option<f64>,
    pub(crate) remaining: f64,
    /// Until the limit is whole again.
    pub(crate) reset: Option<Duration>,
    /// How long the limit's windows are, where that is told.
    pub(crate) window: Option<Duration>,
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
        let named = NAMES.iter().find_map(|[limit, remaining, reset]| {
            let remaining = number(headers, remaining)?;
            let limit = match number(headers, limit) {
                Some(zero) if zero <= 0.0 => return None,
                limit => limit,
            };
            Some(Self {
                limit,
                remaining,
                reset: reset_in(seen, reset),
                window: Policy::of(headers, None, limit).map(|policy| policy.window),
            })
        });
        named.or_else(|| one_field(headers))
    }
}

/// The `RateLimit` field of the IETF's later drafts: `limit=100, remaining=50, reset=30` up to 07, then an item for each
/// policy, `"default";r=50;t=30`, of which the one with the least left is the next to bind.
fn one_field(headers: &HeaderMap) -> Option<RequestLimit> {
    let field = headers.get("ratelimit")?.to_str().ok()?;
    let of_draft_07 = || {
        let of = |name| split(field, ',').find_map(|member| value(member, name));
        Some((None, of("limit"), of("remaining")?, of("reset")))
    };
    let items = split(field, ',').filter_map(|item| {
        let of = |name| parameter(item, name);
        Some((head(item), None, of("r")?, of("t")))
    });
    let least = items.min_by(|one, other| one.2.total_cmp(&other.2));
    let (name, limit, remaining, reset) = least.or_else(of_draft_07)?;
    let policy = Policy::of(headers, name, limit);
    let limit = limit.or_else(|| policy?.quota);
    if limit == Some(0.0) {
        return None;
    }
    Some(RequestLimit {
        limit,
        remaining,
        reset: reset.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        window: policy.map(|policy| policy.window),
    })
}

/// What `RateLimit-Policy` states of a limit, or `RateLimit-Limit` in the earliest drafts.
#[derive(Debug, Clone, Copy)]
struct Policy<'a> {
    name: Option<&'a str>,
    quota: Option<f64>,
    window: Duration,
}

impl<'a> Policy<'a> {
    /// One that counts requests, which is what they count unless they say otherwise.
    fn read(item: &'a str) -> Option<Self> {
        let unit = split(item, ';').find_map(|parameter| text(parameter, "qu"));
        let window = parameter(item, "w").filter(|seconds| *seconds > 0.0)?;
        let name = head(item);
        Some(Self {
            name,
            quota: parameter(item, "q").or_else(|| readable(name?)),
            window: Duration::try_from_secs_f64(window).ok()?,
        })
        .filter(|_| unit.is_none_or(|unit| unit.trim_matches('"') == "requests"))
    }

    /// That of this name, else that with this quota, else the only one: names need not match.
    fn of(headers: &'a HeaderMap, name: Option<&str>, quota: Option<f64>) -> Option<Self> {
        let fields = ["ratelimit-policy", "ratelimit-limit"].into_iter();
        let texts = fields
            .flat_map(|field| headers.get_all(field))
            .filter_map(|field| field.to_str().ok());
        let items = texts.flat_map(|text| split(text, ','));
        let policies: SmallVec<[Self; 2]> = items.filter_map(Policy::read).collect();
        let named = |policy: &&Self| name.is_some() && policy.name == name;
        let equal = |policy: &&Self| quota.is_some() && policy.quota == quota;
        let found = policies.iter().find(named).or_else(|| policies.iter().find(equal));
        match (found, policies.as_slice()) {
            (Some(policy), _) | (None, [policy]) => Some(*policy),
            _ => None,
        }
    }
}

/// What an item is about: `"default"`, or `100` in `100;w=60`.
fn head(item: &str) -> Option<&str> {
    split(item, ';').next().map(str::trim)
}

fn parameter(item: &str, name: &str) -> Option<f64> {
    split(item, ';').find_map(|parameter| value(parameter, name))
}

fn value(pair: &str, name: &str) -> Option<f64> {
    readable(text(pair, name)?)
}

fn text<'a>(pair: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = pair.split_once('=')?;
    key.trim().eq_ignore_ascii_case(name).then_some(value.trim())
}

/// The number of a header; the earliest drafts of `RateLimit-Limit` add their policies after it.
fn number(headers: &HeaderMap, name: &str) -> Option<f64> {
    readable(headers.get(name)?.to_str().ok()?.split([',', ';']).next()?)
}

fn readable(text: &str) -> Option<f64> {
    let number: f64 = text.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method, StatusCode};
    use reqwest::Url;

    use super::*;

    /// Limit, remaining, reset and window, in seconds.
    type Read = (Option<f64>, f64, Option<u64>, Option<u64>);

    fn read(headers: &[(&'static str, &'static str)]) -> Option<Read> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let url = Url::parse("https://api.example.com/v1/messages").unwrap();
        let at = std::time::UNIX_EPOCH;
        let seen = Seen::response(&Method::POST, &url, StatusCode::OK, &headers, b"", at);
        let limit = RequestLimit::of(&seen)?;
        let seconds = |span: Option<Duration>| span.map(|span| span.as_secs());
        Some((
            limit.limit,
            limit.remaining,
            seconds(limit.reset),
            seconds(limit.window),
        ))
    }

    #[test]
    fn every_draft_of_the_rate_limit_fields_is_read() {
        let old = [
            ("ratelimit-limit", "20"),
            ("ratelimit-remaining", "7"),
            ("ratelimit-reset", "4"),
        ];
        assert_eq!(read(&old), Some((Some(20.0), 7.0, Some(4), None)));
        let with_policy = [old.as_slice(), &[("ratelimit-policy", "20;w=10, 500;w=3600")]].concat();
        assert_eq!(read(&with_policy), Some((Some(20.0), 7.0, Some(4), Some(10))));
        let oldest = [("ratelimit-limit", "20, 20;w=10, 500;w=3600"), old[1], old[2]];
        assert_eq!(read(&oldest), Some((Some(20.0), 7.0, Some(4), Some(10))));
        let draft_07 = [
            ("ratelimit", "limit=20, remaining=7, reset=4"),
            ("ratelimit-policy", "20;w=10"),
        ];
        assert_eq!(read(&draft_07), Some((Some(20.0), 7.0, Some(4), Some(10))));
        let newest = [
            ("ratelimit", r#""hour";r=300;t=1200, "burst, short";r=7;t=4"#),
            ("ratelimit-policy", r#""hour";q=500;w=3600, "burst, short";q=20;w=10"#),
        ];
        assert_eq!(read(&newest), Some((Some(20.0), 7.0, Some(4), Some(10))));
    }

    #[test]
    fn a_policy_of_something_else_tells_no_window() {
        let limit = ("ratelimit", r#""default";r=7;t=4"#);
        let window = |policy| read(&[limit, ("ratelimit-policy", policy)]).unwrap().3;
        assert_eq!(window(r#""other";q=20;w=10"#), Some(10), "names need not match");
        assert_eq!(window(r#""a";q=20;w=10, "b";q=5;w=1"#), None);
        assert_eq!(window(r#""default";q=20000;w=10;qu="content-bytes""#), None);
        assert_eq!(window(r#""default";q=20;w=0"#), None);
        assert_eq!(window(r#""default";q=20;w=1e300"#), None);
    }

    #[test]
    fn unknown_and_unreadable_values_say_nothing() {
        for values in [["-1", "-1", "0"], ["0", "0", "0"], ["many", "few", "soon"]] {
            let [limit, remaining, reset] = values;
            assert_eq!(
                read(&[
                    ("x-ratelimit-limit-requests", limit),
                    ("x-ratelimit-remaining-requests", remaining),
                    ("x-ratelimit-reset-requests", reset),
                ]),
                None
            );
        }
        for field in [
            "",
            ";;;",
            "limit=0, remaining=0",
            r#""a";r=-1;t=5"#,
            r#""a";r=NaN"#,
            "r=1",
        ] {
            assert!(
                read(&[("ratelimit", field)]).is_none_or(|read| read.2.is_none()),
                "{field}"
            );
        }
    }
}
