//! MiniMax, whose number is in `base_resp.status_code` under any status, or ends the message in parentheses.

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    numbers: &[
        (Meaning::Refusal(Cause::ContentPolicy), &[1026, 1027]),
        // the plan has not this model
        (Meaning::Refusal(Cause::Permission), &[2061]),
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

/// Round numbers end other people's sentences: "at most (1024)".
fn ending_number(sentence: &str) -> Option<u64> {
    let (_, number) = sentence.strip_suffix(')')?.rsplit_once('(')?;
    let number = number.parse().ok()?;
    (number > 1_000 && number < 10_000 && number != 1_024).then_some(number)
}
