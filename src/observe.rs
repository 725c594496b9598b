//! Reports what calls do, while they do it. Knows no reaction: an observer only looks.
//!
//! Nothing secret is in an event: of the request the method, host and path; of the response the status, its request id and
//! its rate-limit headers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, Method, StatusCode};
use reqwest::Request;

use crate::account::LaneName;
use crate::classify::Verdict;
use crate::outcome::{Outcome, StopReason};

/// Looks at what calls do. A closure will do.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use reqwest_ai_retry::{Event, RetryMiddleware};
///
/// static WAITS: AtomicU32 = AtomicU32::new(0);
///
/// let retry = RetryMiddleware::builder()
///     .observer(|event: &Event<'_>| {
///         if let Event::Waiting { .. } = event {
///             WAITS.fetch_add(1, Ordering::Relaxed);
///         }
///     })
///     .build();
/// # let _ = retry;
/// ```
///
/// It is called on the path of the request, so it must not block.
pub trait Observe: Send + Sync {
    /// Something happened.
    fn event(&self, event: &Event<'_>);
}

impl<F> Observe for F
where
    F: Fn(&Event<'_>) + Send + Sync,
{
    fn event(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Something that happened to a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The account makes the call wait, before its first attempt or a later one. The wait ends with
    /// [`AttemptStarted`](Self::AttemptStarted), or with [`GaveUp`](Self::GaveUp) if the account refuses the call.
    #[non_exhaustive]
    Queued {
        /// The call.
        call: &'a CallInfo,
        /// The attempt that waits, 1 for the first.
        attempt: u32,
        /// What it waits for at the moment. The event is not repeated if that changes.
        cause: WaitCause,
        /// The earliest time at which the wait can end, as far as is known now: the end of the pause, the next probe of the
        /// breaker, the next slot of the pace. `None` if it depends on other calls.
        until: Option<SystemTime>,
    },
    /// An attempt is about to be sent.
    #[non_exhaustive]
    AttemptStarted {
        /// The call.
        call: &'a CallInfo,
        /// 1 for the first.
        attempt: u32,
    },
    /// An attempt has ended: with a success, where `verdict` is `None`, or with a failure.
    #[non_exhaustive]
    AttemptFinished {
        /// The call.
        call: &'a CallInfo,
        /// 1 for the first.
        attempt: u32,
        /// How long it took.
        elapsed: Duration,
        /// The status, if there was a response.
        status: Option<StatusCode>,
        /// What the failure means.
        verdict: Option<Verdict>,
        /// The response's headers that may be reported.
        headers: ReportedHeaders<'a>,
    },
    /// The request says that it is the repeat of an SDK's own loop (`x-stainless-retry-count` above zero): that loop and
    /// this one multiply.
    #[non_exhaustive]
    SdkRetry {
        /// The call.
        call: &'a CallInfo,
        /// 1 for the SDK's first repeat.
        count: u32,
    },
    /// The call waits before its next attempt. Nothing of the failed one is held any more.
    #[non_exhaustive]
    Waiting {
        /// The call.
        call: &'a CallInfo,
        /// The attempt that failed.
        attempt: u32,
        /// For how long, from now.
        wait: Duration,
        /// Why.
        verdict: Verdict,
    },
    /// The call has ended in a failure.
    #[non_exhaustive]
    GaveUp {
        /// The call.
        call: &'a CallInfo,
        /// Why no more was tried.
        stop: StopReason,
        /// All of it.
        outcome: &'a Outcome,
    },
    /// The call has succeeded, but not at the first attempt.
    #[non_exhaustive]
    Recovered {
        /// The call.
        call: &'a CallInfo,
        /// All of it.
        outcome: &'a Outcome,
    },
    /// A lane of the account is paused, or for longer than it was, since the provider said so.
    #[non_exhaustive]
    Paused {
        /// The call whose response said so.
        call: &'a CallInfo,
        /// The lane.
        lane: &'a LaneName,
        /// Until when.
        until: Option<SystemTime>,
    },
    /// A send of a paused lane has succeeded, which ends the pause.
    #[non_exhaustive]
    Resumed {
        /// The call that succeeded.
        call: &'a CallInfo,
        /// The lane.
        lane: &'a LaneName,
    },
    /// A quota is used up: calls of the lane are answered from memory for a while
    /// ([`quota_hold`](crate::AccountBuilder::quota_hold)). The event is repeated when a probe, or a call that was in flight, gets
    /// the same refusal.
    #[non_exhaustive]
    QuotaHeld {
        /// The call that was refused.
        call: &'a CallInfo,
        /// The lane.
        lane: &'a LaneName,
        /// When a probe may go.
        until: Option<SystemTime>,
    },
    /// A quota that was used up is there again.
    #[non_exhaustive]
    QuotaReleased {
        /// The call that was the probe.
        call: &'a CallInfo,
        /// The lane.
        lane: &'a LaneName,
    },
    /// The circuit breaker of a lane has opened: nothing gets through, and calls wait
    /// ([`CircuitBreaker`](crate::CircuitBreaker)).
    #[non_exhaustive]
    BreakerOpened {
        /// The call whose failure opened it.
        call: &'a CallInfo,
        /// The lane.
        lane: &'a LaneName,
        /// When the first probe may start.
        until: Option<SystemTime>,
    },
    /// The circuit breaker of a lane sends a probe. There is one event for each probe; a probe that fails is followed by
    /// another.
    #[non_exhaustive]
    BreakerHalfOpen {
        /// The call that is the probe.
        call: &'a CallInfo,
        /// The lane.
        lane: &'a LaneName,
    },
    /// The circuit breaker of a lane has closed: a probe got through, and starts have resumed.
    #[non_exhaustive]
    BreakerClosed {
        /// The call with whose response it was noticed.
        call: &'a CallInfo,
        /// The lane.
        lane: &'a LaneName,
    },
    /// The rate of a lane has changed: headers or a refusal have shown another one, it grew after a time without refusals, or
    /// it was restored after an incident. What headers allow beyond it for a moment is not counted, and a slow start is not
    /// reported before it has found a rate.
    #[non_exhaustive]
    RateLearnt {
        /// The call with whose response it was noticed.
        call: &'a CallInfo,
        /// The lane.
        lane: &'a LaneName,
        /// The pace from now on.
        starts_per_minute: f64,
    },
    /// The limit on a lane's requests in flight has changed: a refusal has lowered it, or it grew by one after a time without
    /// any.
    #[non_exhaustive]
    CeilingLearnt {
        /// The call with whose response it was noticed.
        call: &'a CallInfo,
        /// The lane.
        lane: &'a LaneName,
        /// The most from now on.
        in_flight: u32,
    },
    /// The store that the account is shared through does not respond: from now on this process keeps to its part of each limit.
    #[non_exhaustive]
    StoreLost {
        /// The call with whose response it was noticed.
        call: &'a CallInfo,
    },
    /// The store that the account is shared through responds again.
    #[non_exhaustive]
    StoreFound {
        /// The call with whose response it was noticed.
        call: &'a CallInfo,
    },
}

/// What a call waits for in an account's queue.
///
/// ```
/// use reqwest_ai_retry::{Event, RetryMiddleware, WaitCause};
///
/// // a chat program tells its user why nothing comes
/// let retry = RetryMiddleware::builder()
///     .observer(|event: &Event<'_>| match event {
///         Event::Queued { cause: WaitCause::CircuitBreaker, .. } => println!("The provider is down. Waiting for it …"),
///         Event::Queued { cause, until, .. } => println!("Waiting ({}) until {until:?}", cause.as_str()),
///         _ => {}
///     })
///     .build();
/// # let _ = retry;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WaitCause {
    /// Its turn: other calls are ahead.
    Queue,
    /// The start rate, or a token rate.
    Pace,
    /// A place among the requests in flight.
    Concurrency,
    /// The end of the pause that the provider asked for.
    Pause,
    /// A probe or its turn after one: nothing gets through in the lane ([`CircuitBreaker`](crate::CircuitBreaker)).
    CircuitBreaker,
    /// The lane's retry budget: many attempts fail ([`RetryBudget`](crate::RetryBudget)).
    RetryBudget,
}

impl WaitCause {
    /// A stable word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Pace => "pace",
            Self::Concurrency => "concurrency",
            Self::Pause => "pause",
            Self::CircuitBreaker => "circuit_breaker",
            Self::RetryBudget => "retry_budget",
        }
    }
}

impl Event<'_> {
    /// The call that it happened to.
    pub const fn call(&self) -> &CallInfo {
        match self {
            Self::Queued { call, .. }
            | Self::AttemptStarted { call, .. }
            | Self::AttemptFinished { call, .. }
            | Self::SdkRetry { call, .. }
            | Self::Waiting { call, .. }
            | Self::GaveUp { call, .. }
            | Self::Recovered { call, .. }
            | Self::Paused { call, .. }
            | Self::Resumed { call, .. }
            | Self::QuotaHeld { call, .. }
            | Self::QuotaReleased { call, .. }
            | Self::BreakerOpened { call, .. }
            | Self::BreakerHalfOpen { call, .. }
            | Self::BreakerClosed { call, .. }
            | Self::RateLearnt { call, .. }
            | Self::CeilingLearnt { call, .. }
            | Self::StoreLost { call }
            | Self::StoreFound { call } => call,
        }
    }
}

/// Which call an event is about.
#[derive(Debug, Clone)]
pub struct CallInfo {
    id: u64,
    method: Method,
    host: String,
    path: String,
}

impl CallInfo {
    fn of(request: &Request) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            method: request.method().clone(),
            host: request.url().host_str().unwrap_or_default().to_owned(),
            path: request.url().path().to_owned(),
        }
    }

    /// A number that no other call of this process has.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The request's method.
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The request's host, without user information and port; empty if it has none.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The request's path, without the query.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// The headers of a response that may be reported: request ids and rate limits. All others stay unseen.
#[derive(Clone, Copy, Default)]
pub struct ReportedHeaders<'a>(Option<&'a HeaderMap>);

impl<'a> ReportedHeaders<'a> {
    pub(crate) const fn of(headers: Option<&'a HeaderMap>) -> Self {
        Self(headers)
    }

    /// The id under which the provider (or the hop that responded) will find the request.
    pub fn request_id(&self) -> Option<&'a str> {
        const NAMES: &[&str] = &[
            "x-request-id",
            "request-id",
            "x-amzn-requestid",
            "apim-request-id",
            "x-ms-request-id",
            "cf-ray",
        ];
        NAMES
            .iter()
            .find_map(|name| self.0?.get(*name))
            .and_then(|value| value.to_str().ok())
            .filter(|id| is_plain(id))
    }

    /// The rate-limit headers, in the order of the response.
    pub fn rate_limits(&self) -> impl Iterator<Item = (&'a HeaderName, &'a str)> {
        self.0
            .into_iter()
            .flatten()
            .filter(|(name, _)| is_rate_limit(name))
            .filter_map(|(name, value)| {
                let value = value.to_str().ok()?;
                is_plain(value).then_some((name, value))
            })
    }
}

impl std::fmt::Debug for ReportedHeaders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.request_id().map(|id| ("request-id", id)))
            .entries(self.rate_limits())
            .finish()
    }
}

fn is_rate_limit(name: &HeaderName) -> bool {
    const PREFIXES: &[&str] = &[
        "x-ratelimit-",
        "x-rate-limit-",
        "ratelimit",
        "anthropic-ratelimit-",
        "retry-after",
        "x-codex-",
    ];
    const NAMES: &[&str] = &["x-ms-retry-after-ms", "x-retry-in", "x-should-retry"];
    let name = name.as_str();
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name)
}

/// An id or a limit is short; what is longer than one is not shown.
fn is_plain(value: &str) -> bool {
    value.len() <= 200
}

/// Who is told.
#[derive(Clone, Default)]
pub(crate) struct Observers(Vec<Arc<dyn Observe>>);

impl Observers {
    pub(crate) fn add(&mut self, observer: impl Observe + 'static) {
        self.0.push(Arc::new(observer));
    }

    /// What events will say of this call; `None` if there is nobody to tell, and then nothing is gathered.
    #[inline]
    pub(crate) fn watch(&self, request: &Request) -> Option<CallInfo> {
        (!self.0.is_empty() || trace::is_on()).then(|| CallInfo::of(request))
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        trace::event(event);
        for observer in &self.0 {
            observer.event(event);
        }
    }
}

/// One span per call, one event per attempt, wait and give-up.
#[cfg(feature = "tracing")]
pub(crate) mod trace {
    use tracing::{Level, Span, debug, enabled, field, info, warn};

    use super::{Event, ReportedHeaders};
    use crate::classify::Verdict;

    /// The span is at the level of the loudest event in it: a filter that let the event through without the span would take
    /// away what tells the call.
    pub(crate) fn span(request: &reqwest::Request) -> Span {
        tracing::warn_span!(
            "ai_call",
            method = %request.method(),
            host = request.url().host_str().unwrap_or_default(),
            path = request.url().path(),
            sends = field::Empty,
            stop = field::Empty,
        )
    }

    pub(crate) fn is_on() -> bool {
        enabled!(Level::WARN)
    }

    /// The text of what may or may not be there.
    fn text(value: Option<impl std::fmt::Debug>) -> Option<String> {
        value.map(|value| format!("{value:?}"))
    }

    fn limits(headers: &ReportedHeaders<'_>) -> Option<String> {
        let listed: Vec<String> = headers
            .rate_limits()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        (!listed.is_empty()).then(|| listed.join(", "))
    }

    pub(crate) fn event(event: &Event<'_>) {
        match event {
            Event::Queued {
                call,
                attempt,
                cause,
                until,
            } => debug!(
                call = call.id(),
                attempt,
                cause = cause.as_str(),
                until = time_of_day(*until),
                "waiting for the account"
            ),
            Event::AttemptStarted { call, attempt } => debug!(call = call.id(), attempt, "sending"),
            Event::AttemptFinished {
                call,
                attempt,
                elapsed,
                status,
                verdict: None,
                headers,
            } => debug!(
                call = call.id(),
                attempt,
                status = status.map(|status| status.as_u16()),
                elapsed_ms = millis(*elapsed),
                request_id = headers.request_id(),
                rate_limits = limits(headers),
                "answered"
            ),
            Event::AttemptFinished {
                call,
                attempt,
                elapsed,
                status,
                verdict: Some(verdict),
                headers,
            } => info!(
                call = call.id(),
                attempt,
                status = status.map(|status| status.as_u16()),
                elapsed_ms = millis(*elapsed),
                class = text(Some(verdict.class())),
                cause = text(Some(verdict.cause())),
                layer = text(Some(verdict.layer())),
                server_delay_ms = verdict.server_delay().map(|delay| millis(delay.duration())),
                request_id = headers.request_id(),
                rate_limits = limits(headers),
                "attempt failed"
            ),
            Event::Waiting {
                call,
                attempt,
                wait,
                verdict,
            } => info!(
                call = call.id(),
                attempt,
                wait_ms = millis(*wait),
                cause = text(Some(verdict.cause())),
                server_delay_ms = verdict.server_delay().map(|delay| millis(delay.duration())),
                "waiting before the next attempt"
            ),
            Event::SdkRetry { call, count } => warn!(
                call = call.id(),
                count, "the SDK above repeats requests too: one of the two loops should be off"
            ),
            Event::GaveUp { call, stop, outcome } => {
                record(outcome.sends(), *stop);
                let verdict = outcome.verdict();
                warn!(
                    call = call.id(),
                    sends = outcome.sends(),
                    class = text(verdict.map(Verdict::class)),
                    cause = text(verdict.map(Verdict::cause)),
                    elapsed_ms = millis(outcome.elapsed()),
                    waited_ms = millis(outcome.waited()),
                    stop = %stop,
                    "gave up"
                );
            }
            Event::Recovered { call, outcome } => {
                record(outcome.sends(), outcome.stop());
                info!(
                    call = call.id(),
                    sends = outcome.sends(),
                    elapsed_ms = millis(outcome.elapsed()),
                    waited_ms = millis(outcome.waited()),
                    "recovered"
                );
            }
            of_a_lane => lane(of_a_lane),
        }
    }

    /// What is told of an account's lane.
    fn lane(event: &Event<'_>) {
        match event {
            Event::Paused { call, lane, until } => info!(
                call = call.id(),
                host = lane.host(),
                model = lane.model(),
                until = time_of_day(*until),
                "lane paused"
            ),
            Event::Resumed { call, lane } => info!(
                call = call.id(),
                host = lane.host(),
                model = lane.model(),
                "lane resumed"
            ),
            Event::QuotaHeld { call, lane, until } => {
                warn!(
                    call = call.id(),
                    host = lane.host(),
                    model = lane.model(),
                    until = time_of_day(*until),
                    "quota used up, lane held"
                );
            }
            Event::QuotaReleased { call, lane } => {
                info!(
                    call = call.id(),
                    host = lane.host(),
                    model = lane.model(),
                    "quota there again, lane released"
                );
            }
            Event::BreakerOpened { call, lane, until } => {
                warn!(
                    call = call.id(),
                    host = lane.host(),
                    model = lane.model(),
                    until = time_of_day(*until),
                    "circuit breaker opened"
                );
            }
            Event::BreakerHalfOpen { call, lane } => {
                info!(
                    call = call.id(),
                    host = lane.host(),
                    model = lane.model(),
                    "circuit breaker half-open"
                );
            }
            Event::BreakerClosed { call, lane } => {
                info!(
                    call = call.id(),
                    host = lane.host(),
                    model = lane.model(),
                    "circuit breaker closed"
                );
            }
            Event::RateLearnt {
                call,
                lane,
                starts_per_minute,
            } => {
                info!(
                    call = call.id(),
                    host = lane.host(),
                    model = lane.model(),
                    starts_per_minute,
                    "rate learnt"
                );
            }
            Event::CeilingLearnt { call, lane, in_flight } => {
                info!(
                    call = call.id(),
                    host = lane.host(),
                    model = lane.model(),
                    in_flight,
                    "ceiling learnt"
                );
            }
            _ => {}
        }
    }

    fn time_of_day(at: Option<std::time::SystemTime>) -> Option<String> {
        let at = jiff::Timestamp::try_from(at?).ok()?;
        Some(format!("{at:.3}"))
    }

    fn record(sends: u32, stop: crate::outcome::StopReason) {
        Span::current()
            .record("sends", sends)
            .record("stop", field::display(stop));
    }

    fn millis(duration: std::time::Duration) -> u64 {
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Without the feature nothing is traced.
#[cfg(not(feature = "tracing"))]
pub(crate) mod trace {
    pub(crate) const fn is_on() -> bool {
        false
    }

    pub(crate) const fn event(_event: &super::Event<'_>) {}
}
