//! Volcengine (Ark), whose codes name limit and dimension after a dot.

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    names: &[
        (
            Meaning::Refusal(Cause::ContentPolicy),
            &["SensitiveContentDetected*", "InputTextSensitive*", "*RiskDetection"],
        ),
        (
            Meaning::Refusal(Cause::Permission),
            &["ModelNotOpen", "AccountDisabled*"],
        ),
        (
            Meaning::Capacity(Cause::Overloaded, Scope::Unknown),
            &["ServerOverloaded", "ModelOverloaded"],
        ),
        (
            Meaning::Capacity(Cause::ModelLoading, Scope::Unknown),
            &["ModelLoadingError", "ModelLoading"],
        ),
        (Meaning::Spent(Cause::Balance), &["AccountOverdue*"]),
        (Meaning::Spent(Cause::SpendLimit), &["SetLimitExceeded"]),
        (Meaning::PerhapsSpent(Cause::DailyAllowance), &["QuotaExceeded"]),
        (
            Meaning::Throttle(Scope::Unknown),
            &["RateLimitExceeded*", "RequestBurstTooFast", "InflightBatchsizeExceeded"],
        ),
        (Meaning::Wrong(Cause::NotFound), &["InvalidEndpointOrModel*"]),
    ],
    ..NOTHING
};
