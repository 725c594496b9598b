//! What a transport error tells: what happened, and whether the server could have acted. Knows the errors of reqwest and
//! h2; knows no HTTP status and no policy.

use std::error::Error as StdError;

use crate::classify::{Cause, Class, Delivery, Verdict};

/// The verdict on an attempt that was cut because no headers had come in time: the request may have been read.
pub(crate) const fn timed_out() -> Verdict {
    Verdict::new(Class::Retryable, Cause::Timeout).with_delivery(Delivery::Ambiguous)
}

/// The verdict on an answer whose body broke off while it was read.
pub(crate) const fn broken_body() -> Verdict {
    Verdict::new(Class::Retryable, Cause::Reset).with_delivery(Delivery::Ambiguous)
}

/// The verdict on an error. One that comes from a middleware below is that middleware's last word.
pub(crate) fn verdict(error: &reqwest_middleware::Error) -> Verdict {
    let error = match error {
        reqwest_middleware::Error::Reqwest(error) => error,
        reqwest_middleware::Error::Middleware(_) => return Verdict::new(Class::Permanent, Cause::Other),
    };
    let (class, cause, delivery) = if error.is_builder() {
        (Class::Permanent, Cause::InvalidRequest, Delivery::NeverSent)
    } else if error.is_redirect() {
        (Class::Permanent, Cause::Redirect, Delivery::Refused)
    } else if error.is_connect() {
        (Class::Retryable, Cause::Connect, Delivery::NeverSent)
    } else if never_processed(error) {
        (Class::Retryable, Cause::Reset, Delivery::NeverSent)
    } else if error.is_timeout() {
        (Class::Retryable, Cause::Timeout, Delivery::Ambiguous)
    } else if error.is_request() || error.is_body() {
        (Class::Retryable, Cause::Reset, Delivery::Ambiguous)
    } else {
        (Class::Permanent, Cause::Other, Delivery::Ambiguous)
    };
    Verdict::new(class, cause).with_delivery(delivery)
}

/// The two ways in which an HTTP/2 server says that it did not process a request (RFC 9113, 8.7): REFUSED_STREAM, and a
/// graceful GOAWAY whose last stream is below ours. h2 fails only the streams above the last one with the GOAWAY itself.
fn never_processed(error: &reqwest::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(h2) = error.downcast_ref::<h2::Error>() {
            return h2.is_remote()
                && match h2.reason() {
                    Some(h2::Reason::NO_ERROR) => h2.is_go_away(),
                    Some(h2::Reason::REFUSED_STREAM) => h2.is_reset(),
                    _ => false,
                };
        }
        source = error.source();
    }
    false
}
