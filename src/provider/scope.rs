//! Which dimension of a limit was hit, as far as the name of the limit, the sentences or the counters tell.

use super::facts::Facts;
use super::prose::find_word;
use super::window::{Window, spaced};
use crate::classify::Scope;

/// The first that is met decides, so that the narrower come first.
const WORDS: &[(Scope, &[&str])] = &[
    (
        Scope::Growth,
        &["increased too quickly", "usage increase rate", "acceleration"],
    ),
    (
        Scope::Concurrency,
        &["concurren", "simultaneous", "parallel", "in flight", "并发"],
    ),
    (Scope::InputTokens, &["input token", "prompt token", "itpm", "itpd"]),
    (
        Scope::OutputTokens,
        &["output token", "completion token", "otpm", "otpd"],
    ),
    (Scope::Tokens, &["token", "tpm", "tpd", "tph", "tps"]),
    (
        Scope::Requests,
        &[
            "request",
            "queries",
            "api call",
            "call rate",
            "calls",
            "rpm",
            "rpd",
            "rph",
            "rps",
            "qpm",
            "qps",
            "messages",
        ],
    ),
];
const COUNTERS: &[(Scope, &str)] = &[
    (Scope::InputTokens, "-input-tokens-remaining"),
    (Scope::OutputTokens, "-output-tokens-remaining"),
    (Scope::Requests, "-requests-remaining"),
    (Scope::Tokens, "-tokens-remaining"),
    (Scope::Tokens, "-remaining-tokens"),
    (Scope::Requests, "-remaining-requests"),
];

pub(super) fn of(facts: &Facts<'_>, named: Option<Scope>) -> Scope {
    let by_type = || match (facts.is_named("tokens"), facts.is_named("requests")) {
        (true, false) => Some(Scope::Tokens),
        (false, true) => Some(Scope::Requests),
        _ => None,
    };
    let by_limit = || facts.limits().find_map(|name| of_words(&spaced(name)));
    let scope = named
        .filter(|&scope| scope != Scope::Unknown)
        .or_else(|| by_sentence(facts))
        .or_else(by_type)
        .or_else(by_limit)
        .or_else(|| by_counter(facts))
        .unwrap_or_default();
    // a sentence about tokens may leave it to the limit's name to say which
    let which = || by_limit().filter(|scope| matches!(scope, Scope::InputTokens | Scope::OutputTokens));
    if scope == Scope::Tokens {
        which().unwrap_or(scope)
    } else {
        scope
    }
}

/// A window's dimension: of a plan's hours nothing is known.
pub(super) fn of_window(window: Window) -> Scope {
    match window {
        Window::Day | Window::Week | Window::Month => Scope::Day,
        Window::Short | Window::Hours => Scope::Unknown,
    }
}

/// The first sentence that names a dimension; "Too Many Requests" is the status in words.
fn by_sentence(facts: &Facts<'_>) -> Option<Scope> {
    let sentences = facts.sentences.iter().map(|sentence| sentence.lower.as_str());
    sentences
        .filter(|sentence| !sentence.starts_with("too many requests"))
        .find_map(of_words)
}

fn of_words(text: &str) -> Option<Scope> {
    // "your requests have exceeded the token rate limit", "Requested 12": not what is counted
    let text = text
        .replace("requested", "")
        .replace("your requests to", "")
        .replace("requests to the", "")
        .replace("this request", "");
    let mut words = WORDS
        .iter()
        .filter(|(_, words)| words.iter().any(|word| find_word(&text, word).is_some()));
    words.next().map(|&(scope, _)| scope)
}

fn by_counter(facts: &Facts<'_>) -> Option<Scope> {
    let mut emptied = COUNTERS.iter().filter(|(_, suffix)| {
        let mut headers = facts.headers.iter();
        headers.any(|(name, value)| name.as_str().ends_with(suffix) && value.as_bytes() == b"0")
    });
    emptied.next().map(|&(scope, _)| scope)
}
