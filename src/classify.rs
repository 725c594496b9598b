//! What was seen of one attempt, and the verdict on it: data in, data out. Knows nothing of clocks, of waiting or of
//! what was decided before; the tables of the providers are in [`provider`](crate::provider).

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use http::{HeaderMap, Method, StatusCode};
use reqwest::Url;

use crate::provider::{self, Envelope};
use crate::retry_after::ServerDelay;
use crate::transport;

/// What a failure asks of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Class {
    /// Waiting helps: a rate limit, an overload, a broken connection.
    Retryable,
    /// Nothing helps but a change of the request, the key or the account's rights.
    Permanent,
    /// Money, credit or an allowance is used up: a short wait never helps, so stop or reschedule.
    QuotaExhausted,
}

/// What happened, as far as the answer tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Cause {
    /// Too many requests or tokens in a short window.
    RateLimited,
    /// The server has no capacity just now (529, `overloaded_error`, `slow_down` aside, "no capacity available").
    Overloaded,
    /// The server failed (5xx without a better name).
    ServerError,
    /// No answer came in time, here or at a hop on the way (408, 504).
    Timeout,
    /// No connection could be made, so nothing was sent.
    Connect,
    /// The connection broke after the request was sent, or the server refused the stream.
    Reset,
    /// The model is being loaded (cold start).
    ModelLoading,
    /// The request collides with another one that is in progress (409).
    Conflict,
    /// The request is wrong in itself (400, 422, a parameter, an unsupported feature).
    InvalidRequest,
    /// The credential is missing or wrong (401).
    Authentication,
    /// The credential is valid but may not do this: rights, region, ban, model access.
    Permission,
    /// The model, path or resource does not exist (404).
    NotFound,
    /// The request is larger than the limit will ever allow (413, "Requested 37313, Limit 30000", context length).
    TooLarge,
    /// A content filter refused the prompt or the answer.
    ContentPolicy,
    /// Prepaid money or credit is used up, or an invoice is not paid.
    Balance,
    /// A spending limit that somebody set is reached.
    SpendLimit,
    /// The allowance of a day (or a longer calendar window) is used up.
    DailyAllowance,
    /// The window of a subscription plan (five hours, a week) is used up.
    PlanWindow,
    /// The account's allowance for this is zero, so that nothing comes back with time.
    NoAllowance,
    /// Too many redirects, or one that leads nowhere.
    Redirect,
    /// None of these.
    Other,
}

/// Which dimension of a limit was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Scope {
    /// The answer does not say.
    #[default]
    Unknown,
    /// Requests per unit of time.
    Requests,
    /// Input (prompt) tokens per unit of time.
    InputTokens,
    /// Output (completion) tokens per unit of time.
    OutputTokens,
    /// Tokens per unit of time, of either kind.
    Tokens,
    /// Requests in flight at the same time.
    Concurrency,
    /// A day's or a longer allowance, of whatever it counts.
    Day,
    /// The growth of the traffic (OpenAI `slow_down`, Anthropic's acceleration limits), not its level.
    Growth,
}

/// Could the server have acted on the request?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Delivery {
    /// The request never reached the server, or the server said that it did not process it.
    NeverSent,
    /// The server looked at the request and refused it, so it had no effect.
    Refused,
    /// It may have had an effect: no answer came, or one that does not tell.
    Ambiguous,
}

/// Who answered. The evidence is the shape of the body, never a brand name alone: `server: cloudflare` stands on the
/// API's own answers too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Layer {
    /// It cannot be told.
    #[default]
    Unknown,
    /// The API itself.
    Api,
    /// A gateway, load balancer or service mesh before the API.
    Proxy,
    /// A content delivery network's edge.
    Cdn,
}

/// The verdict on a failed attempt. Small and `Copy`: it is data, not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Verdict {
    class: Class,
    cause: Cause,
    scope: Scope,
    delivery: Delivery,
    layer: Layer,
    server_delay: Option<ServerDelay>,
}

impl Verdict {
    /// A verdict without a delay, of unknown scope and layer, and ambiguous: what is not known to be refused may have
    /// had an effect.
    pub const fn new(class: Class, cause: Cause) -> Self {
        Self {
            class,
            cause,
            scope: Scope::Unknown,
            delivery: Delivery::Ambiguous,
            layer: Layer::Unknown,
            server_delay: None,
        }
    }

    /// Sets which dimension of a limit was hit.
    #[must_use]
    pub const fn with_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets whether the server could have acted.
    #[must_use]
    pub const fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// Sets who answered.
    #[must_use]
    pub const fn with_layer(mut self, layer: Layer) -> Self {
        self.layer = layer;
        self
    }

    /// Sets the delay that the server stated.
    #[must_use]
    pub const fn with_server_delay(mut self, delay: Option<ServerDelay>) -> Self {
        self.server_delay = delay;
        self
    }

    /// What the failure asks of the caller.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// What happened.
    pub const fn cause(&self) -> Cause {
        self.cause
    }

    /// Which dimension of a limit was hit.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Could the server have acted?
    pub const fn delivery(&self) -> Delivery {
        self.delivery
    }

    /// Who answered.
    pub const fn layer(&self) -> Layer {
        self.layer
    }

    /// The delay that the server stated, a minimum.
    pub const fn server_delay(&self) -> Option<ServerDelay> {
        self.server_delay
    }
}

/// What was seen of one attempt: an answer (with as much of its body as was read) or the lack of one.
#[derive(Clone)]
pub struct Seen<'a> {
    method: &'a Method,
    url: &'a Url,
    what: What<'a>,
    envelope: OnceLock<Envelope>,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Response {
        status: StatusCode,
        headers: &'a HeaderMap,
        body: &'a [u8],
        received_at: SystemTime,
    },
    Error(&'a reqwest_middleware::Error),
    TimedOut,
}

impl<'a> Seen<'a> {
    /// An answer. `body_prefix` is what was read of the body, from its beginning and possibly all of it (the middleware
    /// reads at most 64 KiB); `received_at` is the local time of receipt, used for absolute times where the answer has no
    /// `Date` of its own.
    pub fn response(
        method: &'a Method,
        url: &'a Url,
        status: StatusCode,
        headers: &'a HeaderMap,
        body_prefix: &'a [u8],
        received_at: SystemTime,
    ) -> Self {
        Self::of(
            method,
            url,
            What::Response {
                status,
                headers,
                body: body_prefix,
                received_at,
            },
        )
    }

    /// A transport error, or the error of a middleware below.
    pub fn error(method: &'a Method, url: &'a Url, error: &'a reqwest_middleware::Error) -> Self {
        Self::of(method, url, What::Error(error))
    }

    /// An attempt that was cut because no response headers had come within the attempt timeout.
    pub fn timed_out(method: &'a Method, url: &'a Url) -> Self {
        Self::of(method, url, What::TimedOut)
    }

    fn of(method: &'a Method, url: &'a Url, what: What<'a>) -> Self {
        Self {
            method,
            url,
            what,
            envelope: OnceLock::new(),
        }
    }

    /// The request's method.
    pub fn method(&self) -> &'a Method {
        self.method
    }

    /// The request's URL.
    pub fn url(&self) -> &'a Url {
        self.url
    }

    /// The answer's status, if there was an answer.
    pub fn status(&self) -> Option<StatusCode> {
        match self.what {
            What::Response { status, .. } => Some(status),
            _ => None,
        }
    }

    /// The answer's headers, if there was an answer.
    pub fn headers(&self) -> Option<&'a HeaderMap> {
        match self.what {
            What::Response { headers, .. } => Some(headers),
            _ => None,
        }
    }

    /// What was read of the answer's body; empty if nothing was.
    pub fn body(&self) -> &'a [u8] {
        match self.what {
            What::Response { body, .. } => body,
            _ => &[],
        }
    }

    /// The local time of receipt, if there was an answer.
    pub fn received_at(&self) -> Option<SystemTime> {
        match self.what {
            What::Response { received_at, .. } => Some(received_at),
            _ => None,
        }
    }

    /// The error, if the attempt ended in one.
    pub fn transport_error(&self) -> Option<&'a reqwest_middleware::Error> {
        match self.what {
            What::Error(error) => Some(error),
            _ => None,
        }
    }

    /// Did the server ask not to try again? `x-should-retry: false` is what the official SDKs of OpenAI and Anthropic obey
    /// before any status; `Stripe-Should-Retry` is Stripe's name for it.
    pub(crate) fn asks_not_to_retry(&self) -> bool {
        let says_no = |name| {
            self.headers()
                .and_then(|headers| headers.get(name))
                .is_some_and(|value| value == "false")
        };
        says_no("x-should-retry") || says_no("stripe-should-retry")
    }

    /// The body by its shape, parsed once however many ask.
    pub(crate) fn envelope(&self) -> &Envelope {
        self.envelope.get_or_init(|| Envelope::of(self.body()))
    }
}

/// Shows method, host, path and status: neither a query, nor a header, nor the body.
impl fmt::Debug for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen")
            .field("method", self.method)
            .field("host", &self.url.host_str())
            .field("path", &self.url.path())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// What a rule of one's own says of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ruling {
    /// Not this rule's business: ask the next one, at last the built-in ones.
    Pass,
    /// This is a success, whatever it looks like.
    Success,
    /// This is a failure, with this verdict.
    Failure(Verdict),
}

/// A rule of one's own, asked before the built-in ones. A closure will do.
///
/// ```
/// use reqwest_ai_retry::{Cause, Class, Classifier, Ruling, Seen, Verdict};
///
/// // an in-house gateway that says 418 while it restarts
/// let classifier = Classifier::default().rule(|seen: &Seen<'_>| match seen.status() {
///     Some(status) if status.as_u16() == 418 => {
///         Ruling::Failure(Verdict::new(Class::Retryable, Cause::Overloaded))
///     }
///     _ => Ruling::Pass,
/// });
/// # let _ = classifier;
/// ```
pub trait Classify: Send + Sync {
    /// Rules on one attempt.
    fn classify(&self, seen: &Seen<'_>) -> Ruling;
}

impl<F> Classify for F
where
    F: Fn(&Seen<'_>) -> Ruling + Send + Sync,
{
    fn classify(&self, seen: &Seen<'_>) -> Ruling {
        self(seen)
    }
}

/// Sorts an attempt into success or one of the three [`Class`]es: first by the rules added, in their order, then by what
/// is known of providers, gateways and transport errors. Callable without any network.
#[derive(Clone, Default)]
pub struct Classifier {
    rules: Vec<Arc<dyn Classify>>,
}

impl Classifier {
    /// Adds a rule, asked after those added before it and before the built-in ones.
    #[must_use]
    pub fn rule(mut self, rule: impl Classify + 'static) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    /// The verdict, or `None` for a success.
    pub fn classify(&self, seen: &Seen<'_>) -> Option<Verdict> {
        for rule in &self.rules {
            match rule.classify(seen) {
                Ruling::Pass => {}
                Ruling::Success => return None,
                Ruling::Failure(verdict) => return Some(verdict),
            }
        }
        match seen.what {
            What::Response { .. } => provider::verdict(seen),
            What::Error(error) => Some(transport::verdict(error)),
            What::TimedOut => Some(transport::timed_out()),
        }
    }
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classifier").field("rules", &self.rules.len()).finish()
    }
}
