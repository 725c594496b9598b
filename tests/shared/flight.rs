//! What is in flight is counted by who is, not by a number that goes up and down.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test]
async fn no_more_are_in_flight_than_allowed_wherever_they_are() {
    let server = RedisServer::start();
    let build = |account: AccountBuilder| account.max_concurrency(3);
    let mut members = Vec::new();
    for _ in 0..3 {
        members.push(member(&server, build).await);
    }
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..12)
        .map(|at| {
            let (account, now, most) = (members[at % 3].clone(), Arc::clone(&now), Arc::clone(&most));
            tokio::spawn(async move {
                for _ in 0..5 {
                    let permit = admit(&account).await;
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(ms(10)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
    let mut raw = raw(&server);
    let places = "ai-retry:1:{default}:account:flight";
    until("none is left behind", || {
        let left: u32 = redis::cmd("ZCARD").arg(places).query(&mut raw).unwrap_or_default();
        left == 0
    })
    .await;
}

/// A place that is given back goes to one that has none, though its last holder would like it again.
#[tokio::test]
async fn a_process_that_holds_all_does_not_keep_the_others_out() {
    let server = RedisServer::start();
    let build = |account: AccountBuilder| account.max_concurrency(1);
    let (greedy, other) = (member(&server, build).await, member(&server, build).await);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let account = greedy.clone();
            tokio::spawn(async move {
                loop {
                    let permit = admit(&account).await;
                    tokio::time::sleep(ms(5)).await;
                    drop(permit);
                }
            })
        })
        .collect();
    tokio::time::sleep(ms(50)).await;
    for _ in 0..5 {
        drop(admit_within(&other, Duration::from_secs(5)).await.unwrap());
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Places are held for ten seconds and renewed while their holder lives: one that died does not hold its own for ever.
#[tokio::test]
async fn a_dead_process_gives_its_places_back_and_a_living_one_does_not() {
    let server = RedisServer::start();
    let build = |account: AccountBuilder| account.max_concurrency(1);
    let holder = member(&server, build).await;
    let held = admit(&holder).await;
    let mut raw = raw(&server);
    let places = key(&mut raw, ":account:flight");
    let (place, expires): (String, f64) = {
        let first: Vec<(String, f64)> = redis::cmd("ZRANGE")
            .arg(&places)
            .arg(0)
            .arg(0)
            .arg("WITHSCORES")
            .query(&mut raw)
            .unwrap();
        first.into_iter().next().unwrap()
    };
    let mut score =
        |place: &str| -> Option<f64> { redis::cmd("ZSCORE").arg(&places).arg(place).query(&mut raw).unwrap() };
    until("it is renewed", || score(&place).is_some_and(|later| later > expires)).await;
    // it dies without a word, and its ten seconds are over
    std::mem::forget(held);
    let other = member(&server, build).await;
    let refused = admit_within(&other, ms(100)).await;
    assert_eq!(reason(refused), Some(StopReason::QueuePastDeadline));
    let mut raw = super::raw(&server);
    redis::cmd("ZADD")
        .arg(&places)
        .arg("XX")
        .arg(1)
        .arg(&place)
        .exec(&mut raw)
        .unwrap();
    drop(admit_within(&other, Duration::from_secs(5)).await.unwrap());
}
