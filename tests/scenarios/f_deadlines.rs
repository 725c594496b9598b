//! Time is bounded where the caller said so, and a healthy stream is never cut.

use std::time::Duration;

use reqwest_ai_retry::{Account, Outcome, RetryError, StopReason, is_connect, is_timeout};
use tokio::time::Instant;

use crate::stub::{ORDERS, Stub, chat, exact, hang, millis, reply, secs, spawned, stop};

/// F1: a dead provider costs the deadline, not the deadline times the attempts.
#[tokio::test(start_paused = true)]
async fn total_deadline_bounds_the_whole_call() {
    // the second one stops at 27 s already: the next wait of 4 s would end at 31
    for (attempt_timeout, n, end) in [(secs(60), 1, secs(30)), (secs(8), 3, secs(27))] {
        let (server, start) = (Stub::new([hang()]), Instant::now());
        let policy = exact().total_deadline(secs(30)).attempt_timeout(attempt_timeout);
        let error = server.with(policy).get(ORDERS).send().await.unwrap_err();
        assert_eq!((server.n(), start.elapsed()), (n, end));
        assert!(is_timeout(&error) && !is_connect(&error));
        assert!(matches!(RetryError::of(&error), Some(RetryError::TimedOut { .. })));
        assert_eq!(Outcome::of_error(&error).unwrap().stop(), StopReason::DeadlinePassed);
    }
}

/// F2, F7: `attempt_timeout` is per attempt, `total_deadline` for the whole, and the last attempt gets what is left.
#[tokio::test(start_paused = true)]
async fn attempts_have_a_limit_of_their_own() {
    let (server, start) = (Stub::new([hang()]), Instant::now());
    let policy = exact().attempt_timeout(secs(2)).total_deadline(secs(9));
    let error = server.with(policy).get(ORDERS).send().await.unwrap_err();
    // 2 s, wait 1, 2 s, wait 2, and the rest of the nine
    assert_eq!(server.times(), [secs(0), secs(3), secs(7)]);
    assert_eq!(start.elapsed(), secs(9));
    assert_eq!(Outcome::of_error(&error).unwrap().sends(), 3);
}

/// F3: the wait is tested before it is begun, and the last answer is the result.
#[tokio::test(start_paused = true)]
async fn a_wait_past_the_deadline_is_not_begun() {
    let (server, start) = (Stub::new([reply(503).ra(6)]), Instant::now());
    let response = server
        .with(exact().total_deadline(secs(5)))
        .get(ORDERS)
        .send()
        .await
        .unwrap();
    assert!(start.elapsed() < millis(1));
    assert_eq!(response.status(), 503);
    assert_eq!(Outcome::of(&response).unwrap().stop(), StopReason::DelayPastDeadline);
}

/// F4: what an attempt may take is computed after the wait.
#[tokio::test(start_paused = true)]
async fn an_attempt_after_a_wait_ends_at_the_deadline() {
    let (server, start) = (Stub::new([reply(503).ra(4), hang()]), Instant::now());
    let error = server
        .with(exact().total_deadline(secs(10)))
        .get(ORDERS)
        .send()
        .await
        .unwrap_err();
    assert!(is_timeout(&error));
    assert_eq!((start.elapsed(), server.n()), (secs(10), 2));
}

/// F5: a deadline that is exactly used up leaves nothing for another send.
#[tokio::test(start_paused = true)]
async fn a_deadline_used_up_exactly_sends_no_more() {
    let server = Stub::new([reply(503).after(secs(4))]);
    let response = server
        .with(exact().total_deadline(secs(5)))
        .get(ORDERS)
        .send()
        .await
        .unwrap();
    assert_eq!(server.n(), 1);
    assert_eq!(Outcome::of(&response).unwrap().stop(), StopReason::DeadlinePassed);
}

/// `max_retry_time` begins no wait that ends later, and cuts no attempt in flight.
#[tokio::test(start_paused = true)]
async fn max_retry_time_cuts_no_attempt() {
    let server = Stub::new([reply(503), reply(200).after(secs(100))]);
    let response = server
        .with(exact().max_retry_time(secs(3)))
        .get(ORDERS)
        .send()
        .await
        .unwrap();
    assert_eq!((response.status().as_u16(), server.n()), (200, 2));

    let server = Stub::new([reply(503)]);
    let response = server
        .with(exact().max_retry_time(secs(3)))
        .get(ORDERS)
        .send()
        .await
        .unwrap();
    assert_eq!(server.times(), [secs(0), secs(1), secs(3)]);
    assert_eq!(Outcome::of(&response).unwrap().stop(), StopReason::RetryTimeSpent);
}

/// It runs from the first send: a slow first attempt leaves less for the waits.
#[tokio::test(start_paused = true)]
async fn max_retry_time_counts_the_attempts_too() {
    let server = Stub::new([reply(503).after(secs(3))]);
    let response = server
        .with(exact().max_retry_time(secs(4)))
        .get(ORDERS)
        .send()
        .await
        .unwrap();
    assert_eq!(server.times(), [secs(0), secs(4)]);
    assert_eq!(Outcome::of(&response).unwrap().elapsed(), secs(7));
}

/// Limits that lie beyond what a clock can tell are none.
#[tokio::test(start_paused = true)]
async fn absurd_limits_do_no_harm() {
    let policy = exact()
        .max_retry_time(Duration::MAX)
        .total_deadline(Duration::MAX)
        .attempt_timeout(Duration::MAX)
        .max_attempts(u32::MAX);
    let server = Stub::new([reply(503), reply(200)]);
    assert_eq!(server.with(policy).get(ORDERS).send().await.unwrap().status(), 200);

    let nothing = exact().total_deadline(Duration::ZERO);
    let server = Stub::new([hang()]);
    assert!(is_timeout(&server.with(nothing).get(ORDERS).send().await.unwrap_err()));
}

/// F8: pause, pace, permit and attempts share the one deadline of a call, and a pause that does not fit is not begun.
#[tokio::test(start_paused = true)]
async fn a_pause_past_the_deadline_fails_at_once() {
    let server = Stub::new([reply(429).ra(10), reply(200)]);
    let account = Account::default();
    let paused = spawned(&server.sharing(&account, exact()), "m");
    tokio::time::sleep(millis(10)).await;
    let hurried = server.sharing(&account, exact().total_deadline(secs(3)));
    let start = Instant::now();
    let error = chat(&hurried, "m").await.unwrap_err();
    assert!(start.elapsed() < millis(1));
    let outcome = Outcome::of_error(&error).unwrap();
    assert_eq!((outcome.stop(), outcome.sends()), (StopReason::PausedPastDeadline, 0));
    let left = outcome
        .retry_at()
        .unwrap()
        .duration_since(std::time::SystemTime::now())
        .unwrap();
    assert!(left > secs(9) && left <= secs(10), "{left:?}");
    assert!(paused.await.unwrap().is_ok());
}

/// F8: one that waits already, and then learns of such a pause, does not wait until its time has come.
#[tokio::test(start_paused = true)]
async fn a_pause_that_begins_during_a_wait_ends_it() {
    let server = Stub::new([reply(429).ra(100).after(secs(2)), reply(200)]);
    let account = Account::builder().max_concurrency(1).build().unwrap();
    let first = spawned(&server.sharing(&account, exact()), "m");
    tokio::time::sleep(millis(10)).await;
    let hurried = server.sharing(&account, exact().total_deadline(secs(60)));
    let start = Instant::now();
    let calls: Vec<_> = (0..5).map(|_| spawned(&hurried, "m")).collect();
    for call in calls {
        assert_eq!(stop(&call.await.unwrap()), StopReason::PausedPastDeadline);
    }
    assert!(start.elapsed() < secs(3), "{:?}", start.elapsed());
    drop(first);
}

/// F8: the attempt after a wait in the queue gets what is left of the deadline.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_turn_uses_up_the_deadline() {
    let server = Stub::new([reply(200), hang()]);
    let account = Account::builder().requests_per_minute(20).build().unwrap();
    let client = server.sharing(&account, exact().total_deadline(secs(5)));
    let start = Instant::now();
    chat(&client, "m").await.unwrap();
    let error = chat(&client, "m").await.unwrap_err();
    assert!(is_timeout(&error));
    assert_eq!(start.elapsed(), secs(5));
    let outcome = Outcome::of_error(&error).unwrap();
    assert_eq!((outcome.stop(), outcome.sends()), (StopReason::DeadlinePassed, 1));
    assert!(
        outcome.waited() >= secs(3) && outcome.elapsed() == secs(5),
        "{outcome:?}"
    );
}
