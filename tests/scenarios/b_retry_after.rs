//! The server's delay is a floor: waited, spread out, never shortened, and never slept when it does not fit.

use std::time::{Duration, SystemTime};

use reqwest_ai_retry::{Account, Backoff, DelaySource, Jitter, Outcome, RetryMiddleware, RetryPolicy, StopReason};

use crate::stub::{CHAT, ORDERS, PROMPT, Stub, crowd, exact, millis, reply, secs, spawned};

fn cap(limit: Duration) -> RetryPolicy {
    exact().max_retry_time(limit)
}

/// B1, B22: the delay reaches the wait, and a spread comes on top of it.
#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_as_a_minimum() {
    let server = Stub::new([reply(429).ra(7), reply(200)]);
    let response = server.with(exact()).get(ORDERS).send().await.unwrap();
    let times = server.times();
    assert!(times[1] >= secs(7) && times[1] <= millis(7700), "{times:?}");
    let outcome = Outcome::of(&response).unwrap();
    assert_eq!(
        (outcome.stop(), outcome.sends(), outcome.waited()),
        (StopReason::Succeeded, 2, times[1])
    );
    let delay = outcome.attempts()[0].verdict().unwrap().server_delay().unwrap();
    assert_eq!((delay.duration(), delay.source()), (secs(7), DelaySource::RetryAfter));
}

/// B2, B3, B12: around the cap. One second over is not cut down to fit: the call ends and says when to come back.
#[tokio::test(start_paused = true)]
async fn hint_over_the_cap_stops_without_sending() {
    for (hint, n) in [(59, 2), (60, 2), (61, 1)] {
        let server = Stub::new([reply(429).ra(hint), reply(200)]);
        let before = SystemTime::now();
        let response = server.with(cap(secs(60))).get(ORDERS).send().await.unwrap();
        assert_eq!(server.n(), n, "{hint}");
        if n == 1 {
            let outcome = Outcome::of(&response).unwrap();
            assert_eq!(outcome.stop(), StopReason::DelayPastDeadline);
            assert_eq!(outcome.waited(), Duration::ZERO);
            assert_eq!(outcome.verdict().unwrap().server_delay().unwrap().duration(), secs(61));
            assert!(outcome.retry_at().unwrap() >= before + secs(61));
        }
    }
}

/// B4, B16: zero is a value, and the floor holds against it.
#[tokio::test(start_paused = true)]
async fn retry_after_zero_is_neither_missing_nor_at_once() {
    let half = Backoff::exponential(millis(500)).jitter(Jitter::None);
    let server = Stub::new([reply(429).ra(0), reply(200)]);
    server
        .with(RetryPolicy::default().backoff(half))
        .get(ORDERS)
        .send()
        .await
        .unwrap();
    assert!(server.times()[1] >= millis(500));

    let server = Stub::new([reply(429).ra(0)]);
    let hot = RetryPolicy::default()
        .backoff(Backoff::constant(Duration::ZERO))
        .total_deadline(secs(1));
    server.with(hot).get(ORDERS).send().await.unwrap();
    assert_eq!(server.n(), 5);
    assert!(
        server.times().windows(2).all(|pair| pair[1] - pair[0] >= millis(50)),
        "{:?}",
        server.times()
    );
}

/// B5, B7: nothing is slept that does not fit.
#[tokio::test(start_paused = true)]
async fn an_hour_or_a_day_is_reported_not_slept() {
    for (hint, policy) in [(3600, exact()), (86_400, exact().total_deadline(secs(5)))] {
        let server = Stub::new([reply(503).ra(hint), reply(200)]);
        let start = tokio::time::Instant::now();
        let response = server.with(policy).get(ORDERS).send().await.unwrap();
        assert!(start.elapsed() < millis(50));
        assert_eq!((response.status().as_u16(), server.n()), (503, 1));
        let outcome = Outcome::of(&response).unwrap();
        assert_eq!(
            outcome.verdict().unwrap().server_delay().unwrap().duration(),
            secs(hint)
        );
        assert!(outcome.retry_at().is_some());
    }
}

/// B6: any number of digits.
#[tokio::test(start_paused = true)]
async fn a_number_beyond_all_bounds_stops() {
    for hint in ["9999999999999", "99999999999999999999", "1".repeat(400).as_str()] {
        let server = Stub::new([reply(503).ra(hint), reply(200)]);
        server
            .with(exact().max_retry_time(Duration::MAX).total_deadline(secs(90)))
            .get(ORDERS)
            .send()
            .await
            .unwrap();
        assert_eq!(server.n(), 1, "{hint}");
    }
}

/// B8, B10: what is past or unreadable falls back to the backoff; neither fails the call.
#[tokio::test(start_paused = true)]
async fn past_and_unreadable_hints_mean_the_normal_backoff() {
    for hint in [
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "-1",
        "²",
        "",
        "5;",
        "NaN",
        "inf",
        "soon",
    ] {
        let server = Stub::new([reply(429).ra(hint), reply(200)]);
        let policy = exact().backoff(Backoff::exponential(secs(2)).jitter(Jitter::None));
        server.with(policy).get(ORDERS).send().await.unwrap();
        assert!(
            server.n() == 2 && server.times()[1] >= secs(2) && server.times()[1] <= millis(2250),
            "{hint:?}"
        );
    }
}

/// B11: the cap is the caller's to set.
#[tokio::test(start_paused = true)]
async fn a_higher_cap_waits_longer_hints() {
    let server = Stub::new([reply(429).ra(200), reply(200)]);
    server.with(cap(secs(300))).get(ORDERS).send().await.unwrap();
    assert!(server.times()[1] >= secs(200));
}

/// B13: a short hint does not shorten a longer backoff.
#[tokio::test(start_paused = true)]
async fn the_larger_of_hint_and_backoff_counts() {
    let server = Stub::new([reply(429).ra(1), reply(200)]);
    let policy = RetryPolicy::default().backoff(Backoff::exponential(secs(8)).jitter(Jitter::None));
    server.with(policy).get(ORDERS).send().await.unwrap();
    assert!(server.times()[1] >= secs(8));
}

/// The spread on top of a hint: positive, at most a tenth of it (250 ms and 5 s at the ends), different from call to call.
#[tokio::test(start_paused = true)]
async fn a_crowd_told_one_moment_does_not_come_back_as_one_wave() {
    let mut spread = Vec::new();
    for seed in 0..40 {
        let server = Stub::new([reply(429).ra(20), reply(200)]);
        let retry = RetryMiddleware::builder().policy(cap(secs(20))).seed(seed).build();
        server.under([retry]).get(ORDERS).send().await.unwrap();
        spread.push(server.times()[1]);
    }
    assert!(spread.iter().all(|at| (secs(20)..=secs(22)).contains(at)), "{spread:?}");
    assert!(
        *spread.iter().max().unwrap() - *spread.iter().min().unwrap() > secs(1),
        "{spread:?}"
    );
}

/// B17: no `Retry-After`, but the reset of the bucket that is empty; a reset of one that is not says nothing.
#[tokio::test(start_paused = true)]
async fn reset_of_the_exhausted_bucket_is_a_hint() {
    let now = jiff::Timestamp::from_second(1_900_000_000).unwrap();
    let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + secs(1_900_000_000));
    for (remaining, least, most) in [(0, secs(4), millis(4400)), (7, secs(1), secs(1))] {
        let limited = reply(429)
            .header("date", &date)
            .header("anthropic-ratelimit-tokens-remaining", remaining)
            .header("anthropic-ratelimit-tokens-reset", now + secs(4));
        let server = Stub::new([limited, reply(200)]);
        server.with(exact()).get(ORDERS).send().await.unwrap();
        assert!(
            (least..=most + millis(5)).contains(&server.times()[1]),
            "{remaining}: {:?}",
            server.times()
        );
    }
}

/// B18, B19, B20: the delay stands in the body only.
#[tokio::test(start_paused = true)]
async fn hints_in_the_body_are_read() {
    let bodies = [
        (
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Quota exceeded","details":[
               {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"45.837906927s"}]}}"#,
            millis(45_838),
        ),
        (
            r#"{"error":{"message":"Rate limit reached. Please try again in 1.152s.","code":"rate_limit_exceeded"}}"#,
            millis(1152),
        ),
        (
            r#"{"error":{"message":"slow","type":"rate_limit_error","retry_after":10}}"#,
            secs(10),
        ),
    ];
    for (body, least) in bodies {
        let server = Stub::new([reply(429).json(body), reply(200)]);
        server.with(exact()).post(CHAT).body(PROMPT).send().await.unwrap();
        let at = server.times()[1];
        assert!(
            at >= least && at <= least + (least / 10).max(millis(250)),
            "{body}: {at:?}"
        );
    }
}

/// B24: an HTTP-date counts from the answer's own `Date`, however wrong our clock is.
#[tokio::test(start_paused = true)]
async fn an_http_date_counts_from_the_answers_own_date() {
    let there = SystemTime::now() - secs(3600);
    let (date, then) = (httpdate::fmt_http_date(there), httpdate::fmt_http_date(there + secs(3)));
    let server = Stub::new([reply(503).header("date", date).ra(then), reply(200)]);
    server.with(exact()).get(ORDERS).send().await.unwrap();
    assert!(
        (secs(3)..=millis(3300)).contains(&server.times()[1]),
        "{:?}",
        server.times()
    );
}

/// B9: a later and smaller word, or none that makes sense, does not bring the others back earlier.
#[tokio::test(start_paused = true)]
async fn a_shared_pause_is_never_moved_earlier() {
    for (smaller, account) in [
        ("-5", Account::default()),
        ("1", Account::builder().build().unwrap()),
        ("0", Account::default()),
    ] {
        let script = [
            reply(429).ra(10).after(millis(1)),
            reply(429).ra(smaller).after(secs(1)),
            reply(200),
        ];
        let server = Stub::new(script);
        let client = server.sharing(&account, exact());
        let calls = [spawned(&client, "m"), spawned(&client, "m")];
        tokio::time::sleep(secs(2)).await;
        let third = spawned(&client, "m");
        for call in calls.into_iter().chain([third]) {
            assert_eq!(call.await.unwrap().unwrap().status(), 200);
        }
        let times = server.times();
        assert_eq!(times.len(), 5);
        assert!(times[2..].iter().all(|at| *at >= secs(10)), "{smaller}: {times:?}");
    }
}

/// A hundred that are told the same time at once, each with an account of its own, or all with the same one.
async fn wave(policy: RetryPolicy, shared: Option<Account>) -> Vec<Duration> {
    let seen = std::sync::atomic::AtomicUsize::new(0);
    let server = Stub::by(move |_| {
        let first = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 100;
        if first {
            reply(429).ra(5).after(millis(50))
        } else {
            reply(200)
        }
    });
    match shared {
        Some(account) => drop(crowd(&server.sharing(&account, policy), 100).await),
        None => {
            let calls: Vec<_> = (0..100).map(|_| spawned(&server.with(policy.clone()), "m")).collect();
            for call in calls {
                call.await.unwrap().unwrap();
            }
        }
    }
    server.times().split_off(100)
}

/// B14: no wave comes back at the moment that all were told.
#[tokio::test(start_paused = true)]
async fn a_crowd_is_spread_on_top_of_the_hint() {
    for shared in [
        None,
        Some(Account::default()),
        Some(Account::builder().build().unwrap()),
    ] {
        let times = wave(exact(), shared).await;
        let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert_eq!(times.len(), 100);
        assert!(*first >= secs(5) && *last - *first >= millis(400), "{first:?} {last:?}");
    }
}

/// B15: a hint that is all the time there is still gets its spread.
#[tokio::test(start_paused = true)]
async fn a_hint_equal_to_the_cap_is_spread_too() {
    let times = wave(cap(millis(5_050)), None).await;
    assert_eq!(times.len(), 100);
    assert!(*times.iter().min().unwrap() >= millis(5_050));
    assert!(*times.iter().max().unwrap() > millis(5_350));
}
