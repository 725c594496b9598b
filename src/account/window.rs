//! Tells a limit that comes back all at once, at the end of a window, from one that comes back bit by bit, and learns how
//! long its windows are. Knows nothing of how much is allowed, nor in which unit a limit is stated.

use std::time::Duration;

use super::tick::Tick;

/// How far apart, in seconds, two sends must be for their answers to show whether the end stays; and how far where resets are
/// told in whole seconds, each of which may be wrong by one.
const APART: f64 = 3.0;
const APART_IN_SECONDS: f64 = 5.0;
/// And how far for them to show how fast the end moves.
const MOVES: f64 = 1.0;
/// The next window's end is told at least this part of the longest reset later.
const NEXT: f64 = 0.75;

/// The windows that the resets of answers show, in the order of their sends.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Windows {
    /// A send of this window: by later ones it shows whether the end stays.
    anchor: Option<Anchor>,
    /// The latest end that was told of this window: what a request spends on its way makes it look earlier.
    end: Tick,
    /// The same of the window before it.
    before: Option<Tick>,
    fixed: bool,
    /// The longest time to an end that was told: no window is shorter.
    longest: f64,
    stated: Option<f64>,
    refill: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Anchor {
    number: u64,
    sent_at: Tick,
    end: Tick,
    remaining: f64,
}

impl Windows {
    /// Reads the answer to a later send than any before. `stated` is a length that the answer itself tells.
    pub(super) fn see(
        &mut self,
        number: u64,
        sent_at: Tick,
        remaining: f64,
        reset: Duration,
        stated: Option<Duration>,
    ) {
        let end = sent_at + reset;
        self.longest = self.longest.max(reset.as_secs_f64());
        self.stated = stated.map(|stated| stated.as_secs_f64()).or(self.stated);
        let new = Anchor {
            number,
            sent_at,
            end,
            remaining,
        };
        let Some(anchor) = self.anchor else {
            (self.anchor, self.end) = (Some(new), end);
            return;
        };
        let later = end.seconds_since(self.end);
        if sent_at >= self.end || later >= NEXT * self.longest {
            // an end that moved on by less was that of no window: what came back first did
            self.fixed &= later >= NEXT * self.longest;
            // a lane that was quiet for longer may have slept through some
            let follows = sent_at.seconds_since(self.end) < self.longest;
            self.before = Some(self.end).filter(|_| follows && self.fixed);
            (self.anchor, self.end) = (Some(new), end);
            return;
        }
        self.end = self.end.max(end);
        let passed = sent_at.seconds_since(anchor.sent_at);
        let (apart, moves) = if reset.subsec_nanos() == 0 {
            (APART_IN_SECONDS, APART_IN_SECONDS)
        } else {
            (APART, MOVES)
        };
        let moved = end.seconds_since(anchor.end);
        if passed >= moves {
            // a bucket is whole later by as long as one start takes to come back, for each
            self.refill = Some(number.saturating_sub(anchor.number) as f64 / moved.max(0.001));
        }
        if passed >= apart {
            let stays = moved.abs() < 0.5 * passed;
            // as less remains, it is later that a bucket is whole again; and before the end, nothing comes back to a window
            self.fixed = stays && (remaining < anchor.remaining || self.fixed && remaining <= anchor.remaining);
            self.anchor = Some(new);
        }
    }

    /// The end of the window that the newest send was in, if the limit is one of windows.
    pub(super) fn end(&self) -> Option<Tick> {
        self.fixed.then_some(self.end)
    }

    /// How fast a bucket that moves its end like this is filled, in starts a second; far too fast for any if the end stays.
    pub(super) fn refill(&self) -> Option<f64> {
        self.refill
    }

    /// How long one is, in seconds: as it is stated, or as one followed another.
    pub(super) fn length(&self) -> Option<f64> {
        let seen = self.before.map(|before| self.end.seconds_since(before));
        self.stated.or(seen).filter(|length| *length > 0.0)
    }

    /// How long one is at least, in seconds.
    pub(super) fn at_least(&self) -> f64 {
        self.length().unwrap_or(self.longest).max(0.001)
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Url;
    use testbed::sim::{Call, Law, Model, Outcome, Provider, Shape};

    use super::*;
    use crate::account::headers::RequestLimit;
    use crate::classify::Seen;

    const SHAPES: [Shape; 2] = [Shape::OpenAi, Shape::Anthropic];

    /// What is known after sends at these seconds, each of which spends up to 30 ms on its way.
    fn after(law: Law, shape: Shape, sends: impl IntoIterator<Item = f64>) -> Windows {
        each(law, shape, sends).last().unwrap()
    }

    /// The same after each of them.
    fn each(law: Law, shape: Shape, sends: impl IntoIterator<Item = f64>) -> impl Iterator<Item = Windows> {
        let mut provider = Provider::new(Model::new(shape).requests(law), 5);
        let mut windows = Windows::default();
        let mut known = Vec::new();
        for ((at, way), number) in sends
            .into_iter()
            .zip([7u64, 30, 0, 22, 13].into_iter().cycle())
            .zip(1..)
        {
            let sent_at = Duration::from_secs_f64(at);
            let reply = provider.arrive(sent_at + Duration::from_millis(way), &Call::new(10));
            if reply.outcome == Outcome::Admitted {
                let url = Url::parse("https://api.example.com/v1/messages").unwrap();
                let received_at = std::time::UNIX_EPOCH;
                let seen = Seen::response(
                    &http::Method::POST,
                    &url,
                    http::StatusCode::OK,
                    &reply.headers,
                    b"",
                    received_at,
                );
                let seen = RequestLimit::of(&seen).unwrap();
                windows.see(
                    number,
                    Tick::default() + sent_at,
                    seen.remaining,
                    seen.reset.unwrap_or_default(),
                    seen.window,
                );
                known.push(windows);
            }
        }
        known.into_iter()
    }

    fn evenly(from: f64, until: f64, interval: f64) -> impl Iterator<Item = f64> {
        let sends = ((until - from) / interval) as u32;
        (0..sends).map(move |send| from + f64::from(send) * interval)
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_window_is_known_by_its_end_and_its_length_by_the_next() {
        for shape in SHAPES {
            let exact = if shape == Shape::OpenAi { 0.05 } else { 1.05 };
            for (amount, length) in [(20, 10), (33, 10), (50, 30), (120, 60), (300, 300)] {
                let interval = length as f64 / amount as f64;
                let (law, length) = (Law::window(amount, s(length)), length as f64);
                let first = after(law, shape, evenly(0.3, 0.9 * length, interval));
                let end = first.end().unwrap().seconds_since(Tick::default());
                assert!((end - length).abs() < exact, "{shape:?}, {law:?}: {end}");
                assert_eq!(first.length(), None);
                let second = after(law, shape, evenly(0.3, 1.9 * length, interval));
                let end = second.end().unwrap().seconds_since(Tick::default());
                assert!((end - 2.0 * length).abs() < exact, "{shape:?}, {law:?}: {end}");
                let learnt = second.length().unwrap();
                assert!((learnt - length).abs() < exact, "{shape:?}, {law:?}: {learnt}");
            }
        }
    }

    /// The gap between two ends is then that of several windows.
    #[test]
    fn a_quiet_lane_does_not_take_many_windows_for_one() {
        let law = Law::window(20, s(10));
        let sends = evenly(0.0, 9.0, 0.5).chain(evenly(43.0, 48.0, 0.5));
        let windows = after(law, Shape::OpenAi, sends);
        assert!(windows.end().is_some() && windows.length().is_none(), "{windows:?}");
        let sends = evenly(0.0, 9.0, 0.5).chain(evenly(43.0, 55.0, 0.5));
        let length = after(law, Shape::OpenAi, sends).length().unwrap();
        assert!((length - 10.0).abs() < 0.05, "{length}");
    }

    #[test]
    fn a_stated_length_needs_no_second_window() {
        let mut windows = Windows::default();
        for at in 0..5 {
            let (sent_at, reset) = (Tick::default() + s(at), s(10 - at));
            windows.see(at, sent_at, 19.0 - at as f64, reset, Some(s(10)));
            assert_eq!(windows.length(), Some(10.0));
        }
        assert_eq!(windows.end(), None, "not yet apart enough");
        windows.see(5, Tick::default() + s(5), 14.0, s(5), None);
        assert_eq!(
            (windows.end(), windows.length()),
            (Some(Tick::default() + s(10)), Some(10.0))
        );
    }

    /// What comes back bit by bit has no end that stays, however it is used.
    #[test]
    fn neither_a_bucket_nor_a_sliding_window_is_taken_for_a_window() {
        let laws = [
            Law::bucket(120, s(60), 10),
            Law::bucket(240, s(60), 20),
            Law::bucket(120, s(60), 60),
            Law::bucket(60, s(60), 300),
            Law::sliding(120, s(60)),
            Law::sliding(20, s(10)),
        ];
        for (law, shape) in laws.into_iter().flat_map(|law| SHAPES.map(|shape| (law, shape))) {
            for interval in [0.25, 0.5, 0.9, 7.0] {
                // from the start, and after a burst that comes back meanwhile
                for quiet in [0.0, 5.0] {
                    let burst = evenly(0.0, 0.6 * quiet, 0.1);
                    for windows in each(law, shape, burst.chain(evenly(quiet, 70.0, interval))) {
                        assert_eq!(
                            windows.end(),
                            None,
                            "{law:?}, {shape:?}, each {interval} s: {windows:?}"
                        );
                    }
                }
            }
        }
    }

    /// Some tell the time at which the oldest is forgotten, which stays until then.
    #[test]
    fn an_end_that_moves_on_by_little_was_none() {
        let mut windows = Windows::default();
        for at in 0..100u64 {
            let now = Tick::default() + Duration::from_millis(500 * at);
            let oldest = Tick::default() + Duration::from_millis(500 * at.saturating_sub(19)) + s(10);
            windows.see(at, now, 19.0 - at.min(19) as f64, oldest.since(now), None);
            assert!(at < 20 || windows.end().is_none(), "{at}: {windows:?}");
        }
        assert_eq!(windows.length(), None);
    }
}
