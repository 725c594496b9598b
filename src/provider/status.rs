//! What a bare status means, where nothing in the answer tells more, and which names stand in for one.

use http::StatusCode;

use crate::classify::{Cause, Class, Delivery};

/// What a stream, which has no status left to send, says in its place.
const STAND_INS: &[(u16, &[&str])] = &[
    (
        400,
        &[
            "invalid_request_error",
            "invalid_argument",
            "bad_request",
            "failed_precondition",
            "invalid_prompt",
        ],
    ),
    (401, &["authentication_error", "unauthenticated", "unauthorized"]),
    (403, &["permission_error", "permission_denied", "forbidden"]),
    (404, &["not_found_error", "not_found"]),
    (413, &["request_too_large"]),
    (
        429,
        &[
            "rate_limit_error",
            "rate_limit_exceeded",
            "too_many_requests",
            "resource_exhausted",
        ],
    ),
    (504, &["timeout_error", "deadline_exceeded", "timeout"]),
    (529, &["overloaded_error", "overloaded"]),
];

/// The class and cause of a status that is no success.
pub(super) fn meaning(status: StatusCode) -> (Class, Cause) {
    use Class::{Permanent, QuotaExhausted, Retryable};
    match status.as_u16() {
        401 | 407 => (Permanent, Cause::Authentication),
        402 => (QuotaExhausted, Cause::Balance),
        403 | 451 => (Permanent, Cause::Permission),
        404 | 410 => (Permanent, Cause::NotFound),
        408 => (Retryable, Cause::Timeout),
        409 => (Retryable, Cause::Conflict),
        413 => (Permanent, Cause::TooLarge),
        425 => (Retryable, Cause::Other),
        429 => (Retryable, Cause::RateLimited),
        // Groq's flexible tier has no room
        498 => (Retryable, Cause::Overloaded),
        400..=499 => (Permanent, Cause::InvalidRequest),
        // not implemented, HTTP version: no other answer will come
        501 | 505 => (Permanent, Cause::InvalidRequest),
        // a network wants a log-in
        511 => (Permanent, Cause::Authentication),
        // the CDN and the origin do not agree on TLS
        525 | 526 => (Permanent, Cause::Other),
        503 | 529 => (Retryable, Cause::Overloaded),
        504 | 522 | 524 | 598 | 599 => (Retryable, Cause::Timeout),
        _ => (Retryable, Cause::ServerError),
    }
}

/// The status that a name stands for.
pub(super) fn stand_in(is_named: impl Fn(&str) -> bool) -> Option<StatusCode> {
    let found = STAND_INS
        .iter()
        .find(|(_, names)| names.iter().any(|name| is_named(name)));
    found.and_then(|&(status, _)| StatusCode::from_u16(status).ok())
}

/// Could the server have acted? A 503 is a refusal only if it says so: one from a proxy may stand for work that was done.
pub(super) fn delivery(status: StatusCode, says_when_or_why: bool) -> Delivery {
    match status.as_u16() {
        408 => Delivery::Ambiguous,
        400..=499 | 529 => Delivery::Refused,
        503 if says_when_or_why => Delivery::Refused,
        _ => Delivery::Ambiguous,
    }
}
