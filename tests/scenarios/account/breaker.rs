//! The circuit breaker as calls see it.

use std::sync::{Arc, Mutex};

use reqwest_ai_retry::{Account, Backoff, BreakerStatus, Event, Outcome, RetryMiddleware, StopReason};
use tokio::time::sleep;

use crate::stub::{Item, Stub, chat, crowd, exact, hang, millis, reply, secs, stop};

fn built() -> Account {
    Account::builder().build().unwrap()
}

async fn after(script: Vec<Item>, calls: usize) -> BreakerStatus {
    // one that counts from the first call on
    let account = Account::builder().max_concurrency(100).build().unwrap();
    let client = Stub::new(script).sharing(&account, exact().max_attempts(1).attempt_timeout(secs(1)));
    for _ in 0..calls {
        drop(chat(&client, "m").await);
    }
    account
        .status()
        .lanes
        .first()
        .map_or(BreakerStatus::Closed, |lane| lane.breaker)
}

#[tokio::test(start_paused = true)]
async fn five_failures_in_a_row_open_it() {
    assert_eq!(after(vec![reply(500)], 4).await, BreakerStatus::Closed);
    assert_eq!(after(vec![reply(500)], 5).await, BreakerStatus::Open);
    assert_eq!(after(vec![reply(529)], 5).await, BreakerStatus::Open);
    assert_eq!(after(vec![hang()], 5).await, BreakerStatus::Open);
    let broken = [reply(500), reply(500), reply(500), reply(500), reply(200), reply(500)];
    assert_eq!(after(broken.to_vec(), 9).await, BreakerStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn half_of_ten_open_it() {
    let script: Vec<_> = (0..10)
        .map(|call| reply(if call % 2 == 1 { 500 } else { 200 }))
        .collect();
    assert_eq!(after(script.clone(), 9).await, BreakerStatus::Closed);
    assert_eq!(after(script, 10).await, BreakerStatus::Open);
}

/// Neither rate limits nor what is the caller's own fault opens it.
#[tokio::test(start_paused = true)]
async fn refusals_open_nothing() {
    for status in [429, 400, 401, 403, 404, 409, 413, 422] {
        assert_eq!(after(vec![reply(status)], 30).await, BreakerStatus::Closed, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_per_lane_and_may_be_left_out() {
    let server = Stub::new([reply(500)]);
    let account = built();
    let client = server.sharing(&account, exact().max_attempts(1));
    for _ in 0..5 {
        chat(&client, "m").await.unwrap();
    }
    assert_eq!(stop(&chat(&client, "m").await), StopReason::CircuitOpen);
    assert_eq!(chat(&client, "other").await.unwrap().status(), 500);
    let without = Account::builder().circuit_breaker(false).build().unwrap();
    let client = server.sharing(&without, exact().max_attempts(1));
    crowd(&client, 20).await;
    assert_eq!(chat(&client, "m").await.unwrap().status(), 500);
}

/// A call whose retry meets an open circuit gets the answer that it had.
#[tokio::test(start_paused = true)]
async fn a_retry_that_meets_an_open_circuit_gets_the_last_answer() {
    let server = Stub::new([reply(503).json(r#"{"error":{"message":"Overloaded"}}"#)]);
    let client = server.sharing(
        &built(),
        exact().max_attempts(10).backoff(Backoff::constant(millis(500))),
    );
    let response = chat(&client, "m").await.unwrap();
    assert_eq!((response.status().as_u16(), server.n()), (503, 5));
    let outcome = Outcome::of(&response).unwrap().clone();
    assert_eq!((outcome.stop(), outcome.sends()), (StopReason::CircuitOpen, 5));
    assert!(outcome.retry_at().is_some());
    assert!(!response.headers().contains_key("x-should-retry"));
    assert_eq!(response.text().await.unwrap(), r#"{"error":{"message":"Overloaded"}}"#);
}

/// Opened, half-open, opened again for longer, half-open, closed: each told once.
#[tokio::test(start_paused = true)]
async fn each_change_is_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    let account = built();
    let retry = RetryMiddleware::builder()
        .account(account.clone())
        .policy(exact().max_attempts(1))
        .observer(move |event: &Event<'_>| {
            let what = match event {
                Event::BreakerOpened { lane, until, .. } => {
                    assert!(until.is_some() && lane.model() == "m");
                    "opened"
                }
                Event::BreakerHalfOpen { .. } => "half-open",
                Event::BreakerClosed { .. } => "closed",
                _ => return,
            };
            seen.lock().unwrap().push(what);
        });
    let mut script = vec![reply(500); 6];
    script.extend([reply(429), reply(200)]);
    let client = Stub::new(script).under([retry.build()]);
    for _ in 0..5 {
        chat(&client, "m").await.unwrap();
    }
    sleep(secs(5)).await;
    assert_eq!(chat(&client, "m").await.unwrap().status(), 500);
    sleep(secs(5)).await;
    assert_eq!(stop(&chat(&client, "m").await), StopReason::CircuitOpen);
    sleep(secs(5)).await;
    // a rate limit says nothing: another probe goes
    assert_eq!(chat(&client, "m").await.unwrap().status(), 429);
    assert_eq!(account.status().lanes[0].breaker, BreakerStatus::HalfOpen);
    sleep(secs(2)).await;
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!(
        *told.lock().unwrap(),
        ["opened", "half-open", "opened", "half-open", "half-open", "closed"]
    );
}
