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

impl Meaning {
    /// Is this about limits in general? In the answer to a malformed request such words are about its parameters: "too many
    /// requests in this batch".
    fn is_of_limits(self) -> bool {
        matches!(self, Self::Throttle(_) | Self::PerhapsSpent(_))
    }
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
            .filter(|(meaning, _)| !(facts.may_echo() && meaning.is_of_limits()))
            .filter(|(_, phrases)| facts.says_any(phrases));
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

/// All that the families read in an answer, in their order.
pub(super) struct Signs {
    meanings: Vec<Meaning>,
    /// The windows that families know by other signs than words.
    pub(super) windows: Named,
}

impl Signs {
    pub(super) fn of(families: &[&Family], facts: &Facts<'_>) -> Self {
        Self {
            meanings: families.iter().flat_map(|family| family.read(facts)).collect(),
            windows: families
                .iter()
                .map(|family| (family.window)(facts))
                .fold(Named::default(), Named::merged),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Meaning> {
        self.meanings.iter().copied()
    }

    /// What is made of the first sign of which something is made.
    pub(super) fn find<T>(&self, of: impl Fn(Meaning) -> Option<T>) -> Option<T> {
        self.all().find_map(of)
    }

    pub(super) fn has(&self, meaning: Meaning) -> bool {
        self.meanings.contains(&meaning)
    }

    pub(super) fn tell_of_capacity(&self) -> bool {
        self.all().any(|meaning| matches!(meaning, Meaning::Capacity(..)))
    }

    /// The dimension that a throttle names, the first that is more than unknown.
    pub(super) fn throttle(&self) -> Option<Scope> {
        let scopes = self.all().filter_map(|meaning| match meaning {
            Meaning::Throttle(scope) => Some(scope),
            _ => None,
        });
        scopes.reduce(|found, scope| if found == Scope::Unknown { scope } else { found })
    }
}
