//! Moonshot, Zhipu, DashScope, MiniMax, Volcengine, SiliconFlow and Baidu. Knows their numbers, which mean something only
//! where they are written.

use serde_json::Value;

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const MOONSHOT: Family = Family {
    names: &[
        (
            Meaning::Capacity(Cause::Overloaded, Scope::Unknown),
            &["engine_overloaded_error"],
        ),
        (Meaning::Spent(Cause::Balance), &["exceeded_current_quota_error"]),
        (Meaning::Throttle(Scope::Unknown), &["rate_limit_reached_error"]),
    ],
    ..NOTHING
};

/// The number is a string of four digits in `error.code`.
pub(super) const ZHIPU: Family = Family {
    numbers: &[
        (Meaning::Refusal(Cause::Permission), &[1110, 1111, 1112, 1121, 1220]),
        (Meaning::Refusal(Cause::ContentPolicy), &[1301]),
        (Meaning::Capacity(Cause::Overloaded, Scope::Unknown), &[1305, 1312]),
        (Meaning::Spent(Cause::Balance), &[1113, 1309]),
        (Meaning::Spent(Cause::DailyAllowance), &[1304]),
        (Meaning::Spent(Cause::PlanWindow), &[1308, 1310]),
        (Meaning::Throttle(Scope::Unknown), &[1302, 1303]),
        (Meaning::Transient(Cause::ServerError), &[1230, 1234]),
        (Meaning::Wrong(Cause::Authentication), &[1000, 1001, 1002, 1003, 1004]),
        (Meaning::Wrong(Cause::NotFound), &[1211]),
        (Meaning::Wrong(Cause::InvalidRequest), &[1210, 1212, 1213, 1214, 1215]),
        (Meaning::Oversize, &[1261]),
    ],
    number: |facts| {
        let mut objects = facts.envelope.objects().filter(|object| !object.contains_key("object"));
        objects.find_map(|object| {
            object
                .get("code")?
                .as_str()
                .filter(|code| code.len() == 4)?
                .parse()
                .ok()
        })
    },
    ..NOTHING
};

pub(super) const DASHSCOPE: Family = Family {
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

/// The number is in `base_resp.status_code` under any status, or ends the message in parentheses.
pub(super) const MINIMAX: Family = Family {
    numbers: &[
        (Meaning::Refusal(Cause::ContentPolicy), &[1026, 1027]),
        (Meaning::Capacity(Cause::Timeout, Scope::Unknown), &[1001]),
        (
            Meaning::Capacity(Cause::ServerError, Scope::Unknown),
            &[1000, 1013, 1024, 1033],
        ),
        (Meaning::Spent(Cause::Balance), &[1008]),
        (Meaning::Spent(Cause::PlanWindow), &[2056]),
        (Meaning::Throttle(Scope::Unknown), &[1002, 1041, 2045]),
        (Meaning::Throttle(Scope::Tokens), &[1039]),
        (Meaning::Wrong(Cause::Authentication), &[1004, 2049]),
        (
            Meaning::Wrong(Cause::InvalidRequest),
            &[1042, 1043, 1044, 2013, 2037, 2038, 2039, 2042, 2048],
        ),
    ],
    number: |facts| {
        let outcome = facts
            .envelope
            .objects()
            .find(|object| object.contains_key("status_msg"));
        let outcome = outcome.and_then(|object| object.get("status_code")?.as_u64());
        outcome.or_else(|| {
            facts
                .sentences
                .iter()
                .rev()
                .find_map(|sentence| ending_number(&sentence.lower))
        })
    },
    ..NOTHING
};

fn ending_number(sentence: &str) -> Option<u64> {
    let (_, number) = sentence.strip_suffix(')')?.rsplit_once('(')?;
    number.parse().ok().filter(|number| (1_000..10_000).contains(number))
}

pub(super) const VOLCENGINE: Family = Family {
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

/// SiliconFlow and Baidu: a number beside the message, as `code` or `error_code`.
pub(super) const NUMBERED: Family = Family {
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
