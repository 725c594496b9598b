//! Learns the start rate of a lane from headers, from refusals, and from times without any. Knows no queue; what it learns
//! is a rate and the earliest next start.
//!
//! A rate comes from evidence only: sends that were let through while calls waited. A refusal with nothing let through since
//! the one before it measures no allowance, so an incident is undone: what was known before it is restored.

use std::time::Duration;

use super::credit::{Credit, Lead};
use super::headers::RequestLimit;
use super::meter::Meter;
use super::relevance::Relevance;
use super::store::Learnt;
use super::tick::Tick;

/// The margin below the rate that is taken as allowed: two starts that leave evenly spaced may arrive closer together, and a
/// provider that allows no burst refuses the second.
const GUARD_FIRST: f64 = 0.01;
const GUARD_STEP: f64 = 0.015;
const GUARD_BACK: f64 = 0.005;
const GUARD_MOST: f64 = 0.30;
/// From this rate on, in starts per second, no network keeps the spacing of starts, and a margin is of no use.
const FAST: f64 = 50.0;
/// How long a lane must go without a refusal before it tries a higher rate, and how far that time grows when trying was wrong.
const PROBE_FIRST: Duration = Duration::from_secs(10);
const PROBE_LONGEST: Duration = Duration::from_secs(120);
/// The shortest time for a step up of 5 % after traffic that grew too fast: OpenAI allows growth by a half in a quarter of an
/// hour.
const RAMP_STEP: Duration = Duration::from_secs(108);
/// How long calls must have been waiting before the lane's own rate measures the allowance, in seconds.
const MEASURED: f64 = 15.0;
/// Between refusals that are no further apart than this, in seconds, the limit was used to the full.
const SATURATED: f64 = 20.0;
/// Once a rate is known, fewer starts than this between two refusals are no evidence against it, unless they show that it is
/// far off.
const ENOUGH: f64 = 8.0;
/// From this length on, a stated delay is the end of a window, not the next token of a bucket.
const LONG_HINT: Duration = Duration::from_secs(5);
/// After a first refusal, the burst before it is taken as what is allowed in each stated delay, but no more of it than this:
/// the next refusal shows the rate, and a guess that is far too high costs many refusals.
const FIRST_GUESS: f64 = 20.0;
/// A guess grows by a tenth once in this many seconds, until the next refusal.
const GUESS_GROWS: f64 = 2.0;
/// Below the pace before the refusal, less a margin, it doubles once in this many seconds instead: a pace that was let
/// through for some time is better evidence than one burst.
const GUESS_DOUBLES: f64 = 1.0;
/// The pace over [`GOOD`] seconds without a refusal is a good pace, and [`GOOD_PART`] of it is the lowest result of a guess
/// or a step down. The pace over [`SEEN`] seconds is a target for growth only.
const GOOD: f64 = 10.0;
const SEEN: f64 = 1.5;
const GOOD_PART: f64 = 0.92;
/// The target without such a pace, in starts per second.
const LIKELY: f64 = 1.0;
/// A burst of fewer starts than this, none of which was let through, shows no rate.
const TELLING: u64 = 3;
/// The third refusal in a row with nothing let through between them shows an incident and not a limit. The second is
/// ordinary where the pace is near the limit.
const INCIDENT: u32 = 3;
/// Below [`FAR`] of the pace that was refused last, a rate grows by [`FAR_GROWS`] once in [`FAR_STEP`] seconds, while nothing
/// is refused.
const FAR: f64 = 0.5;
const FAR_GROWS: f64 = 1.5;
const FAR_STEP: f64 = 2.0;
/// How often the steps up of a known rate double while they are not refused.
const STEPS_DOUBLE: u32 = 1;
const FASTEST: f64 = 100_000.0;
/// A rate that is known is left alone by one that is this near to it.
const NEAR: f64 = 0.05;
/// A rate read from headers that is below this fraction of what was let through is taken as misread.
const BELIEVABLE: f64 = 0.3;
/// The pause after refusals that state no delay, doubled with each burst of them.
const UNHINTED_FIRST: Duration = Duration::from_millis(500);
const UNHINTED_LONGEST: Duration = Duration::from_secs(5);
/// The lowest rate learned from them: one start in the longest such pause.
const UNHINTED_LEAST: f64 = 0.2;
/// Nor do they lower the rate below [`UNHINTED_PART`] of the best recent pace, whose half-life is [`BEST_FADES`] seconds:
/// otherwise a provider that refuses at random would slow a lane more and more.
const UNHINTED_PART: f64 = 0.8;
const BEST_FADES: f64 = 60.0;
/// A few of them lower the rate to no less than this part of the current pace.
const FEW_PART: f64 = 0.7;
/// Where a slow start begins, starts a second, and after how many seconds it has doubled.
const SLOW_START: f64 = 1.0;
const SLOW_START_DOUBLES: f64 = 2.0;

/// The stage of the search for the rate.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Search {
    /// Nothing is slowed until the provider mentions a limit.
    Free,
    /// Slow start, since then.
    Start { since: Tick },
    /// A rate is known, from the configuration, from headers or from refusals; after a single refusal it is a guess that
    /// grows until the next.
    Found { rate: f64, growing: Option<Growth> },
}

impl Known {
    /// At the start.
    const fn of(search: Search) -> Self {
        Self {
            search,
            guard: 0.0,
            scale: 1.0,
            probe_after: PROBE_FIRST,
            told: false,
            ramping: false,
            refused_at: None,
        }
    }
}

/// The pace before a refusal, over times without one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Pace {
    /// Over [`GOOD`] seconds: likely to be allowed.
    good: Option<f64>,
    /// Over [`SEEN`] seconds: worth trying.
    seen: Option<f64>,
}

/// How a guess grows.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Growth {
    since: Tick,
    /// Below this rate it doubles.
    target: f64,
}

/// What is known of the rate, as it can be restored after an incident.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Known {
    search: Search,
    guard: f64,
    scale: f64,
    probe_after: Duration,
    told: bool,
    ramping: bool,
    refused_at: Option<(Tick, f64)>,
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
    /// The rate is from headers.
    told: bool,
    /// Since when calls have been waiting all the time, so that no more could have been sent.
    backlog: Option<Tick>,
    /// The first refusal stated a delay as long as a window's.
    long_hint: bool,
    /// The end of the last window that was used up before its time.
    held_until: Tick,
    refusals: u64,
    meter: Meter,
    credit: Credit,
    /// The traffic had grown too fast, and grows again slowly.
    ramping: bool,
    unhinted: u32,
    /// Refusals in a row with nothing let through between them, and what was known before the first of them.
    barren: u32,
    before_row: Option<Known>,
    pace_before_row: Pace,
    /// When the provider was ready again after the last refusal, by its own statement.
    last_refusal: Option<Tick>,
    /// The pace of a quiet account, which was not asked, before its first refusal.
    unasked_pace: Option<Pace>,
    /// Whether refusals depend on the pace.
    relevance: Relevance<Known>,
    /// The best pace that was let through, faded since then.
    best: (Tick, f64),
    /// A send was let through since the last refusal.
    proven: bool,
    /// The pace that was refused last. Far below it a rate grows fast, near it carefully.
    wall: Option<f64>,
    /// Steps up in a row that were not refused.
    steps: u32,
    /// The number of processes that send as this one does; what it has sent is its share of that.
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

impl Stamp {
    /// When it was made.
    #[inline]
    pub(crate) const fn at(self) -> Tick {
        self.at
    }
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
            barren: 0,
            before_row: None,
            pace_before_row: Pace::default(),
            last_refusal: None,
            unasked_pace: None,
            relevance: Relevance::new(Known::of(search)),
            best: (now, 0.0),
            proven: false,
            wall: None,
            steps: 0,
            among: 1.0,
        }
    }

    /// The control of a lane whose rate is configured, in starts per second.
    pub(crate) fn configured(rate: f64, now: Tick) -> Self {
        Self::new(Search::Found { rate, growing: None }, Some(rate), now)
    }

    /// The control of a lane that is not slowed before the provider mentions a limit.
    pub(crate) fn free(now: Tick) -> Self {
        Self::new(Search::Free, None, now)
    }

    /// The control of a lane that finds its rate by slow start.
    pub(crate) fn slow_start(now: Tick) -> Self {
        Self::new(Search::Start { since: now }, None, now)
    }

    /// The rate of starts per second now; `None` if nothing slows it.
    #[inline]
    pub(crate) fn current(&self, now: Tick) -> Option<f64> {
        if let Search::Start { since } = self.search {
            return Some(SLOW_START * 2f64.powf((now.seconds_since(since) / SLOW_START_DOUBLES).min(30.0)));
        }
        Some(self.learnt()? + self.credit.extra(self.sent, self.per_minute(), now))
    }

    /// The same without what credit adds for a moment; also `None` during slow start.
    #[inline]
    pub(crate) fn learnt(&self) -> Option<f64> {
        Some(self.base()? * (1.0 - self.guard) * self.scale)
    }

    /// Returns `true` if nothing is known that slows starts.
    pub(crate) const fn is_free(&self) -> bool {
        matches!(self.search, Search::Free)
    }

    /// The configured rate, per minute.
    #[inline]
    fn per_minute(&self) -> f64 {
        self.configured.map_or(f64::INFINITY, |configured| configured * 60.0)
    }

    /// How far the next start may come before its turn, by the provider's headers.
    #[inline]
    pub(crate) fn lead(&self, now: Tick) -> Lead {
        self.credit.lead(self.sent, self.per_minute(), now)
    }

    /// If headers say that nothing is left: the earliest time at which something is.
    #[inline]
    pub(crate) fn not_before(&self, now: Tick) -> Tick {
        self.credit.not_before(self.sent, now)
    }

    /// Records a start.
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

    /// Records a start for which the quiet account was not asked, one of `sent`. It belongs to the first epoch, whichever it is
    /// now.
    pub(crate) fn adopt(&mut self, sent: u64, pace: impl Fn(f64) -> Option<f64>, at: Tick) -> Stamp {
        self.unasked_pace = self.unasked_pace.or(Some(Pace {
            good: pace(GOOD),
            seen: pace(SEEN),
        }));
        self.begun.get_or_insert(at);
        self.sent = self.sent.max(sent);
        Stamp {
            number: 0,
            epoch: 0,
            at,
        }
    }

    /// Records a response, with what its headers say about the limit.
    pub(crate) fn answered(&mut self, stamp: Stamp, seen: Option<RequestLimit>, now: Tick) {
        let Some(seen) = seen else { return };
        self.held(now);
        let told = self.credit.answered(stamp.number, stamp.at, &seen, self.base());
        let untold = match self.search {
            Search::Start { .. } => true,
            Search::Free => seen.remaining < 1.0,
            // headers that were misread at first are read better over time
            Search::Found { rate, .. } => {
                self.told
                    && self
                        .credit
                        .certain()
                        .is_some_and(|certain| (certain / rate - 1.0).abs() > NEAR)
            }
        };
        // a much faster pace that was let through shows that the limit counts in another unit
        let elapsed = self.begun.map_or(0.0, |begun| now.seconds_since(begun)).max(1.0);
        let believable =
            |rate: &f64| untold && *rate > 0.0 && *rate >= BELIEVABLE * self.among * self.accepted() / elapsed;
        if let Some(rate) = told.filter(believable) {
            self.told = true;
            self.find(rate);
            self.clean_since = now;
        }
    }

    /// A window that is used up holds all calls until it ends, for longer than the meter looks back, so the meter shows no rate.
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

    /// Returns `true` if the rate is configured or from headers. What was learned from refusals may be wrong, and no call is
    /// refused for it.
    #[inline]
    pub(crate) const fn is_certain(&self) -> bool {
        self.configured.is_some() || self.told
    }

    /// Records that a send got through.
    #[inline]
    pub(crate) fn succeeded(&mut self, stamp: Stamp) {
        if stamp.epoch == self.epoch {
            self.proven = true;
            self.before_row = None;
        }
        self.relevance.count(stamp.number, false);
    }

    /// Records a refusal for the rate. `hint` is the stated delay; `barren` means that nothing was let through since the
    /// refusal before. Returns the pause to make where no delay was stated.
    pub(crate) fn refused(
        &mut self,
        stamp: Stamp,
        hint: Option<Duration>,
        barren: bool,
        now: Tick,
    ) -> Option<Duration> {
        let pace = self.pace_before(now);
        self.refusals += 1;
        self.relevance.count(stamp.number, true);
        self.meter.count(-1.0, now);
        self.held(now);
        self.credit.refused(self.sent, now);
        // the other refusals of a burst only add that these sends were not let through
        if stamp.epoch != self.epoch {
            if let Some((_, accepted)) = &mut self.refused_at {
                *accepted -= 1.0;
            }
        } else {
            self.epoch = self.epoch.wrapping_add(1);
            self.proven = false;
            if barren && self.barren > 0 {
                self.barren = self.barren.saturating_add(1);
                if self.barren == INCIDENT {
                    self.outage(now);
                } else if self.barren < INCIDENT {
                    self.learn_from_refusal(hint, self.pace_before_row, now);
                }
            } else {
                if let Some(known) = self.relevance.judge(self.sent, self.learnt(), self.known()) {
                    self.restore(known, now);
                }
                self.barren = 1;
                self.before_row = Some(self.known());
                self.pace_before_row = pace;
                if !self.relevance.is_none() {
                    self.learn_from_refusal(hint, pace, now);
                }
            }
            if !self.relevance.is_none() {
                self.clean_since = now;
            }
            self.refused_at = Some((now + hint.unwrap_or_default(), self.accepted()));
            self.before = self.sent;
            self.unhinted = if hint.is_some() {
                0
            } else if !barren {
                1
            } else {
                self.unhinted.saturating_add(1)
            };
        }
        self.last_refusal = Some(now + hint.unwrap_or_default());
        (hint.is_none() && !self.relevance.is_none()).then(|| {
            let doubled = UNHINTED_FIRST.saturating_mul(2u32.saturating_pow(self.unhinted.saturating_sub(1)));
            doubled.min(UNHINTED_LONGEST)
        })
    }

    /// The breaker limits starts, so their pace does not measure the allowance.
    pub(crate) fn interrupted(&mut self, now: Tick) {
        self.held_until = self.held_until.max(now);
    }

    /// Nothing gets through at all, which measures no allowance: restores what was known before.
    pub(crate) fn outage(&mut self, now: Tick) {
        if let Some(known) = self.before_row.take() {
            self.restore(known, now);
        }
    }

    fn known(&self) -> Known {
        Known {
            search: self.search,
            guard: self.guard,
            scale: self.scale,
            probe_after: self.probe_after,
            told: self.told,
            ramping: self.ramping,
            refused_at: self.refused_at,
        }
    }

    fn restore(&mut self, known: Known, now: Tick) {
        self.search = match known.search {
            Search::Found {
                rate,
                growing: Some(growth),
            } => Search::Found {
                rate,
                growing: Some(Growth { since: now, ..growth }),
            },
            search => search,
        };
        (self.guard, self.scale, self.probe_after) = (known.guard, known.scale, known.probe_after);
        (self.told, self.ramping, self.refused_at) = (known.told, known.ramping, known.refused_at);
        (self.trying, self.clean_since, self.unhinted) = (None, now, 0);
    }

    /// The pace of the last seconds, if nothing was refused in them.
    fn pace_before(&self, now: Tick) -> Pace {
        let peace = self
            .last_refusal
            .map_or(f64::INFINITY, |refused| now.seconds_since(refused));
        match self.unasked_pace {
            Some(pace) if self.refusals == 0 => pace,
            _ => {
                let over = |least| self.meter.rate_over(least, now).filter(|_| peace >= least);
                Pace {
                    good: over(GOOD).map(|own| own * self.among),
                    seen: over(SEEN).map(|own| own * self.among),
                }
            }
        }
    }

    /// The rate where other processes share it. What headers show to remain is not for one process alone, so no credit is
    /// added.
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

    /// Takes over what other processes have learned. Sends in flight were sent at another rate, so nothing is learned from their
    /// refusals.
    pub(crate) fn take_over(&mut self, learnt: Learnt, now: Tick) {
        let lower = self.told().is_none_or(|known| {
            learnt.base * (1.0 - learnt.guard) * learnt.scale < known.base * (1.0 - known.guard) * known.scale
        });
        self.search = Search::Found {
            rate: self.configured.unwrap_or(learnt.base),
            growing: learnt.growing.then_some(Growth {
                since: now,
                target: 0.0,
            }),
        };
        (self.guard, self.scale) = (learnt.guard, learnt.scale);
        (self.clean_since, self.proven) = (now, true);
        if lower {
            self.trying = None;
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    /// Sets the number of processes that send as this one does.
    pub(crate) fn is_one_of(&mut self, processes: u32) {
        self.among = f64::from(processes.max(1));
    }

    /// Starts that were not refused.
    fn accepted(&self) -> f64 {
        self.sent.saturating_sub(self.refusals) as f64
    }

    fn learn_from_refusal(&mut self, hint: Option<Duration>, pace: Pace, now: Tick) {
        let ready = now + hint.unwrap_or_default();
        let [mut least, likely] = [pace.good, pace.seen].map(|pace| pace.map_or(0.0, |pace| GOOD_PART * pace));
        if hint.is_none() {
            least = least.max(UNHINTED_LEAST).max(UNHINTED_PART * self.best_accepted(now));
        }
        match self.search {
            Search::Free | Search::Start { .. } => {
                let burst = self.sent - self.before;
                // a pace of fewer is none: an account may have been idle for long before its first start
                let seen = pace.seen.filter(|seen| seen * SEEN >= TELLING as f64);
                if burst < TELLING && seen.is_none() {
                    return;
                }
                let told = self.among * (burst.max(1) as f64).min(FIRST_GUESS)
                    / hint.unwrap_or(UNHINTED_FIRST).as_secs_f64().max(0.05);
                let rate = self.current(now).map_or(told, |going| told.min(going * 0.6));
                self.guess(rate.max(least), least.max(likely).max(LIKELY), now);
                self.long_hint = hint.is_some_and(|hint| hint >= LONG_HINT);
            }
            // refused again before anything was let through: the target is as likely as before
            Search::Found {
                rate,
                growing: Some(growth),
            } if self.barren > 1 && self.configured.is_none() && !self.told => {
                self.guess((rate * 0.85).max(least), growth.target, now);
            }
            Search::Found { rate, growing } if self.configured.is_none() && !self.told => {
                let undone = self.undo_step(now);
                let accepted = self.refused_at.map_or(0.0, |(_, accepted)| accepted);
                let current = rate * (1.0 - self.guard) * self.scale;
                match self.between(ready, growing.is_some(), current) {
                    // as much as was started: the rate is right, and two starts came too close together
                    Some(between) if growing.is_some() || between < 0.9 * current => {
                        let few = self.accepted() - accepted < ENOUGH;
                        // without a stated delay, a few refusals show little about the allowance
                        let least = if few && hint.is_none() {
                            least.max(FEW_PART * current)
                        } else {
                            least
                        };
                        let found = between.max(least).min(current);
                        self.wall = growing.is_none().then_some(current);
                        self.find(found);
                        // over so short a time it is still a guess
                        if growing.is_some() && few {
                            self.guess(found, least, now);
                        }
                    }
                    Some(_) if undone => {}
                    Some(_) => self.step_down(rate, least, hint, now),
                    None if growing.is_some() => self.find((current * 0.85).max(least)),
                    None if undone => {}
                    None => self.step_down(rate, least, hint, now),
                }
            }
            Search::Found { rate, .. } => {
                self.undo_step(now);
                self.step_down(rate, least, hint, now);
            }
        }
    }

    /// The best recent pace that was let through; it fades.
    fn best_accepted(&mut self, now: Tick) -> f64 {
        let accepted = self.meter.rate(now).map_or(0.0, |own| own * self.among);
        let (at, best) = self.best;
        let faded = best * 0.5f64.powf(now.seconds_since(at) / BEST_FADES);
        self.best = (now, accepted.max(faded));
        self.best.1
    }

    /// Takes `rate` as a guess that doubles up to `target`.
    fn guess(&mut self, rate: f64, target: f64, now: Tick) {
        self.search = Search::Found {
            rate,
            growing: Some(Growth { since: now, target }),
        };
    }

    fn find(&mut self, rate: f64) {
        self.search = Search::Found { rate, growing: None };
        (self.scale, self.guard) = (1.0, first_guard(self.search));
    }

    /// The rate that was let through between this refusal and the last, if they are so close that the limit was used to the
    /// full: at both, a bucket is equally empty and a window equally full. A first window is used up by a burst; it and what
    /// follows are counted from the first start.
    fn between(&self, ready: Tick, guessing: bool, current: f64) -> Option<f64> {
        let (before, accepted) = self.refused_at?;
        let since = ready.seconds_since(before);
        if self.backlog.is_none_or(|backlog| backlog > before) {
            return None;
        }
        if self.long_hint && since < SATURATED {
            // one at least, even where all were refused: a rate of zero would never grow
            return Some(self.among * self.accepted().max(1.0) / ready.seconds_since(self.begun?).max(1.0));
        }
        let starts = (self.accepted() - accepted).max(1.0);
        let telling = |rate: f64| guessing || starts >= ENOUGH || rate < 0.6 * current;
        Some(self.among * starts / since).filter(|rate| (0.3..=SATURATED).contains(&since) && telling(*rate))
    }

    /// Takes back the step up that a refusal has shown to be too large.
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
        self.steps = 0;
        true
    }

    fn step_down(&mut self, base: f64, least: f64, hint: Option<Duration>, now: Tick) {
        self.wall = Some(base * (1.0 - self.guard) * self.scale);
        // without waiting calls it would measure the demand, and after a hold the hold: not the allowance
        let busy = self
            .backlog
            .is_some_and(|since| now.seconds_since(since.max(self.held_until)) >= MEASURED);
        let measured = self.meter.rate(now).filter(|_| busy).map(|own| own * self.among);
        let current = base * (1.0 - self.guard) * self.scale;
        match measured {
            Some(measured) if measured < 0.8 * current => {
                self.scale = (0.98 * measured.max(least) / base).clamp(0.02, 1.0);
            }
            _ if hint.is_some_and(|hint| hint.as_secs_f64() <= 2.0 / current) => {
                self.guard = (self.guard + GUARD_STEP).min(GUARD_MOST);
            }
            _ => self.scale = (self.scale * 0.85).max(least / base).clamp(0.02, 1.0),
        }
    }

    /// The traffic grew too fast: halves it, and lets it grow slowly.
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

    /// Lets time pass.
    #[inline]
    pub(crate) fn tick(&mut self, waiting: bool, now: Tick) {
        self.backlog = if waiting { self.backlog.or(Some(now)) } else { None };
        let due = match self.search {
            Search::Free | Search::Start { .. } => return,
            Search::Found {
                rate,
                growing: Some(growth),
            } => growth.since.plus_seconds(growth.step(rate).1),
            Search::Found { growing: None, .. } if self.ramping => self.clean_since + self.probe_after.max(RAMP_STEP),
            Search::Found { growing: None, .. } if self.grows_fast() => self.clean_since.plus_seconds(FAR_STEP),
            Search::Found { growing: None, .. } => self.clean_since + self.probe_after,
        };
        if now >= due {
            self.ask_for_more(now);
        }
    }

    /// Returns `true` if the rate is so far below what was refused that fast growth risks little, or if refusals do not
    /// depend on it.
    #[inline]
    fn grows_fast(&self) -> bool {
        match (self.wall, self.learnt()) {
            (Some(wall), Some(pace)) => pace < FAR * wall || self.relevance.is_none(),
            (None, Some(_)) => self.relevance.is_none(),
            _ => false,
        }
    }

    #[cold]
    fn ask_for_more(&mut self, now: Tick) {
        if let Search::Found {
            rate,
            growing: Some(growth),
        } = &mut self.search
        {
            if !self.proven {
                growth.since = now;
                return;
            }
            loop {
                let (factor, seconds) = growth.step(*rate);
                if now < growth.since.plus_seconds(seconds) || *rate >= FASTEST {
                    growth.since = if *rate >= FASTEST { now } else { growth.since };
                    return;
                }
                *rate = (*rate * factor).min(FASTEST);
                growth.since = growth.since.plus_seconds(seconds);
            }
        }
        let is_far = self.grows_fast();
        let Search::Found { rate, .. } = &mut self.search else {
            return;
        };
        if is_far {
            if self.backlog.is_some_and(|since| now.seconds_since(since) >= FAR_STEP)
                && (self.proven || self.relevance.is_none())
            {
                if self.scale < 1.0 {
                    self.scale = (self.scale * FAR_GROWS).min(1.0);
                } else if self.configured.is_none() && self.credit.certain().is_none() {
                    *rate = (*rate * FAR_GROWS).min(FASTEST);
                }
            }
            self.clean_since = now;
            return;
        }
        if self.trying.take().is_some() {
            self.probe_after = (self.probe_after / 2).max(PROBE_FIRST);
            self.steps = (self.steps + 1).min(STEPS_DOUBLE);
        }
        // without waiting calls a step is not really tried
        let steps = if self.backlog.is_some() { self.steps } else { 0 };
        let growth = f64::from(1u32 << steps);
        self.clean_since = now;
        if self.scale < 1.0 {
            self.trying = Some((now, Step::Scale(self.scale)));
            self.scale = (self.scale * (1.0 + 0.05 * growth)).min(1.0);
            self.ramping &= self.scale < 1.0;
        } else if self.guard > 0.0 {
            self.trying = Some((now, Step::Guard(self.guard)));
            self.guard = (self.guard - GUARD_BACK).max(0.0);
        } else if self.configured.is_none() && self.credit.certain().is_none() {
            self.trying = Some((now, Step::Rate(*rate)));
            *rate *= 1.0 + 0.03 * growth;
        }
    }
}

impl Growth {
    /// The next growth factor of a guess, and after how many seconds it applies.
    fn step(&self, rate: f64) -> (f64, f64) {
        if rate < self.target {
            ((self.target / rate).min(2.0), GUESS_DOUBLES)
        } else {
            (1.1, GUESS_GROWS)
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
        rate.refused(first, Some(HINT), false, now);
        rate.tick(true, now);
        now = now + HINT;
        let second = rate.start(now);
        rate.refused(second, Some(HINT), true, now);
        // two starts, of which none was let through, tell nothing
        assert_eq!(rate.current(now), None);
    }

    /// Nor does a refusal of the first start of an account that was idle for long.
    #[test]
    fn a_single_start_tells_no_pace() {
        let mut now = Tick::default() + Duration::from_secs(40);
        let mut rate = Rate::free(now);
        let first = rate.adopt(1, |least| (least <= 40.0).then_some(1.0 / 40.0), now);
        rate.refused(first, Some(HINT), false, now);
        assert_eq!(rate.current(now), None);
        // one of many is another matter
        let mut busy = Rate::free(now);
        let one = busy.adopt(800, |least| (least <= 40.0).then_some(20.0), now);
        busy.refused(one, Some(HINT), false, now);
        assert!(busy.current(now).is_some_and(|rate| rate > 18.0));
        now = now + HINT;
        assert!(busy.current(now).is_some_and(|rate| rate > 18.0));
    }

    /// The same where the traffic is said to have grown too fast.
    #[test]
    fn slowing_down_from_nothing_is_not_for_ever() {
        let mut now = Tick::default();
        let mut rate = Rate::free(now);
        let first = rate.adopt(1, |_| None, now);
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
        rate.refused(early, Some(Duration::from_millis(3)), false, end);
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
        rate.refused(stamp, Some(Duration::from_secs(1)), false, now);
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

    const SECOND: Duration = Duration::from_secs(1);

    /// Sends at this pace for so long, of which each is let through and is waited for.
    fn go_well(rate: &mut Rate, now: &mut Tick, pace: f64, seconds: f64) {
        let end = now.plus_seconds(seconds);
        while *now < end {
            rate.tick(true, *now);
            let sent = rate.start(*now);
            rate.succeeded(sent);
            *now = now.plus_seconds(1.0 / pace);
        }
    }

    /// Time passes, and somebody waits.
    fn wait(rate: &mut Rate, now: &mut Tick, seconds: f64) {
        let end = now.plus_seconds(seconds);
        while *now < end {
            *now = now.plus_seconds(0.1);
            rate.tick(true, *now);
        }
    }

    fn refuse(rate: &mut Rate, hint: Option<Duration>, barren: bool, now: Tick) -> Option<Duration> {
        let sent = rate.start(now);
        rate.refused(sent, hint, barren, now)
    }

    /// What was let through for long is likelier to be allowed than what one refusal tells.
    #[test]
    fn the_first_guess_is_near_the_pace_before() {
        for hint in [None, Some(SECOND), Some(HINT), Some(Duration::from_secs(40))] {
            let (mut rate, mut now) = (Rate::free(Tick::default()), Tick::default());
            go_well(&mut rate, &mut now, 20.0, 30.0);
            assert_eq!(rate.current(now), None);
            refuse(&mut rate, hint, false, now);
            let guess = rate.current(now).unwrap();
            assert!((0.9 * 20.0..=40.0).contains(&guess), "{hint:?}: {guess}");
        }
        // of a slow start too, however slowly it goes by then
        let (mut rate, mut now) = (Rate::slow_start(Tick::default()), Tick::default());
        go_well(&mut rate, &mut now, 20.0, 30.0);
        refuse(&mut rate, Some(HINT), false, now);
        assert!(rate.current(now).unwrap() >= 18.0);
    }

    /// After refusals since which nothing was let through what was known before holds again.
    #[test]
    fn an_incident_teaches_nothing() {
        for hint in [None, Some(SECOND), Some(HINT)] {
            // what was known before: nothing, a rate that was found, and a configured one
            let found = |now: Tick| {
                let mut rate = Rate::free(now);
                rate.find(20.0);
                rate
            };
            let fresh: [fn(Tick) -> Rate; 3] = [Rate::free, found, |now| Rate::configured(20.0, now)];
            for fresh in fresh {
                let (mut rate, mut now) = (fresh(Tick::default()), Tick::default());
                go_well(&mut rate, &mut now, 18.0, 30.0);
                let before = rate.current(now);
                for refusals in 0..10 {
                    refuse(&mut rate, hint, refusals > 0, now);
                    wait(&mut rate, &mut now, 1.0);
                }
                assert_eq!(rate.current(now), before, "by refusals, {hint:?}");

                let (mut rate, mut now) = (fresh(Tick::default()), Tick::default());
                go_well(&mut rate, &mut now, 18.0, 30.0);
                let before = rate.current(now);
                refuse(&mut rate, hint, false, now);
                refuse(&mut rate, hint, true, now);
                assert_ne!(rate.current(now), before);
                rate.outage(now);
                assert_eq!(rate.current(now), before, "by an outage, {hint:?}");
            }
        }
    }

    /// But one in which something was let through in between does.
    #[test]
    fn refusals_among_successes_teach() {
        let (mut rate, mut now) = (Rate::configured(20.0, Tick::default()), Tick::default());
        let mut before = rate.current(now);
        for _ in 0..6 {
            go_well(&mut rate, &mut now, 18.0, 1.0);
            refuse(&mut rate, Some(SECOND), false, now);
            let after = rate.current(now);
            assert!(after < before, "{after:?}");
            before = after;
        }
    }

    /// Once something was let through: it doubles each second up to what was likely before, and grows by a tenth each two
    /// seconds beyond that.
    #[test]
    fn a_guess_doubles_up_to_its_target_and_is_careful_above() {
        let (mut rate, mut now) = (Rate::free(Tick::default()), Tick::default());
        rate.guess(1.0, 10.0, now);
        let part = 1.0 - GUARD_FIRST;
        rate.guard = GUARD_FIRST;
        wait(&mut rate, &mut now, 30.0);
        assert!(
            (rate.current(now).unwrap() - part).abs() < 1e-9,
            "nothing was let through yet"
        );
        let sent = rate.start(now);
        rate.succeeded(sent);
        let mut paces = Vec::new();
        for _ in 0..8 {
            wait(&mut rate, &mut now, 1.0);
            paces.push((rate.current(now).unwrap() / part * 100.0).round() / 100.0);
        }
        assert_eq!(paces, [2.0, 4.0, 8.0, 10.0, 10.0, 11.0, 11.0, 12.1]);
    }

    /// Far below the pace that was refused a rate grows fast, and near to it by a few per cent in ten seconds.
    #[test]
    fn a_rate_grows_fast_until_it_is_near_what_was_refused() {
        let now = &mut Tick::default();
        let mut rate = Rate::free(*now);
        rate.find(2.0);
        rate.wall = Some(20.0);
        go_well(&mut rate, now, 2.0, 0.5);
        let mut at = Vec::new();
        for _ in 0..30 {
            go_well(&mut rate, now, 10.0, 1.0);
            at.push(rate.current(*now).unwrap());
        }
        let near = at.iter().position(|pace| *pace >= FAR * 20.0).unwrap();
        assert!(near <= 12, "{at:?}");
        let ten_later = at[near + 10] / at[near];
        assert!((1.0..=1.13).contains(&ten_later), "{at:?}");
        // with nobody waiting nothing is tried
        let mut idle = Rate::free(*now);
        idle.find(2.0);
        idle.wall = Some(20.0);
        for _ in 0..100 {
            *now = *now + SECOND / 10;
            idle.tick(false, *now);
        }
        assert!(idle.current(*now).unwrap() < 2.2);
    }

    /// A step up that is refused is taken back, and the next is tried later.
    #[test]
    fn a_step_up_that_is_refused_is_taken_back() {
        let (mut rate, mut now) = (Rate::free(Tick::default()), Tick::default());
        rate.find(10.0);
        rate.guard = 0.0;
        go_well(&mut rate, &mut now, 10.0, 10.5);
        let stepped = rate.current(now).unwrap();
        assert!(stepped > 10.2, "{stepped}");
        refuse(&mut rate, Some(SECOND), false, now);
        assert!(rate.current(now).unwrap() <= 10.0);
        assert_eq!(rate.probe_after, 2 * PROBE_FIRST);
    }

    /// Refusals that state nothing pause longer and longer while nothing is let through.
    #[test]
    fn pauses_that_are_guessed_double_up_to_a_bound() {
        let (mut rate, mut now) = (Rate::configured(20.0, Tick::default()), Tick::default());
        let mut pauses = Vec::new();
        for refusals in 0..6 {
            pauses.push(refuse(&mut rate, None, refusals > 0, now).unwrap());
            wait(&mut rate, &mut now, 1.0);
        }
        assert_eq!(pauses[..2], [UNHINTED_FIRST, 2 * UNHINTED_FIRST]);
        assert!(pauses.iter().all(|pause| *pause <= UNHINTED_LONGEST), "{pauses:?}");
        assert_eq!(refuse(&mut rate, None, false, now), Some(UNHINTED_FIRST));
        assert_eq!(refuse(&mut rate, Some(HINT), false, now), None);
    }
}
