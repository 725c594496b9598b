//! One allowance shared by many callers: whether and when a send may start. Knows what answers teach, not how a call goes
//! on.

mod breaker;
mod budget;
mod builder;
mod concurrency;
mod credit;
#[cfg(feature = "redis")]
mod digest;
mod driver;
mod headers;
mod hold;
mod lane;
mod learn;
mod lease;
mod limits;
mod meter;
mod pace;
mod pause;
mod permit;
mod queue;
#[cfg(feature = "redis")]
mod redis;
mod relevance;
mod size;
mod start;
mod state;
mod status;
mod store;
mod sync;
mod tick;
mod unasked;
mod usage;
mod waiting;
mod window;

#[cfg(all(test, ai_retry_loom))]
mod interleavings;

use std::hash::RandomState;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime};

pub use breaker::CircuitBreaker;
pub use budget::RetryBudget;
pub use builder::{AccountBuilder, BuildError};
pub use lane::LaneName;
pub use limits::Limits;
pub use permit::Permit;
#[cfg(feature = "redis")]
pub use redis::{RedisStore, StoreError};
pub use size::{Charge, Cost};
pub use status::{AccountStatus, BreakerStatus, LaneStatus, StoreStatus};
pub use usage::Usage;

pub(crate) use breaker::Signal;
pub(crate) use hold::Remembered;
pub(crate) use lane::{Asked, hash_credential};
pub(crate) use permit::{Admitted, Evidence, next_call};
pub(crate) use start::{Priority, StartRequest};
pub(crate) use state::{Change, Cut};
pub(crate) use usage::Tail;

pub(crate) use headers::RequestLimit;

use crate::classify::Verdict;
use crate::clock::Clock;
use crate::error::RetryError;
use crate::observe::WaitCause;
use crate::outcome::StopReason;
use lane::{Keyed, Known, LaneNames};
use queue::Place;
use size::{Size, Sizes};
use state::{Ask, State};
use sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering};
use tick::Tick;
use unasked::Unasked;

/// One allowance, shared: by the clients, tasks and threads that hold a clone of it.
///
/// ```
/// use reqwest_ai_retry::{Account, RetryMiddleware};
///
/// # fn build() -> Result<(), Box<dyn std::error::Error>> {
/// let account = Account::builder().requests_per_minute(90).max_concurrency(4).build()?;
/// let (one, other) = (
///     RetryMiddleware::builder().account(account.clone()).build(),
///     RetryMiddleware::builder().account(account.clone()).build(),
/// );
/// // whatever the two do together, they share the one pace
/// # let _ = (one, other); Ok(()) }
/// ```
#[derive(Clone)]
pub struct Account {
    shared: Arc<Shared>,
}

struct Shared {
    base: Instant,
    clock: Arc<dyn Clock>,
    hasher: Keyed,
    names: LaneNames,
    sizes: Sizes,
    /// Nothing is configured, and no provider has spoken: there is nothing to ask.
    quiet: AtomicBool,
    /// Sends that were made without asking.
    unasked: Unasked,
    /// Those of them that are in flight.
    unasked_in_flight: AtomicU32,
    state: Mutex<State>,
    /// Whoever asks the store, if others share the account.
    #[cfg(feature = "redis")]
    link: Option<redis::Link>,
}

impl Account {
    /// To set limits.
    pub fn builder() -> AccountBuilder {
        AccountBuilder::default()
    }

    /// No configured limit, and a rate that is found by slow start: one start a second at first, doubled every two
    /// seconds, until headers or a refusal show the rate. For a batch against an account whose allowance is not known.
    pub fn adaptive() -> Self {
        Self::builder().slow_start().made()
    }

    fn new(names: LaneNames, sizes: Sizes, clock: Arc<dyn Clock>, quiet: bool, rules: state::Rules) -> Self {
        Self {
            shared: Arc::new(Shared {
                base: clock.now(),
                clock,
                hasher: Keyed::Here(RandomState::new()),
                names,
                sizes,
                quiet: AtomicBool::new(quiet),
                unasked: Unasked::default(),
                unasked_in_flight: AtomicU32::new(0),
                state: Mutex::new(State::new(rules, Tick::default())),
                #[cfg(feature = "redis")]
                link: None,
            }),
        }
    }

    /// The same, shared with others through a store.
    #[cfg(feature = "redis")]
    fn shared(names: LaneNames, sizes: Sizes, clock: Arc<dyn Clock>, rules: state::Rules, store: RedisStore) -> Self {
        let mut state = State::new(rules, Tick::default());
        state.share(store.fewest());
        let shared = Arc::new_cyclic(|me| Shared {
            base: clock.now(),
            clock,
            hasher: Keyed::Everywhere(store.digest()),
            names,
            sizes,
            // others may have heard what this one has not
            quiet: AtomicBool::new(false),
            unasked: Unasked::default(),
            unasked_in_flight: AtomicU32::new(0),
            state: Mutex::new(state),
            link: Some(redis::Link::new(me.clone(), store)),
        });
        Self { shared }
    }

    /// A snapshot of all that is known.
    pub fn status(&self) -> AccountStatus {
        let now = self.shared.now();
        self.shared.lock().status(now, |tick| self.shared.wall(tick, now))
    }

    /// Waits for a start, for a program with a client of its own. `deadline` bounds the wait, whatever it is for (an open
    /// breaker included); a wait that is known not to fit is refused at once. A future of it that is kept and not polled
    /// keeps its place, and holds up no other call.
    ///
    /// ```
    /// # async fn run(account: reqwest_ai_retry::Account) -> Result<(), reqwest_ai_retry::RetryError> {
    /// use reqwest_ai_retry::{Cost, Usage};
    ///
    /// let permit = account.admit(Cost::new().model("big-model").input_tokens(1_200).max_output_tokens(500), None).await?;
    /// // … call the provider, then say what it took:
    /// permit.settle(Usage { input_tokens: Some(1_180), output_tokens: Some(212) });
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`RetryError::Refused`] with the reason and, if it is known, the time at which it is worth asking again.
    #[allow(clippy::manual_async_fn, reason = "an async fn has room for its arguments twice")]
    pub fn admit(
        &self,
        cost: Cost,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<Permit, RetryError>> + Send {
        async move {
            // left with before the wait, which would keep room for the answer
            let waiting = match self.ask_by_hand(&cost, deadline) {
                Asking::Granted(grant) => return Ok(Permit::new(self.clone(), grant, 0)),
                Asking::Refused(refusal) => return Err(self.refused(refusal).into()),
                Asking::Queued(place, bound, _) => self.shared.wait(place, bound),
            };
            match waiting.await {
                Ok(grant) => Ok(Permit::new(self.clone(), grant, 0)),
                Err(refusal) => Err(self.refused(refusal).into()),
            }
        }
    }

    #[inline]
    fn ask_by_hand(&self, cost: &Cost, deadline: Option<Instant>) -> Asking {
        let bound = deadline.map(|deadline| Tick::at(deadline, self.shared.base));
        // the request will not be here when its answer is reported
        self.shared.quiet.store(false, Ordering::Relaxed);
        let asked = Asked::by_hand(cost.model.as_deref());
        self.ask(&asked, || cost.size(), StartRequest::default().until(bound))
    }

    /// The same for the loop, which is told if it waits, for what, and until when as far as is known.
    pub(crate) async fn admit_call(
        &self,
        asked: &Asked<'_>,
        size: impl FnOnce() -> Size,
        request: StartRequest,
        queued: impl FnOnce(WaitCause, Option<SystemTime>),
    ) -> Result<Admitted, Refused> {
        let answer = match self.ask(asked, size, request) {
            Asking::Granted(grant) => Ok(grant),
            Asking::Refused(refusal) => Err(refusal),
            // boxed, since most starts do not wait and would have room for it
            Asking::Queued(place, bound, (cause, until)) => {
                queued(
                    cause,
                    until.and_then(|until| self.shared.wall(until, self.shared.now())),
                );
                Box::pin(self.shared.wait(place, bound)).await
            }
        };
        match answer {
            Ok(grant) => {
                let permit = Permit::new(self.clone(), grant, asked.bytes());
                Ok(Admitted::asked(self.clone(), permit))
            }
            Err(refusal) => Err(self.refused(refusal)),
        }
    }

    /// A start that there is nothing to ask for: no limit is configured, and no provider has spoken.
    pub(crate) fn unasked(&self, now: Instant) -> Option<Admitted> {
        let shared = &self.shared;
        shared.quiet.load(Ordering::Relaxed).then(|| {
            shared.unasked.count(|| now.saturating_duration_since(shared.base));
            Admitted::unasked(self.clone())
        })
    }

    /// A start at once, a refusal, or a place in the queue.
    #[inline]
    fn ask(&self, asked: &Asked<'_>, size: impl FnOnce() -> Size, request: StartRequest) -> Asking {
        let shared = &*self.shared;
        let key = shared.names.key(asked, &shared.hasher);
        // worked out before the lock, and only where it counts
        let size = shared.sizes.count.then(size);
        let (mut state, now) = (shared.lock(), shared.now());
        let lane = state.lane(key, || shared.names.name(asked), now);
        let request = match size {
            Some(size) => request.weighing(state.weigh(lane, &size, &shared.sizes)),
            None => request,
        };
        // those that came before, in whatever lane, go first
        let before = state.is_waited_for().then(|| {
            let mut woken = Vec::new();
            (state.settle(now, &mut woken), woken)
        });
        let blocked = before.as_ref().and_then(|(blocked, _)| *blocked);
        let asking = match state.try_start(lane, &request, blocked, now) {
            Ask::Granted(grant) => Asking::Granted(grant),
            Ask::Refused(refusal) => Asking::Refused(refusal),
            Ask::Wait => match state.join(lane, request, now) {
                Some(place) => Asking::Queued(place, request.bound(), state.wait_cause(lane, &request, now)),
                None => Asking::Refused(state::Refusal::lost()),
            },
        };
        let due = state.is_due();
        drop(state);
        shared.ask_store(due);
        if let Some((_, woken)) = before {
            wake(woken);
        }
        asking
    }

    /// Counts a send that was made while the account was quiet.
    fn adopt(&self, known: Known, sent_at: Instant) -> Option<state::Grant> {
        let shared = &self.shared;
        shared.quiet.store(false, Ordering::Relaxed);
        shared.with(|state, now, _| {
            let lane = state.lane(known.key, || known.name, now);
            let pace = |least| shared.unasked.pace(least, now);
            let sent_at = Tick::at(sent_at, shared.base);
            state.adopt(lane, shared.unasked.sends(), pace, sent_at, now)
        })
    }

    #[cold]
    fn refused(&self, refusal: state::Refusal) -> Refused {
        Refused {
            reason: refusal.reason,
            retry_at: refusal
                .until
                .and_then(|until| self.shared.wall(until, self.shared.now())),
            remembered: refusal.remembered,
            said: refusal.said,
        }
    }

    /// The lane of what was asked, for when it is gone.
    fn know(&self, asked: &Asked<'_>) -> Known {
        Known {
            key: self.shared.names.key(asked, &self.shared.hasher),
            name: self.shared.names.name(asked),
        }
    }

    /// How large a request is, as far as that counts.
    pub(crate) fn size(&self, request: &reqwest::Request) -> Size {
        self.shared.sizes.of(request)
    }

    /// The point in time as the account counts it.
    pub(crate) fn tick(&self, instant: Instant) -> Tick {
        Tick::at(instant, self.shared.base)
    }
}

/// No configured limit. Nothing is slowed before the provider mentions a limit. A refusal that states a delay then pauses its
/// lane (for at most 60 s: a longer delay stops only the call that got it), and rates are learned from headers and from such
/// refusals. A refusal that states no delay holds no other call, where a built account meets it with a guess. While nothing
/// gets through, the [`CircuitBreaker`] makes calls wait; while many attempts fail, the [`RetryBudget`] slows retries. There
/// is no quota hold, which can fail calls that would have succeeded. Different credentials have lanes of their own.
impl Default for Account {
    fn default() -> Self {
        Self::builder().unbuilt().made()
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// With no lock held: a waker may do anything.
fn wake(woken: Vec<Waker>) {
    woken.into_iter().for_each(Waker::wake);
}

/// What becomes of one that asks.
enum Asking {
    Granted(state::Grant),
    Refused(state::Refusal),
    /// It waits, until then at most; for what, and until when as far as is known.
    Queued(Place, Option<Tick>, (WaitCause, Option<Tick>)),
}

/// Why a start was refused.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) reason: StopReason,
    pub(crate) retry_at: Option<SystemTime>,
    pub(crate) remembered: Option<Arc<Remembered>>,
    /// The last verdict on the lane's sends, while nothing gets through.
    pub(crate) said: Option<Verdict>,
}

impl From<Refused> for RetryError {
    fn from(refused: Refused) -> Self {
        Self::refused(refused.reason, refused.retry_at, refused.said)
    }
}

impl Shared {
    #[inline]
    fn now(&self) -> Tick {
        Tick::at(self.clock.now(), self.base)
    }

    /// The time of day of a point in time.
    fn wall(&self, at: Tick, now: Tick) -> Option<SystemTime> {
        self.clock.wall_now().checked_add(at.since(now))
    }

    /// A panic while the state was locked left it as it was between two of its steps, each of which keeps it whole.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, then wakes whom that concerns, with the lock let go of.
    fn with<T>(&self, change: impl FnOnce(&mut State, Tick, &mut Vec<Waker>) -> T) -> T {
        let mut woken = Vec::new();
        let (result, due) = {
            let mut state = self.lock();
            let now = self.now();
            (change(&mut state, now, &mut woken), state.is_due())
        };
        self.ask_store(due);
        wake(woken);
        result
    }

    /// The store is told of what has ended, if there is one.
    #[cold]
    #[inline(never)]
    fn tell_store(&self) {
        let due = self.lock().is_due();
        self.ask_store(due);
    }

    /// Something is to be asked of the store, if there is one.
    #[inline]
    #[cfg_attr(not(feature = "redis"), allow(clippy::unused_self, reason = "there is no store"))]
    fn ask_store(&self, due: bool) {
        #[cfg(feature = "redis")]
        if due && let Some(link) = &self.link {
            link.ring();
        }
        #[cfg(not(feature = "redis"))]
        let _ = due;
    }
}

impl Shared {
    fn sleep_until(&self, until: Tick) -> Sleep<'_> {
        sleep_until(&*self.clock, self.base, until)
    }
}

type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

fn sleep_until(clock: &dyn Clock, base: Instant, until: Tick) -> Sleep<'_> {
    // beyond what the clock can tell: look again in an hour
    let instant = until
        .instant(base)
        .unwrap_or_else(|| clock.now() + Duration::from_secs(3600));
    clock.sleep_until(instant)
}
