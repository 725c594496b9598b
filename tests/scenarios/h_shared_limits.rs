//! One account, one budget: pace, permits, pauses and retries of all who share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest_ai_retry::{
    Account, Backoff, CircuitBreaker, Jitter, Outcome, RetryBudget, RetryError, RetryPolicy, StopReason,
};
use tokio::time::{Instant, sleep};

use crate::stub::{
    CHAT, OPENING, PROMPT, Stub, chat, crowd, exact, millis, opened, prompt, reply, secs, spawned, stop,
};

fn paced(per_minute: u32) -> Account {
    Account::builder().requests_per_minute(per_minute).build().unwrap()
}

/// Nearly no wait of one's own, so that what is seen is the account's.
fn hasty() -> RetryPolicy {
    RetryPolicy::default().backoff(Backoff::constant(millis(50)).jitter(Jitter::None))
}

/// H1: with one place, another call starts while the first one waits for its retry.
#[tokio::test(start_paused = true)]
async fn a_waiting_call_holds_no_place() {
    let server = Stub::new([reply(503), reply(200)]);
    let account = Account::builder().max_concurrency(1).build().unwrap();
    let client = server.sharing(&account, exact());
    let (first, second) = tokio::join!(chat(&client, "m"), async {
        sleep(millis(100)).await;
        chat(&client, "m").await
    });
    assert_eq!(
        (first.unwrap().status(), second.unwrap().status()),
        (200.try_into().unwrap(), 200.try_into().unwrap())
    );
    assert_eq!(server.times(), [secs(0), millis(100), secs(1)]);
    assert_eq!(account.status().in_flight, 0);
}

/// H3: one model's pause stops no other, and one credential's no other where nobody said that they share an account.
#[tokio::test(start_paused = true)]
async fn one_lane_is_paused_and_the_others_go_on() {
    let rule = |sent: &crate::stub::Sent| {
        let slow = sent.body.windows(8).any(|part| part == b"\"slow-m\"");
        let broke = sent.headers.get("x-api-key").is_some_and(|key| key == "broke");
        if slow || broke { reply(429).ra(20) } else { reply(200) }
    };
    for account in [Account::builder().build().unwrap(), Account::default()] {
        let server = Stub::by(rule);
        let client = server.sharing(&account, exact().max_attempts(1));
        assert_eq!(chat(&client, "slow-m").await.unwrap().status(), 429);
        let start = Instant::now();
        assert_eq!(chat(&client, "fast-m").await.unwrap().status(), 200);
        assert!(start.elapsed() < millis(10));
        let waits = spawned(&client, "slow-m");
        sleep(secs(19)).await;
        assert!(!waits.is_finished());
        assert!(waits.await.unwrap().is_ok());
        assert!(start.elapsed() >= secs(20));
    }
    let (server, account) = (Stub::by(rule), Account::default());
    let client = server.sharing(&account, exact().max_attempts(1));
    let with_key = |key: &'static str| client.post(CHAT).header("x-api-key", key).body(PROMPT).send();
    assert_eq!(with_key("broke").await.unwrap().status(), 429);
    let start = Instant::now();
    assert_eq!(with_key("rich").await.unwrap().status(), 200);
    assert!(start.elapsed() < millis(10));
}

/// H3: a pause beyond what calls may be held in fails them at once, with the time at which to come back.
#[tokio::test(start_paused = true)]
async fn a_pause_that_is_too_long_fails_at_once() {
    let server = Stub::new([reply(429).ra(2059), reply(200)]);
    let account = Account::builder().build().unwrap();
    let client = server.sharing(&account, exact());
    assert_eq!(stop(&chat(&client, "m").await), StopReason::DelayPastDeadline);
    let start = Instant::now();
    let error = chat(&client, "m").await.unwrap_err();
    assert!(start.elapsed() < millis(10));
    assert!(matches!(RetryError::of(&error), Some(RetryError::Refused { .. })));
    let outcome = Outcome::of_error(&error).unwrap();
    assert_eq!((outcome.stop(), outcome.sends()), (StopReason::PausedPastDeadline, 0));
    let left = outcome
        .retry_at()
        .unwrap()
        .duration_since(std::time::SystemTime::now())
        .unwrap();
    assert!(left > secs(2050) && left <= secs(2060), "{left:?}");
    // what is left of it is longer than a call goes on retrying
    sleep(secs(2059 - 121)).await;
    assert_eq!(stop(&chat(&client, "m").await), StopReason::PausedPastDeadline);
    assert_eq!(server.n(), 1);
    sleep(secs(2)).await;
    assert!(chat(&client, "m").await.is_ok());
    assert!(server.times()[1] >= secs(2059));
}

/// H4: what one is told, all obey.
#[tokio::test(start_paused = true)]
async fn one_hint_pauses_all_callers() {
    for account in [Account::builder().build().unwrap(), Account::default(), paced(600)] {
        let server = Stub::new([reply(429).ra(3), reply(200)]);
        let client = server.sharing(&account, exact());
        let calls: Vec<_> = (0..20u64)
            .map(|call| {
                let client = client.clone();
                tokio::spawn(async move {
                    sleep(millis(call * 100)).await;
                    chat(&client, "m").await
                })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap().status(), 200);
        }
        let times = server.times();
        assert_eq!(times.len(), 21);
        assert!(times[1..].iter().all(|at| *at >= secs(3)), "{times:?}");
    }
}

/// DESIGN §6: a pause without a known pace ends with one that goes ahead, and not with a stampede.
#[tokio::test(start_paused = true)]
async fn a_pause_ends_in_a_ramp() {
    let server = Stub::new([reply(503).ra(3), reply(200)]);
    let account = Account::default();
    let client = server.sharing(&account, exact());
    let first = spawned(&client, "m");
    sleep(millis(100)).await;
    crowd(&client, 50)
        .await
        .into_iter()
        .for_each(|result| drop(result.unwrap()));
    first.await.unwrap().unwrap();
    let times = server.times();
    let until = |end| times.iter().filter(|at| **at < end).count() - 1;
    assert_eq!(until(secs(3)), 0);
    assert_eq!(until(millis(3_500)), 1, "{times:?}");
    assert!(until(secs(4)) <= 3 && until(secs(5)) <= 6, "{times:?}");
    assert!(*times.last().unwrap() < secs(10), "{times:?}");
}

/// H5: what was refused has taken nothing.
#[tokio::test(start_paused = true)]
async fn a_refused_start_costs_the_others_nothing() {
    let server = Stub::new([reply(200)]);
    let account = paced(60);
    let client = server.sharing(&account, exact());
    let impatient = server.sharing(&account, exact().max_queue_time(secs(5)));
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { crowd(&client, 50).await }
    });
    tokio::task::yield_now().await;
    sleep(millis(10)).await;
    for refused in crowd(&impatient, 200).await {
        assert_eq!(stop(&refused), StopReason::QueuePastDeadline);
    }
    assert!(
        server.start.elapsed() < millis(50),
        "known not to fit, and so refused at once"
    );
    assert!(waiting.await.unwrap().iter().all(Result::is_ok));
    let times = server.times();
    assert_eq!(times.len(), 50);
    let last = *times.last().unwrap();
    assert!(last >= millis(48_900) && last <= secs(51), "{last:?}");
}

/// H6: retries pay like any send.
#[tokio::test(start_paused = true)]
async fn every_send_pays() {
    let server = Stub::new([reply(503), reply(503), reply(200)]);
    let client = server.sharing(&paced(60), hasty());
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    let times = server.times();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= secs(1)), "{times:?}");
}

/// B23: the wait is the larger of the hint and the pace, and the token is paid for at the send.
#[tokio::test(start_paused = true)]
async fn a_hint_longer_than_the_pace_is_obeyed_and_pays_once() {
    let server = Stub::new([reply(429).ra(5), reply(200)]);
    let account = paced(30);
    let client = server.sharing(&account, hasty());
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    let times = server.times();
    assert!(times[1] >= secs(5) && times[1] <= millis(5_600), "{times:?}");
    let gap = times[2] - times[1];
    assert!(gap >= millis(1_990) && gap <= millis(2_500), "{times:?}");
}

/// A server that is down for as long as `down` says.
fn fallible() -> (Stub, Arc<AtomicBool>) {
    let down = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&down);
    let server = Stub::by(move |_| reply(if seen.load(Ordering::SeqCst) { 503 } else { 200 }));
    (server, down)
}

/// An account whose retries only the budget slows.
fn budgeted() -> Account {
    Account::builder()
        .circuit_breaker(CircuitBreaker::off())
        .build()
        .unwrap()
}

/// Until the budget of the model is used up.
async fn drain(client: &reqwest_middleware::ClientWithMiddleware, model: &str) {
    for _ in 0..1000 {
        if stop(&chat(client, model).await) == StopReason::RetryBudgetEmpty {
            return;
        }
    }
    panic!("the budget never bites");
}

/// H7: a drained budget fills again.
#[tokio::test(start_paused = true)]
async fn a_drained_budget_is_refilled_by_successes() {
    let (server, down) = fallible();
    let account = budgeted();
    let client = server.sharing(&account, hasty().fail_fast(true));
    drain(&client, "m").await;
    assert!(account.status().lanes[0].retries_left < 1.0);
    down.store(false, Ordering::SeqCst);
    crowd(&client, 10).await;
    assert!(account.status().lanes[0].retries_left >= 19.0);
    down.store(true, Ordering::SeqCst);
    let again = chat(&client, "m").await;
    assert_eq!(
        (stop(&again), again.unwrap().status()),
        (StopReason::AttemptsSpent, 503.try_into().unwrap())
    );
}

/// H8: one model's failures take nothing from another's retries, and a call that fails fast is told the reason.
#[tokio::test(start_paused = true)]
async fn budgets_are_kept_apart() {
    let (server, _down) = fallible();
    let client = server.sharing(&budgeted(), hasty().fail_fast(true));
    drain(&client, "failing").await;
    let sends = server.n();
    let response = chat(&client, "other").await.unwrap();
    assert_eq!(server.n() - sends, 5);
    assert_eq!(Outcome::of(&response).unwrap().stop(), StopReason::AttemptsSpent);
    let stopped = chat(&client, "failing").await.unwrap();
    assert_eq!(stopped.status(), 503);
    assert_eq!(stopped.headers()["x-should-retry"], "false");
    assert_eq!(Outcome::of(&stopped).unwrap().stop(), StopReason::RetryBudgetEmpty);
}

/// H9: the budget bites, and slows: retries are no more than the reserve and what time pays for, however many attempts are
/// allowed, and no call ends for it.
#[tokio::test(start_paused = true)]
async fn an_empty_budget_slows_retries_and_ends_no_call() {
    let server = Stub::by(|sent| reply(if sent.at < secs(60) { 503 } else { 200 }));
    let endless = hasty().max_attempts(100_000);
    let client = server.sharing(&budgeted(), endless);
    let start = Instant::now();
    for result in crowd(&client, 100).await {
        assert_eq!(result.unwrap().status(), 200);
    }
    assert!(start.elapsed() < secs(64), "{:?}", start.elapsed());
    // a hundred that wait have their turns within 20 s each
    let during = server.times().iter().filter(|at| **at < secs(60)).count();
    assert!((300..=100 + 20 + 300 + 5).contains(&during), "{during}");
}

/// H9: those that wait for the budget hold back no call that was not sent yet.
#[tokio::test(start_paused = true)]
async fn fresh_calls_pass_those_that_wait_for_the_budget() {
    let poison = prompt("m").replace("hello", "poison");
    let body = poison.clone().into_bytes();
    let server = Stub::by(move |sent| reply(if sent.body == body { 503 } else { 200 }));
    let account = Account::builder()
        .circuit_breaker(CircuitBreaker::off())
        .retry_budget(RetryBudget::new().per_success(0.0))
        .build()
        .unwrap();
    let client = server.sharing(&account, hasty().max_attempts(100_000));
    let poisoned: Vec<_> = (0..10)
        .map(|_| {
            let (client, poison) = (client.clone(), poison.clone());
            tokio::spawn(async move { client.post(CHAT).body(poison).send().await })
        })
        .collect();
    sleep(secs(1)).await;
    assert_eq!(account.status().lanes[0].waiting, 10);
    let start = Instant::now();
    for _ in 0..100 {
        assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    }
    assert!(start.elapsed() < millis(1));
    poisoned.iter().for_each(|call| call.abort());
}

/// Without a budget retries come as fast as their calls' own waits.
#[tokio::test(start_paused = true)]
async fn the_budget_can_be_switched_off() {
    let server = Stub::new([reply(503)]);
    let account = Account::builder()
        .circuit_breaker(CircuitBreaker::off())
        .retry_budget(RetryBudget::off())
        .build()
        .unwrap();
    let client = server.sharing(&account, hasty().max_attempts(10).fail_fast(true));
    for result in crowd(&client, 100).await {
        assert_eq!(stop(&result), StopReason::AttemptsSpent);
    }
    assert_eq!((server.n(), server.start.elapsed()), (1_000, millis(450)));
}

/// H9b: a new account has something in reserve.
#[tokio::test(start_paused = true)]
async fn a_fresh_client_may_retry_its_first_call() {
    for _ in 0..100 {
        let server = Stub::new([reply(503), reply(200)]);
        let response = chat(&server.with(exact()), "m").await.unwrap();
        assert_eq!((response.status().as_u16(), server.n()), (200, 2));
    }
}

/// H11: who does not want to wait is told at once, without a send, and when it would have been his turn.
#[tokio::test(start_paused = true)]
async fn a_caller_may_refuse_to_wait() {
    let server = Stub::new([reply(200)]);
    let client = server.sharing(&paced(60), exact().max_queue_time(Duration::ZERO));
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    let start = Instant::now();
    let error = chat(&client, "m").await.unwrap_err();
    assert!(start.elapsed() < millis(1));
    let outcome = Outcome::of_error(&error).unwrap();
    assert_eq!(
        (outcome.stop(), outcome.sends(), server.n()),
        (StopReason::QueuePastDeadline, 0, 1)
    );
    let at = outcome
        .retry_at()
        .unwrap()
        .duration_since(std::time::SystemTime::now())
        .unwrap();
    assert!(at <= millis(1_100), "{at:?}");
    sleep(millis(1_100)).await;
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
}

/// H12: while one lane waits, another is not kept for a moment.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_another_lane() {
    let server = Stub::by(|sent| {
        if sent.path == "/v1/chat/completions" && sent.at < secs(3) && sent.body == prompt("paused").into_bytes() {
            reply(429).ra(3)
        } else {
            reply(200)
        }
    });
    let account = Account::default();
    let client = server.sharing(&account, exact());
    let waits: Vec<_> = (0..10).map(|_| spawned(&client, "paused")).collect();
    sleep(millis(100)).await;
    for other in [
        "http://127.0.0.1:9/v1/embeddings",
        "http://127.0.0.1:8/v1/chat/completions",
    ] {
        let start = Instant::now();
        assert_eq!(client.post(other).body("{}").send().await.unwrap().status(), 200);
        assert!(start.elapsed() < millis(10));
    }
    for call in waits {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
}

/// H14: an open circuit is waited for, and no retry is spent on the wait; to a call that fails fast it is final, and not one
/// more failure to be retried.
#[tokio::test(start_paused = true)]
async fn an_open_circuit_is_waited_for_or_final() {
    let server = Stub::by(|sent| reply(if sent.at < millis(1_600) { 503 } else { 200 }));
    let account = Account::builder().build().unwrap();
    opened(&server, account.clone()).await;
    let start = Instant::now();
    let fails_fast = server.sharing(&account, exact().fail_fast(true));
    let error = chat(&fails_fast, "m").await.unwrap_err();
    assert!(start.elapsed() < millis(1));
    let outcome = Outcome::of_error(&error).unwrap();
    assert_eq!(
        (outcome.stop(), outcome.sends(), server.n()),
        (StopReason::CircuitOpen, 0, OPENING)
    );
    assert!(outcome.retry_at().is_some());

    let response = chat(&server.sharing(&account, exact()), "m").await.unwrap();
    assert_eq!((response.status().as_u16(), server.n()), (200, OPENING + 1));
    assert_eq!(start.elapsed(), millis(500));
    let outcome = Outcome::of(&response).unwrap();
    assert_eq!((outcome.sends(), outcome.waited()), (1, millis(500)));
}

/// What states no limit is no reason to hold anybody: an account that was not built takes no longer than its callers' own
/// waits, however often it is refused, as long as something gets through.
#[tokio::test(start_paused = true)]
async fn refusals_that_state_nothing_hold_nobody_by_default() {
    // of whatever dimension
    for body in [
        "",
        r#"{"error":{"message":"Rate limit reached on tokens per min (TPM)","type":"tokens","code":"rate_limit_exceeded"}}"#,
        r#"{"error":{"message":"would exceed the limit of 40,000 input tokens per minute","type":"rate_limit_error"}}"#,
        r#"{"error":{"message":"Slow down: your traffic has grown too fast.","type":"rate_limit_error","code":"slow_down"}}"#,
    ] {
        let refused = reply(429).json(body);
        let mut script = Vec::new();
        (0..10).for_each(|_| script.extend([refused.clone(), refused.clone(), reply(200)]));
        let server = Stub::new(script);
        let client = server.with(exact().max_attempts(3));
        for calls in 1..=10 {
            let start = tokio::time::Instant::now();
            assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
            assert_eq!(server.n(), 3 * calls);
            assert_eq!(start.elapsed(), secs(3), "1 s and 2 s: {body}");
        }
    }
    // a delay that was stated is obeyed by all
    let server = Stub::new([reply(429).ra(7), reply(200)]);
    let client = server.with(exact());
    let first = spawned(&client, "m");
    tokio::time::sleep(secs(1)).await;
    chat(&client, "m").await.unwrap();
    first.await.unwrap().unwrap();
    assert!(server.times()[1] >= secs(7));
}
