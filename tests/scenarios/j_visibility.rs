//! What was done can be seen, by the caller and by who looks on.

use std::sync::{Arc, Mutex};

use http::Extensions;
use reqwest_ai_retry::{Event, GiveUp, Outcome, RetryError, RetryMiddleware, StopReason};
use reqwest_middleware::Error;

use crate::stub::{CHAT, ORDERS, PROMPT, Stub, exact, reply, secs};

/// J2: the count is on the `Ok`; a plain success carries nothing.
#[tokio::test(start_paused = true)]
async fn outcome_is_on_the_response_and_in_the_extensions() {
    let server = Stub::new([reply(429), reply(429).ra(2), reply(200)]);
    let client = server.with(exact());
    let mut extensions = Extensions::new();
    let request = client.get(ORDERS).build().unwrap();
    let response = client.execute_with_extensions(request, &mut extensions).await.unwrap();
    let outcome = Outcome::of(&response).unwrap();
    assert_eq!(
        (outcome.attempts().len(), outcome.sends(), outcome.stop()),
        (3, 3, StopReason::Succeeded)
    );
    assert!(outcome.waited() >= secs(3) && outcome.elapsed() >= outcome.waited());
    assert_eq!(extensions.get::<Outcome>(), Some(outcome));
    assert!(outcome.retry_at().is_none() && outcome.verdict().is_none());

    let plain = Stub::new([reply(200)]);
    let client = plain.with(exact());
    let request = client.get(ORDERS).build().unwrap();
    let response = client.execute_with_extensions(request, &mut extensions).await.unwrap();
    assert!(Outcome::of(&response).is_none());
    assert_eq!((extensions.get::<Outcome>().unwrap().sends(), extensions.len()), (1, 1));
}

/// J3: the text of an error says what happened, and not only that something was retried.
#[tokio::test(start_paused = true)]
async fn give_up_as_an_error_says_why() {
    let body = r#"{"error":{"message":"secret words","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let server = Stub::new([reply(429).json(body)]);
    let error = server
        .with(exact().give_up(GiveUp::Error))
        .post(CHAT)
        .body(PROMPT)
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "gave up after 1 sends on status 429: a quota is used up"
    );
    let ours = RetryError::of(&error).unwrap();
    assert_eq!(
        (ours.status().unwrap().as_u16(), ours.stop()),
        (429, StopReason::QuotaExhausted)
    );

    let server = Stub::new([reply(429).ra(1)]);
    let error = server
        .with(exact().max_attempts(2).give_up(GiveUp::Error))
        .get(ORDERS)
        .send()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Middleware(_)));
    let outcome = Outcome::of_error(&error).unwrap();
    assert_eq!((outcome.sends(), outcome.stop()), (2, StopReason::AttemptsSpent));
    assert!(RetryError::of(&error).unwrap().retry_at().is_some());

    // no loop above repeats a 404, and its body says what to change
    let server = Stub::new([reply(404).json("{}")]);
    let response = server
        .with(exact().give_up(GiveUp::Error))
        .get(ORDERS)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 404);
}

/// J5: attempt, verdict and delay, in their order.
#[tokio::test(start_paused = true)]
async fn observer_sees_the_whole_call() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    let observer = move |event: &Event<'_>| {
        let line = match event {
            Event::AttemptStarted { attempt, .. } => format!("start {attempt}"),
            Event::AttemptFinished {
                attempt,
                status,
                verdict,
                headers,
                ..
            } => format!(
                "end {attempt} {} {:?} {:?}",
                status.unwrap().as_u16(),
                verdict.map(|verdict| verdict.cause()),
                headers.request_id()
            ),
            Event::Waiting { attempt, wait, .. } => format!("wait {attempt} {}", wait.as_secs()),
            Event::GaveUp { stop, .. } => format!("gave up: {stop}"),
            Event::Recovered { outcome, .. } => format!("recovered {}", outcome.sends()),
            // what becomes of the lane is told too
            Event::RateLearnt { .. } | Event::Paused { .. } | Event::Resumed { .. } => return,
            other => format!("{other:?}"),
        };
        assert_eq!((event.call().host(), event.call().path()), ("127.0.0.1", "/v1/orders"));
        seen.lock().unwrap().push(line);
    };
    let server = Stub::new([reply(429).header("x-request-id", "req-1"), reply(200)]);
    let retry = RetryMiddleware::builder().policy(exact()).observer(observer).build();
    server
        .under([retry])
        .get(format!("{ORDERS}?key=secret"))
        .send()
        .await
        .unwrap();
    let expected = [
        "start 1",
        "end 1 429 Some(RateLimited) Some(\"req-1\")",
        "wait 1 1",
        "start 2",
        "end 2 200 None None",
        "recovered 2",
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}
