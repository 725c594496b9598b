//! The draws know what is left to chance, by a seed. They do not know what it is used for.

use std::f64::consts::TAU;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::model::Output;

/// One sequence for each purpose, so that a client that sends more often gets answers of the same length all the same.
#[derive(Debug)]
pub(crate) struct Draws {
    jitter: StdRng,
    output: StdRng,
    phase: StdRng,
}

impl Draws {
    pub(crate) fn new(seed: u64) -> Draws {
        let of = |purpose: u64| StdRng::seed_from_u64(seed.wrapping_mul(4).wrapping_add(purpose));
        Draws {
            jitter: of(0),
            output: of(1),
            phase: of(2),
        }
    }

    /// Uniform from zero to `most`.
    pub(crate) fn jitter(&mut self, most: Duration) -> Duration {
        if most.is_zero() {
            return most;
        }
        most.mul_f64(self.jitter.random::<f64>())
    }

    /// Uniform in the window.
    pub(crate) fn phase(&mut self, window: Duration) -> Duration {
        window.mul_f64(self.phase.random::<f64>())
    }

    /// At least one token.
    pub(crate) fn output(&mut self, output: Output) -> u64 {
        match output {
            Output::Fixed(tokens) => tokens,
            Output::LogNormal { median, sigma } => {
                let (radius, angle): (f64, f64) = (self.output.random(), self.output.random());
                // Box and Muller; 1 - radius is never zero.
                let normal = (-2.0 * (1.0 - radius).ln()).sqrt() * (TAU * angle).cos();
                let tokens = (median * (sigma * normal).exp()).round().max(1.0);
                // A float that is too large becomes the largest integer.
                tokens as u64
            }
        }
    }
}
