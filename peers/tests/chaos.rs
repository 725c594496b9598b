//! Chaos over sockets: 2,000 calls in real time from four threads, against a server that fails in every way that a test can
//! make it. What is demanded holds on any machine: that every call ends, how often each was sent, and that nothing is left
//! behind. The order of events is the machine's; `CHAOS_SEED=7` draws other failures, limits and cancellations.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Response;
use reqwest_ai_retry::{Account, Backoff, Jitter, Outcome, RetryMiddleware, RetryPolicy};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error};
use testbed::{Reply, Request, Server, fin, hang, reply, rst, sse};
use tokio::time::{sleep, timeout};

const CALLS: u32 = 2_000;
/// The calls begin within this time.
const LENGTH: u32 = 3_000;
/// Much longer than any of it takes, and much shorter than for ever.
const LIMIT: Duration = Duration::from_secs(180);
const MOST_IN_FLIGHT: u32 = 24;
const CALL: &str = "x-call";

/// What one call does.
#[derive(Debug, Clone)]
struct Plan {
    client: usize,
    model: u32,
    begins: Duration,
    fate: Fate,
    reads: Reads,
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Polled,
    Dropped(Duration),
    /// Not polled after some time, for some time, and then polled again or dropped.
    Kept(Duration, Duration, bool),
}

#[derive(Debug, Clone, Copy)]
enum Reads {
    All,
    Nothing,
    /// A piece; the rest is dropped after this time.
    Some(Duration),
}

/// How a call ended, for its caller.
#[derive(Debug)]
enum Ended {
    /// Each of its sends, and whether a status came back.
    Told(Vec<bool>),
    /// An error of the connection carries no outcome.
    Broken,
    Dropped,
}

fn millis(draw: &mut StdRng, least: u32, most: u32) -> Duration {
    Duration::from_millis(draw.random_range(least..=most).into())
}

impl Plan {
    fn draw(draw: &mut StdRng, clients: usize) -> Self {
        let fate = match draw.random_range(0..10) {
            0 => Fate::Dropped(millis(draw, 0, 600)),
            1 => Fate::Kept(millis(draw, 0, 300), millis(draw, 1, 1_500), draw.random()),
            _ => Fate::Polled,
        };
        let reads = match draw.random_range(0..8) {
            0 => Reads::Nothing,
            1 => Reads::Some(millis(draw, 0, 500)),
            _ => Reads::All,
        };
        Self {
            client: draw.random_range(0..clients),
            model: draw.random_range(0..3),
            begins: millis(draw, 0, LENGTH),
            fate,
            reads,
        }
    }

    async fn run(self, number: u32, url: String, client: ClientWithMiddleware) -> Ended {
        sleep(self.begins).await;
        let body = format!(
            r#"{{"model":"m{}","messages":[{{"role":"user","content":"Call {number}."}}]}}"#,
            self.model
        );
        let mut call = Box::pin(client.post(url).header(CALL, number).body(body).send());
        let ended = match self.fate {
            Fate::Polled => Some(call.await),
            Fate::Dropped(after) => timeout(after, call).await.ok(),
            Fate::Kept(after, length, dropped) => match timeout(after, &mut call).await {
                Ok(ended) => Some(ended),
                Err(_) => {
                    sleep(length).await;
                    if dropped { None } else { Some(call.await) }
                }
            },
        };
        let told = |outcome: &Outcome| {
            outcome
                .attempts()
                .iter()
                .map(|attempt| attempt.status().is_some())
                .collect()
        };
        match ended {
            None => Ended::Dropped,
            Some(Ok(response)) => {
                let ended = Ended::Told(Outcome::of(&response).map_or_else(|| vec![true], told));
                self.reads.of(response).await;
                ended
            }
            Some(Err(error)) => match (Outcome::of_error(&error), &error) {
                (Some(outcome), _) => Ended::Told(told(outcome)),
                (None, Error::Reqwest(_)) => Ended::Broken,
                (None, Error::Middleware(_)) => panic!("an error of no kind: {error:?}"),
            },
        }
    }
}

impl Reads {
    async fn of(self, mut response: Response) {
        // a body may stall for ever, which is its reader's to bound
        let patience = Duration::from_secs(2);
        match self {
            Self::Nothing => {}
            Self::All => drop(timeout(patience, response.bytes()).await),
            Self::Some(length) => {
                drop(timeout(patience, response.chunk()).await);
                sleep(length).await;
            }
        }
    }
}

/// What the server does with a request: each kind of failure, now and then an outage.
fn answers(mut draw: StdRng, well: Arc<AtomicBool>) -> impl FnMut(&Request) -> Reply + Send {
    let outages = [(300..340, 529), (900..960, 503), (1_400..1_420, 429)];
    let usage = r#"{"usage":{"prompt_tokens":9,"completion_tokens":7}}"#;
    move |request| {
        let ok = reply(200).json(usage);
        if well.load(Ordering::Relaxed) {
            return ok;
        }
        if let Some((_, status)) = outages.iter().find(|(range, _)| range.contains(&request.number())) {
            return reply(*status);
        }
        match draw.random_range(0..100) {
            0..4 => reply(500),
            4..7 => reply(503).after(20),
            7..10 => reply(529).json(r#"{"error":{"message":"Overloaded"}}"#),
            10..12 => reply(429),
            12..14 => reply(429).ms(draw.random_range(1..200)),
            14 => reply(400).json(r#"{"error":{"message":"No."}}"#),
            15..18 => rst(),
            18..21 => fin(),
            21..23 => hang(),
            23..25 => reply(200).json(usage).cut(20),
            25 => reply(200).chunks(["{", "}"]).stalled(),
            26..28 => reply(500).size(2_000).cut(500),
            28 => reply(500).size(2_000).stalled(),
            29 => reply(200).cut_head(10),
            30 => sse(["x"]).broken(),
            31..34 => reply(200).chunks(["{", "\"id\":1", "}"]).every(20),
            34..50 => ok.after(draw.random_range(1..200)),
            _ => ok,
        }
    }
}

/// A policy, and how often it sends a call at most.
fn policy(draw: &mut StdRng) -> (RetryPolicy, u32) {
    let (wait, attempts) = (Duration::from_millis(10), draw.random_range(1..=6));
    let policy = RetryPolicy::default()
        .max_attempts(attempts)
        .max_retry_time(Duration::from_secs(20))
        .attempt_timeout(Duration::from_millis(800))
        .backoff(Backoff::constant(wait).min(wait).jitter(Jitter::Full))
        .fail_fast(draw.random_range(0..4) == 0);
    let policy = if draw.random() {
        policy.total_deadline(millis(draw, 500, 10_000))
    } else {
        policy
    };
    (policy, attempts)
}

fn client(account: &Account, policy: RetryPolicy) -> ClientWithMiddleware {
    let retry = RetryMiddleware::builder().account(account.clone()).policy(policy);
    let client = RetryMiddleware::client_builder().no_proxy().build().expect("a client");
    ClientBuilder::new(client).with(retry.build()).build()
}

/// How often the server was sent each call.
fn sends(server: &Server) -> HashMap<u32, usize> {
    let mut sends = HashMap::new();
    for request in server.requests() {
        let call = request.header(CALL).and_then(|call| call.parse().ok());
        *sends
            .entry(call.expect("each send says of which call it is"))
            .or_default() += 1;
    }
    sends
}

fn is_idle(account: &Account) -> bool {
    let status = account.status();
    status.in_flight == 0 && status.lanes.iter().all(|lane| lane.in_flight == 0 && lane.waiting == 0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_in_the_chaos() {
    let seed = std::env::var("CHAOS_SEED").map_or(1, |seed| seed.parse().expect("CHAOS_SEED is a number"));
    let mut draw = StdRng::seed_from_u64(seed);
    let well = Arc::new(AtomicBool::new(false));
    let server = Server::respond(answers(StdRng::seed_from_u64(draw.random()), Arc::clone(&well))).await;
    let limited = Account::builder()
        .requests_per_minute(120_000)
        .max_concurrency(MOST_IN_FLIGHT)
        .output_tokens_per_minute(10_000_000);
    let accounts = [Account::default(), limited.build().expect("limits above zero")];
    // each account is shared by three clients, of different policies
    let policies: Vec<_> = (0..6).map(|_| policy(&mut draw)).collect();
    let clients: Vec<_> = policies
        .iter()
        .enumerate()
        .map(|(number, (policy, _))| client(&accounts[number % accounts.len()], policy.clone()))
        .collect();

    let watched = accounts[1].clone();
    let watch = tokio::spawn(async move {
        loop {
            let in_flight = watched.status().in_flight;
            assert!(in_flight <= MOST_IN_FLIGHT, "{in_flight} in flight");
            sleep(Duration::from_millis(5)).await;
        }
    });
    let url = server.url("/v1/chat/completions");
    let mut found: Vec<String> = Vec::new();
    let calls: Vec<_> = (0..CALLS)
        .map(|number| {
            let plan = Plan::draw(&mut draw, clients.len());
            let run = plan.clone().run(number, url.clone(), clients[plan.client].clone());
            (number, plan, tokio::spawn(run))
        })
        .collect();
    let mut ended = Vec::new();
    let end = tokio::time::Instant::now() + LIMIT;
    for (number, plan, task) in calls {
        match tokio::time::timeout_at(end, task).await {
            Ok(Ok(one)) => ended.push((number, plan, one)),
            Ok(Err(panicked)) => found.push(format!("call {number}: {panicked}")),
            Err(_) => found.push(format!("call {number} has not ended: {plan:?}")),
        }
    }
    assert!(!watch.is_finished(), "{:?}", watch.await);
    watch.abort();

    let sent = sends(&server);
    for (number, plan, ended) in &ended {
        let sends = sent.get(number).copied().unwrap_or_default();
        let mut check = |holds: bool, what: &dyn Debug| {
            if !holds {
                found.push(format!("call {number}: {sends} sends, {what:?}: {ended:?}, {plan:?}"));
            }
        };
        check(sends <= policies[plan.client].1 as usize, &"more than its attempts");
        if let Ended::Told(attempts) = ended {
            let answered = attempts.iter().filter(|answered| **answered).count();
            check(sends <= attempts.len(), &"more than it was told");
            check(sends >= answered, &"fewer than were answered");
        }
    }
    // a connection that the client has closed is noticed by its task, and its permit with it
    for account in &accounts {
        let idle = async {
            while !is_idle(account) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(Duration::from_secs(30), idle).await.is_err() {
            found.push(format!("left behind: {:?}", account.status()));
        }
    }
    assert!(found.is_empty(), "seed {seed}, {} violations: {found:#?}", found.len());

    // and it works as ever
    well.store(true, Ordering::Relaxed);
    for account in &accounts {
        let client = client(account, RetryPolicy::default());
        let plan = Plan {
            client: 0,
            model: 1,
            begins: Duration::ZERO,
            fate: Fate::Polled,
            reads: Reads::All,
        };
        let call = plan.run(CALLS, url.clone(), client);
        let ended = timeout(LIMIT, call).await;
        assert!(
            matches!(&ended, Ok(Ended::Told(attempts)) if attempts[..] == [true]),
            "seed {seed}: {ended:?}"
        );
    }
}
