//! What is demanded of ours. Knows figures, and nothing of how they came about.
//!
//! | figure | bound |
//! |---|---|
//! | answered | those of `reqwest-retry`, of the SDK's loop and, under overload, of no layer; of the calls made, where workers never stop |
//! | answered, limits raised | all that can be |
//! | sends per answer | 1.02 × those of `reqwest-retry`, or ten failures in all |
//! | sends that meet an outage of 10 s or more | a quarter of those of `reqwest-retry`, a half for hangs, or twenty |
//! | makespan, in outages that end | 1.15 × the oracle's + 2 s, from the last stated delay on |
//! | makespan, where at most every second send fails and no refusal is among them | the same over `reqwest-retry` |
//! | back at nine tenths of the pace | 10 s, or 5 s after the last stated delay |
//! | back at eight tenths of a third | 30 s |
//! | poisonous prompts | none of the others is lost, their makespan grows by a twentieth at most, and none of them takes a second more |
//!
//! The oracle keeps the configured pace. What `adaptive()` loses to its slow start in fair weather is added to the oracle's
//! makespan. Where the drawn waits decide who is answered, and not the failures alone, one call in a hundred is luck.

use std::time::Duration;

use crate::cells::{self, Cells, Circumstance};
use crate::contender::Contender;
use crate::incident::{Incident, Kind, Load};
use crate::run::{self, Run};

/// A figure and what it has to be.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) what: &'static str,
    pub(crate) figure: f64,
    pub(crate) bound: f64,
    /// Whether more is better.
    at_least: bool,
}

/// So few are luck.
const FEW_FAILURES: f64 = 10.0;
/// What the few calls of one or four workers need: failures of several calls to see that nothing gets through, and then one
/// after another to see that it does again.
const FEW_PROBES: f64 = 20.0;
/// One call in a hundred, where the drawn waits decide and not the drawn failures alone.
const LUCK: f64 = 0.01;
const LONG: Duration = Duration::from_secs(10);

impl Bar {
    const fn least(what: &'static str, figure: f64, bound: f64) -> Self {
        Self {
            what,
            figure,
            bound,
            at_least: true,
        }
    }

    const fn most(what: &'static str, figure: f64, bound: f64) -> Self {
        Self {
            what,
            figure,
            bound,
            at_least: false,
        }
    }

    pub(crate) fn is_met(&self) -> bool {
        const ROUNDING: f64 = 1e-9;
        if self.at_least {
            self.figure >= self.bound - ROUNDING
        } else {
            self.figure <= self.bound + ROUNDING
        }
    }

    pub(crate) const fn sign(&self) -> char {
        if self.at_least { '≥' } else { '≤' }
    }
}

/// Those of an incident for one of ours. `seed` is that of the one run with raised limits.
pub(crate) fn of(incident: &Incident, contender: Contender, cells: &Cells, seed: u64) -> Vec<Bar> {
    let (Some(ours), Some(peer)) = (cells.usual(contender), cells.usual(Contender::ReqwestRetry)) else {
        return Vec::new();
    };
    let mut bars = vec![answered(incident, &ours, cells)];
    if let Some(raised) = cells.mean(contender, Circumstance::Raised) {
        let answerable = run::answerable(incident, raised.asked, seed);
        bars.push(Bar::least("answered, limits raised", raised.answered, answerable));
    }
    let few = 1.0 + FEW_FAILURES / ours.asked;
    bars.push(Bar::most(
        "sends per answer",
        ours.sends / ours.answered,
        (1.02 * peer.sends / peer.answered).max(few),
    ));
    let whole = matches!(incident.kind, Kind::Outage | Kind::Flaps);
    if whole && incident.length() >= LONG {
        let part = if incident.hangs() { 0.5 } else { 0.25 };
        bars.push(Bar::most(
            "sends that met it",
            ours.met,
            (part * peer.met).max(FEW_PROBES),
        ));
    }
    bars.extend(makespan(incident, contender, &ours, cells));
    bars.extend(slowest(incident, contender, &ours, cells));
    bars.extend(back(incident, &ours));
    bars
}

/// Where calls come for ever, of those asked: what was not lost is not asked again.
fn answered(incident: &Incident, ours: &Run, cells: &Cells) -> Bar {
    let part = |run: &Run| match incident.load {
        Load::Endless { .. } => run.answered / run.asked,
        _ => run.answered,
    };
    let others = [Contender::ReqwestRetry, Contender::Sdk, Contender::Bare];
    let others = others.into_iter().filter_map(|other| cells.usual(other));
    let mut best = others.map(|run| part(&run)).fold(0.0, f64::max);
    if incident.kind == Kind::Poison {
        best = ours.asked;
    }
    if incident.is_a_matter_of_luck() {
        best *= 1.0 - LUCK;
    }
    Bar::least("answered", part(ours), best)
}

fn makespan(incident: &Incident, contender: Contender, ours: &Run, cells: &Cells) -> Option<Bar> {
    if incident.kind == Kind::Poison {
        let calm = cells.mean(contender, Circumstance::Calm)?;
        return Some(Bar::most("makespan", ours.makespan, 1.05 * calm.makespan));
    }
    if matches!(incident.load, Load::Endless { .. }) {
        return None;
    }
    if cells::is_light(incident) {
        let peer = cells.usual(Contender::ReqwestRetry)?;
        let calm = cells.mean(contender, Circumstance::Calm)?;
        let calm_peer = cells.mean(Contender::ReqwestRetry, Circumstance::Calm)?;
        let own_pace = (calm.makespan - calm_peer.makespan).max(0.0);
        return Some(Bar::most(
            "makespan",
            ours.makespan,
            1.15 * (peer.makespan + own_pace) + 2.0,
        ));
    }
    let oracle = cells.usual(contender.oracle(incident))?;
    let slow_start = || {
        let ours = cells.mean(contender, Circumstance::Calm)?;
        let oracle = cells.mean(contender.oracle(incident), Circumstance::Calm)?;
        Some((ours.makespan - oracle.makespan).max(0.0))
    };
    // what is lost in fair weather is not the incident's doing
    let slow_start = slow_start().unwrap_or(0.0);
    let bound = 1.15 * (oracle.makespan + slow_start) + 2.0 + ours.stated;
    Some(Bar::most("makespan", ours.makespan, bound))
}

/// Where calls arrive by the clock, a makespan shows nothing of what poisonous ones cost the others.
fn slowest(incident: &Incident, contender: Contender, ours: &Run, cells: &Cells) -> Option<Bar> {
    let poisoned = incident.kind == Kind::Poison && matches!(incident.load, Load::Arrivals { .. });
    let calm = cells.mean(contender, Circumstance::Calm).filter(|_| poisoned)?;
    Some(Bar::most("slowest of the others", ours.slowest, calm.slowest + 1.0))
}

fn back(incident: &Incident, ours: &Run) -> Option<Bar> {
    incident.until()?;
    let within = match incident.kind {
        Kind::Fair | Kind::Overload | Kind::Poison | Kind::Flaps => return None,
        Kind::Share if incident.to.is_zero() => return None,
        Kind::Smaller(_) => 30.0,
        _ if incident.hint.is_some() => 5.0 + ours.stated,
        _ => 10.0,
    };
    Some(Bar::most("back at pace", ours.back.unwrap_or(f64::INFINITY), within))
}
