//! The circuit breaker of a lane: whether anything gets through, and how starts resume after an outage. Knows no request,
//! no queue and no rate.
//!
//! Three words of this file:
//!
//! * A *row* is a run of sends of which none got through. It shows an outage only if it comes from several distinct calls
//!   and lasts for some time: the failures of one call are one piece of evidence, and while some sends succeed the breaker
//!   stays closed.
//! * A *survivor* is a send that has been in flight for several times as long as the failures took. It ends the row, as
//!   does a success that was sent after the row began. Without survivors, a model that responds in 20 s would look down
//!   while it serves half of its calls.
//! * *Barren* counts the failures in a row while starts resume, and names a lane in which nothing has got through since
//!   its last failure.

use std::collections::VecDeque;
use std::time::Duration;

use smallvec::SmallVec;

use super::learn::Stamp;
use super::store::{Circuit, RowEvidence};
use super::tick::Tick;
use crate::classify::Verdict;

/// A send that has been in flight for this many times the slowest failure of its row, and for at least [`SURVIVES`], counts
/// as let through. Failures are quick and successes slow, so counting responses alone is biased towards failures.
const SURVIVES_TIMES: u32 = 4;
const SURVIVES: Duration = Duration::from_millis(250);
/// The next probe follows after this fraction of the outage's length so far, so the end of the outage is noticed late by
/// no more than that fraction.
const PROBE_PART: u32 = 4;
/// Each waiting call gets its turn to probe within this time; otherwise it could give up without having been sent.
pub(crate) const TURN: Duration = Duration::from_secs(14);
/// While the outage is shorter than this, [`TURN`] does not shorten the interval.
const SHORT: Duration = Duration::from_secs(10);
/// Beyond this many failed probes, [`TURN`] grows in proportion to their number.
const PROBES_TELLING: u32 = 32;
/// The shortest time between two probes, however many calls wait.
const PROBE_LEAST: Duration = Duration::from_millis(50);
/// Sends in flight at once after the first probe got through. Each send that gets through adds one, so the window doubles
/// with each round trip.
const WINDOW_FIRST: u32 = 2;
/// The same in each process that has heard of it from another: the fewest with which it needs to ask nobody.
const WINDOW_HEARD: u32 = 1;
/// From here on the way up is over.
const WINDOW_LAST: u32 = 512;
/// While starts resume, this many failures in a row, and at least a whole window of them, open the breaker again.
const BARREN: u32 = 5;
/// The most sends of a row that are tracked, and the most calls that are told apart.
const FOLLOWED: usize = 4096;
const MOST_CALLS: usize = 16;

/// When an account stops sending because nothing gets through, and how it probes for the end of the outage.
///
/// Each lane (origin and model) has a breaker of its own, in every account, [`Account::default`](crate::Account::default)
/// included. It opens on failures in a row of several calls over some time: server errors, overloads, broken connections and
/// refusals that state no delay. One success among them keeps it closed, and a send that its caller's deadline cuts, or that
/// is dropped, does not count. An attempt that [`attempt_timeout`](crate::RetryPolicy::attempt_timeout) cuts counts; where
/// nothing but such silence is known, the breaker stops only calls whose own attempt timeout is no longer.
///
/// An open breaker makes calls wait. They keep their place in the queue within their own limits
/// ([`RetryPolicy::max_retry_time`](crate::RetryPolicy::max_retry_time),
/// [`max_queue_time`](crate::RetryPolicy::max_queue_time), [`total_deadline`](crate::RetryPolicy::total_deadline)), and
/// waiting uses up no attempt. With [`RetryPolicy::fail_fast`](crate::RetryPolicy::fail_fast) they end at once instead. One
/// probe at a time is sent, which is one of the waiting calls, the newest first. When a probe gets through, starts resume:
/// two in flight at first, and one more for each send that gets through.
///
/// ```
/// use std::time::Duration;
/// use reqwest_ai_retry::{Account, CircuitBreaker};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // a service with a call every few seconds: go by four failures over ten seconds, and probe every two seconds at most
/// let breaker = CircuitBreaker::new()
///     .min_failures(4)
///     .min_duration(Duration::from_secs(10))
///     .probe_interval(Duration::from_millis(500), Duration::from_secs(2));
/// let account = Account::builder().circuit_breaker(breaker).build()?;
/// // a load test that must send whatever happens
/// let without = Account::builder().circuit_breaker(CircuitBreaker::off()).build()?;
/// # let _ = (account, without); Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct CircuitBreaker {
    /// Whether it opens at all.
    pub on: bool,
    /// See [`min_calls`](Self::min_calls()).
    pub min_calls: u32,
    /// See [`min_failures`](Self::min_failures()).
    pub min_failures: u32,
    /// See [`min_duration`](Self::min_duration()).
    pub min_duration: Duration,
    /// The least and the most; see [`probe_interval`](Self::probe_interval()).
    pub probe_interval: (Duration, Duration),
}

impl CircuitBreaker {
    /// The default: 6 failures in a row, of at least 3 calls, over at least 1.5 s open the breaker; probes follow 0.5 s to 5 s
    /// apart.
    pub const fn new() -> Self {
        Self {
            on: true,
            min_calls: 3,
            min_failures: 6,
            min_duration: Duration::from_millis(1_500),
            probe_interval: (Duration::from_millis(500), Duration::from_secs(5)),
        }
    }

    /// A breaker that never opens.
    pub const fn off() -> Self {
        Self {
            on: false,
            ..Self::new()
        }
    }

    /// The number of distinct calls that must have failed, 1 to 16 (default 3). A request that the provider cannot handle
    /// fails as often as it is sent, which says nothing about the other calls. The attempts of one call count as one.
    pub const fn min_calls(mut self, calls: u32) -> Self {
        self.min_calls = calls;
        self
    }

    /// The number of failures in a row, with no success between them, that open the breaker (default 6: two of each of
    /// [`min_calls`](Self::min_calls), so that a first retry has been tried), if they span
    /// [`min_duration`](Self::min_duration). Three times as many, of three times as many calls (at most 16), suffice over a
    /// sixth of that time: a pool of twenty workers does not have to fail twice.
    pub const fn min_failures(mut self, failures: u32) -> Self {
        self.min_failures = failures;
        self
    }

    /// How long nothing must have got through (default 1.5 s). That is longer than the first wait of the default backoff, so
    /// a failure that one retry cures does not open the breaker.
    pub const fn min_duration(mut self, duration: Duration) -> Self {
        self.min_duration = duration;
        self
    }

    /// The shortest and the longest time between two probes (default 0.5 s and 5 s). Between these bounds it is a quarter of
    /// the outage's length so far: the end of a short outage is noticed soon, and a long one is not hammered. 5 s is the
    /// longest that users should wait for nothing once the provider is back.
    ///
    /// Where many calls wait for longer than 10 s, probes follow faster (at most one in 50 ms), so that each call gets a
    /// turn within about 14 s and none gives up without having been sent.
    pub const fn probe_interval(mut self, least: Duration, most: Duration) -> Self {
        self.probe_interval = (least, most);
        self
    }

    /// The first field with an unusable value, and why it is.
    pub(crate) fn unusable(&self) -> Option<(&'static str, &'static str)> {
        let (least, most) = self.probe_interval;
        if !(1..=MOST_CALLS as u32).contains(&self.min_calls) {
            Some(("circuit_breaker.min_calls", "must be between 1 and 16"))
        } else if self.min_failures == 0 {
            Some(("circuit_breaker.min_failures", "must be greater than zero"))
        } else if least.is_zero() || most < least {
            Some((
                "circuit_breaker.probe_interval",
                "the least must be greater than zero and not greater than the most",
            ))
        } else {
            None
        }
    }

    /// Returns `true` if this many failures, of this many calls, over this time show an outage.
    fn shown_by(&self, failures: u32, calls: u32, lasted: Duration) -> bool {
        let enough = |times: u32| {
            failures >= self.min_failures.saturating_mul(times)
                && calls >= self.min_calls.saturating_mul(times).min(MOST_CALLS as u32)
        };
        self.on && ((enough(1) && lasted >= self.min_duration) || (enough(3) && lasted >= self.min_duration / 6))
    }
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::new()
    }
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerState {
    /// All calls may start.
    Closed,
    /// No call may start before this time.
    Open(Tick),
    /// A probe may start or is in flight, or starts resume step by step.
    HalfOpen,
}

/// The result of an attempt, as far as it shows whether anything gets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The provider processed it: it was served, or rejected for a reason of the request's own.
    Success,
    /// It did not get through: a server error, an overload, a broken connection, a refusal that states no delay.
    Failure,
    /// It did not get through, and the provider stated a delay, which paces the lane by itself.
    Refusal,
    /// Nothing came back within the call's own attempt timeout: evidence only for calls that wait no longer.
    Silence(Duration),
    /// No evidence: the caller cut it, or it concerned this one call alone.
    Neutral,
}

/// Marks a send with the breaker's generation, so that a send from before the last change does not decide what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BreakerToken {
    generation: u32,
    probe: bool,
}

impl BreakerToken {
    /// Of sends that were made before the account was asked for any.
    pub(crate) const EARLY: Self = Self {
        generation: 0,
        probe: false,
    };

    #[inline]
    pub(crate) const fn is_probe(self) -> bool {
        self.probe
    }
}

/// Whether a start may be made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// As the probe, of which there is one at a time.
    Probe,
    /// Not before this time, as far as is known now, unless a response comes earlier.
    Shut(Tick),
}

/// What a signal changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transition {
    Opened,
    Closed,
}

/// The breaker of one lane. While sends succeed it holds nothing but a number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Breaker {
    generation: u32,
    row: Option<Box<Row>>,
}

/// A run of sends of which none got through, and the breaker's reaction to it.
#[derive(Debug, Clone)]
struct Row {
    /// When the first of them was sent.
    began: Tick,
    failures: u32,
    /// Probes that failed.
    probes: u32,
    /// The distinct calls that failed, up to [`MOST_CALLS`].
    calls: SmallVec<[u64; 4]>,
    slowest: Duration,
    /// The longest attempt timeout that passed in silence, while no send has got any response.
    silence: Option<Duration>,
    /// Some send has got a response or an error of the connection.
    spoke: bool,
    /// Sends since the row began that are in flight, in order.
    flying: VecDeque<Stamp>,
    stage: Stage,
    last: Option<Verdict>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// All calls may start; results are counted.
    Watching,
    /// One probe at a time may start, the next at `next`.
    Open {
        since: Tick,
        next: Tick,
        probe: Option<Stamp>,
    },
    /// So many may be in flight; so many in a row have failed.
    Resuming { window: u32, barren: u32, round: Round },
}

/// A round trip on the way up.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Round {
    /// The window that it began with. It ends with twice that.
    first: u32,
    /// The most in flight.
    peak: u32,
}

impl Row {
    fn new(began: Tick) -> Self {
        Self {
            began,
            failures: 0,
            probes: 0,
            calls: SmallVec::new(),
            slowest: Duration::ZERO,
            silence: None,
            spoke: false,
            flying: VecDeque::new(),
            stage: Stage::Watching,
            last: None,
        }
    }

    /// After how long in flight a send counts as let through. `None` where the failures are silences: time in flight then
    /// shows nothing.
    fn survival(&self) -> Option<Duration> {
        let survival = self.slowest.saturating_mul(SURVIVES_TIMES).max(SURVIVES);
        self.silence.is_none().then_some(survival)
    }

    /// How long the probe is waited for before another may start.
    fn patience(&self) -> Duration {
        self.survival().or(self.silence).unwrap_or(SURVIVES)
    }

    fn forget(&mut self, stamp: Stamp) -> bool {
        let at = self.flying.iter().position(|flying| *flying == stamp);
        at.and_then(|at| self.flying.remove(at)).is_some()
    }

    fn note(&mut self, sent: Sent, signal: Signal, verdict: Option<Verdict>, now: Tick) {
        match signal {
            Signal::Silence(cut) if !self.spoke => self.silence = self.silence.max(Some(cut)),
            // others get responses: it is a matter of this call's patience
            Signal::Silence(_) => return,
            _ => {
                if self.silence.take().is_some() {
                    (self.failures, self.probes) = (0, 0);
                    self.calls.clear();
                }
                self.spoke = true;
            }
        }
        if signal != Signal::Refusal {
            if self.failures == 0 {
                self.began = match signal {
                    Signal::Silence(cut) => sent.stamp.at().min(now - cut),
                    _ => sent.stamp.at(),
                };
            }
            self.failures = self.failures.saturating_add(1);
            if !self.calls.contains(&sent.call) && self.calls.len() < MOST_CALLS {
                self.calls.push(sent.call);
            }
        }
        self.slowest = self.slowest.max(now.since(sent.stamp.at()));
        self.last = verdict.or(self.last);
    }

    /// Until the next probe, with so many that wait for it.
    fn interval(&self, settings: &CircuitBreaker, waiting: u32, now: Tick) -> Duration {
        let (least, most) = settings.probe_interval;
        let lasted = now.since(self.began);
        let by_length = (lasted / PROBE_PART).clamp(least, most);
        // in a short outage no call runs out of time; and the more probes have failed, the less likely it is that a small
        // share of sends gets through
        let turn = TURN * self.probes.max(PROBES_TELLING) / PROBES_TELLING;
        let by_turns = if lasted < SHORT { most } else { turn / waiting.max(1) };
        by_length.min(by_turns).max(PROBE_LEAST.min(least))
    }

    /// Something got through: what failed before is past, should it go on failing.
    fn resume(&mut self, window: u32, now: Tick) {
        (self.began, self.failures, self.probes) = (now, 0, 0);
        self.spoke = false;
        self.calls.clear();
        self.stage = Stage::Resuming {
            window,
            barren: 0,
            round: Round { first: window, peak: 0 },
        };
        self.flying.clear();
    }
}

impl Breaker {
    /// The state now.
    pub(crate) fn state(&self, now: Tick) -> BreakerState {
        match self.row.as_ref().map(|row| row.stage) {
            None | Some(Stage::Watching) => BreakerState::Closed,
            Some(Stage::Open { next, probe: None, .. }) if next > now => BreakerState::Open(next),
            Some(Stage::Open { .. } | Stage::Resuming { .. }) => BreakerState::HalfOpen,
        }
    }

    /// Returns `true` if nothing has got through since the last failure.
    pub(crate) fn is_barren(&self) -> bool {
        self.row.is_some()
    }

    /// Returns `true` if it tracks a send in flight.
    #[cfg(test)]
    pub(crate) fn is_followed(&self) -> bool {
        let probing = |row: &Row| matches!(row.stage, Stage::Open { probe: Some(_), .. });
        self.row
            .as_ref()
            .is_some_and(|row| !row.flying.is_empty() || probing(row))
    }

    /// Is this the probe that is out?
    pub(crate) fn is_probed_by(&self, stamp: Stamp) -> bool {
        let probe = self.row.as_ref().map(|row| row.stage);
        matches!(probe, Some(Stage::Open { probe: Some(probe), .. }) if probe == stamp)
    }

    /// When it opened, while it is open.
    pub(crate) fn open_since(&self) -> Option<Tick> {
        match self.row.as_ref()?.stage {
            Stage::Open { since, .. } => Some(since),
            Stage::Watching | Stage::Resuming { .. } => None,
        }
    }

    /// Returns `true` while sends succeed.
    #[inline]
    pub(crate) const fn is_calm(&self) -> bool {
        self.row.is_none()
    }

    /// Returns `true` if it limits starts: it is open, or starts resume.
    #[inline]
    pub(crate) fn paces(&self) -> bool {
        self.row.as_ref().is_some_and(|row| row.stage != Stage::Watching)
    }

    /// Returns `true` if it holds others, but not one that waits so long for an answer.
    #[inline]
    pub(crate) fn lets_pass(&self, attempt_timeout: Option<Duration>) -> bool {
        let passes = |row: &Row| row.stage != Stage::Watching && !row.holds(attempt_timeout);
        self.row.as_deref().is_some_and(passes)
    }

    /// The last verdict, while nothing gets through.
    pub(crate) fn last(&self) -> Option<Verdict> {
        self.row.as_ref()?.last
    }

    /// Whether a call with this attempt timeout may start now.
    #[inline]
    pub(crate) fn gate(&self, attempt_timeout: Option<Duration>, now: Tick) -> Gate {
        match &self.row {
            None => Gate::Open,
            Some(row) => row.gate(attempt_timeout, now),
        }
    }

    /// Records a start.
    #[inline]
    pub(crate) fn start(&mut self, stamp: Stamp, attempt_timeout: Option<Duration>, now: Tick) -> BreakerToken {
        let probe = match &mut self.row {
            None => false,
            Some(row) => row.start(stamp, attempt_timeout, now),
        };
        if probe {
            // whatever is still in flight belongs to an earlier generation, a probe that was given up on included
            self.generation = self.generation.wrapping_add(1);
        }
        BreakerToken {
            generation: self.generation,
            probe,
        }
    }

    /// A send ended without evidence, or was never made.
    #[inline]
    pub(crate) fn release(&mut self, token: BreakerToken, stamp: Stamp, now: Tick) {
        if let Some(row) = &mut self.row {
            row.forget(stamp);
            if let Stage::Open { next, probe, .. } = &mut row.stage
                && *probe == Some(stamp)
                && token.probe
            {
                (*next, *probe) = (now, None);
            }
        }
    }

    /// Lets time pass: sends that have been in flight for long enough count as let through.
    #[inline]
    pub(crate) fn tick(&mut self, waiting: u32, now: Tick) -> Option<Transition> {
        match self.row {
            None => None,
            Some(_) => self.tick_row(waiting, now),
        }
    }

    #[cold]
    fn tick_row(&mut self, waiting: u32, now: Tick) -> Option<Transition> {
        let row = self.row.as_mut()?;
        let survival = row.survival();
        let survived = |stamp: &Stamp| survival.is_some_and(|survival| now.since(stamp.at()) >= survival);
        match &mut row.stage {
            Stage::Watching => {
                if row.flying.front().is_some_and(survived) {
                    self.row = None;
                }
                None
            }
            Stage::Open { probe, .. } => {
                if probe.as_ref().is_some_and(survived) {
                    row.resume(WINDOW_FIRST, now);
                }
                None
            }
            Stage::Resuming { window, barren, round } => {
                while row.flying.front().is_some_and(survived) {
                    row.flying.pop_front();
                    (*window, *barren) = (window.saturating_add(1), 0);
                }
                // after a silence time alone shows nothing, but a send that hangs must not keep its place for ever
                let hung = row.silence.map(|silence| 2 * silence);
                let hangs = |stamp: &Stamp| hung.is_some_and(|hung| now.since(stamp.at()) >= hung);
                while row.flying.front().is_some_and(hangs) {
                    row.flying.pop_front();
                }
                // it is over once it is no longer the window that anything waits for
                let in_flight = u32::try_from(row.flying.len()).unwrap_or(u32::MAX);
                let mut over = *window >= WINDOW_LAST || (waiting == 0 && in_flight < *window);
                if *window >= 2 * round.first {
                    over |= round.peak < round.first;
                    *round = Round {
                        first: *window,
                        peak: in_flight,
                    };
                }
                (over && *window > WINDOW_FIRST).then(|| self.close())
            }
        }
    }

    fn close(&mut self) -> Transition {
        self.row = None;
        self.generation = self.generation.wrapping_add(1);
        Transition::Closed
    }

    /// Records the result of a send.
    #[inline]
    pub(crate) fn record(&mut self, sent: Sent, signal: Signal, lane: LaneView<'_>, now: Tick) -> Option<Transition> {
        match signal {
            Signal::Success if self.row.is_none() => None,
            _ => self.record_in_row(sent, signal, lane, now),
        }
    }

    #[cold]
    fn record_in_row(&mut self, sent: Sent, signal: Signal, lane: LaneView<'_>, now: Tick) -> Option<Transition> {
        let survived = self.tick(lane.waiting, now);
        let changed = match signal {
            Signal::Neutral => {
                self.release(sent.token, sent.stamp, now + lane.settings.probe_interval.0);
                None
            }
            Signal::Success => self.succeed(sent, lane, now),
            Signal::Failure | Signal::Refusal | Signal::Silence(_) => self.fail(sent, signal, lane, now),
        };
        changed.or(survived)
    }

    fn succeed(&mut self, sent: Sent, lane: LaneView<'_>, now: Tick) -> Option<Transition> {
        let row = self.row.as_mut()?;
        row.forget(sent.stamp);
        // a send from before the row began shows nothing about the time since
        if sent.stamp.at() < row.began {
            return None;
        }
        match &mut row.stage {
            Stage::Watching => {
                self.row = None;
                None
            }
            Stage::Open { .. } => {
                row.resume(WINDOW_FIRST, now);
                self.tick(lane.waiting, now)
            }
            Stage::Resuming { window, barren, .. } => {
                (*window, *barren) = (window.saturating_add(1), 0);
                row.spoke = false;
                self.tick(lane.waiting, now)
            }
        }
    }

    fn fail(&mut self, sent: Sent, signal: Signal, lane: LaneView<'_>, now: Tick) -> Option<Transition> {
        let row = self.row.get_or_insert_with(|| Box::new(Row::new(sent.stamp.at())));
        let flew = row.forget(sent.stamp);
        let paced_by_itself = signal == Signal::Refusal;
        let opens = match &mut row.stage {
            Stage::Watching => {
                row.note(sent, signal, lane.verdict, now);
                let calls = u32::try_from(row.calls.len()).unwrap_or(u32::MAX);
                lane.settings.shown_by(row.failures, calls, now.since(row.began))
            }
            Stage::Open { probe, next, .. } => {
                if *probe == Some(sent.stamp) {
                    (*probe, *next) = (None, now);
                    row.probes = row.probes.saturating_add(1);
                    row.note(sent, signal, lane.verdict, now);
                    if !paced_by_itself {
                        row.put_off(lane, now);
                    }
                }
                false
            }
            Stage::Resuming { window, barren, .. } => {
                if !flew {
                    return None;
                }
                *barren = barren.saturating_add(u32::from(!paced_by_itself));
                let opens = *barren >= BARREN.max(*window);
                row.note(sent, signal, lane.verdict, now);
                opens
            }
        };
        if opens {
            self.open(lane, now);
        }
        opens.then_some(Transition::Opened)
    }

    fn open(&mut self, lane: LaneView<'_>, now: Tick) {
        let Some(row) = &mut self.row else { return };
        row.stage = Stage::Open {
            since: now,
            next: now,
            probe: None,
        };
        row.flying.clear();
        row.put_off(lane, now);
        self.generation = self.generation.wrapping_add(1);
    }

    /// The failures that are being counted, and when that began.
    pub(crate) fn evidence(&self, now: Tick) -> Option<(Tick, RowEvidence)> {
        let is_open = |row: &Row| matches!(row.stage, Stage::Open { .. });
        let row = self.row.as_ref().filter(|row| !is_open(row))?;
        let evidence = RowEvidence {
            failures: row.failures,
            calls: u32::try_from(row.calls.len()).unwrap_or(u32::MAX),
            lasted: now.since(row.began),
        };
        (row.failures > 0).then_some((row.began, evidence))
    }

    /// So many failures in a row are known over all processes, of which some are this one's own; `heard` says that all have
    /// had the time to contradict.
    pub(crate) fn judge(&mut self, all: RowEvidence, heard: bool, lane: LaneView<'_>, now: Tick) -> Option<Transition> {
        let opens = match self.row.as_ref()?.stage {
            Stage::Watching => heard && lane.settings.shown_by(all.failures, all.calls, all.lasted),
            // there all listen often
            Stage::Resuming { window, barren, .. } => barren > 0 && all.failures >= BARREN.max(window),
            Stage::Open { .. } => false,
        };
        if opens {
            if let Some(row) = &mut self.row {
                row.began = row.began.min(now - all.lasted);
            }
            self.open(lane, now);
        }
        opens.then_some(Transition::Opened)
    }

    /// Where it stands, as far as others must know of it: while it is open, when the next probe may start.
    pub(crate) fn mark(&self) -> Option<Tick> {
        match self.row.as_ref()?.stage {
            Stage::Open { next, .. } => Some(next),
            Stage::Watching | Stage::Resuming { .. } => None,
        }
    }

    /// Is what came back last a failure?
    pub(crate) fn is_failing(&self) -> bool {
        match self.row.as_ref().map(|row| row.stage) {
            None | Some(Stage::Resuming { barren: 0, .. }) => false,
            Some(Stage::Watching | Stage::Open { .. } | Stage::Resuming { .. }) => true,
        }
    }

    /// While starts resume, how many fit now.
    pub(crate) fn room(&self) -> Option<u32> {
        let row = self.row.as_ref()?;
        match row.stage {
            Stage::Resuming { window, .. } => {
                Some(window.saturating_sub(u32::try_from(row.flying.len()).unwrap_or(u32::MAX)))
            }
            Stage::Watching | Stage::Open { .. } => None,
        }
    }

    /// Where it stands, as others are told.
    pub(crate) fn circuit(&self, now: Tick) -> Circuit {
        let Some(row) = self.row.as_ref() else {
            return Circuit::default();
        };
        let Stage::Open { next, probe, .. } = row.stage else {
            return Circuit::default();
        };
        let until = probe.map_or(next, |probe| probe.at() + row.patience());
        Circuit {
            open: true,
            left: until.since(now),
            lasted: now.since(row.began),
            patience: row.patience(),
            silent: row.silence.is_some(),
        }
    }

    /// Others have found that it stands so, at `at`.
    pub(crate) fn adopt(&mut self, circuit: Circuit, at: Tick, now: Tick) {
        let was_open = self.open_since();
        self.generation = self.generation.wrapping_add(1);
        match (&mut self.row, circuit.open) {
            (row, true) => {
                let row = row.get_or_insert_with(|| Box::new(Row::new(at - circuit.lasted)));
                row.began = row.began.min(at - circuit.lasted);
                match circuit.silent {
                    true if !row.spoke => row.silence = row.silence.max(Some(circuit.patience)),
                    true => {}
                    false => {
                        row.slowest = row.slowest.max(circuit.patience / SURVIVES_TIMES);
                        (row.silence, row.spoke) = (None, true);
                    }
                }
                row.stage = Stage::Open {
                    since: was_open.unwrap_or(now),
                    next: at + circuit.left,
                    probe: None,
                };
                row.flying.clear();
            }
            (Some(row), false) if was_open.is_some() => row.resume(WINDOW_HEARD, now),
            (_, false) => {}
        }
    }

    /// Makes the next start the probe of all processes that share the lane.
    pub(crate) fn let_probe(&mut self, now: Tick) {
        if let Some(row) = &mut self.row
            && let Stage::Open { next, probe, .. } = &mut row.stage
        {
            (*next, *probe) = (now, None);
        }
    }
}

impl Row {
    #[cold]
    fn gate(&self, attempt_timeout: Option<Duration>, now: Tick) -> Gate {
        match self.stage {
            Stage::Watching => Gate::Open,
            // a silence is evidence only for calls that wait no longer
            Stage::Open { .. } | Stage::Resuming { .. } if !self.holds(attempt_timeout) => Gate::Open,
            Stage::Open { probe: Some(probe), .. } => {
                let until = probe.at() + self.patience();
                if until > now || self.silence.is_none() {
                    Gate::Shut(until)
                } else {
                    Gate::Probe
                }
            }
            Stage::Open { next, .. } if next > now => Gate::Shut(next),
            Stage::Open { .. } => Gate::Probe,
            Stage::Resuming { window, .. } if self.flying.len() < window as usize => Gate::Open,
            Stage::Resuming { .. } => {
                let first = self.flying.front().map_or(now, |first| first.at());
                let longest = self.survival().or(self.silence.map(|silence| 2 * silence));
                Gate::Shut(longest.map_or(Tick::NEVER, |longest| first + longest))
            }
        }
    }

    fn holds(&self, attempt_timeout: Option<Duration>) -> bool {
        let Some(silence) = self.silence else { return true };
        attempt_timeout.is_some_and(|timeout| timeout <= silence)
    }

    #[cold]
    fn start(&mut self, stamp: Stamp, attempt_timeout: Option<Duration>, now: Tick) -> bool {
        if self.stage != Stage::Watching && !self.holds(attempt_timeout) {
            return false;
        }
        let probes = self.gate(attempt_timeout, now) == Gate::Probe;
        if self.flying.len() < FOLLOWED {
            self.flying.push_back(stamp);
        }
        match &mut self.stage {
            Stage::Open { probe, .. } if probes => *probe = Some(stamp),
            Stage::Resuming { round, .. } => {
                let in_flight = u32::try_from(self.flying.len()).unwrap_or(u32::MAX);
                round.peak = round.peak.max(in_flight);
            }
            Stage::Watching | Stage::Open { .. } => {}
        }
        probes
    }

    /// Puts the next probe off by the interval.
    fn put_off(&mut self, lane: LaneView<'_>, now: Tick) {
        let interval = self.interval(lane.settings, lane.waiting, now);
        if let Stage::Open { next, .. } = &mut self.stage {
            *next = now + interval;
        }
    }
}

/// A send as the breaker knows it: its token, its number and time, and its call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) token: BreakerToken,
    pub(crate) stamp: Stamp,
    pub(crate) call: u64,
}

/// What a breaker needs to know of its lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneView<'a> {
    pub(crate) settings: &'a CircuitBreaker,
    pub(crate) waiting: u32,
    pub(crate) verdict: Option<Verdict>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::learn::Rate;
    use super::*;

    const SETTINGS: CircuitBreaker = CircuitBreaker::new();

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A breaker, and what is in flight.
    struct World {
        breaker: Breaker,
        settings: CircuitBreaker,
        now: Tick,
        waiting: u32,
        rate: Rate,
        calls: u64,
    }

    impl World {
        fn new() -> Self {
            let now = Tick::default();
            Self {
                breaker: Breaker::default(),
                settings: SETTINGS,
                now,
                waiting: 0,
                rate: Rate::free(now),
                calls: 0,
            }
        }

        fn wait(&mut self, millis: u64) {
            self.now = self.now + ms(millis);
        }

        fn gate(&self) -> Gate {
            self.breaker.gate(None, self.now)
        }

        /// A send of this call, which waits so long for an answer.
        fn send_of(&mut self, call: u64, attempt_timeout: Option<Duration>) -> Sent {
            assert!(!matches!(self.breaker.gate(attempt_timeout, self.now), Gate::Shut(_)));
            let stamp = self.rate.start(self.now);
            let token = self.breaker.start(stamp, attempt_timeout, self.now);
            Sent { token, stamp, call }
        }

        fn send(&mut self) -> Sent {
            self.calls += 1;
            self.send_of(self.calls, None)
        }

        fn end(&mut self, sent: Sent, signal: Signal) -> Option<Transition> {
            let view = LaneView {
                settings: &self.settings,
                waiting: self.waiting,
                verdict: None,
            };
            self.breaker.record(sent, signal, view, self.now)
        }

        fn fail(&mut self) -> Option<Transition> {
            let sent = self.send();
            self.end(sent, Signal::Failure)
        }

        /// Six failures over 1.5 s: open, with the first probe half a second later.
        fn opened() -> Self {
            let mut world = Self::new();
            for failures in 1..=6 {
                assert_eq!(world.fail(), (failures == 6).then_some(Transition::Opened));
                world.wait(if failures < 6 { 300 } else { 0 });
            }
            world
        }

        /// The next probe, once it may go.
        fn probe(&mut self) -> Sent {
            if let Gate::Shut(until) = self.gate() {
                self.now = until;
            }
            assert_eq!(self.gate(), Gate::Probe);
            let probe = self.send();
            assert!(probe.token.is_probe());
            probe
        }

        /// Until the next probe may go after one that failed.
        fn spacing(&mut self) -> Duration {
            let probe = self.probe();
            self.end(probe, Signal::Failure);
            match self.gate() {
                Gate::Shut(until) => until.since(self.now),
                gate => panic!("{gate:?}"),
            }
        }

        /// The first probe has got through.
        fn resuming() -> Self {
            let mut world = Self::opened();
            world.waiting = 1_000;
            let probe = world.probe();
            assert_eq!(world.end(probe, Signal::Success), None);
            world
        }

        /// As many as may start now.
        fn fill(&mut self) -> Vec<Sent> {
            let mut sent = Vec::new();
            while self.breaker.paces() && self.gate() == Gate::Open {
                sent.push(self.send());
            }
            sent
        }
    }

    /// Failures, the calls that they are of and the time from the first to the last: what is an outage.
    #[test]
    fn a_row_is_of_several_calls_over_some_time() {
        for (failures, calls, over, opens) in [
            (6, 3, 1_500, true),
            (6, 6, 1_500, true),
            (5, 5, 10_000, false),
            (6, 2, 60_000, false),
            (1_000, 1, 60_000, false),
            (6, 3, 1_495, false),
            (18, 9, 250, true),
            (18, 8, 1_490, false),
            (17, 17, 1_490, false),
            (18, 18, 240, false),
            (1_000, 1_000, 0, false),
        ] {
            let mut world = World::new();
            for failure in 0..failures {
                world.now = Tick::default() + ms(over) * failure / (failures - 1);
                let sent = world.send_of(u64::from(failure % calls), None);
                let opened = world.end(sent, Signal::Failure).is_some();
                if failure + 1 < failures {
                    assert!(!opened, "{failures} of {calls} over {over}: by {failure}");
                } else {
                    assert_eq!(opened, opens, "{failures} of {calls} over {over}");
                }
            }
        }
    }

    #[test]
    fn a_row_begins_when_its_first_was_sent() {
        let mut world = World::new();
        let slow: Vec<_> = (0..6).map(|_| world.send()).collect();
        world.wait(1_500);
        let changes: Vec<_> = slow.into_iter().map(|sent| world.end(sent, Signal::Failure)).collect();
        assert_eq!(changes.last(), Some(&Some(Transition::Opened)));
    }

    #[test]
    fn a_success_ends_a_row_if_it_was_sent_after_the_row_began() {
        let mut world = World::new();
        let before = world.send();
        world.wait(10);
        for _ in 0..5 {
            world.fail();
            world.wait(300);
        }
        world.end(before, Signal::Success);
        assert!(world.breaker.is_barren(), "it says nothing of the time since");
        let after = world.send();
        world.fail();
        assert!(world.breaker.paces());

        let mut world = World::new();
        for failures in 0..50 {
            world.fail();
            world.wait(300);
            if failures % 5 == 0 {
                let sent = world.send();
                world.end(sent, Signal::Success);
                assert!(!world.breaker.is_barren());
            }
        }
        assert!(!world.breaker.paces());
        let _ = after;
    }

    /// A stated delay, a cut by the caller and what is about one call alone are no evidence, and end no row either.
    #[test]
    fn neutral_ends_and_stated_delays_do_not_count() {
        for signal in [Signal::Neutral, Signal::Refusal] {
            let mut world = World::new();
            for _ in 0..100 {
                let sent = world.send();
                world.end(sent, signal);
                world.wait(300);
            }
            assert!(!world.breaker.paces(), "{signal:?}");
            let mut opened = None;
            for _ in 0..6 {
                let sent = world.send();
                world.end(sent, signal);
                opened = world.fail();
                world.wait(300);
            }
            assert_eq!(opened, Some(Transition::Opened), "{signal:?}");
        }
    }

    /// Failures are quick and successes slow: what is in flight for much longer has got through.
    #[test]
    fn a_survivor_ends_a_row() {
        let mut world = World::new();
        for _ in 0..50 {
            world.fail();
            let _slow = world.send();
            world.wait(100);
            world.breaker.tick(0, world.now);
        }
        assert!(!world.breaker.paces());
        // but not one that has been in flight no longer than failures take
        let mut world = World::new();
        let first = world.send();
        world.wait(100);
        world.end(first, Signal::Failure);
        let _slow = world.send();
        world.wait(4 * 100 - 1);
        world.breaker.tick(0, world.now);
        assert!(world.breaker.is_barren());
        world.wait(1);
        world.breaker.tick(0, world.now);
        assert!(!world.breaker.is_barren());
    }

    /// Where nothing came back within the callers' own time, those that wait longer are not held, and no time in flight shows
    /// that anything got through.
    #[test]
    fn a_silence_holds_those_that_wait_no_longer() {
        let mut world = World::new();
        let cut = ms(1_000);
        let _patient = world.send();
        for call in 0..6 {
            let sent = world.send_of(call, Some(cut));
            world.wait(1_000);
            world.end(sent, Signal::Silence(cut));
        }
        world.breaker.tick(0, world.now);
        assert!(world.breaker.paces());
        let gate = |world: &World, timeout: Option<u64>| world.breaker.gate(timeout.map(ms), world.now);
        for (timeout, held) in [
            (Some(500), true),
            (Some(1_000), true),
            (Some(1_001), false),
            (None, false),
        ] {
            assert_eq!(matches!(gate(&world, timeout), Gate::Shut(_)), held, "{timeout:?}");
            assert_eq!(world.breaker.lets_pass(timeout.map(ms)), !held);
        }
        // no probe: it is none of those that are held
        let patient = world.send();
        assert!(!patient.token.is_probe());
        world.wait(1_500);
        assert_eq!(gate(&world, Some(1_000)), Gate::Probe);
        // an answer to it lets the others try again, a few at a time, and is none of theirs
        world.end(patient, Signal::Success);
        assert_eq!(gate(&world, None), Gate::Open);
        world.waiting = 100;
        for call in 0..2 {
            world.send_of(call, Some(cut));
        }
        assert!(matches!(gate(&world, Some(1_000)), Gate::Shut(_)));
        assert_eq!(gate(&world, None), Gate::Open);
    }

    /// Once a send has failed otherwise, something comes back: cuts are then a matter of their callers, and failures count for
    /// all.
    #[test]
    fn cuts_beside_other_failures_are_neutral() {
        let mut world = World::new();
        for call in 0..6 {
            let sent = world.send_of(call, Some(ms(1_000)));
            world.wait(1_000);
            let signal = if call == 3 {
                Signal::Failure
            } else {
                Signal::Silence(ms(1_000))
            };
            world.end(sent, signal);
        }
        assert!(!world.breaker.paces());
        for call in 6..12 {
            if !world.breaker.paces() {
                let sent = world.send_of(call, Some(ms(1_000)));
                world.wait(300);
                world.end(sent, Signal::Failure);
            }
        }
        assert!(world.breaker.paces() && !world.breaker.lets_pass(None));
    }

    /// A part of the outage's length so far, between two bounds.
    #[test]
    fn probes_come_further_apart_the_longer_it_lasts() {
        let mut world = World::opened();
        let (least, most) = SETTINGS.probe_interval;
        let mut before = Duration::ZERO;
        for _ in 0..40 {
            let spacing = world.spacing();
            let lasted = world.now.since(Tick::default());
            assert_eq!(spacing, (lasted / PROBE_PART).clamp(least, most));
            assert!(spacing >= before);
            before = spacing;
        }
        assert_eq!(before, most);
    }

    /// Each of those that wait has its turn in time, and where it was all in vain that takes longer and longer.
    #[test]
    fn probes_come_closer_where_many_wait() {
        let mut world = World::opened();
        world.waiting = 140;
        world.wait(10_000);
        let first = world.spacing();
        assert_eq!(first, TURN / 140);
        let spacings: Vec<_> = (0..200).map(|_| world.spacing()).collect();
        assert!(
            spacings[..PROBES_TELLING as usize - 2]
                .iter()
                .all(|spacing| *spacing == first)
        );
        assert!(spacings.is_sorted() && spacings[199] > 6 * first, "{spacings:?}");
        world.waiting = 1_000_000;
        world.spacing();
        assert_eq!(world.spacing(), PROBE_LEAST);
    }

    #[test]
    fn one_probe_is_out_at_a_time() {
        let mut world = World::opened();
        let probe = world.probe();
        for _ in 0..20 {
            assert!(matches!(world.gate(), Gate::Shut(_)));
            world.wait(10);
        }
        world.end(probe, Signal::Failure);
        assert!(matches!(world.gate(), Gate::Shut(until) if until > world.now));
        assert_eq!(world.breaker.state(world.now), BreakerState::Open(world.now + ms(550)));
    }

    /// A probe that was let in by no word for long has got through.
    #[test]
    fn a_probe_that_survives_has_got_through() {
        let mut world = World::opened();
        let probe = world.probe();
        world.wait(249);
        world.breaker.tick(10, world.now);
        assert!(matches!(world.gate(), Gate::Shut(_)));
        world.wait(1);
        world.breaker.tick(10, world.now);
        assert_eq!(
            (world.gate(), world.breaker.state(world.now)),
            (Gate::Open, BreakerState::HalfOpen)
        );
        // its failure after that is one of many, and not the probe's
        assert_eq!(world.end(probe, Signal::Failure), None);
        assert_eq!(world.gate(), Gate::Open);
    }

    /// What was sent before the breaker opened, or by a probe that was replaced, decides nothing.
    #[test]
    fn late_ends_of_earlier_sends_decide_nothing() {
        let mut world = World::new();
        let early: Vec<_> = (0..20).map(|_| world.send()).collect();
        for _ in 0..6 {
            world.wait(300);
            world.fail();
        }
        assert!(world.breaker.paces());
        let probe = world.probe();
        for (sent, signal) in early
            .into_iter()
            .zip([Signal::Failure, Signal::Success, Signal::Neutral].into_iter().cycle())
        {
            assert_eq!(world.end(sent, signal), None);
            assert!(matches!(world.gate(), Gate::Shut(_)), "{signal:?}");
            assert!(world.breaker.open_since().is_some());
        }
        world.end(probe, Signal::Success);
        assert_eq!(world.breaker.open_since(), None);

        // a silence: the probe is passed by once it took as long
        let mut world = World::new();
        let cut = ms(2_000);
        for call in 0..6 {
            let sent = world.send_of(call, Some(cut));
            world.wait(2_000);
            world.end(sent, Signal::Silence(cut));
        }
        world.wait(5_000);
        let first = world.send_of(10, Some(cut));
        assert!(first.token.is_probe());
        world.wait(1_999);
        assert!(matches!(world.breaker.gate(Some(cut), world.now), Gate::Shut(_)));
        world.wait(1);
        let second = world.send_of(11, Some(cut));
        assert!(second.token.is_probe() && second.token != first.token);
        world.end(first, Signal::Silence(cut));
        assert!(matches!(world.breaker.gate(Some(cut), world.now), Gate::Shut(until) if until == world.now + cut));
        world.breaker.release(first.token, first.stamp, world.now);
        assert!(matches!(world.breaker.gate(Some(cut), world.now), Gate::Shut(_)));
    }

    /// A probe that is never made, or whose caller gives up, makes way for the next.
    #[test]
    fn a_probe_is_given_back() {
        let mut world = World::opened();
        let probe = world.probe();
        world.breaker.release(probe.token, probe.stamp, world.now);
        assert_eq!(world.gate(), Gate::Probe);
        let next = world.send();
        assert!(next.token.is_probe());
        // what its caller cut says nothing, and the next comes a little later
        world.end(next, Signal::Neutral);
        assert_eq!(world.gate(), Gate::Shut(world.now + SETTINGS.probe_interval.0));
        // one that is given back twice is given back once
        let third = world.probe();
        world.breaker.release(next.token, next.stamp, world.now);
        assert!(matches!(world.gate(), Gate::Shut(_)));
        world.end(third, Signal::Success);
        assert_eq!(world.gate(), Gate::Open);
    }

    /// A delay that was told to the probe paces the lane by itself: the next goes once that is over.
    #[test]
    fn a_probe_that_is_told_a_delay_is_followed_without_another() {
        let mut world = World::opened();
        let probe = world.probe();
        world.end(probe, Signal::Refusal);
        assert_eq!(world.gate(), Gate::Probe);
    }

    #[test]
    fn starts_resume_by_doubling_until_another_limit_holds_them() {
        let mut world = World::resuming();
        let mut rounds = Vec::new();
        let closed = loop {
            let sent = world.fill();
            rounds.push(sent.len());
            world.wait(100);
            let changes: Vec<_> = sent.into_iter().map(|sent| world.end(sent, Signal::Success)).collect();
            if changes.contains(&Some(Transition::Closed)) {
                break changes;
            }
        };
        assert_eq!(rounds, [2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(closed.last(), Some(&Some(Transition::Closed)));
        assert!(!world.breaker.is_barren() && world.gate() == Gate::Open);

        // no more than three start for other reasons
        let mut world = World::resuming();
        let mut successes = 0;
        while world.breaker.paces() {
            let mut sent = Vec::new();
            while sent.len() < 3 && world.gate() == Gate::Open {
                sent.push(world.send());
            }
            world.wait(100);
            for sent in sent {
                world.end(sent, Signal::Success);
                successes += 1;
            }
        }
        assert!((4..=16).contains(&successes), "{successes}");

        // nobody waits any more
        let mut world = World::resuming();
        world.waiting = 0;
        let sent = world.send();
        assert_eq!(world.end(sent, Signal::Success), Some(Transition::Closed));
    }

    /// Answers that take long are not waited for: what is in flight for longer than failures take has got through.
    #[test]
    fn survivors_let_starts_resume_too() {
        let mut world = World::resuming();
        let mut rounds = Vec::new();
        for _ in 0..4 {
            rounds.push(world.fill().len());
            world.wait(250);
            world.breaker.tick(world.waiting, world.now);
        }
        assert_eq!(rounds, [2, 4, 8, 16]);
    }

    #[test]
    fn failures_on_the_way_up_open_it_again() {
        let mut world = World::resuming();
        let mut changes = Vec::new();
        while world.breaker.open_since().is_none() {
            changes.push(world.fail());
            assert!(changes.len() <= BARREN as usize);
        }
        assert_eq!(changes.len(), BARREN as usize);
        assert_eq!(changes.last(), Some(&Some(Transition::Opened)));
        // the row is a new one: the next probe comes soon
        assert_eq!(world.gate(), Gate::Shut(world.now + SETTINGS.probe_interval.0));
        // a success between them does not
        let mut world = World::resuming();
        for send in 1..100 {
            if world.breaker.paces() && world.gate() == Gate::Open {
                let sent = world.send();
                let signal = if send % 4 == 0 {
                    Signal::Success
                } else {
                    Signal::Failure
                };
                assert_ne!(world.end(sent, signal), Some(Transition::Opened));
            }
        }
    }

    #[test]
    fn one_that_is_off_never_opens() {
        let mut world = World::new();
        world.settings = CircuitBreaker::off();
        for _ in 0..1_000 {
            assert_eq!(world.fail(), None);
            world.wait(100);
        }
        assert_eq!(
            (world.gate(), world.breaker.state(world.now)),
            (Gate::Open, BreakerState::Closed)
        );
    }

    #[derive(Debug, Clone)]
    enum Op {
        Send { call: u64, timeout: Option<u64> },
        End { at: usize, how: u8 },
        Release(usize),
        Wait(u64),
        Waiting(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0u64..12, proptest::option::of(100u64..3_000)).prop_map(|(call, timeout)| Op::Send { call, timeout }),
            4 => (0usize..20, 0u8..12).prop_map(|(at, how)| Op::End { at, how }),
            1 => (0usize..20).prop_map(Op::Release),
            2 => (0u64..2_000).prop_map(Op::Wait),
            1 => (0u32..100).prop_map(Op::Waiting),
        ]
    }

    /// A send in flight, and how long its caller waits.
    type Flight = (Sent, Option<Duration>);

    /// The probes that are out, those left aside that were waited for as long as the silence of the row.
    fn probes(world: &World, flying: &[Flight]) -> usize {
        let patience = world.breaker.row.as_ref().map(|row| row.patience());
        let out = |(sent, _): &&Flight| {
            sent.token.is_probe()
                && sent.token.generation == world.breaker.generation
                && patience.is_some_and(|patience| world.now.since(sent.stamp.at()) < patience)
        };
        flying.iter().filter(out).count()
    }

    proptest! {
        /// Whatever comes back in whatever order: one probe at a time, nobody waits for ever, and what was sent before an
        /// opening does not decide what comes after.
        #[test]
        fn signals_in_any_order_leave_it_sound(mostly_fails: bool, ops in proptest::collection::vec(op(), 0..400)) {
            let mut world = World::new();
            let mut flying: Vec<Flight> = Vec::new();
            for op in ops {
                world.breaker.tick(world.waiting, world.now);
                match op {
                    Op::Send { call, timeout } => {
                        let timeout = timeout.map(ms);
                        let gate = world.breaker.gate(timeout, world.now);
                        if matches!(gate, Gate::Shut(_)) {
                            continue;
                        }
                        let out = probes(&world, &flying);
                        let sent = world.send_of(call, timeout);
                        prop_assert_eq!(sent.token.is_probe(), gate == Gate::Probe);
                        prop_assert!(!sent.token.is_probe() || out == 0);
                        flying.push((sent, timeout));
                    }
                    Op::End { at, how } if !flying.is_empty() => {
                        let (sent, timeout) = flying.swap_remove(at % flying.len());
                        let signal = match (how, timeout) {
                            (0, _) => Signal::Neutral,
                            (1, _) => Signal::Refusal,
                            (2..4, Some(timeout)) => Signal::Silence(timeout),
                            (4..6, _) if !mostly_fails => Signal::Success,
                            (6, _) => Signal::Success,
                            _ => Signal::Failure,
                        };
                        let open = world.breaker.open_since();
                        let is_probe = matches!(
                            world.breaker.row.as_ref().map(|row| row.stage),
                            Some(Stage::Open { probe: Some(probe), .. }) if probe == sent.stamp
                        );
                        let began = world.breaker.row.as_ref().map(|row| row.began);
                        world.end(sent, signal);
                        if open.is_some() && !is_probe && (signal != Signal::Success || began > Some(sent.stamp.at())) {
                            prop_assert_eq!(world.breaker.open_since(), open, "{:?}", signal);
                        }
                    }
                    Op::Release(at) if !flying.is_empty() => {
                        let (sent, _) = flying.swap_remove(at % flying.len());
                        world.breaker.release(sent.token, sent.stamp, world.now);
                    }
                    Op::End { .. } | Op::Release(_) => {}
                    Op::Wait(millis) => world.wait(millis),
                    Op::Waiting(waiting) => world.waiting = waiting,
                }
                let followed = world.breaker.row.as_ref().map_or(0, |row| row.flying.len());
                prop_assert!(followed <= flying.len());
            }
            for (sent, _) in flying {
                world.breaker.release(sent.token, sent.stamp, world.now);
            }
            prop_assert!(!world.breaker.is_followed());
            let soon = world.now + SETTINGS.probe_interval.1;
            for timeout in [None, Some(ms(100))] {
                let gate = world.breaker.gate(timeout, soon);
                prop_assert!(!matches!(gate, Gate::Shut(_)), "{:?}", gate);
            }
            // and once all goes well it is closed
            world.now = soon;
            world.waiting = 0;
            for _ in 0..4 {
                let sent = world.send_of(1, Some(ms(100)));
                world.end(sent, Signal::Success);
                world.wait(1);
            }
            prop_assert_eq!(world.breaker.state(world.now), BreakerState::Closed);
        }
    }
}
