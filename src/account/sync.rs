//! What threads share an account through: the standard library's lock and atomics, or loom's in the tests that try their
//! interleavings. `Arc` is always the standard one: nothing is done by whoever drops the last.

#[cfg(all(test, ai_retry_loom))]
pub(super) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(all(test, ai_retry_loom)))]
pub(super) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
