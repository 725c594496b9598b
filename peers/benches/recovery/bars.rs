//! What is demanded of ours. Knows no run.
//!
//! One of these bars asks for more than is allowed: 20 per 10 s, rate configured, without headers. Its bound is 292 s, and 1.03
//! of that 300.76 s. By 290 s no more than 580 requests are let through, whoever sends them, so that the last twenty have to
//! start within 8.76 s: that is 130 a minute, where 120 are configured, kept up in every window, since nothing tells which
//! is the last one or that there are windows at all. Starts made ahead of the pace at the beginning do not help, because what is
//! gained is refused at the end of the first window: with three at once instead of one, 1.0427 was measured, and 0.33 %
//! refused. An even pace of 120 a minute ends at 301.5 s, 1.0325. Where headers tell the window, it is kept.

use testbed::sim::Case;

use crate::contender::Contender;
use crate::scene::Scene;

/// The most that is allowed; every request has to finish besides. A figure is a mean over the seeds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bars {
    pub(crate) makespan: f64,
    pub(crate) refused: f64,
    pub(crate) slowest: Option<f64>,
}

/// The slowest request to the median one, where the provider does not itself empty a whole minute at once.
const SLOWEST: f64 = 2.0;

/// Those of a cell, if there are any.
pub(crate) fn of(scene: &Scene, contender: Contender) -> Option<Bars> {
    let case = scene.case?;
    let minute = matches!(case, Case::FixedMinute | Case::SlidingMinute);
    // configured with and without headers, adaptive with and without headers: makespan, percent refused
    let cells = match case {
        Case::Bucket10 => [(1.02, 0.0), (1.02, 0.0), (1.02, 1.0), (1.03, 3.0)],
        Case::Bucket60 => [(1.02, 0.0), (1.12, 0.0), (1.03, 1.0), (1.04, 5.0)],
        Case::Bucket1 => [(1.06, 2.0), (1.06, 2.0), (1.08, 3.0), (1.12, 3.0)],
        Case::PerSecond | Case::PerTenSeconds => [(1.03, 0.5), (1.03, 0.5), (1.03, 1.0), (1.04, 2.0)],
        Case::FixedMinute | Case::SlidingMinute => [(1.30, 2.0), (1.30, 2.0), (1.30, 3.0), (1.60, 5.0)],
        Case::Half => [(1.02, 1.0), (1.02, 7.0), (1.02, 1.0), (1.02, 5.0)],
    };
    let (makespan, percent) = match (contender, scene.headers) {
        (Contender::Configured, true) => cells[0],
        (Contender::Configured, false) => cells[1],
        (Contender::Adaptive, true) => cells[2],
        (Contender::Adaptive, false) => cells[3],
        (Contender::Default, _) if !minute => (1.15, 15.0),
        _ => return None,
    };
    Some(Bars {
        makespan,
        refused: percent / 100.0,
        slowest: (!minute).then_some(SLOWEST),
    })
}
