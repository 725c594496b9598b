//! The account under the schedules that threads can meet: loom runs each test once for every order of its threads' steps, in
//! a clock that only the test moves. Knows nothing of HTTP. Whoever waits for ever is reported as a deadlock. Each waiter drives
//! itself, as outside of any runtime.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake};

use loom::sync::Condvar;
use loom::thread::{self, JoinHandle};

use super::sync::Mutex;
use super::*;
use crate::classify::{Cause, Class, Verdict};

/// A clock that stands still until it is moved.
#[derive(Debug, Clone)]
struct Hands(Arc<Dial>);

#[derive(Debug)]
struct Dial {
    base: Instant,
    /// Behind loom's lock, so that moving it is a step like any other.
    face: Mutex<Face>,
    /// Somebody sleeps, or it is stopped.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Face {
    now: Duration,
    next: u32,
    sleepers: Vec<Sleeper>,
    is_stopped: bool,
}

#[derive(Debug)]
struct Sleeper {
    number: u32,
    until: Duration,
    waker: Waker,
}

impl Hands {
    fn new() -> Self {
        Self(Arc::new(Dial {
            base: Instant::now(),
            face: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    fn passed(&self) -> Duration {
        self.0.face.lock().unwrap().now
    }

    fn move_to(&self, now: Duration) {
        self.advance(self.0.face.lock().unwrap(), now);
    }

    /// Moves on whenever somebody sleeps, until it is stopped.
    fn run(&self) {
        loop {
            let mut face = self.0.face.lock().unwrap();
            let next = loop {
                if face.is_stopped {
                    return;
                }
                match face.sleepers.iter().map(|sleeper| sleeper.until).min() {
                    Some(next) => break next,
                    None => face = self.0.changed.wait(face).unwrap(),
                }
            };
            self.advance(face, next);
        }
    }

    fn stop(&self) {
        self.0.face.lock().unwrap().is_stopped = true;
        self.0.changed.notify_one();
    }

    #[allow(clippy::unused_self, reason = "it is its face")]
    fn advance(&self, mut face: MutexGuard<'_, Face>, now: Duration) {
        face.now = face.now.max(now);
        let now = face.now;
        let due: Vec<_> = face.sleepers.extract_if(.., |sleeper| sleeper.until <= now).collect();
        drop(face);
        due.into_iter().for_each(|sleeper| sleeper.waker.wake());
    }
}

impl Clock for Hands {
    fn now(&self) -> Instant {
        self.0.base + self.passed()
    }

    fn wall_now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.passed()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Sleep {
            hands: self,
            until: at - self.0.base,
            number: None,
        })
    }
}

struct Sleep<'a> {
    hands: &'a Hands,
    until: Duration,
    number: Option<u32>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut face = self.hands.0.face.lock().unwrap();
        if face.now >= self.until {
            return Poll::Ready(());
        }
        face.next += 1;
        let number = face.next;
        let sleeper = Sleeper {
            number,
            until: self.until,
            waker: cx.waker().clone(),
        };
        face.sleepers.retain(|sleeper| Some(sleeper.number) != self.number);
        face.sleepers.push(sleeper);
        drop(face);
        self.hands.0.changed.notify_one();
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if self.number.is_some() {
            let mut face = self.hands.0.face.lock().unwrap();
            face.sleepers.retain(|sleeper| Some(sleeper.number) != self.number);
        }
    }
}

/// Rings when its thread shall go on.
struct Bell {
    rung: Mutex<bool>,
    rings: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.rings.notify_one();
    }
}

/// Runs a future as a runtime would that polls it when it is woken, and never else.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let bell = Arc::new(Bell {
        rung: Mutex::new(false),
        rings: Condvar::new(),
    });
    let waker = Waker::from(Arc::clone(&bell));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut rung = bell.rung.lock().unwrap();
        while !*rung {
            rung = bell.rings.wait(rung).unwrap();
        }
        *rung = false;
    }
}

type Start = Pin<Box<dyn Future<Output = Result<Permit, RetryError>> + Send>>;

fn ask(account: &Account, deadline: Option<Instant>) -> Start {
    let account = account.clone();
    Box::pin(async move { account.admit(Cost::new(), deadline).await })
}

/// Polls once, for somebody who will not be there when it is woken.
fn look(asked: &mut Start) -> Poll<Result<Permit, RetryError>> {
    asked.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A start that nothing keeps waiting.
fn at_once(account: &Account) -> Permit {
    match look(&mut ask(account, None)) {
        Poll::Ready(Ok(permit)) => permit,
        other => panic!("not granted at once: {other:?}"),
    }
}

/// One that has been polled, and waits.
fn waiting(account: &Account) -> Start {
    let mut asked = ask(account, None);
    assert!(look(&mut asked).is_pending());
    asked
}

/// Nobody waits, nothing is in flight, and a start is as good as the first.
fn is_whole(account: &Account) {
    let status = account.status();
    let waiting: u32 = status.lanes.iter().map(|lane| lane.waiting).sum();
    assert_eq!((status.in_flight, waiting), (0, 0));
}

/// How many hold the one place there is.
#[derive(Clone, Default)]
struct Holders(Arc<AtomicU32>);

impl Holders {
    /// Holds it for a moment.
    fn hold(&self, permit: Permit) {
        assert_eq!(self.0.fetch_add(1, Ordering::SeqCst), 0, "two hold the same place");
        thread::yield_now();
        self.0.fetch_sub(1, Ordering::SeqCst);
        drop(permit);
    }
}

/// Runs a test in every order of its threads' steps in which threads are interrupted, with something left to do, at most
/// three times (or as often as `LOOM_MAX_PREEMPTIONS` says): almost all faults need fewer, and each more takes five times as
/// long.
fn in_every_order(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(test);
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Time for any one start.
const LONG: Duration = Duration::from_secs(10);

/// 60 a minute with the first start made, and one that waits for the second and is not polled again.
fn paced(hands: &Hands) -> (Account, Permit, Start) {
    let account = Account::builder().requests_per_minute(60).clock(hands.clone()).build();
    let account = account.unwrap();
    let first = at_once(&account);
    let kept = waiting(&account);
    (account, first, kept)
}

/// One in flight at most, and one is.
fn full(hands: &Hands) -> (Account, Permit) {
    let account = Account::builder().max_concurrency(1).clock(hands.clone()).build();
    let account = account.unwrap();
    let first = at_once(&account);
    (account, first)
}

/// One leaves while another joins, and the time comes: the other has it.
#[test]
fn one_that_leaves_stops_nobody() {
    in_every_order(|| {
        let hands = Hands::new();
        let (account, first, leaver) = paced(&hands);
        let other = thread::spawn({
            let account = account.clone();
            move || drop(block_on(ask(&account, None)).unwrap())
        });
        let leaver = thread::spawn(move || drop(leaver));
        hands.move_to(LONG);
        join([other, leaver]);
        drop(first);
        is_whole(&account);
    });
}

/// Two join as the time of the first of them comes: it starts, and the other is woken when the time of that one comes.
#[test]
fn one_that_starts_stops_nobody() {
    in_every_order(|| {
        let hands = Hands::new();
        let (account, first, leaver) = paced(&hands);
        drop(leaver);
        let others = [(); 2].map(|()| {
            let (account, hands) = (account.clone(), hands.clone());
            thread::spawn(move || {
                let permit = block_on(ask(&account, None)).unwrap();
                hands.move_to(hands.passed() + LONG);
                // not given back yet, since that would wake the other too
                permit
            })
        });
        hands.move_to(LONG);
        drop((first, others.map(|other| other.join().unwrap())));
        is_whole(&account);
    });
}

/// The first is called and does not come; one that asks in the meantime and does not wait changes nothing of it: the other
/// sees to the time after.
#[test]
fn one_that_only_asks_stops_nobody() {
    in_every_order(|| {
        let hands = Hands::new();
        let (account, first, slow) = paced(&hands);
        let other = thread::spawn({
            let account = account.clone();
            move || block_on(ask(&account, None)).unwrap()
        });
        hands.move_to(LONG);
        let refused = look(&mut ask(&account, Some(hands.now())));
        assert!(matches!(refused, Poll::Ready(Err(_))), "{refused:?}");
        hands.move_to(2 * LONG);
        drop((other.join().unwrap(), first));
        drop(slow);
        is_whole(&account);
    });
}

/// A start fits at the moment when the one that is called leaves: the next one has it, at the same time, and only that one.
#[test]
fn a_slot_that_is_not_used_is_the_next_ones() {
    in_every_order(|| {
        let hands = Hands::new();
        let (account, first, leaver) = paced(&hands);
        let other = thread::spawn({
            let account = account.clone();
            move || block_on(ask(&account, None)).unwrap()
        });
        let leaver = thread::spawn(move || drop(leaver));
        // time for one start, not for two
        hands.move_to(Duration::from_millis(1_500));
        let other = other.join().unwrap();
        join([leaver]);
        assert_eq!(account.status().in_flight, 2);
        drop(waiting(&account));
        drop((first, other));
        is_whole(&account);
    });
}

/// A place is given back at the moment when the one that it goes to leaves: the next one has it.
#[test]
fn a_place_that_is_not_used_is_the_next_ones() {
    in_every_order(|| {
        let hands = Hands::new();
        let (account, first) = full(&hands);
        let holders = Holders::default();
        let leaver = waiting(&account);
        let other = thread::spawn({
            let (account, holders) = (account.clone(), holders.clone());
            move || holders.hold(block_on(ask(&account, None)).unwrap())
        });
        let leaver = thread::spawn(move || drop(leaver));
        holders.hold(first);
        join([other, leaver]);
        is_whole(&account);
        drop(at_once(&account));
    });
}

/// Those that are called and never polled again cost the other their grace, and nothing else; in the end they are whole.
#[test]
fn one_that_is_not_polled_is_passed_by() {
    in_every_order(|| {
        let hands = Hands::new();
        let (account, first, kept) = paced(&hands);
        let other = polled_while_time_passes(&account, &hands, || {});
        assert!(hands.passed() < Duration::from_millis(1_100), "{:?}", hands.passed());
        drop((kept, first, other));
        is_whole(&account);
    });
}

/// The same for the only place, which is given back as another comes.
#[test]
fn a_place_is_not_held_by_one_that_is_not_polled() {
    in_every_order(|| {
        let hands = Hands::new();
        let (account, first) = full(&hands);
        let kept = waiting(&account);
        let other = polled_while_time_passes(&account, &hands, || drop(first));
        assert!(hands.passed() < Duration::from_millis(100), "{:?}", hands.passed());
        drop(other);
        // at last
        let mut kept = kept;
        assert!(matches!(look(&mut kept), Poll::Ready(Ok(_))));
        is_whole(&account);
    });
}

/// One that waits on a thread of its own, until it has started, while time passes and something happens.
fn polled_while_time_passes(account: &Account, hands: &Hands, happens: impl FnOnce()) -> Permit {
    let other = thread::spawn({
        let (account, hands) = (account.clone(), hands.clone());
        move || {
            let permit = block_on(ask(&account, None)).unwrap();
            hands.stop();
            permit
        }
    });
    happens();
    hands.run();
    other.join().unwrap()
}

/// The caller's time is up at the moment when a place is given back: it has the place, or another has.
#[test]
fn a_place_that_comes_as_time_is_up_is_not_lost() {
    in_every_order(|| {
        let hands = Hands::new();
        let (account, first) = full(&hands);
        let holders = Holders::default();
        let limit = Duration::from_secs(1);
        let patient = thread::spawn({
            let (account, holders, deadline) = (account.clone(), holders.clone(), hands.now() + limit);
            move || match block_on(ask(&account, Some(deadline))) {
                Ok(permit) => holders.hold(permit),
                Err(refused) => assert_eq!(refused.stop(), StopReason::QueuePastDeadline),
            }
        });
        let mover = thread::spawn({
            let hands = hands.clone();
            move || hands.move_to(limit)
        });
        holders.hold(first);
        join([patient, mover]);
        is_whole(&account);
        drop(at_once(&account));
    });
}

/// A place is given back while two join the queue: both are woken, one after the other.
#[test]
fn a_place_given_back_while_others_join_is_not_missed() {
    in_every_order(|| {
        let hands = Hands::new();
        let (account, first) = full(&hands);
        let holders = Holders::default();
        let others = [(); 2].map(|()| {
            let (account, holders) = (account.clone(), holders.clone());
            thread::spawn(move || holders.hold(block_on(ask(&account, None)).unwrap()))
        });
        holders.hold(first);
        join(others);
        is_whole(&account);
        drop(at_once(&account));
    });
}

/// Two wait for a breaker that lets one probe through, and it comes to nothing: there is never a second beside it, and its
/// place is the other's when it is gone.
#[test]
fn a_probe_that_comes_to_nothing_gives_its_place_back() {
    in_every_order(|| {
        let hands = Hands::new();
        // one failure opens it
        let breaker = CircuitBreaker::new()
            .min_calls(1)
            .min_failures(1)
            .min_duration(Duration::ZERO);
        let account = Account::builder().circuit_breaker(breaker).clock(hands.clone()).build();
        let account = account.unwrap();
        let url = reqwest::Url::parse("https://api.example/v1/chat/completions").unwrap();
        let seen = crate::Seen::timed_out(&http::Method::POST, &url);
        let ill = Verdict::new(Class::Retryable, Cause::ServerError);
        while let Poll::Ready(Ok(mut permit)) = look(&mut ask(&account, None)) {
            permit.report(&seen, Some(&ill));
        }
        assert_eq!(account.status().lanes[0].breaker, BreakerStatus::Open);
        let holders = Holders::default();
        let probes = [(); 2].map(|()| {
            let (account, holders) = (account.clone(), holders.clone());
            thread::spawn(move || holders.hold(block_on(ask(&account, None)).unwrap()))
        });
        hands.move_to(Duration::from_secs(5));
        join(probes);
        assert_eq!(account.status().lanes[0].breaker, BreakerStatus::HalfOpen);
        is_whole(&account);
        drop(at_once(&account));
    });
}

/// Sends that a quiet account was not asked for are counted when a provider speaks, each once.
#[test]
fn sends_that_were_not_asked_for_are_counted_once() {
    in_every_order(|| {
        let account = Account::builder().unbuilt().with_clock(Arc::new(Hands::new())).made();
        let sends = [(); 2].map(|()| {
            let account = account.clone();
            thread::spawn(move || {
                let asked = Asked::by_hand(None);
                let mut admitted = match account.unasked(Instant::now()) {
                    Some(unasked) => unasked,
                    None => return drop(at_once(&account)),
                };
                admitted.adopt(&asked, Instant::now());
                let told = Verdict::new(Class::Retryable, Cause::Overloaded);
                let _: state::Changes = admitted.hear(
                    Some(told),
                    None,
                    None,
                    Evidence {
                        signal: Signal::of(Some(&told), Cut::No),
                        call: next_call(),
                        given_up: false,
                    },
                );
            })
        });
        join(sends);
        assert_eq!(account.shared.unasked_in_flight.load(Ordering::SeqCst), 0);
        is_whole(&account);
    });
}
