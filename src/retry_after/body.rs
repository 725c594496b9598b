//! The delays that a JSON body states in fields of their own, by the names and syntaxes of the field. Knows no prose.

use std::collections::VecDeque;
use std::iter;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value};

use super::decimal::Decimal;
use super::header::{seconds_or_epoch, wait};
use super::moment::Moment;
use super::span::{self, MILLISECOND, SECOND};
use super::{Answer, DelaySource, HEADERS, ServerDelay};

/// Waits in milliseconds. Names are compared without case, `_` and `-`.
const MILLISECONDS: &str = "retryafterms retryaftermillis retryaftermilliseconds retryinms retrydelayms resetinms \
    resetsinms resetafterms waitms";
/// Waits in seconds, unless the value names another unit.
const SECONDS: &str = "retryafter retryafters retryaftersec retryaftersecs retryafterseconds retryin retryinseconds \
    retrydelayseconds resetin resetsin resetinseconds resetsinseconds resetafter resetafterseconds resetseconds \
    secondsuntilreset cooldownseconds waitseconds";
/// Points in time.
const TIMESTAMPS: &str = "quotaresettimestamp resetsat resetat resettime retryat";

/// More than any answer has, and far fewer than a `HeaderMap` can hold, which panics when it is full.
const MOST_HEADERS: usize = 1_000;

/// A number named as a wait, of the outermost object that has one.
pub(super) fn number(answer: &Answer<'_>) -> Option<ServerDelay> {
    let named = objects(answer).find_map(|object| {
        fields(object, MILLISECONDS)
            .find_map(|value| Some(amount(value)?.times(MILLISECOND)))
            .or_else(|| fields(object, SECONDS).find_map(|value| seconds(value, answer.now)))
    });
    // the time until a cold model is loaded (Hugging Face); too plain a name to be looked for deeper down
    let delay = named.or_else(|| {
        let estimated = answer
            .envelope
            .objects()
            .find_map(|object| object.get("estimated_time"));
        Some(amount(estimated?)?.times(SECOND))
    })?;
    Some(ServerDelay::new(delay, DelaySource::BodyField))
}

/// The largest `retryDelay`, under whatever `@type`.
pub(super) fn retry_info(answer: &Answer<'_>) -> Option<ServerDelay> {
    let delay = largest(answer, "retrydelay")?;
    Some(ServerDelay::new(delay, DelaySource::RetryInfo))
}

/// The largest `quotaResetDelay`.
pub(super) fn quota_reset(answer: &Answer<'_>) -> Option<ServerDelay> {
    let delay = largest(answer, "quotaresetdelay")?;
    Some(ServerDelay::new(delay, DelaySource::QuotaReset))
}

/// A point in time named as the end of a wait, of the outermost object that has one.
pub(super) fn timestamp(answer: &Answer<'_>) -> Option<ServerDelay> {
    let moment = objects(answer).find_map(|object| {
        fields(object, TIMESTAMPS).find_map(|value| match value {
            Value::String(text) => Moment::parse(text).or_else(|| Moment::epoch(Decimal::parse(text.trim())?)),
            _ => Moment::epoch(amount(value)?),
        })
    })?;
    Some(ServerDelay::new(moment.after(answer.now), DelaySource::BodyTimestamp))
}

/// The headers of the refusal that a router quotes, read as if they were the answer's. They come with a refusal for the
/// rate only, whatever the router made of the status.
pub(super) fn quoted_headers(answer: &Answer<'_>) -> Option<ServerDelay> {
    let quoted = objects(answer).filter_map(|object| object.get("headers")?.as_object());
    let delay = quoted.map(header_map).find_map(|headers| {
        let refusal = Answer {
            status: StatusCode::TOO_MANY_REQUESTS,
            headers: &headers,
            ..*answer
        };
        HEADERS.iter().find_map(|read| read(&refusal))
    })?;
    Some(ServerDelay::new(delay.duration(), DelaySource::QuotedHeaders))
}

fn header_map(object: &Map<String, Value>) -> HeaderMap {
    let headers = object.iter().filter_map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(&text).ok()?))
    });
    headers.take(MOST_HEADERS).collect()
}

/// The largest length of time in the fields of this name.
fn largest(answer: &Answer<'_>, name: &str) -> Option<Duration> {
    let values = objects(answer).flat_map(|object| fields(object, name).collect::<Vec<_>>());
    values.filter_map(length).max()
}

/// A duration as protobuf's JSON writes it (`34.074824224s`), as Go does (`5h59m59.96s`), as a bare number of seconds, or
/// by its two fields.
fn length(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => span::parse(text.trim()).or_else(|| Some(amount(value)?.times(SECOND))),
        Value::Object(parts) => {
            let part = |name, unit| Some(amount(parts.get(name)?)?.times(unit));
            let seconds = part("seconds", SECOND)?;
            Some(seconds.saturating_add(part("nanos", 1).unwrap_or_default()))
        }
        _ => Some(amount(value)?.times(SECOND)),
    }
}

/// What `Retry-After` could say, as a number or as text.
fn seconds(value: &Value, now: Moment) -> Option<Duration> {
    match value {
        Value::String(text) => wait(text.trim(), now),
        _ => Some(seconds_or_epoch(amount(value)?, now)),
    }
}

/// A number, also one written as a string.
fn amount(value: &Value) -> Option<Decimal> {
    match value {
        Value::Number(number) => Decimal::of_json(number),
        Value::String(text) => Decimal::parse(text.trim()),
        _ => None,
    }
}

/// The values of the fields with one of these names.
fn fields<'a>(object: &'a Map<String, Value>, names: &str) -> impl Iterator<Item = &'a Value> {
    object.iter().filter_map(move |(key, value)| {
        let letters = || {
            key.chars()
                .filter(|c| *c != '_' && *c != '-')
                .map(|c| c.to_ascii_lowercase())
        };
        names.split(' ').any(|name| letters().eq(name.chars())).then_some(value)
    })
}

/// The body's objects and all that are nested in them, outermost first.
fn objects<'a>(answer: &Answer<'a>) -> impl Iterator<Item = &'a Map<String, Value>> {
    let mut queue: VecDeque<_> = answer.envelope.objects().collect();
    iter::from_fn(move || {
        let object = queue.pop_front()?;
        for value in object.values() {
            match value {
                Value::Object(inner) => queue.push_back(inner),
                Value::Array(items) => queue.extend(items.iter().filter_map(Value::as_object)),
                _ => {}
            }
        }
        Some(object)
    })
}
