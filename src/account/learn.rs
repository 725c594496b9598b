//! What a provider's answers teach about the start rate of a lane: from its headers, its refusals, and from being left in
//! peace. Knows no queue; what it has learnt is a rate and the earliest next start.

use std::time::Duration;

use super::headers::RequestLimit;
use super::meter::Meter;
use super::tick::Tick;

/// Room left below the rate that is thought to be allowed: two starts that left evenly spaced may arrive closer together,
/// and a provider that keeps no burst refuses the second.
const GUARD_FIRST: f64 = 0.01;
const GUARD_STEP: f64 = 0.015;
const GUARD_BACK: f64 = 0.005;
const GUARD_MOST: f64 = 0.30;
/// How long a lane must have been left in peace before it asks for more, and how far that is stretched when asking was wrong.
const PROBE_FIRST: Duration = Duration::from_secs(10);
const PROBE_LONGEST: Duration = Duration::from_secs(120);
/// Credit that headers show is spent over this long: at once would be a herd.
const CREDIT_HORIZON: f64 = 15.0;
/// Credit that is left alone, for starts that are counted elsewhere.
const CREDIT_MARGIN: f64 = 2.0;
/// A reset further away than this is no reason to slow down: it is a day's, and half of it may be left.
const FARTHEST_RESET: Duration = Duration::from_secs(60);
/// Headers that showed room where there was none are not believed for this long.
const DISTRUST: Duration = Duration::from_secs(600);
/// The pause after refusals that tell none, doubled with each burst of them.
const UNHINTED_FIRST: Duration = Duration::from_millis(500);
const UNHINTED_LONGEST: Duration = Duration::from_secs(30);
/// Where a slow start begins, starts a second, and how fast it grows.
const SLOW_START: f64 = 0.5;
const SLOW_START_DOUBLES: f64 = 2.0;

/// What is known of the provider's view after the newest answer.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Credit {
    /// The send that the answer was for.
    number: u64,
    remaining: f64,
    limit: Option<f64>,
    /// When the limit is whole again, counted from that send.
    whole_at: Option<Tick>,
    /// It refills steadily, so that what is there can be spent without running into a wall.
    refills: bool,
}

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
    refusals: u64,
    meter: Meter,
    credit: Option<Credit>,
    /// The most that was ever seen to remain: headers that never show more than a few are no help.
    most_remaining: f64,
    /// No credit is believed before this, since a refusal came although there was some.
    distrust_until: Tick,
    unhinted: u32,
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
            guard: GUARD_FIRST,
            scale: 1.0,
            probe_after: PROBE_FIRST,
            clean_since: now,
            trying: None,
            sent: 0,
            epoch: 0,
            refused_at: None,
            before: 0,
            refusals: 0,
            meter: Meter::default(),
            credit: None,
            most_remaining: 0.0,
            distrust_until: Tick::default(),
            unhinted: 0,
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
    pub(crate) fn current(&self, now: Tick) -> Option<f64> {
        let base = match self.search {
            Search::Free => return None,
            Search::Start { since } => {
                return Some(SLOW_START * 2f64.powf((now.seconds_since(since) / SLOW_START_DOUBLES).min(30.0)));
            }
            Search::Found { rate, .. } => rate,
        };
        let spare = self.spare(now);
        Some(base * (1.0 - self.guard) * self.scale + (spare - CREDIT_MARGIN).max(0.0) / CREDIT_HORIZON)
    }

    /// Credit that may be spent faster than the rate.
    fn spare(&self, now: Tick) -> f64 {
        match self.credit {
            Some(credit) if credit.refills && now >= self.distrust_until && self.matches_configuration(&credit) => {
                credit.left(self.sent)
            }
            _ => 0.0,
        }
    }

    /// Is the next start one that the provider has said it has room for beyond the even pace?
    pub(crate) fn is_on_credit(&self, now: Tick) -> bool {
        self.spare(now) > CREDIT_MARGIN
    }

    /// A rate configured below the provider's is the user's own limit, which no credit lifts.
    fn matches_configuration(&self, credit: &Credit) -> bool {
        match (self.configured, credit.limit) {
            (Some(configured), Some(limit)) => configured * 60.0 >= limit * 0.95,
            _ => self.configured.is_none(),
        }
    }

    /// Headers say that nothing is left: nothing starts before the limit is whole again.
    pub(crate) fn not_before(&self, now: Tick) -> Tick {
        match self.credit {
            Some(credit) if self.most_remaining >= 4.0 && credit.left(self.sent) < 1.0 => credit
                .whole_at
                .filter(|at| at.seconds_since(now) <= FARTHEST_RESET.as_secs_f64())
                .unwrap_or_default(),
            _ => Tick::default(),
        }
    }

    /// A start was made.
    pub(crate) fn start(&mut self, now: Tick) -> Stamp {
        self.sent += 1;
        self.meter.count(1.0, now);
        Stamp {
            number: self.sent,
            epoch: self.epoch,
            at: now,
        }
    }

    /// A start was granted and not made.
    pub(crate) fn take_back(&mut self, now: Tick) {
        self.meter.count(-1.0, now);
    }

    /// An answer came, with what its headers said.
    pub(crate) fn answered(&mut self, stamp: Stamp, seen: Option<RequestLimit>, now: Tick) {
        let Some(seen) = seen else { return };
        if self.credit.is_some_and(|credit| credit.number > stamp.number) {
            return;
        }
        self.most_remaining = self.most_remaining.max(seen.remaining);
        let used = seen.limit.map(|limit| (limit - seen.remaining).max(1.0));
        // a bucket is whole again soon after little was used; a window is not before it ends
        let refill = used
            .zip(seen.reset)
            .map(|(used, reset)| used / reset.as_secs_f64().max(0.001));
        let per_window = seen.reset.map(|reset| seen.remaining / reset.as_secs_f64().max(0.001));
        let refills = match (refill, self.base()) {
            (Some(refill), Some(base)) => refill >= base * 0.5,
            (Some(refill), None) => per_window.is_some_and(|per_window| refill > 0.2 && per_window > refill),
            (None, _) => false,
        };
        self.credit = Some(Credit {
            number: stamp.number,
            remaining: seen.remaining,
            limit: seen.limit,
            whole_at: seen.reset.map(|reset| stamp.at + reset),
            refills,
        });
        if let Search::Start { .. } | Search::Free = self.search {
            let near = seen.reset.is_some_and(|reset| reset <= FARTHEST_RESET);
            let told = if refills { refill } else { per_window.filter(|_| near) };
            let slow_start = matches!(self.search, Search::Start { .. });
            if let Some(rate) = told.filter(|rate| *rate > 0.0 && (slow_start || seen.remaining < 1.0)) {
                self.search = Search::Found { rate, growing: None };
                self.clean_since = now;
            }
        }
    }

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
        if self.credit.is_some_and(|credit| credit.left(self.sent) >= 1.0) {
            self.distrust_until = now + DISTRUST;
        }
        // the others of a burst say nothing new
        if stamp.epoch == self.epoch {
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

    /// Starts that were not refused.
    fn accepted(&self) -> f64 {
        self.sent.saturating_sub(self.refusals) as f64
    }

    fn learn_from_refusal(&mut self, hint: Option<Duration>, now: Tick) {
        // at two refusals a bucket is as empty, and a window as full: what was let through between is what it allows
        let ready = now + hint.unwrap_or_default();
        let between = self
            .refused_at
            .map(|(before, accepted)| (self.accepted() - accepted).max(1.0) / ready.seconds_since(before).max(0.05));
        match self.search {
            Search::Free | Search::Start { .. } => {
                let burst = (self.sent - self.before).max(1) as f64;
                let told = burst / hint.unwrap_or(UNHINTED_FIRST).as_secs_f64().max(0.05);
                let rate = self.current(now).map_or(told, |going| told.min(going / 2.0));
                self.search = Search::Found {
                    rate,
                    growing: Some(now),
                };
            }
            Search::Found { growing: Some(_), rate } => {
                let rate = between.map_or(rate * 0.7, |between| between * 0.98);
                self.search = Search::Found { rate, growing: None };
            }
            Search::Found { rate, growing: None } => self.step_down(rate, hint, now),
        }
    }

    fn step_down(&mut self, base: f64, hint: Option<Duration>, now: Tick) {
        let measured = self.meter.rate(now);
        let current = base * (1.0 - self.guard) * self.scale;
        if let Some((at, step)) = self.trying.take()
            && now.seconds_since(at) < 60.0
        {
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
        }
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
        self.scale = (self.scale * 0.5).max(0.02);
        self.clean_since = now;
        self.credit = None;
        self.distrust_until = now + DISTRUST;
    }

    /// Time has passed in peace.
    pub(crate) fn tick(&mut self, now: Tick) {
        if let Search::Found {
            rate,
            growing: Some(since),
        } = &mut self.search
        {
            while now.seconds_since(*since) >= 4.0 {
                *rate *= 1.1;
                *since = *since + Duration::from_secs(4);
            }
            return;
        }
        if self.search == Search::Free || now.since(self.clean_since) < self.probe_after {
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
        } else if self.guard > GUARD_BACK {
            self.trying = Some((now, Step::Guard(self.guard)));
            self.guard = (self.guard - GUARD_BACK).max(0.0);
        } else if self.configured.is_none() {
            self.trying = Some((now, Step::Rate(*rate)));
            *rate *= 1.03;
        }
    }
}

impl Credit {
    /// What is left after the sends since.
    fn left(&self, sent: u64) -> f64 {
        self.remaining - sent.saturating_sub(self.number) as f64
    }
}
