//! Cloudflare as an API (Workers AI, the v4 envelope). Of its pages as a CDN, which are in `layer`, it knows only that a
//! challenge is for browsers, whatever the status.

use serde_json::Value;

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    numbers: &[
        (Meaning::Refusal(Cause::Permission), &[3023, 5018]),
        (Meaning::Capacity(Cause::Overloaded, Scope::Unknown), &[3040]),
        (Meaning::Spent(Cause::DailyAllowance), &[3036, 4006]),
        (Meaning::Throttle(Scope::Unknown), &[971, 10_013, 10_429]),
        (Meaning::Transient(Cause::Timeout), &[3007]),
        (Meaning::Oversize, &[3006]),
        (Meaning::Wrong(Cause::NotFound), &[5007, 3042]),
        (Meaning::Wrong(Cause::Authentication), &[10_000]),
    ],
    number: |facts| {
        let envelope = facts.envelope.objects().find(|object| object.contains_key("success"))?;
        envelope
            .get("errors")?
            .as_array()?
            .first()?
            .get("code")
            .and_then(Value::as_u64)
    },
    also: |facts| {
        let challenged = facts.header("cf-mitigated") == Some("challenge");
        challenged.then_some(Meaning::Refusal(Cause::Permission))
    },
    ..NOTHING
};
