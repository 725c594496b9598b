//! Retries for AI APIs: one middleware for [`reqwest_middleware`] that sorts each answer into retryable, permanent and
//! quota-exhausted, and acts on it.

pub mod classify;
mod provider;
mod retry_after;
mod transport;

pub use classify::{Cause, Class, Classifier, Classify, Delivery, Layer, Ruling, Scope, Seen, Verdict};
pub use retry_after::{DelaySource, ServerDelay};
