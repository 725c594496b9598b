//! What a provider's answers teach about the start rate of a lane: from its headers, its refusals, and from being left in
//! peace. Knows no queue; what it has learnt is a rate and the earliest next start.

use std::time::Duration;

use super::credit::{Credit, Lead};
use super::headers::RequestLimit;
use super::meter::Meter;
use super::store::Learnt;
use super::tick::Tick;

/// Room left below the rate that is thought to be allowed: two starts that left evenly spaced may arrive closer together,
/// and a provider that keeps no burst refuses the second.
const GUARD_FIRST: f64 = 0.01;
const GUARD_STEP: f64 = 0.015;
const GUARD_BACK: f64 = 0.005;
const GUARD_MOST: f64 = 0.30;
/// From here on, starts a second, no network keeps starts as far apart as they left, and a guard is of no use.
const FAST: f64 = 50.0;
/// How long a lane must have been left in peace before it asks for more, and how far that is stretched when asking was wrong.
const PROBE_FIRST: Duration = Duration::from_secs(10);
const PROBE_LONGEST: Duration = Duration::from_secs(120);
/// After traffic that grew too fast a step up of 5 % takes at least this long: half as much again in a quarter of an hour is
/// what OpenAI allows.
const RAMP_STEP: Duration = Duration::from_secs(108);
/// For how long somebody must have been waiting before the own rate says something of the allowance.
const MEASURED: f64 = 15.0;
/// Refusals that are no further apart than this have a limit between them that was used to the full.
const SATURATED: f64 = 20.0;
/// Once a rate is known, fewer starts than this between two refusals say nothing against it, unless they say that it is
/// far off.
const ENOUGH: f64 = 8.0;
/// From here on a hint is that of a window, not of a bucket's next drop.
const LONG_HINT: Duration = Duration::from_secs(5);
/// After a first refusal the burst before it is thought to be allowed once for each wait that was told, but no more of it
/// than this: the next refusal tells the rate, and a wild guess costs many of them.
const FIRST_GUESS: f64 = 20.0;
/// A guess grows by a tenth this often, in seconds, until the next refusal or until it is none any more.
const GUESS_GROWS: u64 = 2;
const FASTEST: f64 = 100_000.0;
/// A rate that is known is left alone by one that is this near to it.
const NEAR: f64 = 0.05;
/// A rate that headers tell is taken for a misunderstanding below this part of what was let through.
const BELIEVABLE: f64 = 0.3;
/// The pause after refusals that tell none, doubled with each burst of them.
const UNHINTED_FIRST: Duration = Duration::from_millis(500);
const UNHINTED_LONGEST: Duration = Duration::from_secs(30);
/// Where a slow start begins, starts a second, and after how many seconds it has doubled.
const SLOW_START: f64 = 1.0;
const SLOW_START_DOUBLES: f64 = 2.0;

/// How the rate is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Search {
    /// Nothing is slowed until the provider speaks.
    Free,
    /// Slow start, since then.
    Start { since: Tick },
    /// A rate is known, from the configuration, from headers or from refusals; after a single refusal it is a guess that
    /// grows until the next.
    Found { rate: f64, growing: Option<Tick> },
}

/// The rate control of a lane.
#[derive(Debug, Clone)]
pub(crate) struct Rate {
    search: Search,
    configured: Option<f64>,
    guard: f64,
    scale: f64,
    probe_after: Duration,
    clean_since: Tick,
    /// The step up that is being tried: when, and what it multiplied.
    trying: Option<(Tick, Step)>,
    /// Sends so far, and refusals.
    sent: u64,
    epoch: u32,
    /// The last refusal that began an epoch: when the provider was ready again by its own word, and the starts that it had
    /// let through until then.
    refused_at: Option<(Tick, f64)>,
    /// Starts made before the last epoch.
    before: u64,
    /// The first start.
    begun: Option<Tick>,
    /// Headers have told the rate.
    told: bool,
    /// Since when there was always somebody waiting, so that what was sent is what could be.
    backlog: Option<Tick>,
    /// The first refusal told a wait as windows have it.
    long_hint: bool,
    /// The end of the last window that was used up before its time.
    held_until: Tick,
    refusals: u64,
    meter: Meter,
    credit: Credit,
    /// Traffic grew too fast: it goes up again slowly.
    ramping: bool,
    unhinted: u32,
    /// Processes that send as this one does: what it has sent is one part in so many.
    among: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Scale(f64),
    Guard(f64),
    Rate(f64),
}

/// A send as the rate control knows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stamp {
    number: u64,
    epoch: u32,
    at: Tick,
}

impl Rate {
    fn new(search: Search, configured: Option<f64>, now: Tick) -> Self {
        Self {
            search,
            configured,
            guard: first_guard(search),
            scale: 1.0,
            probe_after: PROBE_FIRST,
            clean_since: now,
            trying: None,
            sent: 0,
            epoch: 0,
            refused_at: None,
            before: 0,
            begun: None,
            told: false,
            backlog: None,
            long_hint: false,
            held_until: now,
            refusals: 0,
            meter: Meter::default(),
            credit: Credit::default(),
            ramping: false,
            unhinted: 0,
            among: 1.0,
        }
    }

    /// Of a lane whose rate is configured, in starts a second.
    pub(crate) fn configured(rate: f64, now: Tick) -> Self {
        Self::new(Search::Found { rate, growing: None }, Some(rate), now)
    }

    /// Of a lane that is not slowed before the provider spoke.
    pub(crate) fn free(now: Tick) -> Self {
        Self::new(Search::Free, None, now)
    }

    /// Of a lane that looks for its rate by slow start.
    pub(crate) fn slow_start(now: Tick) -> Self {
        Self::new(Search::Start { since: now }, None, now)
    }

    /// The rate to start at, and `None` if nothing is known that would slow it.
    #[inline]
    pub(crate) fn current(&self, now: Tick) -> Option<f64> {
        if let Search::Start { since } = self.search {
            return Some(SLOW_START * 2f64.powf((now.seconds_since(since) / SLOW_START_DOUBLES).min(30.0)));
        }
        Some(self.learnt()? + self.credit.extra(self.sent, self.per_minute(), now))
    }

    /// The same without what credit adds for a moment, and `None` too while it is still looked for.
    #[inline]
    pub(crate) fn learnt(&self) -> Option<f64> {
        Some(self.base()? * (1.0 - self.guard) * self.scale)
    }

    /// Is nothing slowed, since nothing is known?
    pub(crate) const fn is_free(&self) -> bool {
        matches!(self.search, Search::Free)
    }

    /// What is configured, a minute.
    #[inline]
    fn per_minute(&self) -> f64 {
        self.configured.map_or(f64::INFINITY, |configured| configured * 60.0)
    }

    /// How the next start may come before its turn, by what the provider has said.
    #[inline]
    pub(crate) fn lead(&self, now: Tick) -> Lead {
        self.credit.lead(self.sent, self.per_minute(), now)
    }

    /// Headers say that nothing is left: the earliest time at which something is again.
    #[inline]
    pub(crate) fn not_before(&self, now: Tick) -> Tick {
        self.credit.not_before(self.sent, now)
    }

    /// A start was made.
    #[inline]
    pub(crate) fn start(&mut self, now: Tick) -> Stamp {
        self.begun.get_or_insert(now);
        self.sent += 1;
        self.meter.count(1.0, now);
        Stamp {
            number: self.sent,
            epoch: self.epoch,
            at: now,
        }
    }

    /// A start was made before anything was known, as one of so many: it belongs to the first epoch, whichever it is now.
    pub(crate) fn adopt(&mut self, sent: u64, now: Tick) -> Stamp {
        self.begun.get_or_insert(now);
        self.sent = self.sent.max(sent);
        Stamp {
            number: 0,
            epoch: 0,
            at: now,
        }
    }

    /// An answer came, with what its headers said.
    pub(crate) fn answered(&mut self, stamp: Stamp, seen: Option<RequestLimit>, now: Tick) {
        let Some(seen) = seen else { return };
        self.held(now);
        let told = self.credit.answered(stamp.number, stamp.at, &seen, self.base());
        let untold = match self.search {
            Search::Start { .. } => true,
            Search::Free => seen.remaining < 1.0,
            // headers that had been misread are read better by and by
            Search::Found { rate, .. } => {
                self.told
                    && self
                        .credit
                        .certain()
                        .is_some_and(|certain| (certain / rate - 1.0).abs() > NEAR)
            }
        };
        // what was let through already, and much faster, shows that the limit counts by another unit
        let elapsed = self.begun.map_or(0.0, |begun| now.seconds_since(begun)).max(1.0);
        let believable =
            |rate: &f64| untold && *rate > 0.0 && *rate >= BELIEVABLE * self.among * self.accepted() / elapsed;
        if let Some(rate) = told.filter(believable) {
            self.told = true;
            self.find(rate);
            self.clean_since = now;
        }
    }

    /// A window that is used up holds everybody until it ends, for longer than the meter looks back: what that shows is no rate.
    fn held(&mut self, now: Tick) {
        if self.credit.is_windowed() {
            self.held_until = self.held_until.max(self.not_before(now));
        }
    }

    #[inline]
    fn base(&self) -> Option<f64> {
        match self.search {
            Search::Found { rate, .. } => Some(rate),
            _ => None,
        }
    }

    /// A send was refused for the rate; `hint` is the wait that was told. Gives the pause where none was told.
    pub(crate) fn refused(&mut self, stamp: Stamp, hint: Option<Duration>, now: Tick) -> Option<Duration> {
        self.refusals += 1;
        self.meter.count(-1.0, now);
        self.held(now);
        self.credit.refused(self.sent, now);
        // the others of a burst say nothing new, but that they were not let through either
        if stamp.epoch != self.epoch {
            if let Some((_, accepted)) = &mut self.refused_at {
                *accepted -= 1.0;
            }
        } else {
            self.epoch = self.epoch.wrapping_add(1);
            self.learn_from_refusal(hint, now);
            self.clean_since = now;
            self.refused_at = Some((now + hint.unwrap_or_default(), self.accepted()));
            self.before = self.sent;
            self.unhinted = if hint.is_some() {
                0
            } else {
                self.unhinted.saturating_add(1)
            };
        }
        hint.is_none().then(|| {
            let doubled = UNHINTED_FIRST.saturating_mul(2u32.saturating_pow(self.unhinted.saturating_sub(1)));
            doubled.min(UNHINTED_LONGEST)
        })
    }

    /// The rate where others spend of it too: what headers show to remain is not for one alone, so that no credit is added.
    pub(crate) fn steady(&self, now: Tick) -> Option<f64> {
        match self.search {
            Search::Start { since } => {
                Some(SLOW_START * 2f64.powf((now.seconds_since(since) / SLOW_START_DOUBLES).min(30.0)))
            }
            Search::Free | Search::Found { .. } => self.learnt(),
        }
    }

    /// What is known, as others are told.
    pub(crate) fn told(&self) -> Option<Learnt> {
        match self.search {
            Search::Found { rate, growing } => Some(Learnt {
                base: rate,
                guard: self.guard,
                scale: self.scale,
                growing: growing.is_some(),
            }),
            Search::Free | Search::Start { .. } => None,
        }
    }

    /// Others have learnt this. Whatever is on its way was sent at another rate, and its refusals teach no more.
    pub(crate) fn take_over(&mut self, learnt: Learnt, now: Tick) {
        let lower = self.told().is_none_or(|known| {
            learnt.base * (1.0 - learnt.guard) * learnt.scale < known.base * (1.0 - known.guard) * known.scale
        });
        self.search = Search::Found {
            rate: self.configured.unwrap_or(learnt.base),
            growing: learnt.growing.then_some(now),
        };
        (self.guard, self.scale) = (learnt.guard, learnt.scale);
        self.clean_since = now;
        if lower {
            self.trying = None;
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    /// So many processes send as this one does.
    pub(crate) fn is_one_of(&mut self, processes: u32) {
        self.among = f64::from(processes.max(1));
    }

    /// Starts that were not refused.
    fn accepted(&self) -> f64 {
        self.sent.saturating_sub(self.refusals) as f64
    }

    fn learn_from_refusal(&mut self, hint: Option<Duration>, now: Tick) {
        let ready = now + hint.unwrap_or_default();
        match self.search {
            Search::Free | Search::Start { .. } => {
                let burst = self.among * (self.sent - self.before).max(1) as f64;
                let told = burst.min(FIRST_GUESS) / hint.unwrap_or(UNHINTED_FIRST).as_secs_f64().max(0.05);
                let rate = self.current(now).map_or(told, |going| told.min(going * 0.6));
                self.search = Search::Found {
                    rate,
                    growing: Some(now),
                };
                self.long_hint = hint.is_some_and(|hint| hint >= LONG_HINT);
            }
            Search::Found { rate, growing } if self.configured.is_none() && !self.told => {
                let undone = self.undo_step(now);
                let accepted = self.refused_at.map_or(0.0, |(_, accepted)| accepted);
                let current = rate * (1.0 - self.guard) * self.scale;
                match self.between(ready, growing.is_some(), current) {
                    // no less than what was started: the allowance is met, and two starts came too close together
                    Some(between) if growing.is_some() || between < 0.9 * current => {
                        self.find(between.min(current));
                        // seen over so short a time it is still a guess
                        if growing.is_some() && self.accepted() - accepted < ENOUGH {
                            self.search = Search::Found {
                                rate: between.min(current),
                                growing: Some(now),
                            };
                        }
                    }
                    Some(_) if undone => {}
                    Some(_) => self.step_down(rate, hint, now),
                    None if growing.is_some() => self.find(current * 0.85),
                    None if undone => {}
                    None => self.step_down(rate, hint, now),
                }
            }
            Search::Found { rate, .. } => {
                self.undo_step(now);
                self.step_down(rate, hint, now);
            }
        }
    }

    fn find(&mut self, rate: f64) {
        self.search = Search::Found { rate, growing: None };
        (self.scale, self.guard) = (1.0, first_guard(self.search));
    }

    /// What is let through, if this refusal followed so soon on the last that the limit was used to the full all the while:
    /// at both a bucket is as empty, and a window as full. A first window is used up by a burst, in its own time; it and what
    /// follows are counted from the start.
    fn between(&self, ready: Tick, guessing: bool, current: f64) -> Option<f64> {
        let (before, accepted) = self.refused_at?;
        let since = ready.seconds_since(before);
        if self.backlog.is_none_or(|backlog| backlog > before) {
            return None;
        }
        if self.long_hint && since < SATURATED {
            // where all were refused one may still be let through: nothing at all would be a rate that never grows
            return Some(self.among * self.accepted().max(1.0) / ready.seconds_since(self.begun?).max(1.0));
        }
        let starts = (self.accepted() - accepted).max(1.0);
        let telling = |rate: f64| guessing || starts >= ENOUGH || rate < 0.6 * current;
        Some(self.among * starts / since).filter(|rate| (0.3..=SATURATED).contains(&since) && telling(*rate))
    }

    /// Takes back the step up that a refusal has shown to be one too many.
    fn undo_step(&mut self, now: Tick) -> bool {
        let Some((_, step)) = self.trying.take().filter(|(at, _)| now.seconds_since(*at) < 60.0) else {
            return false;
        };
        match step {
            Step::Scale(before) => self.scale = before,
            Step::Guard(before) => self.guard = before,
            Step::Rate(before) => {
                if let Search::Found { rate, .. } = &mut self.search {
                    *rate = before;
                }
            }
        }
        self.probe_after = (self.probe_after * 2).min(PROBE_LONGEST);
        true
    }

    fn step_down(&mut self, base: f64, hint: Option<Duration>, now: Tick) {
        // with nobody waiting it would tell the demand, and after a hold the hold: not the allowance
        let busy = self
            .backlog
            .is_some_and(|since| now.seconds_since(since.max(self.held_until)) >= MEASURED);
        let measured = self.meter.rate(now).filter(|_| busy).map(|own| own * self.among);
        let current = base * (1.0 - self.guard) * self.scale;
        match measured {
            Some(measured) if measured < 0.8 * current => self.scale = (0.98 * measured / base).clamp(0.02, 1.0),
            _ if hint.is_some_and(|hint| hint.as_secs_f64() <= 2.0 / current) => {
                self.guard = (self.guard + GUARD_STEP).min(GUARD_MOST);
            }
            _ => self.scale = (self.scale * 0.85).max(0.02),
        }
    }

    /// The traffic grew too fast: half of it, and slowly up again.
    pub(crate) fn slow_down(&mut self, now: Tick) {
        let measured = || {
            self.meter
                .rate(now)
                .map(|own| own * self.among)
                .filter(|rate| *rate > 0.0)
        };
        if let (None, Some(going)) = (self.base(), self.current(now).or_else(measured)) {
            self.find(going);
        }
        self.scale = (self.scale * 0.5).max(0.02);
        self.ramping = true;
        self.clean_since = now;
        self.credit.doubt(now);
    }

    /// Time has passed in peace.
    #[inline]
    pub(crate) fn tick(&mut self, waiting: bool, now: Tick) {
        self.backlog = if waiting { self.backlog.or(Some(now)) } else { None };
        let due = match self.search {
            Search::Free | Search::Start { .. } => return,
            Search::Found {
                growing: Some(since), ..
            } => since + Duration::from_secs(GUESS_GROWS),
            Search::Found { growing: None, .. } if self.ramping => self.clean_since + self.probe_after.max(RAMP_STEP),
            Search::Found { growing: None, .. } => self.clean_since + self.probe_after,
        };
        if now >= due {
            self.ask_for_more(now);
        }
    }

    #[cold]
    fn ask_for_more(&mut self, now: Tick) {
        if let Search::Found {
            rate,
            growing: Some(since),
        } = &mut self.search
        {
            let seconds = GUESS_GROWS as f64;
            let steps = (now.seconds_since(*since) / seconds).floor().max(0.0);
            *rate = (*rate * 1.1f64.powf(steps)).min(FASTEST);
            *since = since.plus_seconds(steps * seconds);
            return;
        }
        let Search::Found { rate, .. } = &mut self.search else {
            return;
        };
        if self.trying.take().is_some() {
            self.probe_after = (self.probe_after / 2).max(PROBE_FIRST);
        }
        self.clean_since = now;
        if self.scale < 1.0 {
            self.trying = Some((now, Step::Scale(self.scale)));
            self.scale = (self.scale * 1.05).min(1.0);
            self.ramping &= self.scale < 1.0;
        } else if self.guard > 0.0 {
            self.trying = Some((now, Step::Guard(self.guard)));
            self.guard = (self.guard - GUARD_BACK).max(0.0);
        } else if self.configured.is_none() && self.credit.certain().is_none() {
            self.trying = Some((now, Step::Rate(*rate)));
            *rate *= 1.03;
        }
    }
}

fn first_guard(search: Search) -> f64 {
    match search {
        Search::Found { rate, .. } if rate >= FAST => 0.0,
        _ => GUARD_FIRST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HINT: Duration = Duration::from_secs(7);

    /// No rate is nothing, which would never grow again.
    #[test]
    fn a_lane_whose_every_start_was_refused_is_not_shut() {
        let mut now = Tick::default();
        let mut rate = Rate::free(now);
        let first = rate.start(now);
        rate.refused(first, Some(HINT), now);
        rate.tick(true, now);
        now = now + HINT;
        let second = rate.start(now);
        rate.refused(second, Some(HINT), now);
        let per_second = rate.current(now).unwrap();
        assert!(per_second > 1.0 / 60.0, "{per_second}");
    }

    /// The same where the traffic is said to have grown too fast.
    #[test]
    fn slowing_down_from_nothing_is_not_for_ever() {
        let mut now = Tick::default();
        let mut rate = Rate::free(now);
        let first = rate.adopt(1, now);
        now = now + HINT;
        rate.slow_down(now);
        rate.answered(first, None, now);
        assert!(rate.current(now).is_none_or(|rate| rate > 0.01));
    }

    /// What the answer to this start says, of windows of a minute with 120 in each.
    fn of_a_minute(stamp: Stamp, used: f64) -> RequestLimit {
        let into = stamp.at.seconds_since(Tick::default()) % 60.0;
        RequestLimit {
            limit: Some(120.0),
            remaining: 120.0 - used,
            reset: Some(Duration::from_secs_f64(60.0 - into)),
            window: None,
        }
    }

    /// A lane whose window of a minute was used up in 50 s, at 144 a minute; it was held for the rest.
    fn held_by_its_window() -> (Rate, Tick) {
        let mut now = Tick::default();
        let mut rate = Rate::configured(144.0 / 60.0, now);
        for used in 1..=120u8 {
            rate.tick(true, now);
            let stamp = rate.start(now);
            rate.answered(stamp, Some(of_a_minute(stamp, f64::from(used))), now);
            now = now.plus_seconds(1.0 / 2.4);
        }
        let end = rate.not_before(now);
        assert!((end.seconds_since(Tick::default()) - 60.0).abs() < 1e-6, "{end:?}");
        (rate, end)
    }

    /// One refusal at a window's border said that next to nothing is allowed, since next to nothing had been sent in the hold
    /// before it.
    #[test]
    fn a_hold_is_not_taken_for_the_rate() {
        let (mut rate, end) = held_by_its_window();
        rate.tick(true, end);
        let before = rate.current(end).unwrap();
        let early = rate.start(end);
        rate.refused(early, Some(Duration::from_millis(3)), end);
        let after = rate.current(end).unwrap();
        assert!(after > 0.95 * before, "{before} {after}");
    }

    /// A rate that windows tell is not tried to be passed, and one that was misread is put right.
    #[test]
    fn windows_tell_the_rate_of_a_lane_that_looks_for_one() {
        let mut now = Tick::default();
        let mut rate = Rate::slow_start(now);
        let mut window = (0.0, 0.0);
        // 20 in 10 s, and headers that tell 20 as if it were a minute's
        while now.seconds_since(Tick::default()) < 200.0 {
            rate.tick(true, now);
            let stamp = rate.start(now);
            let at = now.seconds_since(Tick::default());
            if window.0 != (at / 10.0).floor() {
                window = ((at / 10.0).floor(), 0.0);
            }
            window.1 += 1.0;
            assert!(window.1 <= 20.0, "{at}: {rate:?}");
            let seen = RequestLimit {
                limit: Some(20.0),
                remaining: 20.0 - window.1,
                reset: Some(Duration::from_secs_f64(10.0 - at % 10.0)),
                window: None,
            };
            rate.answered(stamp, Some(seen), now);
            now = now
                .plus_seconds(1.0 / rate.current(now).unwrap())
                .max(rate.not_before(now));
        }
        assert!(rate.accepted() >= 19.0 * 20.0, "{}", rate.accepted());
        let found = rate.base().unwrap();
        assert!((1.9..=2.1).contains(&found), "{found}");
    }

    /// Headers that show room where there is none are left alone, for credit at least.
    #[test]
    fn a_refusal_where_there_should_be_room_ends_the_credit() {
        let mut now = Tick::default();
        let mut rate = Rate::configured(2.0, now);
        for used in 1..=10u8 {
            let stamp = rate.start(now);
            rate.answered(stamp, Some(of_a_minute(stamp, f64::from(used))), now);
            now = now.plus_seconds(0.6);
        }
        let even = 2.0 * (1.0 - GUARD_FIRST);
        assert!(rate.current(now).unwrap() > even && rate.lead(now) == Lead::Early(2.0));
        let stamp = rate.start(now);
        rate.refused(stamp, Some(Duration::from_secs(1)), now);
        assert!(rate.current(now).unwrap() <= even && rate.lead(now) == Lead::None);
    }

    /// A target below what the windows allow is the user's own.
    #[test]
    fn windows_do_not_lift_a_target_below_them() {
        let mut now = Tick::default();
        let mut rate = Rate::configured(1.5, now);
        for used in 1..=89u8 {
            let stamp = rate.start(now);
            rate.answered(stamp, Some(of_a_minute(stamp, f64::from(used))), now);
            assert!(rate.current(now).unwrap() <= 1.5 && rate.lead(now) == Lead::None);
            now = now.plus_seconds(1.0 / 1.5);
        }
    }

    /// A day's allowance is no pace, and its end nothing to wait for.
    #[test]
    fn a_day_is_no_window_to_spread_over() {
        let mut now = Tick::default();
        let mut rate = Rate::slow_start(now);
        for used in 1..=200u16 {
            let stamp = rate.start(now);
            let seen = RequestLimit {
                limit: Some(200.0),
                remaining: f64::from(200 - used),
                reset: Some(Duration::from_secs(80_000) - now.since(Tick::default())),
                window: Some(Duration::from_secs(86_400)),
            };
            rate.answered(stamp, Some(seen), now);
            now = now.plus_seconds(0.5);
            assert!(rate.current(now).unwrap() >= 1.0 && rate.not_before(now) <= now);
        }
    }
}
