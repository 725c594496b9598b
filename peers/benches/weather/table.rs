//! How the results look: a block for each incident, a line for each cell, and the tables of the documentation. Judges
//! nothing.

use std::fmt::Write;

use crate::bars::{self, Bar};
use crate::cells::{Cells, Circumstance};
use crate::contender::Contender;
use crate::incident::{Incident, Load};
use crate::run::Run;

/// All that is known of an incident.
pub(crate) struct Block<'a> {
    pub(crate) incident: &'a Incident,
    pub(crate) cells: Cells,
    pub(crate) ours: &'a [Contender],
    pub(crate) seed: u64,
}

impl Block<'_> {
    fn contenders(&self) -> impl Iterator<Item = (Contender, Run)> + '_ {
        let all = self.ours.iter().copied().chain(Contender::OTHERS);
        all.filter_map(|contender| Some((contender, self.cells.usual(contender)?)))
    }

    pub(crate) fn bars(&self, contender: Contender) -> Vec<Bar> {
        if contender.is_ours() {
            bars::of(self.incident, contender, &self.cells, self.seed)
        } else {
            Vec::new()
        }
    }

    /// The figures of all contenders, then the bars.
    pub(crate) fn full(&self) -> String {
        let mut text = format!(
            "\n{:<48} {:>9} {:>8} {:>8} {:>9} {:>7} {:>9}  {}\n",
            self.incident.name, "answered", "of", "sends", "failed", "last s", "back s", "answers per half minute"
        );
        for (contender, run) in self.contenders() {
            let _ = writeln!(text, "  {contender:<46} {}", figures(self.incident, &run));
            if let Some(raised) = self.cells.mean(contender, Circumstance::Raised) {
                let _ = writeln!(text, "    {:<44} {}", "limits raised", figures(self.incident, &raised));
            }
        }
        for contender in self.ours {
            for bar in self.bars(*contender) {
                let verdict = if bar.is_met() { "PASS" } else { "FAIL" };
                let _ = writeln!(
                    text,
                    "  {verdict}  {:<26} {:<24} {:>9.3} {} {:.3}",
                    contender.to_string(),
                    bar.what,
                    bar.figure,
                    bar.sign(),
                    bar.bound
                );
            }
        }
        text
    }

    /// A line for each contender.
    pub(crate) fn brief(&self) -> String {
        let mut text = String::new();
        for (contender, run) in self.contenders() {
            let missed: Vec<String> = self
                .bars(contender)
                .iter()
                .filter(|bar| !bar.is_met())
                .map(|bar| format!("{} {:.2}{}{:.2}", bar.what, bar.figure, bar.sign(), bar.bound))
                .collect();
            let missed = match missed.as_slice() {
                [] if contender.is_ours() => "ok".to_owned(),
                [] => String::new(),
                missed => format!("FAIL {}", missed.join(", ")),
            };
            let _ = writeln!(
                text,
                "{:<46} {:<18} {}/{} sends {} failed {} last {:.1} back {}  {missed}",
                self.incident.name,
                contender.word(),
                run.answered,
                run.asked,
                run.sends,
                run.failed,
                run.makespan,
                back(self.incident, &run)
            );
        }
        text
    }
}

fn figures(incident: &Incident, run: &Run) -> String {
    let mut halves = String::new();
    if matches!(incident.load, Load::Endless { .. }) {
        for half in run.halves.iter().take(11) {
            let _ = write!(halves, " {half:.0}");
        }
    }
    format!(
        "{:>9.1} {:>8.1} {:>8.1} {:>9.1} {:>7.1} {:>9} {halves}",
        run.answered,
        run.asked,
        run.sends,
        run.failed,
        run.makespan,
        back(incident, run)
    )
}

fn back(incident: &Incident, run: &Run) -> String {
    match run.back {
        _ if incident.until().is_none() || incident.to.is_zero() => "-".to_owned(),
        Some(back) => format!("{back:.1}"),
        None => "never".to_owned(),
    }
}

/// The two tables of the documentation.
pub(crate) fn markdown(blocks: &[Block<'_>]) -> String {
    let shown = [
        Contender::ReqwestRetry,
        Contender::Sdk,
        Contender::Default,
        Contender::Built,
        Contender::Adaptive,
        Contender::Oracle,
    ];
    let mut text = String::from("| incident |");
    for contender in shown {
        let _ = write!(text, " {contender} |");
    }
    text.push_str("\n|---|---|---|---|---|---|---|\n");
    for block in blocks {
        if matches!(block.incident.load, Load::Endless { .. }) {
            continue;
        }
        let _ = write!(text, "| {} |", block.incident.name);
        for contender in shown {
            let _ = match block.cells.usual(contender) {
                Some(run) => write!(text, " {:.0} ({:.0}), {:.0} s |", run.answered, run.sends, run.makespan),
                None => write!(text, " |"),
            };
        }
        text.push('\n');
    }
    text.push_str("\n| incident | default() | built | adaptive() | reqwest-retry 0.9 |\n|---|---|---|---|---|\n");
    for block in blocks {
        if !matches!(block.incident.load, Load::Endless { .. }) {
            continue;
        }
        let _ = write!(text, "| {} |", block.incident.name);
        for contender in [
            Contender::Default,
            Contender::Built,
            Contender::Adaptive,
            Contender::ReqwestRetry,
        ] {
            let halves = block
                .cells
                .usual(contender)
                .map_or_else(String::new, |run| halves(block.incident, &run));
            let _ = write!(text, " {halves} |");
        }
        text.push('\n');
    }
    text
}

/// The half minute before, and those from the one in which the incident ends.
fn halves(incident: &Incident, run: &Run) -> String {
    let of = |seconds: u64| usize::try_from(seconds / 30).unwrap_or(0);
    let before = of(incident.from.as_secs()).saturating_sub(1);
    let after = of(incident.to.as_secs());
    let until = of(incident.until().unwrap_or_default().as_secs());
    let shown = |half: Option<&f64>| half.map_or_else(|| "0".to_owned(), |half| format!("{half:.0}"));
    let later: Vec<String> = (after..until.min(after + 5))
        .map(|half| shown(run.halves.get(half)))
        .collect();
    format!("{} → {}", shown(run.halves.get(before)), later.join(", "))
}

/// The bars met, by contender.
pub(crate) fn totals(blocks: &[Block<'_>], ours: &[Contender]) -> (String, bool) {
    let mut text = String::from("\n");
    let mut whole = true;
    for contender in ours {
        let (mut met, mut all, mut incidents) = (0, 0, 0);
        for block in blocks {
            let bars = block.bars(*contender);
            let good = bars.iter().filter(|bar| bar.is_met()).count();
            met += good;
            all += bars.len();
            incidents += usize::from(good == bars.len());
        }
        whole &= met == all;
        let _ = writeln!(
            text,
            "{:<26} {met} of {all} bars met, {incidents} of {} incidents without a miss",
            contender.to_string(),
            blocks.len()
        );
    }
    (text, whole)
}
