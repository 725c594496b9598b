//! One run second by second: what started, what was let through, what was answered, and where the account stands. Judges
//! nothing.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use reqwest_ai_retry::Account;
use testbed::sim::{Outcome, Simulation};

use crate::contender::{Contender, Patience};
use crate::incident::Incident;
use crate::run::{Failed, in_virtual_time};

const STEP: Duration = Duration::from_secs(1);

pub(crate) fn timeline(incident: &Incident, contender: Contender, seed: u64) -> Result<String, Failed> {
    let mut lines: Vec<String> = Vec::new();
    let (run, made) = in_virtual_time(
        incident,
        contender,
        Patience::Usual,
        seed,
        async |simulation, account| {
            let mut seen = 0;
            loop {
                tokio::time::sleep(STEP).await;
                lines.push(line(simulation, account, &mut seen));
            }
        },
    )?;
    let mut text = format!(
        "{:>5} {:>8} {:>7} {:>8} {:>8} {:>6} {:>6}   lanes: waiting, pace/min, paused s, breaker\n",
        "s", "answered", "lost", "starts", "let in", "failed", "flying"
    );
    for (second, line) in lines.iter().enumerate() {
        let ended = |answered| {
            let within = made
                .iter()
                .filter(|call| usize::try_from(call.ended.as_secs()) == Ok(second));
            within.filter(|call| call.answered == answered).count()
        };
        let _ = writeln!(text, "{second:>5} {:>8} {:>7} {line}", ended(true), ended(false));
    }
    let _ = writeln!(
        text,
        "answered {} of {}, {} sends, {} failed, last {:.2} s, back {:?}",
        run.answered, run.asked, run.sends, run.failed, run.makespan, run.back
    );
    Ok(text)
}

fn line(simulation: &Simulation, account: Option<&Account>, seen: &mut usize) -> String {
    let (starts, admitted, in_flight) = simulation.with(|provider| {
        let tally = provider.tally();
        let new = tally.arrivals.get(*seen..).unwrap_or_default();
        *seen = tally.arrivals.len();
        let admitted = new.iter().filter(|arrival| arrival.outcome == Outcome::Admitted);
        (new.len(), admitted.count(), tally.in_flight)
    });
    let mut line = format!("{starts:>8} {admitted:>8} {:>6} {in_flight:>6}  ", starts - admitted);
    let Some(account) = account else { return line };
    for lane in account.status().lanes {
        let pace = lane
            .starts_per_minute
            .map_or_else(|| "free".to_owned(), |pace| format!("{pace:.1}"));
        let paused = lane
            .paused_until
            .and_then(|until| until.duration_since(SystemTime::now()).ok());
        let paused = paused.unwrap_or_default().as_secs_f64();
        let _ = write!(line, " [{} {pace} {paused:.1} {:?}]", lane.waiting, lane.breaker);
    }
    line
}
