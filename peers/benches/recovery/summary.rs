//! A contender's runs as a row, and the bars that they met. Knows how the tables look, and nothing of how a run goes.

use std::fmt;

use crate::bars::Bars;
use crate::contender::Contender;
use crate::run::Run;
use crate::scene::Scene;

/// A figure over the seeds; more is worse.
#[derive(Debug, Clone, Copy)]
struct Spread {
    median: f64,
    mean: f64,
    worst: f64,
}

impl Spread {
    fn of(runs: &[Run], figure: impl Fn(&Run) -> f64) -> Self {
        let mut figures: Vec<f64> = runs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        Self {
            median: figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN),
            mean: figures.iter().sum::<f64>() / figures.len() as f64,
            worst: figures.last().copied().unwrap_or(f64::NAN),
        }
    }
}

/// A contender's runs against one provider.
#[derive(Debug)]
pub(crate) struct Row {
    contender: Contender,
    requests: u64,
    /// In the worst run.
    finished: u64,
    makespan: Spread,
    even: Spread,
    refused: Spread,
    sends: Spread,
    slowest: Spread,
    bars: Option<Bars>,
}

impl Row {
    pub(crate) fn of(contender: Contender, runs: &[Run], bars: Option<Bars>) -> Self {
        Self {
            contender,
            requests: runs.first().map_or(0, |run| run.requests),
            finished: runs.iter().map(|run| run.finished).min().unwrap_or(0),
            makespan: Spread::of(runs, |run| run.makespan),
            even: Spread::of(runs, |run| run.even),
            refused: Spread::of(runs, |run| run.refused),
            sends: Spread::of(runs, |run| run.sends as f64),
            slowest: Spread::of(runs, |run| run.slowest),
            bars,
        }
    }

    pub(crate) fn head(scene: &Scene) -> String {
        format!(
            "{:<30} {:>8}   {:^22}   {:^22} {:>8}   {:^14}\n{:<30} {:>8}   {:>6} {:>7} {:>7}   {:>6} {:>7} {:>7} {:>8}   {:>6} {:>7}",
            scene.title(),
            "finished",
            "makespan ÷ bound",
            "refused, %",
            "sends",
            "slowest ÷ med.",
            "",
            "least",
            "median",
            "mean",
            "worst",
            "median",
            "mean",
            "worst",
            "median",
            "mean",
            "worst",
        )
    }

    /// The bars that were missed; `None` if there are none.
    fn missed(&self) -> Option<Vec<String>> {
        let bars = self.bars?;
        let mut missed = Vec::new();
        if self.finished < self.requests {
            missed.push(format!("finished {}", self.finished));
        }
        if self.makespan.mean > bars.makespan {
            missed.push(format!("makespan {:.4} > {:.2}", self.makespan.mean, bars.makespan));
            // a bar that asks for more than is configured, and than anybody has said may be sent
            if self.contender == Contender::Configured && self.even.mean > bars.makespan {
                missed.push(format!(
                    "which an even pace at the allowance misses too, at {:.4}",
                    self.even.mean
                ));
            }
        }
        if self.refused.mean > bars.refused {
            missed.push(format!(
                "refused {:.2} % > {:.1} %",
                100.0 * self.refused.mean,
                100.0 * bars.refused
            ));
        }
        if let Some(slowest) = bars.slowest.filter(|bar| self.slowest.mean > *bar) {
            missed.push(format!("slowest {:.2} > {slowest:.1}", self.slowest.mean));
        }
        Some(missed)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (makespan, refused, slowest) = (self.makespan, self.refused, self.slowest);
        // what is lost makes a batch short
        let lost = if self.finished < self.requests { '†' } else { ' ' };
        write!(
            f,
            "{:<30} {:>8}  {lost}{:>6.3} {:>7.3} {:>7.3}   {:>6.2} {:>7.2} {:>7.2} {:>8.0}   {:>6.2} {:>7.2}",
            self.contender,
            self.finished,
            makespan.median,
            makespan.mean,
            makespan.worst,
            100.0 * refused.median,
            100.0 * refused.mean,
            100.0 * refused.worst,
            self.sends.median,
            slowest.mean,
            slowest.worst,
        )?;
        match (self.missed(), self.bars) {
            (Some(missed), Some(bars)) if missed.is_empty() => {
                write!(f, "   PASS (≤ {:.2}, ≤ {:.1} %)", bars.makespan, 100.0 * bars.refused)
            }
            (Some(missed), _) => write!(f, "   FAIL {}", missed.join(", ")),
            (None, _) => Ok(()),
        }
    }
}

/// The bars of a whole run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    cells: usize,
    missed: Vec<String>,
    lost: Vec<String>,
}

impl Tally {
    pub(crate) fn count(&mut self, scene: &Scene, row: &Row) {
        let of = format!("{} · {}", scene.title(), row.contender);
        if let Some(missed) = row.missed() {
            self.cells += 1;
            if !missed.is_empty() {
                self.missed.push(format!("FAIL  {of}: {}", missed.join(", ")));
            }
        } else if row.contender.is_ours() && row.finished < row.requests {
            self.lost.push(format!("FAIL  {of}: finished {}", row.finished));
        }
    }

    pub(crate) fn missed(&self) -> bool {
        !self.missed.is_empty() || !self.lost.is_empty()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.missed.iter().chain(&self.lost) {
            writeln!(f, "{line}")?;
        }
        write!(
            f,
            "{} of {} cells within their bars",
            self.cells - self.missed.len(),
            self.cells
        )
    }
}
