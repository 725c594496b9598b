//! OpenAI, and the names that everybody who speaks its protocol has taken over. Knows neither Azure nor the resellers.

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    names: &[
        (
            Meaning::Refusal(Cause::Permission),
            &[
                "unsupported_country*",
                "account_deactivated",
                "organization_deactivated",
                "organization_disabled",
                "usage_not_included",
                "access_terminated",
            ],
        ),
        (
            Meaning::Refusal(Cause::ContentPolicy),
            &[
                "content_filter*",
                "content_policy*",
                "moderation_blocked",
                "responsible_ai_policy_violation",
                "cyber_policy*",
            ],
        ),
        (
            Meaning::Capacity(Cause::Overloaded, Scope::Unknown),
            &[
                "server_is_overloaded",
                "server_overloaded*",
                "model_overloaded*",
                "engine_overloaded*",
                "service_overloaded*",
                "overloaded_error",
                "overloaded",
                "capacity_exceeded",
                "capacity_error",
                "no_capacity",
                "insufficient_capacity*",
            ],
        ),
        // the traffic grew too fast, though within its limits
        (Meaning::Capacity(Cause::RateLimited, Scope::Growth), &["slow_down"]),
        (
            Meaning::Oversize,
            &[
                "context_length_exceeded",
                "string_above_max_length",
                "request_too_large",
                "payload_too_large",
                "tokens_exceeded*",
            ],
        ),
        (
            Meaning::Spent(Cause::Balance),
            &[
                "insufficient_quota",
                "credit_balance_exhausted",
                "billing_not_active",
                "billing_error",
                "payment_required",
                "insufficient_credit*",
                "insufficient_balance*",
                "insufficient_funds_error",
                "insufficient_user_quota",
                "out_of_credits",
                "quota_not_enough",
                "pre_consume_token_quota_failed",
            ],
        ),
        (
            Meaning::Spent(Cause::SpendLimit),
            &[
                "billing_hard_limit_reached",
                "*spend_limit_exceeded",
                "*spend_limit_reached",
                "*spending_limit_exceeded",
                "*spending_limit_reached",
                "organization_usage_limit_exceeded",
                "project_usage_limit_exceeded",
                "budget_exceeded",
            ],
        ),
        (
            Meaning::Spent(Cause::PlanWindow),
            &["usage_limit_reached", "usage_limit_exceeded"],
        ),
        (
            Meaning::PerhapsSpent(Cause::DailyAllowance),
            &["quota_exceeded", "quota_exhausted", "exceeded_current_quota"],
        ),
        (
            Meaning::Throttle(Scope::Unknown),
            &[
                "rate_limit_exceeded",
                "rate_limit_error",
                "rate_limit_reached*",
                "rate_limited",
                "model_rate_limit",
                "too_many_requests",
            ],
        ),
        (
            Meaning::Throttle(Scope::Concurrency),
            &["concurrency_limit*", "*concurrency_exceeded"],
        ),
        (
            Meaning::Wrong(Cause::Authentication),
            &[
                "invalid_api_key",
                "incorrect_api_key",
                "authentication_error",
                "invalid_authentication*",
                "api_key_invalid",
            ],
        ),
        (
            Meaning::Wrong(Cause::NotFound),
            &["model_not_found", "not_found_error", "deployment_not_found"],
        ),
        (
            Meaning::Wrong(Cause::Permission),
            &["permission_error", "access_denied", "model_access_denied"],
        ),
        (
            Meaning::Wrong(Cause::InvalidRequest),
            &[
                "unsupported_parameter",
                "unsupported_value",
                "missing_required_parameter",
                "invalid_value",
                "invalid_type",
                "unknown_parameter",
            ],
        ),
    ],
    ..NOTHING
};
