//! Dropping the future ends everything.

use std::sync::{Arc, Mutex};

use reqwest_ai_retry::{Account, Backoff, BreakerStatus, CircuitBreaker, Event, RetryMiddleware, StopReason};
use tokio::time::{Instant, sleep};

use crate::stub::{
    Item, OPENING, ORDERS, Stub, breaker_of, chat, crowd, exact, hang, millis, opened, reply, secs, spawned, stop,
};

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

fn built() -> Account {
    Account::builder().build().unwrap()
}

fn failing(sends: usize, then: impl IntoIterator<Item = Item>) -> Stub {
    Stub::new(vec![reply(503); sends].into_iter().chain(then))
}

/// G2: a probe that is dropped gives its place to the next caller, whenever it is dropped.
#[tokio::test(start_paused = true)]
async fn a_dropped_probe_returns_its_place() {
    let server = failing(OPENING, [hang(), hang(), reply(200)]);
    let (account, client) = opened(&server, built()).await;
    let fails_fast = server.sharing(&account, exact().fail_fast(true));
    sleep(secs(1)).await;
    for probes in 1..=2 {
        let probe = spawned(&client, "m");
        sleep(millis(100)).await;
        assert_eq!(server.n(), OPENING + probes);
        assert_eq!(stop(&chat(&fails_fast, "m").await), StopReason::CircuitOpen);
        probe.abort();
        assert!(probe.await.unwrap_err().is_cancelled());
    }
    assert_eq!(breaker_of(&account), BreakerStatus::HalfOpen);
    let start = Instant::now();
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert!(start.elapsed() < millis(1));
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!((breaker_of(&account), server.n()), (BreakerStatus::Closed, OPENING + 4));
}

/// G2: one that waits is the next probe at once.
#[tokio::test(start_paused = true)]
async fn a_dropped_probe_is_followed_by_one_that_waits() {
    let server = failing(OPENING, [hang(), reply(200)]);
    let (_, client) = opened(&server, built()).await;
    sleep(secs(1)).await;
    let probe = spawned(&client, "m");
    sleep(millis(10)).await;
    let waiting: Vec<_> = (0..10).map(|_| spawned(&client, "m")).collect();
    sleep(millis(90)).await;
    assert_eq!(server.n(), OPENING + 1);
    let dropped = server.start.elapsed();
    probe.abort();
    drop(probe.await);
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!(server.times()[OPENING + 1], dropped);
}

/// G2: a probe that is in flight for much longer than the failures were has got through, and the others do not wait for its
/// end.
#[tokio::test(start_paused = true)]
async fn a_probe_that_never_reports_holds_nobody() {
    let server = failing(OPENING, [hang(), reply(200)]);
    let (account, client) = opened(&server, built()).await;
    sleep(secs(1)).await;
    let hanging = spawned(&client, "m");
    sleep(millis(10)).await;
    let probed = server.start.elapsed();
    let waits = spawned(&client, "m");
    sleep(millis(200)).await;
    assert_eq!(server.n(), OPENING + 1, "one at a time");
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
    assert!(server.start.elapsed() - probed < millis(300), "{:?}", server.times());
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!(breaker_of(&account), BreakerStatus::Closed);
    hanging.abort();
}

/// G2: where the failures themselves were silences, time shows nothing: a probe without a limit of its own is passed by once it
/// has taken as long as they did.
#[tokio::test(start_paused = true)]
async fn a_probe_into_silence_is_replaced() {
    let server = Stub::by(|sent| if sent.at < secs(60) { hang() } else { reply(200) });
    let account = built();
    let client = server.sharing(&account, exact().max_attempts(1).attempt_timeout(secs(2)));
    crowd(&client, 10).await;
    crowd(&client, 10).await;
    assert_eq!(breaker_of(&account), BreakerStatus::Open);
    let sends = server.n();
    let results = crowd(
        &server.sharing(&account, exact().attempt_timeout(secs(2)).max_attempts(20)),
        10,
    )
    .await;
    assert!(results.iter().all(|result| result.as_ref().unwrap().status() == 200));
    assert!(server.start.elapsed() < secs(68), "{:?}", server.start.elapsed());
    // one probe in flight for all that time
    let times = server.times();
    let probes: Vec<_> = times[sends..].iter().filter(|at| **at < secs(60)).collect();
    assert!(
        probes.windows(2).all(|pair| *pair[1] - *pair[0] >= secs(2)),
        "{probes:?}"
    );
}

/// G3: of a crowd at the half-open circuit exactly one passes, and the others follow once it is answered.
#[tokio::test(start_paused = true)]
async fn exactly_one_probe_passes() {
    let server = failing(OPENING, [reply(200).after(millis(200))]);
    let (account, client) = opened(&server, built()).await;
    sleep(secs(1)).await;
    let probed = server.start.elapsed();
    let waiting: Vec<_> = (0..50).map(|_| spawned(&client, "m")).collect();
    sleep(millis(199)).await;
    assert_eq!(server.n(), OPENING + 1);
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    // two at first, and twice as many with each round trip
    let times = server.times();
    let by = |round: u32| {
        times
            .iter()
            .filter(|at| **at < probed + round * millis(200) + millis(199))
            .count()
            - OPENING
    };
    assert_eq!([0, 1, 2, 3, 4].map(by), [1, 3, 7, 15, 31]);
    assert_eq!(times.len(), OPENING + 50);
    assert_eq!(breaker_of(&account), BreakerStatus::Closed);
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

/// G5: failures of calls that began before the circuit opened do not decide its probe, nor the time after it.
#[tokio::test(start_paused = true)]
async fn late_failures_of_earlier_calls_are_ignored() {
    let mut script = vec![reply(503).after(secs(3)); 10];
    script.extend(vec![reply(503); OPENING]);
    script.push(reply(200).after(millis(240)));
    let server = Stub::new(script);
    let account = built();
    let client = server.sharing(&account, exact().max_attempts(1));
    let early: Vec<_> = (0..10).map(|_| spawned(&client, "m")).collect();
    sleep(millis(10)).await;
    opened(&server, account.clone()).await;
    sleep(server.start + millis(2_900) - Instant::now()).await;
    // it is on its way when the ten fail
    let probe = spawned(&client, "m");
    for call in early {
        assert_eq!(call.await.unwrap().unwrap().status(), 503);
    }
    assert!(!probe.is_finished());
    assert_eq!(breaker_of(&account), BreakerStatus::HalfOpen);
    let start = Instant::now();
    let waits = spawned(&client, "m");
    assert_eq!(probe.await.unwrap().unwrap().status(), 200);
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
    assert!(start.elapsed() < millis(400), "{:?}", start.elapsed());
    assert_eq!(breaker_of(&account), BreakerStatus::Closed);
}

/// G1: a retry is paid for when it is made: one that is dropped in its wait costs nothing, whatever it waited for.
#[tokio::test(start_paused = true)]
async fn a_retry_that_is_not_made_costs_nothing() {
    let server = Stub::new([reply(503)]);
    let account = Account::builder()
        .circuit_breaker(CircuitBreaker::off())
        .build()
        .unwrap();
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

    // an empty budget, for which they wait
    let eager = server.sharing(
        &account,
        exact().max_attempts(1_000).backoff(Backoff::constant(millis(1))),
    );
    let calls: Vec<_> = (0..4).map(|_| spawned(&eager, "m")).collect();
    sleep(secs(1)).await;
    assert_eq!((server.n(), account.status().lanes[0].waiting), (124, 4));
    calls.iter().for_each(|call| call.abort());
    sleep(secs(20)).await;
    let left = account.status().lanes[0].retries_left;
    assert!(
        (10.0..=10.5).contains(&left),
        "time alone refills it by one in two seconds: {left}"
    );
}
