//! The delay in a sentence meant for people: an amount of time with its unit, or a date with its zone, after words that
//! make it a wait. Knows no sentence whole, so that a provider may reword its own.

use std::time::Duration;

use super::moment::Moment;
use super::scan::{letters, one_of, run};
use super::{Answer, DelaySource, ServerDelay, span};

/// What will be possible again, or whose end is meant.
const ANCHORS: &[&str] = &[
    "again",
    "retry",
    "retrying",
    "try",
    "back",
    "reset",
    "resets",
    "resetting",
    "available",
    "access",
    "replenish",
    "replenished",
    "replenishes",
    "refresh",
    "refreshed",
    "refreshes",
    "renew",
    "renewed",
    "renews",
    "resume",
    "resumes",
    "lifted",
];
/// What may stand between the anchor and the preposition: "retry your request after".
const OBJECTS: &[&str] = &[
    "your",
    "the",
    "this",
    "that",
    "request",
    "requests",
    "call",
    "it",
    "again",
    "later",
    "automatically",
    "be",
    "only",
];
/// What may stand between the preposition and the amount: "in about 5 seconds".
const FILLERS: &[&str] = &[
    "for",
    "at",
    "least",
    "about",
    "around",
    "approximately",
    "approx",
    "roughly",
    "another",
    "a",
    "further",
    "the",
    "next",
    "up",
    "to",
    "more",
    "than",
    "delay",
    "of",
];
/// How many of either are passed over.
const MOST_WORDS: usize = 4;
/// After these an amount is one to wait for.
const BEFORE_SPAN: &[&str] = &["in", "after", "within"];
/// After these a date is.
const BEFORE_DATE: &[&str] = &["at", "on", "after", "until", "till", "from"];
/// An amount before these is the length of a window ("5 hour window") or a time of day.
const NO_SPAN: &[&str] = &[
    "window", "windows", "period", "periods", "limit", "am", "pm", "utc", "gmt",
];
/// From here on a router lists other deployments with their errors.
const OTHERS: &str = "cooldown_list=";

/// The first delay of the outermost sentence that has one.
pub(super) fn message(answer: &Answer<'_>) -> Option<ServerDelay> {
    let delay = answer.envelope.messages().find_map(|text| first(text, answer.now))?;
    Some(ServerDelay::new(delay, DelaySource::Message))
}

/// The first delay in this text.
fn first(text: &str, now: Moment) -> Option<Duration> {
    let mut rest = text.split_once(OTHERS).map_or(text, |(before, _)| before);
    while !rest.is_empty() {
        let (word, after) = letters(rest.trim_start_matches(|c: char| !c.is_alphabetic()));
        let delay = if one_of(word, &["wait"]) {
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
        one_of(word, &["until", "till"]).then(|| date(rest, now)).flatten()
    })
}

/// What follows another anchor: a preposition with what it calls for.
fn anchored(text: &str, now: Moment) -> Option<Duration> {
    let (preposition, rest) = letters(joined(past(text, OBJECTS)));
    let amount = || one_of(preposition, BEFORE_SPAN).then(|| amount(rest)).flatten();
    let date = || one_of(preposition, BEFORE_DATE).then(|| date(rest, now)).flatten();
    amount().or_else(date)
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
fn past<'a>(mut text: &'a str, words: &[&str]) -> &'a str {
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
