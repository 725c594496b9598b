//! The collective pause, and what an account that nobody built leaves undone.

use std::sync::{Arc, Mutex};

use reqwest_ai_retry::{Account, Event, RetryMiddleware, StopReason};
use tokio::time::{Instant, sleep};

use crate::stub::{Item, Stub, chat, crowd, exact, millis, reply, secs, spawned, stop};

const BROKE: &str = r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#;

/// In `default()` a hint of more than a minute stops only the call that got it.
#[tokio::test(start_paused = true)]
async fn a_long_hint_stops_only_its_own_call_by_default() {
    for (hint, shared) in [(60, true), (61, false), (3600, false)] {
        let server = Stub::new([reply(429).ra(hint), reply(200)]);
        let account = Account::default();
        let client = server.sharing(&account, exact().max_attempts(1));
        chat(&client, "m").await.unwrap();
        assert_eq!(account.status().lanes[0].paused_until.is_some(), shared, "{hint}");
        let start = Instant::now();
        crowd(&client, 5)
            .await
            .into_iter()
            .for_each(|result| drop(result.unwrap()));
        assert_eq!(start.elapsed() >= secs(60), shared, "{hint}: {:?}", start.elapsed());
        if !shared {
            assert!(
                start.elapsed() < millis(10),
                "nor does it teach a pace: {:?}",
                start.elapsed()
            );
        }
    }
    // one that was built believes it
    let server = Stub::new([reply(429).ra(61), reply(200)]);
    let account = Account::builder().build().unwrap();
    let client = server.sharing(&account, exact().max_attempts(1));
    chat(&client, "m").await.unwrap();
    chat(&client, "m").await.unwrap();
    assert!(server.times()[1] >= secs(61));
}

/// Nor is a quota that is used up held against calls that might have gone well.
#[tokio::test(start_paused = true)]
async fn by_default_there_is_no_quota_hold() {
    let server = Stub::new([reply(429).json(BROKE)]);
    let client = server.sharing(&Account::default(), exact().max_attempts(1));
    for result in crowd(&client, 20).await {
        result.unwrap();
    }
    for _ in 0..20 {
        chat(&client, "m").await.unwrap();
    }
    assert_eq!(server.n(), 40);
}

/// By default a breaker waits and does not fail: whoever is called while nothing gets through is answered once it does.
#[tokio::test(start_paused = true)]
async fn by_default_an_outage_fails_no_call() {
    let server = Stub::by(|sent| reply(if sent.at < secs(40) { 500 } else { 200 }));
    let client = server.sharing(&Account::default(), exact());
    let calls = (0..80).map(|call| {
        let client = client.clone();
        async move {
            sleep(millis(call * 500)).await;
            chat(&client, "m").await
        }
    });
    for result in futures_util::future::join_all(calls).await {
        assert_eq!(result.unwrap().status(), 200);
    }
    let during = server.times().iter().filter(|at| **at < secs(40)).count();
    // calls that each retry alone would have made some 350
    assert!(during < 350 / 4, "{during}");
}

/// Nothing is slowed before the provider spoke.
#[tokio::test(start_paused = true)]
async fn by_default_nothing_is_slowed() {
    let server = Stub::new([reply(200)]);
    let client = server.sharing(&Account::default(), exact());
    crowd(&client, 1_000)
        .await
        .into_iter()
        .for_each(|result| drop(result.unwrap()));
    assert!(server.start.elapsed() < millis(1));
}

#[tokio::test(start_paused = true)]
async fn max_pause_is_the_longest_that_is_waited_out() {
    let server = Stub::new([reply(429).ra(30), reply(200)]);
    let account = Account::builder().max_pause(secs(10)).build().unwrap();
    let client = server.sharing(&account, exact().max_attempts(1));
    chat(&client, "m").await.unwrap();
    let start = Instant::now();
    assert_eq!(stop(&chat(&client, "m").await), StopReason::PausedPastDeadline);
    assert!(start.elapsed() < millis(1));
    sleep(secs(21)).await;
    assert_eq!(stop(&chat(&client, "m").await), StopReason::Succeeded);
    assert!(server.times()[1] >= secs(30));
}

/// A pause beyond it empties the queue too.
#[tokio::test(start_paused = true)]
async fn a_pause_that_nobody_waits_out_empties_the_queue() {
    let server = Stub::new([reply(429).ra(1_000).after(secs(1))]);
    let account = Account::builder().max_concurrency(1).build().unwrap();
    let client = server.sharing(&account, exact().max_attempts(1));
    let results = crowd(&client, 50).await;
    assert_eq!(server.n(), 1);
    let refused = results
        .iter()
        .filter(|result| stop(result) == StopReason::PausedPastDeadline);
    assert_eq!(refused.count(), 49);
    assert!(server.start.elapsed() < secs(2));
}

/// Only what is about the lane pauses it.
#[tokio::test(start_paused = true)]
async fn a_conflict_over_one_thing_pauses_nobody_else() {
    let server = Stub::new([reply(409).ra(20), reply(200)]);
    let account = Account::builder().build().unwrap();
    let client = server.sharing(&account, exact());
    let conflict = spawned(&client, "m");
    sleep(millis(10)).await;
    let start = Instant::now();
    chat(&client, "m").await.unwrap();
    assert!(start.elapsed() < millis(10));
    conflict.abort();
}

/// Pauses and their ends are told once each.
#[tokio::test(start_paused = true)]
async fn a_pause_and_its_end_are_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    let retry = RetryMiddleware::builder()
        .account(Account::builder().build().unwrap())
        .policy(exact())
        .observer(move |event: &Event<'_>| match event {
            Event::Paused { lane, until, .. } => {
                let left = until.unwrap().duration_since(std::time::SystemTime::now()).unwrap();
                let told = format!("paused {} {} {}", lane.host(), lane.model(), left.as_secs_f64().round());
                seen.lock().unwrap().push(told);
            }
            Event::Resumed { lane, .. } => seen.lock().unwrap().push(format!("resumed {}", lane.model())),
            _ => {}
        });
    let script: [Item; 3] = [
        reply(429).ra(3).after(millis(5)),
        reply(429).ra(1).after(millis(10)),
        reply(200),
    ];
    let client = Stub::new(script).under([retry.build()]);
    crowd(&client, 2).await;
    crowd(&client, 3).await;
    assert_eq!(*told.lock().unwrap(), ["paused 127.0.0.1 m 3", "resumed m"]);
}

/// A refusal for growing too fast halves the pace.
#[tokio::test(start_paused = true)]
async fn growth_that_was_too_fast_halves_the_pace() {
    let body = r#"{"error":{"message":"Slow down: your traffic has grown too fast.","type":"rate_limit_error","code":"slow_down"}}"#;
    let mut script = vec![reply(200); 10];
    script.extend([reply(429).ra(1).json(body), reply(200)]);
    let server = Stub::new(script);
    let account = Account::builder().requests_per_minute(600).build().unwrap();
    let client = server.sharing(&account, exact());
    crowd(&client, 10).await;
    let before = account.status().lanes[0].starts_per_minute.unwrap();
    crowd(&client, 1).await;
    let after = account.status().lanes[0].starts_per_minute.unwrap();
    assert!(after <= before * 0.51 && after >= before * 0.45, "{before} {after}");
}
