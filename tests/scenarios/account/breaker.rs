//! The circuit breaker as calls see it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest_ai_retry::{
    Account, Backoff, BreakerStatus, CircuitBreaker, Event, Jitter, Outcome, RetryError, RetryMiddleware, StopReason,
};
use tokio::time::{Instant, sleep};

use crate::stub::{Item, Stub, breaker_of, chat, crowd, exact, hang, millis, opened, reply, secs, spawned, stop};

fn built() -> Account {
    Account::builder().build().unwrap()
}

/// So many calls, each of one send, so far apart.
async fn after(script: Vec<Item>, calls: usize, apart: Duration) -> BreakerStatus {
    // one that counts from the first call on
    let account = Account::builder().max_concurrency(100).build().unwrap();
    let client = Stub::new(script).sharing(&account, exact().max_attempts(1).attempt_timeout(secs(1)));
    let calls = (0..calls as u32).map(|call| {
        let client = client.clone();
        async move {
            sleep(call * apart).await;
            chat(&client, "m").await
        }
    });
    futures_util::future::join_all(calls).await;
    breaker_of(&account)
}

#[tokio::test(start_paused = true)]
async fn failures_of_several_calls_over_some_time_open_it() {
    for item in [reply(500), reply(529), reply(429)] {
        assert_eq!(after(vec![item.clone()], 5, millis(300)).await, BreakerStatus::Closed);
        assert_eq!(after(vec![item], 6, millis(300)).await, BreakerStatus::Open);
    }
    assert_eq!(after(vec![reply(500)], 6, millis(299)).await, BreakerStatus::Closed);
    // twenty workers need not all fail twice
    assert_eq!(after(vec![reply(500)], 17, millis(20)).await, BreakerStatus::Closed);
    assert_eq!(after(vec![reply(500)], 18, millis(20)).await, BreakerStatus::Open);
    assert_eq!(
        after(vec![reply(500)], 100, Duration::ZERO).await,
        BreakerStatus::Closed
    );
    // hangs that each call's own limit ends
    assert_eq!(after(vec![hang()], 6, millis(300)).await, BreakerStatus::Open);
    assert_eq!(after(vec![hang()], 5, millis(300)).await, BreakerStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn one_success_among_failures_keeps_it_closed() {
    let mut script = vec![reply(500); 5];
    script.extend([reply(200), reply(500)]);
    assert_eq!(after(script, 11, millis(300)).await, BreakerStatus::Closed);
    let tenth: Vec<_> = (0..200)
        .map(|call| reply(if call % 5 == 4 { 200 } else { 500 }))
        .collect();
    assert_eq!(after(tenth, 200, millis(100)).await, BreakerStatus::Closed);
}

/// Neither a stated delay, which paces the lane by itself, nor what is the caller's own fault opens it.
#[tokio::test(start_paused = true)]
async fn stated_delays_and_faults_of_the_caller_open_nothing() {
    for item in [400, 401, 403, 404, 409, 413, 422].map(reply) {
        assert_eq!(
            after(vec![item.clone()], 30, millis(300)).await,
            BreakerStatus::Closed,
            "{item:?}"
        );
    }
    for status in [429, 503, 529] {
        let item = reply(status).ra(1);
        assert_eq!(after(vec![item], 30, millis(300)).await, BreakerStatus::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn each_lane_has_its_own() {
    let server = Stub::new([reply(500)]);
    let (account, client) = opened(&server, built()).await;
    let start = Instant::now();
    assert_eq!(chat(&client, "other").await.unwrap().status(), 500);
    assert!(start.elapsed() < millis(1));
    let fails_fast = server.sharing(&account, exact().fail_fast(true));
    assert_eq!(stop(&chat(&fails_fast, "m").await), StopReason::CircuitOpen);
}

#[tokio::test(start_paused = true)]
async fn it_can_be_switched_off() {
    let server = Stub::new([reply(500)]);
    let account = Account::builder()
        .circuit_breaker(CircuitBreaker::off())
        .build()
        .unwrap();
    let client = server.sharing(&account, exact().max_attempts(1).fail_fast(true));
    for _ in 0..50 {
        crowd(&client, 4).await;
        sleep(millis(100)).await;
    }
    assert_eq!((server.n(), breaker_of(&account)), (200, BreakerStatus::Closed));
}

/// Each setter moves the bound that it names.
#[tokio::test(start_paused = true)]
async fn the_evidence_can_be_set() {
    let closed_after = async |breaker: CircuitBreaker, calls: usize, apart: Duration| {
        let account = Account::builder().circuit_breaker(breaker).build().unwrap();
        let client = Stub::new([reply(500)]).sharing(&account, exact().max_attempts(1));
        for _ in 0..calls {
            drop(chat(&client, "m").await);
            sleep(apart).await;
        }
        breaker_of(&account) == BreakerStatus::Closed
    };
    let new = CircuitBreaker::new;
    assert!(closed_after(new().min_failures(10), 9, millis(300)).await);
    assert!(!closed_after(new().min_failures(10), 10, millis(300)).await);
    assert!(closed_after(new().min_calls(8), 7, millis(300)).await);
    assert!(!closed_after(new().min_calls(8), 8, millis(300)).await);
    assert!(closed_after(new().min_duration(secs(10)), 10, secs(1)).await);
    assert!(!closed_after(new().min_duration(secs(10)), 11, secs(1)).await);
}

/// Probes come as far apart as is set, and no further.
#[tokio::test(start_paused = true)]
async fn the_time_between_probes_can_be_set() {
    let server = Stub::new([reply(503)]);
    let breaker = CircuitBreaker::new().probe_interval(secs(7), secs(7));
    let account = Account::builder().circuit_breaker(breaker).build().unwrap();
    let (_, client) = opened(&server, account).await;
    let before = server.n();
    let waits = spawned(&client, "m");
    waits.await.unwrap().unwrap();
    let times = server.times();
    assert_eq!(times.len(), before + 1);
    assert_eq!(times[before] - times[before - 1], secs(7));
}

/// A retry whose wait has no known end: it waits, and is answered.
#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_an_open_circuit() {
    let server = Stub::by(|sent| reply(if sent.at < secs(20) { 503 } else { 200 }));
    let backoff = Backoff::constant(millis(500)).jitter(Jitter::None);
    let client = server.sharing(&built(), exact().backoff(backoff));
    let start = Instant::now();
    // by its own waits each would have made its five attempts in two seconds
    for result in crowd(&client, 10).await {
        assert_eq!(result.unwrap().status(), 200);
    }
    assert!(
        start.elapsed() < secs(26),
        "probes are at most 5 s apart: {:?}",
        start.elapsed()
    );
    assert!(server.n() <= 50, "{:?}", server.times());
}

/// A call that fails fast ends where its retry meets an open circuit, with all of the answer that it had.
#[tokio::test(start_paused = true)]
async fn a_retry_that_fails_fast_at_an_open_circuit_gets_the_last_answer() {
    let server = Stub::new([reply(503).json(r#"{"error":{"message":"Overloaded"}}"#)]);
    let client = server.sharing(
        &built(),
        exact()
            .fail_fast(true)
            .max_attempts(10)
            .backoff(Backoff::constant(millis(500)).jitter(Jitter::None)),
    );
    for result in crowd(&client, 3).await {
        let response = result.unwrap();
        assert_eq!(response.status(), 503);
        let outcome = Outcome::of(&response).unwrap().clone();
        assert_eq!(outcome.stop(), StopReason::CircuitOpen);
        // the first of the fourth round opens it
        assert!((3..=4).contains(&outcome.sends()), "{outcome:?}");
        assert!(!response.headers().contains_key("x-should-retry"));
        assert_eq!(response.text().await.unwrap(), r#"{"error":{"message":"Overloaded"}}"#);
    }
    assert_eq!(server.start.elapsed(), millis(1_500));
}

/// One that fails fast before its first send is told when it is worth trying.
#[tokio::test(start_paused = true)]
async fn a_call_that_fails_fast_is_not_sent_into_an_open_circuit() {
    let server = Stub::new([reply(503)]);
    let (account, _) = opened(&server, built()).await;
    let (client, sends) = (server.sharing(&account, exact().fail_fast(true)), server.n());
    let start = Instant::now();
    let error = chat(&client, "m").await.unwrap_err();
    assert!(start.elapsed() < millis(1));
    assert!(matches!(RetryError::of(&error), Some(RetryError::Refused { .. })));
    let outcome = Outcome::of_error(&error).unwrap();
    assert_eq!(
        (outcome.stop(), outcome.sends(), server.n()),
        (StopReason::CircuitOpen, 0, sends)
    );
    let left = outcome
        .retry_at()
        .unwrap()
        .duration_since(std::time::SystemTime::now())
        .unwrap();
    assert!(left > millis(300) && left <= millis(600), "{left:?}");
    sleep(left).await;
    assert_eq!(chat(&client, "m").await.unwrap().status(), 503);
}

/// Opened, a probe that fails, one that gets through, closed: each told once.
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
    let mut script = vec![reply(500); 7];
    script.extend([reply(429).ra(1), reply(200)]);
    let client = Stub::new(script).under([retry.build()]);
    for _ in 0..6 {
        assert_eq!(chat(&client, "m").await.unwrap().status(), 500);
        sleep(millis(300)).await;
    }
    assert_eq!(chat(&client, "m").await.unwrap().status(), 500);
    // a stated delay is waited for, and then another probe goes
    assert_eq!(chat(&client, "m").await.unwrap().status(), 429);
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!(breaker_of(&account), BreakerStatus::HalfOpen, "starts resume by twos");
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!(breaker_of(&account), BreakerStatus::Closed);
    assert_eq!(
        *told.lock().unwrap(),
        ["opened", "half-open", "half-open", "half-open", "closed"]
    );
}
