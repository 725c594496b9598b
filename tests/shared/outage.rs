//! An outage that several processes meet together: it is met once, probed by one of them at a time, and over for all at once.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest_ai_retry::{BreakerStatus, RetryMiddleware};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use testbed::{Server, reply};

use super::*;

/// Set where this program is a worker: the store's URL, the provider's, and the number of its prompts.
const WORKER: &str = "AI_RETRY_OUTAGE_WORKER";
/// How long the provider fails, from its first request.
const OUTAGE: Duration = Duration::from_secs(5);
/// A failure takes so long, and so two probes at once can be seen.
const FAILURE: Duration = ms(60);
const TASKS: usize = 20;
const PROMPTS: usize = 400;

/// A provider that fails at first.
async fn provider() -> Server {
    let mut end = None;
    Server::respond(move |_| {
        let end = *end.get_or_insert_with(|| Instant::now() + OUTAGE);
        match Instant::now() < end {
            true => reply(529)
                .json(r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#)
                .after(u64::try_from(FAILURE.as_millis()).unwrap()),
            false => reply(200).json("{}").after(100),
        }
    })
    .await
}

fn client(account: Account) -> ClientWithMiddleware {
    let retry = RetryMiddleware::builder().account(account).build();
    ClientBuilder::new(RetryMiddleware::client_builder().no_proxy().build().unwrap())
        .with(retry)
        .build()
}

/// So many prompts by so many tasks; how many were answered.
async fn work(account: Account, url: String, tasks: usize, prompts: usize) -> usize {
    let (client, left, answered) = (
        client(account),
        Arc::new(AtomicUsize::new(prompts)),
        Arc::new(AtomicUsize::new(0)),
    );
    let workers: Vec<_> = (0..tasks)
        .map(|_| {
            let (client, left, answered, url) = (client.clone(), Arc::clone(&left), Arc::clone(&answered), url.clone());
            tokio::spawn(async move {
                let take = |left: usize| left.checked_sub(1);
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                    let body = r#"{"model":"m","messages":[]}"#;
                    let answer = client.post(&url).body(body).send().await;
                    let is_answered = answer.is_ok_and(|answer| answer.status() == 200);
                    answered.fetch_add(usize::from(is_answered), Ordering::Relaxed);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    answered.load(Ordering::Relaxed)
}

/// What the provider has seen.
#[derive(Debug)]
struct Seen {
    failed: usize,
    /// The failures once the breaker is known to be open everywhere.
    probes: usize,
    /// The least time between two of them.
    gap: Duration,
    /// From the end of the outage to the first answer, to the fortieth, and to the last.
    recovery: [Duration; 3],
}

fn seen(provider: &Server) -> Seen {
    const OPEN: Duration = ms(2_500);
    let arrivals = provider.arrivals();
    let first = arrivals[0];
    let offsets: Vec<Duration> = arrivals.iter().map(|at| *at - first).collect();
    let (failed, answered): (Vec<Duration>, Vec<Duration>) = offsets.iter().partition(|at| **at < OUTAGE);
    let probes: Vec<_> = failed.iter().filter(|at| **at >= OPEN).collect();
    let gap = probes.windows(2).map(|pair| *pair[1] - *pair[0]).min();
    let after = |number: usize| answered[number] - OUTAGE;
    Seen {
        failed: failed.len(),
        probes: probes.len(),
        gap: gap.unwrap_or(OUTAGE),
        recovery: [after(0), after(39), after(answered.len() - 1)],
    }
}

async fn alone() -> Seen {
    let provider = provider().await;
    let account = Account::builder().build().unwrap();
    let answered = work(account, provider.url("/v1/chat/completions"), TASKS, PROMPTS).await;
    assert_eq!(answered, PROMPTS);
    seen(&provider)
}

fn compare(what: &str, alone: &Seen, four: &Seen) {
    println!("{what}\n  one process:    {alone:?}\n  four processes: {four:?}");
    // the same evidence, told to and fro, takes a few sends more
    assert!(four.failed <= alone.failed + alone.failed / 2 + 4, "{alone:?} {four:?}");
    assert!(four.probes <= alone.probes + 2, "{alone:?} {four:?}");
    // one at a time: none is sent before the one before it has failed and the interval is over
    assert!(four.gap >= FAILURE + ms(400), "{four:?}");
    assert!(four.recovery[0] <= ms(2_500), "{four:?}");
    assert!(four.recovery[1] <= four.recovery[0] + ms(1_500), "{four:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_met_once_and_not_by_each_process() {
    for limit in [None, Some(60_000)] {
        let server = RedisServer::start();
        let provider = provider().await;
        let build = |account: AccountBuilder| match limit {
            Some(limit) => account.requests_per_minute(limit),
            None => account,
        };
        let mut works = Vec::new();
        for _ in 0..4 {
            let account = member(&server, build).await;
            let url = provider.url("/v1/chat/completions");
            works.push(tokio::spawn(work(account, url, TASKS / 4, PROMPTS / 4)));
        }
        let alone = alone().await;
        for work in works {
            assert_eq!(work.await.unwrap(), PROMPTS / 4, "nothing is lost");
        }
        compare(&format!("limit {limit:?}"), &alone, &seen(&provider));
    }
}

/// A worker: as a test of its own it does nothing.
#[tokio::test]
async fn worker() {
    let Ok(orders) = std::env::var(WORKER) else { return };
    let [store, provider, prompts] = orders.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let store = RedisStore::connect(store).await.unwrap();
    let account = Account::builder().redis(store).build().unwrap();
    let answered = work(account, provider.to_owned(), TASKS / 4, prompts.parse().unwrap()).await;
    eprintln!("answered {answered}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_meet_an_outage_once() {
    let server = RedisServer::start();
    let provider = provider().await;
    let orders = format!(
        "{} {} {}",
        server.url(),
        provider.url("/v1/chat/completions"),
        PROMPTS / 4
    );
    let children: Vec<_> = (0..4)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["outage::worker", "--exact", "--nocapture"])
                .env(WORKER, &orders)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let alone = alone().await;
    let answered = tokio::task::spawn_blocking(move || {
        let mut answered = 0;
        for mut child in children {
            for line in BufReader::new(child.stderr.take().unwrap())
                .lines()
                .map_while(Result::ok)
            {
                if let Some(number) = line.strip_prefix("answered ") {
                    answered += number.parse::<usize>().unwrap();
                }
            }
            child.wait().unwrap();
        }
        answered
    });
    assert_eq!(answered.await.unwrap(), PROMPTS, "nothing is lost");
    compare("real processes", &alone, &seen(&provider));
}

/// Fails until the breaker is open; a probe is waited for four times as long as a failure takes.
async fn fail(account: &Account) {
    for _ in 0..8 {
        let mut permit = admit(account).await;
        tokio::time::sleep(ms(250)).await;
        report(&mut permit, 500, &[], "{}");
        if lane(account).breaker == BreakerStatus::Open {
            return;
        }
    }
    panic!("it does not open");
}

/// The process of the probe dies, and another probes a moment later.
#[test]
fn a_probe_whose_process_dies_is_replaced() {
    let server = RedisServer::start();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let (dying, living) = (runtime(), runtime());
    let one = dying.block_on(member(&server, |account| account));
    dying.block_on(fail(&one));
    let probe = dying.block_on(admit(&one));
    // nothing of it is heard any more
    drop(dying);
    let begun = Instant::now();
    let other = living.block_on(member(&server, |account| account));
    living.block_on(async {
        // a process that has just begun knows of nothing: its first call tells it
        drop(admit(&other).await);
        until("it is held", || lane(&other).breaker != BreakerStatus::Closed).await;
        let mut replaced = admit(&other).await;
        assert!(begun.elapsed() >= ms(500), "one probe at a time: {:?}", begun.elapsed());
        assert!(begun.elapsed() < ms(4_500), "{:?}", begun.elapsed());
        report(&mut replaced, 200, &[], "{}");
    });
    std::mem::forget(probe);
}

/// Calls in a process that is not lent the probe wait where they are, for as long as they would, and start when another's
/// probe gets through.
#[tokio::test]
async fn calls_without_a_probe_keep_their_place() {
    let server = RedisServer::start();
    let members = [
        member(&server, |account| account).await,
        member(&server, |account| account).await,
    ];
    drop(admit(&members[1]).await);
    fail(&members[0]).await;
    until("the other knows", || lane(&members[1]).breaker != BreakerStatus::Closed).await;
    // the first has the probe, and is slow but not silent
    let mut probe = admit(&members[0]).await;
    let account = members[1].clone();
    let waits = tokio::spawn(async move { admit(&account).await });
    tokio::time::sleep(ms(200)).await;
    assert!(!waits.is_finished(), "one probe at a time");
    let refused = admit_within(&members[1], ms(50)).await;
    assert_eq!(reason(refused), Some(StopReason::CircuitOpen));
    report(&mut probe, 200, &[], "{}");
    let begun = Instant::now();
    drop(waits.await.unwrap());
    assert!(begun.elapsed() < ms(500), "{:?}", begun.elapsed());
}

/// Scripts that the server has run.
fn scripts(connection: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(connection).unwrap();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next())
        .map_or(0, |calls| calls.parse().unwrap())
}

/// A process that has nothing to send asks no more often for an outage.
#[tokio::test]
async fn an_idle_process_asks_no_more_often_in_an_outage() {
    let server = RedisServer::start();
    let account = member(&server, |account| account).await;
    fail(&account).await;
    tokio::time::sleep(ms(2_100)).await;
    let mut raw = raw(&server);
    let before = scripts(&mut raw);
    tokio::time::sleep(ms(2_000)).await;
    let asked = scripts(&mut raw) - before;
    assert!(asked <= 5, "{asked} in two seconds");
}

/// Two processes meet half of the failures each, neither of them enough.
async fn fail_by_halves(members: &[Account; 2], meanwhile: Option<&Account>) {
    for _ in 0..9 {
        for account in members {
            report(&mut admit(account).await, 500, &[], "{}");
        }
        if let Some(account) = meanwhile {
            report(&mut admit(account).await, 200, &[], "{}");
        }
        tokio::time::sleep(ms(40)).await;
    }
}

#[tokio::test]
async fn failures_of_two_processes_are_counted_together() {
    let server = RedisServer::start();
    let members = [
        member(&server, |account| account).await,
        member(&server, |account| account).await,
    ];
    fail_by_halves(&members, None).await;
    until("both are open", || {
        members
            .iter()
            .all(|account| lane(account).breaker != BreakerStatus::Closed)
    })
    .await;
}

#[tokio::test]
async fn a_success_anywhere_ends_the_count() {
    let server = RedisServer::start();
    let members = [
        member(&server, |account| account).await,
        member(&server, |account| account).await,
    ];
    let third = member(&server, |account| account).await;
    fail_by_halves(&members, Some(&third)).await;
    let end = Instant::now() + ms(1_000);
    while Instant::now() < end {
        report(&mut admit(&third).await, 200, &[], "{}");
        assert!(
            members
                .iter()
                .all(|account| lane(account).breaker == BreakerStatus::Closed)
        );
        tokio::time::sleep(ms(20)).await;
    }
}
