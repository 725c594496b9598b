//! What a provider's headers show to be left of the limit on requests. Knows no pace and no refusal's meaning.
//!
//! The headers of an answer tell what was left when its request arrived. What was sent since is taken off, by the numbers of
//! the sends, since answers come seconds late and in any order.

use std::time::Duration;

use super::headers::RequestLimit;
use super::tick::Tick;
use super::window::Windows;

/// Credit that is left alone, for starts that are counted elsewhere.
pub(super) const MARGIN: f64 = 2.0;
/// Credit is spent over this many seconds: at once would be a herd.
pub(super) const HORIZON: f64 = 15.0;
/// Headers that never show more than this to remain are no help: a limit without a burst is always as good as empty.
const TELLING: f64 = 4.0;
/// Once an emptying bucket has been waited for, this much more is let run in: somebody else may drink from it too.
const REFILLED: f64 = 6.0;
/// What a window holds may be spent by so many seconds sooner than evenly, so that little of it is left when the window
/// ends; more would be a long pause for everybody, to gain little.
const AHEAD: f64 = 2.0;
/// For so long, in seconds, answers must all look like those of a bucket: a window that is half used up does for a moment.
const STEADY: f64 = 1.0;
/// What differs by no more than this is the same: a way takes its time, and ends are told to the second by some.
const SAME: f64 = 1.05;
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
    /// It is whole again later than a bucket of so many a minute would be: by windows, whose end stays or slides.
    windowed: bool,
    windows: Windows,
    /// Since this send the limit has come back bit by bit, by all that was told.
    steady_since: Option<Tick>,
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
    Whole,
    /// Bit by bit, so many a second: what is there can be spent without running into a wall.
    Steady(f64),
    /// The same by what was told once: reason enough to wait, and too little to spend on.
    Likely(f64),
    /// By windows, of a kind that is not known yet.
    Soon,
    Unknown,
}

/// How the next start may come before its turn at an even pace.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum Lead {
    #[default]
    None,
    /// By so many seconds: of what a window holds, it only comes sooner.
    Early(f64),
    /// Whenever it likes, and it is none of the pace: it takes what would go to waste.
    Beside,
}

impl Newest {
    /// What is left after the sends since.
    fn left(&self, sent: u64) -> f64 {
        self.remaining - sent.saturating_sub(self.number) as f64
    }
}

impl Credit {
    /// Reads an answer. Gives the rate in starts a second, if the limit's unit shows: it is not told, but that it is the usual
    /// one, a minute, shows in how fast the limit comes back. What windows hold is seen without any unit.
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
        if let Some(reset) = seen.reset {
            self.windows.see(number, sent_at, seen.remaining, reset, seen.window);
        }
        let refill = self.refill(sent_at, seen, known);
        self.newest = Some(Newest {
            number,
            sent_at,
            remaining: seen.remaining,
            limit: seen.limit,
            refill,
            whole_at: seen.reset.map(|reset| sent_at + reset),
        });
        match refill {
            Refill::Whole if self.windows.at_least() <= SAME * FARTHEST_RESET => Some(self.of_window()),
            Refill::Steady(_) | Refill::Likely(_) | Refill::Soon => seen.limit.map(|limit| limit / 60.0),
            Refill::Whole | Refill::Unknown => None,
        }
    }

    /// Starts a second that windows allow, and no fewer than that as long as their length is not known.
    fn of_window(&self) -> f64 {
        // the first start of a window is answered with what remains after it
        (self.most_remaining + 1.0) / self.windows.at_least()
    }

    /// The rate in starts a second, where it is beyond doubt: that of windows whose length is known, and which are short enough
    /// to be spread over.
    pub(super) fn certain(&self) -> Option<f64> {
        self.windows.end()?;
        let length = self.windows.length()?;
        (length <= SAME * FARTHEST_RESET).then(|| self.of_window())
    }

    /// How the limit comes back. A bucket is whole again soon after little was used, and later the more was. A window's end
    /// says nothing of what was used; it stays where it is, unless the window slides.
    fn refill(&mut self, sent_at: Tick, seen: &RequestLimit, known: Option<f64>) -> Refill {
        if self.is_windowed() {
            return Refill::Whole;
        }
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
        let usual = known.unwrap_or(per_minute);
        let near = |rate: f64, other: f64| (0.5..=2.0).contains(&(rate / other));
        self.windowed |= seconds >= 2.0 && steady < 0.25 * per_minute;
        if self.windowed || !near(steady, usual) {
            self.steady_since = None;
            return if self.windowed && known.is_none() && near(even, usual) {
                Refill::Soon
            } else {
                Refill::Unknown
            };
        }
        // how its end moves tells it from a window, and it moves by more where somebody else drinks from it too; before that is
        // seen, that it was whole and is soon again
        let whole = seen.remaining >= self.most_remaining || self.steady_since.is_some();
        let moves = self.windows.refill().map_or(whole, |rate| rate <= 2.0 * usual);
        let shown = moves && near(steady, per_minute);
        self.steady_since = self.steady_since.or(Some(sent_at)).filter(|_| shown);
        match self.steady_since {
            Some(since) if sent_at.seconds_since(since) >= STEADY => Refill::Steady(steady),
            _ => Refill::Likely(steady),
        }
    }

    /// What the headers show of a limit that is no more than `per_minute`, if they are believed. A limit configured below the
    /// provider's is the user's own, which no credit lifts.
    #[inline]
    fn trusted(&self, per_minute: f64, now: Tick) -> Option<&Newest> {
        let newest = self.newest.as_ref().filter(|_| now >= self.distrust_until)?;
        let limit = match newest.refill {
            Refill::Whole => Some(60.0 * self.of_window() / SAME),
            _ => newest.limit,
        };
        limit
            .map_or(per_minute.is_infinite(), |limit| limit <= per_minute)
            .then_some(newest)
    }

    /// Is the limit known to come back all at once?
    pub(super) fn is_windowed(&self) -> bool {
        self.windows.end().is_some()
    }

    /// How the next start may come before its turn, of a limit that is no more than `per_minute`.
    #[inline]
    pub(super) fn lead(&self, sent: u64, per_minute: f64, now: Tick) -> Lead {
        match self.trusted(per_minute, now) {
            Some(newest) => match newest.refill {
                Refill::Steady(_) if newest.left(sent) > MARGIN => Lead::Beside,
                Refill::Whole if self.windows.end().is_some_and(|end| now < end) => Lead::Early(AHEAD),
                _ => Lead::None,
            },
            None => Lead::None,
        }
    }

    /// Starts a second that may be added to the pace, of a limit that is no more than `per_minute`.
    pub(super) fn extra(&self, sent: u64, per_minute: f64, now: Tick) -> f64 {
        let Some(newest) = self.trusted(per_minute, now) else {
            return 0.0;
        };
        match newest.refill {
            Refill::Steady(_) => (newest.left(sent) - MARGIN).max(0.0) / HORIZON,
            Refill::Whole => self.sooner(newest.left(sent), now),
            Refill::Likely(_) | Refill::Soon | Refill::Unknown => 0.0,
        }
    }

    /// The same of a window with so much left: what an even pace would not have spent a little before its end. What was let go
    /// by earlier is made up for at twice the pace of the windows: at once would be a herd.
    fn sooner(&self, left: f64, now: Tick) -> f64 {
        let until = self.windows.end().map_or(0.0, |end| end.seconds_since(now));
        if until <= 0.0 {
            return 0.0;
        }
        let rate = self.of_window();
        let even = rate * (until - AHEAD).max(0.0);
        ((left - even) / AHEAD).clamp(0.0, rate)
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
            Refill::Whole => self.windows.end().unwrap_or_default(),
            Refill::Steady(rate) | Refill::Likely(rate) => {
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
