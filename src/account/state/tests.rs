//! The state against whatever may happen to it, in any order: all that threads share is behind one lock, so that the order
//! of the steps is all that a schedule is.

use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use proptest::prelude::*;

use super::super::lane::{Asked, Keyed, LaneNames};
use super::*;
use crate::retry_after::{DelaySource, ServerDelay};

const MODELS: [&str; 3] = ["a", "b", "limited"];

fn rules() -> Rules {
    Rules {
        limits: Limits::new(),
        models: Vec::new(),
        slow_start: false,
        breaker: true,
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

struct Task {
    number: u64,
    place: Place,
    lane: u32,
    retry: bool,
    bound: Option<Tick>,
    flag: Arc<Flag>,
    /// What its timer is set to.
    sleeping: Option<Tick>,
    granted_at: Option<Tick>,
}

impl Task {
    fn is_due(&self, now: Tick) -> bool {
        self.flag.0.load(Ordering::SeqCst)
            || self.sleeping.is_some_and(|until| until <= now)
            || self.bound.is_some_and(|bound| bound <= now)
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
        for task in &mut self.waiting {
            let answer = self.state.waiters.answer_of(task.place);
            if task.granted_at.is_none() && matches!(answer, Some(Ok(_))) {
                task.granted_at = Some(self.now);
            }
        }
        result
    }

    fn ask(&mut self, model: usize, retry: bool, weights: Weights, patience: Option<u64>) {
        let asked = Asked::by_hand(MODELS.get(model).copied());
        let key = self.names.key(&asked, &self.hasher);
        let name = self.names.name(&asked);
        let bound = patience.map(|millis| self.now + Duration::from_millis(millis));
        self.asked += 1;
        let now = self.now;
        let lane = self.state.lane(key, || name, now);
        let asked = self.step(|state, now, woken| {
            let blocked = state.settle(now, woken);
            state.try_start(lane, weights, retry, bound, blocked, now)
        });
        match asked {
            Ask::Granted(grant) => self.answer(Ok(grant), now),
            Ask::Refused(refusal) => self.answer(Err(refusal), now),
            Ask::Wait => {
                let place = self.state.join(lane, weights, retry, bound).unwrap();
                self.waiting.push(Task {
                    number: self.asked,
                    place,
                    lane,
                    retry,
                    bound,
                    // it has yet to be polled
                    flag: Arc::new(Flag(AtomicBool::new(true))),
                    sleeping: None,
                    granted_at: None,
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
        let now = self.now;
        let task = &mut self.waiting[at];
        task.flag.0.store(false, Ordering::SeqCst);
        let (place, waker, bound) = (task.place, Waker::from(Arc::clone(&task.flag)), task.bound);
        let polled = self.step(|state, now, woken| state.poll(place, &waker, now, woken));
        let task = &mut self.waiting[at];
        let answer = match polled {
            Polled::Answered(answer) => answer,
            Polled::Sleep(until) => {
                assert!(until > now, "a timer that is due at once would spin");
                task.sleeping = Some(until);
                return self.expire(at, bound);
            }
            Polled::Wait => {
                task.sleeping = None;
                return self.expire(at, bound);
            }
        };
        self.gone(at, answer);
    }

    fn expire(&mut self, at: usize, bound: Option<Tick>) {
        if bound.is_some_and(|bound| bound <= self.now) {
            let place = self.waiting[at].place;
            let answer = self.step(|state, now, woken| state.expire(place, now, woken));
            self.gone(at, answer);
        }
    }

    fn gone(&mut self, at: usize, answer: Answer) {
        let task = self.waiting.remove(at);
        if answer.is_ok() {
            // whoever came earlier in its line has been answered already, and no retry is left behind
            let still_waits = |other: &&Task| self.state.waiters.get(other.place).is_some();
            let passed_by = self
                .waiting
                .iter()
                .filter(|other| other.lane == task.lane)
                .filter(still_waits);
            for other in passed_by {
                assert!(
                    other.retry != task.retry || other.number > task.number,
                    "{} went before {}",
                    task.number,
                    other.number
                );
            }
        }
        let granted_at = task.granted_at.unwrap_or(self.now);
        self.answer(answer, granted_at);
    }

    /// Lets all that are woken go on, as they would by themselves.
    fn run(&mut self) {
        for _ in 0..10_000 {
            let Some(at) = self.waiting.iter().position(|task| task.is_due(self.now)) else {
                return self.check_timer();
            };
            self.poll(at);
        }
        panic!("those that wait wake one another without end");
    }

    fn cancel(&mut self, at: usize) {
        let task = self.waiting.remove(at);
        self.answered += 1;
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
            };
            self.step(|state, now, woken| state.hear(&mut flight.grant, heard, now, woken));
        }
        self.step(|state, now, woken| state.finish(&flight.grant, now, woken));
    }

    /// Whoever waits will be woken: by a timer that is set early enough, or by somebody in flight.
    fn check_timer(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let Next { at: next, blocked } = self.step(|state, now, woken| state.dispatch(now, woken));
        if self.waiting.iter().any(|task| task.is_due(self.now)) {
            // a pace that has grown lets somebody go a little earlier
            return self.run();
        }
        let Some(next) = next else {
            assert!(!self.flying.is_empty(), "nobody is left to wake those that wait");
            return;
        };
        let Some((holder, armed)) = self.state.armed() else {
            // a learnt ceiling was raised by time alone: the next that ends will show it
            assert!(!self.flying.is_empty(), "somebody holds the timer");
            return;
        };
        let holder = self.waiting.iter().find(|task| task.place == holder).unwrap();
        // a pace that has grown since it was set would have it a little earlier
        // (and who is behind one that waits for all does not matter)
        assert!(
            armed.since(next) <= LOOK_AGAIN + LOOK_AGAIN || blocked.is_some(),
            "{armed:?} is not {next:?}"
        );
        assert_eq!(holder.sleeping, Some(armed));
    }

    /// All go home, and time passes.
    fn settle(&mut self) {
        for _ in 0..20_000 {
            self.run();
            if !self.flying.is_empty() {
                self.finish(0, None, false);
            } else if let Some(next) = self.waiting.iter().filter_map(|task| task.sleeping).min() {
                self.now = self.now.max(next);
            } else {
                assert!(self.waiting.is_empty());
                return;
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

    /// Nothing is held by anybody.
    fn assert_whole(&mut self) {
        assert_eq!(self.answered, self.asked, "nobody is lost");
        let state = &mut self.state;
        assert_eq!(state.ceiling.in_flight(), 0);
        assert!(state.busy.is_empty() && state.armed().is_none());
        for model in &state.models {
            assert_eq!(model.ceiling.in_flight(), 0);
        }
        for lane in &state.lanes {
            assert!(lane.is_idle() && lane.retries.load() == Load::default() && lane.fresh.load() == Load::default());
            assert!(
                !matches!(lane.breaker.position(self.now), Position::HalfOpen { probing: Some(_) }),
                "no probe is out"
            );
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
    /// A turn comes free, and whoever got it is gone before it hears of it.
    CancelGranted(usize),
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
        1 => any::<usize>().prop_map(Op::CancelGranted),
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
        Op::CancelGranted(at) if !world.flying.is_empty() => {
            let at = at % world.flying.len();
            world.finish(at, None, true);
            if let Some(granted) = world.waiting.iter().position(|task| task.granted_at.is_some()) {
                world.cancel(granted);
            }
        }
        Op::Finish { at, how, hint, told } if !world.flying.is_empty() => {
            let at = at % world.flying.len();
            assert!(world.flying[at].at <= world.now);
            world.told = told;
            world.finish(at, verdict(how, hint), how == 11);
        }
        Op::Poll(at) if !world.waiting.is_empty() => world.poll(at % world.waiting.len()),
        Op::Wait(millis) => world.now = world.now + Duration::from_millis(millis),
        Op::Run => world.run(),
        Op::Cancel(_) | Op::CancelGranted(_) | Op::Finish { .. } | Op::Poll(_) => {}
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
        ops in proptest::collection::vec(op(false), 0..120),
    ) {
        let mut world = World::new(limited(requests, input, places, of_model));
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

    /// Windows as their headers tell them, of whatever length and amount, by the minute or as they are: what is configured for all lanes together is
    /// passed by no more than what may come sooner.
    #[test]
    fn windows_lift_no_limit(
        requests in 30u32..600,
        part in 0.3f64..3.0,
        length in 4u32..60,
        a_minute: bool,
        asks in proptest::collection::vec((0..3usize, 1u64..900), 40..160),
    ) {
        let rate = f64::from(requests) / 60.0;
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
        world.assert_within(rate, 1.0 + 2.0 * rate, |_| 1.0);
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
        // places come free, and are granted to those that will never take them
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

/// The one that holds the timer hands it on, whichever way it goes.
#[test]
fn the_timer_is_handed_on() {
    for way in ["cancelled", "expired", "earlier"] {
        let mut world = World::new(limited(Some(60), None, None, true));
        world.ask(0, false, Weights::default(), None);
        world.ask(0, false, Weights::default(), (way == "expired").then_some(500));
        world.ask(0, false, Weights::default(), None);
        if way == "expired" {
            // known not to fit
            assert_eq!(world.waiting.len(), 1);
        }
        world.run();
        assert!(world.waiting[0].sleeping.is_some());
        match way {
            "cancelled" => world.cancel(0),
            "earlier" => world.ask(1, false, Weights::default(), None),
            _ => {}
        }
        world.run();
        world.settle();
        world.assert_whole();
    }
}

/// Whoever came first is served first, even if a newcomer looks before the timer has fired.
#[test]
fn a_newcomer_does_not_jump_the_queue() {
    let mut world = World::new(limited(Some(60), None, None, false));
    world.ask(0, false, Weights::default(), None);
    world.ask(0, false, Weights::default(), None);
    world.run();
    world.now = world.now + Duration::from_secs(2);
    world.ask(1, false, Weights::default(), None);
    assert_eq!(world.waiting.len(), 2);
    assert_eq!(world.waiting[0].granted_at, Some(world.now));
    world.settle();
    world.assert_whole();
}

/// One that waits for less time than the one that holds the timer takes it over.
#[test]
fn the_timer_is_set_to_the_earliest() {
    let mut world = World::new(limited(Some(60_000), None, None, true));
    let slow = verdict(3, Some(60_000));
    world.ask(0, false, Weights::default(), None);
    world.finish(0, slow, false);
    world.ask(0, false, Weights::default(), None);
    world.now = world.now + Duration::from_millis(10);
    world.ask(2, false, Weights::default(), None);
    world.finish(0, None, true);
    world.run();
    assert!(world.waiting[0].sleeping.is_some());
    world.ask(2, false, Weights::default(), None);
    world.run();
    let soon = world.waiting[1].sleeping.unwrap();
    assert!(soon.since(world.now) <= Duration::from_secs(3), "{soon:?}");
}
