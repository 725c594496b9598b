//! The table of one transport. Knows how it looks and what its ratios are taken to; nothing of how its numbers came about.

use std::fmt;

use peers::Layer;

use crate::call::Transport;

/// What one call costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) allocations: f64,
    pub(crate) bytes: f64,
    pub(crate) nanoseconds: f64,
    pub(crate) instructions: Option<f64>,
}

/// What it costs with each layer.
#[derive(Debug)]
pub(crate) struct Table {
    transport: Transport,
    rows: Vec<(Layer, Cost)>,
}

impl Table {
    pub(crate) const fn new(transport: Transport) -> Self {
        Self {
            transport,
            rows: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, layer: Layer, cost: Cost) {
        self.rows.push((layer, cost));
    }

    pub(crate) fn cost(&self, layer: Layer) -> Result<Cost, String> {
        let row = self.rows.iter().find(|(of, _)| *of == layer);
        row.map(|(_, cost)| *cost)
            .ok_or_else(|| format!("{layer} was not measured"))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.cost(Layer::ReqwestRetry).map_err(|_| fmt::Error)?;
        writeln!(
            f,
            "{:<30}{:>18}{:>19}{:>19}{:>22}",
            self.transport, "allocations", "bytes", "ns", "instructions"
        )?;
        for (layer, cost) in &self.rows {
            write!(f, "{layer:<30}")?;
            write!(
                f,
                "{:>10.2} {:>5.2} ×",
                cost.allocations,
                cost.allocations / peer.allocations
            )?;
            write!(f, "{:>11.0} {:>5.2} ×", cost.bytes, cost.bytes / peer.bytes)?;
            write!(
                f,
                "{:>11.0} {:>5.2} ×",
                cost.nanoseconds,
                cost.nanoseconds / peer.nanoseconds
            )?;
            match (cost.instructions, peer.instructions) {
                (Some(own), Some(peer)) => writeln!(f, "{own:>14.0} {:>5.2} ×", own / peer)?,
                _ => writeln!(f, "{:>22}", "—")?,
            }
        }
        writeln!(f, "(each with its ratio to reqwest-retry's; medians of time)")
    }
}
