//! The book-keeping of one call: its time, its outcome, its events and its end. Knows the parts of the loop, but neither
//! their order nor how anything is sent.

use std::time::{Duration, Instant, SystemTime};

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::Response;
use reqwest_middleware::{Error, Result};

use crate::above::{Above, Known, sdk_retry_count};
use crate::account::{
    Admitted, Asked, Change, Cut, Evidence, Priority, Refused, RequestLimit, Signal, StartRequest, next_call,
};
use crate::body::{Answer, Depth, PEEK_BYTES};
use crate::classify::{Class, Seen, Verdict};
use crate::clock::{Clock, Deadline};
use crate::decide::{Decision, Progress, decide};
use crate::error::{RetryError, TimeLimit};
use crate::ledger::{Last, Spent, Standing};
use crate::middleware::Parts;
use crate::observe::{CallInfo, Event, ReportedHeaders};
use crate::operation::Current;
use crate::outcome::{Attempt, Outcome, StopReason};
use crate::policy::{GiveUp, RetryPolicy};
use crate::replay::Outgoing;
use crate::transport;

/// What an attempt ended in.
#[derive(Debug)]
pub(crate) enum Ended {
    Answered(Answer),
    Failed(Error),
    Cut(TimeLimit),
}

/// What is left of an attempt that was let go of.
#[derive(Debug)]
pub(crate) enum Remnant {
    /// All of it: it held nothing, or its answer had been read to the end.
    Kept(Ended),
    /// The answer's status; the rest of it is gone.
    Lost(StatusCode),
}

impl Ended {
    fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Answered(answer) => Some(answer.status()),
            Self::Failed(_) | Self::Cut(_) => None,
        }
    }

    /// The permit is held until the body ends or is dropped.
    pub(crate) fn held_by(self, permit: Admitted) -> Self {
        match self {
            Self::Answered(answer) => Self::Answered(answer.held_by(permit)),
            other => other,
        }
    }

    /// Frees what it holds, and keeps what costs nothing to keep.
    pub(crate) async fn let_go(self, clock: &dyn Clock) -> Remnant {
        match self {
            Self::Answered(answer) => {
                let status = answer.status();
                answer
                    .let_go(clock)
                    .await
                    .map_or(Remnant::Lost(status), |answer| Remnant::Kept(Self::Answered(answer)))
            }
            held_nothing => Remnant::Kept(held_nothing),
        }
    }
}

/// What a middleware below knows a running call by. It has no size, so that a map needs no allocation for it.
#[derive(Debug, Clone, Copy)]
struct Running;

/// Why nothing is sent at all.
#[derive(Debug)]
pub(crate) enum Barred<'a> {
    /// The same request had been given up before.
    Spent(Box<Spent>),
    /// The operation's time is over.
    Late,
    /// The operation is cancelled.
    Cancelled(&'a Current),
}

/// One call, from its first look at the request to its outcome.
pub(crate) struct Call<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) policy: &'a RetryPolicy,
    pub(crate) extensions: &'a mut Extensions,
    pub(crate) deadline: Deadline,
    outcome: Outcome,
    /// A retry middleware above owns this call.
    nested: bool,
    /// What events say of it; `None` if nobody looks.
    info: Option<Box<CallInfo>>,
    begun: Instant,
    first_send: Option<Instant>,
    last_send: Instant,
    /// When the wait began that it is in.
    waiting: Option<Instant>,
    /// When the next attempt is due, if it waits for that, or did when it was cut off.
    due: Option<Deadline>,
    /// How far the call has come: the end of its last attempt or wait. To look at the clock takes as long as much else.
    reached: Instant,
    /// The time of day when the last attempt ended: what an absolute delay is measured from.
    received_at: SystemTime,
    /// When the account would let it send again, if it refused.
    refused_until: Option<SystemTime>,
    /// How the next send stands to those of others.
    priority: Priority,
    /// What tells its failures from those of other calls, once it has failed.
    number: u64,
    /// Somebody will see what even a plain first success took.
    watched: bool,
    /// Who may send the request again, if anybody may.
    above: Option<Box<Above<'a>>>,
}

impl<'a> Call<'a> {
    /// The marker in the extensions is what a middleware below knows us by. It goes when the call ends, however that comes
    /// about, so that the extensions can serve another call; the outcome is left there instead, unless it is not worth the
    /// allocation.
    pub(crate) fn begin(
        parts: &'a Parts,
        policy: &'a RetryPolicy,
        extensions: &'a mut Extensions,
        request: &reqwest::Request,
        operation: Option<&'a Current>,
    ) -> Self {
        let nested = extensions.get::<Running>().is_some();
        let mut above = None;
        // what an earlier call left is replaced by this one's
        let mut watched = extensions.get::<Outcome>().is_some();
        if !nested {
            above = Above::of(operation, parts.guard.as_ref(), extensions);
            extensions.insert(Running);
        }
        let info = parts.observers.watch(request).map(Box::new);
        watched |= info.is_some() || above.is_some();
        let begun = parts.clock.now();
        let total = Deadline::after(begun, policy.total_deadline);
        let mut outcome = Outcome::begun();
        if let Some(count) = sdk_retry_count(request.headers()) {
            outcome.note_sdk_retry(count);
            watched = true;
        }
        Self {
            parts,
            policy,
            extensions,
            deadline: operation.map_or(total, |operation| operation.deadline(begun).or_earlier(total)),
            outcome,
            nested,
            info,
            begun,
            first_send: None,
            last_send: begun,
            waiting: None,
            due: None,
            reached: begun,
            received_at: SystemTime::UNIX_EPOCH,
            refused_until: None,
            priority: Priority::Fresh,
            number: 0,
            watched,
            above,
        }
    }

    /// Gives the request its idempotency key, and asks whoever may know it from an earlier send what becomes of this one.
    #[inline]
    pub(crate) fn claim(&mut self, outgoing: &mut Outgoing) -> Option<Barred<'a>> {
        if self.above.is_some() || self.outcome.sdk_retry_count().is_some() {
            return self.claim_above(outgoing);
        }
        outgoing.generate_key(self.policy);
        None
    }

    /// The same where there is somebody to ask.
    #[cold]
    fn claim_above(&mut self, outgoing: &mut Outgoing) -> Option<Barred<'a>> {
        if let Some(cancelled) = self.above.as_ref().and_then(|above| above.cancelled()) {
            return Some(Barred::Cancelled(cancelled));
        }
        if let Some(count) = self.outcome.sdk_retry_count() {
            self.tell(|call| Event::SdkRetry { call, count });
        }
        let known = match &mut self.above {
            Some(above) => above.ask(outgoing, self.policy, self.extensions, self.begun),
            None => Known::Nothing,
        };
        match known {
            Known::Nothing => {}
            Known::Resumed(standing) => self.resume(*standing),
            Known::Spent(spent) => return Some(Barred::Spent(spent)),
        }
        outgoing.generate_key(self.policy);
        let above = self.above.as_ref()?;
        above.note_key(outgoing, self.policy);
        self.deadline.is_past(self.clock().now()).then_some(Barred::Late)
    }

    /// Goes on where an earlier part of the call was cut off.
    fn resume(&mut self, standing: Standing) {
        let repeated = self.outcome.sdk_retry_count();
        self.outcome = standing.outcome.resumed();
        if let Some(count) = repeated {
            self.outcome.note_sdk_retry(count);
        }
        (self.begun, self.first_send) = (standing.begun, standing.first_send);
        self.received_at = standing.received_at;
        self.due = standing.due;
        self.deadline = self
            .deadline
            .or_earlier(Deadline::after(self.begun, self.policy.total_deadline));
    }

    pub(crate) fn clock(&self) -> &'a dyn Clock {
        &*self.parts.clock
    }

    fn tell<'e>(&'e self, event: impl FnOnce(&'e CallInfo) -> Event<'e>) {
        if let Some(info) = &self.info {
            self.parts.observers.tell(&event(info));
        }
    }

    /// Asks the account for the next send. Before the first one only the caller's own patience bounds the wait; after it the
    /// time for retries does too.
    pub(crate) async fn admit(&mut self, outgoing: &Outgoing) -> std::result::Result<Admitted, Refused> {
        // before the first send a lane in which nothing is sent is waited for as long as for a retry, and a queue that moves
        // for as long as it takes
        let (limit, patience) = match self.first_send {
            None => (
                Deadline::after(self.begun, self.policy.max_queue_time),
                Some(self.policy.max_retry_time),
            ),
            Some(first) => (Deadline::after(first, Some(self.policy.max_retry_time)), None),
        };
        let account = &self.parts.account;
        let bound = limit.or_earlier(self.deadline);
        let cut_at_bound = bound == self.deadline;
        let bound = bound.instant();
        let start = StartRequest::of(self.priority)
            .last(self.outcome.sends().saturating_add(1) >= self.policy.max_attempts)
            .cut_at_bound(cut_at_bound)
            .fails_fast(self.policy.fail_fast);
        let start = start
            .until(bound.map(|bound| account.tick(bound)))
            .patient(patience)
            .answered_within(self.policy.attempt_timeout);
        let request = outgoing.request();
        let asked = Asked::of(request);
        let queued = |cause, until| {
            self.waiting = Some(self.clock().now());
            let attempt = self.outcome.sends().saturating_add(1);
            self.tell(|call| Event::Queued {
                call,
                attempt,
                cause,
                until,
            });
        };
        let mut admitted = account
            .admit_call(&asked, || account.size(request), start, queued)
            .await;
        self.end_wait();
        if let Ok(permit) = &mut admitted {
            self.keep(permit, outgoing);
        }
        if let Some(probe) = admitted.as_ref().ok().filter(|permit| permit.probes_breaker())
            && self.info.is_some()
        {
            let lane = probe.name().unwrap_or_default();
            self.tell(|call| Event::BreakerHalfOpen { call, lane: &lane });
        }
        admitted
    }

    /// The same where there is nothing to ask: the account is quiet.
    #[inline]
    pub(crate) fn admit_unasked(&self, outgoing: &Outgoing) -> Option<Admitted> {
        let mut permit = self.parts.account.unasked(self.reached)?;
        self.keep(&mut permit, outgoing);
        Some(permit)
    }

    /// Notes what may still be asked of a request that cannot be kept.
    fn keep(&self, permit: &mut Admitted, outgoing: &Outgoing) {
        let request = outgoing.request();
        if request.body().is_some_and(|body| body.as_bytes().is_none()) {
            permit.keep(&Asked::of(request));
        }
    }

    /// Is the request to be kept while the send that was counted is on its way? To be sent again, or because nobody was asked
    /// for this send: its lane is told only if its answer has something to say of it, which is seldom, and a clone costs less.
    pub(crate) const fn keeps_request(&self, permit: &Admitted) -> bool {
        self.outcome.sends() < self.policy.max_attempts || !permit.is_asked()
    }

    /// Counts a send; what it must not outlast is the answer.
    #[inline]
    pub(crate) fn start_attempt(&mut self) -> Deadline {
        self.outcome.count_send();
        if self.policy.buffer_request.is_some() {
            // it may have taken a while to read the request's body
            self.reached = self.clock().now();
        }
        self.last_send = self.reached;
        self.first_send.get_or_insert(self.last_send);
        self.tell(|call| Event::AttemptStarted {
            call,
            attempt: self.outcome.sends(),
        });
        self.deadline
            .or_earlier(Deadline::after(self.last_send, self.policy.attempt_timeout))
    }

    /// An attempt was cut: by which limit?
    fn limit_that_cut(&self) -> TimeLimit {
        if self.deadline.is_past(self.clock().now()) {
            TimeLimit::Total
        } else {
            TimeLimit::Attempt
        }
    }

    /// What an attempt ended in, as far as it is known without the body.
    pub(crate) fn arrived(&self, sent: Option<Result<Response>>) -> Ended {
        match sent {
            Some(Ok(response)) => Ended::Answered(Answer::Untouched(response)),
            Some(Err(error)) => Ended::Failed(error),
            None => Ended::Cut(self.limit_that_cut()),
        }
    }

    /// How far to look into the body, where the status or the content asks for it: a failure's body tells what the status
    /// cannot, and the start of a model's stream whether there will be an answer at all.
    pub(crate) fn depth_to_look(&self, ended: &Ended, outgoing: &Outgoing) -> Option<Depth> {
        let Ended::Answered(answer) = ended else {
            return None;
        };
        if answer.status().is_client_error() || answer.status().is_server_error() {
            Some(Depth::Bytes(PEEK_BYTES))
        } else if is_stream(answer.headers()) {
            let looks = self.policy.inspect_stream_start && is_plain(answer.headers()) && outgoing.goes_to_a_model();
            looks.then_some(Depth::Events)
        } else {
            self.policy.inspect_success.map(Depth::Bytes)
        }
    }

    /// Looks so far into the body.
    pub(crate) async fn look(&self, ended: Ended, depth: Depth) -> Ended {
        match ended {
            Ended::Answered(Answer::Untouched(response)) => {
                let patience = Deadline::after(self.clock().now(), Some(depth.patience())).or_earlier(self.deadline);
                Ended::Answered(Answer::peek(response, depth, patience, self.clock()).await)
            }
            known => known,
        }
    }

    /// The verdict on an attempt, written into the outcome; `None` for a success.
    pub(crate) fn judge(&mut self, ended: &Ended, outgoing: &Outgoing, permit: &mut Admitted) -> Option<Verdict> {
        self.received_at = self.clock().wall_now();
        let broken = matches!(ended, Ended::Answered(answer) if answer.is_broken());
        let seen = self.seen(ended, outgoing);
        let verdict = self.parts.classifier.classify(&seen);
        let requests = RequestLimit::of(&seen);
        let verdict = verdict.or_else(|| broken.then(transport::broken_body));

        let teaches = verdict.is_some() || requests.is_some() || permit.is_asked();
        if verdict.is_none() && !teaches && self.goes_unseen() {
            return None;
        }
        self.reached = self.clock().now();
        let started = self.last_send.saturating_duration_since(self.begun);
        let elapsed = self.reached.saturating_duration_since(self.last_send);
        let (attempt, status) = (self.outcome.sends(), ended.status());
        self.outcome.record(Attempt::new(started, elapsed, status, verdict));
        let headers = ReportedHeaders::of(match ended {
            Ended::Answered(answer) => Some(answer.headers()),
            Ended::Failed(_) | Ended::Cut(_) => None,
        });
        if teaches {
            self.teach(ended, outgoing, verdict.as_ref(), requests, permit);
        }
        self.tell(|call| Event::AttemptFinished {
            call,
            attempt,
            elapsed,
            status,
            verdict,
            headers,
        });
        verdict
    }

    /// Nobody will know what the call took, if it ends well now: a plain success is not worth the time to note it.
    fn goes_unseen(&self) -> bool {
        !self.watched && self.outcome.sends() <= 1 && self.outcome.waited().is_zero()
    }

    /// Tells the account what came of the send, and the observers what that changed.
    fn teach(
        &mut self,
        ended: &Ended,
        outgoing: &Outgoing,
        verdict: Option<&Verdict>,
        requests: Option<RequestLimit>,
        permit: &mut Admitted,
    ) {
        if verdict.is_some() || requests.is_some() {
            permit.adopt(&Asked::of(outgoing.request()), self.last_send);
        }
        let answer = match (verdict, ended) {
            (Some(verdict), Ended::Answered(answer)) if verdict.class() == Class::QuotaExhausted => {
                answer.remember(*verdict)
            }
            _ => None,
        };
        if verdict.is_some() && self.number == 0 {
            self.number = next_call();
        }
        let evidence = Evidence {
            signal: Signal::of(verdict, self.cut_of(ended)),
            call: self.number,
            given_up: matches!(ended, Ended::Cut(TimeLimit::Total)),
        };
        let changes = permit.hear(verdict.copied(), requests, answer, evidence);
        if changes.is_empty() || self.info.is_none() {
            return;
        }
        let lane = permit.name().unwrap_or_default();
        for (_, change) in changes {
            let until = |at| permit.wall(at);
            self.tell(|call| match change {
                Change::Paused { until: at } => Event::Paused {
                    call,
                    lane: &lane,
                    until: until(at),
                },
                Change::Resumed => Event::Resumed { call, lane: &lane },
                Change::QuotaHeld { until: at } => Event::QuotaHeld {
                    call,
                    lane: &lane,
                    until: until(at),
                },
                Change::QuotaReleased => Event::QuotaReleased { call, lane: &lane },
                Change::BreakerOpened { until: at } => Event::BreakerOpened {
                    call,
                    lane: &lane,
                    until: until(at),
                },
                Change::BreakerClosed => Event::BreakerClosed { call, lane: &lane },
                Change::RateLearnt { per_second } => Event::RateLearnt {
                    call,
                    lane: &lane,
                    starts_per_minute: per_second * 60.0,
                },
                Change::StoreLost => Event::StoreLost { call },
                Change::StoreFound => Event::StoreFound { call },
                Change::CeilingLearnt { in_flight } => Event::CeilingLearnt {
                    call,
                    lane: &lane,
                    in_flight,
                },
            });
        }
    }

    /// Whose limit cut an attempt before its answer.
    fn cut_of(&self, ended: &Ended) -> Cut {
        match (ended, self.policy.attempt_timeout) {
            (Ended::Cut(TimeLimit::Attempt), Some(limit)) => Cut::AtAttempt(limit),
            (Ended::Cut(_), _) => Cut::ByCaller,
            // a limit of the client or of the request, which others need not have
            (Ended::Failed(Error::Reqwest(error)), _) if error.is_timeout() && !error.is_connect() => Cut::ByCaller,
            (Ended::Failed(_) | Ended::Answered(_), _) => Cut::No,
        }
    }

    /// An attempt as data.
    fn seen<'s>(&self, ended: &'s Ended, outgoing: &'s Outgoing) -> Seen<'s> {
        let (method, url) = (outgoing.method(), outgoing.url());
        match ended {
            Ended::Answered(answer) => Seen::response(
                method,
                url,
                answer.status(),
                answer.headers(),
                answer.prefix(),
                self.received_at,
            ),
            Ended::Failed(error) => Seen::error(method, url, error),
            Ended::Cut(_) => Seen::timed_out(method, url),
        }
    }

    pub(crate) fn decide(
        &mut self,
        ended: &Ended,
        verdict: &Verdict,
        outgoing: &Outgoing,
        permit: &Admitted,
    ) -> Decision {
        let now = self.clock().now();
        let progress = Progress {
            sends: self.outcome.sends(),
            elapsed: self
                .first_send
                .map_or(Duration::ZERO, |first| now.saturating_duration_since(first)),
            remaining: self.deadline.remaining(now),
            replayable: outgoing.may_repeat(verdict.delivery(), self.policy),
            nested: self.nested,
            draws: self.parts.dice.draw(),
        };
        // one that is sent once leaves it to a layer above to send it again
        if !self.nested && self.policy.max_attempts > 1 {
            self.above.get_or_insert_default().note_request(outgoing);
        }
        match decide(&self.seen(ended, outgoing), verdict, &progress, self.policy) {
            Decision::Retry(wait) => match permit.plan_retry(verdict, self.policy.fail_fast) {
                Ok(priority) => {
                    self.priority = priority;
                    Decision::Retry(wait)
                }
                Err(reason) => Decision::Stop(reason),
            },
            stop => stop,
        }
    }

    /// Waits, holding nothing; the total deadline cuts it.
    pub(crate) async fn wait(&mut self, wait: Duration, verdict: &Verdict) {
        let attempt = self.outcome.sends();
        self.tell(|call| Event::Waiting {
            call,
            attempt,
            wait,
            verdict: *verdict,
        });
        self.due = Some(Deadline::after(self.clock().now(), Some(wait)));
        self.wait_until_due().await;
    }

    /// Waits out what was left of a wait when an earlier part of the call was cut off in it: nothing that the server said is
    /// shortened by that.
    pub(crate) async fn wait_on(&mut self) {
        let rest = self.due.and_then(|due| due.remaining(self.clock().now()));
        if let (Some(wait), Some(verdict)) = (rest, self.outcome.verdict().copied()) {
            let attempt = self.outcome.sends();
            self.tell(|call| Event::Waiting {
                call,
                attempt,
                wait,
                verdict,
            });
        }
        self.wait_until_due().await;
    }

    async fn wait_until_due(&mut self) {
        self.waiting = Some(self.clock().now());
        let end = self.due.unwrap_or_default().or_earlier(self.deadline);
        end.cut(self.clock(), std::future::pending::<()>()).await;
        self.due = None;
        self.end_wait();
    }

    /// Is it in a wait that began before it went on?
    pub(crate) fn is_early(&self) -> bool {
        self.due.is_some_and(|due| !due.is_past(self.clock().now()))
    }

    /// Notes the wait that it is in, if it is in one: as long as it was, also if it was cut off.
    fn end_wait(&mut self) {
        if let Some(began) = self.waiting.take() {
            self.reached = self.clock().now();
            self.outcome.add_wait(self.reached.saturating_duration_since(began));
        }
    }

    /// The end of the call: what the caller gets, with the outcome on it.
    pub(crate) fn end(mut self, ended: Ended, verdict: Option<Verdict>, stop: StopReason) -> Result<Response> {
        self.close(stop);
        if let Some(above) = &mut self.above {
            above.note_end(&ended, verdict.as_ref());
        }
        match (ended, verdict) {
            (Ended::Failed(error), _) => Err(error),
            (Ended::Cut(limit), _) => Err(Error::middleware(RetryError::TimedOut {
                limit,
                outcome: self.outcome.clone().into(),
            })),
            (Ended::Answered(answer), Some(verdict)) if self.asks_for_an_error(answer.status(), &verdict) => {
                Err(self.gave_up(answer.status(), verdict))
            }
            (Ended::Answered(answer), _) => Ok(self.give_back(answer)),
        }
    }

    /// The same after the attempt was let go of.
    pub(crate) fn end_late(mut self, remnant: Remnant, verdict: Verdict, stop: StopReason) -> Result<Response> {
        match remnant {
            Remnant::Kept(ended) => self.end(ended, Some(verdict), stop),
            Remnant::Lost(status) => {
                self.close(stop);
                if let Some(above) = &mut self.above {
                    above.note_last(Last::Status(status, verdict));
                }
                Err(self.gave_up(status, verdict))
            }
        }
    }

    /// The end of a call that is not sent at all: with the last result of the same request, or with an error.
    pub(crate) fn end_barred(mut self, barred: Barred<'_>, outgoing: &Outgoing) -> Result<Response> {
        let spent = match barred {
            Barred::Spent(spent) => spent,
            Barred::Late => {
                self.close(StopReason::DeadlinePassed);
                return Err(Error::middleware(RetryError::Refused {
                    outcome: self.outcome.clone().into(),
                    last: None,
                }));
            }
            Barred::Cancelled(operation) => {
                self.close(StopReason::Cancelled);
                // the operation hears of it first
                drop(self);
                return Err(operation.cancelled_call());
            }
        };
        // it does nothing of its own, and leaves what is known as it is
        self.above = None;
        let Spent { standing, last } = *spent;
        self.refused_until = standing.outcome.retry_at();
        self.resume(standing);
        self.close(StopReason::OperationSpent);
        match last {
            Last::Answer(answer) if self.asks_for_an_error(answer.status, &answer.verdict) => {
                Err(self.gave_up(answer.status, answer.verdict))
            }
            Last::Answer(answer) => Ok(self.give_back(Answer::Untouched(answer.response(outgoing.url())))),
            Last::Status(status, verdict) => Err(self.gave_up(status, verdict)),
            Last::Nothing => Err(Error::middleware(RetryError::Refused {
                outcome: self.outcome.clone().into(),
                last: None,
            })),
        }
    }

    /// The end of a call whose send the account refused: with what had been received before, with the refusal that the
    /// provider had given to another call, or with an error.
    pub(crate) fn end_refused(
        mut self,
        refused: Refused,
        failed: Option<Box<(Remnant, Verdict)>>,
        outgoing: &Outgoing,
    ) -> Result<Response> {
        if let Some(failed) = failed {
            let (remnant, verdict) = *failed;
            self.refused_until = refused.retry_at;
            return self.end_late(remnant, verdict, refused.reason);
        }
        self.refused_until = refused.retry_at;
        self.close(refused.reason);
        match refused.remembered {
            Some(answer) if self.asks_for_an_error(answer.status, &answer.verdict) => {
                Err(self.gave_up(answer.status, answer.verdict))
            }
            Some(answer) => Ok(self.give_back(Answer::Untouched(answer.response(outgoing.url())))),
            None => Err(Error::middleware(RetryError::Refused {
                outcome: self.outcome.clone().into(),
                last: refused.said,
            })),
        }
    }

    /// Completes the outcome, and says so.
    fn close(&mut self, stop: StopReason) {
        if stop == StopReason::Succeeded && self.goes_unseen() {
            return self.outcome.end(stop, Duration::ZERO, None);
        }
        let stated = self.outcome.verdict().and_then(Verdict::server_delay);
        let retry_at = stated
            .and_then(|delay| self.received_at.checked_add(delay.duration()))
            .max(self.refused_until);
        self.outcome
            .end(stop, self.reached.saturating_duration_since(self.begun), retry_at);
        // a wait for admission alone is no recovery
        if stop == StopReason::Succeeded && self.outcome.sends() <= 1 {
            return;
        }
        let outcome = &self.outcome;
        self.tell(|call| match stop {
            StopReason::Succeeded => Event::Recovered { call, outcome },
            _ => Event::GaveUp { call, stop, outcome },
        });
    }

    /// An error is asked for, and a loop above would start again on this answer. (A permanent 4xx it would not repeat, and
    /// its body says what to change.)
    fn asks_for_an_error(&self, status: StatusCode, verdict: &Verdict) -> bool {
        let looped = status.is_server_error() || matches!(status.as_u16(), 408 | 409 | 429);
        self.policy.give_up == GiveUp::Error && !self.nested && (looped || verdict.class() != Class::Permanent)
    }

    fn gave_up(&self, status: StatusCode, verdict: Verdict) -> Error {
        Error::middleware(RetryError::GaveUp {
            status,
            verdict,
            outcome: self.outcome.clone().into(),
        })
    }

    /// The response as it was received, with the outcome beside it, and with the word that keeps a caller above, if it
    /// honours it, from doing all of this again.
    #[inline]
    fn give_back(&self, answer: Answer) -> Response {
        let mut response = answer.into_response();
        if self.outcome.is_exhausted() && !self.nested {
            response
                .headers_mut()
                .insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if !self.outcome.is_plain() {
            response.extensions_mut().insert(self.outcome.clone());
        }
        response
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.outcome.has_ended() {
            self.end_wait();
            self.reached = self.clock().now();
            self.close(StopReason::Cancelled);
        }
        if self.nested {
            return;
        }
        if let Some(above) = self.above.take() {
            let standing = Standing {
                outcome: self.outcome.clone(),
                begun: self.begun,
                first_send: self.first_send,
                received_at: self.received_at,
                due: self.due,
            };
            above.settle(standing, self.extensions, self.parts.clock.now());
        }
        self.extensions.remove::<Running>();
        let plain = self.outcome.is_plain();
        match self.extensions.get_mut() {
            // an earlier call's must not pass for this one's
            Some(left) => std::mem::swap(left, &mut self.outcome),
            None if plain => {}
            None => drop(
                self.extensions
                    .insert(std::mem::replace(&mut self.outcome, Outcome::begun())),
            ),
        }
    }
}

/// Is it a stream of events?
#[inline]
fn is_stream(headers: &HeaderMap) -> bool {
    // by reference: every call that goes well asks, and a name that is moved is also dropped
    static CONTENT_TYPE: HeaderName = header::CONTENT_TYPE;
    const EVENTS: &[u8] = b"text/event-stream";
    headers
        .get(&CONTENT_TYPE)
        .and_then(|value| value.as_bytes().get(..EVENTS.len()))
        .is_some_and(|begin| begin.eq_ignore_ascii_case(EVENTS))
}

/// Is the body what it says it is, and not a compressed form of it? `none` is no coding, but servers say so to keep proxies
/// from compressing a stream.
fn is_plain(headers: &HeaderMap) -> bool {
    let coding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    coding.is_none_or(|coding| coding.eq_ignore_ascii_case(b"identity") || coding.eq_ignore_ascii_case(b"none"))
}
