//! The state against whatever may happen to it, in any order: all that threads share is behind one lock, so that the order
//! of the steps is all that a schedule is. Some of those that wait are kept: whatever wakes them, they are not polled.

use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use proptest::prelude::*;

use super::super::driver::DriverId;
use super::super::lane::{Asked, Keyed, LaneNames};
use super::admission::Next;
use super::*;
use crate::retry_after::{DelaySource, ServerDelay};

const MODELS: [&str; 3] = ["a", "b", "limited"];

fn rules() -> Rules {
    Rules {
        limits: Limits::new(),
        models: Vec::new(),
        slow_start: false,
        learning: true,
        breaker: CircuitBreaker::new(),
        budget: RetryBudget::new(),
        max_pause: Duration::from_secs(300),
        guesses: true,
        longest_shared_hint: Duration::MAX,
        quota_hold: Some(Duration::from_secs(60)),
        ramp: None,
        max_lanes: 1024,
    }
}

/// A waker that notes that it was woken.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Flag {
    /// It has yet to be polled.
    fn up() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    fn is_up(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn take_down(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

struct Task {
    number: u64,
    place: Place,
    lane: u32,
    retry: bool,
    bound: Option<Tick>,
    flag: Arc<Flag>,
    /// Nobody polls it.
    kept: bool,
    /// Its runtime was shut down, and it was not polled elsewhere since.
    orphaned: bool,
    polled: bool,
}

impl Task {
    fn is_queued(&self, state: &State) -> bool {
        state.waiters.get(self.place).is_some_and(Waiter::is_queued)
    }

    fn is_due(&self, now: Tick) -> bool {
        !self.kept && (self.flag.is_up() || self.bound.is_some_and(|bound| bound <= now))
    }
}

/// One of those that look after the time.
struct Driving {
    id: DriverId,
    flag: Arc<Flag>,
    sleeping: Tick,
    /// Nobody polls it.
    kept: bool,
}

impl Driving {
    fn is_due(&self, now: Tick) -> bool {
        !self.kept && (self.flag.is_up() || self.sleeping <= now)
    }
}

struct Flight {
    grant: Grant,
    at: Tick,
}

/// An account, those that wait for it, and those that are in flight.
struct World {
    state: State,
    now: Tick,
    hasher: Keyed,
    names: LaneNames,
    waiting: Vec<Task>,
    drivers: Vec<Driving>,
    /// Some of them run together.
    runtimes: bool,
    flying: Vec<Flight>,
    /// Every start that was made.
    starts: Vec<(Tick, Weights)>,
    /// What the headers of the next answer say.
    told: Option<RequestLimit>,
    asked: u64,
    answered: u64,
}

impl World {
    fn new(rules: Rules) -> Self {
        Self {
            state: State::new(rules, Tick::default()),
            now: Tick::default(),
            hasher: Keyed::Here(RandomState::new()),
            names: LaneNames {
                by_credential: false,
                by: None,
                limited: Vec::new(),
            },
            waiting: Vec::new(),
            drivers: Vec::new(),
            runtimes: false,
            flying: Vec::new(),
            starts: Vec::new(),
            told: None,
            asked: 0,
            answered: 0,
        }
    }

    fn step<T>(&mut self, step: impl FnOnce(&mut State, Tick, &mut Vec<Waker>) -> T) -> T {
        let mut woken = Vec::new();
        let result = step(&mut self.state, self.now, &mut woken);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    fn ask(&mut self, model: usize, retry: bool, weights: Weights, patience: Option<u64>) {
        let asked = Asked::by_hand(MODELS.get(model).copied());
        let key = self.names.key(&asked, &self.hasher);
        let name = self.names.name(&asked);
        let bound = patience.map(|millis| self.now + Duration::from_millis(millis));
        let priority = if retry { Priority::Retry } else { Priority::Fresh };
        let request = StartRequest::of(priority).weighing(weights).until(bound);
        self.asked += 1;
        let now = self.now;
        let lane = self.state.lane(key, || name, now);
        let asked = self.step(|state, now, woken| {
            let blocked = state.settle(now, woken);
            state.try_start(lane, &request, blocked, now)
        });
        match asked {
            Ask::Granted(grant) => self.answer(Ok(grant), now),
            Ask::Refused(refusal) => self.answer(Err(refusal), now),
            Ask::Wait => {
                let place = self.state.join(lane, request, now).unwrap();
                self.waiting.push(Task {
                    number: self.asked,
                    place,
                    lane,
                    retry,
                    bound,
                    flag: Flag::up(),
                    kept: false,
                    orphaned: false,
                    polled: false,
                });
            }
        }
    }

    fn answer(&mut self, answer: Answer, at: Tick) {
        self.answered += 1;
        if let Ok(grant) = answer {
            self.starts.push((at, grant.weights));
            self.flying.push(Flight { grant, at });
        }
    }

    fn poll(&mut self, at: usize) {
        self.waiting[at].orphaned = false;
        if self.runtimes {
            self.resume(self.home(&self.waiting[at]));
        }
        let task = &mut self.waiting[at];
        task.flag.take_down();
        task.polled = true;
        let (place, waker, bound) = (task.place, Waker::from(Arc::clone(&task.flag)), task.bound);
        let polled = self.step(|state, now, woken| state.poll(place, &waker, now, woken));
        match polled {
            Polled::Answered(answer) => self.gone(at, answer),
            Polled::Wait if bound.is_some_and(|bound| bound <= self.now) => {
                let refusal = self.step(|state, now, woken| state.expire(place, now, woken));
                self.gone(at, Err(refusal));
            }
            Polled::Wait => {
                let id = self.home(&self.waiting[at]);
                if self.state.enlist(id) {
                    self.drivers.push(Driving {
                        id,
                        flag: Flag::up(),
                        sleeping: Tick::NEVER,
                        kept: false,
                    });
                }
            }
        }
    }

    fn drive(&mut self, at: usize) {
        let driving = &self.drivers[at];
        driving.flag.take_down();
        let (id, waker) = (driving.id, Waker::from(Arc::clone(&driving.flag)));
        let until = self.step(|state, now, woken| state.drive(id, &waker, now, woken));
        match until {
            Some(until) => {
                assert!(until > self.now, "a timer that is due at once would spin");
                self.drivers[at].sleeping = until;
            }
            None => drop(self.drivers.swap_remove(at)),
        }
    }

    /// Where a task runs: in a runtime with others, or in none.
    fn home(&self, task: &Task) -> DriverId {
        match u32::try_from(task.number % 3).unwrap() {
            runtime @ 1.. if self.runtimes => DriverId::Waiter(Place::nowhere(runtime)),
            _ => DriverId::Waiter(task.place),
        }
    }

    /// What runs there is polled no more.
    fn keep(&mut self, at: usize) {
        let id = self.home(&self.waiting[at]);
        // one that joins is polled once by that
        let unpolled = |world: &Self| {
            let of_it = |task: &Task| !task.polled && world.home(task) == id;
            world.waiting.iter().position(of_it)
        };
        while let Some(at) = unpolled(self) {
            self.poll(at);
        }
        for at in 0..self.waiting.len() {
            self.waiting[at].kept |= self.home(&self.waiting[at]) == id;
        }
        let driving = self.drivers.iter_mut().filter(|driving| driving.id == id);
        driving.for_each(|driving| driving.kept = true);
    }

    /// One of them is polled, so the runtime runs.
    fn resume(&mut self, id: DriverId) {
        for at in 0..self.waiting.len() {
            if self.home(&self.waiting[at]) == id && !self.waiting[at].orphaned {
                self.waiting[at].kept = false;
            }
        }
        let driving = self.drivers.iter_mut().filter(|driving| driving.id == id);
        driving.for_each(|driving| driving.kept = false);
    }

    /// They are polled again, all of them.
    fn poll_kept(&mut self) {
        self.waiting.iter_mut().filter(|task| task.kept).for_each(|task| {
            (task.kept, task.orphaned) = (false, false);
            task.flag = Flag::up();
        });
        self.drivers.iter_mut().for_each(|driving| driving.kept = false);
    }

    /// Its runtime is shut down: what it drove is dropped.
    fn shut_down(&mut self, at: usize) {
        let id = self.home(&self.waiting[at]);
        self.keep(at);
        for at in 0..self.waiting.len() {
            self.waiting[at].orphaned |= self.home(&self.waiting[at]) == id;
        }
        self.state.discharge(id);
        self.drivers.retain(|driving| driving.id != id);
    }

    fn gone(&mut self, at: usize, answer: Answer) {
        let task = self.waiting.remove(at);
        if answer.is_ok() {
            // whoever came earlier in its line and is polled has been called too, and no retry is left behind
            // while nothing gets through, or callers give up, the newest go first; and a retry may wait for the budget
            let lane = self.state.lanes.get(task.lane as usize);
            let in_order = lane.is_some_and(|lane| !lane.breaker.paces() && lane.overloaded_until <= self.now);
            let passed_by = self.waiting.iter().filter(|_| in_order).filter(|other| {
                let queued = self.state.waiters.get(other.place).is_some_and(Waiter::is_queued);
                other.lane == task.lane && queued && !other.kept
            });
            for other in passed_by {
                assert!(
                    other.retry != task.retry || other.number > task.number,
                    "{} went before {}",
                    task.number,
                    other.number
                );
            }
        }
        self.leave_runtime(task.place);
        self.answer(answer, self.now);
    }

    /// What it drove by itself goes with it.
    fn leave_runtime(&mut self, place: Place) {
        let id = DriverId::Waiter(place);
        self.state.discharge(id);
        self.drivers.retain(|driving| driving.id != id);
    }

    /// Lets all that are woken go on, as they would by themselves.
    fn run(&mut self) {
        for _ in 0..10_000 {
            if let Some(at) = self.waiting.iter().position(|task| task.is_due(self.now)) {
                self.poll(at);
            } else if let Some(at) = self.drivers.iter().position(|driving| driving.is_due(self.now)) {
                self.drive(at);
            } else {
                return self.check_drivers();
            }
        }
        panic!("those that wait wake one another without end");
    }

    /// When somebody wakes by time alone.
    fn next(&self) -> Option<Tick> {
        let drivers = self.drivers.iter().filter(|driving| !driving.kept);
        let drivers = drivers.map(|driving| driving.sleeping);
        let bounds = self
            .waiting
            .iter()
            .filter(|task| !task.kept)
            .filter_map(|task| task.bound);
        drivers.chain(bounds).filter(|next| *next < Tick::NEVER).min()
    }

    /// Lets time pass, and all that wakes in it go on at its moment.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.run();
        while let Some(next) = self.next().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.run();
        }
        self.now = end;
        self.run();
    }

    fn cancel(&mut self, at: usize) {
        let task = self.waiting.remove(at);
        self.answered += 1;
        self.leave_runtime(task.place);
        self.step(|state, now, woken| state.cancel(task.place, now, woken));
    }

    fn finish(&mut self, at: usize, verdict: Option<Verdict>, silent: bool) {
        let mut flight = self.flying.remove(at);
        if !silent {
            let answer = verdict.map(|verdict| {
                Arc::new(Remembered {
                    status: http::StatusCode::TOO_MANY_REQUESTS,
                    headers: http::HeaderMap::new(),
                    body: bytes::Bytes::new(),
                    verdict,
                })
            });
            let heard = Heard {
                verdict,
                requests: self.told.take(),
                answer,
                unasked: 0,
                signal: Signal::of(verdict.as_ref(), Cut::No),
                call: self.answered,
                given_up: false,
            };
            self.step(|state, now, woken| state.hear(&mut flight.grant, heard, now, woken));
        }
        self.step(|state, now, woken| state.finish(&flight.grant, now, woken));
    }

    /// Whoever stands in a line and is polled will be served: drivers look in time, or somebody in flight ends.
    fn check_drivers(&mut self) {
        let queued = self.waiting.iter().filter(|task| !task.kept && task.polled);
        if queued.count() == 0 {
            return;
        }
        let (Next { at: next, blocked }, something) = self.state.next_look(self.now);
        if something {
            // a learnt ceiling was raised by time alone, or a pace has grown: whatever happens next shows it
            self.waiting
                .iter()
                .filter(|task| !task.is_queued(&self.state))
                .for_each(|task| task.flag.raise());
            self.step(State::settle);
            return self.run();
        }
        let Some(next) = next else {
            assert!(
                !self.flying.is_empty() || self.waiting.iter().all(|task| task.kept || task.flag.is_up()),
                "nobody is left to wake those that wait"
            );
            return;
        };
        let drivers = self.drivers.iter().filter(|driving| !driving.kept);
        for driving in drivers.clone().filter(|driving| !driving.flag.is_up()) {
            // a pace that has grown since it was armed would have it a little earlier
            // (and who is behind one that waits for all does not matter)
            let armed = driving.sleeping;
            assert!(
                armed.since(next) <= LOOK_AGAIN + LOOK_AGAIN || blocked.is_some(),
                "{armed:?} is not {next:?}"
            );
        }
        assert!(drivers.count() > 0, "nobody looks after the time");
    }

    /// All go home, but those that are kept, and time passes.
    fn settle(&mut self) {
        for _ in 0..20_000 {
            self.run();
            if !self.flying.is_empty() {
                self.finish(0, None, false);
            } else if self.waiting.iter().all(|task| task.kept) {
                return self.end_kept();
            } else if let Some(next) = self.next() {
                self.now = self.now.max(next);
            } else {
                panic!("nobody looks after those that wait");
            }
        }
        let paces: Vec<_> = self
            .state
            .lanes
            .iter()
            .map(|lane| lane.bucket.map(|bucket| bucket.rate()))
            .collect();
        panic!("they are not done at {:?}, at {paces:?} a second", self.now);
    }

    /// Those that were kept are polled at last.
    fn end_kept(&mut self) {
        if !self.waiting.is_empty() || self.drivers.iter().any(|driving| driving.kept) {
            self.poll_kept();
            self.settle();
        }
    }

    /// Nothing is held by anybody.
    fn assert_whole(&mut self) {
        assert_eq!(self.answered, self.asked, "nobody is lost");
        let state = &mut self.state;
        assert_eq!(state.ceiling.in_flight(), 0);
        assert!(!state.is_waited_for() && state.drivers.is_empty());
        for model in &state.models {
            assert_eq!(model.ceiling.in_flight(), 0);
        }
        for lane in &state.lanes {
            assert!(lane.is_idle() && lane.retries.load() == Load::default() && lane.fresh.load() == Load::default());
            assert!(!lane.breaker.is_followed(), "no probe is out, and nothing is in flight");
            assert!(
                lane.hold
                    .as_ref()
                    .is_none_or(|hold| hold.held_until(self.now) == hold.shut_until(self.now))
            );
        }
        let later = self.now + Duration::from_secs(1_000_000);
        let buckets = [
            self.state.counters.requests,
            self.state.counters.input,
            self.state.counters.output,
        ];
        for bucket in buckets.into_iter().flatten() {
            assert!((bucket.level(later) - bucket.capacity()).abs() < 1e-6);
        }
    }

    /// In any window no more was started than what the rate and the burst allow.
    fn assert_within(&mut self, rate: f64, burst: f64, weight: impl Fn(&Weights) -> f64) {
        self.starts.sort_by_key(|(at, _)| *at);
        for (first, (begin, _)) in self.starts.iter().enumerate() {
            let mut sum = 0.0;
            for (end, weights) in &self.starts[first..] {
                // the last one may be heavier than all there is at once, if it was all there
                let allowed = rate * (end.seconds_since(*begin) + 0.006) + burst;
                assert!(sum <= allowed + 1e-3, "{sum} in {}", end.seconds_since(*begin));
                sum += weight(weights);
                if weight(weights) <= burst {
                    assert!(sum <= allowed + 1e-3, "{sum} in {}", end.seconds_since(*begin));
                }
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Ask {
        model: usize,
        retry: bool,
        input: u16,
        patience: Option<u64>,
    },
    Cancel(usize),
    /// A turn comes free, and whoever is called leaves before it polls.
    CancelCalled(usize),
    /// It is polled no more.
    Keep(usize),
    ShutDown(usize),
    Finish {
        at: usize,
        how: u8,
        hint: Option<u64>,
        told: Option<RequestLimit>,
    },
    Wait(u64),
    /// Somebody is polled, woken or not.
    Poll(usize),
    Run,
}

/// What headers may say, true or not.
fn told() -> impl Strategy<Value = RequestLimit> {
    let span = || proptest::option::of((0u64..400_000).prop_map(Duration::from_millis));
    let limit = proptest::option::of(0.01f64..50_000.0);
    (limit, 0u32..200, span(), span()).prop_map(|(limit, remaining, reset, window)| RequestLimit {
        limit,
        remaining: f64::from(remaining),
        reset,
        window,
    })
}

fn op(headers: bool) -> impl Strategy<Value = Op> {
    let hint = proptest::option::of(0u64..8_000);
    let told = told().prop_map(move |told| headers.then_some(told));
    prop_oneof![
        6 => (0..3usize, prop::bool::weighted(0.2), 0u16..3_000, proptest::option::weighted(0.3, 0u64..30_000))
            .prop_map(|(model, retry, input, patience)| Op::Ask { model, retry, input, patience }),
        2 => any::<usize>().prop_map(Op::Cancel),
        1 => any::<usize>().prop_map(Op::CancelCalled),
        1 => any::<usize>().prop_map(Op::Keep),
        1 => any::<usize>().prop_map(Op::ShutDown),
        4 => (any::<usize>(), 0u8..12, hint, told).prop_map(|(at, how, hint, told)| Op::Finish { at, how, hint, told }),
        3 => (0u64..4_000).prop_map(Op::Wait),
        1 => any::<usize>().prop_map(Op::Poll),
        1 => Just(Op::Run),
    ]
}

fn verdict(how: u8, hint: Option<u64>) -> Option<Verdict> {
    let delay = hint.map(|millis| ServerDelay::new(Duration::from_millis(millis), DelaySource::RetryAfter));
    let retryable = |cause| {
        Verdict::new(Class::Retryable, cause)
            .with_delivery(Delivery::Refused)
            .with_server_delay(delay)
    };
    match how {
        0 => Some(retryable(Cause::RateLimited)),
        1 => Some(retryable(Cause::RateLimited).with_scope(Scope::Concurrency)),
        2 => Some(retryable(Cause::RateLimited).with_scope(Scope::InputTokens)),
        3 | 4 => Some(retryable(Cause::Overloaded)),
        5 => Some(retryable(Cause::ServerError)),
        6 => Some(Verdict::new(Class::QuotaExhausted, Cause::Balance).with_server_delay(delay)),
        7 => Some(Verdict::new(Class::Permanent, Cause::InvalidRequest)),
        _ => None,
    }
}

fn apply(world: &mut World, op: Op) {
    match op {
        Op::Ask {
            model,
            retry,
            input,
            patience,
        } => {
            let weights = Weights {
                input: f64::from(input),
                output: 0.0,
            };
            world.ask(model, retry, weights, patience);
        }
        Op::Cancel(at) if !world.waiting.is_empty() => world.cancel(at % world.waiting.len()),
        Op::CancelCalled(at) if !world.flying.is_empty() => {
            let at = at % world.flying.len();
            world.finish(at, None, true);
            let called = |task: &Task| {
                let waiter = world.state.waiters.get(task.place);
                waiter.is_some_and(|waiter| !waiter.is_queued())
            };
            if let Some(called) = world.waiting.iter().position(called) {
                world.cancel(called);
            }
        }
        Op::ShutDown(at) if !world.waiting.is_empty() => world.shut_down(at % world.waiting.len()),
        Op::Keep(at) if !world.waiting.is_empty() => world.keep(at % world.waiting.len()),
        Op::Finish { at, how, hint, told } if !world.flying.is_empty() => {
            let at = at % world.flying.len();
            assert!(world.flying[at].at <= world.now);
            world.told = told;
            world.finish(at, verdict(how, hint), how == 11);
        }
        Op::Poll(at) if !world.waiting.is_empty() => world.poll(at % world.waiting.len()),
        Op::Wait(millis) => world.now = world.now + Duration::from_millis(millis),
        Op::Run => world.run(),
        Op::Cancel(_) | Op::CancelCalled(_) | Op::Keep(_) | Op::ShutDown(_) | Op::Finish { .. } | Op::Poll(_) => {}
    }
}

fn limited(requests: Option<u32>, input: Option<u32>, places: Option<u32>, of_model: bool) -> Rules {
    let mut limits = Limits::new();
    if let Some(requests) = requests {
        limits = limits.requests_per_minute(requests);
    }
    if let Some(input) = input {
        limits = limits.input_tokens_per_minute(input);
    }
    if let Some(places) = places {
        limits = limits.max_concurrency(places);
    }
    let model = Limits::new().requests_per_minute(30).max_concurrency(1);
    Rules {
        limits,
        models: of_model.then(|| ("limited".to_owned(), model)).into_iter().collect(),
        ..rules()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever happens, in whatever order those that are woken come to go on: the law is kept, lines are kept, nobody is
    /// lost, and everything comes back.
    #[test]
    fn nothing_is_lost_and_no_law_broken(
        requests in proptest::option::of(20u32..2_000),
        input in proptest::option::of(3_000u32..60_000),
        places in proptest::option::of(1u32..6),
        of_model: bool,
        prompt: bool,
        runtimes: bool,
        ops in proptest::collection::vec(op(false), 0..120),
    ) {
        let mut world = World { runtimes, ..World::new(limited(requests, input, places, of_model)) };
        for op in ops {
            apply(&mut world, op);
            if prompt {
                world.run();
            }
            let in_flight = world.state.ceiling.in_flight();
            prop_assert!(places.is_none_or(|places| in_flight <= places));
        }
        world.settle();
        world.assert_whole();
        if let Some(requests) = requests {
            world.assert_within(f64::from(requests) / 60.0, 1.0, |_| 1.0);
        }
        if let Some(input) = input {
            let input = f64::from(input);
            world.assert_within(input / 60.0, input / 6.0, |weights| weights.input);
        }
    }

    /// Whatever headers say, of whatever they count: nobody is lost, and nobody waits without end. What they say of requests
    /// is no word on tokens.
    #[test]
    fn headers_that_tell_nonsense_lose_nobody(
        requests in proptest::option::of(20u32..2_000),
        slow_start: bool,
        ops in proptest::collection::vec(op(true), 0..120),
    ) {
        let input = 30_000.0;
        let mut world = World::new(Rules { slow_start, ..limited(requests, Some(30_000), None, false) });
        for op in ops {
            apply(&mut world, op);
        }
        world.settle();
        world.assert_whole();
        world.assert_within(input / 60.0, input / 6.0, |weights| weights.input);
    }

    /// Windows as their headers tell them, of whatever length and amount, by the minute or as they are: what is configured for all
    /// lanes together is passed by no more than what may come sooner, and by one start in each lane. (Few answers of a short
    /// window may look like those of a bucket, by chance and for a moment; one start is then made beside the pace.)
    #[test]
    fn windows_lift_no_limit(
        requests in 30u32..600,
        part in 0.3f64..3.0,
        length in 4u32..60,
        a_minute: bool,
        asks in proptest::collection::vec((0..3usize, 1u64..900), 40..160),
    ) {
        let (rate, lanes) = (f64::from(requests) / 60.0, MODELS.len() as f64);
        let amount = (part * rate * f64::from(length)).ceil();
        let length = u64::from(length) * 1_000;
        let mut world = World::new(limited(Some(requests), None, None, false));
        let mut used = [(0, 0.0); 3];
        for (model, millis) in asks {
            world.ask(model, false, Weights::default(), None);
            world.now = world.now + Duration::from_millis(millis);
            world.run();
            while !world.flying.is_empty() {
                let at = u64::try_from(world.flying[0].at.since(Tick::default()).as_millis()).unwrap();
                let (window, used) = &mut used[world.flying[0].grant.lane as usize];
                if *window != at / length {
                    (*window, *used) = (at / length, 0.0);
                }
                *used += 1.0;
                world.told = Some(RequestLimit {
                    limit: Some(if a_minute { amount * 60_000.0 / length as f64 } else { amount }),
                    remaining: (amount - *used).max(0.0),
                    reset: Some(Duration::from_millis(length - at % length)),
                    window: None,
                });
                world.finish(0, None, false);
            }
        }
        world.settle();
        world.assert_whole();
        world.assert_within(rate, 1.0 + 2.0 * rate + lanes, |_| 1.0);
    }

    /// Whoever is polled starts in its turn among those that are, but for the steps in which those before it that are not are
    /// passed by.
    #[test]
    fn whoever_is_polled_has_its_turn(
        requests in 30u32..1_000,
        kept in proptest::collection::vec(prop::bool::weighted(0.7), 1..50),
        shut_down: bool,
    ) {
        let mut world = World::new(Rules { budget: RetryBudget::off(), ..limited(Some(requests), None, None, false) });
        world.ask(0, false, Weights::default(), None);
        for retry in [true, false] {
            (0..kept.len()).for_each(|at| world.ask(0, retry && at % 2 == 0, Weights::default(), None));
        }
        world.run();
        // in the order in which they are served
        let mut order: Vec<_> = world.waiting.iter().map(|task| (!task.retry, task.number)).collect();
        order.sort_unstable();
        let mut allowed = Duration::ZERO;
        let mut dead = 0u32;
        let mut bounds = Vec::new();
        // a lane leaves a little to the provider
        let interval = Duration::from_secs_f64(60.0 / (0.99 * f64::from(requests)));
        for ((_, number), kept) in order.into_iter().zip(kept.iter().cycle()) {
            if !*kept {
                // one step for each doubling
                allowed += interval + Duration::from_millis(10) * (dead + 1).next_power_of_two().ilog2();
                bounds.push(allowed);
                dead = 0;
                continue;
            }
            dead += 1;
            let at = world.waiting.iter().position(|task| task.number == number).unwrap();
            if shut_down { world.shut_down(at) } else { world.keep(at) }
        }
        world.pass(allowed + Duration::from_secs(1));
        let starts: Vec<_> = world.starts.iter().skip(1).map(|(at, _)| at.since(Tick::default())).collect();
        prop_assert_eq!(starts.len(), bounds.len());
        for (start, bound) in starts.iter().zip(&bounds) {
            prop_assert!(*start <= *bound + Duration::from_millis(1), "{:?} is later than {:?}", start, bound);
        }
        world.settle();
        world.assert_whole();
    }

    /// Those that are gone before they start leave everything as it was.
    #[test]
    fn cancelled_starts_leave_no_trace(
        asks in proptest::collection::vec((0..3usize, any::<bool>(), 0u16..900), 1..60),
        order in proptest::collection::vec(any::<usize>(), 60),
        places in 1u32..4,
    ) {
        let mut world = World::new(limited(Some(600), Some(6_000), Some(places), true));
        (0..places).for_each(|_| world.ask(0, false, Weights::default(), None));
        world.now = world.now + Duration::from_secs(60);
        world.run();
        let first = world.flying.len();
        let levels = |world: &World| {
            let counters = &world.state.counters;
            [counters.requests, counters.input].map(|bucket| bucket.unwrap().level(world.now))
        };
        let (before, budget) = (levels(&world), world.state.lanes[0].budget);
        for (model, retry, input) in asks {
            world.ask(model, retry, Weights { input: f64::from(input), output: 0.0 }, None);
        }
        prop_assert_eq!(world.flying.len(), first);
        // places come free, and those are called that will never take them
        while !world.flying.is_empty() {
            world.finish(0, None, true);
        }
        for at in order {
            if !world.waiting.is_empty() {
                world.cancel(at % world.waiting.len());
            }
        }
        for (before, after) in before.into_iter().zip(levels(&world)) {
            prop_assert!((before - after).abs() < 1e-3, "{} {}", before, after);
        }
        prop_assert_eq!(world.state.lanes[0].budget, budget);
        world.settle();
        world.assert_whole();
    }
}

/// Whoever came first is served first, even if a newcomer looks before a driver has woken.
#[test]
fn a_newcomer_does_not_jump_the_queue() {
    let mut world = World::new(limited(Some(60), None, None, false));
    world.ask(0, false, Weights::default(), None);
    world.ask(0, false, Weights::default(), None);
    world.run();
    world.now = world.now + Duration::from_secs(2);
    world.ask(1, false, Weights::default(), None);
    assert_eq!(world.waiting.len(), 2);
    let now = world.now;
    world.run();
    assert_eq!(world.starts.iter().filter(|(at, _)| *at == now).count(), 1);
    assert_eq!(world.waiting[0].number, 3);
    world.settle();
    world.assert_whole();
}

/// One that joins and waits for less time than the others has the drivers wake earlier.
#[test]
fn drivers_are_armed_to_the_earliest() {
    let mut world = World::new(limited(Some(60_000), None, None, true));
    let slow = verdict(3, Some(60_000));
    world.ask(0, false, Weights::default(), None);
    world.finish(0, slow, false);
    world.ask(0, false, Weights::default(), None);
    world.now = world.now + Duration::from_millis(10);
    world.ask(2, false, Weights::default(), None);
    world.finish(0, None, true);
    world.run();
    assert_eq!(world.drivers.len(), 1);
    world.ask(2, false, Weights::default(), None);
    world.run();
    for driving in &world.drivers {
        let soon = driving.sleeping.since(world.now);
        assert!(soon <= Duration::from_secs(3), "{soon:?}");
    }
}

/// So many that are kept, in front of one that is not, who starts within a tenth of a second of its turn.
#[test]
fn those_that_are_not_polled_are_passed_by() {
    for (requests, places) in [(Some(60), None), (None, Some(1)), (Some(60), Some(1))] {
        for kept in [1, 2, 3, 40, 100] {
            let mut world = World::new(limited(requests, None, places, false));
            world.ask(0, false, Weights::default(), None);
            for _ in 0..kept {
                world.ask(0, false, Weights::default(), None);
            }
            world.run();
            (0..kept).for_each(|at| world.keep(at));
            for _ in 0..3 {
                world.ask(0, false, Weights::default(), None);
            }
            world.pass(Duration::from_secs(1));
            for begun in 0..3 {
                if places.is_some() {
                    world.finish(0, None, false);
                }
                let wanted = world.starts.len() + usize::from(begun > 0 || requests.is_none() || places.is_some());
                world.pass(Duration::from_millis(100));
                assert!(world.starts.len() >= wanted.min(4), "{kept} kept, {begun} begun");
                world.pass(Duration::from_millis(900));
            }
            assert_eq!(world.waiting.len(), kept);
            // when they are polled at last, they go before whoever comes then
            world.poll_kept();
            world.ask(0, false, Weights::default(), None);
            world.settle();
            world.assert_whole();
        }
    }
}

/// Many places come free together, and most of those that wait for them are not polled.
#[test]
fn many_places_are_not_held_by_those_that_are_not_polled() {
    let mut world = World::new(limited(None, None, Some(100), false));
    (0..260).for_each(|_| world.ask(0, false, Weights::default(), None));
    world.run();
    (0..150).for_each(|at| world.keep(at));
    while !world.flying.is_empty() {
        world.finish(0, None, true);
    }
    world.pass(Duration::from_millis(100));
    assert_eq!((world.flying.len(), world.waiting.len()), (10, 150));
    world.settle();
    world.assert_whole();
}

/// One that was set aside is again where it stood when it polls.
#[test]
fn one_that_was_passed_by_keeps_its_order() {
    let mut world = World::new(limited(Some(60), None, None, false));
    (0..5).for_each(|_| world.ask(0, false, Weights::default(), None));
    world.run();
    (0..2).for_each(|at| world.keep(at));
    world.pass(Duration::from_millis(1_500));
    assert_eq!((world.starts.len(), world.waiting.len()), (2, 3));
    world.poll_kept();
    (0..2).rev().for_each(|at| world.poll(at));
    for number in [2, 3, 5] {
        assert_eq!(world.waiting[0].number, number);
        world.pass(Duration::from_secs(1));
    }
    world.settle();
    world.assert_whole();
}
