//! LiteLLM and its like: proxies with budgets and cooldowns of their own. Knows that a cooldown heals, however long, and
//! that it may be told in words that do not: "No deployments available - crossed budget".

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    names: &[(
        Meaning::Spent(Cause::SpendLimit),
        &["budget_exceeded", "*_budget_exceeded", "max_budget_exceeded"],
    )],
    also: |facts| {
        let cooling = facts.says("no deployments available") && !facts.says("crossed budget");
        cooling.then_some(Meaning::Capacity(Cause::RateLimited, Scope::Unknown))
    },
    ..NOTHING
};
