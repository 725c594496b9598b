//! SiliconFlow and Baidu: a number beside the message, as `code` or `error_code`.

use serde_json::Value;

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    numbers: &[
        (
            Meaning::Capacity(Cause::Overloaded, Scope::Unknown),
            &[50_603, 50_505, 336_100],
        ),
        (Meaning::Spent(Cause::Balance), &[30_001, 30_011]),
        (Meaning::Spent(Cause::DailyAllowance), &[17, 19]),
        (Meaning::Throttle(Scope::Requests), &[18, 336_501]),
        (Meaning::Throttle(Scope::Tokens), &[336_502]),
        (Meaning::Wrong(Cause::NotFound), &[20_012]),
    ],
    number: |facts| {
        let number = |object: &serde_json::Map<String, Value>| match object.get("error_code") {
            Some(code) if object.contains_key("error_msg") => code.as_u64(),
            _ => object
                .get("code")
                .and_then(Value::as_u64)
                .filter(|code| *code >= 10_000),
        };
        facts.envelope.objects().find_map(number)
    },
    ..NOTHING
};
