//! The delay in a sentence meant for people: an amount of time with its unit, or a date with its zone, after words that
//! make it a wait. Knows no sentence whole, so that a provider may reword its own.

use std::time::Duration;

use super::decimal::Decimal;
use super::moment::Moment;
use super::scan::{letters, one_of, run};
use super::span::{self, SECOND};
use super::{Answer, DelaySource, ServerDelay};

/// What will be possible again, or whose end is meant.
const ANCHORS: &str = "again retry retrying try back reset resets resetting available access resume resumes lifted \
    replenish replenished replenishes refresh refreshed refreshes renew renewed renews";
/// What may stand between the anchor and the preposition: "retry your request after".
const OBJECTS: &str = "your the this that request requests call it again later automatically be only";
/// What may stand between the preposition and the amount: "in about 5 seconds". "Up to" and "within" are no minimum.
const FILLERS: &str =
    "for at least about around approximately approx roughly another a further the next more than delay of";
/// How many of either are passed over.
const MOST_WORDS: usize = 4;
/// After these an amount is one to wait for.
const BEFORE_SPAN: &str = "in after";
/// After these a date is.
const BEFORE_DATE: &str = "at on after until till from";
/// An amount before these is no wait: "5 hour window", "15:00:00 UTC", "reset after 30s of inactivity".
const NO_SPAN: &str = "window windows period periods limit am pm utc gmt of";

/// The first delay of the outermost sentence that has one.
pub(super) fn message(answer: &Answer<'_>) -> Option<ServerDelay> {
    let delay = answer.envelope.messages().find_map(|text| first(text, answer.now))?;
    Some(ServerDelay::new(delay, DelaySource::Message))
}

/// The first delay in this text.
fn first(text: &str, now: Moment) -> Option<Duration> {
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = letters(rest.trim_start_matches(|c: char| !c.is_alphabetic()));
        let delay = if one_of(word, "wait") {
            waited(after, now)
        } else if one_of(word, ANCHORS) {
            anchored(after, now)
        } else {
            None
        };
        if delay.is_some() {
            return delay;
        }
        rest = after;
    }
    None
}

/// What follows "wait": an amount, or "until" and a date.
fn waited(text: &str, now: Moment) -> Option<Duration> {
    amount(text).or_else(|| {
        let (word, rest) = letters(joined(text));
        one_of(word, "until till").then(|| date(rest, now)).flatten()
    })
}

/// What follows another anchor: a preposition with what it calls for.
fn anchored(text: &str, now: Moment) -> Option<Duration> {
    let (preposition, rest) = letters(joined(past(text, OBJECTS)));
    if one_of(preposition, "delay") {
        return text_form(rest);
    }
    let amount = || one_of(preposition, BEFORE_SPAN).then(|| amount(rest)).flatten();
    let date = || one_of(preposition, BEFORE_DATE).then(|| date(rest, now)).flatten();
    amount().or_else(date)
}

/// Protobuf's text form of a `RetryInfo`, as Google's SDKs print it and proxies relay it: `retry_delay { seconds: 44 }`.
fn text_form(text: &str) -> Option<Duration> {
    fn field<'a>(text: &'a str, name: &str, unit: u64) -> Option<(Duration, &'a str)> {
        let (word, rest) = letters(text.trim_start());
        let (number, rest) = Decimal::leading(rest.strip_prefix(':')?.trim_start())?;
        one_of(word, name).then_some((number.times(unit), rest))
    }
    let (seconds, rest) = field(text.trim_start().strip_prefix('{')?, "seconds", SECOND)?;
    let nanos = field(rest, "nanos", 1).map_or(Duration::ZERO, |(nanos, _)| nanos);
    Some(seconds.saturating_add(nanos))
}

fn amount(text: &str) -> Option<Duration> {
    let (span, rest) = span::leading(marked(past(text, FILLERS)))?;
    let (next, _) = letters(rest.trim_start());
    (!one_of(next, NO_SPAN)).then_some(span)
}

fn date(text: &str, now: Moment) -> Option<Duration> {
    Some(Moment::leading(marked(text))?.after(now))
}

/// The text behind the words that may be passed over.
fn past<'a>(mut text: &'a str, words: &str) -> &'a str {
    for _ in 0..MOST_WORDS {
        match letters(joined(text)) {
            (word, rest) if one_of(word, words) => text = rest,
            _ => break,
        }
    }
    text
}

/// The text behind what joins two words of one phrase: never the end of a sentence.
fn joined(text: &str) -> &str {
    run(text, |c| c.is_whitespace() || c == '-' || c == '_').1
}

/// The text behind the marks that may stand before an amount. A minus is none of them.
fn marked(text: &str) -> &str {
    run(text, |c| c.is_whitespace() || ":=~\u{2248}\"'`*(".contains(c)).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<u64> {
        let now = Moment::from(std::time::UNIX_EPOCH);
        first(text, now).map(|delay| delay.as_secs())
    }

    #[test]
    fn an_anchor_a_preposition_and_an_amount() {
        for text in [
            "try again in 5s",
            "Try Again After 5 Seconds",
            "try your request again in about 5 seconds",
            "please retry the request after a delay of 5 seconds",
            "retry-after: 5s",
            "RESETS IN `5s`",
            "will be available in at least 5 sec.",
            "wait 5s",
            "Wait for another 5 seconds",
            "try after 5 seconds",
            "Come back in 5 s",
            "reset on 1970-01-01 at 00:00:05 UTC",
            "wait until 1970-01-01T00:00:05Z",
        ] {
            assert_eq!(seconds(text), Some(5), "{text}");
        }
    }

    #[test]
    fn an_amount_without_an_anchor_is_none() {
        for text in [
            "in 5 seconds",
            "per 5s",
            "5 seconds",
            "try again. In 5 seconds",
            "awaited 5 seconds",
            "waiting 5 seconds",
            "resets every 5 seconds",
            "resets in a 5 second window",
            "resets within 5 seconds",
            "reset in under 5 seconds",
            "again in 5 to 7 ways",
            "wait",
            "retry in",
            "retry after until",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
