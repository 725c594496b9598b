//! Retry middleware for AI APIs over [`reqwest_middleware`].
//!
//! An AI API says no in three ways that a status code cannot tell apart, and this crate tells them apart ([`Class`]):
//! *retryable* (a rate limit, an overload, a broken connection), *permanent* (a wrong key, an unknown model, a request too
//! large) and *quota-exhausted* (balance, spend limit, daily allowance).
//!
//! What it promises:
//!
//! * **The count configured is the count sent.** [`RetryPolicy::max_attempts`] counts sends, the first included. A second
//!   [`RetryMiddleware`] inside does not retry, reqwest's hidden retries are off in
//!   [`client_builder`](RetryMiddleware::client_builder), and a caller above is told by `x-should-retry: false` (or by
//!   [`GiveUp::Error`]) not to start again. One that does so all the same is counted by an [`Operation`], or met by the
//!   [guard](RetryMiddlewareBuilder::outer_retry_guard).
//! * **The server's word is a floor.** The wait is never shorter than the delay that was stated, in whatever header or
//!   sentence ([`ServerDelay`]); a delay that does not fit the time left ends the call at once with
//!   [`Outcome::retry_at`].
//! * **Nothing is done twice.** What may have had an effect is sent again only where a repeat is safe ([`Replay`]), with the
//!   same bytes and the same idempotency key.
//! * **Nothing is held while waiting**: no response, no connection.
//! * **A protection makes a call wait; it does not lose it.** While nothing gets through ([`CircuitBreaker`]) or many attempts
//!   fail ([`RetryBudget`]), calls wait within their own limits, and [`Event::Queued`] says for what and until when.
//!   [`RetryPolicy::fail_fast`] is for services that shed instead.
//! * **Never worse than no middleware.** What cannot be repeated is sent once; a body that cannot be read falls back to the
//!   status; the last response comes back as it was received, a transport error as the `reqwest` error it was; a body that
//!   has begun is never cut.
//! * **A stream fails like a status.** An error that comes before any output of a `text/event-stream` is classified and
//!   retried; behind output it is handed over and nothing is replayed ([`RetryPolicy::inspect_stream_start`]).
//! * **Everything is visible and nothing secret is**: [`Outcome`], [`Observe`], and `tracing` events.
//!
//! ```
//! use std::time::Duration;
//! use reqwest_ai_retry::{Outcome, RetryMiddleware, RetryPolicy, StopReason};
//! use reqwest_middleware::ClientBuilder;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = ClientBuilder::new(RetryMiddleware::client_builder().build()?)
//!     .with(RetryMiddleware::new(RetryPolicy::default().total_deadline(Duration::from_secs(90))))
//!     .build();
//!
//! let response = client
//!     .post("https://api.anthropic.com/v1/messages")
//!     .header("x-api-key", "…")
//!     .body(r#"{"model":"claude-sonnet-4-5","max_tokens":64,"messages":[{"role":"user","content":"hello"}]}"#)
//!     .send()
//!     .await?;
//!
//! match Outcome::of(&response) {
//!     None => println!("answered at once"),
//!     Some(outcome) if outcome.stop() == StopReason::Succeeded => println!("answered after {} sends", outcome.sends()),
//!     Some(outcome) => println!("{} (again at {:?})", outcome.user_message(), outcome.retry_at()),
//! }
//! # Ok(()) }
//! ```
//!
//! The features: `tracing` (default), one span per call and one event per attempt, wait and give-up; `serde`, `Serialize`
//! for verdicts and outcomes; `redis`, one account over many processes (`RedisStore`, whose
//! page says when it is needed, how large it is and what happens without it), and `redis-rustls`, the same over TLS. No TLS or other feature of
//! reqwest is turned on.

// a library on every request's path neither panics nor prints
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod above;
// all features together are looked through for what nobody uses
#[cfg_attr(
    not(feature = "redis"),
    allow(dead_code, reason = "an account that is not shared is asked less")
)]
mod account;
mod backoff;
mod body;
mod call;
mod classify;
mod clock;
mod decide;
mod dice;
mod error;
mod event_stream;
mod guard;
mod json;
mod ledger;
mod middleware;
mod observe;
mod operation;
mod outcome;
mod policy;
mod provider;
mod replay;
mod retry_after;
#[cfg(feature = "serde")]
mod serial;
mod stream;
mod transport;

pub use account::{
    Account, AccountBuilder, AccountStatus, BreakerStatus, BuildError, Charge, CircuitBreaker, Cost, LaneName,
    LaneStatus, Limits, Permit, RetryBudget, StoreStatus, Usage,
};
#[cfg(feature = "redis")]
pub use account::{RedisStore, StoreError};
pub use backoff::{Backoff, Jitter};
pub use classify::{Cause, Class, Classifier, Classify, Delivery, Layer, Ruling, Scope, Seen, Verdict};
pub use clock::Clock;
pub use error::{RetryError, TimeLimit, is_connect, is_timeout};
pub use middleware::{RetryMiddleware, RetryMiddlewareBuilder};
pub use observe::{CallInfo, Event, Observe, ReportedHeaders, WaitCause};
pub use operation::Operation;
pub use outcome::{Attempt, Outcome, StopReason, Why};
pub use policy::{GiveUp, IdempotencyKey, Replay, RetryPolicy};
pub use retry_after::{DelaySource, ServerDelay};

/// The README's examples are compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
