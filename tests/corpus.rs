//! The wire cases of `corpus/wire.json`: what providers, gateways and edges really answered, and what it means.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest::Url;
use reqwest_ai_retry::{Class, Classifier, Layer, Seen, ServerDelay, Verdict};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Case {
    id: String,
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
    received_at: Option<String>,
    expect: Expected,
    advisory: bool,
}

#[derive(Deserialize)]
struct Expected {
    class: String,
    server_delay_ms: Option<u64>,
    layer: Option<String>,
}

fn verdict(case: &Case) -> Option<Verdict> {
    let url: Url = "https://api.example.com/v1/chat/completions".parse().unwrap();
    let headers: HeaderMap = case
        .headers
        .iter()
        .map(|(name, value)| {
            (
                name.parse::<HeaderName>().unwrap(),
                value.parse::<HeaderValue>().unwrap(),
            )
        })
        .collect();
    let status = StatusCode::from_u16(case.status).unwrap();
    let received_at = case.received_at.as_deref().map_or(1_790_000_000, |time| {
        let time: jiff::Timestamp = time.parse().unwrap();
        time.as_second().try_into().unwrap()
    });
    let received_at = SystemTime::UNIX_EPOCH + Duration::from_secs(received_at);
    let seen = Seen::response(&Method::POST, &url, status, &headers, case.body.as_bytes(), received_at);
    Classifier::default().classify(&seen)
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Retryable => "retryable",
        Class::Permanent => "permanent",
        Class::QuotaExhausted => "quota_exhausted",
    }
}

fn layer(layer: Layer) -> &'static str {
    match layer {
        Layer::Api => "api",
        Layer::Proxy => "proxy",
        Layer::Cdn => "cdn",
        _ => "unknown",
    }
}

/// How many of the cases that count got what they must.
#[derive(Default)]
struct Total {
    right: usize,
    all: usize,
}

impl Total {
    /// Counts one case; a miss is printed, and returned as 1 if the case counts.
    fn check<T: PartialEq + std::fmt::Debug>(&mut self, case: &Case, what: &str, got: T, expected: T) -> usize {
        let right = got == expected;
        if !right {
            let kind = if case.advisory { "advisory" } else { "MISS" };
            println!("{kind} {} {what}: {got:?}, expected {expected:?}", case.id);
        }
        if case.advisory {
            return 0;
        }
        self.all += 1;
        self.right += usize::from(right);
        usize::from(!right)
    }
}

#[test]
fn every_case_is_read_right() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("corpus/wire.json")).unwrap();
    let (mut classes, mut delays, mut layers) = (Total::default(), Total::default(), Total::default());
    let mut misses = 0;
    for case in &cases {
        let verdict = verdict(case);
        let got = verdict.map_or("success", |verdict| class(verdict.class()));
        misses += classes.check(case, "class", got, &case.expect.class);
        let delay = verdict.and_then(|verdict| verdict.server_delay());
        let millis = delay.map(|delay: ServerDelay| delay.duration().as_millis() as u64);
        misses += delays.check(case, "delay", millis, case.expect.server_delay_ms);
        if let Some(expected) = &case.expect.layer {
            let got = verdict.map_or("success", |verdict| layer(verdict.layer()));
            misses += layers.check(case, "layer", got, expected);
        }
    }
    for (what, total) in [("class", &classes), ("delay", &delays), ("layer", &layers)] {
        println!("{what}: {} of {}", total.right, total.all);
    }
    assert_eq!(misses, 0);
}
