//! One logical call over all sends of it, through the loops of whatever SDK stands above: who is in scope, what was set,
//! how it is cancelled. What became of its requests is the ledger's to know.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use http::HeaderValue;
use reqwest::Request;
use reqwest_middleware::Error;
use tokio::sync::watch;

use crate::clock::Deadline;
use crate::error::RetryError;
use crate::ledger::{Claimed, Entry, Fingerprint, Last, Ledger, Standing};
use crate::outcome::Outcome;
use crate::policy::RetryPolicy;

/// One logical call, however many loops an SDK puts on top of it: the sends of one request inside, one after another,
/// share one attempt count, one deadline, one idempotency key and one outcome.
///
/// ```
/// use std::time::Duration;
/// use reqwest_ai_retry::Operation;
///
/// # struct Sdk;
/// # impl Sdk { async fn create(&self, _: &str) -> Result<String, reqwest_middleware::Error> { Ok(String::new()) } }
/// # async fn run(sdk: Sdk) -> Result<(), reqwest_middleware::Error> {
/// // `sdk` sends through a client with `RetryMiddleware`, and repeats failures by itself
/// let op = Operation::new().deadline(Duration::from_secs(90));
/// let answer = op.scope(sdk.create("hello")).await;
///
/// if let Some(outcome) = op.outcome() {
///     eprintln!("{} sends in {:?}: {}", outcome.sends(), outcome.elapsed(), outcome.stop());
/// }
/// # answer?; Ok(()) }
/// ```
///
/// A request is told by its method, URL and body. What each send of it inside the scope becomes:
///
/// * the first is a call: up to [`max_attempts`](RetryPolicy::max_attempts) sends;
/// * after that call was **given up** (the attempts or the time spent, a quota used up, a repeat not safe), a further send
///   is answered at once from the last result, without the network: the same status, headers and as much of the body as
///   was looked at, with `x-should-retry: false`; or by a [`RetryError`](crate::RetryError), if nothing had been answered
///   or [`GiveUp::Error`](crate::GiveUp::Error) asks for it. It stops with
///   [`OperationSpent`](crate::StopReason::OperationSpent);
/// * after an **answer that is not retryable** (a success, a wrong parameter) the next equal send is a new call: polling a
///   job, asking a model twice. If the policy generates idempotency keys, it gets a new one;
/// * a call whose future was **dropped** (an SDK's timeout) goes on where it was: its sends count, and a wait that it was in
///   is waited out.
///
/// Different requests inside one scope (an agent's steps, pages) are calls of their own under the shared deadline, and so
/// are equal ones in flight together. A request whose body is a stream cannot be told from another and is a call of its
/// own each time, unless [`buffer_request`](RetryPolicy::buffer_request) reads it.
///
/// # What carries it
///
/// The scope is task-local: it reaches every send that *begins* while the future in [`scope`](Self::scope) is
/// polled, through any SDK that hides its request builder, through `join_all`, streams of futures and a
/// `tower::buffer::Buffer`. A send that has begun keeps it wherever it is polled. It is not inherited by a task that is
/// spawned inside: clone the operation into it.
///
/// ```
/// use reqwest_ai_retry::Operation;
///
/// # async fn step() {}
/// # async fn run() {
/// let op = Operation::new();
/// let inside = op.clone();
/// tokio::spawn(async move { inside.scope(step()).await });
/// # }
/// ```
///
/// A scope inside another inherits what it does not set itself, is cancelled with it, ends with the earlier deadline, and
/// counts its sends to the outer one's requests: loops do not multiply by being scoped once more.
#[derive(Clone, Default)]
pub struct Operation {
    settings: Settings,
    shared: Arc<Shared>,
}

#[derive(Clone, Default)]
struct Settings {
    idempotency_key: Option<HeaderValue>,
    deadline: Option<Duration>,
    policy: Option<Arc<RetryPolicy>>,
}

struct Shared {
    state: Mutex<State>,
    cancelled: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    ledger: Ledger,
    /// When its first call began.
    begun: Option<Instant>,
    /// The request that the operation's own key belongs to.
    keyed: Option<Fingerprint>,
    outcome: Option<Outcome>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            cancelled: watch::Sender::new(false),
        }
    }
}

impl Operation {
    /// With nothing set: the client's policy counts, and an operation around it.
    pub fn new() -> Self {
        Self::default()
    }

    /// The idempotency key of the operation (default: none). It goes, in the header that the policy names, with every send
    /// of the first request whose method is not idempotent, unless that brings a key of its own; other requests inside do
    /// not get it, since a key stands for one effect. Ambiguous failures of that request may then be sent again.
    ///
    /// Bytes that cannot stand in a header (RFC 9110, 5.5) are written as `%` and two digits. A blank key is none: no server
    /// would tell anything by it.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl AsRef<str>) -> Self {
        self.settings.idempotency_key = Some(key.as_ref().trim()).filter(|key| !key.is_empty()).map(as_header);
        self
    }

    /// How long all of it may take, from the beginning of the first request inside (default: no limit). Hard, like
    /// [`total_deadline`](RetryPolicy::total_deadline): it cuts waits and attempts in flight, of all requests inside. No
    /// body that has been handed over is cut by it.
    #[must_use]
    pub const fn deadline(mut self, time: Duration) -> Self {
        self.settings.deadline = Some(time);
        self
    }

    /// The policy for the requests inside (default: the client's). One that a request brings itself still comes first.
    #[must_use]
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.settings.policy = Some(Arc::new(policy));
        self
    }

    /// Runs `future` as a part of this operation. May be called again, also at the same time: it is all one operation.
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let operation = self.clone();
        let mut future = Box::pin(future);
        let mut current = None;
        poll_fn(move |cx| {
            let current = current.get_or_insert_with(|| {
                Arc::new(Current {
                    operation: operation.clone(),
                    outer: Current::get(),
                })
            });
            let _leave = Scope::enter(Arc::clone(current));
            future.as_mut().poll(cx)
        })
    }

    /// Ends its waits and its attempts in flight, and refuses further sends: they fail with
    /// [`RetryError::Cancelled`](crate::RetryError::Cancelled). A body that has been handed over is not cut.
    pub fn cancel(&self) {
        self.shared.cancelled.send_replace(true);
    }

    /// All that was done in it: the attempts of all requests inside in the order in which their calls ended, and why the
    /// last one ended. `None` before the first send or refusal. Also there after a transport error and after a cancel.
    pub fn outcome(&self) -> Option<Outcome> {
        self.shared.state().outcome.clone()
    }
}

/// Neither the key nor any result.
impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("deadline", &self.settings.deadline)
            .field("policy", &self.settings.policy)
            .field("cancelled", &*self.shared.cancelled.borrow())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key as a header's value.
fn as_header(key: &str) -> HeaderValue {
    use fmt::Write as _;
    let written = key.bytes().fold(String::with_capacity(key.len()), |mut written, byte| {
        match byte {
            b' '..=b'~' => written.push(char::from(byte)),
            // writing to a string does not fail
            _ => drop(write!(written, "%{byte:02X}")),
        }
        written
    });
    HeaderValue::try_from(written).unwrap_or(HeaderValue::from_static(""))
}

/// The operation in whose scope something happens, and those around it.
pub(crate) struct Current {
    operation: Operation,
    outer: Option<Arc<Self>>,
}

thread_local! {
    /// The innermost operation of what runs on this thread. An item in the task's own map would be hidden by a program that
    /// gives a part of it another map.
    static CURRENT: RefCell<Option<Arc<Current>>> = const { RefCell::new(None) };
}

impl Current {
    /// The innermost operation of the running task.
    pub(crate) fn get() -> Option<Arc<Self>> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// From the inside to the outside.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |current| current.outer.as_deref())
    }

    /// Where the requests are counted: loops do not multiply by being scoped once more.
    fn outermost(&self) -> &Shared {
        let outermost = self.chain().last().unwrap_or(self);
        &outermost.operation.shared
    }

    pub(crate) fn policy(&self) -> Option<&RetryPolicy> {
        self.chain()
            .find_map(|current| current.operation.settings.policy.as_deref())
    }

    /// The earliest deadline of all scopes; a call begins now.
    pub(crate) fn deadline(&self, now: Instant) -> Deadline {
        self.chain().fold(Deadline::default(), |earliest, current| {
            let begun = *current.operation.shared.state().begun.get_or_insert(now);
            earliest.or_earlier(Deadline::after(begun, current.operation.settings.deadline))
        })
    }

    /// A request is about to be sent.
    pub(crate) fn claim(&self, print: Fingerprint, max_attempts: u32) -> Claimed {
        self.outermost().state().ledger.claim(print, max_attempts)
    }

    /// The operation's own key, if it is this call's.
    pub(crate) fn own_key(&self, entry: Entry, print: Fingerprint, request: &Request) -> Option<HeaderValue> {
        if request.method().is_idempotent() {
            return None;
        }
        let keyed = self
            .chain()
            .find(|current| current.operation.settings.idempotency_key.is_some())?;
        // the server would take the two for one
        if self.outermost().state().ledger.has_twin(entry, print) {
            return None;
        }
        let first = *keyed.operation.shared.state().keyed.get_or_insert(print);
        keyed
            .operation
            .settings
            .idempotency_key
            .clone()
            .filter(|_| first == print)
    }

    /// The key that goes with the call's sends.
    pub(crate) fn note_key(&self, entry: Entry, key: Option<HeaderValue>) {
        self.outermost().state().ledger.note_key(entry, key);
    }

    /// A call's future has ended: how it stands, for the next equal request.
    pub(crate) fn settle(&self, entry: Entry, standing: Standing, last: Last) {
        self.outermost().state().ledger.settle(entry, standing, last);
    }

    /// Adds what a call did to the outcome of each operation that it was a part of: once, also where an operation has been
    /// scoped in itself.
    pub(crate) fn record(&self, part: &Outcome, begun: Instant) {
        for current in self.chain() {
            let mut around = current.chain().skip(1);
            if around.any(|outer| Arc::ptr_eq(&outer.operation.shared, &current.operation.shared)) {
                continue;
            }
            let mut state = current.operation.shared.state();
            let offset = begun.saturating_duration_since(state.begun.unwrap_or(begun));
            state.outcome.get_or_insert_with(Outcome::begun).absorb(part, offset);
        }
    }

    /// An SDK's own loop says that it repeats a request that is known already.
    pub(crate) fn note_sdk_retry(&self, count: u32) {
        for current in self.chain() {
            if let Some(outcome) = &mut current.operation.shared.state().outcome {
                outcome.note_sdk_retry(count);
            }
        }
    }

    /// Completes when one of the operations is cancelled.
    async fn cancelled(&self) {
        let mut waits: Vec<_> = self
            .chain()
            .map(|current| {
                let mut cancelled = current.operation.shared.cancelled.subscribe();
                Box::pin(async move { drop(cancelled.wait_for(|cancelled| *cancelled).await) })
            })
            .collect();
        poll_fn(
            |cx| match waits.iter_mut().any(|wait| wait.as_mut().poll(cx).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            },
        )
        .await;
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.chain().any(|current| *current.operation.shared.cancelled.borrow())
    }

    /// Runs a call until one of the operations is cancelled: it is dropped then, which is all that a cancel takes. It begins
    /// in any case, so that one that is refused is told like any other.
    pub(crate) async fn until_cancelled<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let mut call = pin!(call);
        if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
            return Some(output);
        }
        tokio::select! {
            biased;
            () = self.cancelled() => None,
            output = &mut call => Some(output),
        }
    }

    /// What such a call ends in.
    pub(crate) fn cancelled_call(&self) -> Error {
        let outcome = self.operation.outcome().unwrap_or_else(Outcome::cancelled);
        Error::middleware(RetryError::Cancelled {
            outcome: outcome.into(),
        })
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operation.fmt(f)
    }
}

/// While it lives, the thread runs inside of the operation. What was there before comes back when it is dropped, so also
/// when a panic unwinds: the next task on this thread must not find an operation that is not its own.
struct Scope {
    before: Option<Arc<Current>>,
}

impl Scope {
    fn enter(current: Arc<Current>) -> Self {
        let before = CURRENT.try_with(|place| place.replace(Some(current)));
        Self {
            before: before.ok().flatten(),
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // where the thread ends there is nobody left to see it
        let ours = CURRENT.try_with(|place| place.replace(self.before.take()));
        drop(ours);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_cannot_stand_in_a_header_is_written_so_that_it_can() {
        assert_eq!(as_header("order-7"), "order-7");
        assert_eq!(as_header("naïve\r\nkey"), "na%C3%AFve%0D%0Akey");
    }

    #[test]
    fn what_is_printed_of_an_operation_has_no_key() {
        let operation = Operation::new()
            .idempotency_key("secret-7")
            .deadline(Duration::from_secs(3));
        let printed = format!("{operation:?}");
        assert!(
            printed.contains("deadline: Some(3s)") && !printed.contains("secret"),
            "{printed}"
        );
    }
}
