//! Retries for AI APIs: one middleware for [`reqwest_middleware`] that sorts each answer into retryable, permanent and
//! quota-exhausted, and acts on it.

mod account;
mod backoff;
mod body;
mod call;
mod classify;
mod clock;
mod decide;
mod dice;
mod error;
mod middleware;
mod observe;
mod outcome;
mod policy;
mod provider;
mod replay;
mod retry_after;
mod transport;

pub use backoff::{Backoff, Jitter};
pub use classify::{Cause, Class, Classifier, Classify, Delivery, Layer, Ruling, Scope, Seen, Verdict};
pub use clock::Clock;
pub use error::{RetryError, TimeLimit, is_connect, is_timeout};
pub use middleware::{RetryMiddleware, RetryMiddlewareBuilder};
pub use observe::{CallInfo, Event, Observe, ReportedHeaders};
pub use outcome::{Attempt, Outcome, StopReason, Why};
pub use policy::{GiveUp, IdempotencyKey, Replay, RetryPolicy};
pub use retry_after::{DelaySource, ServerDelay};
