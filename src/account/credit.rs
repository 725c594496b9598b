//! What a provider's headers show to be left of the limit on requests. Knows no pace and no refusal's meaning.
//!
//! The headers of an answer tell what was left when its request arrived. What was sent since is taken off, by the numbers of
//! the sends, since answers come seconds late and in any order.

use std::time::Duration;

use super::headers::RequestLimit;
use super::tick::Tick;

/// Credit that is left alone, for starts that are counted elsewhere.
pub(super) const MARGIN: f64 = 2.0;
/// Credit is spent over this many seconds: at once would be a herd.
pub(super) const HORIZON: f64 = 15.0;
/// Headers that never show more than this to remain are no help: a limit without a burst is always as good as empty.
const TELLING: f64 = 4.0;
/// Once an emptying bucket has been waited for, this much more is let run in: somebody else may drink from it too.
const REFILLED: f64 = 6.0;
/// How far apart, in seconds, two answers must be to show whether a window slides.
const ANCHORED: f64 = 3.0;
/// A reset further away than this is no reason to slow down: it is a day's, and half of it may be left.
const FARTHEST_RESET: f64 = 60.0;
/// Headers that showed room where there was none are not believed for this long.
const DISTRUST: Duration = Duration::from_secs(600);

/// What is known of the provider's view.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Credit {
    newest: Option<Newest>,
    /// The most that was ever seen to remain.
    most_remaining: f64,
    /// The limit comes back by windows, and not bit by bit.
    windowed: bool,
    /// A send and the end of the window that its answer told: by later ones it shows whether that end stays.
    anchor: Option<(Tick, Tick)>,
    stays: bool,
    distrust_until: Tick,
}

/// What the newest send's answer said.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Newest {
    number: u64,
    sent_at: Tick,
    remaining: f64,
    limit: Option<f64>,
    refill: Refill,
    /// When the limit is whole again, counted from that send.
    whole_at: Option<Tick>,
}

/// How a limit comes back.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Refill {
    /// All at once, at the end of its window.
    Whole(Tick),
    /// Bit by bit, so many a second: what is there can be spent without running into a wall.
    Steady(f64),
    /// By windows, of a kind that is not known yet.
    Soon,
    Unknown,
}

impl Newest {
    /// Is the provider's limit known to be no more than this?
    fn is_within(&self, per_minute: f64) -> bool {
        self.limit.map_or(per_minute.is_infinite(), |limit| limit <= per_minute)
    }

    /// What is left after the sends since.
    fn left(&self, sent: u64) -> f64 {
        self.remaining - sent.saturating_sub(self.number) as f64
    }
}

impl Credit {
    /// Reads an answer. Gives the rate in starts a second, if the limit's unit shows: it is not told, but that it is the usual
    /// one, a minute, shows in how fast the limit comes back.
    pub(super) fn answered(
        &mut self,
        number: u64,
        sent_at: Tick,
        seen: &RequestLimit,
        known: Option<f64>,
    ) -> Option<f64> {
        if self.newest.is_some_and(|newest| newest.number > number) {
            return None;
        }
        self.most_remaining = self.most_remaining.max(seen.remaining);
        let refill = self.refill(sent_at, seen, known);
        self.newest = Some(Newest {
            number,
            sent_at,
            remaining: seen.remaining,
            limit: seen.limit,
            refill,
            whole_at: seen.reset.map(|reset| sent_at + reset),
        });
        seen.limit
            .filter(|_| refill != Refill::Unknown)
            .map(|limit| limit / 60.0)
    }

    /// How the limit comes back. A bucket is whole again soon after little was used, and later the more was. A window's end
    /// says nothing of what was used; it stays where it is, unless the window slides.
    fn refill(&mut self, sent_at: Tick, seen: &RequestLimit, known: Option<f64>) -> Refill {
        let (Some(reset), Some(limit)) = (seen.reset, seen.limit) else {
            return Refill::Unknown;
        };
        // a bucket may hold less than is allowed in a minute
        let whole = if self.most_remaining >= 0.8 * limit {
            limit
        } else {
            self.most_remaining + 1.0
        };
        let (seconds, per_minute) = (reset.as_secs_f64().max(0.001), limit / 60.0);
        let (steady, even) = ((whole - seen.remaining).max(1.0) / seconds, seen.remaining / seconds);
        let agrees = |rate: f64| (0.5..=2.0).contains(&(rate / known.unwrap_or(per_minute)));
        let whole_at = sent_at + reset;
        let (anchor, end) = *self.anchor.get_or_insert((sent_at, whole_at));
        let passed = sent_at.seconds_since(anchor);
        if passed >= ANCHORED {
            self.stays = whole_at.seconds_since(end).abs() < 0.3 * passed;
            self.anchor = Some((sent_at, whole_at));
        }
        self.windowed |= seconds >= 2.0 && steady < 0.25 * per_minute;
        if !self.windowed && agrees(steady) {
            Refill::Steady(steady)
        } else if self.windowed && self.stays {
            Refill::Whole(whole_at)
        } else if self.windowed && known.is_none() && agrees(even) {
            Refill::Soon
        } else {
            Refill::Unknown
        }
    }

    /// What may be spent faster than the pace, of a limit that is no more than `per_minute`.
    #[inline]
    pub(super) fn spare(&self, sent: u64, per_minute: f64, now: Tick) -> f64 {
        match &self.newest {
            Some(newest) if now >= self.distrust_until && newest.is_within(per_minute) => match newest.refill {
                Refill::Steady(_) => newest.left(sent),
                Refill::Whole(_) | Refill::Soon | Refill::Unknown => 0.0,
            },
            _ => 0.0,
        }
    }

    /// If nothing is left: the earliest time at which something is again.
    #[inline]
    pub(super) fn not_before(&self, sent: u64, now: Tick) -> Tick {
        let Some(newest) = self.newest.as_ref().filter(|_| self.most_remaining >= TELLING) else {
            return Tick::default();
        };
        let left = newest.left(sent);
        if left >= 1.0 {
            return Tick::default();
        }
        let at = match newest.refill {
            Refill::Whole(at) => at,
            Refill::Steady(rate) => {
                let filled = newest.sent_at.plus_seconds((1.0 + MARGIN - left + REFILLED) / rate);
                newest.whole_at.map_or(filled, |whole| whole.min(filled))
            }
            Refill::Soon | Refill::Unknown => return Tick::default(),
        };
        if at.seconds_since(now) <= FARTHEST_RESET {
            at
        } else {
            Tick::default()
        }
    }

    /// A send was refused: if there should have been room, the headers are not to be believed.
    pub(super) fn refused(&mut self, sent: u64, now: Tick) {
        if self.newest.is_some_and(|newest| newest.left(sent) >= 1.0) {
            self.distrust_until = now + DISTRUST;
        }
    }

    /// What is left is not to be spent for a while, whatever the headers show.
    pub(super) fn doubt(&mut self, now: Tick) {
        self.newest = None;
        self.distrust_until = now + DISTRUST;
    }
}
