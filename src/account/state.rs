//! All that one account knows, and what changes it: pure, with the time as an argument. Knows no future and no lock.
//!
//! A start is granted in one step: pause, hold, breaker, pace and permits are tested together at the moment of the start,
//! and either everything is taken or nothing is.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use smallvec::SmallVec;

use super::breaker::{Breaker, Health, Pass, Position};
use super::budget::Budget;
use super::concurrency::Ceiling;
use super::headers::RequestLimit;
use super::hold::{Hold, Remembered};
use super::lane::{Lane, LaneKey, LaneMap, LaneName};
use super::learn::{Rate, Stamp};
use super::limits::{Counters, Limits, Weights};
use super::pace::Bucket;
use super::pause::Pause;
use super::queue::{Line, Place, Waiters};
use super::size::{Experience, Size, Sizes};
use super::tick::Tick;
use super::usage::Usage;
use crate::classify::{Cause, Class, Delivery, Scope, Verdict};
use crate::outcome::StopReason;

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
    pub(crate) quota_hold: Option<Duration>,
    pub(crate) ramp: Option<Duration>,
    pub(crate) max_lanes: usize,
}

/// Something changed that somebody may want to know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    Paused { until: Tick },
    Resumed,
    BreakerOpened { until: Tick },
    BreakerHalfOpen,
    BreakerClosed,
    RateLearnt { per_second: f64 },
    CeilingLearnt { in_flight: u32 },
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
    probes_hold: bool,
    on_credit: bool,
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

/// When a start fits.
enum When {
    Now,
    At(Tick),
    /// When something else happens.
    Later,
    Never(Refusal),
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
    waiters: Waiters<Answer>,
    /// Lanes in which somebody waits.
    busy: Vec<u32>,
    /// Who holds the one timer, and what it is set to.
    timer: Option<(Place, Tick)>,
    first_start: Option<Tick>,
}

impl State {
    pub(crate) fn new(rules: Rules, now: Tick) -> Self {
        let models = rules.models.iter().map(|(name, limits)| Model {
            name: name.clone(),
            counters: Counters::new(limits, now),
            ceiling: Ceiling::new(limits.max_concurrency),
        });
        Self {
            counters: Counters::new(&rules.limits, now),
            ceiling: Ceiling::new(rules.limits.max_concurrency),
            models: models.collect(),
            rules,
            lanes: Vec::new(),
            index: LaneMap::default(),
            waiters: Waiters::default(),
            busy: Vec::new(),
            timer: None,
            first_start: None,
        }
    }

    /// The lane of this key, made if it is not there; `name` says what may be told of it.
    pub(crate) fn lane(&mut self, key: LaneKey, name: impl FnOnce() -> LaneName, now: Tick) -> u32 {
        if let Some(lane) = self.index.get(&key) {
            return *lane;
        }
        let name = name();
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
        let idle = lanes.filter(|(lane, _)| lane.is_idle() && lane.pause.until(now).is_none());
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
        }
    }

    /// Grants a start at once, if nobody is ahead and it fits; else says why not.
    pub(crate) fn try_start(
        &mut self,
        lane: u32,
        weights: Weights,
        retry: bool,
        bound: Option<Tick>,
        now: Tick,
    ) -> Ask {
        self.refresh(lane, now);
        let ahead = self
            .lanes
            .get(lane as usize)
            .map_or(0, |lane| if retry { lane.retries.len() } else { lane.waiting() });
        match self.when(lane, weights, ahead, now) {
            When::Now if ahead == 0 => Ask::Answered(self.grant(lane, weights, retry, now)),
            When::Never(refusal) => Ask::Answered(Err(refusal)),
            When::Now | When::Later => Ask::Wait,
            When::At(at) => match bound {
                Some(bound) if at > bound => Ask::Answered(Err(self.too_late(lane, at, now))),
                _ => Ask::Wait,
            },
        }
    }

    fn too_late(&self, lane: u32, at: Tick, now: Tick) -> Refusal {
        let paused = self.lanes.get(lane as usize).and_then(|lane| lane.pause.until(now));
        match paused {
            Some(until) => Refusal {
                reason: StopReason::PausedPastDeadline,
                until: Some(until),
                remembered: None,
            },
            None => Refusal {
                reason: StopReason::QueuePastDeadline,
                until: Some(at),
                remembered: None,
            },
        }
    }

    /// Joins the queue.
    pub(crate) fn join(&mut self, lane: u32, weights: Weights, retry: bool, bound: Option<Tick>) -> Option<Place> {
        let queue = self.lanes.get_mut(lane as usize)?;
        let line = if retry { &mut queue.retries } else { &mut queue.fresh };
        let place = self.waiters.join(line, lane, weights, bound, retry)?;
        if queue.waiting() == 1 {
            self.busy.push(lane);
        }
        Some(place)
    }

    /// What one that waits asks when it is woken: its answer, or until when to sleep if it is the one that holds the timer.
    pub(crate) fn poll(&mut self, place: Place, waker: &Waker, now: Tick, woken: &mut Vec<Waker>) -> Polled {
        let next = self.dispatch(now, woken);
        let Some(waiter) = self.waiters.get_mut(place) else {
            let answer = self.leave(place, now, woken).unwrap_or_else(|| Err(Refusal::lost()));
            return Polled::Answered(answer);
        };
        if !waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            waiter.waker = Some(waker.clone());
        }
        let mine = self.timer.is_none_or(|(holder, _)| holder == place);
        match next.filter(|_| mine) {
            Some(next) => {
                self.timer = Some((place, next));
                Polled::Sleep(next)
            }
            None => {
                if mine {
                    self.timer = None;
                }
                Polled::Wait
            }
        }
    }

    /// Leaves the queue, and hands on what it did for the others.
    fn leave(&mut self, place: Place, now: Tick, woken: &mut Vec<Waker>) -> Option<Answer> {
        let answer = self.waiters.take_answer(place);
        if answer.is_none() {
            let waiter = self.waiters.get_mut(place)?;
            let (lane, retry) = (waiter.lane, waiter.retry);
            let queue = self.lanes.get_mut(lane as usize)?;
            let line = if retry { &mut queue.retries } else { &mut queue.fresh };
            self.waiters.leave(place, line);
            if queue.waiting() == 0 {
                self.busy.retain(|busy| *busy != lane);
            }
        }
        if self.timer.is_some_and(|(holder, _)| holder == place) {
            self.timer = None;
        }
        let next = self.dispatch(now, woken);
        self.rearm(next, woken);
        answer
    }

    /// Stops waiting without an answer; one that had been granted is given back.
    pub(crate) fn cancel(&mut self, place: Place, now: Tick, woken: &mut Vec<Waker>) {
        if let Some(Ok(grant)) = self.leave(place, now, woken) {
            self.take_back(&grant, now, woken);
        }
    }

    /// Grants what fits now, the retries first and else in the order of arrival, and says when to look again.
    fn dispatch(&mut self, now: Tick, woken: &mut Vec<Waker>) -> Option<Tick> {
        loop {
            let mut next: Option<Tick> = None;
            let mut first: Option<(bool, u64, u32, Weights, Option<Refusal>)> = None;
            for at in 0..self.busy.len() {
                let Some(lane) = self.busy.get(at).copied() else {
                    continue;
                };
                self.refresh(lane, now);
                let Some((order, weights, retry, bound)) = self.head(lane) else {
                    continue;
                };
                let found = match self.when(lane, weights, 0, now) {
                    When::Later => continue,
                    When::At(tick) if bound.is_some_and(|bound| tick > bound) => Some(self.too_late(lane, tick, now)),
                    When::At(tick) => {
                        next = Some(next.map_or(tick, |next| next.min(tick)));
                        continue;
                    }
                    When::Now => None,
                    When::Never(refusal) => Some(refusal),
                };
                if first
                    .as_ref()
                    .is_none_or(|(other_retry, other, ..)| (!retry, order) < (!other_retry, *other))
                {
                    first = Some((retry, order, lane, weights, found));
                }
            }
            let Some((retry, _, lane, weights, refusal)) = first else {
                return next;
            };
            let answer = match refusal {
                Some(refusal) => Err(refusal),
                None => self.grant(lane, weights, retry, now),
            };
            let Some(queue) = self.lanes.get_mut(lane as usize) else {
                return next;
            };
            let line = if retry { &mut queue.retries } else { &mut queue.fresh };
            woken.extend(self.waiters.answer_head(line, answer));
            if queue.waiting() == 0 {
                self.busy.retain(|busy| *busy != lane);
            }
        }
    }

    fn head(&self, lane: u32) -> Option<(u64, Weights, bool, Option<Tick>)> {
        let queue = self.lanes.get(lane as usize)?;
        let line = if queue.retries.is_empty() {
            &queue.fresh
        } else {
            &queue.retries
        };
        let (order, waiter) = self.waiters.head(line)?;
        Some((order, waiter.weights, waiter.retry, waiter.bound()))
    }

    /// Sees to it that somebody wakes up at `next`.
    fn rearm(&mut self, next: Option<Tick>, woken: &mut Vec<Waker>) {
        let Some(next) = next else { return };
        let holder = match self.timer {
            Some((_, armed)) if armed <= next => return,
            Some((holder, _)) => Some(holder),
            None => {
                let lines = self.busy.iter().filter_map(|lane| self.lanes.get(*lane as usize));
                self.waiters
                    .anybody(lines.flat_map(|lane| [&lane.retries, &lane.fresh]))
            }
        };
        if let Some(waiter) = holder.and_then(|holder| self.waiters.get_mut(holder)) {
            woken.extend(waiter.waker.clone());
        }
    }

    /// Something changed: grants what now fits, and sets the timer anew.
    fn settle(&mut self, now: Tick, woken: &mut Vec<Waker>) {
        let next = self.dispatch(now, woken);
        self.rearm(next, woken);
    }

    /// Brings what a lane knows up to the present.
    fn refresh(&mut self, lane: u32, now: Tick) {
        let ramp = self.ramp(now);
        let Some(lane) = self.lanes.get_mut(lane as usize) else {
            return;
        };
        lane.rate.tick(lane.waiting() > 0, now);
        lane.ceiling.tick(now);
        let rate = match (lane.rate.current(now), ramp) {
            (Some(rate), Some(ramp)) => Some(rate.min(ramp)),
            (rate, ramp) => rate.or(ramp),
        };
        match (rate, &mut lane.bucket) {
            (Some(rate), Some(bucket)) => bucket.set_rate(rate, now),
            (Some(rate), None) => lane.bucket = Some(Bucket::new(rate, 1.0, now)),
            (None, _) => lane.bucket = None,
        }
    }

    /// What a cold pool may start a second: doubled until the ramp is over.
    fn ramp(&self, now: Tick) -> Option<f64> {
        let length = self.rules.ramp?;
        let since = self.first_start.map_or(0.0, |first| now.seconds_since(first));
        (since < length.as_secs_f64()).then(|| 2f64.powf(10.0 * since / length.as_secs_f64()))
    }

    /// When a start fits, behind `ahead` others.
    fn when(&self, lane: u32, weights: Weights, ahead: u32, now: Tick) -> When {
        let Some(lane) = self.lanes.get(lane as usize) else {
            return When::Never(Refusal::lost());
        };
        if let Some(hold) = lane.hold.as_ref().filter(|hold| hold.until > now || hold.probing) {
            return When::Never(Refusal {
                reason: StopReason::QuotaExhausted,
                until: Some(hold.until),
                remembered: Some(Arc::clone(&hold.answer)),
            });
        }
        if self.rules.breaker {
            let until = match lane.breaker.position(now) {
                Position::Open(until) => Some(Some(until)),
                Position::HalfOpen { probing: true } => Some(None),
                Position::Closed | Position::HalfOpen { probing: false } => None,
            };
            if let Some(until) = until {
                return When::Never(Refusal {
                    reason: StopReason::CircuitOpen,
                    until,
                    remembered: None,
                });
            }
        }
        let pause = lane.pause.until(now);
        if let Some(until) = pause.filter(|until| until.since(now) > self.rules.max_pause) {
            return When::Never(Refusal {
                reason: StopReason::PausedPastDeadline,
                until: Some(until),
                remembered: None,
            });
        }
        let ahead = f64::from(ahead);
        let model = lane.model.and_then(|model| self.models.get(model));
        let on_credit = lane.rate.is_on_credit(now);
        let ready = [
            pause.unwrap_or_default(),
            self.counters.ready_at(weights, ahead, on_credit, now),
            model.map_or(Tick::default(), |model| {
                model.counters.ready_at(weights, ahead, on_credit, now)
            }),
            lane.bucket
                .map_or(Tick::default(), |bucket| bucket.ready_behind(ahead, 1.0)),
            lane.rate.not_before(now),
        ];
        let ready = ready.into_iter().max().unwrap_or_default();
        if ready > now {
            return When::At(ready);
        }
        let room =
            self.ceiling.has_room() && lane.ceiling.has_room() && model.is_none_or(|model| model.ceiling.has_room());
        if room { When::Now } else { When::Later }
    }

    /// Takes all that a start takes.
    fn grant(&mut self, slot: u32, weights: Weights, retry: bool, now: Tick) -> Answer {
        let Some(lane) = self.lanes.get_mut(slot as usize) else {
            return Err(Refusal::lost());
        };
        let on_credit = lane.rate.is_on_credit(now);
        if let Some(bucket) = &mut lane.bucket {
            bucket.charge(1.0, now);
        }
        if !retry {
            lane.budget.deposit(now);
        }
        let stamp = lane.rate.start(now);
        if let Some(model) = lane.model.and_then(|model| self.models.get_mut(model)) {
            model.counters.charge(weights, on_credit, now);
        }
        self.counters.charge(weights, on_credit, now);
        self.first_start.get_or_insert(now);
        self.enter(slot, weights, stamp, on_credit, now)
    }

    /// Counts a send that was made without asking: it is in flight, and all else has been done.
    pub(crate) fn adopt(&mut self, slot: u32, unasked: u64, now: Tick) -> Option<Grant> {
        let stamp = self.lanes.get_mut(slot as usize)?.rate.adopt(unasked, now);
        self.enter(slot, Weights::default(), stamp, true, now).ok()
    }

    fn enter(&mut self, slot: u32, weights: Weights, stamp: Stamp, on_credit: bool, now: Tick) -> Answer {
        let Some(lane) = self.lanes.get_mut(slot as usize) else {
            return Err(Refusal::lost());
        };
        lane.used_at = now;
        lane.ceiling.enter();
        let probes_hold = match &mut lane.hold {
            Some(hold) => !std::mem::replace(&mut hold.probing, true),
            None => false,
        };
        self.ceiling.enter();
        let pass = lane.breaker.pass(now);
        if let Some(model) = lane.model.and_then(|model| self.models.get_mut(model)) {
            model.ceiling.enter();
        }
        Ok(Grant {
            lane: slot,
            generation: lane.generation,
            weights,
            stamp,
            pass,
            probes_hold,
            on_credit,
        })
    }

    /// The lane that a grant was for, unless another one stands there by now.
    fn granted(&mut self, grant: &Grant) -> Option<&mut Lane> {
        self.lanes
            .get_mut(grant.lane as usize)
            .filter(|lane| lane.generation == grant.generation)
    }

    /// A start that was granted was not made: all that it took is given back.
    fn take_back(&mut self, grant: &Grant, now: Tick, woken: &mut Vec<Waker>) {
        let mut model = None;
        if let Some(lane) = self.granted(grant) {
            model = lane.model;
            if let Some(bucket) = &mut lane.bucket {
                bucket.refund(1.0, now);
            }
            lane.rate.take_back(now);
        }
        self.counters.take_back(grant.weights, grant.on_credit, now);
        if let Some(model) = model.and_then(|model| self.models.get_mut(model)) {
            model.counters.take_back(grant.weights, grant.on_credit, now);
        }
        self.finish(grant, now, woken);
    }

    /// A request is no longer in flight.
    pub(crate) fn finish(&mut self, grant: &Grant, now: Tick, woken: &mut Vec<Waker>) {
        self.let_go(grant);
        self.settle(now, woken);
    }

    /// The same where that concerns nobody who waits; false if somebody does, and nothing was done.
    pub(crate) fn finish_alone(&mut self, grant: &Grant) -> bool {
        let alone = self.busy.is_empty();
        if alone {
            self.let_go(grant);
        }
        alone
    }

    fn let_go(&mut self, grant: &Grant) {
        let mut model = None;
        if let Some(lane) = self.granted(grant) {
            model = lane.model;
            lane.ceiling.leave();
            lane.breaker.give_back(grant.pass);
            if let Some(hold) = lane.hold.as_mut().filter(|_| grant.probes_hold) {
                hold.probing = false;
            }
        }
        self.ceiling.leave();
        if let Some(model) = model.and_then(|model| self.models.get_mut(model)) {
            model.ceiling.leave();
        }
    }

    /// Tokens were other than reserved: gives back, or charges, the difference.
    fn correct(&mut self, grant: &Grant, over: Weights, now: Tick, woken: &mut Vec<Waker>) {
        self.counters.refund_tokens(over, now);
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
}

impl State {
    /// Hears what came of an attempt.
    pub(crate) fn hear(&mut self, grant: &Grant, heard: Heard, now: Tick, woken: &mut Vec<Waker>) -> Changes {
        let mut changes = Changes::new();
        let (longest, quota_hold) = (self.rules.longest_shared_hint, self.rules.quota_hold);
        let breaker = self.rules.breaker;
        let Some(lane) = self.granted(grant) else {
            return changes;
        };
        lane.rate.answered(grant.stamp, heard.requests, now);
        if heard.verdict.is_none() {
            if lane.pause.end(now) {
                changes.push((grant.lane, Change::Resumed));
            }
            lane.hold = None;
        }
        if let Some(verdict) = &heard.verdict {
            let hint = verdict.server_delay().map(|delay| delay.duration());
            let pause = match (verdict.class(), verdict.cause(), verdict.scope()) {
                (Class::Retryable, Cause::RateLimited, Scope::Concurrency) => {
                    if lane.ceiling.refused(now)
                        && let Some(in_flight) = lane.ceiling.limit()
                    {
                        changes.push((grant.lane, Change::CeilingLearnt { in_flight }));
                    }
                    hint
                }
                (Class::Retryable, Cause::RateLimited, Scope::Growth) => {
                    lane.rate.slow_down(now);
                    hint
                }
                (Class::Retryable, Cause::RateLimited, Scope::InputTokens | Scope::OutputTokens | Scope::Tokens) => {
                    hint.or(Some(Duration::from_secs(1)))
                }
                (Class::Retryable, Cause::RateLimited, _) => {
                    let own = lane.rate.refused(grant.stamp, hint, now);
                    if let Some(per_second) = lane.rate.current(now) {
                        changes.push((grant.lane, Change::RateLearnt { per_second }));
                    }
                    hint.or(own)
                }
                (Class::Retryable, _, _) if verdict.delivery() == Delivery::Refused => hint,
                (Class::QuotaExhausted, cause, scope) => {
                    if let (Some(hold), Some(answer)) = (quota_hold, heard.answer)
                        && is_held(cause, scope)
                    {
                        lane.hold = Some(Hold {
                            until: now + hold,
                            answer,
                            probing: false,
                        });
                    }
                    None
                }
                _ => None,
            };
            if let Some(pause) = pause.filter(|pause| *pause <= longest)
                && lane.pause.extend(now + pause)
            {
                changes.push((grant.lane, Change::Paused { until: now + pause }));
            }
        }
        if breaker && lane.breaker.hear(grant.pass, health(heard.verdict.as_ref()), now) {
            changes.push((
                grant.lane,
                match lane.breaker.position(now) {
                    Position::Open(until) => Change::BreakerOpened { until },
                    Position::HalfOpen { .. } => Change::BreakerHalfOpen,
                    Position::Closed => Change::BreakerClosed,
                },
            ));
        }
        self.settle(now, woken);
        changes
    }

    /// Pays for a retry: nothing where the account itself makes it wait its turn, else one from the budget. False if there
    /// is none left.
    pub(crate) fn pay_for_retry(&mut self, grant: &Grant, verdict: &Verdict, now: Tick) -> bool {
        let Some(lane) = self.granted(grant) else { return true };
        let paced = verdict.cause() == Cause::RateLimited && (lane.pause.until(now).is_some() || lane.bucket.is_some());
        paced || lane.budget.withdraw(now)
    }
}

impl State {
    /// What a start of this size will take.
    pub(crate) fn weigh(&self, lane: u32, size: &Size, sizes: &Sizes) -> Weights {
        self.lanes
            .get(lane as usize)
            .map_or_else(Weights::default, |lane| lane.experience.weigh(size, sizes))
    }

    /// An answer has said what it took.
    pub(crate) fn settle_usage(
        &mut self,
        grant: &Grant,
        size: &Size,
        usage: Usage,
        sizes: &Sizes,
        now: Tick,
        woken: &mut Vec<Waker>,
    ) {
        let Some(lane) = self.granted(grant) else { return };
        let over = lane.experience.learn(size, grant.weights, usage, sizes);
        self.correct(grant, over, now, woken);
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

/// What a call that asks for a start gets.
pub(crate) enum Ask {
    Answered(Answer),
    Wait,
}

/// What one that waits gets when it asks again.
pub(crate) enum Polled {
    Answered(Answer),
    /// It holds the timer: until then.
    Sleep(Tick),
    Wait,
}

impl Refusal {
    /// The caller's time came first.
    pub(crate) const fn too_late() -> Self {
        Self {
            reason: StopReason::QueuePastDeadline,
            until: None,
            remembered: None,
        }
    }

    /// The account has lost sight of a call. It cannot happen; if it does, the call goes without admission rather than being
    /// lost too.
    fn lost() -> Self {
        Self {
            reason: StopReason::Cancelled,
            until: None,
            remembered: None,
        }
    }
}
