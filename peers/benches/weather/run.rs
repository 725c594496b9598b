//! One run in virtual time: an incident, a contender and a seed. Knows what is measured, and not what is demanded.

use std::error::Error;
use std::time::Duration;

use reqwest_ai_retry::Account;
use testbed::sim::{Arrival, Outcome, Provider, Simulation, Transport};

use crate::contender::{Contender, Patience, RAISED_ATTEMPTS};
use crate::drive::{Made, drive};
use crate::incident::{FAILURE_TAKES, Incident, Kind};

pub(crate) type Failed = Box<dyn Error + Send + Sync>;

/// What came of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Run {
    /// Calls made, and those that were answered; poisonous ones do not count.
    pub(crate) asked: f64,
    pub(crate) answered: f64,
    pub(crate) sends: f64,
    /// Sends that were not let through.
    pub(crate) failed: f64,
    /// Those of them that met what went wrong, and not a limit of the provider.
    pub(crate) met: f64,
    /// When the last answer came, in seconds.
    pub(crate) makespan: f64,
    /// The longest that an answered call took.
    pub(crate) slowest: f64,
    /// How long after the incident's end the last delay that the provider stated was over.
    pub(crate) stated: f64,
    /// How long after the incident's end the pace was back.
    pub(crate) back: Option<f64>,
    /// Answers in each half minute.
    pub(crate) halves: Vec<f64>,
}

/// Runs it on a thread of its own clock.
pub(crate) fn run(incident: &Incident, contender: Contender, patience: Patience, seed: u64) -> Result<Run, Failed> {
    in_virtual_time(incident, contender, patience, seed, async |_, _| ()).map(|(run, _)| run)
}

/// The same with an observer beside it until the run ends, and with the times of all answers.
pub(crate) fn in_virtual_time(
    incident: &Incident,
    contender: Contender,
    patience: Patience,
    seed: u64,
    watch: impl AsyncFnOnce(&Simulation, Option<&Account>),
) -> Result<(Run, Vec<Made>), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(async {
        let simulation = Simulation::new(Provider::new(incident.model(), seed));
        let transport = Transport::new(simulation.clone());
        let (client, account) = contender.client(transport, incident, patience, seed)?;
        let timed = !contender.is_ours();
        let watched = async {
            watch(&simulation, account.as_ref()).await;
            std::future::pending::<()>().await;
        };
        let made = tokio::select! {
            biased;
            made = drive(incident, client, timed) => made,
            () = watched => Vec::new(),
        };
        Ok((measure(incident, &simulation, &made), made))
    })
}

fn measure(incident: &Incident, simulation: &Simulation, made: &[Made]) -> Run {
    let tally = simulation.tally();
    let counted = || made.iter().filter(|call| !incident.poisonous.contains(&call.prompt));
    let answered = || counted().filter(|call| call.answered);
    let answers = || answered().map(|call| call.ended);
    let slowest = answered().map(|call| call.ended.saturating_sub(call.begun)).max();
    let mut halves = Vec::new();
    for ended in answers() {
        let half = usize::try_from(ended.as_secs() / 30).unwrap_or(usize::MAX);
        if halves.len() <= half {
            halves.resize(half + 1, 0.0);
        }
        if let Some(half) = halves.get_mut(half) {
            *half += 1.0;
        }
    }
    Run {
        asked: counted().count() as f64,
        answered: answers().count() as f64,
        sends: tally.sends as f64,
        failed: (tally.sends - tally.admitted) as f64,
        met: tally.failed as f64,
        makespan: answers().max().unwrap_or_default().as_secs_f64(),
        slowest: slowest.unwrap_or_default().as_secs_f64(),
        stated: stated(incident, &tally.arrivals),
        back: back(incident, &tally.arrivals),
        halves,
    }
}

/// How long after the incident's end the last stated delay is over.
fn stated(incident: &Incident, arrivals: &[Arrival]) -> f64 {
    let Some(hint) = incident.hint else { return 0.0 };
    let mut failures = arrivals.iter().rev();
    let last = failures.find(|arrival| matches!(arrival.outcome, Outcome::Failed(_)));
    let over = last.map(|arrival| arrival.at + FAILURE_TAKES + hint);
    over.unwrap_or_default().saturating_sub(incident.to).as_secs_f64()
}

/// How long after the incident's end the starts that are let through are back at nine tenths of those before, or at eight of
/// those that are allowed now: for five seconds, and for twenty, from then on.
fn back(incident: &Incident, arrivals: &[Arrival]) -> Option<f64> {
    let until = incident.until()?;
    let admitted = arrivals.iter().filter(|arrival| arrival.outcome == Outcome::Admitted);
    let admitted: Vec<Duration> = admitted.map(|arrival| arrival.at).collect();
    let within = |from: Duration, to: Duration| {
        let before = |time: Duration| admitted.partition_point(|at| *at < time);
        (before(to) - before(from)) as f64
    };
    let wanted = match incident.kind {
        Kind::Smaller(pace) => 0.8 * pace,
        _ => {
            let since = incident.from.saturating_sub(Duration::from_secs(10));
            0.9 * within(since, incident.from) / (incident.from - since).as_secs_f64()
        }
    };
    let kept = |from: Duration, seconds: u64| {
        let to = (from + Duration::from_secs(seconds)).min(until);
        to > from && within(from, to) >= wanted * (to - from).as_secs_f64() - 1e-9
    };
    let step = Duration::from_millis(100);
    let mut from = incident.to;
    while from + Duration::from_secs(5) <= until {
        if kept(from, 5) && kept(from, 20) {
            return Some((from - incident.to).as_secs_f64());
        }
        from += step;
    }
    None
}

/// How many of the prompts let any of so many attempts through.
pub(crate) fn answerable(incident: &Incident, asked: f64, seed: u64) -> f64 {
    if incident.kind != Kind::Share {
        return asked;
    }
    let mut provider = Provider::new(incident.model(), seed);
    let lost = (0..asked as u64).filter(|prompt| {
        let call = testbed::sim::Call {
            prompt: *prompt,
            ..testbed::sim::Call::new(1)
        };
        (0..RAISED_ATTEMPTS).all(|_| {
            let reply = provider.arrive(incident.from, &call);
            reply.outcome != Outcome::Admitted
        })
    });
    asked - lost.count() as f64
}
