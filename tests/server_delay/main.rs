//! The delay that an answer states, through the public API. The ids in the comments are those of the scenarios.

#![allow(clippy::unwrap_used)]

mod body;
mod headers;
mod properties;

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest::Url;
use reqwest_ai_retry::{Seen, ServerDelay};
use serde_json::Value;

/// Received on Monday, 13 June 2022, 11:48:53 UTC, unless a `Date` says otherwise.
const RECEIVED: u64 = 1_655_120_933;

fn delay(status: u16, headers: &[(&str, &str)], body: &str) -> Option<ServerDelay> {
    let headers = headers.iter().map(|&(name, value)| {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        (name.parse::<HeaderName>().unwrap(), value)
    });
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name, value);
    }
    of(
        status,
        &map,
        body,
        SystemTime::UNIX_EPOCH + Duration::from_secs(RECEIVED),
    )
}

fn of(status: u16, headers: &HeaderMap, body: &str, received_at: SystemTime) -> Option<ServerDelay> {
    let url = Url::parse("https://api.example/v1/chat/completions").unwrap();
    let status = StatusCode::from_u16(status).unwrap();
    ServerDelay::of(&Seen::response(
        &Method::POST,
        &url,
        status,
        headers,
        body.as_bytes(),
        received_at,
    ))
}

fn millis(delay: Option<ServerDelay>) -> Option<u64> {
    delay.map(|delay| u64::try_from(delay.duration().as_millis()).unwrap())
}

/// One header on a 429.
fn header(name: &str, value: &str) -> Option<u64> {
    millis(delay(429, &[(name, value)], ""))
}

/// One sentence on a 429, as OpenAI would wrap it.
fn prose(text: &str) -> Option<u64> {
    body(&serde_json::json!({ "error": { "message": text } }).to_string())
}

fn body(body: &str) -> Option<u64> {
    millis(delay(429, &[], body))
}

#[test]
fn every_case_of_the_corpus() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../corpus/wire.json")).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let mut headers = HeaderMap::new();
        for (name, value) in case["headers"].as_object().unwrap() {
            let value = value.as_str().unwrap().parse::<HeaderValue>().unwrap();
            headers.append(name.parse::<HeaderName>().unwrap(), value);
        }
        let received_at = case["received_at"].as_str().map_or(SystemTime::UNIX_EPOCH, |text| {
            let second = text.parse::<jiff::Timestamp>().unwrap().as_second();
            SystemTime::UNIX_EPOCH + Duration::from_secs(second.try_into().unwrap())
        });
        let status = u16::try_from(case["status"].as_u64().unwrap()).unwrap();
        let found = millis(of(status, &headers, case["body"].as_str().unwrap(), received_at));
        let expected = case["expect"]["server_delay_ms"].as_u64();
        if found != expected {
            let advisory = case["advisory"].as_bool().unwrap_or(false);
            wrong.push((case["id"].clone(), expected, found, advisory));
        }
    }
    let gating: Vec<_> = wrong.iter().filter(|&&(.., advisory)| !advisory).collect();
    assert!(gating.is_empty(), "expected and found differ: {gating:#?}");
    // without knowing the provider, seven days and ten minutes look alike
    assert!(
        wrong.iter().all(|(id, ..)| id == "generic-429-reset-ms-delta"),
        "advisory: {wrong:#?}"
    );
}
