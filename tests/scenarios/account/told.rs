//! What becomes of a lane is told when it is seen, with the call that showed it.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use reqwest_ai_retry::{Account, Event, RetryMiddleware, StopReason};
use reqwest_middleware::ClientWithMiddleware;
use tokio::time::sleep;

use crate::stub::{Stub, chat, crowd, exact, millis, reply, secs, spawned, stop};

const BROKE: &str = r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#;

/// What was told of a lane, and who waited, a line each.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn client(&self, server: &Stub, account: &Account) -> ClientWithMiddleware {
        let told = self.clone();
        let observer = move |event: &Event<'_>| {
            let left = |until: &Option<SystemTime>| {
                let left = until.unwrap().duration_since(SystemTime::now()).unwrap();
                left.as_secs_f64().round()
            };
            let line = match event {
                Event::Queued { attempt, .. } => format!("queued for {attempt}"),
                Event::QuotaHeld { lane, until, .. } => format!("{} held for {}", lane.model(), left(until)),
                Event::QuotaReleased { lane, .. } => format!("{} released", lane.model()),
                Event::RateLearnt { starts_per_minute, .. } => format!("{starts_per_minute:.0} a minute"),
                Event::CeilingLearnt { in_flight, .. } => format!("{in_flight} in flight"),
                _ => return,
            };
            told.0.lock().unwrap().push(line);
        };
        let retry = RetryMiddleware::builder().policy(exact()).account(account.clone());
        server.under([retry.observer(observer).build()])
    }

    /// What was told since this was last asked.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A hold begins, begins again when the probe finds it as it was, and ends with a probe that goes well; the status shows it
/// all the while.
#[tokio::test(start_paused = true)]
async fn a_hold_and_its_end_are_told() {
    let script = [
        reply(429).json(BROKE),
        reply(429).json(BROKE).after(secs(5)),
        reply(500),
        reply(200).after(secs(5)),
        reply(200),
    ];
    let server = Stub::new(script);
    let (told, account) = (Told::default(), Account::builder().build().unwrap());
    let client = told.client(&server, &account);
    let is_held = || account.status().lanes[0].held_until.is_some();
    for _ in 0..3 {
        assert_eq!(stop(&chat(&client, "m").await), StopReason::QuotaExhausted);
    }
    // those that are answered from memory change nothing
    assert_eq!((server.n(), told.take()), (1, vec!["m held for 60".to_owned()]));

    sleep(secs(61)).await;
    assert!(!is_held());
    let probe = spawned(&client, "m");
    sleep(millis(10)).await;
    assert!(is_held(), "by its probe");
    assert_eq!(stop(&probe.await.unwrap()), StopReason::QuotaExhausted);
    assert_eq!((server.n(), told.take()), (2, vec!["m held for 60".to_owned()]));
    assert!(is_held());

    // a probe that meets a fault is followed by another
    sleep(secs(61)).await;
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!((server.n(), told.take()), (4, vec!["m released".to_owned()]));
    assert!(!is_held());
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!((server.n(), told.take()), (5, vec![]));
}

/// A call that is sent at once was not queued; a retry may be as well as a first attempt.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_their_turn_are_told() {
    let server = Stub::new([reply(503), reply(200)]);
    let (told, account) = (
        Told::default(),
        Account::builder().requests_per_minute(20).build().unwrap(),
    );
    let client = told.client(&server, &account);
    // its retry comes two seconds before its slot
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    let queued = || {
        told.take()
            .into_iter()
            .filter(|line| line.starts_with("queued"))
            .collect::<Vec<_>>()
    };
    assert_eq!((server.n(), queued()), (2, vec!["queued for 2".to_owned()]));
    sleep(secs(10)).await;
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!((server.n(), queued()), (3, vec![]));
    crowd(&client, 2).await;
    assert_eq!((server.n(), queued()), (5, vec!["queued for 1".to_owned(); 2]));
}

/// Headers tell a rate, a refusal for growing too fast halves it, and peace brings it back.
#[tokio::test(start_paused = true)]
async fn a_rate_is_told_when_it_changes() {
    let growth = r#"{"error":{"message":"Slow down: your traffic has grown too fast.","type":"rate_limit_error","code":"slow_down"}}"#;
    let limited = reply(200)
        .header("x-ratelimit-limit-requests", 60)
        .header("x-ratelimit-remaining-requests", 59)
        .header("x-ratelimit-reset-requests", "1s");
    let mut script = vec![limited, reply(200), reply(429).ra(1).json(growth)];
    script.extend(vec![reply(200); 1_000]);
    let server = Stub::new(script);
    let (told, account) = (Told::default(), Account::adaptive());
    let client = told.client(&server, &account);
    let rates = || {
        let told = told.take().into_iter();
        let rates = told.filter_map(|line| line.strip_suffix(" a minute")?.parse::<f64>().ok());
        rates.collect::<Vec<_>>()
    };
    chat(&client, "m").await.unwrap();
    let from_headers = rates();
    assert!(
        matches!(from_headers[..], [rate] if (50.0..=60.0).contains(&rate)),
        "{from_headers:?}"
    );
    chat(&client, "m").await.unwrap();
    assert_eq!((server.n(), rates()), (2, vec![]));
    chat(&client, "m").await.unwrap();
    let halved = rates();
    assert_eq!(server.n(), 4);
    assert!(
        matches!(halved[..], [rate] if (25.0..=30.0).contains(&rate)),
        "{halved:?}"
    );
    for _ in 0..200 {
        chat(&client, "m").await.unwrap();
    }
    let raised = rates();
    assert_eq!(server.n(), 204);
    assert!(
        !raised.is_empty() && raised.is_sorted() && raised[0] > halved[0],
        "{raised:?}"
    );
    assert!(raised.len() < 20, "not with each answer: {raised:?}");
}

/// A refusal tells the ceiling, and the time without one raises it.
#[tokio::test(start_paused = true)]
async fn a_ceiling_is_told_when_it_changes() {
    let crowded = r#"{"error":{"message":"Too many concurrent requests","type":"rate_limit_error","code":"concurrency_limit_exceeded"}}"#;
    let mut script = vec![reply(200).after(secs(1)), reply(429).ra(1).json(crowded)];
    script.extend(vec![reply(200).after(secs(1)); 100]);
    let server = Stub::new(script);
    let (told, account) = (Told::default(), Account::builder().build().unwrap());
    let client = told.client(&server, &account);
    crowd(&client, 2).await;
    let ceilings = || {
        let told = told.take().into_iter();
        told.filter(|line| line.ends_with("in flight")).collect::<Vec<_>>()
    };
    assert_eq!((server.n(), ceilings()), (3, vec!["1 in flight".to_owned()]));
    crowd(&client, 20).await;
    assert_eq!(server.n(), 23);
    assert_eq!(ceilings().first().map(String::as_str), Some("2 in flight"));
}
