//! A world: accounts with limits, clients that share them, callers and the weather, and what must hold in the end. Knows
//! how it is drawn, not how a response looks.

use std::fmt::Debug;
use std::time::Duration;

use reqwest_ai_retry::{
    Account, Backoff, CircuitBreaker, Event, GiveUp, Jitter, Limits, RetryBudget, RetryMiddleware, RetryPolicy,
};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::time::{Instant, sleep, timeout};

use crate::caller::{Caller, Fate, Seen};
use crate::draw::Draw;
use crate::ledger::{LaneId, Shared};
use crate::server::{KINDS, Kind, Server, Weather};

const HOUR: Duration = Duration::from_secs(60 * 60);
const MODELS: usize = 3;
/// A timer of tokio is up to a millisecond late.
const LATE: Duration = Duration::from_millis(2);
/// The most that is added to a stated delay at random, which may overrun the time for retries.
const SPREAD: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct World {
    draw: Draw,
    accounts: Vec<AccountPlan>,
    clients: Vec<ClientPlan>,
    callers: Vec<Caller>,
    weather: Weather,
}

#[derive(Debug, Clone, Default)]
struct AccountPlan {
    kind: AccountKind,
    per_minute: Option<u32>,
    per_day: Option<u64>,
    input_tokens: Option<u32>,
    output_tokens: Option<u32>,
    concurrency: Option<u32>,
    ramp: Option<Duration>,
    /// Limits of the first model.
    model: Option<(Option<u32>, Option<u32>)>,
    breaker: Breaker,
    budget_off: bool,
    learning_off: bool,
    quota_hold: Option<Duration>,
    max_pause: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum AccountKind {
    Default,
    Adaptive,
    #[default]
    Built,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Breaker {
    #[default]
    Usual,
    Off,
    Touchy,
}

#[derive(Debug, Clone)]
struct ClientPlan {
    account: usize,
    max_attempts: u32,
    max_retry_time: Duration,
    max_queue_time: Option<Duration>,
    attempt_timeout: Option<Duration>,
    total_deadline: Option<Duration>,
    fail_fast: bool,
    errors: bool,
    inspects: bool,
    steady: bool,
}

impl World {
    pub(crate) fn new(mut draw: Draw, calls: usize) -> Self {
        let accounts: Vec<_> = (0..draw.number(1, 3)).map(|_| AccountPlan::draw(&mut draw)).collect();
        let mut clients: Vec<_> = (0..accounts.len() * 2)
            .map(|client| ClientPlan::draw(&mut draw, client % accounts.len()))
            .collect();
        let length = draw.number(5_000, 120_000);
        let mut weather = Weather::draw(&mut draw, length);
        // what is cut by a timeout tells only some callers that nothing gets through: without it the probes can be counted
        if draw.chance(0.4) {
            clients.iter_mut().for_each(|client| client.attempt_timeout = None);
            weather.replace(Kind::Hang, Kind::Status(500));
        }
        let kept = draw.pick(&[0.0, 0.1, 0.5]);
        let bursts = draw.chance(0.3);
        let hosts = draw.number(1, 2) as usize;
        let callers = (0..calls).map(|_| {
            let client = draw.index(clients.len());
            let account = clients[client].account;
            let credential = draw.index(2);
            let lane = LaneId {
                account,
                host: draw.index(hosts),
                model: draw.index(MODELS),
                credential: Some(credential).filter(|_| accounts[account].kind == AccountKind::Default),
            };
            let begins = draw.millis(0, length);
            // in waves, or as they come
            let begins = if bursts {
                Duration::from_secs(begins.as_secs() / 10 * 10)
            } else {
                begins
            };
            Caller::draw(&mut draw, lane, client, credential, begins).kept(kept, &mut draw)
        });
        let callers = callers.collect();
        Self {
            accounts,
            clients,
            callers,
            weather,
            draw,
        }
    }

    /// What must hold and does not.
    pub(crate) async fn run(mut self, for_ever: Duration) -> Vec<String> {
        let again = self.again();
        let lanes = self.callers.iter().chain(&again).map(|caller| caller.lane);
        let shared = Shared::new(lanes);
        let server = Server::new(shared.clone(), self.draw.split(), self.weather.clone());
        let accounts: Vec<Account> = self.accounts.iter().map(AccountPlan::build).collect();
        let clients: Vec<ClientWithMiddleware> = self
            .clients
            .iter()
            .map(|client| {
                let retry = client.retry(&accounts[client.account], self.draw.seed(), &shared);
                stack(retry, &server)
            })
            .collect();
        let run = |(number, caller): (usize, &Caller)| {
            let (client, account) = (clients[caller.client].clone(), accounts[caller.lane.account].clone());
            tokio::spawn(caller.clone().run(number, shared.clone(), client, account))
        };
        let tasks: Vec<_> = self.callers.iter().enumerate().map(run).collect();
        let watch = tokio::spawn(watch(self.accounts.clone(), accounts.clone(), shared.clone()));
        let mut found = Vec::new();
        let mut seen = Vec::new();
        let end = Instant::now() + for_ever;
        for (call, mut task) in tasks.into_iter().enumerate() {
            match tokio::time::timeout_at(end, &mut task).await {
                Ok(Ok(one)) => seen.push(one),
                Ok(Err(panicked)) => found.push(format!("call {call}: {panicked}")),
                Err(_) => {
                    found.push(format!("call {call} has not ended: {:?}", self.callers[call]));
                    task.abort();
                    let _ = task.await;
                    seen.push(Seen {
                        dropped: true,
                        ..Seen::default()
                    });
                }
            }
        }
        watch.abort();
        if std::env::var_os("CHAOS_SHOW").is_some() {
            let ledger = shared.lock();
            eprintln!("after {:?}: {:?}", ledger.now(), ledger.events);
        }
        for (call, one) in seen.iter().enumerate() {
            found.extend(self.misses(call, one, &shared));
        }
        found.extend(self.limits_exceeded(&shared));
        found.extend(left_behind(&accounts, &shared));
        server.recover();
        let daily = self.accounts.iter().any(|account| account.per_day.is_some());
        sleep(if daily { 25 * HOUR } else { HOUR }).await;
        found.extend(self.works_like_new(&again, &accounts, &server, &shared).await);
        found.extend(left_behind(&accounts, &shared));
        let mut ledger = shared.lock();
        found.append(&mut ledger.violations);
        found
    }

    /// The calls that are made when all is over: a few to each account.
    fn again(&self) -> Vec<Caller> {
        let account = |account: usize| {
            let credential = Some(0).filter(|_| self.accounts[account].kind == AccountKind::Default);
            (0..6).map(move |call| LaneId {
                account,
                host: 0,
                model: call % MODELS,
                credential,
            })
        };
        let lanes = (0..self.accounts.len()).flat_map(account);
        let caller = |lane: LaneId| Caller {
            fate: Fate::Polled,
            reads: crate::caller::Reads::All,
            timeout: None,
            by_hand: false,
            ..Caller::draw(&mut Draw::new(0), lane, 0, 0, Duration::ZERO)
        };
        lanes.map(caller).collect()
    }

    async fn works_like_new(
        &self,
        again: &[Caller],
        accounts: &[Account],
        server: &Server,
        shared: &Shared,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let first = self.callers.len();
        for (account, plan) in self.accounts.iter().enumerate() {
            let observer = shared.clone();
            let retry = RetryMiddleware::builder()
                .account(accounts[account].clone())
                .observer(move |event: &Event<'_>| observer.event(event))
                .build();
            let client = stack(retry, server);
            let begun = Instant::now();
            let mine = again
                .iter()
                .zip(first..)
                .filter(|(caller, _)| caller.lane.account == account);
            for (caller, call) in mine {
                let asked = caller
                    .clone()
                    .run(call, shared.clone(), client.clone(), accounts[account].clone());
                let seen = timeout(HOUR, asked).await;
                if !matches!(&seen, Ok(seen) if seen.sends == Some(1)) || shared.lock().calls[call].sends.len() != 1 {
                    found.push(format!("an hour later, call {call} to account {account}: {seen:?}"));
                }
            }
            let slowest = plan
                .per_minute
                .into_iter()
                .chain(plan.model.and_then(|(per_minute, _)| per_minute))
                .min();
            // a rate that was learnt from refusals at random may be low, and is soon contradicted
            let due = Duration::from_secs_f64(6.0 * 60.0 / f64::from(slowest.unwrap_or(60_000)) + 60.0);
            if begun.elapsed() > due {
                found.push(format!(
                    "an hour later, account {account} takes {:?} for six calls: {:?}",
                    begun.elapsed(),
                    accounts[account].status()
                ));
            }
        }
        found
    }

    /// What of a single call is not as it must be.
    fn misses(&self, call: usize, seen: &Seen, shared: &Shared) -> Vec<String> {
        let (caller, log) = (&self.callers[call], shared.lock().calls[call].clone());
        let client = &self.clients[caller.client];
        let mut found = Vec::new();
        let mut check = |holds: bool, what: &dyn Debug| {
            if !holds {
                found.push(format!(
                    "call {call}: {what:?}; {seen:?}, {log:?}, {caller:?}, {client:?}"
                ));
            }
        };
        let sends = log.sends.len();
        check(
            sends <= client.max_attempts.max(1) as usize,
            &"more sends than attempts",
        );
        check(log.started as usize == sends, &"events tell another count of sends");
        if caller.by_hand {
            return found;
        }
        if !seen.dropped {
            // an error of the connection has no place for an outcome
            let told = seen.sends.map_or(seen.broken, |told| told as usize == sends);
            check(told, &"the outcome tells another count");
            check(log.finished as usize == sends, &"attempts that have not finished");
        }
        let patient = matches!(caller.fate, Fate::Polled) && !seen.dropped;
        if let (true, Some(deadline)) = (patient, client.total_deadline) {
            check(seen.took <= deadline + LATE, &"past its deadline");
        }
        if let (true, [first, .., last]) = (patient, &*log.sends) {
            check(
                *last <= *first + client.max_retry_time + SPREAD + LATE,
                &"retried too late",
            );
        }
        if let (true, Some(longest), Some(first)) = (patient, client.max_queue_time, log.sends.first()) {
            check(
                *first <= caller.begins + longest + LATE,
                &"waited too long for its first send",
            );
        }
        found
    }

    fn limits_exceeded(&self, shared: &Shared) -> Vec<String> {
        let ledger = shared.lock();
        let mut found = Vec::new();
        for (account, plan) in self.accounts.iter().enumerate() {
            let of_model = plan.model.unwrap_or_default();
            let limits = [
                (None, plan.per_minute, plan.concurrency),
                (Some(0), of_model.0, of_model.1),
            ];
            for (model, per_minute, concurrency) in limits {
                let key = (account, model);
                let most = ledger.most_in_flight.get(&key).copied().unwrap_or_default();
                if concurrency.is_some_and(|limit| most > limit) {
                    found.push(format!("{most} in flight of {key:?}, of {concurrency:?}"));
                }
                let starts = ledger.starts.get(&key).map(Vec::as_slice).unwrap_or_default();
                if let Some(per_minute) = per_minute {
                    found.extend(beyond_pace(starts, per_minute).map(|beyond| format!("{key:?}: {beyond}")));
                }
                if let (None, Some(per_day)) = (model, plan.per_day) {
                    let today = starts.iter().filter(|start| **start - starts[0] < 24 * HOUR).count();
                    if today as u64 > per_day {
                        found.push(format!("{today} starts of {per_day} in a day"));
                    }
                }
            }
        }
        found
    }
}

/// Compares, now and then, what accounts say of themselves with what the server sees.
async fn watch(plans: Vec<AccountPlan>, accounts: Vec<Account>, shared: Shared) {
    // what waits for another day has nothing new to show
    for _ in 0..1_500 {
        sleep(Duration::from_millis(211)).await;
        for (account, plan) in plans.iter().enumerate() {
            let status = accounts[account].status();
            let mut ledger = shared.lock();
            let served = ledger.in_flight_of(account);
            let of_lanes: u32 = status.lanes.iter().map(|lane| lane.in_flight).sum();
            let limit = plan.concurrency.unwrap_or(u32::MAX);
            let is_counted = plan.concurrency.is_none() || served <= status.in_flight;
            if of_lanes != status.in_flight || status.in_flight > limit || !is_counted {
                let now = ledger.now();
                let found = format!("at {now:?} {served} in flight by the server, of {limit}, and {status:?}");
                ledger.violations.push(found);
            }
        }
    }
}

/// More starts in some time than the pace allows in it, and one and a half beside.
fn beyond_pace(starts: &[Duration], per_minute: u32) -> Option<String> {
    let per_second = f64::from(per_minute) / 60.0;
    let mut earliest = f64::INFINITY;
    starts.iter().enumerate().find_map(|(index, start)| {
        let ahead = index as f64 - start.as_secs_f64() * per_second;
        earliest = earliest.min(ahead);
        let beyond = ahead - earliest;
        (beyond > 1.5 + 0.003 * per_second).then(|| format!("{beyond:.2} starts beyond the pace at {start:?}"))
    })
}

fn left_behind(accounts: &[Account], shared: &Shared) -> Vec<String> {
    let mut found = Vec::new();
    for (account, status) in accounts.iter().map(Account::status).enumerate() {
        let lanes = status.lanes.iter().any(|lane| lane.in_flight > 0 || lane.waiting > 0);
        if status.in_flight > 0 || lanes {
            found.push(format!("left behind in account {account}: {status:?}"));
        }
    }
    let in_flight = shared.lock().in_flight();
    if in_flight > 0 {
        found.push(format!("{in_flight} bodies left behind"));
    }
    found
}

fn stack(retry: RetryMiddleware, server: &Server) -> ClientWithMiddleware {
    let client = RetryMiddleware::client_builder().build().expect("a client");
    ClientBuilder::new(client).with(retry).with(server.clone()).build()
}

impl Weather {
    fn replace(&mut self, kind: Kind, by: Kind) {
        let outages = self.outages.iter_mut().map(|(.., kind)| kind);
        for found in self.kinds.iter_mut().chain(outages).filter(|found| **found == kind) {
            *found = by;
        }
    }

    fn draw(draw: &mut Draw, length: u32) -> Self {
        let kinds: Vec<_> = (0..draw.number(1, 6)).map(|_| draw.pick(&KINDS)).collect();
        let outages = (0..draw.number(0, 3)).map(|_| {
            let from = draw.millis(0, length);
            let to = from + draw.millis(500, 30_000);
            let model = draw.sometimes(0.4, |draw| draw.index(MODELS));
            (from, to, model, draw.pick(&KINDS))
        });
        let outages = outages.collect();
        Self {
            failing: draw.pick(&[0.0, 0.05, 0.2, 0.4, 0.7]),
            kinds,
            outages,
            failure_takes: draw.pick(&[1, 30, 300, 3_000]),
            success_takes: draw.pick(&[2, 300, 2_000, 8_000]),
        }
    }
}

impl AccountPlan {
    fn draw(draw: &mut Draw) -> Self {
        let kind = draw.pick(&[
            AccountKind::Default,
            AccountKind::Adaptive,
            AccountKind::Built,
            AccountKind::Built,
            AccountKind::Built,
        ]);
        if kind != AccountKind::Built {
            return Self {
                kind,
                ..Self::default()
            };
        }
        Self {
            kind,
            per_minute: draw.sometimes(0.5, |draw| draw.pick(&[60, 240, 600, 3_000])),
            per_day: draw.sometimes(0.1, |draw| draw.number(60, 200).into()),
            input_tokens: draw.sometimes(0.2, |draw| draw.pick(&[6_000, 60_000])),
            output_tokens: draw.sometimes(0.2, |draw| draw.pick(&[20_000, 200_000])),
            concurrency: draw.sometimes(0.5, |draw| draw.pick(&[1, 2, 5, 20])),
            ramp: draw.sometimes(0.1, |draw| draw.millis(1_000, 30_000)),
            model: draw.sometimes(0.2, |draw| {
                let per_minute = draw.sometimes(0.5, |draw| draw.pick(&[30, 300]));
                (per_minute, draw.sometimes(0.7, |draw| draw.pick(&[1, 3])))
            }),
            breaker: draw.pick(&[Breaker::Usual, Breaker::Usual, Breaker::Touchy, Breaker::Off]),
            budget_off: draw.chance(0.2),
            learning_off: draw.chance(0.2),
            quota_hold: draw.sometimes(0.5, |draw| draw.millis(0, 10_000)),
            max_pause: draw.sometimes(0.2, |draw| draw.millis(1_000, 10_000)),
        }
    }

    fn build(&self) -> Account {
        match self.kind {
            AccountKind::Default => return Account::default(),
            AccountKind::Adaptive => return Account::adaptive(),
            AccountKind::Built => {}
        }
        let mut builder = Account::builder().learning(!self.learning_off);
        if let Some(requests) = self.per_minute {
            builder = builder.requests_per_minute(requests);
        }
        if let Some(requests) = self.per_day {
            builder = builder.requests_per_day(requests);
        }
        if let Some(tokens) = self.input_tokens {
            builder = builder.input_tokens_per_minute(tokens);
        }
        if let Some(tokens) = self.output_tokens {
            builder = builder.output_tokens_per_minute(tokens);
        }
        if let Some(requests) = self.concurrency {
            builder = builder.max_concurrency(requests);
        }
        if let Some(length) = self.ramp {
            builder = builder.start_ramp(length);
        }
        if let Some((per_minute, concurrency)) = self.model {
            let mut limits = Limits::new();
            if let Some(requests) = per_minute {
                limits = limits.requests_per_minute(requests);
            }
            if let Some(requests) = concurrency {
                limits = limits.max_concurrency(requests);
            }
            builder = builder.model_limits("m0", limits);
        }
        if let Some(hold) = self.quota_hold {
            builder = builder.quota_hold(hold);
        }
        if let Some(longest) = self.max_pause {
            builder = builder.max_pause(longest);
        }
        if self.budget_off {
            builder = builder.retry_budget(RetryBudget::off());
        }
        builder = match self.breaker {
            Breaker::Usual => builder,
            Breaker::Off => builder.circuit_breaker(CircuitBreaker::off()),
            Breaker::Touchy => {
                let touchy = CircuitBreaker::new().min_calls(1).min_failures(2);
                builder.circuit_breaker(touchy.min_duration(Duration::ZERO))
            }
        };
        builder.build().expect("limits above zero")
    }
}

impl ClientPlan {
    fn draw(draw: &mut Draw, account: usize) -> Self {
        Self {
            account,
            max_attempts: draw.number(1, 6),
            max_retry_time: draw.pick(&[5_000, 30_000, 120_000].map(Duration::from_millis)),
            max_queue_time: draw.sometimes(0.2, |draw| draw.millis(500, 20_000)),
            attempt_timeout: draw.sometimes(0.5, |draw| draw.millis(300, 5_000)),
            total_deadline: draw.sometimes(0.3, |draw| draw.millis(500, 30_000)),
            fail_fast: draw.chance(0.2),
            errors: draw.chance(0.2),
            inspects: draw.chance(0.2),
            steady: draw.chance(0.3),
        }
    }

    fn retry(&self, account: &Account, seed: u64, shared: &Shared) -> RetryMiddleware {
        let mut policy = RetryPolicy::default()
            .max_attempts(self.max_attempts)
            .max_retry_time(self.max_retry_time)
            .fail_fast(self.fail_fast);
        if let Some(time) = self.max_queue_time {
            policy = policy.max_queue_time(time);
        }
        if let Some(time) = self.attempt_timeout {
            policy = policy.attempt_timeout(time);
        }
        if let Some(time) = self.total_deadline {
            policy = policy.total_deadline(time);
        }
        if self.errors {
            policy = policy.give_up(GiveUp::Error);
        }
        if self.inspects {
            policy = policy.inspect_success(64);
        }
        if self.steady {
            policy = policy.backoff(Backoff::constant(Duration::from_millis(100)).jitter(Jitter::None));
        }
        let observer = shared.clone();
        RetryMiddleware::builder()
            .policy(policy)
            .account(account.clone())
            .seed(seed)
            .observer(move |event: &Event<'_>| observer.event(event))
            .build()
    }
}
