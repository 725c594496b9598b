//! All that one account knows, and what changes it: pure, with the time as an argument. Knows no future and no lock.
//!
//! A start is granted in one step: pause, hold, breaker, budget, pace and permits are tested together when it is made, and
//! either everything is taken or nothing is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use smallvec::SmallVec;

use super::breaker::{self, Breaker, BreakerToken, CircuitBreaker, Gate, LaneView, Sent, Signal, Transition};
use super::budget::{Budget, RetryBudget};
use super::concurrency::Ceiling;
use super::credit::Lead;
use super::headers::RequestLimit;
use super::hold::{Hold, Remembered};
use super::lane::{Lane, LaneKey, LaneMap, LaneName, Told};
use super::learn::{Rate, Stamp};
use super::lease::{Seat, Slot};
use super::limits::{Counters, Limits, Load, Weights};
use super::pace::Bucket;
use super::pause::Pause;
use super::queue::{Line, Place, Waiter, Waiters};
use super::size::{Experience, Size, Sizes};
use super::start::{Priority, StartRequest};
use super::store::{Sharing, Tie};
use super::tick::Tick;
use super::usage::Usage;
use crate::classify::{Cause, Class, Delivery, Scope, Verdict};
use crate::observe::WaitCause;
use crate::outcome::StopReason;
use admission::{Calls, Driver};

/// How an account behaves, all of it fixed when it is built.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) limits: Limits,
    pub(crate) models: Vec<(String, Limits)>,
    pub(crate) slow_start: bool,
    /// Whether headers and refusals change the pace and the concurrency.
    pub(crate) learning: bool,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) budget: RetryBudget,
    /// The longest pause that a lane is held in; beyond it calls fail at once.
    pub(crate) max_pause: Duration,
    /// A hint beyond this stops only the call that got it.
    pub(crate) longest_shared_hint: Duration,
    /// A refusal that states no delay is met by a guess, of a pause and of a rate.
    pub(crate) guesses: bool,
    pub(crate) quota_hold: Option<Duration>,
    pub(crate) ramp: Option<Duration>,
    pub(crate) max_lanes: usize,
}

/// A change that observers are told of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    Paused { until: Tick },
    Resumed,
    QuotaHeld { until: Tick },
    QuotaReleased,
    BreakerOpened { until: Tick },
    BreakerClosed,
    RateLearnt { per_second: f64 },
    CeilingLearnt { in_flight: u32 },
    StoreLost,
    StoreFound,
}

/// Changes, each in its lane.
pub(crate) type Changes = SmallVec<[(u32, Change); 2]>;

/// A start was granted, and this was taken for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grant {
    pub(crate) lane: u32,
    pub(crate) generation: u32,
    pub(crate) weights: Weights,
    pub(crate) stamp: Stamp,
    pub(crate) token: BreakerToken,
    /// It had to wait for its turn.
    waited: bool,
    on_credit: bool,
    /// It was lent by the store, and takes this place there.
    lent: bool,
    seat: Option<Seat>,
    /// It does not count as in flight any more.
    landed: bool,
}

/// The order among waiters: retries first, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(bool, u64);

impl Rank {
    const fn is_retry(self) -> bool {
        !self.0
    }
}

/// A start was refused.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) reason: StopReason,
    /// When it is worth trying again, if that is known.
    pub(crate) until: Option<Tick>,
    /// The remembered response, if a quota is held.
    pub(crate) remembered: Option<Arc<Remembered>>,
    /// The last verdict on the lane's sends, while nothing gets through.
    pub(crate) said: Option<Verdict>,
}

pub(crate) type Answer = Result<Grant, Refusal>;

/// How long the newest call goes first after a caller gave up before its turn. In order of arrival, each call would start
/// when its caller is about to give up, and none would succeed.
const OVERLOADED: Duration = Duration::from_secs(10);
/// A wait shorter than this shows no overload.
const WAITED: Duration = Duration::from_secs(1);

/// A learned pace may grow while a call waits for it, so it is looked at again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// When a start fits.
enum When {
    Now,
    At(Due),
    /// After another event.
    Later(Whose),
    Never(Refusal),
}

/// When a start that must wait is due.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// As far as is known now.
    at: Tick,
    /// The part of it that is certain, since it was stated or configured: a call is refused for nothing else.
    certain: Tick,
    whose: Whose,
    /// When to look again.
    look: Tick,
}

/// Whose limit a start waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The lane's own: the calls of other lanes pass.
    Lane,
    /// The lane's retry budget: its fresh calls pass the retry, since their successes fill the budget.
    Budget,
    /// That of all lanes: later calls wait behind it, since a heavy call would otherwise never find enough at once.
    Account,
}

#[derive(Debug)]
struct Model {
    name: String,
    counters: Counters,
    ceiling: Ceiling,
}

#[derive(Debug)]
pub(crate) struct State {
    rules: Rules,
    counters: Counters,
    ceiling: Ceiling,
    models: Vec<Model>,
    lanes: Vec<Lane>,
    index: LaneMap<u32>,
    waiters: Waiters<Refusal>,
    /// Lanes with waiters that are not set aside.
    busy: Vec<u32>,
    /// The waiters that were called to take a start.
    calls: Calls,
    /// The tasks that keep time for the waiters.
    drivers: Vec<Driver>,
    first_start: Option<Tick>,
    /// The pace of a cold pool.
    ramp: Option<Bucket>,
    /// The store that others share, if there is one.
    sharing: Option<Box<Sharing>>,
}

impl State {
    pub(crate) fn new(rules: Rules, now: Tick) -> Self {
        let models = rules.models.iter().map(|(name, limits)| Model {
            name: name.clone(),
            counters: Counters::new(limits, now),
            ceiling: Ceiling::new(limits.max_concurrency),
        });
        let ramp = rules.ramp.map(|_| Bucket::new(1.0, 1.0, now));
        Self {
            counters: Counters::new(&rules.limits, now),
            ceiling: Ceiling::new(rules.limits.max_concurrency),
            models: models.collect(),
            rules,
            lanes: Vec::new(),
            index: LaneMap::default(),
            waiters: Waiters::default(),
            busy: Vec::new(),
            calls: Calls::default(),
            drivers: Vec::new(),
            first_start: None,
            ramp,
            sharing: None,
        }
    }

    /// The lane of this key, made if it is not there; `name` says what may be told of it.
    #[inline]
    pub(crate) fn lane(&mut self, key: LaneKey, name: impl FnOnce() -> LaneName, now: Tick) -> u32 {
        match self.index.get(&key) {
            Some(lane) => *lane,
            None => self.make_lane(key, name(), now),
        }
    }

    #[cold]
    fn make_lane(&mut self, key: LaneKey, name: LaneName, now: Tick) -> u32 {
        let slot = self.slot_for_a_lane(now);
        let generation = self
            .lanes
            .get(slot as usize)
            .map_or(0, |old| old.generation.wrapping_add(1));
        let lane = self.new_lane(key, name, generation, now);
        match self.lanes.get_mut(slot as usize) {
            Some(old) => {
                self.index.remove(&old.key);
                *old = lane;
            }
            None => self.lanes.push(lane),
        }
        self.index.insert(key, slot);
        self.ask_store();
        slot
    }

    /// A new place, or the place of the lane that was idle longest once there are as many as there may be. If none is idle,
    /// the number grows: a lane in use is never forgotten.
    fn slot_for_a_lane(&self, now: Tick) -> u32 {
        let next = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        if self.lanes.len() < self.rules.max_lanes {
            return next;
        }
        let lanes = self.lanes.iter().zip(0u32..);
        let idle = lanes.filter(|(lane, _)| lane.is_idle() && !lane.is_shut(now));
        idle.min_by_key(|(lane, _)| lane.used_at).map_or(next, |(_, slot)| slot)
    }

    fn new_lane(&self, key: LaneKey, name: LaneName, generation: u32, now: Tick) -> Lane {
        let model = self.models.iter().position(|model| model.name == name.model);
        let of_model = model
            .and_then(|model| self.models.get(model))
            .and_then(|model| model.counters.requests);
        let configured = of_model
            .into_iter()
            .chain(self.counters.requests)
            .map(|bucket| bucket.rate())
            .reduce(f64::min);
        let rate = match configured {
            Some(rate) => Rate::configured(rate, now),
            None if self.rules.slow_start => Rate::slow_start(now),
            None => Rate::free(now),
        };
        Lane {
            key,
            name,
            generation,
            told: Told::before(&rate),
            rate,
            bucket: None,
            pause: Pause::default(),
            hold: None,
            breaker: Breaker::default(),
            budget: Budget::new(&self.rules.budget, now),
            ceiling: Ceiling::new(None),
            retries: Line::default(),
            fresh: Line::default(),
            model,
            experience: Experience::default(),
            used_at: now,
            looked_at: now,
            overloaded_until: now,
            tie: self.sharing.as_ref().map(|_| Box::new(Tie::default())),
        }
    }

    /// Returns `true` if a call waits that is not set aside.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Grants a start at once if it fits and no call is ahead; otherwise returns why not. Earlier calls, in whatever lane, go
    /// first: `blocked` is the result of [`settle`](Self::settle).
    #[inline]
    pub(crate) fn try_start(&mut self, lane: u32, request: &StartRequest, blocked: Option<bool>, now: Tick) -> Ask {
        self.refresh(lane, now);
        let retry = request.priority.is_retry();
        let ahead = self.lanes.get(lane as usize).map_or(Load::default(), |lane| {
            if lane.breaker.lets_pass(request.attempt_timeout()) {
                Load::default()
            } else if retry || now < lane.overloaded_until {
                lane.retries.load()
            } else {
                lane.retries.load().and(lane.fresh.load())
            }
        });
        let behind = ahead.starts > 0 || blocked.is_some_and(|by_retry| by_retry || !retry);
        match self.when(lane, request, ahead, now) {
            When::Now if !behind => {
                let Some(grant) = self.grant(lane, request, false, now) else {
                    return Ask::Refused(Refusal::lost());
                };
                Ask::Granted(grant)
            }
            When::Never(refusal) => Ask::Refused(refusal),
            When::At(due) if request.bound().is_some_and(|bound| due.certain > bound) => {
                Ask::Refused(self.too_late(lane, request, Some(due.at), now))
            }
            When::Now | When::Later(_) | When::At(_) => Ask::Wait,
        }
    }

    /// The refusal of a start that would come too late for its call: what it waits for, and until when.
    #[cold]
    fn too_late(&self, lane: u32, request: &StartRequest, at: Option<Tick>, now: Tick) -> Refusal {
        let bound = request.bound().unwrap_or(now);
        let mut refusal = Refusal {
            reason: StopReason::QueuePastDeadline,
            until: at,
            remembered: None,
            said: None,
        };
        let Some(lane) = self.lanes.get(lane as usize) else {
            return refusal;
        };
        let pause = lane.pause.until(now);
        refusal.until = at.max(pause);
        if pause.is_some_and(|until| until > bound) {
            refusal.reason = StopReason::PausedPastDeadline;
        } else if let Gate::Shut(until) = lane.breaker.gate(request.attempt_timeout(), now) {
            refusal.reason = StopReason::CircuitOpen;
            refusal.until = refusal.until.or(Some(until)).filter(|until| *until < Tick::NEVER);
            refusal.said = lane.breaker.last();
        } else if request.priority == Priority::Retry && self.budget_ready_at(lane, now) > now {
            refusal.reason = StopReason::RetryBudgetEmpty;
        }
        refusal
    }

    /// What a start waits for, and until when, as far as is known.
    #[cold]
    pub(crate) fn wait_cause(&self, lane: u32, request: &StartRequest, now: Tick) -> (WaitCause, Option<Tick>) {
        let at = match self.when(lane, request, Load::default(), now) {
            When::At(due) => Some(due.at),
            When::Later(_) => None,
            When::Now | When::Never(_) => return (WaitCause::Queue, None),
        };
        let Some(lane) = self.lanes.get(lane as usize) else {
            return (WaitCause::Queue, None);
        };
        let cause = if lane.pause.until(now).is_some() {
            WaitCause::Pause
        } else if matches!(lane.breaker.gate(request.attempt_timeout(), now), Gate::Shut(_)) {
            WaitCause::CircuitBreaker
        } else if request.priority == Priority::Retry && self.budget_ready_at(lane, now) > now {
            WaitCause::RetryBudget
        } else if at.is_some() {
            WaitCause::Pace
        } else {
            WaitCause::Concurrency
        };
        (cause, at)
    }

    /// When the lane's budget lets the next retry start.
    #[inline]
    fn budget_ready_at(&self, lane: &Lane, now: Tick) -> Tick {
        if lane.breaker.paces() {
            return Tick::default();
        }
        lane.budget.ready_at(&self.rules.budget, lane.retries.len(), now)
    }

    /// Brings what a lane knows up to the present.
    #[inline]
    fn refresh(&mut self, lane: u32, now: Tick) {
        self.refresh_ramp(now);
        let share = self.sharing.as_ref().map(|sharing| sharing.share());
        let Some(lane) = self.lanes.get_mut(lane as usize) else {
            return;
        };
        lane.rate.tick(lane.waiting() > 0, now);
        let was_barren = lane.breaker.is_barren();
        let _ = lane.breaker.tick(lane.waiting(), now);
        if let Some(sharing) = self.sharing.as_mut().filter(|_| was_barren) {
            sharing.due |= lane.survived(now) && sharing.away.is_none();
        }
        if lane.ceiling.learnt().is_some() {
            lane.ceiling.tick(lane.beside(), now);
        }
        let rate = match share {
            None => lane.rate.current(now).or_else(|| lane.pause.ramp(now)),
            Some(share) => lane.shared_rate(share, now),
        };
        match (rate, &mut lane.bucket) {
            (Some(rate), Some(bucket)) => bucket.set_rate(rate, now),
            (Some(rate), None) => lane.bucket = Some(Bucket::new(rate, 1.0, now)),
            (None, _) => lane.bucket = None,
        }
    }

    /// What a cold pool may start a second: doubled until the ramp is over.
    #[inline]
    fn refresh_ramp(&mut self, now: Tick) {
        let (Some(length), Some(bucket)) = (self.rules.ramp, &mut self.ramp) else {
            return;
        };
        let part = self.first_start.map_or(0.0, |first| now.seconds_since(first)) / length.as_secs_f64();
        if part < 1.0 {
            bucket.set_rate(2f64.powf(10.0 * part), now);
        } else {
            self.ramp = None;
        }
    }

    /// When a start fits behind others. What was learned may change before their turn, so only configured limits tell how long
    /// they take.
    // the result is large, and most of it is never made
    #[inline(always)]
    fn when(&self, lane: u32, request: &StartRequest, ahead: Load, now: Tick) -> When {
        let Some(lane) = self.lanes.get(lane as usize) else {
            return When::Never(Refusal::lost());
        };
        let never = |reason, until, remembered| {
            When::Never(Refusal {
                reason,
                until,
                remembered,
                said: None,
            })
        };
        if let Some(hold) = &lane.hold
            && let Some(until) = hold.shut_until(now)
        {
            return never(StopReason::QuotaExhausted, Some(until), Some(Arc::clone(&hold.answer)));
        }
        let pause = lane.pause.until(now);
        if let Some(until) = pause {
            let longest = request.patience().unwrap_or(Duration::MAX).min(self.rules.max_pause);
            if until.since(now) > longest {
                return never(StopReason::PausedPastDeadline, Some(until), None);
            }
        }
        if !(lane.breaker.is_calm() && request.priority != Priority::Retry)
            && let Some(held) = self.held_by_weather(lane, request, pause, now)
        {
            return held;
        }
        let weights = request.weights;
        let probes = lane.must_be_lent_its_probe(request, now);
        if self.lends(lane, weights, probes, now) {
            return self.when_lent(lane, weights, probes, ahead, now);
        }
        let model = lane.model.and_then(|model| self.models.get(model));
        let lead = lane.lead(now);
        let mut stated = pause.unwrap_or_default().max(lane.rate.not_before(now));
        if let Some(model) = model {
            stated = stated.max(model.counters.ready_at(weights, ahead, lead, now));
        }
        let paced = lane
            .bucket
            .as_ref()
            .map_or(Tick::default(), |bucket| bucket.ready_at(1.0));
        let mut of_account = self.counters.ready_at(weights, ahead, lead, now);
        if let Some(ramp) = &self.ramp {
            of_account = of_account.max(ramp.ready_at(1.0));
        }
        let of_lane = stated.max(paced);
        if of_lane > now {
            let look = of_lane.min(pause.unwrap_or(now) + LOOK_AGAIN);
            let certain = if lane.rate.is_certain() { of_lane } else { stated };
            return When::At(Due {
                at: of_lane.max(of_account),
                certain: certain.max(of_account),
                whose: Whose::Lane,
                look: look.max(of_account),
            });
        }
        if !(lane.ceiling.has_room() && model.is_none_or(|model| model.ceiling.has_room())) {
            return When::Later(Whose::Lane);
        }
        if of_account > now {
            return When::At(Due {
                at: of_account,
                certain: of_account,
                whose: Whose::Account,
                look: of_account,
            });
        }
        if !self.ceiling.has_room() {
            return When::Later(Whose::Account);
        }
        When::Now
    }

    /// The waits without a known end: for an open breaker, and for an empty budget. With `fail_fast` they are refusals.
    #[cold]
    fn held_by_weather(&self, lane: &Lane, request: &StartRequest, pause: Option<Tick>, now: Tick) -> Option<When> {
        let (reason, at, whose) = match lane.breaker.gate(request.attempt_timeout(), now) {
            Gate::Shut(at) => (StopReason::CircuitOpen, at, Whose::Lane),
            Gate::Open | Gate::Probe if request.priority != Priority::Retry => return None,
            Gate::Open | Gate::Probe => match self.budget_ready_at(lane, now) {
                at if at > now => (StopReason::RetryBudgetEmpty, at, Whose::Budget),
                _ => return None,
            },
        };
        let until = Some(at).filter(|at| *at < Tick::NEVER);
        if request.fails_fast {
            return Some(When::Never(Refusal {
                reason,
                until,
                remembered: None,
                said: lane.breaker.last(),
            }));
        }
        let certain = pause.unwrap_or_default();
        Some(until.map_or(When::Later(whose), |at| {
            When::At(Due {
                at: at.max(certain),
                certain,
                whose,
                look: at,
            })
        }))
    }

    /// Takes everything that a start takes.
    #[inline]
    fn grant(&mut self, slot: u32, request: &StartRequest, waited: bool, now: Tick) -> Option<Grant> {
        let weights = request.weights;
        let (lent, seat) = self.spend(slot, request, now);
        let settings = &self.rules.budget;
        let lane = self.lanes.get_mut(slot as usize)?;
        let on_credit = lane.lead(now) == Lead::Beside;
        if let Some(bucket) = &mut lane.bucket {
            bucket.charge(1.0, now);
        }
        lane.used_at = now;
        lane.ceiling.enter();
        let stamp = lane.rate.start(now);
        if let Some(hold) = &mut lane.hold {
            hold.probe(stamp, now);
        }
        let paid = request.priority == Priority::Retry && settings.on && !lane.breaker.paces();
        if paid {
            lane.budget.withdraw(settings, lane.retries.len(), now);
        }
        let grant = Grant {
            lane: slot,
            generation: lane.generation,
            weights,
            stamp,
            token: lane.breaker.start(stamp, request.attempt_timeout(), now),
            waited,
            on_credit,
            lent,
            seat,
            landed: false,
        };
        if let Some(model) = lane.model.and_then(|model| self.models.get_mut(model)) {
            model.counters.charge(weights, on_credit, now);
            model.ceiling.enter();
        }
        self.counters.charge(weights, on_credit, now);
        self.ceiling.enter();
        if let Some(ramp) = &mut self.ramp {
            ramp.charge(1.0, now);
        }
        self.first_start.get_or_insert(now);
        Some(grant)
    }

    /// The lane of a grant, unless its slot has been given to another lane.
    #[inline]
    fn granted(&mut self, grant: &Grant) -> Option<&mut Lane> {
        self.lanes
            .get_mut(grant.lane as usize)
            .filter(|lane| lane.generation == grant.generation)
    }

    /// A request is over.
    pub(crate) fn finish(&mut self, grant: &Grant, now: Tick, woken: &mut Vec<Waker>) {
        self.let_go(grant, now);
        self.settle(now, woken);
    }

    /// The same while no call waits. Returns `false`, and does nothing, if one does.
    #[inline]
    pub(crate) fn finish_alone(&mut self, grant: &Grant) -> bool {
        let alone = !self.is_waited_for();
        if alone {
            // no call waits for the time of the next probe
            self.let_go(grant, grant.stamp.at());
        }
        alone
    }

    #[inline]
    fn let_go(&mut self, grant: &Grant, now: Tick) {
        if let Some(lane) = self.granted(grant) {
            lane.is_told_of_a_probe(grant);
            lane.breaker.release(grant.token, grant.stamp, now);
            if let Some(hold) = lane.hold.as_mut().filter(|hold| hold.is_probed_by(grant.stamp)) {
                hold.give_back();
            }
        }
        if grant.is_told() {
            self.tell_the_end(grant);
        }
        if !grant.landed {
            self.land(grant);
        }
    }

    /// A request is no longer in flight.
    #[inline]
    fn land(&mut self, grant: &Grant) {
        let mut model = None;
        if let Some(lane) = self.granted(grant) {
            model = lane.model;
            lane.ceiling.leave();
        }
        self.ceiling.leave();
        if let Some(model) = model.and_then(|model| self.models.get_mut(model)) {
            model.ceiling.leave();
        }
    }

    /// Tokens were other than reserved: gives back, or charges, the difference.
    fn correct(&mut self, grant: &Grant, over: Weights, now: Tick, woken: &mut Vec<Waker>) {
        self.counters.refund_tokens(over, now);
        if let Some(lane) = self.granted(grant)
            && let Some(tie) = &mut lane.tie
            && grant.lent
        {
            tie.lease.refund(over);
        }
        let model = self.granted(grant).and_then(|lane| lane.model);
        if let Some(model) = model.and_then(|model| self.models.get_mut(model)) {
            model.counters.refund_tokens(over, now);
        }
        self.settle(now, woken);
    }
}

/// The result of an attempt, as the account records it.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) verdict: Option<Verdict>,
    /// What its headers say about the limit on requests.
    pub(crate) requests: Option<RequestLimit>,
    /// The response, in case a quota hold is to repeat it.
    pub(crate) answer: Option<Arc<Remembered>>,
    /// Requests in flight for which the account was not asked.
    pub(crate) unasked: u32,
    /// The breaker's evidence, and the call that it is from.
    pub(crate) signal: Signal,
    pub(crate) call: u64,
    /// Its caller's total deadline cut it.
    pub(crate) given_up: bool,
}

impl State {
    /// Records the result of an attempt.
    pub(crate) fn hear(&mut self, grant: &mut Grant, heard: Heard, now: Tick, woken: &mut Vec<Waker>) -> Changes {
        let mut changes = Changes::new();
        let (longest, quota_hold) = (self.rules.longest_shared_hint, self.rules.quota_hold);
        let (guesses, learning) = (self.rules.guesses, self.rules.learning);
        let (settings, budget) = (self.rules.breaker, self.rules.budget);
        let processes = self.sharing.as_ref().map_or(1, |sharing| sharing.processes());
        let (cause, scope) = heard.verdict.map_or((Cause::Other, Scope::Unknown), |verdict| {
            (verdict.cause(), verdict.scope())
        });
        if (cause, scope) == (Cause::RateLimited, Scope::Concurrency) && !grant.landed {
            // the provider did not accept it
            grant.landed = true;
            self.land(grant);
            if grant.is_told() {
                self.tell_the_end(grant);
            }
        }
        let Some(lane) = self.granted(grant) else {
            return changes;
        };
        let barren = lane.breaker.is_barren();
        let sent = Sent {
            token: grant.token,
            stamp: grant.stamp,
            call: heard.call,
        };
        let view = LaneView {
            settings: &settings,
            waiting: lane.waiting_everywhere(),
            verdict: heard.verdict,
        };
        let transition = lane.breaker.record(sent, heard.signal, view, now);
        if transition == Some(Transition::Opened) {
            lane.rate.outage(now);
        }
        if lane.breaker.paces() {
            lane.rate.interrupted(now);
        }
        if heard.given_up && grant.waited {
            lane.overloaded_until = now + OVERLOADED;
        }
        if heard.signal == Signal::Success {
            let retries = lane.retries.len();
            lane.budget.deposit(&budget, retries, now);
            lane.rate.succeeded(grant.stamp);
            if let Some(tie) = &mut lane.tie {
                tie.succeeded_at = tie.succeeded_at.max(Some(grant.stamp.at()));
            }
        }
        if learning {
            lane.rate.answered(grant.stamp, heard.requests, now);
        }
        if heard.verdict.is_none() {
            if lane.pause.end(now) {
                changes.push((grant.lane, Change::Resumed));
            }
            // a send that was in flight when the quota ran out shows nothing about it
            if lane.hold.take_if(|hold| hold.is_probed_by(grant.stamp)).is_some() {
                changes.push((grant.lane, Change::QuotaReleased));
            }
        }
        let mut paused = None;
        if let Some(verdict) = &heard.verdict {
            let hint = verdict.server_delay().map(|delay| delay.duration());
            let pause = match (verdict.class(), verdict.cause(), verdict.scope()) {
                (Class::Retryable, Cause::RateLimited, Scope::Concurrency) => {
                    let beside = lane.elsewhere(processes);
                    if learning {
                        lane.ceiling.refused(heard.unasked.saturating_add(beside), now);
                    }
                    hint
                }
                (Class::Retryable, Cause::RateLimited, _) if !learning => hint,
                // its own call waits for it, and the others learn nothing from it
                (Class::Retryable, Cause::RateLimited, _) if hint.is_none() && !guesses && lane.rate.is_free() => None,
                (Class::Retryable, Cause::RateLimited, Scope::Growth) => {
                    lane.rate.slow_down(now);
                    hint
                }
                (Class::Retryable, Cause::RateLimited, Scope::InputTokens | Scope::OutputTokens | Scope::Tokens) => {
                    hint.or(guesses.then_some(Duration::from_secs(1)))
                }
                (Class::Retryable, Cause::RateLimited, _) if hint.is_some_and(|hint| hint > longest) => None,
                (Class::Retryable, Cause::RateLimited, _) => {
                    let own = lane.rate.refused(grant.stamp, hint, barren, now);
                    hint.or(own.filter(|_| guesses))
                }
                // a conflict concerns one resource, not the lane
                (Class::Retryable, cause, _) if cause != Cause::Conflict && verdict.delivery() == Delivery::Refused => {
                    hint
                }
                (Class::QuotaExhausted, cause, scope) => {
                    if let (Some(hold), Some(answer)) = (quota_hold, heard.answer)
                        && is_held(cause, scope)
                    {
                        let until = now + hold;
                        lane.hold = Some(Hold::new(until, hint.map(|hint| now + hint), answer));
                        changes.push((grant.lane, Change::QuotaHeld { until }));
                    }
                    None
                }
                _ => None,
            };
            if let Some(pause) = pause.filter(|pause| !pause.is_zero() && *pause <= longest)
                && lane.pause.extend(now + pause)
            {
                changes.push((grant.lane, Change::Paused { until: now + pause }));
                paused = Some(now + pause);
            }
        }
        changes.extend(lane.news(now).map(|change| (grant.lane, change)));
        // the first of a row is listened for at once
        let row_begins = !barren && lane.breaker.is_barren();
        let has_news = !changes.is_empty() || lane.has_circuit_news();
        if let Some(tie) = &mut lane.tie {
            tie.news |= has_news;
            if transition == Some(Transition::Opened) {
                tie.return_starts();
            }
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.due |= has_news || row_begins;
            if std::mem::take(&mut sharing.untold) {
                let change = if sharing.away.is_some() {
                    Change::StoreLost
                } else {
                    Change::StoreFound
                };
                changes.push((grant.lane, change));
            }
        }
        if let Some(until) = paused {
            self.turn_away(grant.lane, until, now, woken);
        }
        self.settle(now, woken);
        changes
    }

    /// The priority of a retry after this send, or the reason for which a call that fails fast ends here.
    pub(crate) fn plan_retry(
        &mut self,
        grant: &Grant,
        verdict: &Verdict,
        fails_fast: bool,
        now: Tick,
    ) -> Result<Priority, StopReason> {
        self.refresh(grant.lane, now);
        let Some(lane) = self.lanes.get(grant.lane as usize) else {
            return Ok(Priority::PacedRetry);
        };
        let paced = verdict.cause() == Cause::RateLimited && (lane.pause.until(now).is_some() || lane.bucket.is_some());
        match lane.breaker.gate(None, now) {
            Gate::Shut(_) if fails_fast => Err(StopReason::CircuitOpen),
            _ if paced => Ok(Priority::PacedRetry),
            _ if fails_fast && self.budget_ready_at(lane, now) > now => Err(StopReason::RetryBudgetEmpty),
            _ => Ok(Priority::Retry),
        }
    }
}

impl State {
    /// The weights of a start of this size.
    pub(crate) fn weigh(&self, lane: u32, size: &Size, sizes: &Sizes) -> Weights {
        let Some(lane) = self.lanes.get(lane as usize) else {
            return Weights::default();
        };
        let of_model = lane.model.and_then(|model| self.models.get(model)?.counters.output);
        let buckets = of_model.into_iter().chain(self.counters.output);
        let capacity = buckets.map(|bucket| bucket.capacity()).reduce(f64::min);
        lane.experience.weigh(size, sizes, capacity.unwrap_or(f64::INFINITY))
    }

    /// Records the usage that a response stated.
    pub(crate) fn settle_usage(
        &mut self,
        grant: &Grant,
        bytes: usize,
        usage: Usage,
        sizes: &Sizes,
        now: Tick,
        woken: &mut Vec<Waker>,
    ) {
        let Some(lane) = self.granted(grant) else { return };
        let over = lane.experience.learn(bytes, grant.weights, usage, sizes);
        self.correct(grant, over, now, woken);
    }

    /// Counts a send that was made without asking, one of `unasked`. It takes nothing, and is older than anything learned
    /// since.
    pub(crate) fn adopt(
        &mut self,
        slot: u32,
        unasked: u64,
        pace: impl Fn(f64) -> Option<f64>,
        sent_at: Tick,
        now: Tick,
    ) -> Option<Grant> {
        let lane = self.lanes.get_mut(slot as usize)?;
        let stamp = lane.rate.adopt(unasked, pace, sent_at);
        lane.used_at = now;
        lane.ceiling.enter();
        let grant = Grant {
            lane: slot,
            generation: lane.generation,
            weights: Weights::default(),
            stamp,
            token: BreakerToken::EARLY,
            waited: false,
            on_credit: false,
            lent: false,
            seat: None,
            landed: false,
        };
        if let Some(model) = lane.model.and_then(|model| self.models.get_mut(model)) {
            model.ceiling.enter();
        }
        self.ceiling.enter();
        self.first_start.get_or_insert(now);
        Some(grant)
    }

    /// Returns `true` if this start counts towards a limit on requests in flight.
    pub(crate) fn has_ceiling(&self, grant: &Grant) -> bool {
        let lane = self.lanes.get(grant.lane as usize);
        let model = lane.and_then(|lane| self.models.get(lane.model?));
        self.ceiling.limit().is_some()
            || lane.is_some_and(|lane| lane.ceiling.limit().is_some())
            || model.is_some_and(|model| model.ceiling.limit().is_some())
    }

    pub(crate) fn name(&self, grant: &Grant) -> Option<LaneName> {
        self.lanes.get(grant.lane as usize).map(|lane| lane.name.clone())
    }

    pub(super) fn retries_left(&self, lane: &Lane, now: Tick) -> f64 {
        lane.budget.left(&self.rules.budget, lane.retries.len(), now)
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter()
    }

    /// The requests in flight, and their limit.
    pub(super) fn flight(&self) -> (u32, Option<u32>) {
        (self.ceiling.in_flight(), self.ceiling.limit())
    }
}

/// Returns `true` if such a refusal concerns every call of the lane; one that depends on the size of the request does not.
fn is_held(cause: Cause, scope: Scope) -> bool {
    matches!(
        cause,
        Cause::Balance | Cause::SpendLimit | Cause::DailyAllowance | Cause::PlanWindow | Cause::NoAllowance
    ) && !matches!(scope, Scope::InputTokens | Scope::OutputTokens | Scope::Tokens)
}

/// The limit that cut an attempt before its response, if one did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    No,
    /// By the call's own attempt timeout.
    AtAttempt(Duration),
    /// By another limit of its caller.
    ByCaller,
}

impl Signal {
    /// The breaker's evidence in a verdict.
    pub(crate) fn of(verdict: Option<&Verdict>, cut: Cut) -> Self {
        let Some(verdict) = verdict else {
            return Self::Success;
        };
        let passes_by_itself = matches!(
            verdict.cause(),
            Cause::RateLimited
                | Cause::Overloaded
                | Cause::ServerError
                | Cause::Timeout
                | Cause::Connect
                | Cause::Reset
        );
        match (cut, verdict.class(), verdict.cause()) {
            (Cut::AtAttempt(limit), ..) => Self::Silence(limit),
            (Cut::ByCaller, ..) | (_, _, Cause::Conflict) => Self::Neutral,
            (_, Class::Retryable, Cause::RateLimited) if verdict.scope() == Scope::Concurrency => Self::Neutral,
            (_, Class::Retryable, _) if verdict.server_delay().is_some_and(|delay| !delay.duration().is_zero()) => {
                Self::Refusal
            }
            (_, Class::Retryable, _) => Self::Failure,
            // permanent only by the server's word, which concerns this one request
            (_, Class::Permanent, _) if passes_by_itself => Self::Neutral,
            (_, Class::Permanent | Class::QuotaExhausted, _) => Self::Success,
        }
    }
}

/// The reply to a call that asks for a start.
pub(crate) enum Ask {
    Granted(Grant),
    Refused(Refusal),
    Wait,
}

/// The reply to a waiter that polls.
pub(crate) enum Polled {
    Answered(Answer),
    Wait,
}

impl Refusal {
    /// The account does not know the call. That cannot happen; if it does, the call ends instead of waiting for ever.
    pub(crate) fn lost() -> Self {
        Self {
            reason: StopReason::Cancelled,
            until: None,
            remembered: None,
            said: None,
        }
    }
}

mod admission;
mod shared;

#[cfg(test)]
mod tests;
