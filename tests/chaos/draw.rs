//! What is left to chance. Knows no use of it.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[derive(Debug)]
pub(crate) struct Draw(StdRng);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// A sequence of its own, so that what draws more often does not change what others draw.
    pub(crate) fn split(&mut self) -> Self {
        Self::new(self.0.random())
    }

    pub(crate) fn seed(&mut self) -> u64 {
        self.0.random()
    }

    /// From `least` to `most`, both included.
    pub(crate) fn number(&mut self, least: u32, most: u32) -> u32 {
        self.0.random_range(least..=most)
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.0.random_range(0..length)
    }

    pub(crate) fn part(&mut self) -> f64 {
        self.0.random()
    }

    pub(crate) fn chance(&mut self, part: f64) -> bool {
        self.part() < part
    }

    pub(crate) fn millis(&mut self, least: u32, most: u32) -> Duration {
        Duration::from_millis(self.number(least, most).into())
    }

    pub(crate) fn sometimes<T>(&mut self, part: f64, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(part).then(|| draw(self))
    }

    pub(crate) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.index(among.len())]
    }
}
