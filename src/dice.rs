//! Where chance comes from. Knows nothing of what is drawn for.

use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Drawn anew each time, or repeatable from a seed.
#[derive(Debug, Default)]
pub(crate) enum Dice {
    #[default]
    Thread,
    Seeded(Mutex<Box<StdRng>>),
}

impl Dice {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::Seeded(Mutex::new(Box::new(StdRng::seed_from_u64(seed))))
    }

    /// Independent draws from `[0, 1)`.
    pub(crate) fn draw<const N: usize>(&self) -> [f64; N] {
        match self {
            Self::Thread => std::array::from_fn(|_| rand::random()),
            Self::Seeded(rng) => {
                let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
                std::array::from_fn(|_| rng.random())
            }
        }
    }
}
