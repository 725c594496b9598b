//! An account for a program with a client of its own.

use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::Url;
use reqwest_ai_retry::{Account, Classifier, Cost, Permit, RetryError, Seen, StopReason, Usage};
use tokio::time::{Instant, sleep};

use crate::stub::{millis, secs};

fn report(permit: &mut Permit, status: u16, retry_after: Option<&'static str>, body: &str) {
    let url = Url::parse("https://api.example.com/v1/chat/completions").unwrap();
    let mut headers = HeaderMap::new();
    if let Some(value) = retry_after {
        headers.insert("retry-after", HeaderValue::from_static(value));
    }
    let status = StatusCode::from_u16(status).unwrap();
    let seen = Seen::response(
        &Method::POST,
        &url,
        status,
        &headers,
        body.as_bytes(),
        SystemTime::now(),
    );
    let verdict = Classifier::default().classify(&seen);
    permit.report(&seen, verdict.as_ref());
}

async fn ask(account: &Account) -> Result<Permit, RetryError> {
    account.admit(Cost::new().model("m"), None).await
}

#[tokio::test(start_paused = true)]
async fn a_permit_paces_and_holds_a_place() {
    let account = Account::builder()
        .requests_per_minute(60)
        .max_concurrency(2)
        .build()
        .unwrap();
    let start = Instant::now();
    let (first, second) = (ask(&account).await.unwrap(), ask(&account).await.unwrap());
    assert!(start.elapsed() >= millis(995));
    let deadline = Instant::now() + secs(5);
    let refused = account
        .admit(Cost::new().model("m"), Some(deadline.into_std()))
        .await
        .unwrap_err();
    assert_eq!(refused.stop(), StopReason::QueuePastDeadline);
    assert!(Instant::now() >= deadline, "somebody might have finished");
    drop(first);
    second.settle(Usage::default());
    assert_eq!(account.status().in_flight, 0);
    assert!(ask(&account).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_reported_is_learnt() {
    let account = Account::builder().build().unwrap();
    // what was let pass before anybody spoke can be told of too
    report(&mut ask(&account).await.unwrap(), 429, Some("7"), "");
    let start = Instant::now();
    drop(ask(&account).await.unwrap());
    assert!(start.elapsed() >= secs(7));
    let status = account.status();
    assert_eq!((status.lanes.len(), status.lanes[0].model.as_str()), (1, "m"));

    let account = Account::builder().requests_per_minute(60_000).build().unwrap();
    for _ in 0..6 {
        report(&mut ask(&account).await.unwrap(), 500, None, "");
        sleep(millis(300)).await;
    }
    // nothing got through: one probe at a time, and the others wait for what it reports
    let mut probe = ask(&account).await.unwrap();
    let deadline = Instant::now() + millis(100);
    let refused = account
        .admit(Cost::new().model("m"), Some(deadline.into_std()))
        .await
        .unwrap_err();
    assert_eq!((refused.stop(), Instant::now()), (StopReason::CircuitOpen, deadline));
    assert!(refused.retry_at().is_some());
    let waits = tokio::spawn({
        let account = account.clone();
        async move { ask(&account).await }
    });
    sleep(millis(100)).await;
    assert!(!waits.is_finished());
    report(&mut probe, 200, None, "{}");
    drop(waits.await.unwrap().unwrap());
    report(&mut ask(&account).await.unwrap(), 200, None, "{}");

    let broke = r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    report(&mut ask(&account).await.unwrap(), 429, None, broke);
    assert_eq!(ask(&account).await.unwrap_err().stop(), StopReason::QuotaExhausted);
    sleep(secs(61)).await;
    assert!(ask(&account).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_cannot_be_met_is_told_at_once() {
    let account = Account::builder().requests_per_minute(6).build().unwrap();
    drop(ask(&account).await.unwrap());
    let start = Instant::now();
    let deadline = Instant::now() + secs(5);
    let refused = account
        .admit(Cost::new().model("m"), Some(deadline.into_std()))
        .await
        .unwrap_err();
    assert!(start.elapsed() < millis(1));
    let left = refused.retry_at().unwrap().duration_since(SystemTime::now()).unwrap();
    assert!(left > secs(9) && left < secs(11), "{left:?}");
    assert!(refused.to_string().contains("not sent"), "{refused}");
}
