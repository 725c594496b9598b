//! Zhipu (Z.ai), whose codes are strings of four digits in `error.code`, nearly all of them under 429.

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
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
