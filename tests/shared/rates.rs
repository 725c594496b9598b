//! What is configured is spent by all together, in each dimension.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest_ai_retry::{Limits, StoreStatus};

use super::*;

/// Starts `number` times in all, from as many tasks of each account; gives how many each made, and how long it took from the
/// first to the last.
async fn spend(accounts: &[Account], tasks: usize, number: usize) -> (Vec<usize>, Duration) {
    let (left, times) = (Arc::new(AtomicUsize::new(number)), Arc::default());
    let mut workers = Vec::new();
    for (at, account) in accounts.iter().enumerate() {
        for _ in 0..tasks {
            let (account, left, times) = (account.clone(), Arc::clone(&left), Arc::clone(&times));
            workers.push(tokio::spawn(async move {
                let take = |left: usize| left.checked_sub(1);
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                    drop(admit(&account).await);
                    let times: &std::sync::Mutex<Vec<(usize, Instant)>> = &times;
                    times.lock().unwrap().push((at, Instant::now()));
                }
            }));
        }
    }
    for worker in workers {
        worker.await.unwrap();
    }
    let times = times.lock().unwrap();
    let moments = || times.iter().map(|(_, at)| *at);
    let each = (0..accounts.len()).map(|member| times.iter().filter(|(by, _)| *by == member).count());
    (each.collect(), moments().max().unwrap() - moments().min().unwrap())
}

/// However busy the machine is, they are not faster than the one rate.
#[tokio::test]
async fn three_that_share_a_rate_start_no_faster_than_one() {
    let server = RedisServer::start();
    let mut members = Vec::new();
    for _ in 0..3 {
        members.push(member(&server, |account| account.requests_per_minute(6_000)).await);
    }
    let (each, took) = spend(&members, 10, 60).await;
    // the last may be as much too early as the first was late
    assert!(took >= ms(590 - 35), "{took:?}");
    assert!(each.iter().all(|made| *made >= 10), "{each:?}");
    assert_eq!(members[0].status().store, shared(&members[0]));
    until("all are known", || {
        matches!(members[0].status().store, StoreStatus::Shared { processes: 3, .. })
    })
    .await;
}

fn shared(account: &Account) -> StoreStatus {
    let store = account.status().store;
    assert!(matches!(store, StoreStatus::Shared { .. }), "{store:?}");
    store
}

/// At a few starts a second each process is lent one at a time, and they take turns.
#[tokio::test]
async fn at_a_slow_rate_they_take_turns() {
    let server = RedisServer::start();
    let mut members = Vec::new();
    for _ in 0..4 {
        members.push(member(&server, |account| account.requests_per_minute(600)).await);
    }
    let (each, took) = spend(&members, 4, 24).await;
    assert!(took >= ms(2_300 - 125), "{took:?}");
    assert!(each.iter().all(|made| *made >= 4), "{each:?}");
}

/// Other lanes spend of the account's rate too, and a model's of its own besides.
#[tokio::test]
async fn a_models_own_limit_is_shared_and_leaves_other_models_alone() {
    let server = RedisServer::start();
    let slow = Limits::new().requests_per_minute(600);
    let build = |account: AccountBuilder| account.requests_per_minute(60_000).model_limits("big", slow);
    let members = [member(&server, build).await, member(&server, build).await];
    let big = Cost::new().model("big");
    let begun = Instant::now();
    for at in 0..5 {
        drop(members[at % 2].admit(big.clone(), None).await.unwrap());
    }
    assert!(begun.elapsed() >= ms(400 - 125), "{:?}", begun.elapsed());
    // ten of another model in the time of one of the big one: the rate of that is a hundred times as high
    let (_, took) = spend(&members, 1, 10).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn tokens_are_spent_of_one_allowance() {
    let server = RedisServer::start();
    // 100 a second, and a thousand at once
    let build = |account: AccountBuilder| account.input_tokens_per_minute(6_000);
    let members = [member(&server, build).await, member(&server, build).await];
    let cost = |tokens| Cost::new().input_tokens(tokens);
    let begun = Instant::now();
    for (at, tokens) in [(0, 500), (1, 400), (0, 150)] {
        drop(members[at].admit(cost(tokens), None).await.unwrap());
    }
    let took = begun.elapsed();
    assert!(took >= ms(480), "fifty more than were there: {took:?}");
    // what an answer did not take is there for the other
    let permit = members[0].admit(cost(100), None).await.unwrap();
    permit.settle(reqwest_ai_retry::Usage {
        input_tokens: Some(10),
        output_tokens: None,
    });
    drop(members[0].admit(cost(90), None).await.unwrap());
}

/// One that is heavier than all that was lent asks for more, and is not overtaken for ever.
#[tokio::test]
async fn a_heavy_start_among_light_ones_gets_its_tokens() {
    let server = RedisServer::start();
    let build = |account: AccountBuilder| account.requests_per_minute(6_000).input_tokens_per_minute(60_000);
    let member = member(&server, build).await;
    let light = |_| {
        let account = member.clone();
        tokio::spawn(async move {
            for _ in 0..5 {
                drop(account.admit(Cost::new().input_tokens(10), None).await.unwrap());
            }
        })
    };
    let lights: Vec<_> = (0..4).map(light).collect();
    let heavy = member.admit(Cost::new().input_tokens(8_000), None);
    drop(
        tokio::time::timeout(Duration::from_secs(15), heavy)
            .await
            .unwrap()
            .unwrap(),
    );
    for light in lights {
        light.await.unwrap();
    }
}

#[tokio::test]
async fn a_days_allowance_is_counted_by_all() {
    let server = RedisServer::start();
    let build = |account: AccountBuilder| account.requests_per_day(5);
    let members = [member(&server, build).await, member(&server, build).await];
    for at in 0..5 {
        drop(admit(&members[at % 2]).await);
    }
    for account in &members {
        let refused = admit_within(account, ms(100)).await;
        assert_eq!(reason(refused), Some(StopReason::QueuePastDeadline));
    }
}

/// What is not configured and not learnt is not asked for, and costs no round trip.
#[tokio::test]
async fn without_a_limit_nobody_waits_for_the_store() {
    let server = RedisServer::start();
    let member = member(&server, |account| account).await;
    server.freeze();
    drop(admit_within(&member, ms(50)).await.unwrap());
    server.thaw();
}

#[tokio::test]
async fn a_wait_that_cannot_fit_is_refused_at_once() {
    let server = RedisServer::start();
    let member = member(&server, |account| account.requests_per_minute(60)).await;
    drop(admit(&member).await);
    let (account, begun) = (member.clone(), Instant::now());
    let waits = tokio::spawn(async move { drop(admit(&account).await) });
    until("one waits", || lane(&member).waiting == 1).await;
    let refused = admit_within(&member, ms(900)).await;
    assert_eq!(reason(refused), Some(StopReason::QueuePastDeadline));
    assert!(
        !waits.is_finished() || begun.elapsed() > ms(900),
        "it did not wait for the others"
    );
    waits.await.unwrap();
}

/// A start that was lent and whose caller left is there for the next.
#[tokio::test]
async fn callers_that_leave_lose_nothing_for_the_others() {
    let server = RedisServer::start();
    let member = member(&server, |account| account.requests_per_minute(120)).await;
    drop(admit(&member).await);
    for _ in 0..20 {
        let gone = tokio::time::timeout(ms(10), member.admit(Cost::new(), None)).await;
        drop(gone);
    }
    let begun = Instant::now();
    drop(admit(&member).await);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

/// The task that asks the store ends with its runtime, and begins anew in the next.
#[test]
fn another_runtime_takes_over() {
    let server = RedisServer::start();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let first = runtime();
    let account = first.block_on(member(&server, |account| account.requests_per_minute(12_000)));
    first.block_on(async { drop(admit(&account).await) });
    drop(first);
    runtime().block_on(async { drop(admit(&account).await) });
    assert_eq!(account.status().store, shared(&account));
}

/// The task that asks the store holds no account, and ends with it.
#[tokio::test]
async fn with_the_account_goes_its_connection() {
    let server = RedisServer::start();
    let mut raw = raw(&server);
    let mut clients = move || {
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut raw).unwrap();
        list.lines().count()
    };
    let member = member(&server, |account| account.requests_per_minute(60_000)).await;
    drop(admit(&member).await);
    until("it is connected", || clients() == 2).await;
    drop(member);
    until("it is gone", || clients() == 1).await;
}
