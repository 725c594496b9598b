//! The standing of a limit knows what there is to state about it: the limit, what remains, when it is full. It does not
//! know the headers that state it.

use std::time::Duration;

use super::super::account::Account;
use super::super::law::Law;
use super::super::meter::{Meter, Nanos};
use super::super::model::Headers;
use super::super::reply::Refusal;
use super::super::tokens::{Demand, Tokens};

/// What limits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Requests,
    Input,
    Output,
    Total,
}

/// What is stated about one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) limit: i64,
    pub(super) remaining: i64,
    /// Until the limit is full again.
    pub(super) reset: Duration,
}

fn meters(account: &Account, quantity: Quantity) -> impl Iterator<Item = (&Law, &Meter)> {
    let of = match quantity {
        Quantity::Requests => None,
        Quantity::Input => Some(Tokens::Input),
        Quantity::Output => Some(Tokens::Output),
        Quantity::Total => Some(Tokens::Total),
    };
    let requests = account.requests.iter().filter(move |_| of.is_none());
    let tokens = account.tokens.iter().filter(move |limit| Some(limit.of) == of);
    let requests = requests.map(|(law, meter)| (law, meter));
    requests.chain(tokens.map(|limit| (&limit.law, &limit.meter)))
}

/// The limit of this quantity with the least left, if there is one.
fn tightest(account: &Account, quantity: Quantity, now: Nanos) -> Option<(&Law, &Meter)> {
    meters(account, quantity).min_by_key(|(_, meter)| meter.remaining(now))
}

pub(super) fn standing(account: &Account, quantity: Quantity, headers: Headers, now: Nanos) -> Option<Standing> {
    let (law, meter) = tightest(account, quantity, now)?;
    let limit = match headers {
        Headers::PerMinute => law.per_minute(),
        Headers::AsEnforced => law.at_once(),
        Headers::Sentinels | Headers::Off => {
            return Some(Standing {
                limit: -1,
                remaining: -1,
                reset: Duration::ZERO,
            });
        }
    };
    let count = |count| i64::try_from(count).unwrap_or(i64::MAX);
    Some(Standing {
        limit: count(limit),
        remaining: count(meter.remaining(now)),
        reset: Duration::from_nanos(meter.full_at(now).saturating_sub(now)),
    })
}

/// Limit, used and requested, of what a call was refused for.
pub(super) fn numbers(account: &Account, kind: Refusal, demand: Demand, now: Nanos) -> (u64, u64, u64) {
    let quantity = match kind {
        Refusal::InputTokens => Quantity::Input,
        Refusal::OutputTokens => Quantity::Output,
        Refusal::TotalTokens => Quantity::Total,
        Refusal::TooLarge => {
            // The one that it is too large for.
            let limits = account.tokens.iter();
            let over = limits.map(|limit| (limit.law.at_once(), limit.needed(demand)));
            let over = over.filter(|(most, needed)| needed > most).min();
            return over.map_or((0, 0, 1), |(most, needed)| (most, 0, needed));
        }
        Refusal::Requests | Refusal::Concurrency | Refusal::Quota | Refusal::Growth => Quantity::Requests,
    };
    let needed = account.tokens.iter().filter(|limit| match limit.of {
        Tokens::Input => quantity == Quantity::Input,
        Tokens::Output => quantity == Quantity::Output,
        Tokens::Total => quantity == Quantity::Total,
    });
    let requested = needed.map(|limit| limit.needed(demand)).max().unwrap_or(1);
    match tightest(account, quantity, now) {
        Some((law, meter)) => {
            let limit = law.per_minute().max(law.at_once());
            (limit, limit.saturating_sub(meter.remaining(now)), requested)
        }
        None => (0, 0, requested),
    }
}
