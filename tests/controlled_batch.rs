//! The rehearsal of the example `controlled_batch`.

#![allow(clippy::unwrap_used)]

#[path = "../examples/controlled_batch/batch/mod.rs"]
mod batch;

use std::time::Duration;

use batch::{Command, Failure, HELP, Incident, Options, Weather};
use serde_json::Value;

fn parse(line: &str) -> Result<Command, String> {
    Command::parse(line.split_whitespace().map(str::to_owned))
}

fn options(line: &str) -> Options {
    match parse(line).unwrap() {
        Command::Run(options) => options,
        Command::Help => panic!("{line} asks for help"),
    }
}

/// All that is printed, and whether every request succeeded.
fn run(line: &str, terminal: bool) -> (String, bool) {
    let mut out = Vec::new();
    let succeeded = batch::run(&options(line), &mut out, terminal).unwrap();
    (String::from_utf8(out).unwrap(), succeeded)
}

fn json(line: &str) -> Value {
    serde_json::from_str(&run(&format!("{line} --json"), false).0).unwrap()
}

#[test]
fn six_hundred_at_ninety_a_minute_keep_to_the_plan() {
    let report = json("--requests 600 --allowance 120 --target 90 --latency 2s");
    let (plan, seen, provider) = (&report["plan"], &report["seen"], &report["provider"]);
    assert_eq!((&plan["clock"], &plan["concurrency"]), (&"virtual".into(), &4.into()));
    for (name, count) in [
        ("first_attempts", 600),
        ("successes", 600),
        ("retries", 0),
        ("refused", 0),
        ("final_failures", 0),
    ] {
        assert_eq!(seen[name], count, "{name}: {report:#}");
    }
    assert_eq!(provider["sends"], 600);
    assert_eq!(provider["refused"], 0);
    let time = seen["time_s"].as_f64().unwrap();
    let due = 599.0 / 1.5 + 2.0;
    assert!((time / due - 1.0).abs() <= 0.02, "{time} s instead of {due} s");
    assert!(
        seen["most_in_flight"].as_u64() <= plan["concurrency"].as_u64(),
        "{report:#}"
    );
    // the headers show credit for more, which is no reason to start sooner than configured
    assert!(seen["spacing_least_s"].as_f64().unwrap() >= 0.66, "{report:#}");
    assert_eq!(report["disagreements"], Value::Array(Vec::new()));
    assert_eq!(report["departures"], Value::Array(Vec::new()));
}

#[test]
fn a_target_above_the_allowance_is_warned_of_and_costs_refusals() {
    let report = json("--requests 100 --allowance 60 --burst 1 --target 600 --latency 1s --virtual");
    let (plan, seen) = (&report["plan"], &report["seen"]);
    assert_eq!(plan["warnings"].as_array().unwrap().len(), 1);
    assert!(seen["refused"].as_u64().unwrap() > 0, "{report:#}");
    assert_eq!(seen["retries"], seen["refused"], "{report:#}");
    assert_eq!(seen["successes"], 100, "{report:#}");
    assert!(seen["time_s"].as_f64().unwrap() >= 100.0, "{report:#}");
    assert_eq!(report["disagreements"], Value::Array(Vec::new()));
    assert_ne!(report["departures"], Value::Array(Vec::new()));
}

#[test]
fn sockets_tell_the_same() {
    let report = json("--requests 5 --allowance 6000 --target 3000 --latency 10ms");
    assert_eq!(report["plan"]["clock"], "real");
    assert_eq!(report["seen"]["successes"], 5);
    assert_eq!(report["provider"]["sends"], 5);
    assert_eq!(report["disagreements"], Value::Array(Vec::new()));
}

#[test]
fn a_terminal_gets_a_bar_and_a_file_gets_lines() {
    let line = "--requests 30 --allowance 120 --target 90 --latency 2s";
    let (text, succeeded) = run(line, true);
    assert!(succeeded && text.contains("\r[####################] 30/30"), "{text}");
    let (text, succeeded) = run(line, false);
    assert!(succeeded && !text.contains(['\r', '\x1b']), "{text}");
    assert_eq!(text.matches("/30, ").count(), 10, "{text}");
    assert!(text.contains("All 30 requests succeeded."), "{text}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let line = "--requests 40 --allowance 60 --burst 1 --target 600 --latency 1s --virtual --workers 7";
    let run = |seed: u8| {
        let mut report = json(&format!("{line} --seed {seed}"));
        report["seen"]["wall_s"].take();
        report
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3)["provider"], run(4)["provider"]);
}

#[test]
fn options_are_read() {
    let read = options("--requests=7 --latency 1.5s --workers 3 --seed 9 --virtual --json");
    let expected = Options {
        requests: 7,
        latency: Duration::from_millis(1500),
        workers: Some(3),
        seed: 9,
        is_virtual: Some(true),
        json: true,
        ..Options::default()
    };
    assert_eq!(read, expected);
    assert_eq!(options(""), Options::default());
    assert_eq!(parse("--target 9 --help"), Ok(Command::Help));
    for name in [
        "--requests",
        "--allowance",
        "--burst",
        "--target",
        "--latency",
        "--workers",
        "--outage",
        "--brownout",
        "--status",
        "--seed",
    ] {
        assert!(HELP.contains(name), "{name}");
    }
}

#[test]
fn what_cannot_be_is_named() {
    for (line, why) in [
        ("--requests", "--requests needs a value"),
        ("--requests 0", "--requests: \"0\" is not a number from 1 to"),
        ("--target -3", "--target: \"-3\""),
        ("--latency 2", "--latency: \"2\" is not a time"),
        ("--latency 2h", "such as 300ms"),
        ("--latency infs", "is not a time"),
        ("--json=yes", "unknown option --json=yes"),
        ("--speed 3", "unknown option --speed"),
        ("20", "unknown option 20"),
        ("--real --virtual", "exclude each other"),
        ("--outage", "--outage needs a value"),
        (
            "--outage 3s",
            "--outage: \"3s\" is not a length and a start, such as 3s@10s",
        ),
        ("--outage 0s@10s", "is not a length and a start"),
        ("--outage 3@10", "is not a length and a start"),
        ("--outage 3s@-1s", "is not a length and a start"),
        ("--outage 2h@1s", "is not a length and a start"),
        ("--brownout 50", "--brownout: \"50\" is not a share from 0.1% to 99.9%"),
        ("--brownout 0%", "is not a share"),
        ("--brownout 100%", "is not a share"),
        ("--brownout NaN%", "is not a share"),
        ("--brownout 50%:20s", "such as 50% or 50%:20s@5s"),
        (
            "--outage 3s@10s --status 200",
            "--status: \"200\" is not a status from 400 to 599, reset, refused or hang",
        ),
        ("--outage 3s@10s --status crash", "is not a status"),
        ("--status 529", "--status needs --outage or --brownout"),
    ] {
        let said = parse(line).unwrap_err();
        assert!(said.contains(why), "{line}: {said}");
    }
}

#[test]
fn weather_is_read() {
    let incident = |from, to, per_mille| Incident {
        from: Duration::from_millis(from),
        to: Duration::from_millis(to),
        per_mille,
    };
    let read = options("--status reset --outage 3s@10s --brownout 12.5%:20s@5s --outage=500ms@1m");
    let expected = Weather {
        outages: vec![incident(10_000, 13_000, 1000), incident(60_000, 60_500, 1000)],
        brownouts: vec![incident(5_000, 25_000, 125)],
        failure: Some(Failure::Reset),
    };
    assert_eq!(read.weather, expected);
    let whole = options("--brownout 50%").weather;
    assert!(whole.brownouts[0].is_endless() && whole.failure() == Failure::Status(529));
    for (name, failure) in [
        ("503", Failure::Status(503)),
        ("refused", Failure::Refused),
        ("hang", Failure::Hang),
    ] {
        let read = options(&format!("--outage 3s@10s --status {name}"));
        assert_eq!(read.weather.failure(), failure);
    }
}

#[test]
fn the_expected_time_allows_for_the_weather() {
    let prolonged = |line: &str, fair: u64| {
        let weather = options(line).weather;
        weather.prolong(Duration::from_secs(fair)).as_secs_f64()
    };
    for (line, fair, expected) in [
        ("", 20, 20.0),
        ("--outage 3s@10s", 20, 23.0),
        ("--outage 3s@30s", 20, 20.0),
        ("--outage 3s@10s --outage 5s@12s", 20, 27.0),
        ("--brownout 50%", 20, 40.0),
        ("--brownout 50%:10s@5s", 20, 25.0),
        ("--brownout 50% --outage 4s@10s", 20, 44.0),
    ] {
        let time = prolonged(line, fair);
        assert!((time - expected).abs() < 1e-6, "{line}: {time}");
    }
}

/// Every request is answered, and the report says what that took.
#[track_caller]
fn survives(line: &str, incidents: usize) -> Value {
    let report = json(line);
    let (seen, provider) = (&report["seen"], &report["provider"]);
    assert_eq!(seen["successes"], report["plan"]["requests"], "{report:#}");
    assert_eq!(report["disagreements"], Value::Array(Vec::new()), "{report:#}");
    assert_eq!(report["departures"], Value::Array(Vec::new()), "{report:#}");
    let failed = seen["refused"].as_u64().unwrap() + seen["failed_otherwise"].as_u64().unwrap();
    assert!(failed > 0, "{report:#}");
    assert_eq!(seen["retries"], failed, "{report:#}");
    assert_eq!(
        provider["sends"].as_u64(),
        Some(failed + seen["successes"].as_u64().unwrap())
    );
    assert_eq!(report["plan"]["weather"].as_array().unwrap().len(), incidents);
    let aftermaths = seen["incidents"].as_array().unwrap();
    assert_eq!(aftermaths.len(), incidents);
    let met = aftermaths
        .iter()
        .map(|incident| incident["failed_sends"].as_u64().unwrap());
    assert_eq!(met.sum::<u64>(), failed, "{report:#}");
    report
}

#[test]
fn an_outage_costs_time_and_no_request() {
    let report = survives("--requests 100 --outage 5s@10s --status 529", 1);
    let (seen, incident) = (&report["seen"], &report["seen"]["incidents"][0]);
    assert_eq!(report["plan"]["expected_s"], 35.0);
    assert!(seen["time_s"].as_f64().unwrap() > 34.0, "{report:#}");
    assert!(seen["held_s"].as_f64().unwrap() > 0.1, "{report:#}");
    assert!(seen["longest_wait_s"].as_f64().unwrap() >= 5.0, "{report:#}");
    assert!(incident["recovered_after_s"].as_f64().unwrap() < 2.0, "{report:#}");
    assert!(incident["full_pace_after_s"].as_f64().unwrap() < 5.0, "{report:#}");
}

#[test]
fn every_kind_of_failure_can_be_rehearsed() {
    for failure in ["500", "429", "reset", "refused", "hang"] {
        let line = format!("--requests 80 --outage 5s@5s --status {failure} --virtual");
        survives(&line, 1);
    }
    survives("--requests 120 --outage 3s@10s --outage 3s@20s", 2);
    survives("--requests 60 --brownout 30%:20s@5s --virtual", 1);
}

#[test]
fn an_outage_can_be_rehearsed_over_sockets() {
    survives(
        "--requests 20 --target 600 --allowance 1200 --outage 500ms@1s --real",
        1,
    );
}

#[test]
fn the_text_tells_of_the_weather() {
    let (text, succeeded) = run("--requests 100 --outage 5s@10s --brownout 12.5% --status 500", false);
    assert!(succeeded, "{text}");
    for part in [
        "  weather     outage from 10.0 s to 15.0 s, status 500",
        "  weather     brownout of 12.5 % for the whole run, status 500",
        "held by account",
        "longest wait",
        "Weather: outage from 10.0 s to 15.0 s, ",
        "Weather: brownout of 12.5 % for the whole run, ",
        "full pace ",
        "All 100 requests succeeded.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let fair = run("--requests 10 --virtual", false).0;
    assert!(!fair.contains("weather") && !fair.contains("Weather"), "{fair}");
}

#[test]
fn weather_that_nothing_meets_is_warned_of() {
    let report = json("--requests 10 --virtual --outage 3s@60s");
    let warning = report["plan"]["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("before any send can meet the incident at 60.0 s"),
        "{warning}"
    );
}
