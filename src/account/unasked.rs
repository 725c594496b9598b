//! Sends for which a quiet account was not asked: how many there were, and at what rate. Knows no lane and no response.
//!
//! When a provider first mentions a limit, the rate until then is the first guess at what it allows. A call that goes well
//! must not pay for that, so only their number is noted, once in a while.

use std::time::Duration;

use super::sync::{AtomicU64, Ordering};
use super::tick::Tick;

/// Seconds between two notes of the number.
const NOTED: u64 = 10;
/// Only every sixteenth send reads the clock to see whether a note is due.
const EVERY: u64 = 16;
/// The bits of a note that hold the number; the other bits hold the second.
const BITS: u32 = 40;

/// The number of sends, and two notes of an earlier number with its time.
#[derive(Debug, Default)]
pub(super) struct Unasked {
    sends: AtomicU64,
    newer: AtomicU64,
    older: AtomicU64,
}

impl Unasked {
    /// Counts a send; `since` tells the time since the account was made.
    #[inline]
    pub(super) fn count(&self, since: impl FnOnce() -> Duration) {
        let sends = self.sends.fetch_add(1, Ordering::Relaxed);
        if sends.is_multiple_of(EVERY) {
            self.note(sends, since().as_secs());
        }
    }

    #[cold]
    fn note(&self, sends: u64, second: u64) {
        let newer = self.newer.load(Ordering::Relaxed);
        if second >= (newer >> BITS) + NOTED {
            self.older.store(newer, Ordering::Relaxed);
            let note = (second << BITS) | (sends & ((1 << BITS) - 1));
            self.newer.store(note, Ordering::Relaxed);
        }
    }

    pub(super) fn sends(&self) -> u64 {
        self.sends.load(Ordering::Relaxed)
    }

    /// Sends per second over the last `least` seconds or more, usually at most twenty; `None` if the account is younger.
    pub(super) fn pace(&self, least: f64, now: Tick) -> Option<f64> {
        let (sends, now) = (self.sends(), now.seconds_since(Tick::default()));
        let since = |note: u64| {
            let seconds = now - (note >> BITS) as f64;
            let counted = sends.saturating_sub(note & ((1 << BITS) - 1)) as f64;
            (seconds >= least).then(|| counted / seconds)
        };
        let [newer, older] = [&self.newer, &self.older].map(|note| since(note.load(Ordering::Relaxed)));
        newer.or(older)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many sends a second, evenly, from then on for so many seconds.
    fn send(unasked: &Unasked, from: u64, seconds: u64, pace: u64) -> Tick {
        for send in 0..seconds * pace {
            unasked.count(|| Duration::from_secs(from) + Duration::from_secs(1) * send as u32 / pace as u32);
        }
        Tick::default() + Duration::from_secs(from + seconds)
    }

    #[test]
    fn an_even_pace_is_told() {
        for (pace, seconds) in [(20, 12), (20, 60), (20, 3_600), (3, 60), (500, 30)] {
            let unasked = Unasked::default();
            let now = send(&unasked, 0, seconds, pace);
            let told = unasked.pace(10.0, now).unwrap();
            assert!(
                (0.9..=1.1).contains(&(told / pace as f64)),
                "{pace} for {seconds}: {told}"
            );
            assert_eq!(unasked.sends(), pace * seconds);
        }
    }

    /// Of the time that is asked for at least, and otherwise not at all.
    #[test]
    fn a_short_time_tells_no_pace() {
        let unasked = Unasked::default();
        let now = send(&unasked, 0, 5, 20);
        assert_eq!(unasked.pace(10.0, now), None);
        assert!(unasked.pace(1.5, now).is_some_and(|pace| (19.0..=21.0).contains(&pace)));
        assert_eq!(Unasked::default().pace(1.5, Tick::default()), None);
    }

    /// What was long ago does not count.
    #[test]
    fn the_pace_is_that_of_the_last_seconds() {
        let unasked = Unasked::default();
        send(&unasked, 0, 60, 100);
        let now = send(&unasked, 60, 60, 4);
        let told = unasked.pace(10.0, now).unwrap();
        assert!((3.5..=4.5).contains(&told), "{told}");
        // also where the last note is younger than that
        let now = send(&unasked, 120, 7, 4);
        let told = unasked.pace(10.0, now).unwrap();
        assert!((3.5..=4.5).contains(&told), "{told}");
    }
}
