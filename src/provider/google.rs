//! Google: Gemini, Vertex AI and Cloud Code, whoever's model answers there. Knows the details of `google.rpc`; the status
//! `RESOURCE_EXHAUSTED` says little, being used for rate, day, money and capacity alike.

use std::time::Duration;

use serde_json::Value;

use super::facts::{Facts, texts};
use super::sign::{Family, Meaning, NOTHING};
use super::window::{self, Named, Window};
use crate::classify::{Cause, Scope};

/// Google's own client gives up above this.
const LONGEST_RETRY_INFO: Duration = Duration::from_secs(300);

pub(super) const FAMILY: Family = Family {
    names: &[
        (
            Meaning::Refusal(Cause::Permission),
            &[
                "VALIDATION_REQUIRED",
                "SERVICE_DISABLED",
                "BILLING_DISABLED",
                "CONSUMER_SUSPENDED",
                "accessNotConfigured",
            ],
        ),
        (
            Meaning::Capacity(Cause::Overloaded, Scope::Unknown),
            &["MODEL_CAPACITY_EXHAUSTED"],
        ),
        (
            Meaning::Spent(Cause::Balance),
            &[
                "INSUFFICIENT_G1_CREDITS_BALANCE",
                "*CREDITS_EXHAUSTED",
                "*CREDITS_BALANCE",
            ],
        ),
        (Meaning::Spent(Cause::PlanWindow), &["QUOTA_EXHAUSTED"]),
        (Meaning::Spent(Cause::DailyAllowance), &["dailyLimitExceeded*"]),
        (Meaning::PerhapsSpent(Cause::DailyAllowance), &["quotaExceeded"]),
        (
            Meaning::Throttle(Scope::Unknown),
            &[
                "RESOURCE_EXHAUSTED",
                "RATE_LIMIT_EXCEEDED",
                "rateLimitExceeded",
                "userRateLimitExceeded",
            ],
        ),
        (Meaning::Wrong(Cause::Authentication), &["API_KEY_INVALID"]),
    ],
    phrases: &[
        (
            Meaning::Capacity(Cause::RateLimited, Scope::Unknown),
            &["^resource exhausted$"],
        ),
        (
            Meaning::Spent(Cause::Balance),
            &["prepayment credits are depleted", "prepay…depleted"],
        ),
    ],
    also: day_or_long_wait,
    ..NOTHING
};

/// A day's quota stays used up although a short `RetryInfo` stands beside it; and a long one means a used-up allowance even
/// where no window is named.
fn day_or_long_wait(facts: &Facts<'_>) -> Option<Meaning> {
    // the front end's page for an address that asks too much "right now", also under 403
    if facts.page().is_some_and(|page| page.contains("automated queries")) {
        return Some(Meaning::Throttle(Scope::Unknown));
    }
    let is_google = facts.is_named("RESOURCE_EXHAUSTED") || facts.envelope.objects().any(is_detail);
    if !is_google {
        return None;
    }
    let quotas = facts
        .envelope
        .objects()
        .flat_map(|object| texts(object, &["quotaId", "quota_limit"]));
    let by_name = quotas.map(window::in_name).fold(Named::default(), Named::merged);
    let by_prose = facts
        .sentences
        .iter()
        .map(|sentence| window::in_prose(&sentence.spelled));
    let long = if by_name.is_any() {
        by_name.long
    } else {
        by_prose.filter_map(|named| named.long).max()
    };
    let has_retry_info = facts.envelope.objects().any(|object| object.contains_key("retryDelay"));
    let waits_long = has_retry_info && facts.wait().is_some_and(|wait| wait > LONGEST_RETRY_INFO);
    match long {
        Some(Window::Hours | Window::Week) => Some(Meaning::Spent(Cause::PlanWindow)),
        Some(_) => Some(Meaning::Spent(Cause::DailyAllowance)),
        None => waits_long.then_some(Meaning::Spent(Cause::PlanWindow)),
    }
}

fn is_detail(object: &serde_json::Map<String, Value>) -> bool {
    let kind = object.get("@type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.contains("google.rpc"))
}
