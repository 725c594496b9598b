//! Who of those that wait is called when, and how one takes its start. Knows no future: a waiter, or a driver, comes in as a
//! poll, and goes out as a waker to ring.
//!
//! A start is never given to one that waits. The first whose start fits is *called*: its waker is rung, and it takes the start
//! by its own poll, in one step, under the lock. What it takes is therefore in the hands of one that runs, and one that does
//! not poll holds nothing. It holds nobody up either: one that was called and has not polled within [`GRACE`] is set aside, and
//! the next are called, twice as many in each step, so that whatever number of them are not polled is passed by in few steps.
//! One that is set aside is in no line, so that the others' admissions do not meet it again; it keeps its order, and when it
//! polls at last it is again where it stood. Since it has shown that it is slow and not gone, it is waited for longer the next
//! time: else the waiters of a busy runtime would be passed by for ever by those of a quick one.

use super::super::driver::DriverId;
use super::*;

/// How long one that was called is waited for: much longer than a runtime takes to poll what is woken, and short beside the
/// time between two starts.
const GRACE: Duration = Duration::from_millis(10);
/// The same for one that came late before, as long as nobody else was waited for in vain: with the steps of the others, 40 that
/// are not polled are passed by within a tenth of a second.
const GRACE_IF_LATE: Duration = Duration::from_millis(40);

/// So many are called at once where that many fit.
const CALLED_TOGETHER: usize = 32;
/// More than ever wait.
const WIDEST: usize = 1 << 24;

/// What is to come for those that wait.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Next {
    /// When to look again.
    pub(super) at: Option<Tick>,
    /// Somebody goes before whoever comes: a retry?
    pub(super) blocked: Option<bool>,
}

/// Those that were called, and have neither polled since nor been set aside.
#[derive(Debug)]
pub(super) struct Calls {
    /// As they were called, and until when they are waited for.
    live: VecDeque<(Place, Tick)>,
    load: Load,
    retries: u32,
    /// So many are called for one start.
    width: usize,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            live: VecDeque::new(),
            load: Load::default(),
            retries: 0,
            width: 1,
        }
    }
}

impl Calls {
    fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    fn forget(&mut self, waiter: &Waiter) {
        self.load.take(waiter.weights);
        self.retries = self.retries.saturating_sub(u32::from(waiter.retry));
    }
}

/// One of those that look after the time.
#[derive(Debug)]
pub(crate) struct Driver {
    id: DriverId,
    /// `None` while it is about to look.
    waker: Option<Waker>,
    /// Until then it sleeps.
    armed: Tick,
}

/// The one that polls now.
#[derive(Debug, Clone, Copy)]
struct Poller {
    place: Place,
    /// It was called since it last polled.
    called: bool,
}

/// The first in order that no limit of its lane holds back.
struct First {
    rank: Rank,
    lane: u32,
    weights: Weights,
    waits: Waits,
}

/// What it waits for besides its turn.
enum Waits {
    Nothing,
    Until(Tick),
    /// For something else to happen.
    Else,
}

impl Lane {
    #[inline]
    fn line(&mut self, retry: bool) -> &mut Line {
        if retry { &mut self.retries } else { &mut self.fresh }
    }

    /// The line whose head is the lane's next.
    #[inline]
    fn first_line(&self) -> &Line {
        if self.retries.is_empty() {
            &self.fresh
        } else {
            &self.retries
        }
    }

    #[inline]
    fn first_line_mut(&mut self) -> &mut Line {
        let retry = !self.retries.is_empty();
        self.line(retry)
    }

    /// Stands nobody in its lines?
    #[inline]
    fn is_vacant(&self) -> bool {
        self.retries.is_empty() && self.fresh.is_empty()
    }
}

impl State {
    /// Joins the queue.
    pub(crate) fn join(&mut self, lane: u32, weights: Weights, retry: bool, bound: Option<Tick>) -> Option<Place> {
        let queue = self.lanes.get_mut(lane as usize)?;
        let place = self.waiters.join(queue.line(retry), lane, weights, bound, retry)?;
        if queue.waiting() == 1 {
            self.busy.push(lane);
        }
        self.demand(lane);
        Some(place)
    }

    /// What one that waits asks by each of its polls: its start if that fits now and it is its turn. Else its waker is kept.
    pub(crate) fn poll(&mut self, place: Place, waker: &Waker, now: Tick, woken: &mut Vec<Waker>) -> Polled {
        let called = self.come_back(place);
        let (next, started) = self.dispatch(Some(Poller { place, called }), now, woken);
        self.ring_drivers(next.at, woken);
        if let Some(answer) = started.or_else(|| self.waiters.take_answer(place).map(Err)) {
            return Polled::Answered(answer);
        }
        let Some(waiter) = self.waiters.get_mut(place) else {
            return Polled::Answered(Err(Refusal::lost()));
        };
        if !waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            waiter.waker = Some(waker.clone());
        }
        Polled::Wait
    }

    /// One that was called polls: it is in its line again. Returns `false` if it was there.
    fn come_back(&mut self, place: Place) -> bool {
        let Some(waiter) = self.waiters.get(place) else {
            return false;
        };
        let (lane, retry) = (waiter.lane, waiter.retry);
        let Some(queue) = self.lanes.get_mut(lane as usize) else {
            return false;
        };
        let was_idle = queue.waiting() == 0;
        let called = self.waiters.come_back(place, queue.line(retry));
        if called {
            if was_idle {
                self.busy.push(lane);
            }
            self.uncall(place);
            self.demand(lane);
        }
        called
    }

    /// It does not count as called any more.
    fn uncall(&mut self, place: Place) {
        let calls = &mut self.calls;
        if let Some(at) = calls.live.iter().position(|(called, _)| *called == place) {
            calls.live.remove(at);
            if let Some(waiter) = self.waiters.get(place) {
                calls.forget(waiter);
            }
        }
    }

    /// Leaves the queue, unless it is answered; then the answer.
    fn leave(&mut self, place: Place, now: Tick, woken: &mut Vec<Waker>) -> Option<Refusal> {
        let answer = self.waiters.take_answer(place);
        if answer.is_none() {
            let waiter = self.waiters.get(place)?;
            let (lane, retry) = (waiter.lane, waiter.retry);
            self.uncall(place);
            let queue = self.lanes.get_mut(lane as usize)?;
            self.waiters.leave(place, queue.line(retry));
            self.is_idle_now(lane);
        }
        self.settle(now, woken);
        answer
    }

    /// If nobody waits in it any more, it is not busy.
    fn is_idle_now(&mut self, lane: u32) {
        if self.lanes.get(lane as usize).is_none_or(|queue| queue.waiting() == 0) {
            self.busy.retain(|busy| *busy != lane);
        }
    }

    /// Stops waiting without an answer.
    pub(crate) fn cancel(&mut self, place: Place, now: Tick, woken: &mut Vec<Waker>) {
        self.leave(place, now, woken);
    }

    /// The caller's time has come while it waited.
    pub(crate) fn expire(&mut self, place: Place, now: Tick, woken: &mut Vec<Waker>) -> Refusal {
        let waits = self.waiters.get(place).map(|waiter| (waiter.lane, waiter.weights));
        if let Some(refusal) = self.leave(place, now, woken) {
            return refusal;
        }
        let Some((lane, weights)) = waits else {
            return Refusal::lost();
        };
        let at = match self.when(lane, weights, Load::default(), now) {
            When::At(at, ..) => Some(at),
            When::Now | When::Later(_) | When::Never(_) => None,
        };
        self.too_late(lane, at, now, now)
    }

    /// Calls those whose starts fit now, the retries first and else in the order of arrival, and says when to look again. One
    /// that polls now is not called: if it is its turn, it has its start.
    fn dispatch(&mut self, mut poller: Option<Poller>, now: Tick, woken: &mut Vec<Waker>) -> (Next, Option<Answer>) {
        self.pass_by(now);
        let mut started = None;
        loop {
            let (next, first) = self.first(now, woken);
            let called_retry = self.calls.retries > 0;
            let (until, by_retry) = match first {
                Some(First {
                    rank,
                    lane,
                    weights,
                    waits: Waits::Nothing,
                }) => {
                    let polls = poller.filter(|poller| self.head_place(lane) == Some(poller.place));
                    let behind = self.fits_behind_called(lane, weights, now);
                    let is_its_turn = polls.is_some_and(|poller| poller.called)
                        || self.calls.live.len() < self.calls.width
                        || (rank.is_retry() && !called_retry)
                        || behind.is_some_and(|at| at <= now && self.calls.live.len() < CALLED_TOGETHER);
                    match polls {
                        Some(Poller { place, .. }) if is_its_turn => {
                            started = Some(self.take(place, lane, weights, rank, now));
                            poller = None;
                            continue;
                        }
                        None if is_its_turn => {
                            self.call(lane, now, woken);
                            continue;
                        }
                        Some(_) | None => {}
                    }
                    // when the grace of the first that was called is over, or earlier if there is room for more by then
                    let grace = self.calls.live.front().map(|(_, until)| *until);
                    let behind = behind.filter(|at| *at > now);
                    (behind.into_iter().chain(grace).min(), Some(rank.is_retry()))
                }
                Some(First {
                    rank,
                    waits: Waits::Until(until),
                    ..
                }) => (Some(until), Some(rank.is_retry())),
                Some(First {
                    rank,
                    waits: Waits::Else,
                    ..
                }) => (None, Some(rank.is_retry())),
                None => (None, None),
            };
            if self.calls.is_empty() {
                // nothing fits
                self.calls.width = 1;
            }
            let by_called = (!self.calls.is_empty()).then_some(called_retry);
            let next = Next {
                at: next.into_iter().chain(until).min(),
                blocked: by_retry.into_iter().chain(by_called).max(),
            };
            return (next, started);
        }
    }

    /// Those whose grace is over are set aside, and the more are called instead.
    fn pass_by(&mut self, now: Tick) {
        let mut passed = false;
        while let Some((place, until)) = self.calls.live.front().copied()
            && until <= now
        {
            self.calls.live.pop_front();
            passed = true;
            let Some(waiter) = self.waiters.get(place) else {
                continue;
            };
            self.calls.forget(waiter);
            let (lane, retry) = (waiter.lane, waiter.retry);
            if let Some(queue) = self.lanes.get_mut(lane as usize) {
                self.waiters.set_aside(place, queue.line(retry));
            }
            self.is_idle_now(lane);
        }
        if passed {
            self.calls.width = (2 * self.calls.width).min(WIDEST);
        }
    }

    /// The first of all that no limit of its lane holds back, and when the others are to be looked at again. Those that are
    /// known to wait in vain are refused.
    fn first(&mut self, now: Tick, woken: &mut Vec<Waker>) -> (Option<Tick>, Option<First>) {
        'again: loop {
            let mut next: Option<Tick> = None;
            let mut first: Option<First> = None;
            for at in 0..self.busy.len() {
                let Some(lane) = self.busy.get(at).copied() else {
                    continue;
                };
                self.refresh(lane, now);
                let Some((rank, weights, bound)) = self.head(lane) else {
                    continue;
                };
                let waits = match self.when(lane, weights, Load::default(), now) {
                    When::Never(refusal) => {
                        self.answer_head(lane, refusal, woken);
                        continue 'again;
                    }
                    When::At(tick, ..) if bound.is_some_and(|bound| tick > bound) => {
                        let refusal = self.too_late(lane, Some(tick), bound.unwrap_or(tick), now);
                        self.answer_head(lane, refusal, woken);
                        continue 'again;
                    }
                    When::At(_, Whose::Lane, tick) => {
                        next = Some(next.map_or(tick, |next| next.min(tick)));
                        continue;
                    }
                    When::Later(Whose::Lane) => continue,
                    When::At(tick, Whose::Account, _) => Waits::Until(tick),
                    When::Later(Whose::Account) => Waits::Else,
                    When::Now => Waits::Nothing,
                };
                if first.as_ref().is_none_or(|other| rank < other.rank) {
                    first = Some(First {
                        rank,
                        lane,
                        weights,
                        waits,
                    });
                }
            }
            return (next, first);
        }
    }

    /// When a start fits besides those of all that are called; not known where it is not time alone that tells.
    fn fits_behind_called(&self, lane: u32, weights: Weights, now: Tick) -> Option<Tick> {
        let ahead = self.calls.load;
        if ahead.starts == 0 {
            return Some(now);
        }
        let mut at = match self.when(lane, weights, ahead, now) {
            When::Now => now,
            When::At(_, _, look) => look,
            When::Later(_) | When::Never(_) => return None,
        };
        let lane = self.lanes.get(lane as usize)?;
        let model = lane.model.and_then(|model| self.models.get(model));
        for bucket in lane.bucket.iter().chain(&self.ramp) {
            at = at.max(bucket.ready_behind(f64::from(ahead.starts), 1.0, now));
        }
        let ceilings = [&self.ceiling, &lane.ceiling];
        let room = ceilings.into_iter().chain(model.map(|model| &model.ceiling));
        let room = room.map(Ceiling::room).min().unwrap_or(u32::MAX);
        (room > ahead.starts && !self.lends(lane, weights, now)).then_some(at)
    }

    /// The one that polls takes its start.
    fn take(&mut self, place: Place, lane: u32, weights: Weights, rank: Rank, now: Tick) -> Answer {
        let grant = self.grant(lane, weights, rank.is_retry(), now);
        if let Some(queue) = self.lanes.get_mut(lane as usize) {
            self.waiters.leave(place, queue.line(rank.is_retry()));
        }
        self.is_idle_now(lane);
        self.calls.width = 1;
        let grant = grant.ok_or_else(Refusal::lost)?;
        self.made(&grant, now);
        Ok(grant)
    }

    /// Calls the first of a lane.
    fn call(&mut self, lane: u32, now: Tick, woken: &mut Vec<Waker>) {
        let Some(queue) = self.lanes.get_mut(lane as usize) else {
            return;
        };
        let line = queue.first_line_mut();
        let Some(place) = self.waiters.head_place(line) else {
            return;
        };
        woken.extend(self.waiters.call_head(line));
        if let Some(waiter) = self.waiters.get(place) {
            self.calls.load.add(waiter.weights);
            self.calls.retries += u32::from(waiter.retry);
            let is_waited_for = waiter.late && self.calls.width == 1;
            let grace = if is_waited_for { GRACE_IF_LATE } else { GRACE };
            self.calls.live.push_back((place, now + grace));
        }
    }

    /// Refuses the first of a lane.
    fn answer_head(&mut self, lane: u32, refusal: Refusal, woken: &mut Vec<Waker>) {
        let Some(queue) = self.lanes.get_mut(lane as usize) else {
            return;
        };
        woken.extend(self.waiters.answer_head(queue.first_line_mut(), refusal));
        self.is_idle_now(lane);
    }

    /// A lane is paused: those that cannot wait so long need not wait until their time has come.
    pub(super) fn turn_away(&mut self, lane: u32, until: Tick, woken: &mut Vec<Waker>) {
        let Some(queue) = self.lanes.get_mut(lane as usize) else {
            return;
        };
        for line in [&mut queue.retries, &mut queue.fresh] {
            let refused = |bound: Option<Tick>| bound.is_some_and(|bound| bound < until);
            let refusal = || Refusal {
                reason: StopReason::PausedPastDeadline,
                until: Some(until),
                remembered: None,
            };
            self.waiters
                .answer_where(line, |waiter| refused(waiter.bound()).then(refusal), woken);
        }
        self.is_idle_now(lane);
    }

    pub(super) fn head(&self, lane: u32) -> Option<(Rank, Weights, Option<Tick>)> {
        let queue = self.lanes.get(lane as usize)?;
        let (order, waiter) = self.waiters.head(queue.first_line())?;
        Some((Rank(!waiter.retry, order), waiter.weights, waiter.bound()))
    }

    fn head_place(&self, lane: u32) -> Option<Place> {
        self.waiters.head_place(self.lanes.get(lane as usize)?.first_line())
    }

    /// Something changed, or somebody comes: calls those that now fit, and sees to it that the drivers wake in time. Says
    /// whether one of those that wait goes before whoever comes, and whether that is a retry.
    #[inline]
    pub(crate) fn settle(&mut self, now: Tick, woken: &mut Vec<Waker>) -> Option<bool> {
        if self.is_waited_for() || !self.drivers.is_empty() {
            self.settle_waiters(now, woken)
        } else {
            None
        }
    }

    // most admissions meet nobody who waits
    #[inline(never)]
    fn settle_waiters(&mut self, now: Tick, woken: &mut Vec<Waker>) -> Option<bool> {
        let (next, _) = self.dispatch(None, now, woken);
        self.ring_drivers(next.at, woken);
        next.blocked
    }
}

/// Those that look after the time.
impl State {
    /// Is a driver to be made, under this name?
    pub(crate) fn enlist(&mut self, id: DriverId) -> bool {
        let known = self.drivers.iter().any(|driver| driver.id == id);
        if !known {
            self.drivers.push(Driver {
                id,
                waker: None,
                armed: Tick::NEVER,
            });
        }
        !known
    }

    /// What a driver asks by each of its polls: until when to sleep, for ever ([`Tick::NEVER`]) if time alone brings nothing.
    /// `None` if nobody stands in a line: then it is a driver no more.
    pub(crate) fn drive(&mut self, id: DriverId, waker: &Waker, now: Tick, woken: &mut Vec<Waker>) -> Option<Tick> {
        let (next, _) = self.dispatch(None, now, woken);
        self.ring_drivers(next.at, woken);
        if self.is_vacant() {
            self.discharge(id);
            return None;
        }
        let driver = self.drivers.iter_mut().find(|driver| driver.id == id)?;
        driver.waker = Some(waker.clone());
        driver.armed = next.at.unwrap_or(Tick::NEVER);
        Some(driver.armed)
    }

    /// Stands nobody in any line? Those that are called need no driver: they poll, or nobody waits for them.
    fn is_vacant(&self) -> bool {
        let mut busy = self.busy.iter().filter_map(|lane| self.lanes.get(*lane as usize));
        busy.all(Lane::is_vacant)
    }

    /// A driver is no more. It is to be dropped without the lock: with the last of its waker a task may go that waits itself.
    pub(crate) fn discharge(&mut self, id: DriverId) -> Option<Driver> {
        let at = self.drivers.iter().position(|driver| driver.id == id)?;
        Some(self.drivers.swap_remove(at))
    }

    /// When a driver would look again, and whether there is something to do now that a step of time alone has brought.
    #[cfg(test)]
    pub(super) fn next_look(&mut self, now: Tick) -> (Next, bool) {
        let called = |state: &Self| state.calls.live.back().copied();
        let before = called(self);
        let (next, _) = self.dispatch(None, now, &mut Vec::new());
        (next, called(self) != before)
    }

    /// Wakes the drivers that would sleep too long: all of them once nobody stands in a line, so that they end.
    #[inline]
    fn ring_drivers(&mut self, next: Option<Tick>, woken: &mut Vec<Waker>) {
        if self.drivers.is_empty() {
            return;
        }
        let vacant = self.is_vacant();
        for driver in &mut self.drivers {
            if vacant || next.is_some_and(|next| next < driver.armed) {
                woken.extend(driver.waker.take());
            }
        }
    }
}
