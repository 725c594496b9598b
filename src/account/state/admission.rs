//! Which waiter is called when, and how it takes its start. Knows no future: a waiter or a driver comes in as a poll, and goes
//! out as a waker to wake.
//!
//! A waiter is never given a start. The first whose start fits is *called*: its waker is woken, and it takes the start by its
//! own poll, in one step, under the lock. So a start is always in the hands of a task that runs, and a waiter that is not
//! polled holds nothing. Nor does it hold up the others: a waiter that was called and has not polled within [`GRACE`] is *set
//! aside*, and the next are called, twice as many in each step, so any number of unpolled waiters is passed in few steps. A
//! waiter that is set aside is in no line, so later admissions do not meet it again. It keeps its order: when it polls, it is
//! back in its old place. Since it has shown to be slow and not gone, its next grace is longer; otherwise the waiters of a
//! busy runtime would be passed for ever by those of a quick one.

use super::super::driver::DriverId;
use super::*;

/// How long a called waiter has to poll: much longer than a runtime takes to poll what was woken, and short beside the time
/// between two starts.
const GRACE: Duration = Duration::from_millis(10);
/// The same for a waiter that was late before, while no other was waited for in vain. With the steps of the others, 40
/// unpolled waiters are passed within a tenth of a second.
const GRACE_IF_LATE: Duration = Duration::from_millis(40);

/// While a breaker is open, how often the waiters are checked for those whose patience is over.
const LOOK_FOR_IMPATIENT: Duration = Duration::from_millis(250);
/// The most retries that are looked through for one that may probe.
const LOOKED_THROUGH: usize = 64;
/// The most that are called at once where that many fit.
const CALLED_TOGETHER: usize = 32;
/// More than will ever wait.
const WIDEST: usize = 1 << 24;

/// What comes next for the waiters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Next {
    /// When to look again.
    pub(super) at: Option<Tick>,
    /// A waiter goes before a new call: `Some(true)` if it is a retry.
    pub(super) blocked: Option<bool>,
}

/// The waiters that were called, and have neither polled since nor been set aside.
#[derive(Debug)]
pub(super) struct Calls {
    /// In the order of their calls, each with the end of its grace.
    live: VecDeque<(Place, Tick)>,
    load: Load,
    retries: u32,
    /// How many are called for one start.
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
        self.load.take(waiter.request.weights);
        self.retries = self
            .retries
            .saturating_sub(u32::from(waiter.request.priority.is_retry()));
    }
}

/// A driver, as the state knows it.
#[derive(Debug)]
pub(crate) struct Driver {
    id: DriverId,
    /// `None` once it was woken, until it polls.
    waker: Option<Waker>,
    /// Until when it sleeps.
    armed: Tick,
}

/// The waiter that polls now.
#[derive(Debug, Clone, Copy)]
struct Poller {
    place: Place,
    /// It was called since it last polled.
    called: bool,
}

/// A waiter that may be next.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    rank: Rank,
    place: Place,
    request: StartRequest,
}

/// The first in order that no limit of its lane holds back.
struct First {
    candidate: Candidate,
    lane: u32,
    waits: Waits,
}

/// What a waiter waits for besides its turn.
enum Waits {
    Nothing,
    Until(Tick),
    /// For another event.
    Else,
}

impl Lane {
    /// Returns `true` if its lines are empty.
    #[inline]
    fn is_vacant(&self) -> bool {
        self.retries.is_empty() && self.fresh.is_empty()
    }
}

impl State {
    /// Joins the queue.
    pub(crate) fn join(&mut self, lane: u32, request: StartRequest, now: Tick) -> Option<Place> {
        let queue = self.lanes.get_mut(lane as usize)?;
        let line = queue.line(request.priority.is_retry());
        let place = self.waiters.join(line, lane, request, now)?;
        if queue.waiting() == 1 {
            self.busy.push(lane);
        }
        self.demand(lane);
        Some(place)
    }

    /// A waiter polls: it takes its start if the start fits now and it is its turn. Otherwise its waker is kept.
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

    /// Puts a called waiter back into its line, since it polls. Returns `false` if it was not called.
    fn come_back(&mut self, place: Place) -> bool {
        let Some(waiter) = self.waiters.get(place) else {
            return false;
        };
        let (lane, retry) = (waiter.lane, waiter.request.priority.is_retry());
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

    /// Removes it from those that were called.
    fn uncall(&mut self, place: Place) {
        let calls = &mut self.calls;
        if let Some(at) = calls.live.iter().position(|(called, _)| *called == place) {
            calls.live.remove(at);
            if let Some(waiter) = self.waiters.get(place) {
                calls.forget(waiter);
            }
        }
    }

    /// Leaves the queue. Returns the refusal that it had been given, if any.
    fn leave(&mut self, place: Place, now: Tick, woken: &mut Vec<Waker>) -> Option<Refusal> {
        let answer = self.waiters.take_answer(place);
        if answer.is_none() {
            let waiter = self.waiters.get(place)?;
            let (lane, retry) = (waiter.lane, waiter.request.priority.is_retry());
            self.uncall(place);
            let queue = self.lanes.get_mut(lane as usize)?;
            self.waiters.leave(place, queue.line(retry));
            self.is_idle_now(lane);
        }
        self.settle(now, woken);
        answer
    }

    /// Takes a lane off the busy ones once no call waits in it.
    fn is_idle_now(&mut self, lane: u32) {
        if self.lanes.get(lane as usize).is_none_or(|queue| queue.waiting() == 0) {
            self.busy.retain(|busy| *busy != lane);
        }
    }

    /// A waiter is dropped.
    pub(crate) fn cancel(&mut self, place: Place, now: Tick, woken: &mut Vec<Waker>) {
        self.give_up(place, now);
        self.leave(place, now, woken);
    }

    /// A waiter's time is up.
    pub(crate) fn expire(&mut self, place: Place, now: Tick, woken: &mut Vec<Waker>) -> Refusal {
        let waits = self.waiters.get(place).map(|waiter| (waiter.lane, waiter.request));
        if waits.is_some_and(|(_, request)| request.cut_at_bound) {
            self.give_up(place, now);
        }
        if let Some(refusal) = self.leave(place, now, woken) {
            return refusal;
        }
        let Some((lane, request)) = waits else {
            return Refusal::lost();
        };
        let at = match self.when(lane, &request, Load::default(), now) {
            When::At(due) => Some(due.at),
            When::Now | When::Later(_) | When::Never(_) => None,
        };
        self.too_late(lane, &request.until(Some(now)), at, now)
    }

    /// Records that a caller gave up before its turn, which shows an overload.
    fn give_up(&mut self, place: Place, now: Tick) {
        let waits = self
            .waiters
            .get(place)
            .filter(|waiter| now.since(waiter.joined) >= WAITED);
        let fresh = waits.filter(|waiter| !waiter.request.priority.is_retry());
        if let Some(queue) = fresh.and_then(|waiter| self.lanes.get_mut(waiter.lane as usize)) {
            queue.overloaded_until = now + OVERLOADED;
        }
    }

    /// Calls the waiters whose starts fit now, retries first and otherwise in order of arrival, and returns when to look
    /// again. A waiter that polls now is not called: if it is its turn, it takes its start.
    fn dispatch(&mut self, mut poller: Option<Poller>, now: Tick, woken: &mut Vec<Waker>) -> (Next, Option<Answer>) {
        self.pass_by(now);
        let mut started = None;
        loop {
            let (next, first) = self.first(now, woken);
            let called_retry = self.calls.retries > 0;
            let (until, by_retry) = match first {
                Some(First {
                    candidate,
                    lane,
                    waits: Waits::Nothing,
                }) => {
                    let rank = candidate.rank;
                    let polls = poller.filter(|poller| candidate.place == poller.place);
                    let behind = self.fits_behind_called(lane, &candidate.request, now);
                    let is_its_turn = polls.is_some_and(|poller| poller.called)
                        || self.calls.live.len() < self.calls.width
                        || (rank.is_retry() && !called_retry)
                        || behind.is_some_and(|at| at <= now && self.calls.live.len() < CALLED_TOGETHER);
                    match polls {
                        Some(_) if is_its_turn => {
                            started = Some(self.take(lane, &candidate, now));
                            poller = None;
                            continue;
                        }
                        None if is_its_turn => {
                            self.call(lane, &candidate, now, woken);
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
                    candidate,
                    waits: Waits::Until(until),
                    ..
                }) => (Some(until), Some(candidate.rank.is_retry())),
                Some(First {
                    candidate,
                    waits: Waits::Else,
                    ..
                }) => (None, Some(candidate.rank.is_retry())),
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

    /// Sets aside the waiters whose grace is over; the more are called next.
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
            let (lane, retry) = (waiter.lane, waiter.request.priority.is_retry());
            if let Some(queue) = self.lanes.get_mut(lane as usize) {
                self.waiters.set_aside(place, queue.line(retry));
            }
            self.is_idle_now(lane);
        }
        if passed {
            self.calls.width = (2 * self.calls.width).min(WIDEST);
        }
    }

    /// Returns the first waiter of all that no limit of its lane holds back, and when to look at the others again. Refuses
    /// waiters that are known to wait in vain.
    fn first(&mut self, now: Tick, woken: &mut Vec<Waker>) -> (Option<Tick>, Option<First>) {
        'again: loop {
            let mut next: Option<Tick> = None;
            let mut first: Option<First> = None;
            for at in 0..self.busy.len() {
                let Some(lane) = self.busy.get(at).copied() else {
                    continue;
                };
                self.refresh(lane, now);
                let impatient = self.turn_away_impatient(lane, now, woken);
                let order = self.order_changes_at(lane, now);
                next = next.into_iter().chain(impatient).chain(order).min();
                for candidate in self.candidates(lane, now).into_iter().flatten() {
                    let request = &candidate.request;
                    let waits = match self.when(lane, request, Load::default(), now) {
                        When::Never(refusal) => {
                            self.refuse(lane, &candidate, refusal, woken);
                            continue 'again;
                        }
                        When::At(due) if request.bound().is_some_and(|bound| due.certain > bound) => {
                            let refusal = self.too_late(lane, request, Some(due.at), now);
                            self.refuse(lane, &candidate, refusal, woken);
                            continue 'again;
                        }
                        When::At(Due { whose, look, .. }) if whose != Whose::Account => {
                            next = Some(next.map_or(look, |next| next.min(look)));
                            if whose == Whose::Budget {
                                continue;
                            }
                            break;
                        }
                        When::Later(Whose::Lane | Whose::Budget) => break,
                        When::At(due) => Waits::Until(due.at),
                        When::Later(Whose::Account) => Waits::Else,
                        When::Now => Waits::Nothing,
                    };
                    if first.as_ref().is_none_or(|other| candidate.rank < other.candidate.rank) {
                        first = Some(First { candidate, lane, waits });
                    }
                    break;
                }
            }
            return (next, first);
        }
    }

    /// When a start fits besides those of all called waiters; `None` where that depends on more than time.
    fn fits_behind_called(&self, lane: u32, request: &StartRequest, now: Tick) -> Option<Tick> {
        let ahead = self.calls.load;
        if ahead.starts == 0 {
            return Some(now);
        }
        let mut at = match self.when(lane, request, ahead, now) {
            When::Now => now,
            When::At(due) => due.look,
            When::Later(_) | When::Never(_) => return None,
        };
        let lane = self.lanes.get(lane as usize)?;
        if lane.breaker.paces() {
            // whether another may start is known once the called ones have started
            return None;
        }
        let model = lane.model.and_then(|model| self.models.get(model));
        for bucket in lane.bucket.iter().chain(&self.ramp) {
            at = at.max(bucket.ready_behind(f64::from(ahead.starts), 1.0, now));
        }
        let ceilings = [&self.ceiling, &lane.ceiling];
        let room = ceilings.into_iter().chain(model.map(|model| &model.ceiling));
        let room = room.map(Ceiling::room).min().unwrap_or(u32::MAX);
        (room > ahead.starts && !self.lends(lane, request.weights, false, now)).then_some(at)
    }

    /// The waiter that polls takes its start.
    fn take(&mut self, lane: u32, candidate: &Candidate, now: Tick) -> Answer {
        let waited = self
            .waiters
            .get(candidate.place)
            .is_some_and(|waiter| now.since(waiter.joined) >= WAITED);
        let grant = self.grant(lane, &candidate.request, waited, now);
        if let Some(queue) = self.lanes.get_mut(lane as usize) {
            self.waiters
                .leave(candidate.place, queue.line(candidate.rank.is_retry()));
        }
        self.is_idle_now(lane);
        self.calls.width = 1;
        grant.ok_or_else(Refusal::lost)
    }

    /// Calls a waiter of a lane.
    fn call(&mut self, lane: u32, candidate: &Candidate, now: Tick, woken: &mut Vec<Waker>) {
        let Some(queue) = self.lanes.get_mut(lane as usize) else {
            return;
        };
        woken.extend(
            self.waiters
                .call(queue.line(candidate.rank.is_retry()), candidate.place),
        );
        if let Some(waiter) = self.waiters.get(candidate.place) {
            self.calls.load.add(candidate.request.weights);
            self.calls.retries += u32::from(candidate.rank.is_retry());
            let is_waited_for = waiter.late && self.calls.width == 1;
            let grace = if is_waited_for { GRACE_IF_LATE } else { GRACE };
            self.calls.live.push_back((candidate.place, now + grace));
        }
    }

    /// Refuses a waiter of a lane.
    fn refuse(&mut self, lane: u32, candidate: &Candidate, refusal: Refusal, woken: &mut Vec<Waker>) {
        let Some(queue) = self.lanes.get_mut(lane as usize) else {
            return;
        };
        let line = queue.line(candidate.rank.is_retry());
        woken.extend(self.waiters.answer(line, candidate.place, refusal));
        self.is_idle_now(lane);
    }

    /// A lane is paused: refuses at once the waiters that cannot wait until its end.
    pub(super) fn turn_away(&mut self, lane: u32, until: Tick, now: Tick, woken: &mut Vec<Waker>) {
        let Some(queue) = self.lanes.get_mut(lane as usize) else {
            return;
        };
        for line in [&mut queue.retries, &mut queue.fresh] {
            let refused = |request: &StartRequest| {
                request.bound().is_some_and(|bound| bound < until)
                    || request.patience().is_some_and(|patience| until.since(now) > patience)
            };
            let refusal = || Refusal {
                reason: StopReason::PausedPastDeadline,
                until: Some(until),
                remembered: None,
                said: None,
            };
            self.waiters
                .answer_where(line, |waiter| refused(&waiter.request).then(refusal), woken);
        }
        self.is_idle_now(lane);
    }

    /// While the breaker is open, refuses fresh calls that have waited for it as long as they may. Returns when to look again.
    fn turn_away_impatient(&mut self, lane: u32, now: Tick, woken: &mut Vec<Waker>) -> Option<Tick> {
        let queue = self.lanes.get_mut(lane as usize)?;
        let since = queue.breaker.open_since()?;
        if queue.fresh.is_empty() {
            return None;
        }
        if now >= queue.looked_at + LOOK_FOR_IMPATIENT {
            queue.looked_at = now;
            let refusal = Refusal {
                reason: StopReason::CircuitOpen,
                until: match queue.breaker.gate(None, now) {
                    Gate::Shut(until) => Some(until),
                    Gate::Open | Gate::Probe => None,
                },
                remembered: None,
                said: queue.breaker.last(),
            };
            let waited = |joined: Tick| now.since(joined.max(since));
            let over = |waiter: &Waiter| {
                let request = &waiter.request;
                let over = request.patience().is_some_and(|most| waited(waiter.joined) > most);
                over && !queue.breaker.lets_pass(request.attempt_timeout())
            };
            self.waiters
                .answer_where(&mut queue.fresh, |waiter| over(waiter).then(|| refusal.clone()), woken);
        }
        let next = queue.looked_at + LOOK_FOR_IMPATIENT;
        self.is_idle_now(lane);
        Some(next)
    }

    /// The weights of the first waiter in a lane.
    pub(super) fn head_weights(&self, lane: u32) -> Option<Weights> {
        let queue = self.lanes.get(lane as usize)?;
        let head = self.waiters.head(&queue.retries);
        let (.., waiter) = head.or_else(|| self.waiters.head(&queue.fresh))?;
        Some(waiter.request.weights)
    }

    /// When time alone changes the order of a lane: at the end of an overload.
    fn order_changes_at(&self, lane: u32, now: Tick) -> Option<Tick> {
        let queue = self.lanes.get(lane as usize)?;
        Some(queue.overloaded_until).filter(|until| *until > now && !queue.fresh.is_empty())
    }

    /// The waiters of a lane that may be next: the first retry, and the first fresh call in case the budget holds the retry.
    /// After callers gave up, the newest fresh call instead. While the breaker is open, only the probe: the newest fresh call,
    /// since the oldest may give up before its response shows anything.
    fn candidates(&self, lane: u32, now: Tick) -> [Option<Candidate>; 2] {
        let Some(queue) = self.lanes.get(lane as usize) else {
            return [None; 2];
        };
        let candidate = |(order, place, waiter): (u64, Place, &Waiter)| Candidate {
            rank: Rank(!waiter.request.priority.is_retry(), order),
            place,
            request: waiter.request,
        };
        if queue.breaker.lets_pass(None)
            && let Some(patient) = self.patient(queue)
        {
            return [Some(candidate(patient)), None];
        }
        if queue.breaker.open_since().is_some() {
            let newest = self.waiters.last(&queue.fresh).map(candidate);
            return [newest.or_else(|| self.prober(queue, now).map(candidate)), None];
        }
        let fresh = if now < queue.overloaded_until {
            self.waiters.last(&queue.fresh)
        } else {
            self.waiters.head(&queue.fresh)
        };
        [self.waiters.head(&queue.retries).map(candidate), fresh.map(candidate)]
    }

    /// The first that waits longer for an answer than those that are held, since nothing comes back within their time.
    fn patient<'a>(&'a self, queue: &'a Lane) -> Option<(u64, Place, &'a Waiter)> {
        let lines = [&queue.retries, &queue.fresh];
        let mut waiters = lines
            .into_iter()
            .flat_map(|line| self.waiters.iter(line).take(LOOKED_THROUGH));
        waiters.find(|(.., waiter)| queue.breaker.lets_pass(waiter.request.attempt_timeout()))
    }

    /// The retry that probes: the first that has attempts to spare, or little time left to use its last one.
    fn prober<'a>(&'a self, queue: &'a Lane, now: Tick) -> Option<(u64, Place, &'a Waiter)> {
        let spares = |request: &StartRequest| {
            !request.last || request.bound().is_some_and(|bound| bound.since(now) < breaker::TURN)
        };
        let mut line = self.waiters.iter(&queue.retries).take(LOOKED_THROUGH);
        line.find(|(.., waiter)| spares(&waiter.request))
            .or_else(|| self.waiters.head(&queue.retries))
    }

    /// Something changed, or a new call comes: calls the waiters that fit now, and makes sure that the drivers wake in time.
    /// Returns `Some` if a waiter goes before a new call, `true` if that is a retry.
    #[inline]
    pub(crate) fn settle(&mut self, now: Tick, woken: &mut Vec<Waker>) -> Option<bool> {
        if self.is_waited_for() || !self.drivers.is_empty() {
            self.settle_waiters(now, woken)
        } else {
            None
        }
    }

    // most admissions meet no waiter
    #[inline(never)]
    fn settle_waiters(&mut self, now: Tick, woken: &mut Vec<Waker>) -> Option<bool> {
        let (next, _) = self.dispatch(None, now, woken);
        self.ring_drivers(next.at, woken);
        next.blocked
    }
}

/// The drivers.
impl State {
    /// Puts a driver on the list. Returns `true` if it was not there, so that it is to be started.
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

    /// A driver polls. Returns until when it sleeps, [`Tick::NEVER`] if time alone changes nothing, and `None` if no waiter is
    /// in line: then it is off the list.
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

    /// Returns `true` if no waiter is in line. Called waiters need no driver: they poll, or nothing depends on them.
    fn is_vacant(&self) -> bool {
        let mut busy = self.busy.iter().filter_map(|lane| self.lanes.get(*lane as usize));
        busy.all(Lane::is_vacant)
    }

    /// Takes a driver off the list. It must be dropped outside of the lock: its waker may be the last reference to a task that
    /// waits itself.
    pub(crate) fn discharge(&mut self, id: DriverId) -> Option<Driver> {
        let at = self.drivers.iter().position(|driver| driver.id == id)?;
        Some(self.drivers.swap_remove(at))
    }

    /// When a driver would look again, and whether a step of time alone has brought something to do.
    #[cfg(test)]
    pub(super) fn next_look(&mut self, now: Tick) -> (Next, bool) {
        let called = |state: &Self| state.calls.live.back().copied();
        let before = called(self);
        let (next, _) = self.dispatch(None, now, &mut Vec::new());
        (next, called(self) != before)
    }

    /// Wakes the drivers that would sleep too long: all of them once no waiter is in line, so that they end.
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
