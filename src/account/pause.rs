//! The collective pause of a lane: nobody sends before the time that the server told, and after it not all at once. Knows no
//! request.

use std::time::Duration;

use super::tick::Tick;

/// After a pause the first start goes alone for a second, and each second may start twice as many as the one before, for so
/// long: those that were kept waiting do not come back as one wave. After two seconds without another pause it is four times
/// as many.
const RAMP: Duration = Duration::from_secs(7);
const STEEPER: f64 = 2.0;

/// Until when a lane is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pause {
    until: Option<Tick>,
    /// Its end has been told.
    ended: bool,
}

impl Pause {
    /// Moves the end later, never earlier: a smaller hint that comes after a larger one says nothing against it. True if
    /// that moved it.
    #[inline]
    pub(crate) fn extend(&mut self, until: Tick) -> bool {
        let moved = self.until.is_none_or(|known| until > known);
        if moved {
            *self = Self {
                until: Some(until),
                ended: false,
            };
        }
        moved
    }

    /// The end, if it has not come.
    #[inline]
    pub(crate) fn until(self, now: Tick) -> Option<Tick> {
        self.until.filter(|until| *until > now)
    }

    /// The lane was answered well: true if that is the first time since its pause.
    #[inline]
    pub(crate) fn end(&mut self, now: Tick) -> bool {
        let first = !self.ended && self.until.is_some_and(|until| until <= now);
        self.ended |= first;
        first
    }

    /// Starts a second while the lane comes back from a pause, where nothing else paces it.
    #[inline]
    pub(crate) fn ramp(self, now: Tick) -> Option<f64> {
        let since = now.since(self.until.filter(|until| *until <= now)?);
        let seconds = since.as_secs_f64();
        (since < RAMP).then(|| 2f64.powf(seconds + (seconds - STEEPER).max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// B9: never moved earlier.
    #[test]
    fn a_smaller_hint_does_not_shorten_a_pause() {
        let now = Tick::default();
        let mut pause = Pause::default();
        assert!(pause.extend(now + s(10)));
        assert!(!pause.extend(now + s(5)) && !pause.extend(now) && !pause.extend(now - s(5)));
        assert_eq!(pause.until(now), Some(now + s(10)));
        assert_eq!(pause.until(now + s(10)), None);
        assert!(!pause.end(now + s(9)));
        assert!(pause.end(now + s(10)) && !pause.end(now + s(11)));
        assert!(!pause.extend(now + s(10)) && pause.extend(now + s(20)));
        assert!(pause.end(now + s(20)));
    }

    /// A later and longer pause starts the way back anew.
    #[test]
    fn another_pause_starts_the_ramp_anew() {
        let mut pause = Pause::default();
        pause.extend(Tick::default() + s(10));
        assert_eq!(pause.ramp(Tick::default() + s(12)), Some(4.0));
        pause.extend(Tick::default() + s(14));
        assert_eq!(pause.ramp(Tick::default() + s(13)), None);
        assert_eq!(pause.ramp(Tick::default() + s(14)), Some(1.0));
        // never slower than it was
        let rates: Vec<_> = (140..210)
            .map(|at| pause.ramp(Tick::default() + s(1) * at / 10).unwrap())
            .collect();
        assert!(rates.is_sorted() && rates[0] == 1.0, "{rates:?}");
    }

    #[test]
    fn a_lane_comes_back_gradually() {
        let mut pause = Pause::default();
        assert_eq!(pause.ramp(Tick::default()), None);
        let end = Tick::default() + s(10);
        pause.extend(end);
        let rates: Vec<_> = [9, 10, 11, 12, 16, 17]
            .map(|at| pause.ramp(Tick::default() + s(at)))
            .into();
        assert_eq!(rates, [None, Some(1.0), Some(2.0), Some(4.0), Some(1024.0), None]);
    }
}
