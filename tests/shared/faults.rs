//! What becomes of calls when the store is ill. In each case none fails for it, none waits for much longer than the time that
//! the store is given, the process keeps to its part of each limit, says so, and is back by itself.

use std::sync::{Arc, Mutex};

use reqwest_ai_retry::{Event, RetryMiddleware, StoreError, StoreStatus};
use reqwest_middleware::ClientBuilder;
use testbed::Server;

use super::*;

const TIMEOUT: Duration = Duration::from_millis(100);
/// A busy machine takes longer than the store is given, but does not hang.
const BUSY: Duration = Duration::from_secs(3);

fn is_away(account: &Account) -> bool {
    matches!(account.status().store, StoreStatus::Away { .. })
}

fn is_shared(account: &Account) -> bool {
    matches!(account.status().store, StoreStatus::Shared { .. })
}

/// Starts until the account has noticed that its store is away.
async fn notice(account: &Account) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_away(account) {
        assert!(Instant::now() < end, "it is not noticed");
        let begun = Instant::now();
        drop(admit(account).await);
        assert!(begun.elapsed() < TIMEOUT + BUSY, "{:?}", begun.elapsed());
    }
}

/// Starts until the account has its store back.
async fn recover(account: &Account) {
    let end = Instant::now() + Duration::from_secs(15);
    while is_away(account) {
        assert!(Instant::now() < end, "it does not come back");
        drop(admit(account).await);
        tokio::time::sleep(ms(5)).await;
    }
    drop(admit(account).await);
    assert!(is_shared(account));
}

fn fast(account: AccountBuilder) -> AccountBuilder {
    account.requests_per_minute(12_000)
}

#[tokio::test]
async fn absent_at_the_start_it_is_refused_or_done_without() {
    let refused = testbed::Refused::new().unwrap();
    let url = format!("redis://{}/", refused.addr());
    assert_eq!(RedisStore::connect(&url).await.unwrap_err(), StoreError::Unreachable);
    let account = fast(Account::builder())
        .redis(RedisStore::lazy(&url).unwrap())
        .build()
        .unwrap();
    drop(admit_within(&account, TIMEOUT + BUSY).await.unwrap());
    assert!(is_away(&account));
}

#[tokio::test]
async fn one_that_comes_later_is_found() {
    let mut server = RedisServer::start();
    server.kill();
    let account = fast(Account::builder())
        .redis(RedisStore::lazy(server.url()).unwrap())
        .build()
        .unwrap();
    notice(&account).await;
    server.restart().unwrap();
    recover(&account).await;
}

#[tokio::test]
async fn gone_and_started_again_empty_it_is_taken_up_again() {
    let mut server = RedisServer::start();
    let members = [member(&server, fast).await, member(&server, fast).await];
    drop((admit(&members[0]).await, admit(&members[1]).await));
    let mut refused = admit(&members[0]).await;
    report(&mut refused, 429, &[("retry-after-ms", "20")], "{}");
    until("both know it", || {
        let rates = members.each_ref().map(|account| lane(account).starts_per_minute);
        rates[0] == rates[1] && rates[0].is_some_and(|rate| rate < 12_000.0)
    })
    .await;
    let learnt = lane(&members[0]).starts_per_minute;
    server.kill();
    notice(&members[0]).await;
    server.restart().unwrap();
    recover(&members[0]).await;
    // what was known is told to it again, so that whoever comes later hears of it
    let late = member(&server, fast).await;
    drop(admit(&late).await);
    assert_eq!(lane(&late).starts_per_minute, learnt);
}

/// The replica that took over had not heard of the last writes: what it holds is old, and is told anew.
#[tokio::test]
async fn failed_over_with_lost_writes_it_hears_again_what_was_lost() {
    let file = format!("failover-{}.rdb", std::process::id());
    let mut server = RedisServer::with(&["--dir", env!("CARGO_TARGET_TMPDIR"), "--dbfilename", &file]);
    let account = member(&server, fast).await;
    let mut permit = admit(&account).await;
    let () = redis::cmd("SAVE").query(&mut raw(&server)).unwrap();
    report(&mut permit, 429, &[("retry-after-ms", "20")], "{}");
    drop(permit);
    drop(admit(&account).await);
    let learnt = lane(&account).starts_per_minute;
    assert!(learnt.is_some_and(|rate| rate < 12_000.0), "{learnt:?}");
    // the same kill and start again is an empty server in the test above; this one has the state of before
    server.kill();
    notice(&account).await;
    server.restart().unwrap();
    let old: usize = redis::cmd("DBSIZE").query(&mut raw(&server)).unwrap();
    assert!(old > 0, "the state of before is there");
    recover(&account).await;
    let late = member(&server, fast).await;
    drop(admit(&late).await);
    assert_eq!(lane(&late).starts_per_minute, lane(&account).starts_per_minute);
    server.kill();
    std::fs::remove_file(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(file)).unwrap();
}

/// It takes connections and says nothing: the time that it is given is the longest that anybody waits for it.
#[tokio::test]
async fn hanging_it_is_waited_for_no_longer_than_its_time() {
    let server = RedisServer::start();
    let account = member(&server, fast).await;
    drop(admit(&account).await);
    server.freeze();
    let begun = Instant::now();
    drop(admit(&account).await);
    drop(admit(&account).await);
    assert!(begun.elapsed() < TIMEOUT + BUSY, "{:?}", begun.elapsed());
    notice(&account).await;
    server.thaw();
    recover(&account).await;
}

/// A question whose answer did not come may have been carried out: it is not asked again, and what it took stays taken.
#[tokio::test]
async fn what_was_asked_of_a_store_that_hung_counts_as_spent() {
    let server = RedisServer::start();
    let account = member(&server, |account| {
        account.requests_per_day(3).requests_per_minute(12_000)
    })
    .await;
    drop(admit(&account).await);
    let mut raw = raw(&server);
    let hash = key(&mut raw, ":account");
    server.freeze();
    drop(admit(&account).await);
    assert!(is_away(&account));
    server.thaw();
    until("it is carried out after all", || {
        let counted: u32 = redis::cmd("HGET").arg(&hash).arg("day").query(&mut raw).unwrap();
        counted >= 2
    })
    .await;
    recover_without_starting(&account).await;
    let counted: u32 = redis::cmd("HGET").arg(&hash).arg("day").query(&mut raw).unwrap();
    assert_eq!(counted, 2, "and once");
}

async fn recover_without_starting(account: &Account) {
    until("it is back", || is_shared(account)).await;
}

/// A key of ours that holds something else is nobody's to overwrite.
#[tokio::test]
async fn a_key_of_another_type_is_left_as_it_is() {
    let server = RedisServer::start();
    let mut raw = raw(&server);
    let account = "ai-retry:1:{default}:account";
    redis::cmd("SET").arg(account).arg("somebody's").exec(&mut raw).unwrap();
    let one = member(&server, fast).await;
    notice(&one).await;
    let kept: String = redis::cmd("GET").arg(account).query(&mut raw).unwrap();
    assert_eq!(kept, "somebody's");
    let left: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut raw).unwrap();
    assert_eq!(left, [account], "nothing is written before all is read");
    redis::cmd("DEL").arg(account).exec(&mut raw).unwrap();
    recover(&one).await;
}

/// Fields that hold no numbers are as good as none.
#[tokio::test]
async fn what_cannot_be_read_is_taken_for_nothing() {
    let server = RedisServer::start();
    let account = member(&server, fast).await;
    drop(admit(&account).await);
    let mut raw = raw(&server);
    for hash in [
        "ai-retry:1:{default}:account",
        "ai-retry:1:{default}:lane:0000000000000000",
    ] {
        for field in [
            "now", "next", "gap", "rate", "rv", "pause", "until", "open", "cv", "ceiling",
        ] {
            redis::cmd("HSET")
                .arg(hash)
                .arg(field)
                .arg("nonsense")
                .exec(&mut raw)
                .unwrap();
        }
    }
    for _ in 0..10 {
        drop(admit(&account).await);
    }
    assert!(is_shared(&account));
}

#[tokio::test]
async fn out_of_memory_it_is_done_without() {
    let server = RedisServer::start();
    let account = member(&server, fast).await;
    drop(admit(&account).await);
    let mut raw = raw(&server);
    let mut limit = |bytes: &str| {
        redis::cmd("CONFIG")
            .arg("SET")
            .arg("maxmemory")
            .arg(bytes)
            .exec(&mut raw)
            .unwrap()
    };
    limit("1");
    notice(&account).await;
    limit("0");
    recover(&account).await;
}

/// What was evicted is begun anew; nobody notices more than a few starts.
#[tokio::test]
async fn evicted_keys_are_made_anew() {
    let server = RedisServer::start();
    let account = member(&server, fast).await;
    let mut raw = raw(&server);
    for _ in 0..10 {
        drop(admit(&account).await);
        redis::cmd("FLUSHALL").exec(&mut raw).unwrap();
    }
    assert!(is_shared(&account));
}

#[tokio::test]
async fn a_forgotten_script_is_loaded_again() {
    let server = RedisServer::start();
    let account = member(&server, fast).await;
    let mut raw = raw(&server);
    for _ in 0..5 {
        drop(admit(&account).await);
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut raw).unwrap();
    }
    assert!(is_shared(&account));
}

/// Wherever it came from: nobody waits a year.
#[tokio::test]
async fn a_start_in_the_far_future_is_not_waited_for() {
    let server = RedisServer::start();
    let account = member(&server, fast).await;
    drop(admit(&account).await);
    let mut raw = raw(&server);
    let far = (now_micros() + 365 * 86_400_000_000).to_string();
    for hash in [
        "ai-retry:1:{default}:account",
        "ai-retry:1:{default}:lane:0000000000000000",
    ] {
        for field in ["next", "in", "out", "pause", "until"] {
            redis::cmd("HSET")
                .arg(hash)
                .arg(field)
                .arg(&far)
                .exec(&mut raw)
                .unwrap();
        }
    }
    let begun = Instant::now();
    for _ in 0..10 {
        drop(admit(&account).await);
    }
    assert!(begun.elapsed() < BUSY, "{:?}", begun.elapsed());
}

fn now_micros() -> u128 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_micros()
}

/// The server's clock is put back, or forward, by an hour: as seen by the server, all that it keeps is an hour too late, or too
/// early.
#[tokio::test]
async fn a_clock_that_is_put_back_or_forward_stops_nobody() {
    let server = RedisServer::start();
    let build = |account: AccountBuilder| fast(account).max_concurrency(2).input_tokens_per_minute(6_000_000);
    let members = [member(&server, build).await, member(&server, build).await];
    let mut raw = raw(&server);
    for hours in [1i128, -1] {
        let held = admit(&members[0]).await;
        drop(admit(&members[1]).await);
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut raw).unwrap();
        let moved = |at: f64| at + hours as f64 * 3.6e9;
        for key in keys {
            let kind: String = redis::cmd("TYPE").arg(&key).query(&mut raw).unwrap();
            if kind == "zset" {
                let members: Vec<(String, f64)> = redis::cmd("ZRANGE")
                    .arg(&key)
                    .arg(0)
                    .arg(-1)
                    .arg("WITHSCORES")
                    .query(&mut raw)
                    .unwrap();
                for (member, score) in members {
                    redis::cmd("ZADD")
                        .arg(&key)
                        .arg(moved(score))
                        .arg(member)
                        .exec(&mut raw)
                        .unwrap();
                }
            } else {
                for field in ["now", "next", "in", "out"] {
                    let at: Option<f64> = redis::cmd("HGET").arg(&key).arg(field).query(&mut raw).unwrap();
                    if let Some(at) = at {
                        redis::cmd("HSET")
                            .arg(&key)
                            .arg(field)
                            .arg(moved(at))
                            .exec(&mut raw)
                            .unwrap();
                    }
                }
            }
        }
        let begun = Instant::now();
        for at in 0..10 {
            drop(admit(&members[at % 2]).await);
        }
        assert!(begun.elapsed() < BUSY, "{hours}: {:?}", begun.elapsed());
        assert!(members.iter().all(is_shared));
        drop(held);
    }
}

/// While one version of a program replaces another both run: each loads its own script, and they keep to one rate.
#[tokio::test]
async fn two_versions_of_the_script_keep_to_one_rate() {
    let server = RedisServer::start();
    let mut connection = raw(&server);
    let account = member(&server, |account| account.requests_per_minute(1_200)).await;
    let begun = Instant::now();
    drop(admit(&account).await);
    let other = format!("-- of another version\n{}", include_str!("../../src/account/lease.lua"));
    let script = redis::Script::new(&other);
    let tag = "ai-retry:1:{default}:";
    let lane = "lane:0000000000000000";
    let mut ask = || -> String {
        let mut call = script.prepare_invoke();
        for name in [
            "live",
            "waiting:0000000000000000",
            "waiting-until:0000000000000000",
            "account",
            "account:flight",
        ] {
            call.key(format!("{tag}{name}"));
        }
        call.key(format!("{tag}{lane}")).key(format!("{tag}{lane}:flight"));
        // the other process wants five starts, and knows nothing
        let fixed = "other 1000000 5 0 0 0 0 0 0 0  0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 50000 0 0 0 0 0 0 0 0 0 0 0 0 0";
        fixed.split(' ').for_each(|arg| {
            call.arg(arg);
        });
        call.invoke(&mut connection).unwrap()
    };
    let lent = ask();
    assert_eq!(lent.split(' ').next_back().unwrap().split(',').count(), 5, "{lent}");
    for _ in 0..4 {
        drop(admit(&account).await);
    }
    // five of the other's come before them
    assert!(begun.elapsed() >= ms(9 * 50 - 75), "{:?}", begun.elapsed());
    assert!(is_shared(&account));
}

/// Alone, each process starts at four fifths of its part of the rate.
#[tokio::test]
async fn while_it_is_away_each_keeps_to_its_part() {
    let mut server = RedisServer::start();
    let build = |account: AccountBuilder| account.requests_per_minute(6_000).max_concurrency(4);
    let store = RedisStore::connect(server.url()).await.unwrap().processes(4);
    let account = build(Account::builder()).redis(store).build().unwrap();
    drop(admit(&account).await);
    server.kill();
    notice(&account).await;
    // 100 a second, of which a fifth is ours: 50 ms between two
    let begun = Instant::now();
    for _ in 0..9 {
        drop(admit(&account).await);
    }
    assert!(begun.elapsed() >= ms(8 * 50 - 25), "{:?}", begun.elapsed());
    assert_eq!(account.status().store, away(&account, 4));
    // and of four in flight one
    let held = admit(&account).await;
    let refused = admit_within(&account, ms(150)).await;
    assert_eq!(reason(refused), Some(StopReason::QueuePastDeadline));
    drop(held);
}

fn away(account: &Account, expected: u32) -> StoreStatus {
    match account.status().store {
        status @ StoreStatus::Away { processes, .. } if processes == expected => status,
        status => panic!("{status:?}"),
    }
}

/// The last number of processes that was seen is the one that counts.
#[tokio::test]
async fn those_that_were_seen_are_reckoned_with() {
    let mut server = RedisServer::start();
    let mut members = Vec::new();
    for _ in 0..3 {
        let one = member(&server, fast).await;
        drop(admit(&one).await);
        members.push(one);
    }
    drop(admit(&members[0]).await);
    until("all are known", || {
        matches!(members[0].status().store, StoreStatus::Shared { processes: 3, .. })
    })
    .await;
    server.kill();
    notice(&members[0]).await;
    away(&members[0], 3);
}

/// It is told by an event with the next answer, once for each change, and by an error in the log, once.
#[tokio::test]
async fn it_is_told_once_that_it_is_away_and_once_that_it_is_back() {
    let mut server = RedisServer::start();
    let provider = Server::start([200]).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let account = member(&server, fast).await;
    let seen = Arc::clone(&told);
    let retry = RetryMiddleware::builder()
        .account(account.clone())
        .observer(move |event: &Event<'_>| match event {
            Event::StoreLost { .. } => seen.lock().unwrap().push("lost"),
            Event::StoreFound { .. } => seen.lock().unwrap().push("found"),
            _ => {}
        })
        .build();
    let client = ClientBuilder::new(RetryMiddleware::client_builder().build().unwrap())
        .with(retry)
        .build();
    let send = || async {
        let answer = client.get(provider.url("/v1/models")).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    };
    send().await;
    server.kill();
    notice(&account).await;
    for _ in 0..3 {
        send().await;
    }
    assert_eq!(*told.lock().unwrap(), ["lost"]);
    server.restart().unwrap();
    recover(&account).await;
    for _ in 0..3 {
        send().await;
    }
    assert_eq!(*told.lock().unwrap(), ["lost", "found"]);
}
