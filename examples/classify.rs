//! Says what a response means: `curl -i … | cargo run --example classify`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod dump;

use std::io::Read;
use std::process::ExitCode;
use std::time::SystemTime;

use dump::Dump;
use http::Method;
use reqwest::Url;
use reqwest_ai_retry::{Cause, Class, Classifier, Delivery, Seen, Verdict};
use serde_json::{Value, json};

const HELP: &str = "\
Says what a response means: whether to send again, when, and why.

Usage: classify [--json] [FILE]

  FILE     a response as `curl -i` prints it; standard input if there is none, or `-`
  --json   one JSON object instead of text
  --help   this text

The request is taken to have been a POST. Ends with 0 whatever the response means, with 2 if it cannot be read.";

fn main() -> ExitCode {
    let mut json = false;
    let mut file = None;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--help" | "-h" => {
                println!("{HELP}");
                return ExitCode::SUCCESS;
            }
            "--json" => json = true,
            option if option.starts_with('-') && option != "-" => {
                return unreadable(&format!("unknown option {option}"));
            }
            _ if file.is_some() => return unreadable("more than one file"),
            _ => file = Some(argument),
        }
    }
    match read(file.as_deref()).and_then(|text| report(&text)) {
        Ok(report) if json => println!("{report:#}"),
        Ok(report) => println!("{}", as_text(&report)),
        Err(why) => return unreadable(&why),
    }
    ExitCode::SUCCESS
}

fn unreadable(why: &str) -> ExitCode {
    eprintln!("classify: {why} (see --help)");
    ExitCode::from(2)
}

fn read(file: Option<&str>) -> Result<Vec<u8>, String> {
    match file {
        None | Some("-") => {
            let mut text = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut text);
            read.map(|_| text).map_err(|error| format!("standard input: {error}"))
        }
        Some(file) => std::fs::read(file).map_err(|error| format!("{file}: {error}")),
    }
}

fn report(text: &[u8]) -> Result<Value, String> {
    let dump = Dump::parse(text)?;
    let url: Url = "https://api.example.com/v1/chat/completions"
        .parse()
        .map_err(|error| format!("{error}"))?;
    let seen = Seen::response(
        &Method::POST,
        &url,
        dump.status,
        &dump.headers,
        dump.body,
        SystemTime::now(),
    );
    let status = dump.status.as_u16();
    let Some(verdict) = Classifier::default().classify(&seen) else {
        return Ok(json!({ "status": status, "class": "success", "advice": "Nothing to do." }));
    };
    let delay = verdict.server_delay();
    Ok(json!({
        "status": status,
        "class": snake(verdict.class()),
        "cause": snake(verdict.cause()),
        "scope": snake(verdict.scope()),
        "delay_ms": delay.map(|delay| u64::try_from(delay.duration().as_millis()).unwrap_or(u64::MAX)),
        "delay_source": delay.map(|delay| snake(delay.source())),
        "layer": snake(verdict.layer()),
        "delivery": snake(verdict.delivery()),
        "post_may_be_sent_again": verdict.class() == Class::Retryable && verdict.delivery() != Delivery::Ambiguous,
        "advice": advice(&verdict),
    }))
}

fn advice(verdict: &Verdict) -> String {
    let wait = match verdict.server_delay() {
        Some(delay) => format!("Wait {:?}", delay.duration()),
        None => "Back off".into(),
    };
    match (verdict.class(), verdict.delivery()) {
        (Class::Retryable, Delivery::Ambiguous) => {
            format!("{wait}, then send again, if doing it twice does no harm: the server may have acted on this one.")
        }
        (Class::Retryable, _) => format!("{wait}, then send again: the server did not act on this one."),
        (Class::QuotaExhausted, _) => {
            let back = verdict
                .server_delay()
                .map(|delay| format!(" and come back in {:?}", delay.duration()));
            let what = match verdict.cause() {
                Cause::Balance => "money or credit is used up",
                Cause::SpendLimit => "a spending limit is reached",
                Cause::DailyAllowance => "the allowance of a day or longer is used up",
                Cause::PlanWindow => "the plan's window is used up",
                Cause::NoAllowance => "the account has no allowance for this at all",
                _ => "the account has no allowance left",
            };
            format!("Stop{}: {what}, which no short wait changes.", back.unwrap_or_default())
        }
        (Class::Permanent, _) => {
            let what = match verdict.cause() {
                Cause::Authentication => "the key is missing or wrong",
                Cause::Permission => "the account may not do this",
                Cause::NotFound => "there is no such model or path",
                Cause::TooLarge => "the request is larger than is ever let through",
                Cause::ContentPolicy => "the content is refused",
                Cause::InvalidRequest => "the request is wrong",
                _ => "the server said not to send it again",
            };
            format!("Do not send it again unchanged: {what}.")
        }
    }
}

fn as_text(report: &Value) -> String {
    let field = |name: &str| match report.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.replace('_', " ")),
        Some(Value::Bool(yes)) => Some(if *yes { "yes" } else { "no" }.to_owned()),
        Some(other) => Some(other.to_string()),
    };
    let delay = field("delay_ms")
        .zip(field("delay_source"))
        .map(|(ms, source)| format!("{ms} ms, from {source}"));
    let lines = [
        ("status", field("status")),
        ("class", field("class")),
        ("cause", field("cause")),
        ("scope", field("scope")),
        (
            "delay",
            delay.or_else(|| field("cause").map(|_| "none stated".to_owned())),
        ),
        ("layer", field("layer")),
        ("delivery", field("delivery")),
        ("POST again", field("post_may_be_sent_again")),
        ("advice", field("advice")),
    ];
    let lines = lines
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<11}{}", value?)));
    lines.collect::<Vec<_>>().join("\n")
}

/// `RateLimited` as `rate_limited`.
fn snake(name: impl std::fmt::Debug) -> String {
    let mut snake = String::new();
    for c in format!("{name:?}").chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}
