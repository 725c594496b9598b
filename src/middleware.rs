//! The loop and nothing else: admit, send, look, decide; return, or let go, wait and go on. The only file that touches
//! [`Next`].

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use crate::account::Account;
use crate::call::{Barred, Call};
use crate::classify::Classifier;
use crate::clock::{Clock, TokioClock};
use crate::decide::Decision;
use crate::dice::Dice;
use crate::guard::Guard;
use crate::observe::{Observe, Observers};
use crate::operation::Current;
use crate::outcome::StopReason;
use crate::policy::RetryPolicy;
use crate::replay::Outgoing;

/// Retries what may be retried, when it makes sense.
///
/// ```
/// use reqwest_ai_retry::RetryMiddleware;
/// use reqwest_middleware::ClientBuilder;
///
/// # fn build() -> reqwest::Result<reqwest_middleware::ClientWithMiddleware> {
/// let client = ClientBuilder::new(RetryMiddleware::client_builder().build()?)
///     .with(RetryMiddleware::default())
///     .build();
/// # Ok(client) }
/// ```
///
/// Place it outermost: a middleware added after it runs on every attempt (fresh signatures and timestamps), one added
/// before it runs once per call. A second one inside does not retry and says [`StopReason::Nested`].
#[derive(Clone)]
pub struct RetryMiddleware {
    parts: Arc<Parts>,
}

/// What all calls through one middleware share.
pub(crate) struct Parts {
    pub(crate) policy: RetryPolicy,
    pub(crate) classifier: Classifier,
    pub(crate) observers: Observers,
    pub(crate) account: Account,
    pub(crate) guard: Option<Guard>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Dice,
}

impl RetryMiddleware {
    /// With this policy, and everything else by default.
    pub fn new(policy: RetryPolicy) -> Self {
        Self::builder().policy(policy).build()
    }

    /// To set more than the policy.
    pub fn builder() -> RetryMiddlewareBuilder {
        RetryMiddlewareBuilder::default()
    }

    /// reqwest's own builder with its hidden retries off, so that the number configured is the number sent: it repeats up to
    /// two requests that an HTTP/2 server did not process. They are this middleware's to repeat then, whatever the method.
    /// Redirects still happen below, unseen.
    pub fn client_builder() -> reqwest::ClientBuilder {
        reqwest::Client::builder().retry(reqwest::retry::never())
    }

    /// The policy for requests that bring none of their own.
    pub fn policy(&self) -> &RetryPolicy {
        &self.parts.policy
    }
}

impl Default for RetryMiddleware {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl fmt::Debug for RetryMiddleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryMiddleware")
            .field("policy", &self.parts.policy)
            .field("classifier", &self.parts.classifier)
            .finish_non_exhaustive()
    }
}

/// Builds a [`RetryMiddleware`].
#[must_use]
#[derive(Default)]
pub struct RetryMiddlewareBuilder {
    policy: RetryPolicy,
    classifier: Classifier,
    observers: Observers,
    account: Option<Account>,
    guard: Option<Duration>,
    clock: Option<Arc<dyn Clock>>,
    seed: Option<u64>,
}

impl RetryMiddlewareBuilder {
    /// How often, how long and what to retry (default: [`RetryPolicy::default`]).
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The account that admits every send (default: one of its own, [`Account::default`]). Give clones of one account to all
    /// clients that share an allowance.
    pub fn account(mut self, account: Account) -> Self {
        self.account = Some(account);
        self
    }

    /// What answers mean (default: [`Classifier::default`]).
    pub fn classifier(mut self, classifier: Classifier) -> Self {
        self.classifier = classifier;
        self
    }

    /// Somebody to tell what calls do; may be said more than once.
    pub fn observer(mut self, observer: impl Observe + 'static) -> Self {
        self.observers.add(observer);
        self
    }

    /// Answers an identical request (method, URL, credential and body) within the window after a give-up from memory,
    /// without the network (default: off): for SDKs whose own retries cannot be switched off and whose calls cannot be put
    /// into an [`Operation`](crate::Operation). One call through such an SDK then costs the sends of one call, where it
    /// would cost them once for each of the SDK's own tries.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_ai_retry::RetryMiddleware;
    ///
    /// let retry = RetryMiddleware::builder().outer_retry_guard(Duration::from_secs(60)).build();
    /// # let _ = retry;
    /// ```
    ///
    /// The window should be longer than the SDK's longest wait between tries: 60 s fits those known. It is extended to the
    /// delay that the server stated, and is never longer than 300 s. A success ends it; so does an answer that is not
    /// retryable. The cost: a **second identical prompt** that a program sends on purpose within the window after a give-up
    /// is taken for a repeat and gets the old failure. A request whose body is a stream is left out. At most 1,024
    /// give-ups and 4 MiB of their answers are kept; requests are told by a keyed hash.
    pub const fn outer_retry_guard(mut self, window: Duration) -> Self {
        self.guard = Some(window);
        self
    }

    /// Where time comes from (default: tokio's clock and the system's time of day).
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Makes the waits repeatable, for simulations and tests (default: they are drawn anew).
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The middleware. Nothing can be wrong here: every value of a policy has a meaning.
    pub fn build(self) -> RetryMiddleware {
        let clock = self.clock.unwrap_or_else(|| Arc::new(TokioClock));
        RetryMiddleware {
            parts: Arc::new(Parts {
                policy: self.policy,
                classifier: self.classifier,
                observers: self.observers,
                account: self
                    .account
                    .unwrap_or_else(|| Account::builder().unbuilt().with_clock(Arc::clone(&clock)).made()),
                guard: self.guard.filter(|window| !window.is_zero()).map(Guard::new),
                clock,
                dice: self.seed.map_or_else(Dice::default, Dice::seeded),
            }),
        }
    }
}

impl fmt::Debug for RetryMiddlewareBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryMiddlewareBuilder")
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

// As `async_trait` has it, but by hand: what it makes has room for each argument twice, a request is large, and a future
// of more than a kilobyte leaves the allocator's fast path.
impl Middleware for RetryMiddleware {
    fn handle<'s, 'e, 'n, 'f>(
        &'s self,
        request: Request,
        extensions: &'e mut Extensions,
        next: Next<'n>,
    ) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'f>>
    where
        Self: 'f,
        's: 'f,
        'e: 'f,
        'n: 'f,
    {
        let operation = Current::get();
        #[cfg(feature = "tracing")]
        let span = crate::observe::trace::span(&request);
        let call = run(&self.parts, Outgoing::new(request), extensions, next, operation.clone());
        #[cfg(feature = "tracing")]
        let call = tracing::Instrument::instrument(call, span);
        let call = Box::pin(call);
        match operation {
            None => call,
            Some(operation) => Box::pin(async move {
                let ended = operation.until_cancelled(call).await;
                ended.unwrap_or_else(|| Err(operation.cancelled_call()))
            }),
        }
    }
}

/// The loop.
#[allow(clippy::manual_async_fn, reason = "an async fn has room for its arguments twice")]
fn run(
    parts: &Parts,
    mut outgoing: Outgoing,
    extensions: &mut Extensions,
    next: Next<'_>,
    operation: Option<Arc<Current>>,
) -> impl Future<Output = Result<Response>> + Send {
    async move {
        // boxed, since most calls bring none and would have room for it
        let own = extensions.get::<RetryPolicy>().cloned().map(Box::new);
        let operation = operation.as_deref();
        let policy = own.as_deref().or_else(|| operation?.policy()).unwrap_or(&parts.policy);
        let mut call = Call::begin(parts, policy, extensions, outgoing.request(), operation);
        let mut failed = None;
        outgoing.prepare(policy, call.deadline, call.clock()).await;
        if let Some(barred) = call.claim(&mut outgoing) {
            return call.end_barred(barred, &outgoing);
        }
        if call.is_early() {
            Box::pin(call.wait_on()).await;
            if call.deadline.is_past(call.clock().now()) {
                return call.end_barred(Barred::Late, &outgoing);
            }
        }
        loop {
            let mut permit = match call.admit_unasked(&outgoing) {
                Some(permit) => permit,
                // boxed, since most calls are not asked and would have room for it
                None => match Box::pin(call.admit(&outgoing)).await {
                    Ok(permit) => permit,
                    Err(refused) => return call.end_refused(refused, failed, &outgoing),
                },
            };
            let limit = call.start_attempt();
            let mut ended = {
                let sent = next
                    .clone()
                    .run(outgoing.send(call.keeps_request(&permit)), call.extensions);
                let sent = limit.cut(&*parts.clock, sent).await;
                call.arrived(sent)
            };
            if let Some(depth) = call.depth_to_look(&ended, &outgoing) {
                // boxed, since a call that goes well would have room for it too
                ended = Box::pin(call.look(ended, depth)).await;
            }
            let Some(verdict) = call.judge(&ended, &outgoing, &mut permit) else {
                if permit.outlives_headers() {
                    ended = ended.held_by(permit);
                }
                return call.end(ended, None, StopReason::Succeeded);
            };
            let wait = match call.decide(&ended, &verdict, &outgoing, &permit) {
                Decision::Retry(wait) => wait,
                Decision::Stop(reason) => return call.end(ended, Some(verdict), reason),
            };
            // boxed for the same reason
            let remnant = Box::pin(async {
                let remnant = ended.let_go(call.clock()).await;
                drop(permit);
                call.wait(wait, &verdict).await;
                remnant
            })
            .await;
            if call.deadline.is_past(call.clock().now()) {
                return call.end_late(remnant, verdict, StopReason::DeadlinePassed);
            }
            failed = Some(Box::new((remnant, verdict)));
        }
    }
}
