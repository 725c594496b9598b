//! What is seen from outside, by the server and by an observer, and what must hold of it. Knows no answer and no policy.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use reqwest_ai_retry::{Cause, Class, Event, Verdict};
use tokio::time::Instant;

/// A send that is in flight for so long may have got through; see the breaker.
const SURVIVES: Duration = Duration::from_millis(250);

thread_local! {
    /// The call that is polled or dropped now.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whose limits a send meets, and whose health it tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LaneId {
    pub(crate) account: usize,
    pub(crate) host: usize,
    pub(crate) model: usize,
    /// Where credentials are told apart.
    pub(crate) credential: Option<usize>,
}

/// Runs a call, and says of what happens meanwhile that it is this one's.
pub(crate) struct Marked<F> {
    call: usize,
    future: Option<Pin<Box<F>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    start: Option<Instant>,
    pub(crate) calls: Vec<CallLog>,
    lanes: HashMap<LaneId, LaneLog>,
    in_flight: HashMap<(usize, Option<usize>), u32>,
    pub(crate) most_in_flight: HashMap<(usize, Option<usize>), u32>,
    /// When each start of an account was made.
    pub(crate) starts: HashMap<(usize, Option<usize>), Vec<Duration>>,
    pub(crate) violations: Vec<String>,
    pub(crate) events: HashMap<&'static str, u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct CallLog {
    pub(crate) lane: LaneId,
    /// As the server saw them.
    pub(crate) sends: Vec<Duration>,
    /// As an observer was told.
    pub(crate) started: u32,
    pub(crate) finished: u32,
    pub(crate) ends: u32,
    not_before: Duration,
}

/// What is known of a lane.
#[derive(Debug, Default)]
struct LaneLog {
    paused_until: Duration,
    open: bool,
    /// Sends since it opened that have not ended.
    flying: Vec<(usize, Duration)>,
    /// An attempt got no response in its time: that is evidence for those alone that wait no longer.
    silent: bool,
}

/// A send that is in flight, as the server sees it.
pub(crate) struct Flight {
    shared: Shared,
    keys: [(usize, Option<usize>); 2],
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Ledger>>);

impl Shared {
    pub(crate) fn new(lanes: impl IntoIterator<Item = LaneId>) -> Self {
        let calls = lanes.into_iter().map(|lane| CallLog {
            lane,
            sends: Vec::new(),
            started: 0,
            finished: 0,
            ends: 0,
            not_before: Duration::ZERO,
        });
        let ledger = Ledger {
            start: Some(Instant::now()),
            calls: calls.collect(),
            ..Ledger::default()
        };
        Self(Arc::new(Mutex::new(ledger)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Duration {
        self.lock().now()
    }

    /// A send has come to the server.
    pub(crate) fn sent(&self, call: usize) -> Flight {
        let lane = {
            let mut ledger = self.lock();
            ledger.sent(call);
            ledger.calls[call].lane
        };
        self.start(lane.account, Some(lane.model))
    }

    /// A start was made, and is in flight.
    pub(crate) fn start(&self, account: usize, model: Option<usize>) -> Flight {
        let mut ledger = self.lock();
        let now = ledger.now();
        let keys = [(account, None), (account, model)];
        for key in &keys[..1 + usize::from(model.is_some())] {
            let in_flight = ledger.in_flight.entry(*key).or_default();
            *in_flight += 1;
            let in_flight = *in_flight;
            let most = ledger.most_in_flight.entry(*key).or_default();
            *most = in_flight.max(*most);
            ledger.starts.entry(*key).or_default().push(now);
        }
        Flight {
            shared: self.clone(),
            keys,
        }
    }

    pub(crate) fn event(&self, event: &Event<'_>) {
        let mut ledger = self.lock();
        match CURRENT.get() {
            Some(call) => ledger.event(call, event),
            None => ledger.violations.push(format!("an event of no call: {event:?}")),
        }
    }

    /// Marks what happens while `future` is polled or dropped.
    pub(crate) fn mark<F: Future>(call: usize, future: F) -> Marked<F> {
        Marked {
            call,
            future: Some(Box::pin(future)),
        }
    }
}

impl Ledger {
    pub(crate) fn now(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |start| start.elapsed())
    }

    pub(crate) fn in_flight_of(&self, account: usize) -> u32 {
        self.in_flight.get(&(account, None)).copied().unwrap_or_default()
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.values().sum()
    }

    fn sent(&mut self, call: usize) {
        let now = self.now();
        let log = &mut self.calls[call];
        log.sends.push(now);
        let (started, sends, not_before, lane) = (log.started, log.sends.len(), log.not_before, log.lane);
        if started as usize != sends {
            self.violations.push(format!(
                "call {call}: send {sends} at {now:?} is attempt {started} by its events"
            ));
        }
        if now < not_before {
            self.violations.push(format!(
                "call {call}: sent at {now:?}, told to wait until {not_before:?}"
            ));
        }
        let paused = self.lanes.entry(lane).or_default().paused_until;
        if now < paused {
            self.violations.push(format!(
                "call {call}: sent at {now:?}, its lane is paused until {paused:?}"
            ));
        }
    }

    fn event(&mut self, call: usize, event: &Event<'_>) {
        let now = self.now();
        *self.events.entry(name(event)).or_default() += 1;
        let log = &mut self.calls[call];
        let lane = self.lanes.entry(log.lane).or_default();
        match event {
            Event::AttemptStarted { attempt, .. } => {
                log.started += 1;
                if log.started != *attempt {
                    self.violations
                        .push(format!("call {call}: attempt {attempt} is start {}", log.started));
                }
                if let Some(violation) = lane.started(call, now) {
                    self.violations.push(violation);
                }
            }
            Event::AttemptFinished { verdict, status, .. } => {
                log.finished += 1;
                lane.finished(call, verdict.as_ref(), status.is_none(), now);
                let stated = verdict.and_then(|verdict| verdict.server_delay());
                if let Some(delay) = stated {
                    log.not_before = log.not_before.max(now + delay.duration());
                }
            }
            Event::GaveUp { outcome, .. } => {
                log.ends += 1;
                lane.flying.retain(|(flying, _)| *flying != call);
                if outcome.sends() != log.started {
                    self.violations.push(format!(
                        "call {call}: gave up after {} sends, {} by its events",
                        outcome.sends(),
                        log.started
                    ));
                }
            }
            Event::Recovered { outcome, .. } => {
                log.ends += 1;
                if outcome.sends() != log.started {
                    self.violations
                        .push(format!("call {call}: recovered after {} sends", outcome.sends()));
                }
            }
            Event::BreakerOpened { .. } => {
                (lane.open, lane.flying) = (true, Vec::new());
            }
            Event::BreakerClosed { .. } => lane.open = false,
            _ => {}
        }
        if log.ends > 1 {
            self.violations.push(format!("call {call}: ended {} times", log.ends));
        }
    }
}

impl CallLog {
    /// A send of it has been made and has not ended.
    pub(crate) const fn is_under_way(&self) -> bool {
        self.started > self.finished
    }
}

impl LaneLog {
    /// While the breaker is open, one at a time may start.
    fn started(&mut self, call: usize, now: Duration) -> Option<String> {
        if !self.open || self.silent {
            return None;
        }
        let other = self.flying.first().copied();
        self.flying.push((call, now));
        let (other, since) = other?;
        if now - since >= SURVIVES {
            // it may have got through
            self.open = false;
            return None;
        }
        Some(format!(
            "call {call}: sent at {now:?} beside the probe of call {other}, sent at {since:?}"
        ))
    }

    fn finished(&mut self, call: usize, verdict: Option<&Verdict>, unanswered: bool, now: Duration) {
        self.flying.retain(|(flying, _)| *flying != call);
        let Some(verdict) = verdict else {
            self.open = false;
            return;
        };
        if verdict.class() != Class::Retryable {
            // the provider let it in, if only to refuse it
            self.open = false;
        }
        if unanswered && verdict.cause() == Cause::Timeout {
            self.silent = true;
        }
        if let Some(delay) = verdict.server_delay()
            && verdict.cause() == Cause::RateLimited
            && verdict.class() == Class::Retryable
        {
            self.paused_until = self.paused_until.max(now + delay.duration());
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut ledger = self.shared.lock();
        for key in &self.keys[..1 + usize::from(self.keys[1].1.is_some())] {
            if let Some(in_flight) = ledger.in_flight.get_mut(key) {
                *in_flight -= 1;
            }
        }
    }
}

impl<F: Future> Future for Marked<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let before = CURRENT.replace(Some(self.call));
        let polled = match &mut self.future {
            Some(future) => future.as_mut().poll(cx),
            None => Poll::Pending,
        };
        if polled.is_ready() {
            self.future = None;
        }
        CURRENT.set(before);
        polled
    }
}

impl<F> Drop for Marked<F> {
    fn drop(&mut self) {
        let before = CURRENT.replace(Some(self.call));
        self.future = None;
        CURRENT.set(before);
    }
}

fn name(event: &Event<'_>) -> &'static str {
    match event {
        Event::Queued { .. } => "queued",
        Event::AttemptStarted { .. } => "started",
        Event::AttemptFinished { .. } => "finished",
        Event::Waiting { .. } => "waiting",
        Event::GaveUp { .. } => "gave up",
        Event::Recovered { .. } => "recovered",
        Event::Paused { .. } => "paused",
        Event::QuotaHeld { .. } => "quota held",
        Event::BreakerOpened { .. } => "breaker opened",
        Event::BreakerHalfOpen { .. } => "probes",
        Event::BreakerClosed { .. } => "breaker closed",
        Event::RateLearnt { .. } => "rates",
        Event::CeilingLearnt { .. } => "ceilings",
        _ => "else",
    }
}
