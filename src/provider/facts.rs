//! An answer as the tables see it: its status, the names and sentences in it, the limits it mentions. Knows where such
//! things stand, and not what they mean.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use serde_json::{Map, Value};

use super::envelope::{Envelope, Shape};
use super::prose::{self, Sentence};
use super::status;
use crate::classify::Seen;
use crate::retry_after::ServerDelay;

/// Keys whose value names an error.
const NAMES: &[&str] = &[
    "type",
    "code",
    "status",
    "reason",
    "error",
    "error_type",
    "error_code",
    "errorcode",
    "__type",
    "limit_source",
    "limit_type",
    "name",
    "kind",
];
/// Keys whose value names a limit.
const LIMITS: &[&str] = &[
    "type",
    "code",
    "quotaid",
    "quota_limit",
    "quotametric",
    "quota_metric",
    "limit_source",
    "limit_type",
    "violated-policies",
];
/// Headers whose value names an error.
const NAME_HEADERS: &[&str] = &["x-amzn-errortype", "x-ms-error-code", "x-error-code", "x-error-type"];

pub(super) struct Facts<'a> {
    /// The status, or the one that an error inside a success stands for.
    pub(super) status: StatusCode,
    /// Is there a status at all, on the wire or in the body?
    has_status: bool,
    pub(super) headers: &'a HeaderMap,
    pub(super) envelope: &'a Envelope,
    pub(super) delay: Option<ServerDelay>,
    pub(super) sentences: Vec<Sentence>,
    names: Vec<String>,
}

impl<'a> Facts<'a> {
    /// The facts of a failure, or `None` for a success.
    pub(super) fn of(seen: &'a Seen<'a>) -> Option<Self> {
        let (status, headers) = (seen.status()?, seen.headers()?);
        let succeeded = status.as_u16() < 400;
        if succeeded && seen.body().is_empty() {
            return None;
        }
        let envelope = seen.envelope();
        if succeeded && !fails_inside(seen.method(), envelope) {
            return None;
        }
        let mut facts = Self {
            status,
            has_status: true,
            headers,
            envelope,
            delay: ServerDelay::of(seen),
            sentences: sentences(status, envelope),
            names: names(headers, envelope),
        };
        if succeeded {
            let status = facts.inner_status();
            facts.has_status = status.is_some();
            facts.status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        }
        Some(facts)
    }

    /// Does the answer carry this name? `name` may begin or end with `*`.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let wanted = canonical(name.trim_matches('*'));
        self.names
            .iter()
            .any(|seen| match (name.starts_with('*'), name.ends_with('*')) {
                (false, false) => *seen == wanted,
                (false, true) => seen.starts_with(&wanted),
                (true, false) => seen.ends_with(&wanted),
                (true, true) => seen.contains(&wanted),
            })
    }

    /// Is this the answer to a malformed request, which may repeat parts of it?
    pub(super) fn may_echo(&self) -> bool {
        may_echo(self.status)
    }

    /// Does one of its sentences say this?
    pub(super) fn says(&self, phrase: &str) -> bool {
        self.sentences
            .iter()
            .any(|sentence| prose::says(&sentence.lower, phrase))
    }

    pub(super) fn says_any(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.says(phrase))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    }

    pub(super) fn has_header(&self, name: &str) -> bool {
        self.headers.contains_key(name)
    }

    /// A 5xx that somebody sent, not one that stands for the lack of a status.
    pub(super) fn is_server_error(&self) -> bool {
        self.has_status && self.status.is_server_error()
    }

    pub(super) fn wait(&self) -> Option<Duration> {
        self.delay.map(|delay| delay.duration())
    }

    /// The names of the limits that were hit. "seconds" is what a limit on audio counts.
    pub(super) fn limits(&self) -> impl Iterator<Item = &str> {
        self.envelope
            .objects()
            .flat_map(|object| texts(object, LIMITS))
            .filter(|name| !name.contains("://") && *name != "seconds")
    }

    /// The page that came instead of an API's answer.
    pub(super) fn page(&self) -> Option<&str> {
        (self.envelope.shape() == Shape::Html)
            .then(|| self.envelope.messages().next())
            .flatten()
    }

    /// The text of a body that is neither JSON nor a page.
    pub(super) fn text(&self) -> Option<&str> {
        (self.envelope.shape() == Shape::Text)
            .then(|| self.envelope.messages().next())
            .flatten()
    }

    /// Had a stream already begun to answer?
    pub(super) fn had_begun(&self) -> bool {
        matches!(self.envelope.shape(), Shape::Stream { begun: true, .. })
    }

    /// An error inside a success has its status in the body, or a name that stands for one; else nobody knows better than
    /// that the server failed.
    fn inner_status(&self) -> Option<StatusCode> {
        let numbers = self.envelope.objects().filter_map(|object| {
            let keys = ["code", "status", "status_code", "http_code", "error_code"];
            keys.iter().find_map(|key| status_of(object.get(*key)?))
        });
        let named = || status::stand_in(|name| self.is_named(name));
        numbers.into_iter().next().or_else(named)
    }
}

/// The string values of these keys, also those in a list.
pub(super) fn texts<'a>(object: &'a Map<String, Value>, keys: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let wanted = object
        .iter()
        .filter(move |(key, _)| keys.iter().any(|wanted| key.eq_ignore_ascii_case(wanted)));
    wanted.flat_map(|(_, value)| {
        let items = value.as_array().into_iter().flatten();
        std::iter::once(value).chain(items).filter_map(Value::as_str)
    })
}

/// A success with an error inside. What a `GET` brings is the record of something else, unless the envelope is one that puts
/// the outcome of the call itself into every body.
fn fails_inside(method: &Method, envelope: &Envelope) -> bool {
    let outcome = envelope.objects().find_map(|object| {
        object
            .contains_key("status_msg")
            .then(|| object.get("status_code").and_then(Value::as_u64))
            .flatten()
    });
    match outcome {
        Some(code) => code != 0,
        None => !matches!(*method, Method::GET | Method::HEAD) && envelope.is_error(),
    }
}

fn status_of(value: &Value) -> Option<StatusCode> {
    let number = match value {
        Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number
        .filter(|number| (400..600).contains(number))
        .and_then(|number| StatusCode::from_u16(number).ok())
}

/// As much of a message as anybody writes; more is an echo or a dump.
fn beginning(message: &str) -> &str {
    const LONGEST: usize = 16 * 1024;
    let end = (0..=LONGEST.min(message.len()))
        .rev()
        .find(|&end| message.is_char_boundary(end));
    message.get(..end.unwrap_or(0)).unwrap_or(message)
}

fn may_echo(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 404 | 405 | 415 | 422)
}

fn sentences(status: StatusCode, envelope: &Envelope) -> Vec<Sentence> {
    // a page is made for browsers: what it says of bans and access holds for whoever made the page
    if envelope.shape() == Shape::Html {
        return Vec::new();
    }
    let echoes = may_echo(status);
    let messages = envelope.messages().map(beginning);
    messages
        .flat_map(|message| prose::sentences(message, !echoes))
        .collect()
}

fn names(headers: &HeaderMap, envelope: &Envelope) -> Vec<String> {
    let headers = NAME_HEADERS.iter().filter_map(|name| headers.get(*name)?.to_str().ok());
    let fields = envelope.objects().flat_map(|object| texts(object, NAMES));
    let whole = envelope
        .messages()
        .filter(|message| !message.contains(char::is_whitespace));
    // relays keep the status of what they relay as a number
    let throttled = envelope
        .objects()
        .any(|object| object.get("code").and_then(Value::as_u64) == Some(429));
    let relayed = throttled.then_some("429");
    headers
        .chain(fields)
        .chain(whole)
        .chain(relayed)
        .filter_map(bare_name)
        .collect()
}

/// `ThrottlingException:http://…` and `com.amazon.coral#ThrottlingException` are `ThrottlingException`; of a URL only what
/// stands behind `#` is a name, and the mark stays with it.
fn bare_name(value: &str) -> Option<String> {
    const LONGEST: usize = 128;
    let name = match value.split_once('#') {
        Some((before, _)) if before.contains("://") => value.get(before.len()..)?,
        Some((_, name)) => name,
        None => value.split(':').next()?,
    };
    let name = canonical(name);
    (!name.is_empty() && name.len() <= LONGEST && name != "none" && name != "null").then_some(name)
}

fn canonical(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .map(|c| c.to_ascii_lowercase())
        .collect()
}
