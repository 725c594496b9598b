//! How a provider's table is written: names, numbers and phrases, each with its meaning. Knows no provider; which meaning
//! comes before which is told in the module above.

use super::facts::Facts;
use super::window::Named;
use crate::classify::{Cause, Scope};

/// What a sign says of the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Region, ban, access or policy: whatever else the answer says, it will be refused again.
    Refusal(Cause),
    /// The server's own shortage, cold start or trouble: it passes, however long the wait that is stated.
    Capacity(Cause, Scope),
    /// The request is larger than what is ever let through.
    Oversize,
    /// Money, credit or an allowance is used up.
    Spent(Cause),
    /// The same, unless the answer names a short window or wait: words that some use for both.
    PerhapsSpent(Cause),
    /// A limit on the rate, whose window tells the rest.
    Throttle(Scope),
    /// Something that passes.
    Transient(Cause),
    /// Something wrong with the request.
    Wrong(Cause),
}

/// Signs with one meaning.
pub(super) type Entry<T> = (Meaning, &'static [T]);

/// What is known of one provider, or of a kind of them. Everything is asked of every answer, whoever sent it: gateways relay
/// the bodies of others.
pub(super) struct Family {
    /// Values of `type`, `code`, `status`, `reason` and the like, and of headers that name an error. Case, `_`, `-` and
    /// blanks do not count; `*` stands for the rest of a name.
    pub(super) names: &'static [Entry<&'static str>],
    /// Parts of sentences, see [`says`](super::prose::says).
    pub(super) phrases: &'static [Entry<&'static str>],
    /// Numbers with a meaning of this provider's alone, where [`number`](Self::number) finds them.
    pub(super) numbers: &'static [Entry<u64>],
    /// Where this provider writes its numbers.
    pub(super) number: fn(&Facts<'_>) -> Option<u64>,
    /// What takes more than a table.
    pub(super) also: fn(&Facts<'_>) -> Option<Meaning>,
    /// A window that only this provider names in its own way.
    pub(super) window: fn(&Facts<'_>) -> Named,
}

/// A family that knows nothing, to be filled in.
pub(super) const NOTHING: Family = Family {
    names: &[],
    phrases: &[],
    numbers: &[],
    number: |_| None,
    also: |_| None,
    window: |_| Named {
        short: false,
        long: None,
    },
};

impl Family {
    /// What this family reads in an answer.
    pub(super) fn read(&self, facts: &Facts<'_>) -> Vec<Meaning> {
        let names = self
            .names
            .iter()
            .filter(|(_, names)| names.iter().any(|name| facts.is_named(name)));
        let phrases = self
            .phrases
            .iter()
            .filter(|(_, phrases)| phrases.iter().any(|phrase| facts.says(phrase)));
        let number = (self.number)(facts);
        let numbers = self
            .numbers
            .iter()
            .filter(|(_, numbers)| number.is_some_and(|number| numbers.contains(&number)));
        let found = names
            .map(|entry| entry.0)
            .chain(phrases.map(|entry| entry.0))
            .chain(numbers.map(|entry| entry.0));
        found.chain((self.also)(facts)).collect()
    }
}
