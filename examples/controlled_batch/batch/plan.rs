//! The arithmetic of a batch: the spacing of its starts, the number in flight and the time it takes. Knows no clock.

use std::time::Duration;

use super::options::Options;
use super::weather::Weather;

/// Margin over Little's law, since no response takes exactly the latency.
const ROOM: f64 = 1.25;
/// The default number of workers.
const WORKERS: u64 = 50;
/// A plan that takes longer runs in virtual time by default.
const PATIENCE: Duration = Duration::from_secs(15);

/// The set-up of the batch, and what it should come to.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) requests: u64,
    pub(crate) allowance: u32,
    pub(crate) burst: u32,
    pub(crate) target: u32,
    pub(crate) latency: Duration,
    pub(crate) workers: u32,
    pub(crate) weather: Weather,
    pub(crate) seed: u64,
    /// From one start to the next.
    pub(crate) spacing: Duration,
    /// Little's law: the average in flight, rate × latency.
    pub(crate) in_flight: f64,
    /// The same with the margin: the most that the account allows.
    pub(crate) concurrency: u32,
    pub(crate) expected: Duration,
    pub(crate) is_virtual: bool,
    /// What is unlikely to be meant.
    pub(crate) warnings: Vec<String>,
}

impl Plan {
    pub(crate) fn of(options: &Options) -> Self {
        let (latency, rate) = (options.latency, f64::from(options.target) / 60.0);
        let in_flight = rate * latency.as_secs_f64();
        // a float that is too large becomes the largest integer
        let concurrency = ((in_flight * ROOM).ceil() as u32).max(1);
        let few = u32::try_from(options.requests.min(WORKERS)).unwrap_or(u32::MAX);
        let workers = options.workers.unwrap_or(few);
        let mut warnings = Vec::new();
        if options.target > options.allowance {
            warnings.push(format!(
                "the target of {}/min exceeds the allowance of {}/min: the provider will set the pace",
                options.target, options.allowance
            ));
        }
        if f64::from(workers) < in_flight {
            warnings.push(format!(
                "the target needs {in_flight:.1} requests in flight: {workers} workers will set the pace"
            ));
        }
        let expected = expected(options, rate, workers);
        for incident in options.weather.incidents().filter(|incident| incident.from >= expected) {
            warnings.push(format!(
                "the batch is expected to end after {:.1} s, before any send can meet the incident at {:.1} s",
                expected.as_secs_f64(),
                incident.from.as_secs_f64()
            ));
        }
        Self {
            requests: options.requests,
            allowance: options.allowance,
            burst: options.burst,
            target: options.target,
            latency,
            workers,
            weather: options.weather.clone(),
            seed: options.seed,
            spacing: Duration::from_secs_f64(1.0 / rate),
            in_flight,
            concurrency,
            expected,
            is_virtual: options.is_virtual.unwrap_or(expected > PATIENCE),
            warnings,
        }
    }
}

/// The time of the slower of the two, the batch at its own pace and the provider at its allowance, prolonged by the sends
/// that fail.
fn expected(options: &Options, rate: f64, workers: u32) -> Duration {
    let latency = options.latency.as_secs_f64();
    let workers_rate = if latency > 0.0 {
        f64::from(workers) / latency
    } else {
        f64::INFINITY
    };
    let own = options.requests.saturating_sub(1) as f64 / rate.min(workers_rate);
    let beyond_burst = options.requests.saturating_sub(u64::from(options.burst)) as f64;
    let provider = beyond_burst / (f64::from(options.allowance) / 60.0);
    let fair = Duration::from_secs_f64(own.max(provider));
    options.weather.prolong(fair).saturating_add(options.latency)
}
