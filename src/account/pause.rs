//! The collective pause of a lane: nobody sends before the time that the server told. Knows no request.

use super::tick::Tick;

/// Until when a lane is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pause {
    until: Option<Tick>,
}

impl Pause {
    /// Moves the end later, never earlier: a smaller hint that comes after a larger one says nothing against it. True if
    /// that moved it.
    pub(crate) fn extend(&mut self, until: Tick) -> bool {
        let moved = self.until.is_none_or(|known| until > known);
        if moved {
            self.until = Some(until);
        }
        moved
    }

    /// The end, if it has not come.
    pub(crate) fn until(self, now: Tick) -> Option<Tick> {
        self.until.filter(|until| *until > now)
    }

    /// Forgets an end that has come. True if there was one.
    pub(crate) fn end(&mut self, now: Tick) -> bool {
        let ended = self.until.is_some_and(|until| until <= now);
        if ended {
            self.until = None;
        }
        ended
    }
}
