//! Dropping the future ends everything.

use std::sync::{Arc, Mutex};

use reqwest_ai_retry::{Account, BreakerStatus, Event, RetryMiddleware, StopReason};
use reqwest_middleware::ClientWithMiddleware;
use tokio::time::sleep;

use crate::stub::{ORDERS, Stub, chat, crowd, exact, hang, millis, reply, secs, spawned, stop};

/// G1: an abort in the middle of a wait does not wait it out, and nothing is sent later.
#[tokio::test(start_paused = true)]
async fn dropping_a_call_in_its_wait_ends_it() {
    let server = Stub::new([reply(503).ra(30), reply(200)]);
    let stops = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&stops);
    let retry = RetryMiddleware::builder()
        .policy(exact())
        .observer(move |event: &Event<'_>| {
            if let Event::GaveUp { stop, outcome, .. } = event {
                seen.lock().unwrap().push((*stop, outcome.sends()));
            }
        });
    let client = server.under([retry.build()]);

    assert!(
        tokio::time::timeout(millis(100), client.get(ORDERS).send())
            .await
            .is_err()
    );
    tokio::time::sleep(secs(300)).await;

    assert_eq!(server.n(), 1);
    assert_eq!(*stops.lock().unwrap(), [(StopReason::Cancelled, 1)]);
}

/// A built account whose breaker has just opened.
async fn opened(server: &Stub) -> (Account, ClientWithMiddleware) {
    let account = Account::builder().build().unwrap();
    let client = server.sharing(&account, exact().max_attempts(1));
    crowd(&client, 5).await;
    assert_eq!(account.status().lanes[0].breaker, BreakerStatus::Open);
    (account, client)
}

/// G2: a probe that is dropped gives its place to the next caller, whenever it is dropped.
#[tokio::test(start_paused = true)]
async fn a_dropped_probe_returns_its_place() {
    let mut script = vec![reply(503); 5];
    script.extend([hang(), hang(), reply(200)]);
    let server = Stub::new(script);
    let (account, client) = opened(&server).await;
    sleep(secs(5)).await;
    for _ in 0..2 {
        let probe = spawned(&client, "m");
        sleep(millis(100)).await;
        assert_eq!(stop(&chat(&client, "m").await), StopReason::CircuitOpen);
        probe.abort();
        assert!(probe.await.unwrap_err().is_cancelled());
    }
    assert_eq!(account.status().lanes[0].breaker, BreakerStatus::HalfOpen);
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!(
        (account.status().lanes[0].breaker, server.n()),
        (BreakerStatus::Closed, 8)
    );
}

/// G2: a probe that never reports is not waited for for ever.
#[tokio::test(start_paused = true)]
async fn a_probe_that_never_reports_is_replaced() {
    let mut script = vec![reply(503); 5];
    script.extend([hang(), reply(200)]);
    let server = Stub::new(script);
    let (account, client) = opened(&server).await;
    sleep(secs(5)).await;
    let hanging = spawned(&client, "m");
    sleep(secs(59)).await;
    assert_eq!(stop(&chat(&client, "m").await), StopReason::CircuitOpen);
    sleep(secs(2)).await;
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!(account.status().lanes[0].breaker, BreakerStatus::Closed);
    hanging.abort();
}

/// G3: of a crowd at the half-open circuit exactly one passes.
#[tokio::test(start_paused = true)]
async fn exactly_one_probe_passes() {
    let mut script = vec![reply(503); 5];
    script.push(reply(200).after(secs(1)));
    let server = Stub::new(script);
    let (account, client) = opened(&server).await;
    sleep(secs(5)).await;
    let results = crowd(&client, 50).await;
    assert_eq!(server.n(), 6);
    let refused = results.iter().filter(|result| stop(result) == StopReason::CircuitOpen);
    assert_eq!(refused.count(), 49);
    assert_eq!(account.status().lanes[0].breaker, BreakerStatus::Closed);
    assert!(crowd(&client, 50).await.iter().all(Result::is_ok));
}

/// G4: nine of ten that wait are dropped, and the tenth gets the first slot.
#[tokio::test(start_paused = true)]
async fn cancelled_waiters_give_back_their_slots() {
    let server = Stub::new([reply(200)]);
    let account = Account::builder()
        .requests_per_minute(60)
        .max_concurrency(5)
        .build()
        .unwrap();
    let client = server.sharing(&account, exact());
    chat(&client, "m").await.unwrap();
    let mut waiting: Vec<_> = (0..10).map(|_| spawned(&client, "m")).collect();
    sleep(millis(100)).await;
    let tenth = waiting.pop().unwrap();
    for waiter in waiting {
        waiter.abort();
        drop(waiter.await);
    }
    assert_eq!(account.status().lanes[0].waiting, 1);
    tenth.await.unwrap().unwrap();
    let times = server.times();
    assert!(times.len() == 2 && times[1] < millis(1_100), "{times:?}");
    assert_eq!((account.status().in_flight, account.status().lanes[0].waiting), (0, 0));
}

/// G5: failures of calls that began before the circuit opened do not decide its probe.
#[tokio::test(start_paused = true)]
async fn late_failures_of_earlier_calls_are_ignored() {
    let mut script = vec![reply(503).after(secs(6)); 10];
    script.extend(vec![reply(503); 5]);
    script.push(reply(200).after(secs(2)));
    let server = Stub::new(script);
    let account = Account::builder().build().unwrap();
    let client = server.sharing(&account, exact().max_attempts(1));
    let early: Vec<_> = (0..10).map(|_| spawned(&client, "m")).collect();
    sleep(millis(10)).await;
    crowd(&client, 5).await;
    sleep(millis(5_010)).await;
    // it is on its way when the ten fail
    let probe = spawned(&client, "m");
    for call in early {
        assert_eq!(call.await.unwrap().unwrap().status(), 503);
    }
    assert_eq!(account.status().lanes[0].breaker, BreakerStatus::HalfOpen);
    assert_eq!(probe.await.unwrap().unwrap().status(), 200);
    assert_eq!(account.status().lanes[0].breaker, BreakerStatus::Closed);
}

/// G1: a retry that was paid for and never made is given back.
#[tokio::test(start_paused = true)]
async fn a_retry_that_is_not_made_costs_nothing() {
    let server = Stub::new([reply(503)]);
    let account = Account::default();
    let client = server.sharing(&account, exact());
    for _ in 0..100 {
        let call = spawned(&client, "m");
        tokio::task::yield_now().await;
        sleep(millis(10)).await;
        call.abort();
        drop(call.await);
    }
    let status = account.status();
    assert_eq!((server.n(), status.in_flight), (100, 0));
    assert!(status.lanes[0].retries_left > 19.99, "{status:?}");
}
