//! One run as a timeline: what was sent, what was refused, and the pace in force meanwhile. Judges nothing.

use std::error::Error;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use reqwest_ai_retry::Account;
use testbed::sim::{Outcome, Simulation};

use crate::contender::Contender;
use crate::run::in_virtual_time;
use crate::scene::Scene;

/// How much of the run a line is.
const STEP: Duration = Duration::from_secs(2);

pub(crate) fn timeline(scene: &Scene, contender: Contender, seed: u64) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut lines = String::new();
    let _ = writeln!(
        lines,
        "{:>7} {:>8} {:>8} {:>9} {:>8} {:>10} {:>8}  refused at",
        "s", "admitted", "refused", "in flight", "waiting", "pace/min", "paused"
    );
    let run = in_virtual_time(scene, contender, seed, async |simulation, account| {
        let mut seen = 0;
        loop {
            tokio::time::sleep(STEP).await;
            let _ = writeln!(lines, "{}", line(simulation, account, &mut seen));
        }
    })?;
    let _ = writeln!(
        lines,
        "finished {}, makespan ÷ bound {:.3}, refused {:.2} %, {} sends, slowest ÷ median {:.2}",
        run.finished,
        run.makespan,
        100.0 * run.refused,
        run.sends,
        run.slowest
    );
    Ok(lines)
}

fn line(simulation: &Simulation, account: Option<&Account>, seen: &mut usize) -> String {
    let at = simulation.elapsed().as_secs_f64();
    let (admitted, refusals, in_flight) = simulation.with(|provider| {
        let tally = provider.tally();
        let new = tally.arrivals.get(*seen..).unwrap_or_default();
        *seen = tally.arrivals.len();
        let admitted = new
            .iter()
            .filter(|arrival| arrival.outcome == Outcome::Admitted)
            .count();
        let refusals = new.iter().filter(|arrival| arrival.outcome != Outcome::Admitted);
        let refusals: Vec<f64> = refusals.map(|arrival| arrival.at.as_secs_f64()).collect();
        (admitted, refusals, tally.in_flight)
    });
    let status = account.map(Account::status);
    let lane = status.as_ref().and_then(|status| status.lanes.first());
    let waiting = lane.map_or_else(String::new, |lane| lane.waiting.to_string());
    let pace = lane.and_then(|lane| lane.starts_per_minute);
    let pace = pace.map_or_else(|| "free".to_owned(), |pace| format!("{pace:.2}"));
    let paused = lane
        .and_then(|lane| lane.paused_until?.duration_since(SystemTime::now()).ok())
        .map_or_else(String::new, |left| format!("{:.2}", left.as_secs_f64()));
    let mut line = format!(
        "{at:>7.1} {admitted:>8} {:>8} {in_flight:>9} {waiting:>8} {pace:>10} {paused:>8} ",
        refusals.len()
    );
    const SHOWN: usize = 8;
    for at in refusals.iter().take(SHOWN) {
        let _ = write!(line, " {at:.3}");
    }
    if refusals.len() > SHOWN {
        line.push_str(" …");
    }
    line
}
