//! DashScope (Qwen). Knows that `AllocationQuota`, and even `insufficient_quota` with a certain link, are tokens per minute.

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    names: &[
        (
            Meaning::Refusal(Cause::ContentPolicy),
            &["DataInspectionFailed", "data_inspection_failed"],
        ),
        (
            Meaning::Capacity(Cause::RateLimited, Scope::Growth),
            &["Throttling.BurstRate", "limit_burst_rate"],
        ),
        (
            Meaning::Capacity(Cause::RateLimited, Scope::Tokens),
            &["Throttling.AllocationQuota"],
        ),
        (
            Meaning::Capacity(Cause::Overloaded, Scope::Unknown),
            &["ModelServingError", "ModelUnavailable"],
        ),
        (
            Meaning::Spent(Cause::Balance),
            &[
                "Arrearage",
                "PrepaidBillOverdue",
                "PostpaidBillOverdue",
                "AllocationQuota.FreeTierOnly",
            ],
        ),
        (
            Meaning::Throttle(Scope::Requests),
            &["Throttling.RateQuota", "limit_requests"],
        ),
        (Meaning::Throttle(Scope::Unknown), &["Throttling*"]),
    ],
    // OpenAI's words for an empty account, but the link is to the tokens of a minute
    phrases: &[(Meaning::Capacity(Cause::RateLimited, Scope::Tokens), &["#token-limit"])],
    ..NOTHING
};
