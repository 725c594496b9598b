//! A token limit knows what a call is charged when, in tokens of one kind. It does not know the call's other limits.

use super::law::Law;
use super::meter::{Meter, Nanos};

/// Which tokens a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// Of the prompt. Charged in full on arrival, whatever the rule.
    Input,
    /// Of the answer.
    Output,
    /// Both together.
    Total,
}

/// When the tokens of the answer are charged, which nobody knows on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// As they are produced. A call is admitted while anything is left, so the limit can be driven into debt.
    /// A hint looks at the debt of that moment, and not at what the calls under way will add to it.
    OnProduce,
    /// `max_tokens` on arrival, whatever is produced.
    UpfrontFinal,
    /// `max_tokens` on arrival; what was not produced is given back at the end. A hint does not foresee that.
    UpfrontSettled,
}

/// The limit of one kind of token, at work.
#[derive(Clone, Debug)]
pub(crate) struct TokenLimit {
    pub(crate) of: Tokens,
    pub(crate) law: Law,
    pub(crate) meter: Meter,
    charge: Charge,
}

/// What a call says of itself, with `max_tokens` filled in where it says nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) input: u64,
    pub(crate) max: u64,
}

impl TokenLimit {
    pub(crate) fn new(of: Tokens, law: Law, charge: Charge, phase: Nanos) -> TokenLimit {
        TokenLimit {
            of,
            law,
            meter: Meter::new(law, phase),
            charge,
        }
    }

    /// What is charged on arrival.
    fn upfront(&self, demand: Demand) -> u64 {
        let max = if self.on_produce() { 0 } else { demand.max };
        match self.of {
            Tokens::Input => demand.input,
            Tokens::Output => max,
            Tokens::Total => demand.input.saturating_add(max),
        }
    }

    /// What must be left on arrival.
    pub(crate) fn needed(&self, demand: Demand) -> u64 {
        let least = u64::from(self.on_produce() && self.of != Tokens::Input);
        self.upfront(demand).max(least)
    }

    pub(crate) fn admit(&mut self, now: Nanos, demand: Demand) {
        self.meter.take(now, self.upfront(demand));
    }

    pub(crate) fn on_produce(&self) -> bool {
        self.charge == Charge::OnProduce
    }

    /// Charges what the calls under way have produced since the last time.
    pub(crate) fn produce(&mut self, now: Nanos, tokens: u64) {
        if self.on_produce() && self.of != Tokens::Input {
            self.meter.drain(now, tokens);
        }
    }

    /// Gives back, at the end of a call admitted at `taken`, what it did not produce.
    pub(crate) fn settle(&mut self, now: Nanos, taken: Nanos, max: u64, produced: u64) {
        if self.charge == Charge::UpfrontSettled && self.of != Tokens::Input {
            self.meter.give_back(now, taken, max.saturating_sub(produced));
        }
    }
}
