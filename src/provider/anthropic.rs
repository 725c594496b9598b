//! Anthropic. Knows what its type names, which are used for more than one thing, do not tell: `rate_limit_error` is a
//! throttle, a plan's window, a spending cap or a missing entitlement.

use super::facts::Facts;
use super::sign::{Family, Meaning, NOTHING};
use super::window::{Named, Window};
use crate::classify::Cause;

pub(super) const FAMILY: Family = Family {
    names: &[
        (Meaning::Spent(Cause::SpendLimit), &["enforced_spend_limit_reached"]),
        (Meaning::Spent(Cause::Balance), &["credit_balance_too_low"]),
    ],
    also: |facts| {
        // in the details, where no other provider keeps a code
        let codes = facts
            .envelope
            .objects()
            .filter_map(|object| object.get("error_code")?.as_str());
        let capped = codes.into_iter().any(|code| code.contains("spend_limit"));
        capped.then_some(Meaning::Spent(Cause::SpendLimit))
    },
    window: plan_window,
    ..NOTHING
};

/// The bodies of a plan's window and of a minute's throttle are alike; these headers part them.
fn plan_window(facts: &Facts<'_>) -> Named {
    let rejected = |name: &str| {
        facts
            .header(name)
            .is_some_and(|status| status.eq_ignore_ascii_case("rejected"))
    };
    let long = if rejected("anthropic-ratelimit-unified-7d-status") {
        Some(Window::Week)
    } else if rejected("anthropic-ratelimit-unified-status") || rejected("anthropic-ratelimit-unified-5h-status") {
        Some(Window::Hours)
    } else {
        None
    };
    Named { short: false, long }
}
