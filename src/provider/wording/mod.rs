//! The words of the trade, which many providers and resellers share: money, regions and bans, capacity, size, content,
//! limits. Knows no names of errors; a phrase that means different things to different providers is in their own files.

mod limit;
mod money;
mod refusal;

use self::limit::{CAPACITY, CONCURRENCY, GROWTH, LOADING, SHARED, SIZE, THROTTLE};
use self::money::{MONEY, SPENDING, USAGE};
use self::refusal::{ACCESS, BAN, CONTENT, KEY, MODEL, REGION};
use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    phrases: &[
        (Meaning::Refusal(Cause::Permission), REGION),
        (Meaning::Refusal(Cause::Permission), ACCESS),
        (Meaning::Refusal(Cause::ContentPolicy), CONTENT),
        (Meaning::Capacity(Cause::Overloaded, Scope::Unknown), CAPACITY),
        (Meaning::Capacity(Cause::ModelLoading, Scope::Unknown), LOADING),
        (Meaning::Capacity(Cause::RateLimited, Scope::Growth), GROWTH),
        (Meaning::Capacity(Cause::RateLimited, Scope::Unknown), SHARED),
        (Meaning::Oversize, SIZE),
        (Meaning::Spent(Cause::Balance), MONEY),
        (Meaning::Spent(Cause::SpendLimit), SPENDING),
        (Meaning::PerhapsSpent(Cause::PlanWindow), USAGE),
        (Meaning::Throttle(Scope::Concurrency), CONCURRENCY),
        (Meaning::Throttle(Scope::Unknown), THROTTLE),
        (Meaning::Wrong(Cause::Authentication), KEY),
        (Meaning::Wrong(Cause::NotFound), MODEL),
    ],
    also: |facts| {
        // "suspended, possibly due to reaching the spending limit" is about money, as long as it says so itself
        let banned = |sentence: &str| {
            let says = |phrases: &[&str]| phrases.iter().any(|phrase| super::prose::says(sentence, phrase));
            says(BAN) && !says(MONEY) && !says(SPENDING) && !says(&["temporar", "due to…payment", "due to…billing"])
        };
        let found = facts.sentences.iter().any(|sentence| banned(&sentence.lower));
        found.then_some(Meaning::Refusal(Cause::Permission))
    },
    ..NOTHING
};
