//! All that one account knows, and what changes it: pure, with the time as an argument. Knows no future and no lock.
//!
//! A start is granted in one step: pause, hold, breaker, pace and permits are tested together at the moment of the start,
//! and either everything is taken or nothing is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use smallvec::SmallVec;

use super::breaker::{Breaker, Health, Pass, Position};
use super::budget::Budget;
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
use super::store::{Sharing, Tie};
use super::tick::Tick;
use super::usage::Usage;
use crate::classify::{Cause, Class, Delivery, Scope, Verdict};
use crate::outcome::StopReason;
use admission::{Calls, Driver};

/// How an account behaves, all of it fixed when it is built.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) limits: Limits,
    pub(crate) models: Vec<(String, Limits)>,
    pub(crate) slow_start: bool,
    pub(crate) breaker: bool,
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

/// Something changed that somebody may want to know.
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
    pub(crate) pass: Pass,
    retry: bool,
    on_credit: bool,
    /// It was lent by the store, and takes this place there.
    lent: bool,
    seat: Option<Seat>,
    /// It does not count as in flight any more.
    landed: bool,
}

/// The order among those that wait: retries first, then as they came.
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
    /// When it is worth to try again, if that is known.
    pub(crate) until: Option<Tick>,
    /// What the provider had said.
    pub(crate) remembered: Option<Arc<Remembered>>,
}

pub(crate) type Answer = Result<Grant, Refusal>;

/// A learnt pace may grow while it is waited for: that is not done for longer without a look.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// When a start fits.
enum When {
    Now,
    /// Then, and in between it is worth to look again.
    At(Tick, Whose, Tick),
    /// When something else happens.
    Later(Whose),
    Never(Refusal),
}

/// Whose limit a start waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The lane's own: others pass it by.
    Lane,
    /// That of all lanes: whoever came later waits behind it, or what is heavy would never find enough at once.
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
    /// Lanes in which somebody waits, and was not set aside.
    busy: Vec<u32>,
    /// Who was called to take a start.
    calls: Calls,
    /// Who looks after the time for those that wait.
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
            breaker: Breaker::new(now),
            budget: Budget::new(now),
            ceiling: Ceiling::new(None),
            retries: Line::default(),
            fresh: Line::default(),
            model,
            experience: Experience::default(),
            used_at: now,
            tie: self.sharing.as_ref().map(|_| Box::new(Tie::default())),
        }
    }

    /// Does anybody wait? Those that were set aside are nobody's concern but their own.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Grants a start at once, if nobody is ahead and it fits; else says why not. Those that came before, in whatever lane, go
    /// first: `blocked` is what [`settle`](Self::settle) says of them.
    #[inline]
    pub(crate) fn try_start(
        &mut self,
        lane: u32,
        weights: Weights,
        retry: bool,
        bound: Option<Tick>,
        blocked: Option<bool>,
        now: Tick,
    ) -> Ask {
        self.refresh(lane, now);
        let ahead = self.lanes.get(lane as usize).map_or(Load::default(), |lane| {
            if retry {
                lane.retries.load()
            } else {
                lane.retries.load().and(lane.fresh.load())
            }
        });
        let behind = ahead.starts > 0 || blocked.is_some_and(|by_retry| by_retry || !retry);
        match self.when(lane, weights, ahead, now) {
            When::Now if !behind => {
                let Some(grant) = self.grant(lane, weights, retry, now) else {
                    return Ask::Refused(Refusal::lost());
                };
                self.made(&grant, now);
                Ask::Granted(grant)
            }
            When::Never(refusal) => Ask::Refused(refusal),
            When::At(at, ..) if bound.is_some_and(|bound| at > bound) => {
                Ask::Refused(self.too_late(lane, Some(at), bound.unwrap_or(at), now))
            }
            When::Now | When::Later(_) | When::At(..) => Ask::Wait,
        }
    }

    /// A start that would come after `bound`.
    fn too_late(&self, lane: u32, at: Option<Tick>, bound: Tick, now: Tick) -> Refusal {
        let pause = self.lanes.get(lane as usize).and_then(|lane| lane.pause.until(now));
        let reason = match pause {
            Some(until) if until > bound => StopReason::PausedPastDeadline,
            _ => StopReason::QueuePastDeadline,
        };
        Refusal {
            reason,
            until: at.max(pause),
            remembered: None,
        }
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

    /// When a start fits, behind others. What was learnt may change before it is their turn: only what is configured is
    /// known of the time that they take.
    // what it gives is large, and most of it never made
    #[inline(always)]
    fn when(&self, lane: u32, weights: Weights, ahead: Load, now: Tick) -> When {
        let Some(lane) = self.lanes.get(lane as usize) else {
            return When::Never(Refusal::lost());
        };
        let never = |reason, until, remembered| {
            When::Never(Refusal {
                reason,
                until,
                remembered,
            })
        };
        if let Some(hold) = &lane.hold
            && let Some(until) = hold.shut_until(now)
        {
            return never(StopReason::QuotaExhausted, Some(until), Some(Arc::clone(&hold.answer)));
        }
        if self.rules.breaker
            && let Some(until) = lane.breaker.shut_until(now)
        {
            return never(StopReason::CircuitOpen, Some(until), None);
        }
        let pause = lane.pause.until(now);
        if let Some(until) = pause.filter(|until| until.since(now) > self.rules.max_pause) {
            return never(StopReason::PausedPastDeadline, Some(until), None);
        }
        if self.lends(lane, weights, now) {
            return self.when_lent(lane, weights, ahead, now);
        }
        let model = lane.model.and_then(|model| self.models.get(model));
        let lead = lane.lead(now);
        let mut of_lane = pause.unwrap_or_default().max(lane.rate.not_before(now));
        if let Some(bucket) = &lane.bucket {
            of_lane = of_lane.max(bucket.ready_at(1.0));
        }
        if let Some(model) = model {
            of_lane = of_lane.max(model.counters.ready_at(weights, ahead, lead, now));
        }
        let mut of_account = self.counters.ready_at(weights, ahead, lead, now);
        if let Some(ramp) = &self.ramp {
            of_account = of_account.max(ramp.ready_at(1.0));
        }
        if of_lane > now {
            let look = of_lane.min(pause.unwrap_or(now) + LOOK_AGAIN);
            return When::At(of_lane.max(of_account), Whose::Lane, look.max(of_account));
        }
        if !(lane.ceiling.has_room() && model.is_none_or(|model| model.ceiling.has_room())) {
            return When::Later(Whose::Lane);
        }
        if of_account > now {
            return When::At(of_account, Whose::Account, of_account);
        }
        if !self.ceiling.has_room() {
            return When::Later(Whose::Account);
        }
        When::Now
    }

    /// Takes all that a start takes.
    #[inline]
    fn grant(&mut self, slot: u32, weights: Weights, retry: bool, now: Tick) -> Option<Grant> {
        let (lent, seat) = self.spend(slot, weights, now);
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
        let grant = Grant {
            lane: slot,
            generation: lane.generation,
            weights,
            stamp,
            pass: lane.breaker.pass(now),
            retry,
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

    /// A start that was granted has reached its caller.
    #[inline]
    fn made(&mut self, grant: &Grant, now: Tick) {
        if !grant.retry
            && let Some(lane) = self.granted(grant)
        {
            lane.budget.deposit(now);
        }
    }

    /// The lane that a grant was for, unless another one stands there by now.
    #[inline]
    fn granted(&mut self, grant: &Grant) -> Option<&mut Lane> {
        self.lanes
            .get_mut(grant.lane as usize)
            .filter(|lane| lane.generation == grant.generation)
    }

    /// A request is over.
    pub(crate) fn finish(&mut self, grant: &Grant, now: Tick, woken: &mut Vec<Waker>) {
        self.let_go(grant);
        self.settle(now, woken);
    }

    /// The same where that concerns nobody who waits; false if somebody does, and nothing was done.
    #[inline]
    pub(crate) fn finish_alone(&mut self, grant: &Grant) -> bool {
        let alone = !self.is_waited_for();
        if alone {
            self.let_go(grant);
        }
        alone
    }

    #[inline]
    fn let_go(&mut self, grant: &Grant) {
        if let Some(lane) = self.granted(grant) {
            lane.breaker.give_back(grant.pass);
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

/// What an attempt's answer, or the lack of one, says.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) verdict: Option<Verdict>,
    /// What its headers say of the limit on requests.
    pub(crate) requests: Option<RequestLimit>,
    /// The answer, should calls be answered with it.
    pub(crate) answer: Option<Arc<Remembered>>,
    /// Requests in flight that nobody was asked for.
    pub(crate) unasked: u32,
}

impl State {
    /// Hears what came of an attempt.
    pub(crate) fn hear(&mut self, grant: &mut Grant, heard: Heard, now: Tick, woken: &mut Vec<Waker>) -> Changes {
        let mut changes = Changes::new();
        let (longest, quota_hold) = (self.rules.longest_shared_hint, self.rules.quota_hold);
        let guesses = self.rules.guesses;
        let breaker = self.rules.breaker;
        let processes = self.sharing.as_ref().map_or(1, |sharing| sharing.processes());
        let (cause, scope) = heard.verdict.map_or((Cause::Other, Scope::Unknown), |verdict| {
            (verdict.cause(), verdict.scope())
        });
        if (cause, scope) == (Cause::RateLimited, Scope::Concurrency) && !grant.landed {
            // the provider has not let it in
            grant.landed = true;
            self.land(grant);
            if grant.is_told() {
                self.tell_the_end(grant);
            }
        }
        let Some(lane) = self.granted(grant) else {
            return changes;
        };
        lane.rate.answered(grant.stamp, heard.requests, now);
        if heard.verdict.is_none() {
            if lane.pause.end(now) {
                changes.push((grant.lane, Change::Resumed));
            }
            // one that was on its way when the quota ran out says nothing of it
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
                    lane.ceiling.refused(heard.unasked.saturating_add(beside), now);
                    hint
                }
                // it is waited for by the one that got it, and teaches the others nothing
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
                    let own = lane.rate.refused(grant.stamp, hint, now);
                    hint.or(own.filter(|_| guesses))
                }
                // a conflict is about one thing, and no matter of the lane
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
        if breaker && lane.breaker.hear(grant.pass, health(heard.verdict.as_ref()), now) {
            changes.push((
                grant.lane,
                match lane.breaker.position(now) {
                    Position::Open(until) => Change::BreakerOpened { until },
                    Position::Closed | Position::HalfOpen { .. } => Change::BreakerClosed,
                },
            ));
        }
        let opened_or_closed = |change: &Change| matches!(change, Change::BreakerOpened { .. } | Change::BreakerClosed);
        let circuit_changed = changes.iter().any(|(_, change)| opened_or_closed(change));
        changes.extend(lane.news().map(|change| (grant.lane, change)));
        if let Some(tie) = lane.tie.as_mut().filter(|_| !changes.is_empty()) {
            tie.news = true;
            tie.circuit_changed |= circuit_changed;
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.due |= !changes.is_empty();
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
            self.turn_away(grant.lane, until, woken);
        }
        self.settle(now, woken);
        changes
    }

    /// Pays for a retry: nothing where the account itself makes it wait its turn, else one from the budget.
    pub(crate) fn pay_for_retry(&mut self, grant: &Grant, verdict: &Verdict, now: Tick) -> Payment {
        self.refresh(grant.lane, now);
        let Some(lane) = self.granted(grant) else {
            return Payment::Free;
        };
        if verdict.cause() == Cause::RateLimited && (lane.pause.until(now).is_some() || lane.bucket.is_some()) {
            Payment::Free
        } else if lane.budget.withdraw(now) {
            Payment::Paid
        } else {
            Payment::Refused
        }
    }

    /// A retry that was paid for was not made.
    pub(crate) fn refund_retry(&mut self, grant: &Grant, now: Tick) {
        if let Some(lane) = self.granted(grant) {
            lane.budget.refund(now);
        }
    }
}

impl State {
    /// What a start of this size will take.
    pub(crate) fn weigh(&self, lane: u32, size: &Size, sizes: &Sizes) -> Weights {
        let Some(lane) = self.lanes.get(lane as usize) else {
            return Weights::default();
        };
        let of_model = lane.model.and_then(|model| self.models.get(model)?.counters.output);
        let buckets = of_model.into_iter().chain(self.counters.output);
        let capacity = buckets.map(|bucket| bucket.capacity()).reduce(f64::min);
        lane.experience.weigh(size, sizes, capacity.unwrap_or(f64::INFINITY))
    }

    /// An answer has said what it took.
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

    /// Counts a send that was made without asking, one of so many: it takes nothing, and is earlier than whatever has been
    /// learnt in the meantime.
    pub(crate) fn adopt(&mut self, slot: u32, unasked: u64, now: Tick) -> Option<Grant> {
        let lane = self.lanes.get_mut(slot as usize)?;
        let stamp = lane.rate.adopt(unasked, now);
        lane.used_at = now;
        lane.budget.deposit(now);
        lane.ceiling.enter();
        let grant = Grant {
            lane: slot,
            generation: lane.generation,
            weights: Weights::default(),
            stamp,
            pass: Pass::EARLY,
            retry: false,
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

    /// Is there a limit on what is in flight that this start counts towards?
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

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter()
    }

    /// What is in flight, and what may be.
    pub(super) fn flight(&self) -> (u32, Option<u32>) {
        (self.ceiling.in_flight(), self.ceiling.limit())
    }
}

/// Does such a refusal meet every call of the lane? One that depends on the size of the request does not.
fn is_held(cause: Cause, scope: Scope) -> bool {
    matches!(
        cause,
        Cause::Balance | Cause::SpendLimit | Cause::DailyAllowance | Cause::PlanWindow | Cause::NoAllowance
    ) && !matches!(scope, Scope::InputTokens | Scope::OutputTokens | Scope::Tokens)
}

fn health(verdict: Option<&Verdict>) -> Health {
    match verdict {
        Some(verdict) if verdict.class() == Class::Retryable => match verdict.cause() {
            Cause::RateLimited | Cause::Conflict => Health::Silent,
            _ => Health::Ill,
        },
        _ => Health::Well,
    }
}

/// What became of the payment for a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payment {
    Free,
    Paid,
    /// There is nothing left to pay with.
    Refused,
}

/// What a call that asks for a start gets.
pub(crate) enum Ask {
    Granted(Grant),
    Refused(Refusal),
    Wait,
}

/// What one that waits gets when it asks again.
pub(crate) enum Polled {
    Answered(Answer),
    Wait,
}

impl Refusal {
    /// The account has lost sight of a call. It cannot happen; if it does, the call ends instead of waiting for ever.
    pub(crate) fn lost() -> Self {
        Self {
            reason: StopReason::Cancelled,
            until: None,
            remembered: None,
        }
    }
}

mod admission;
mod shared;

#[cfg(test)]
mod tests;
