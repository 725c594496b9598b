//! The numbers of the loop and the caller's choices. Knows no request, no response and no time.

use std::time::Duration;

use http::HeaderName;

use crate::backoff::Backoff;

/// How often, how long and what to retry.
///
/// ```
/// use std::time::Duration;
/// use reqwest_ai_retry::{RetryMiddleware, RetryPolicy};
///
/// // for an interactive program: three sends, and no more than 20 s from the first byte to the last wait
/// let retry = RetryMiddleware::new(
///     RetryPolicy::default().max_attempts(3).max_retry_time(Duration::from_secs(15)).total_deadline(Duration::from_secs(20)),
/// );
/// # let _ = retry;
/// ```
///
/// A policy given to one request replaces the client's for it, all of it:
///
/// ```
/// # async fn run(client: reqwest_middleware::ClientWithMiddleware) -> reqwest_middleware::Result<()> {
/// use reqwest_ai_retry::RetryPolicy;
///
/// client.get("https://api.example.com/v1/models").with_extension(RetryPolicy::default().max_attempts(1)).send().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    pub(crate) max_attempts: u32,
    pub(crate) max_retry_time: Duration,
    pub(crate) max_queue_time: Option<Duration>,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) total_deadline: Option<Duration>,
    pub(crate) backoff: Backoff,
    pub(crate) replay: Replay,
    pub(crate) idempotency_key: IdempotencyKey,
    pub(crate) buffer_request: Option<usize>,
    pub(crate) inspect_success: Option<usize>,
    pub(crate) inspect_stream_start: bool,
    pub(crate) give_up: GiveUp,
    pub(crate) fail_fast: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            max_retry_time: Duration::from_secs(120),
            max_queue_time: None,
            attempt_timeout: None,
            total_deadline: None,
            backoff: Backoff::default(),
            replay: Replay::Inference,
            idempotency_key: IdempotencyKey::Keep,
            buffer_request: None,
            inspect_success: None,
            inspect_stream_start: true,
            give_up: GiveUp::Response,
            fail_fast: false,
        }
    }
}

impl RetryPolicy {
    /// Sends in all, the first included (default 5): 1 never retries, and so does 0, since a call that is made is sent
    /// once.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// How long to go on retrying, from the first send (default 120 s, so that the minute windows of rate limits fit
    /// twice). No wait is begun that ends later; a server's delay that does not fit ends the call at once. An attempt in
    /// flight is never cut by it.
    ///
    /// Before the first send it bounds the waits in which the lane sends nothing: a call does not wait for an open circuit
    /// breaker longer than this, and a pause that is known to be longer ends it at once. A queue that moves is waited for
    /// ([`max_queue_time`](Self::max_queue_time)).
    #[must_use]
    pub const fn max_retry_time(mut self, time: Duration) -> Self {
        self.max_retry_time = time;
        self
    }

    /// How long to wait for the account's admission before the first send, whatever the wait is for (default: no limit, so
    /// that six hundred calls at ninety a minute wait their turn). A wait that is known not to fit is refused at once.
    #[must_use]
    pub const fn max_queue_time(mut self, time: Duration) -> Self {
        self.max_queue_time = Some(time);
        self
    }

    /// Whether a call ends at once instead of waiting for something without a known end: an open circuit breaker, or an empty
    /// retry budget. Default: it waits, within [`max_retry_time`](Self::max_retry_time),
    /// [`max_queue_time`](Self::max_queue_time) and [`total_deadline`](Self::total_deadline), so that a short outage reaches
    /// the user as a delay and not as an error.
    ///
    /// For services that shed load, since they have another provider to turn to or users who prefer an error. A call that
    /// ends before its first send gets [`RetryError::Refused`](crate::RetryError::Refused), with
    /// [`retry_at`](crate::RetryError::retry_at) and the provider's last failure to any call
    /// ([`verdict`](crate::RetryError::verdict)). One that was sent ends as if its attempts were spent, with the failure that
    /// it got. Waits for a pause, for the pace and for a place in flight are not changed by it.
    ///
    /// ```
    /// use reqwest_ai_retry::RetryPolicy;
    ///
    /// // there is a second provider: tell at once that this one is down
    /// let policy = RetryPolicy::default().fail_fast(true);
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub const fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.fail_fast = fail_fast;
        self
    }

    /// How long one attempt may take until its response headers (default: no limit, since a model may think for minutes).
    /// A body that has begun is never cut by it. An attempt that is cut may have reached the server, so it is repeated only
    /// where a repeat is safe ([`Replay`]).
    #[must_use]
    pub const fn attempt_timeout(mut self, time: Duration) -> Self {
        self.attempt_timeout = Some(time);
        self
    }

    /// How long the whole call may take until its response headers (default: no limit). Hard: it cuts waits and an attempt
    /// in flight. A body that has begun is never cut by it: a healthy stream may take any time.
    #[must_use]
    pub const fn total_deadline(mut self, time: Duration) -> Self {
        self.total_deadline = Some(time);
        self
    }

    /// How long to wait where the server does not say (default: [`Backoff::default`]).
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// What may be sent again after a failure that may have had an effect (default: [`Replay::Inference`]).
    #[must_use]
    pub const fn replay(mut self, replay: Replay) -> Self {
        self.replay = replay;
        self
    }

    /// What is done about the idempotency key (default: [`IdempotencyKey::Keep`]).
    #[must_use]
    pub fn idempotency_key(mut self, key: IdempotencyKey) -> Self {
        self.idempotency_key = key;
        self
    }

    /// Reads a streaming or multipart request body into memory, up to `max_bytes`, so that it can be sent again (default:
    /// off). A longer one is sent once, as it comes. Even a multipart form that is all in memory is a stream to reqwest.
    #[must_use]
    pub const fn buffer_request(mut self, max_bytes: usize) -> Self {
        self.buffer_request = Some(max_bytes);
        self
    }

    /// Looks into the body of a success too, up to `max_bytes` and one second (default: off, since it holds the answer
    /// back): finds the errors that some gateways send under status 200, and makes a body that breaks off within the
    /// bytes read a failed attempt. `text/event-stream` is left to [`inspect_stream_start`](Self::inspect_stream_start).
    #[must_use]
    pub const fn inspect_success(mut self, max_bytes: usize) -> Self {
        self.inspect_success = Some(max_bytes);
        self
    }

    /// Whether a `text/event-stream` that answers a call to a model is looked into until it tells whether there will be an
    /// answer (default: yes). A provider that fails after it has sent status 200 says so in an event. If that comes before
    /// any output, the attempt has failed as if the event had been the status (`overloaded_error` as 529, `rate_limit_error`
    /// as 429, a numeric `code` as itself), and so it has if the connection breaks before any output. If output comes first,
    /// or the stream ends in good order, the caller gets all of it, byte for byte, and nothing is sent again. The classifier
    /// (and a rule of one's own, [`Classify`](crate::Classify)) is given the stream up to the end of the error as the body.
    ///
    /// Held back are only events without output: comments, `ping`, `message_start`, `response.created`, `response.queued`
    /// and `response.in_progress`, a part that is opened empty, a chunk with a role and no content. Output ends the wait at
    /// once, and so does whatever is not known; else it ends after 16 KiB, two seconds past the headers or at the
    /// [`total_deadline`](Self::total_deadline), whichever comes first. At none of these anything is cut: the caller gets the
    /// stream as far as it has come and all that follows. [`attempt_timeout`](Self::attempt_timeout) has ended at the headers.
    ///
    /// Calls to a model are told by method and path, as for [`Replay::Inference`]; other event streams (a `GET`, MCP) are
    /// left alone, and so are streams that are not `text/event-stream` (newline-delimited JSON, Bedrock's binary events) or
    /// that reqwest has not decompressed.
    #[must_use]
    pub const fn inspect_stream_start(mut self, inspect: bool) -> Self {
        self.inspect_stream_start = inspect;
        self
    }

    /// What the caller gets when a response is given up on (default: [`GiveUp::Response`]).
    #[must_use]
    pub const fn give_up(mut self, give_up: GiveUp) -> Self {
        self.give_up = give_up;
        self
    }
}

/// What may be sent again after an *ambiguous* failure: a timeout or reset after the send, 408, or a 5xx that does not
/// say that nothing was done. What was never sent or was refused may always be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Replay {
    /// Idempotent methods (RFC 9110, 9.2.2), requests with an idempotency key, and nothing else.
    Idempotent,
    /// These, and calls that ask a model for an answer: a repeat costs tokens, but has no effect. Told by a known path
    /// *and* a model named in the body (or in the path, where the provider puts it there); never for stored conversations,
    /// background runs, threads, batches, or image, audio and video jobs. The default.
    #[default]
    Inference,
    /// Everything: the caller's word that a repeat does no harm.
    Always,
}

/// What is done about the idempotency key, and in which header it stands (`Idempotency-Key`, unless
/// [`header`](Self::header) names another).
///
/// ```
/// use http::HeaderName;
/// use reqwest_ai_retry::{IdempotencyKey, RetryPolicy};
///
/// let policy = RetryPolicy::default()
///     .idempotency_key(IdempotencyKey::Generate.header(HeaderName::from_static("x-idempotency-key")));
/// # let _ = policy;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdempotencyKey {
    generate: bool,
    header: Option<HeaderName>,
}

#[allow(
    non_upper_case_globals,
    reason = "reads as the choice of two that it is, and either can name a header"
)]
impl IdempotencyKey {
    /// A key that the caller gave is sent unchanged on every attempt; none is invented, since a key means nothing to a
    /// server that does not honour it. The default.
    pub const Keep: Self = Self {
        generate: false,
        header: None,
    };

    /// The caller's word that the server honours such keys: a request whose method is not idempotent gets a UUID v4, the
    /// same on every attempt, unless it brings a key. Ambiguous failures may then be sent again.
    pub const Generate: Self = Self {
        generate: true,
        header: None,
    };

    /// Names the header that the server reads the key from.
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> Self {
        self.header = Some(name);
        self
    }

    pub(crate) const fn generates(&self) -> bool {
        self.generate
    }

    pub(crate) fn name(&self) -> HeaderName {
        self.header
            .clone()
            .unwrap_or(HeaderName::from_static("idempotency-key"))
    }
}

/// What the caller gets when a response is given up on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum GiveUp {
    /// The last response, status, headers and body as received, but for `x-should-retry: false` where trying again would
    /// only repeat what was done here. The default.
    #[default]
    Response,
    /// A [`RetryError::GaveUp`](crate::RetryError::GaveUp), for SDKs that start a loop of their own on the status. An
    /// answer that no such loop repeats (a permanent 4xx: wrong key, wrong parameter) still comes back as the response,
    /// since its body says what to change.
    Error,
}
