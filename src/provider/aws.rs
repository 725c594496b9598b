//! Amazon: Bedrock and the API Gateway. Knows the exceptions, which stand in a header beside a body with a sentence only.

use super::facts::Facts;
use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    names: &[
        (
            Meaning::Capacity(Cause::ModelLoading, Scope::Unknown),
            &["ModelNotReadyException"],
        ),
        (
            Meaning::Capacity(Cause::Overloaded, Scope::Unknown),
            &["ServiceUnavailableException", "ServiceUnavailable"],
        ),
        (Meaning::Spent(Cause::Other), &["ServiceQuotaExceededException"]),
        (
            Meaning::Throttle(Scope::Unknown),
            &[
                "ThrottlingException",
                "Throttling",
                "ThrottledException",
                "TooManyRequestsException",
                "LimitExceededException",
                "RequestLimitExceeded",
            ],
        ),
        (Meaning::Transient(Cause::Timeout), &["ModelTimeoutException"]),
        (
            Meaning::Transient(Cause::ServerError),
            &[
                "InternalServerException",
                "ModelErrorException",
                "ModelStreamErrorException",
            ],
        ),
        (Meaning::Wrong(Cause::InvalidRequest), &["ValidationException"]),
        (Meaning::Wrong(Cause::NotFound), &["ResourceNotFoundException"]),
        (
            Meaning::Wrong(Cause::Authentication),
            &[
                "UnrecognizedClientException",
                "ExpiredTokenException",
                "InvalidSignatureException",
                "MissingAuthenticationTokenException",
            ],
        ),
        (Meaning::Wrong(Cause::Permission), &["AccessDeniedException"]),
    ],
    phrases: &[
        // heals by itself in minutes although the exception is AccessDenied
        (
            Meaning::Capacity(Cause::Other, Scope::Unknown),
            &["subscription…still being processed"],
        ),
    ],
    also: usage_plan,
    ..NOTHING
};

/// The exception alone does not tell a usage plan's quota: a throttle of the control plane was once named so too.
fn usage_plan(facts: &Facts<'_>) -> Option<Meaning> {
    let of_gateway = facts.has_header("x-amz-apigw-id") && facts.is_named("LimitExceededException");
    (of_gateway && facts.says("limit exceeded")).then_some(Meaning::Spent(Cause::DailyAllowance))
}
