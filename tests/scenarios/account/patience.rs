//! For how long a call waits, for what, and what it is told when it ends.

use std::time::Duration;

use reqwest_ai_retry::{Account, Outcome, RetryError, RetryPolicy, StopReason};
use reqwest_middleware::{ClientWithMiddleware, Result};
use tokio::time::{Instant, sleep, timeout};

use crate::stub::{Stub, chat, crowd, exact, millis, opened, reply, secs, spawned, stop};

/// M11: a delay that is longer than a call goes on retrying ends it, whether it was told to this call or to one before.
#[tokio::test(start_paused = true)]
async fn a_pause_longer_than_the_retry_time_is_told_to_all_at_once() {
    for account in [Account::default(), Account::builder().build().unwrap()] {
        let server = Stub::new([reply(429).ra(50)]);
        let client = server.sharing(&account, exact().max_retry_time(secs(45)));
        let told = chat(&client, "m").await;
        assert_eq!(stop(&told), StopReason::DelayPastDeadline);
        let error = chat(&client, "m").await.unwrap_err();
        assert!(matches!(RetryError::of(&error), Some(RetryError::Refused { .. })));
        let outcome = Outcome::of_error(&error).unwrap();
        assert_eq!((outcome.stop(), outcome.sends()), (StopReason::PausedPastDeadline, 0));
        let left = outcome
            .retry_at()
            .unwrap()
            .duration_since(std::time::SystemTime::now())
            .unwrap();
        assert!(left > secs(45) && left <= secs(51), "{left:?}");
        assert!((server.start.elapsed(), server.n()) == (Duration::ZERO, 1) || server.start.elapsed() < millis(10));
    }
}

/// M11: a queue that moves is waited for, however long.
#[tokio::test(start_paused = true)]
async fn a_moving_queue_is_waited_for_longer_than_the_retry_time() {
    let server = Stub::new([reply(200)]);
    let account = Account::builder().requests_per_minute(6).build().unwrap();
    let client = server.sharing(&account, exact().max_retry_time(secs(10)));
    assert!(crowd(&client, 20).await.iter().all(Result::is_ok));
    assert!(server.start.elapsed() >= secs(185), "{:?}", server.start.elapsed());

    let server = Stub::new([reply(200).after(secs(20))]);
    let account = Account::builder().max_concurrency(1).build().unwrap();
    let client = server.sharing(&account, exact().max_retry_time(secs(10)));
    assert!(crowd(&client, 5).await.iter().all(Result::is_ok));
}

/// M11: a pause that begins while a fresh call waits its turn ends it too, and so it does one that would still be in time.
#[tokio::test(start_paused = true)]
async fn a_long_pause_ends_those_that_wait_their_turn() {
    for (hint, ends) in [(119, false), (121, true)] {
        let server = Stub::new([reply(429).ra(hint).after(secs(5)), reply(200)]);
        let account = Account::builder().max_concurrency(1).build().unwrap();
        let once = exact().max_attempts(1);
        let client = server.sharing(&account, once.clone());
        let first = spawned(&client, "m");
        sleep(millis(1)).await;
        let waiting: Vec<_> = (0..10).map(|_| spawned(&client, "m")).collect();
        first.await.unwrap().unwrap();
        sleep(millis(1)).await;
        assert!(waiting.iter().all(|call| call.is_finished() == ends), "{hint}");
        for call in waiting {
            let stopped = stop(&call.await.unwrap());
            let expected = if ends {
                StopReason::PausedPastDeadline
            } else {
                StopReason::Succeeded
            };
            assert_eq!(stopped, expected, "{hint}");
        }
    }
}

/// An open breaker, whose end nobody knows, is waited for by a fresh call for as long as it would go on retrying.
#[tokio::test(start_paused = true)]
async fn an_open_breaker_is_waited_for_no_longer_than_the_retry_time() {
    let server = Stub::new([reply(503).json("{}")]);
    let (account, _) = opened(&server, Account::builder().build().unwrap()).await;
    let (sends, start) = (server.n(), Instant::now());
    let client = server.sharing(&account, exact().max_attempts(1).max_retry_time(secs(3)));
    let calls = (0..60u32).map(|call| {
        let client = client.clone();
        async move {
            sleep(call * millis(50)).await;
            let came = Instant::now();
            (chat(&client, "m").await, came.elapsed())
        }
    });
    let (mut probed, mut refused) = (0, 0);
    for (result, took) in futures_util::future::join_all(calls).await {
        match &result {
            Ok(response) => {
                assert_eq!(response.status(), 503);
                probed += 1;
            }
            Err(error) => {
                let outcome = Outcome::of_error(error).unwrap();
                assert_eq!((outcome.stop(), outcome.sends()), (StopReason::CircuitOpen, 0));
                assert!(outcome.retry_at().is_some());
                // looked at a few times a second
                assert!(took >= secs(3) && took <= millis(3_300), "{took:?}");
                refused += 1;
            }
        }
    }
    assert_eq!((probed, refused), (server.n() - sends, 60 - probed));
    assert!((3..=10).contains(&probed), "{probed}");
    assert!(start.elapsed() < millis(6_500));
}

/// A wait for an open breaker uses up no attempt: with one attempt a call is answered after an outage.
#[tokio::test(start_paused = true)]
async fn waiting_uses_up_no_attempt() {
    let server = Stub::by(|sent| if sent.at < secs(9) { reply(503) } else { reply(200) });
    let (account, client) = opened(&server, Account::builder().build().unwrap()).await;
    // the newest probe in vain, and the others keep their only attempt
    let early: Vec<_> = (0..20).map(|_| spawned(&client, "m")).collect();
    sleep(millis(10)).await;
    let _ = account;
    let mut answered = 0;
    for call in early {
        answered += usize::from(call.await.unwrap().unwrap().status() == 200);
    }
    assert!(answered >= 12, "{answered}");
    assert!(server.start.elapsed() < secs(13), "{:?}", server.start.elapsed());
}

/// M15: one refusal at the very start is obeyed, teaches no pace, and costs nobody a call once its pause is over.
#[tokio::test(start_paused = true)]
async fn a_first_refusal_teaches_no_pace() {
    let policies = [
        ("total_deadline", exact().total_deadline(secs(10))),
        ("max_queue_time", exact().max_queue_time(secs(10))),
    ];
    for (what, policy) in policies {
        for (account, idle) in [
            (Account::default(), 0),
            (Account::default(), 100),
            (Account::builder().build().unwrap(), 0),
            (Account::builder().build().unwrap(), 100),
        ] {
            sleep(secs(idle)).await;
            let server = Stub::new([reply(429).ra(20).after(millis(30)), reply(200)]);
            let client = server.sharing(&account, policy.clone());
            let calls = (0..40u32).map(|call| {
                let client = client.clone();
                async move {
                    sleep(call * secs(1)).await;
                    let came = Instant::now();
                    (chat(&client, "m").await, came.elapsed())
                }
            });
            let results = futures_util::future::join_all(calls).await;
            for (call, (result, took)) in results.iter().enumerate().skip(1) {
                // its pause ends at 20.03 s
                if call <= 10 {
                    assert_eq!(stop(result), StopReason::PausedPastDeadline, "{what}, {call}");
                    assert!(*took < millis(1));
                } else {
                    assert_eq!(stop(result), StopReason::Succeeded, "{what}, {call}");
                }
                if call > 25 {
                    assert!(*took < millis(10), "{what}, {call}: {took:?}");
                }
            }
        }
    }
}

/// A server that answers five a second, and refuses the others.
fn five_a_second() -> Stub {
    let (mut level, mut at) = (5.0f64, Duration::ZERO);
    Stub::by(move |sent| {
        level = (level + 5.0 * (sent.at - at).as_secs_f64()).min(5.0);
        at = sent.at;
        if level >= 1.0 {
            level -= 1.0;
            reply(200).after(millis(300))
        } else {
            reply(429).after(millis(30))
        }
    })
}

/// Calls that come at eight a second for two minutes, each of which is given up after ten seconds; how many are answered.
async fn answered(client: &ClientWithMiddleware, drops: bool) -> usize {
    let calls = (0..960u32).map(|call| {
        let client = client.clone();
        async move {
            sleep(call * millis(125)).await;
            let limit = if drops { secs(10) } else { secs(1_000) };
            let result = timeout(limit, chat(&client, "m")).await;
            matches!(result, Ok(Ok(response)) if response.status() == 200)
        }
    });
    let results = futures_util::future::join_all(calls).await;
    results.into_iter().filter(|answered| *answered).count()
}

/// Where more comes than can be served, and callers give up, no fewer are answered than without a layer.
#[tokio::test(start_paused = true)]
async fn an_overload_answers_as_many_as_no_layer() {
    let alone = answered(&five_a_second().with(exact().max_attempts(1)), true).await;
    let built = || Account::builder().requests_per_minute(300).build().unwrap();
    for (name, account) in [
        ("default", Account::default()),
        ("built", built()),
        ("adaptive", Account::adaptive()),
    ] {
        for drops in [false, true] {
            let policy = RetryPolicy::default();
            let policy = if drops { policy } else { policy.total_deadline(secs(10)) };
            let (_, account) = (
                name,
                if drops && name == "built" {
                    built()
                } else {
                    account.clone()
                },
            );
            let with = answered(&five_a_second().sharing(&account, policy), drops).await;
            eprintln!("{name} {drops} {with} {alone}");
            assert!(with as f64 >= 0.95 * alone as f64, "{name}, {drops}: {with} of {alone}");
        }
    }
}
