//! The command line: which options exist and what values they take. Knows nothing of what follows from them.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::weather::{Failure, Incident, Weather};

pub(crate) const HELP: &str = "\
Rehearses a batch against a simulated provider and compares the result with the plan.

Usage: controlled_batch [OPTIONS]

Batch:
  --requests N          requests in the batch (20)
  --target N            starts per minute that the account allows (200)
  --workers N           tasks that share the account (50, or one per request if there are fewer)

Provider:
  --allowance N         requests per minute that the provider accepts (240)
  --burst N             requests that it accepts at once (10)
  --latency TIME        response time, for example 300ms or 2s (300ms)

Weather:
  --outage TIME@TIME    every send fails: 3s@10s lasts 3 s and begins 10 s after the start
  --brownout PERCENT[:TIME@TIME]
                        this share of sends fails: 50% for the whole run, 50%:20s@5s for 20 s from 5 s on
  --status FAILURE      how those sends fail: a status from 400 to 599, reset, refused or hang (529)

Run:
  --seed N              seed for everything random (1)
  --real                run in real time, over HTTP on loopback
  --virtual             run in virtual time, without sockets
  --json                print one JSON object instead of text
  --help                print this text

--outage and --brownout can be repeated. --status applies to all of them, wherever it stands. In real time,
refused resets the connection after the request. With hang, each attempt is cut after 10 s or three times the
latency, whichever is longer.

Without --real and --virtual, a plan of up to 15 s runs in real time and a longer one in virtual time, which takes
seconds. Exit status: 0 if every request succeeded, 1 if not, 2 if an option is invalid.";

/// What the program is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Run(Options),
}

/// The set-up of the rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) requests: u64,
    pub(crate) allowance: u32,
    pub(crate) burst: u32,
    pub(crate) target: u32,
    pub(crate) latency: Duration,
    pub(crate) workers: Option<u32>,
    pub(crate) weather: Weather,
    pub(crate) seed: u64,
    /// The clock, if one was chosen.
    pub(crate) is_virtual: Option<bool>,
    pub(crate) json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            requests: 20,
            allowance: 240,
            burst: 10,
            target: 200,
            latency: Duration::from_millis(300),
            workers: None,
            weather: Weather::default(),
            seed: 1,
            is_virtual: None,
            json: false,
        }
    }
}

impl Command {
    /// Reads `--name value`, `--name=value` and the switches. If an option that takes one value is repeated, the last one
    /// applies.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Options::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (name, attached) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let attached_to_a_switch = attached.is_some();
            let mut value = || {
                let value = attached.clone().or_else(|| arguments.next());
                value.ok_or_else(|| format!("{name} needs a value"))
            };
            match name {
                "--requests" => options.requests = number(name, &value()?, 1..=100_000)?,
                "--allowance" => options.allowance = number(name, &value()?, 1..=1_000_000)?,
                "--burst" => options.burst = number(name, &value()?, 1..=1_000_000)?,
                "--target" => options.target = number(name, &value()?, 1..=1_000_000)?,
                "--latency" => options.latency = time(name, &value()?)?,
                "--workers" => options.workers = Some(number(name, &value()?, 1..=10_000)?),
                "--outage" => options.weather.outages.push(outage(name, &value()?)?),
                "--brownout" => options.weather.brownouts.push(brownout(name, &value()?)?),
                "--status" => options.weather.failure = Some(failure(name, &value()?)?),
                "--seed" => options.seed = number(name, &value()?, 0..=u64::MAX)?,
                _ if attached_to_a_switch => return Err(format!("unknown option {argument}")),
                "--real" | "--virtual" => {
                    let is_virtual = name == "--virtual";
                    if options.is_virtual.is_some_and(|said| said != is_virtual) {
                        return Err("--real and --virtual exclude each other".to_owned());
                    }
                    options.is_virtual = Some(is_virtual);
                }
                "--json" => options.json = true,
                "--help" | "-h" => return Ok(Self::Help),
                _ => return Err(format!("unknown option {argument}")),
            }
        }
        if options.weather.failure.is_some() && options.weather.is_fair() {
            return Err("--status needs --outage or --brownout".to_owned());
        }
        Ok(Self::Run(options))
    }
}

fn number<T>(name: &str, value: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let (least, most) = range.into_inner();
        format!("{name}: {value:?} is not a number from {least} to {most}")
    })
}

/// `300ms`, `2s`, `1.5s` or `2m`, up to an hour.
fn time(name: &str, value: &str) -> Result<Duration, String> {
    span(value).ok_or_else(|| format!("{name}: {value:?} is not a time up to an hour, such as 300ms, 2s or 1.5s"))
}

fn span(value: &str) -> Option<Duration> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0)];
    let time = units.into_iter().find_map(|(unit, seconds)| {
        let number: f64 = value.strip_suffix(unit)?.parse().ok()?;
        Some(number * seconds)
    });
    let time = time.filter(|seconds| (0.0..=3600.0).contains(seconds));
    time.map(Duration::from_secs_f64)
}

/// `3s@10s`: how long, and from when.
fn window(value: &str) -> Option<(Duration, Duration)> {
    let (length, from) = value.split_once('@')?;
    let (length, from) = (span(length).filter(|length| !length.is_zero())?, span(from)?);
    Some((from, from + length))
}

fn outage(name: &str, value: &str) -> Result<Incident, String> {
    let (from, to) = window(value)
        .ok_or_else(|| format!("{name}: {value:?} is not a length and a start, such as 3s@10s or 500ms@0s"))?;
    Ok(Incident {
        from,
        to,
        per_mille: 1000,
    })
}

/// `50%`, `12.5%` or `50%:20s@5s`.
fn brownout(name: &str, value: &str) -> Result<Incident, String> {
    let read = || {
        let (share, window) = match value.split_once(':') {
            Some((share, times)) => (share, window(times)?),
            None => (value, (Duration::ZERO, Duration::MAX)),
        };
        let percent: f64 = share.strip_suffix('%')?.parse().ok()?;
        let per_mille = (percent * 10.0).round();
        (1.0..=999.0).contains(&per_mille).then_some(Incident {
            from: window.0,
            to: window.1,
            // in the range just tested
            per_mille: per_mille as u32,
        })
    };
    read().ok_or_else(|| {
        format!(
            "{name}: {value:?} is not a share from 0.1% to 99.9%, alone or with its time, such as 50% or 50%:20s@5s"
        )
    })
}

fn failure(name: &str, value: &str) -> Result<Failure, String> {
    let status = || value.parse().ok().filter(|status| (400..=599).contains(status));
    match value {
        "reset" => Some(Failure::Reset),
        "refused" => Some(Failure::Refused),
        "hang" => Some(Failure::Hang),
        _ => status().map(Failure::Status),
    }
    .ok_or_else(|| format!("{name}: {value:?} is not a status from 400 to 599, reset, refused or hang"))
}
