//! How many requests are in flight, and how many may be. Knows no queue.

use super::tick::Tick;

/// A learnt ceiling is tried one higher after this long without a refusal.
const RAISED_AFTER: f64 = 10.0;

/// Requests in flight under a ceiling, configured or learnt.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Ceiling {
    configured: Option<u32>,
    learnt: Option<u32>,
    in_flight: u32,
    /// Processes that each keep to their own part of the limit; none, or one, if it is all for us.
    among: u32,
    clean_since: Tick,
}

impl Ceiling {
    #[inline]
    pub(crate) fn new(configured: Option<u32>) -> Self {
        Self {
            configured,
            ..Self::default()
        }
    }

    #[inline]
    pub(crate) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The most that may be in flight, if there is a limit.
    #[inline]
    pub(crate) fn limit(&self) -> Option<u32> {
        match (self.configured, self.learnt) {
            (Some(configured), Some(learnt)) => Some(configured.min(learnt)),
            (limit, None) | (None, limit) => limit,
        }
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.limit().is_none_or(|limit| self.in_flight < self.own(limit))
    }

    /// So many more may be in flight.
    pub(crate) fn room(&self) -> u32 {
        let own = self.limit().map(|limit| self.own(limit));
        own.map_or(u32::MAX, |own| own.saturating_sub(self.in_flight))
    }

    #[inline]
    fn own(&self, limit: u32) -> u32 {
        if self.among > 1 {
            (limit / self.among).max(1)
        } else {
            limit
        }
    }

    /// Only a part of the limit is for us, as one of so many.
    pub(crate) const fn share(&mut self, among: u32) {
        self.among = among;
    }

    /// What refusals have taught.
    pub(crate) const fn learnt(&self) -> Option<u32> {
        self.learnt
    }

    /// What refusals have taught others.
    pub(crate) const fn adopt(&mut self, learnt: Option<u32>, now: Tick) {
        self.learnt = learnt;
        self.clean_since = now;
    }

    #[inline]
    pub(crate) const fn enter(&mut self) {
        self.in_flight = self.in_flight.saturating_add(1);
    }

    #[inline]
    pub(crate) const fn leave(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A request was refused because too many were in flight: those that are, without it, and `beside` others that are not
    /// counted here.
    #[inline]
    pub(crate) fn refused(&mut self, beside: u32, now: Tick) {
        let learnt = self.in_flight.saturating_add(beside).max(1);
        if self.limit().is_none_or(|limit| learnt < limit) {
            self.learnt = Some(learnt);
        }
        self.clean_since = now;
    }

    /// Time has passed in peace: a learnt ceiling that is used to the full, by those in flight here and `beside`, goes up by
    /// one. True if it did.
    #[inline]
    pub(crate) fn tick(&mut self, beside: u32, now: Tick) -> bool {
        let Some(learnt) = self.learnt else { return false };
        let full = self.in_flight.saturating_add(beside) >= learnt;
        if !full || now.seconds_since(self.clean_since) < RAISED_AFTER {
            return false;
        }
        self.clean_since = now;
        self.learnt = Some(learnt.saturating_add(1)).filter(|raised| self.configured.is_none_or(|most| *raised < most));
        true
    }
}
