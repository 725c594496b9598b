//! The plan beside what was seen, as a table for people and as JSON for programs. Knows how it reads, not how it came about.

use std::time::Duration;

use serde_json::{Value, json};

use super::plan::Plan;
use super::rehearsal::Seen;

/// A timer is late by milliseconds, and the account makes up for it at the next start.
const LATENESS: Duration = Duration::from_millis(6);

/// What is going to be done.
pub(crate) fn plan(plan: &Plan) -> String {
    let time = if plan.is_virtual {
        "virtual time"
    } else {
        "real time, HTTP on loopback"
    };
    let rate = f64::from(plan.target) / 60.0;
    let latency = plan.latency.as_secs_f64();
    let mut lines = vec![
        format!("Plan: {} requests, {time}", plan.requests),
        format!(
            "  allowance   {}/min, {} at once: the provider's",
            plan.allowance, plan.burst
        ),
        format!("  target      {}/min: the account's", plan.target),
        format!("  spacing     {} between starts", seconds(plan.spacing)),
        format!(
            "  in flight   {} at most: {rate:.2}/s × {latency:.2} s = {:.1} by Little's law, with room",
            plan.concurrency, plan.in_flight
        ),
        format!("  workers     {}", plan.workers),
        format!("  expected    {:.1} s", plan.expected.as_secs_f64()),
    ];
    lines.extend(plan.warnings.iter().map(|warning| format!("  warning: {warning}")));
    lines.push(String::new());
    lines.join("\n")
}

/// What was seen, and what it says of the plan.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    plan: &'a Plan,
    seen: &'a Seen,
    client: Spacing,
    provider: Spacing,
    disagreements: Vec<String>,
    departures: Vec<String>,
}

/// How far apart starts were; nothing if there was only one.
#[derive(Debug, Clone, Copy, Default)]
struct Spacing {
    least: Option<Duration>,
    median: Option<Duration>,
}

impl Spacing {
    fn of(moments: &[Duration]) -> Self {
        let mut gaps: Vec<Duration> = moments.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        gaps.sort_unstable();
        Self {
            least: gaps.first().copied(),
            median: gaps.get(gaps.len() / 2).copied(),
        }
    }
}

impl<'a> Report<'a> {
    pub(crate) fn new(plan: &'a Plan, seen: &'a Seen) -> Self {
        let arrivals: Vec<Duration> = seen.provider.arrivals.iter().map(|arrival| arrival.at).collect();
        let client = Spacing::of(&seen.client.starts);
        Self {
            plan,
            seen,
            client,
            provider: Spacing::of(&arrivals),
            disagreements: disagreements(seen),
            departures: departures(plan, seen, client),
        }
    }

    pub(crate) fn text(&self) -> String {
        let (plan, client, provider) = (self.plan, &self.seen.client, &self.seen.provider);
        let row = |name: &str, planned: String, seen: String, theirs: String| {
            let line = format!("{name:<18}{planned:>12}{seen:>12}{theirs:>12}");
            line.trim_end().to_owned()
        };
        let (none, n) = (String::new, |number: u64| number.to_string());
        let gap = |gap: Option<Duration>| gap.map_or_else(|| "-".to_owned(), seconds);
        let mut lines = vec![
            String::new(),
            row("", "plan".into(), "seen".into(), "provider".into()),
            row("first attempts", n(plan.requests), n(client.first_attempts), none()),
            row("retries", n(0), n(client.retries), none()),
            row("sends", n(plan.requests), n(self.sends()), n(provider.sends)),
            row("refused", n(0), n(client.refused), n(provider.refused())),
            row("successes", n(plan.requests), n(client.successes), n(provider.finished)),
            row("final failures", n(0), n(client.final_failures()), none()),
            row(
                "spacing, least",
                seconds(plan.spacing),
                gap(self.client.least),
                gap(self.provider.least),
            ),
            row(
                "spacing, median",
                seconds(plan.spacing),
                gap(self.client.median),
                gap(self.provider.median),
            ),
            row(
                "most in flight",
                n(plan.concurrency.into()),
                n(client.most_in_flight),
                provider.peak_in_flight.to_string(),
            ),
            row("time", seconds(plan.expected), seconds(self.seen.time), none()),
            String::new(),
        ];
        for (why, times) in &client.failures {
            lines.push(format!("Failed {times} times: {why}."));
        }
        if client.final_failures() == 0 {
            lines.push(format!("All {} requests succeeded.", plan.requests));
        }
        if plan.is_virtual {
            lines.push(format!(
                "By the wall clock it took {:.1} s.",
                self.seen.wall.as_secs_f64()
            ));
        }
        lines.push(verdict(
            "The client's count and the provider's agree",
            "The counts disagree",
            &self.disagreements,
        ));
        lines.push(verdict("The plan was kept", "The plan was not kept", &self.departures));
        lines.join("\n")
    }

    pub(crate) fn json(&self) -> Value {
        let (plan, client, provider) = (self.plan, &self.seen.client, &self.seen.provider);
        json!({
            "plan": {
                "requests": plan.requests,
                "allowance_per_minute": plan.allowance,
                "burst": plan.burst,
                "target_per_minute": plan.target,
                "latency_s": number(plan.latency),
                "spacing_s": number(plan.spacing),
                "in_flight_by_littles_law": plan.in_flight,
                "concurrency": plan.concurrency,
                "workers": plan.workers,
                "expected_s": number(plan.expected),
                "seed": plan.seed,
                "clock": if plan.is_virtual { "virtual" } else { "real" },
                "warnings": plan.warnings,
            },
            "seen": {
                "first_attempts": client.first_attempts,
                "retries": client.retries,
                "sends": self.sends(),
                "refused": client.refused,
                "failed_otherwise": client.failed,
                "pauses": client.pauses,
                "successes": client.successes,
                "recovered": client.recovered,
                "final_failures": client.final_failures(),
                "failures": client.failures,
                "spacing_least_s": self.client.least.map(number),
                "spacing_median_s": self.client.median.map(number),
                "most_in_flight": client.most_in_flight,
                "time_s": number(self.seen.time),
                "wall_s": number(self.seen.wall),
            },
            "provider": {
                "sends": provider.sends,
                "refused": provider.refused(),
                "finished": provider.finished,
                "spacing_least_s": self.provider.least.map(number),
                "spacing_median_s": self.provider.median.map(number),
                "most_in_flight": provider.peak_in_flight,
            },
            "disagreements": self.disagreements,
            "departures": self.departures,
        })
    }

    fn sends(&self) -> u64 {
        sends(self.seen)
    }
}

fn sends(seen: &Seen) -> u64 {
    seen.client.first_attempts + seen.client.retries
}

/// Where the client's count and the provider's are not the same.
fn disagreements(seen: &Seen) -> Vec<String> {
    let (client, provider) = (&seen.client, &seen.provider);
    let pairs = [
        ("sends", sends(seen), provider.sends),
        ("refused", client.refused, provider.refused()),
        ("successes", client.successes, provider.finished),
    ];
    let pairs = pairs.into_iter().filter(|(_, ours, theirs)| ours != theirs);
    let mut found: Vec<String> = pairs
        .map(|(what, ours, theirs)| format!("{what} {ours} by the client, {theirs} by the provider"))
        .collect();
    // a call is in flight for the client from before it arrives until after its end
    let peak = u64::try_from(provider.peak_in_flight).unwrap_or(u64::MAX);
    if peak > client.most_in_flight {
        found.push(format!(
            "most in flight {} by the client, {peak} by the provider",
            client.most_in_flight
        ));
    }
    if seen.left_over > 0 {
        found.push(format!("the account still counts {} as under way", seen.left_over));
    }
    found
}

/// Where what was seen is not what was planned.
fn departures(plan: &Plan, seen: &Seen, spacing: Spacing) -> Vec<String> {
    let client = &seen.client;
    let mut found = Vec::new();
    if client.most_in_flight > plan.concurrency.into() {
        found.push(format!("{} in flight at a time", client.most_in_flight));
    }
    // in real time a busy machine sends a start late, and the next, which is not, comes close behind it
    if let Some(least) = spacing.least.filter(|_| plan.is_virtual)
        && least + LATENESS < plan.spacing
    {
        found.push(format!("two starts only {} apart", seconds(least)));
    }
    if let (Some(first), Some(last)) = (client.starts.first(), client.starts.last()) {
        let (taken, gaps) = (*last - *first, client.starts.len() - 1);
        if taken + LATENESS < plan.spacing.mul_f64(gaps as f64) {
            found.push(format!("{} starts in {}, above the target", gaps + 1, seconds(taken)));
        }
    }
    if client.retries > 0 {
        found.push(format!("{} retries", client.retries));
    }
    if client.final_failures() > 0 {
        found.push(format!("{} requests failed", client.final_failures()));
    }
    if seen.time.as_secs_f64() > plan.expected.as_secs_f64() * 1.1 + 0.5 {
        found.push(format!(
            "it took {} instead of {}",
            seconds(seen.time),
            seconds(plan.expected)
        ));
    }
    found
}

fn verdict(good: &str, bad: &str, found: &[String]) -> String {
    if found.is_empty() {
        format!("{good}.")
    } else {
        format!("{bad}: {}.", found.join("; "))
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// Seconds, to the millisecond.
fn number(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
