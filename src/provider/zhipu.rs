//! Zhipu (Z.ai), whose codes are strings of four digits in `error.code`, nearly all of them under 429.

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    numbers: &[
        // the account is closed or locked, the plan has not this model, its use is not fair or not what was bought
        (
            Meaning::Refusal(Cause::Permission),
            &[1110, 1111, 1112, 1121, 1220, 1311, 1313, 1314, 1315],
        ),
        (Meaning::Refusal(Cause::ContentPolicy), &[1301]),
        (Meaning::Capacity(Cause::Overloaded, Scope::Unknown), &[1305, 1312]),
        (Meaning::Spent(Cause::Balance), &[1113, 1309]),
        (Meaning::Spent(Cause::DailyAllowance), &[1304]),
        (
            Meaning::Spent(Cause::PlanWindow),
            &[1308, 1310, 1316, 1317, 1318, 1319, 1320, 1321],
        ),
        (Meaning::Throttle(Scope::Unknown), &[1302, 1303]),
        (Meaning::Transient(Cause::ServerError), &[1120, 1230, 1234]),
        (Meaning::Wrong(Cause::Authentication), &[1000, 1001, 1002, 1003, 1004]),
        (Meaning::Wrong(Cause::NotFound), &[1211, 1221, 1222]),
        (Meaning::Wrong(Cause::InvalidRequest), &[1210, 1212, 1213, 1214, 1215]),
        (Meaning::Oversize, &[1261]),
    ],
    number: |facts| {
        let mut objects = facts.envelope.objects().filter(|object| !object.contains_key("object"));
        let code = objects.find_map(|object| four_digits(object.get("code")?.as_str()?));
        code.or_else(|| facts.envelope.messages().find_map(leading_number))
    },
    ..NOTHING
};

fn four_digits(text: &str) -> Option<u64> {
    (text.len() == 4).then(|| text.parse().ok()).flatten()
}

/// `[1113][Insufficient balance.][20260922…]`, in the shape of others, which has no place for the code.
fn leading_number(message: &str) -> Option<u64> {
    let (number, rest) = message.strip_prefix('[')?.split_once(']')?;
    rest.starts_with('[').then(|| four_digits(number)).flatten()
}
