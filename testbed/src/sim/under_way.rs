//! The calls under way know what they have produced so far. They do not know what is charged for it.

use std::collections::BTreeMap;

use super::meter::Nanos;

/// The calls that have been admitted and have not ended, in the order of their admission.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay {
    calls: BTreeMap<u64, Producing>,
    next: u64,
}

/// One of them. Its tokens appear evenly between its times.
#[derive(Clone, Copy, Debug)]
struct Producing {
    from: Nanos,
    to: Nanos,
    max: u64,
    output: u64,
    produced: u64,
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// When it was admitted.
    pub(crate) from: Nanos,
    /// What it was allowed to produce.
    pub(crate) max: u64,
    /// What it has produced.
    pub(crate) produced: u64,
    /// What of that is new since the last look.
    pub(crate) latest: u64,
    /// Whether it produced all that it had to.
    pub(crate) whole: bool,
}

impl UnderWay {
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn begin(&mut self, from: Nanos, to: Nanos, max: u64, output: u64) -> u64 {
        let id = self.next;
        self.next += 1;
        let call = Producing {
            from,
            to,
            max,
            output,
            produced: 0,
        };
        self.calls.insert(id, call);
        id
    }

    /// The tokens of all calls that have appeared since the last look.
    pub(crate) fn produce(&mut self, now: Nanos) -> u64 {
        self.calls.values_mut().map(|call| call.produce(now)).sum()
    }

    pub(crate) fn end(&mut self, id: u64, now: Nanos) -> Option<Ended> {
        let mut call = self.calls.remove(&id)?;
        let latest = call.produce(now);
        Some(Ended {
            from: call.from,
            max: call.max,
            produced: call.produced,
            latest,
            whole: now >= call.to,
        })
    }
}

impl Producing {
    fn produce(&mut self, now: Nanos) -> u64 {
        let before = self.produced;
        self.produced = if now >= self.to {
            self.output
        } else {
            let part = u128::from(self.output) * u128::from(now.saturating_sub(self.from));
            u64::try_from(part / u128::from(self.to - self.from)).unwrap_or(self.output)
        };
        self.produced - before
    }
}
