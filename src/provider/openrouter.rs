//! OpenRouter, OpenCode and other routers that resell many providers. Knows whose limit was hit: the account's, the
//! router's free tier or a pool that all its customers share.

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    names: &[
        (
            Meaning::Capacity(Cause::RateLimited, Scope::Unknown),
            &["*shared_capacity", "*shared_pool"],
        ),
        (
            Meaning::Capacity(Cause::Overloaded, Scope::Unknown),
            &["no_available_provider", "provider_overloaded"],
        ),
        (
            Meaning::Spent(Cause::Balance),
            &["openrouter_credits", "CreditsError", "InsufficientCreditsError"],
        ),
        (
            Meaning::Spent(Cause::DailyAllowance),
            &["openrouter_free_tier_daily", "FreeUsageLimitError"],
        ),
        (
            Meaning::Spent(Cause::SpendLimit),
            &["MonthlyLimitError", "UserLimitError", "openrouter_key_limit"],
        ),
        (
            Meaning::Spent(Cause::PlanWindow),
            &["SubscriptionUsageLimitError", "GoUsageLimitError"],
        ),
    ],
    phrases: &[(Meaning::Spent(Cause::DailyAllowance), &["free-models-per-day"])],
    ..NOTHING
};
