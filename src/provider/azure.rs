//! Microsoft: Azure OpenAI, GitHub's and Azure's model catalogues, API Management. Knows that "pricing tier" and
//! "quotaincrease" stand in every message about a limit, so that neither is a sign here.

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    names: &[
        (
            Meaning::Refusal(Cause::ContentPolicy),
            &["ResponsibleAIPolicyViolation"],
        ),
        (
            Meaning::Refusal(Cause::Permission),
            &["abnormal-usage-detected", "#abnormal-usage-detected"],
        ),
        (
            Meaning::Capacity(Cause::Overloaded, Scope::Unknown),
            &["NoCapacity", "ServerBusy", "#temporary-reduced-capacity"],
        ),
        (
            Meaning::Throttle(Scope::Unknown),
            &["RateLimitReached", "429", "#quota-exceeded", "user_*_rate_limited"],
        ),
        (Meaning::Wrong(Cause::NotFound), &["DeploymentNotFound"]),
    ],
    phrases: &[
        (
            Meaning::Spent(Cause::DailyAllowance),
            &["out of call volume quota", "out of bandwidth quota"],
        ),
        // GitHub's second limit, on top of the one whose counters stand in the headers
        (
            Meaning::Throttle(Scope::Unknown),
            &["secondary rate limit", "abuse detection mechanism"],
        ),
    ],
    ..NOTHING
};
