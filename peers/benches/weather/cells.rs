//! Which runs an incident needs, and their means. Knows no bar.

use std::collections::HashMap;

use testbed::sim::{Fault, Outage};

use crate::contender::{Contender, Patience};
use crate::incident::{Incident, Kind, Load};
use crate::run::{self, Failed, Run};

/// In which circumstances a contender meets an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Circumstance {
    Usual,
    /// With the limits of a call raised.
    Raised,
    /// The same load in fair weather.
    Calm,
}

/// A run to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) incident: usize,
    pub(crate) contender: Contender,
    pub(crate) circumstance: Circumstance,
    pub(crate) seed: u64,
}

impl Job {
    pub(crate) fn run(&self, incident: &Incident) -> Result<Run, Failed> {
        let of = |incident, patience| run::run(incident, self.contender, patience, self.seed);
        match self.circumstance {
            Circumstance::Usual => of(incident, Patience::Usual),
            Circumstance::Raised => of(incident, Patience::Raised),
            Circumstance::Calm => of(&incident.calm(), Patience::Usual),
        }
    }
}

/// All runs of an incident.
pub(crate) fn jobs(at: usize, incident: &Incident, ours: &[Contender], seeds: &[u64]) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut add = |contender, circumstance, seeds: &[u64]| {
        jobs.extend(seeds.iter().map(|seed| Job {
            incident: at,
            contender,
            circumstance,
            seed: *seed,
        }));
    };
    for contender in others(incident) {
        add(contender, Circumstance::Usual, seeds);
    }
    let one = seeds.get(..1).unwrap_or_default();
    for contender in ours.iter().copied() {
        add(contender, Circumstance::Usual, seeds);
        if can_be_raised(incident) {
            add(contender, Circumstance::Raised, one);
        }
        if incident.kind == Kind::Poison
            || is_light(incident)
            || (has_oracle(incident) && contender == Contender::Adaptive)
        {
            add(contender, Circumstance::Calm, seeds);
        }
    }
    if has_oracle(incident) && ours.contains(&Contender::Adaptive) {
        add(Contender::Adaptive.oracle(incident), Circumstance::Calm, seeds);
    }
    if is_light(incident) {
        add(Contender::ReqwestRetry, Circumstance::Calm, seeds);
    }
    jobs
}

/// Returns `true` if a batch meets failures at random that say nothing of an allowance, and at most every second send: that
/// is no reason to slow down.
pub(crate) fn is_light(incident: &Incident) -> bool {
    let light = |outage: &Outage| {
        outage.share_of_attempts() <= 0.5 && !matches!(outage.fault, Fault::Status(429) | Fault::Hinted { .. })
    };
    incident.kind == Kind::Share
        && matches!(incident.load, Load::Batch { .. })
        && incident.gives_up.is_none()
        && incident.outages.iter().all(light)
}

/// Those that ours are compared with in an incident.
fn others(incident: &Incident) -> Vec<Contender> {
    let others = Contender::OTHERS.into_iter().filter(|contender| match contender {
        Contender::Bare => incident.kind == Kind::Overload,
        Contender::Oracle => has_oracle(incident) && !incident.limited,
        Contender::PacedOracle => has_oracle(incident),
        _ => true,
    });
    others.collect()
}

fn has_oracle(incident: &Incident) -> bool {
    matches!(incident.kind, Kind::Outage | Kind::Flaps | Kind::Fair)
}

/// Returns `true` if every call could be answered, did its limits allow it.
fn can_be_raised(incident: &Incident) -> bool {
    incident.gives_up.is_none()
        && !matches!(incident.load, Load::Endless { .. })
        && matches!(incident.kind, Kind::Outage | Kind::Flaps | Kind::Share)
}

/// The means of all runs of an incident.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    runs: HashMap<(Contender, Circumstance), Vec<Run>>,
}

impl Cells {
    pub(crate) fn add(&mut self, job: &Job, run: Run) {
        self.runs
            .entry((job.contender, job.circumstance))
            .or_default()
            .push(run);
    }

    pub(crate) fn mean(&self, contender: Contender, circumstance: Circumstance) -> Option<Run> {
        let runs = self.runs.get(&(contender, circumstance))?;
        let mean = |figure: fn(&Run) -> f64| runs.iter().map(figure).sum::<f64>() / runs.len() as f64;
        let backs: Option<Vec<f64>> = runs.iter().map(|run| run.back).collect();
        let halves = runs.iter().map(|run| run.halves.len()).max().unwrap_or(0);
        let half = |at: usize| {
            let sum: f64 = runs.iter().filter_map(|run| run.halves.get(at)).sum();
            sum / runs.len() as f64
        };
        Some(Run {
            asked: mean(|run| run.asked),
            answered: mean(|run| run.answered),
            sends: mean(|run| run.sends),
            failed: mean(|run| run.failed),
            met: mean(|run| run.met),
            makespan: mean(|run| run.makespan),
            slowest: mean(|run| run.slowest),
            stated: mean(|run| run.stated),
            back: backs.map(|backs| backs.iter().sum::<f64>() / backs.len() as f64),
            halves: (0..halves).map(half).collect(),
        })
    }

    pub(crate) fn usual(&self, contender: Contender) -> Option<Run> {
        self.mean(contender, Circumstance::Usual)
    }
}
