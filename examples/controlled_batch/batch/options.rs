//! The command line. Knows which options there are and what each may be, not what follows from them.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

pub(crate) const HELP: &str = "\
Rehearses a batch against a simulated provider: the plan, and beside it what was seen.

Usage: controlled_batch [OPTIONS]

  --requests N    requests in the batch (20)
  --allowance N   what the provider lets through in a minute (240)
  --burst N       what it lets through at once (10)
  --target N      what the account may start in a minute (200)
  --latency TIME  how long the provider takes for an answer, as 300ms or 2s (300ms)
  --workers N     tasks that share the account (50, or one for each request if they are fewer)
  --seed N        for all that is left to chance (1)
  --real          in real time, over HTTP on loopback
  --virtual       in virtual time, without sockets
  --json          one JSON object instead of text
  --help          this text

Without --real and --virtual, a plan of 15 s or less runs in real time, and a longer one in virtual time, which takes
seconds. Ends with 0 if every request succeeded, with 1 if not, with 2 if an option is wrong.";

/// What is asked of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Run(Options),
}

/// How the batch is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) requests: u64,
    pub(crate) allowance: u32,
    pub(crate) burst: u32,
    pub(crate) target: u32,
    pub(crate) latency: Duration,
    pub(crate) workers: Option<u32>,
    pub(crate) seed: u64,
    /// In virtual time or in real time, if that was said.
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
            seed: 1,
            is_virtual: None,
            json: false,
        }
    }
}

impl Command {
    /// Reads `--name value`, `--name=value` and the switches; of an option that is given twice the last counts.
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
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0)];
    let time = units.into_iter().find_map(|(unit, seconds)| {
        let number: f64 = value.strip_suffix(unit)?.parse().ok()?;
        Some(number * seconds)
    });
    let time = time.filter(|seconds| (0.0..=3600.0).contains(seconds));
    time.map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{name}: {value:?} is not a time up to an hour, such as 300ms, 2s or 1.5s"))
}
