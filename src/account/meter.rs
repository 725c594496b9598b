//! How fast a lane has really been going. Knows no limit.

use std::collections::VecDeque;

use super::tick::{Span, Tick};

/// Counts over the last `SPAN` seconds, in steps, so that its size is the same at any rate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    /// When each step began, and what was counted in it.
    steps: VecDeque<(Tick, f64)>,
}

const STEP: Span = Span::millis(500);
const SPAN: f64 = 15.0;

impl Meter {
    #[inline]
    pub(crate) fn count(&mut self, units: f64, now: Tick) {
        if let Some((began, counted)) = self.steps.back_mut()
            && now < *began + STEP
        {
            *counted += units;
            return;
        }
        let is_old = |(began, _): &(Tick, f64)| now.seconds_since(*began) > SPAN;
        while self.steps.front().is_some_and(is_old) {
            self.steps.pop_front();
        }
        self.steps.push_back((now, units));
    }

    /// A second, over the span or what there was of it; `None` if that is too short to tell.
    #[inline]
    pub(crate) fn rate(&self, now: Tick) -> Option<f64> {
        self.rate_over(3.0, now)
    }

    /// The same of at least so many seconds.
    pub(crate) fn rate_over(&self, least: f64, now: Tick) -> Option<f64> {
        let (began, _) = self.steps.front()?;
        let seconds = now.seconds_since(*began);
        let counted: f64 = self.steps.iter().map(|(_, counted)| counted).sum();
        (seconds >= least).then(|| counted.max(0.0) / seconds)
    }
}
