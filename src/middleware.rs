//! The loop and nothing else: admit, send, look, decide; return, or let go, wait and go on. The only file that touches
//! [`Next`].

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use crate::account::Account;
use crate::call::Call;
use crate::classify::Classifier;
use crate::clock::{Clock, TokioClock};
use crate::decide::Decision;
use crate::dice::Dice;
use crate::observe::{Observe, Observers};
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
        #[cfg(feature = "tracing")]
        let span = crate::observe::trace::span(&request);
        let call = run(&self.parts, Outgoing::new(request), extensions, next);
        #[cfg(feature = "tracing")]
        let call = tracing::Instrument::instrument(call, span);
        Box::pin(call)
    }
}

/// The loop.
#[allow(clippy::manual_async_fn, reason = "an async fn has room for its arguments twice")]
fn run(
    parts: &Parts,
    mut outgoing: Outgoing,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> impl Future<Output = Result<Response>> + Send {
    async move {
        // boxed, since most calls bring none and would have room for it
        let own = extensions.get::<RetryPolicy>().cloned().map(Box::new);
        let policy = own.as_deref().unwrap_or(&parts.policy);
        let mut call = Call::begin(parts, policy, extensions, outgoing.request());
        let mut failed = None;
        outgoing.prepare(policy, call.deadline, call.clock()).await;
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
                let sent = next.clone().run(outgoing.send(call.is_last()), call.extensions);
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
