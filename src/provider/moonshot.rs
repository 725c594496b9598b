//! Moonshot (Kimi), which sends everything as 429 and tells rate, day and money apart by type and words.

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
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
