//! The rehearsal that the example `controlled_batch` makes.

#![allow(clippy::unwrap_used)]

#[path = "../examples/controlled_batch/batch/mod.rs"]
mod batch;

use batch::{Command, HELP, Options};
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
        latency: std::time::Duration::from_millis(1500),
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
    ] {
        let said = parse(line).unwrap_err();
        assert!(said.contains(why), "{line}: {said}");
    }
}
