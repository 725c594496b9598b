//! An account knows all limits of one key together and the calls under way. It does not know what answers look like.

use std::collections::VecDeque;

use super::background::Background;
use super::growth::Growth;
use super::law::Law;
use super::meter::{Meter, NEVER, Nanos, nanos};
use super::model::Model;
use super::reply::Refusal;
use super::tokens::{Demand, TokenLimit, Tokens};
use super::under_way::{Ended, UnderWay};
use super::window::Window;

const DAY: Nanos = 24 * 60 * 60 * 1_000_000_000;

/// The limits of one key and what they have seen.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) requests: Vec<(Law, Meter)>,
    changes: VecDeque<(Nanos, Law)>,
    pub(crate) tokens: Vec<TokenLimit>,
    day: Option<Window>,
    growth: Option<Growth>,
    concurrency: Option<usize>,
    background: Option<Background>,
    counts_refusals: bool,
    /// Whether any limit is charged as tokens appear.
    on_produce: bool,
    phase: Nanos,
    calls: UnderWay,
    now: Nanos,
}

/// Why a call is refused, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) kind: Refusal,
    /// [`NEVER`] where no time is known.
    pub(crate) until: Nanos,
}

impl Account {
    pub(crate) fn new(model: &Model, phase: Nanos) -> Account {
        let tokens = model.tokens.iter();
        let tokens: Vec<_> = tokens
            .map(|(of, law, charge)| TokenLimit::new(*of, *law, *charge, phase))
            .collect();
        Account {
            requests: model
                .requests
                .iter()
                .map(|law| (*law, Meter::new(*law, phase)))
                .collect(),
            changes: model.changes.iter().map(|(at, law)| (nanos(*at), *law)).collect(),
            on_produce: tokens.iter().any(TokenLimit::on_produce),
            tokens,
            day: model.daily.map(|amount| Window::new(amount, DAY, phase)),
            growth: model
                .growth
                .map(|(floor, percent, per)| Growth::new(floor, percent, nanos(per))),
            concurrency: model.concurrency,
            background: model.background.map(|(calls, per)| Background::new(calls, nanos(per))),
            counts_refusals: model.counts_refusals,
            phase,
            calls: UnderWay::default(),
            now: 0,
        }
    }

    /// Lets everything happen that happens by itself up to `now`.
    pub(crate) fn advance(&mut self, now: Nanos) {
        while let Some(&(at, law)) = self.changes.front().filter(|(at, _)| *at <= now) {
            self.changes.pop_front();
            self.let_time_pass(at);
            self.requests = vec![(law, Meter::starting_at(at, law, self.phase))];
        }
        self.let_time_pass(now);
    }

    /// When the limits of requests change next.
    pub(crate) fn changes_at(&self) -> Nanos {
        self.changes.front().map_or(NEVER, |(at, _)| *at)
    }

    fn let_time_pass(&mut self, now: Nanos) {
        while let Some(background) = &self.background {
            let at = self.requests_ready_at(background.next().max(self.now));
            if at > now {
                break;
            }
            self.charge_requests(at);
            self.now = at;
            if let Some(background) = &mut self.background {
                background.pass();
            }
        }
        self.now = self.now.max(now);
        if self.on_produce {
            let produced = self.calls.produce(now);
            self.charge_produced(now, produced);
        }
    }

    /// Admits a call at the time of the last [`advance`](Account::advance), against all limits or none.
    pub(crate) fn admit(&mut self, demand: Demand) -> Result<(), Refused> {
        let now = self.now;
        if self.concurrency.is_some_and(|most| self.calls.len() >= most) {
            // Before anything is charged, and with no time: it is free when some call ends.
            let kind = Refusal::Concurrency;
            return Err(Refused { kind, until: NEVER });
        }
        let refused = self.refusal(now, demand);
        if let Some(refused) = refused {
            if self.counts_refusals && refused.kind != Refusal::Quota {
                for (_, meter) in &mut self.requests {
                    meter.count_refusal(now);
                }
                // The answer states the time that holds after this call has been counted.
                return Err(self.refusal(now, demand).unwrap_or(refused));
            }
            return Err(refused);
        }
        self.charge(demand);
        Ok(())
    }

    /// Charges a call to all limits at the time of the last [`advance`](Account::advance).
    pub(crate) fn charge(&mut self, demand: Demand) {
        let now = self.now;
        self.charge_requests(now);
        for limit in &mut self.tokens {
            limit.admit(now, demand);
        }
        if let Some(day) = &mut self.day {
            day.take(now, 1);
        }
        if let Some(growth) = &mut self.growth {
            growth.take(now);
        }
    }

    /// The limit that binds longest, or the one that no waiting helps against.
    fn refusal(&self, now: Nanos, demand: Demand) -> Option<Refused> {
        let mut refused: Option<Refused> = None;
        let mut note = |kind, until| {
            if until > now && refused.is_none_or(|before| until > before.until) {
                refused = Some(Refused { kind, until });
            }
        };
        for limit in &self.tokens {
            let until = limit.meter.ready_at(now, limit.needed(demand));
            let kind = match limit.of {
                _ if until == NEVER => Refusal::TooLarge,
                Tokens::Input => Refusal::InputTokens,
                Tokens::Output => Refusal::OutputTokens,
                Tokens::Total => Refusal::TotalTokens,
            };
            note(kind, until);
        }
        if let Some(day) = &self.day {
            note(Refusal::Quota, day.ready_at(now, 1));
        }
        for (_, meter) in &self.requests {
            note(Refusal::Requests, meter.ready_at(now, 1));
        }
        if let Some(growth) = &self.growth {
            note(Refusal::Growth, growth.ready_at(now));
        }
        refused
    }

    /// Enters a call just admitted, which will have produced `output` at `to`.
    pub(crate) fn begin(&mut self, to: Nanos, max: u64, output: u64) -> u64 {
        self.calls.begin(self.now, to, max, output)
    }

    /// Ends a call at the time of the last [`advance`](Account::advance), whether it has come to its end or not.
    pub(crate) fn end(&mut self, id: u64) -> Option<Ended> {
        let ended = self.calls.end(id, self.now)?;
        self.charge_produced(self.now, ended.latest);
        for limit in &mut self.tokens {
            limit.settle(self.now, ended.from, ended.max, ended.produced);
        }
        Some(ended)
    }

    /// The first moment from `now` on at which all limits of requests let one more pass.
    pub(crate) fn requests_ready_at(&self, now: Nanos) -> Nanos {
        let mut at = now;
        loop {
            let later = self.requests.iter().map(|(_, meter)| meter.ready_at(at, 1));
            let later = later.max().unwrap_or(at);
            if later == at {
                return at;
            }
            at = later;
        }
    }

    /// The same for a call of the account's own, which the day and the growth bind as well.
    pub(crate) fn call_ready_at(&self, now: Nanos) -> Nanos {
        let mut at = now;
        loop {
            let mut later = self.requests_ready_at(at);
            later = later.max(self.day.as_ref().map_or(at, |day| day.ready_at(at, 1)));
            later = later.max(self.growth.as_ref().map_or(at, |growth| growth.ready_at(at)));
            if later == at {
                return at;
            }
            at = later;
        }
    }

    /// When somebody else's next call passes, if nothing else comes.
    pub(crate) fn background_passes_at(&self) -> Nanos {
        match &self.background {
            Some(background) => self.requests_ready_at(background.next().max(self.now)),
            None => NEVER,
        }
    }

    fn charge_requests(&mut self, now: Nanos) {
        for (_, meter) in &mut self.requests {
            meter.take(now, 1);
        }
    }

    fn charge_produced(&mut self, now: Nanos, tokens: u64) {
        for limit in &mut self.tokens {
            limit.produce(now, tokens);
        }
    }
}
