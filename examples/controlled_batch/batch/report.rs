//! The plan and the result side by side, as a table for people and as JSON for programs. Knows the presentation, not how
//! the numbers came about.

use std::time::Duration;

use serde_json::{Value, json};

use testbed::sim::{Arrival, Outcome};

use super::plan::Plan;
use super::rehearsal::Seen;
use super::watch::LATENESS;
use super::weather::{Failure, Incident};

/// The plan as text.
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
            "  allowance   {}/min by the provider, {} at once",
            plan.allowance, plan.burst
        ),
        format!("  target      {}/min by the account", plan.target),
        format!("  spacing     {} between starts", seconds(plan.spacing)),
        format!(
            "  in flight   {} at most: {rate:.2}/s × {latency:.2} s = {:.1} by Little's law, plus a margin",
            plan.concurrency, plan.in_flight
        ),
        format!("  workers     {}", plan.workers),
        format!("  expected    {:.1} s", plan.expected.as_secs_f64()),
    ];
    let failure = plan.weather.failure();
    for incident in plan.weather.incidents() {
        lines.push(format!("  weather     {incident}, {failure}"));
    }
    if let Some(timeout) = plan.weather.attempt_timeout(plan.latency) {
        lines.push(format!("  timeout     {:.1} s per attempt", timeout.as_secs_f64()));
    }
    lines.extend(plan.warnings.iter().map(|warning| format!("  warning: {warning}")));
    lines.push(String::new());
    lines.join("\n")
}

/// The result, and how it compares with the plan.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    plan: &'a Plan,
    seen: &'a Seen,
    client: Spacing,
    provider: Spacing,
    aftermaths: Vec<Aftermath>,
    disagreements: Vec<String>,
    departures: Vec<String>,
}

/// The time between starts; `None` if there was only one.
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

/// What an incident cost, and how long after its end the batch recovered.
#[derive(Debug, Clone, Copy)]
struct Aftermath {
    incident: Incident,
    failed: usize,
    /// The first request accepted after it.
    recovered: Option<Duration>,
    /// From here on the provider accepted nine tenths of the target for a second or five requests.
    full_pace: Option<Duration>,
}

impl Aftermath {
    fn of(incident: Incident, plan: &Plan, seen: &Seen) -> Self {
        let failed = |arrival: &&Arrival| {
            let met = (incident.from..incident.to).contains(&arrival.at);
            met && !matches!(arrival.outcome, Outcome::Admitted | Outcome::Refused(_))
        };
        let after: Vec<Duration> = seen
            .provider
            .admissions()
            .filter_map(|at| at.checked_sub(incident.to))
            .collect();
        let gaps = (1.0 / plan.spacing.as_secs_f64()).ceil().max(5.0);
        let most = plan.spacing.mul_f64(gaps / 0.9);
        let mut stretches = after.windows(gaps as usize + 1);
        let full = stretches.find(|stretch| matches!(stretch, [first, .., last] if *last - *first <= most));
        Self {
            incident,
            failed: seen.provider.arrivals.iter().filter(failed).count(),
            recovered: after.first().copied(),
            full_pace: full.and_then(|stretch| stretch.first().copied()),
        }
    }

    fn text(&self) -> String {
        let failed = count(self.failed as u64, "send");
        let mut text = format!("Weather: {}, {failed} failed", self.incident);
        if !self.incident.is_endless() {
            let after = |time: Option<Duration>| {
                time.map_or_else(
                    || "not seen".to_owned(),
                    |time| format!("{} after its end", seconds(time)),
                )
            };
            text += &format!(
                "; first success {}, full pace {}",
                after(self.recovered),
                after(self.full_pace)
            );
        }
        text + "."
    }

    fn json(&self) -> Value {
        json!({
            "from_s": number(self.incident.from),
            "failed_sends": self.failed,
            "recovered_after_s": self.recovered.map(number),
            "full_pace_after_s": self.full_pace.map(number),
        })
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
            aftermaths: plan
                .weather
                .incidents()
                .map(|incident| Aftermath::of(*incident, plan, seen))
                .collect(),
            disagreements: disagreements(plan, seen),
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
        // weather costs sends, and no plan tells how many
        let fair = |number: u64| if plan.weather.is_fair() { n(number) } else { none() };
        let fair_time = if plan.weather.is_fair() {
            seconds(Duration::ZERO)
        } else {
            none()
        };
        let [refused, failed] = failures(plan, self.seen).map(n);
        let gap = |gap: Option<Duration>| gap.map_or_else(|| "-".to_owned(), seconds);
        let mut lines = vec![
            String::new(),
            row("", "plan".into(), "client".into(), "provider".into()),
            row("first attempts", n(plan.requests), n(client.first_attempts), none()),
            row("retries", fair(0), n(client.retries), none()),
            row("sends", fair(plan.requests), n(self.sends()), n(provider.sends)),
            row("refused", fair(0), n(client.refused), refused),
            row("failed otherwise", fair(0), n(client.failed), failed),
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
            row("longest wait", none(), seconds(client.longest_wait), none()),
            row("held by account", fair_time, seconds(client.held), none()),
            row("time", seconds(plan.expected), seconds(self.seen.time), none()),
            String::new(),
        ];
        lines.extend(self.aftermaths.iter().map(Aftermath::text));
        if client.openings > 0 {
            lines.push(format!(
                "The circuit breaker opened {}.",
                count(client.openings, "time")
            ));
        }
        for (why, times) in &client.failures {
            lines.push(format!("{} failed: {why}.", count(*times, "request")));
        }
        if client.final_failures() == 0 {
            lines.push(format!("All {} requests succeeded.", plan.requests));
        }
        if plan.is_virtual {
            lines.push(format!("Wall-clock time: {:.1} s.", self.seen.wall.as_secs_f64()));
        }
        lines.push(verdict(
            "The counts of the client and the provider agree",
            "The counts of the client and the provider differ",
            &self.disagreements,
        ));
        lines.push(verdict(
            "The batch went as planned",
            "The batch deviated from the plan",
            &self.departures,
        ));
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
                "weather": self.weather(),
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
                "longest_wait_s": number(client.longest_wait),
                "held_s": number(client.held),
                "breaker_openings": client.openings,
                "incidents": self.aftermaths.iter().map(Aftermath::json).collect::<Vec<_>>(),
                "time_s": number(self.seen.time),
                "wall_s": number(self.seen.wall),
            },
            "provider": {
                "sends": provider.sends,
                "refused": provider.refused(),
                "failed_otherwise": provider.failed,
                "finished": provider.finished,
                "spacing_least_s": self.provider.least.map(number),
                "spacing_median_s": self.provider.median.map(number),
                "most_in_flight": provider.peak_in_flight,
            },
            "disagreements": self.disagreements,
            "departures": self.departures,
        })
    }

    fn weather(&self) -> Value {
        let weather = &self.plan.weather;
        let incident = |incident: &Incident| {
            json!({
                "share": incident.share(),
                "from_s": number(incident.from),
                "to_s": (!incident.is_endless()).then(|| number(incident.to)),
                "failure": weather.failure().to_string(),
            })
        };
        weather.incidents().map(incident).collect()
    }

    fn sends(&self) -> u64 {
        sends(self.seen)
    }
}

/// Sends that the provider refused, and those that failed otherwise, as a client can tell them apart.
fn failures(plan: &Plan, seen: &Seen) -> [u64; 2] {
    let (refused, failed) = (seen.provider.refused(), seen.provider.failed);
    if plan.weather.failure() == Failure::Status(429) {
        [refused + failed, 0]
    } else {
        [refused, failed]
    }
}

fn sends(seen: &Seen) -> u64 {
    seen.client.first_attempts + seen.client.retries
}

/// Where the counts of the client and the provider differ.
fn disagreements(plan: &Plan, seen: &Seen) -> Vec<String> {
    let (client, provider) = (&seen.client, &seen.provider);
    let [refused, failed] = failures(plan, seen);
    let pairs = [
        ("sends", sends(seen), provider.sends),
        ("refused", client.refused, refused),
        ("failed otherwise", client.failed, failed),
        ("successes", client.successes, provider.finished),
    ];
    let pairs = pairs.into_iter().filter(|(_, ours, theirs)| ours != theirs);
    let mut found: Vec<String> = pairs
        .map(|(what, ours, theirs)| format!("{what} {ours} by the client, {theirs} by the provider"))
        .collect();
    // for the client, a call is in flight from before its arrival until after its end
    let peak = u64::try_from(provider.peak_in_flight).unwrap_or(u64::MAX);
    if peak > client.most_in_flight {
        found.push(format!(
            "most in flight {} by the client, {peak} by the provider",
            client.most_in_flight
        ));
    }
    if seen.left_over > 0 {
        found.push(format!(
            "the account still counts {} calls in flight or waiting",
            seen.left_over
        ));
    }
    found
}

/// Where the result differs from the plan.
fn departures(plan: &Plan, seen: &Seen, spacing: Spacing) -> Vec<String> {
    let client = &seen.client;
    let mut found = Vec::new();
    if client.most_in_flight > plan.concurrency.into() {
        found.push(format!("{} were in flight at once", client.most_in_flight));
    }
    // in real time a busy machine delays a start, and the next one, which is on time, follows closely
    if let Some(least) = spacing.least.filter(|_| plan.is_virtual)
        && least + LATENESS < plan.spacing
    {
        found.push(format!("two starts were only {} apart", seconds(least)));
    }
    if let (Some(first), Some(last)) = (client.starts.first(), client.starts.last()) {
        let (taken, gaps) = (*last - *first, client.starts.len() - 1);
        if taken + LATENESS < plan.spacing.mul_f64(gaps as f64) {
            found.push(format!(
                "{} starts in {}, which exceeds the target",
                gaps + 1,
                seconds(taken)
            ));
        }
    }
    let fair = plan.weather.is_fair();
    if fair && client.retries > 0 {
        found.push(format!("{} retries", client.retries));
    }
    if client.final_failures() > 0 {
        found.push(format!("{} failed", count(client.final_failures(), "request")));
    }
    // the end of an outage is found by probes, and the pace comes back step by step
    let (part, tolerance) = if fair { (1.1, 0.5) } else { (1.15, 2.0) };
    if seen.time.as_secs_f64() > plan.expected.as_secs_f64() * part + tolerance {
        found.push(format!(
            "it took {}, not {}",
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

/// `1 send`, `2 sends`.
fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// Seconds, to the millisecond.
fn number(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
