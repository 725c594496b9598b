//! A provider knows how calls are decided, one after another in the order of their arrival. It has no clock: it is told
//! the time, and does not know what waits or sends.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::account::Account;
use super::call::Call;
use super::draw::Draws;
use super::meter::{NEVER, Nanos, nanos};
use super::model::{Latency, Model, Phase};
use super::reply::{Outcome, Reply, Slot};
use super::shape::{Face, Usage};
use super::tally::Tally;
use super::tokens::Demand;

/// A simulated provider. Equal models, seeds, calls and times give equal replies.
#[derive(Debug)]
pub struct Provider {
    model: Model,
    draws: Draws,
    phase: Nanos,
    accounts: HashMap<u64, Account>,
    seed: u64,
    /// How often each prompt has arrived, where outages are.
    attempts: HashMap<u64, u32>,
    tally: Tally,
    now: Nanos,
}

impl Provider {
    /// A provider that has seen nothing yet.
    pub fn new(model: Model, seed: u64) -> Provider {
        let mut draws = Draws::new(seed);
        let phase = match model.phase {
            Phase::At(phase) => phase,
            Phase::Seeded => draws.phase(model.longest_window()),
        };
        Provider {
            model,
            draws,
            phase: nanos(phase),
            accounts: HashMap::new(),
            seed,
            attempts: HashMap::new(),
            tally: Tally::default(),
            now: 0,
        }
    }

    /// How it is set up.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What it has seen.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How long its windows had been running at the start.
    pub fn phase(&self) -> Duration {
        Duration::from_nanos(self.phase)
    }

    /// Counts a call that is being sent, and draws how long it is on its way.
    pub fn send(&mut self) -> Duration {
        self.tally.sends += 1;
        self.draws.jitter(self.model.jitter)
    }

    /// Decides a call that arrives at `now`. A time before the last one told counts as that one.
    pub fn arrive(&mut self, now: Duration, call: &Call) -> Reply {
        let now = self.tick(now);
        let at = Duration::from_nanos(now);
        let attempt = self.count_attempt(call.prompt);
        let (model, phase) = (&self.model, self.phase);
        let face = Face { model, now, phase };
        if let Some(fault) = model.fault(at, call, attempt, self.seed) {
            let reply = face.failure(fault);
            self.tally.arrived(at, reply.outcome);
            return reply;
        }
        let account = self
            .accounts
            .entry(call.key)
            .or_insert_with(|| Account::new(model, phase));
        account.advance(now);
        let max = call.max_tokens.unwrap_or(model.max_tokens);
        let demand = Demand {
            input: call.input_tokens,
            max,
        };
        if let Err(refused) = account.admit(demand) {
            self.tally.arrived(at, Outcome::Refused(refused.kind));
            return face.refusal(account, refused, demand);
        }
        let drawn = call.output_tokens.unwrap_or_else(|| self.draws.output(model.output));
        let output = drawn.min(max);
        let time = match model.latency {
            Latency::Fixed(time) => time,
            Latency::TokensPerSecond(speed) => Duration::from_secs(output) / u32::try_from(speed.max(1)).unwrap_or(1),
        };
        let id = account.begin(now.saturating_add(nanos(time)), max, output);
        self.tally.arrived(at, Outcome::Admitted);
        self.tally.input_tokens += call.input_tokens;
        let usage = Usage {
            input: call.input_tokens,
            output,
        };
        let mut reply = face.success(account, usage, time, call.stream);
        reply.slot = Some(Slot { key: call.key, id });
        reply
    }

    /// Ends an admitted call at `now`: its body has ended, or the client has given it up. What it had not produced by then
    /// is never produced.
    pub fn finish(&mut self, now: Duration, slot: Slot) {
        let now = self.tick(now);
        if let Some(account) = self.accounts.get_mut(&slot.key) {
            account.advance(now);
            if let Some(ended) = account.end(slot.id) {
                self.tally.ended(ended.whole, ended.produced);
            }
        }
    }

    /// The shortest time in which any client whatever gets `calls` calls answered that take `latency` each, from the
    /// start, by the limits of requests, of a day, of concurrency and of growth, by the outages that let nobody through and
    /// by somebody else. Limits of tokens are not in it, nor are outages of a share, of one model or of single prompts. [`Duration::MAX`] if no time is enough.
    ///
    /// It is exact: the time of a client that knows all and sends each call at the first moment at which it is admitted.
    /// For a bucket that is `(calls − burst) ÷ rate + latency`, for windows `(⌈calls ÷ amount⌉ − 1) · length + latency`
    /// if they begin with the start; if not, [`phase`](Provider::phase) comes off the first of them.
    pub fn bound(&self, calls: u64, latency: Duration) -> Duration {
        let mut account = Account::new(&self.model, self.phase);
        let latency = nanos(latency);
        let mut ends = VecDeque::new();
        let mut at = 0;
        for _ in 0..calls {
            if self.model.concurrency.is_some_and(|most| ends.len() >= most) {
                let Some(end) = ends.pop_front() else {
                    return Duration::MAX;
                };
                at = at.max(end);
            }
            at = self.first_chance(&mut account, at);
            if at == NEVER {
                return Duration::MAX;
            }
            account.advance(at);
            account.charge(Demand { input: 0, max: 0 });
            if self.model.concurrency.is_some() {
                ends.push_back(at.saturating_add(latency));
            }
        }
        Duration::from_nanos(if calls == 0 { 0 } else { at.saturating_add(latency) })
    }

    /// The first moment from `from` on at which a call is admitted, somebody else's having gone first.
    fn first_chance(&self, account: &mut Account, from: Nanos) -> Nanos {
        let mut at = from;
        // Somebody else who takes all leaves no chance; nobody waits a million calls for one.
        for _ in 0..1_000_000 {
            let ready = account.call_ready_at(at);
            let change = account.changes_at();
            if change <= ready && change < NEVER {
                account.advance(change);
                at = at.max(change);
                continue;
            }
            let background = account.background_passes_at();
            if background <= ready && background < NEVER {
                account.advance(background);
                at = at.max(background);
                continue;
            }
            let outages = self.model.outages.iter();
            let over = outages.filter(|outage| outage.is_total_at(Duration::from_nanos(ready)));
            match over.map(|outage| nanos(outage.to)).max() {
                Some(over) => at = over,
                None => return ready,
            }
        }
        NEVER
    }

    fn count_attempt(&mut self, prompt: u64) -> u32 {
        if self.model.outages.is_empty() {
            return 1;
        }
        let attempts = self.attempts.entry(prompt).or_default();
        *attempts += 1;
        *attempts
    }

    fn tick(&mut self, now: Duration) -> Nanos {
        self.now = self.now.max(nanos(now));
        self.now
    }
}
