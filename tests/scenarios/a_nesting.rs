//! Retries multiply when one layer does not know of the other.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use http::Extensions;
use reqwest::Response;
use reqwest_ai_retry::{Event, GiveUp, Outcome, RetryMiddleware, RetryPolicy, StopReason};

use crate::stub::{CHAT, ORDERS, Stub, exact, hang, reply, secs};

fn with_retries(retries: u32) -> RetryMiddleware {
    RetryMiddleware::new(exact().max_attempts(retries + 1))
}

fn outcome(response: &Response) -> &Outcome {
    Outcome::of(response).expect("a response that was given up on carries its outcome")
}

/// A2, A3: (1 + 2)² = 9 sends elsewhere.
#[tokio::test(start_paused = true)]
async fn two_layers_send_what_the_outer_one_says() {
    let server = Stub::new([reply(503)]);
    let waits = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&waits);
    let outer = RetryMiddleware::builder()
        .policy(exact().max_attempts(3))
        .observer(move |event: &Event<'_>| {
            seen.fetch_add(matches!(event, Event::Waiting { .. }).into(), Ordering::Relaxed);
        });

    let response = server
        .under([outer.build(), with_retries(2)])
        .get(ORDERS)
        .send()
        .await
        .unwrap();

    assert_eq!((response.status().as_u16(), server.n()), (503, 3));
    assert_eq!(outcome(&response).sends(), 3);
    assert_eq!(outcome(&response).attempts().len(), 3);
    assert_eq!(outcome(&response).stop(), StopReason::AttemptsSpent);
    assert_eq!(waits.load(Ordering::Relaxed), 2, "the waits are told once each");
}

/// A4, A7: any depth collapses to the outermost owner.
#[tokio::test(start_paused = true)]
async fn three_layers_are_one() {
    let server = Stub::new([reply(429)]);
    let response = server
        .under([with_retries(3), with_retries(7), with_retries(7)])
        .get(ORDERS)
        .send()
        .await
        .unwrap();
    assert_eq!((server.n(), outcome(&response).sends()), (4, 4));
}

/// A2: an inner layer that turns its failures into errors would end the outer one's retries.
#[tokio::test(start_paused = true)]
async fn nested_layer_gives_responses_back_and_says_nested() {
    let server = Stub::new([reply(503), reply(503), reply(200)]);
    let stops = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&stops);
    let inner = RetryMiddleware::builder()
        .policy(exact().give_up(GiveUp::Error))
        .observer(move |event: &Event<'_>| {
            if let Event::GaveUp { stop, .. } = event {
                seen.lock().unwrap().push(*stop);
            }
        })
        .build();

    let response = server.under([with_retries(4), inner]).get(ORDERS).send().await.unwrap();

    assert_eq!((response.status().as_u16(), server.n()), (200, 3));
    assert!(!response.headers().contains_key("x-should-retry"));
    assert_eq!(*stops.lock().unwrap(), [StopReason::Nested, StopReason::Nested]);
}

/// A2: the marker must go when the call does, or the next call with the same extensions is never retried.
#[tokio::test(start_paused = true)]
async fn extensions_used_again_serve_another_call() {
    let server = Stub::new([reply(503), reply(200)]);
    let client = server.with(exact());
    let mut extensions = Extensions::new();
    let request = || client.get(ORDERS).build().unwrap();

    let _ = tokio::time::timeout(secs(1) / 2, client.execute_with_extensions(request(), &mut extensions))
        .await
        .unwrap_err();
    assert_eq!(extensions.get::<Outcome>().unwrap().stop(), StopReason::Cancelled);
    assert_eq!(server.n(), 1);

    let server = Stub::new([reply(503), reply(200)]);
    let client = server.with(exact());
    let response = client
        .execute_with_extensions(request(), &mut extensions)
        .await
        .unwrap();
    assert_eq!((response.status().as_u16(), server.n()), (200, 2));
    assert_eq!(extensions.get::<Outcome>().unwrap().stop(), StopReason::Succeeded);
}

/// A1: a layer above that passes the same extensions on and tries another key asks for something else.
#[tokio::test(start_paused = true)]
async fn repeat_with_another_credential_is_another_request() {
    let server = Stub::by(|sent| {
        reply(if sent.headers["authorization"] == "Bearer b" {
            200
        } else {
            429
        })
    });
    let client = server.with(exact().max_attempts(3));
    let mut extensions = Extensions::new();
    for (key, status, sends) in [("a", 429, 3), ("a", 429, 3), ("b", 200, 4)] {
        let request = client.get(ORDERS).bearer_auth(key).build().unwrap();
        let response = client.execute_with_extensions(request, &mut extensions).await.unwrap();
        assert_eq!((response.status().as_u16(), server.n()), (status, sends));
    }
}

/// A2: what is told to send once leaves the retries to the layer above, also after a call that did not.
#[tokio::test(start_paused = true)]
async fn one_send_of_ours_leaves_the_next_to_the_layer_above() {
    let server = Stub::new([reply(503)]);
    let (retries, once) = (
        server.with(exact().max_attempts(2)),
        server.with(exact().max_attempts(1)),
    );
    let mut extensions = Extensions::new();
    let first = retries.get(CHAT).build().unwrap();
    retries.execute_with_extensions(first, &mut extensions).await.unwrap();
    for sends in [3, 4] {
        let other = once.get(ORDERS).build().unwrap();
        once.execute_with_extensions(other, &mut extensions).await.unwrap();
        assert_eq!(server.n(), sends);
    }
}

/// A6: a cap of three retries is four sends, and the waits are 1, 2 and 4 s.
#[tokio::test(start_paused = true)]
async fn cap_counts_sends_and_first_wait_is_the_base() {
    let server = Stub::new([reply(429)]);
    server.with(exact().max_attempts(4)).get(ORDERS).send().await.unwrap();
    assert_eq!(server.times(), [secs(0), secs(1), secs(3), secs(7)]);
}

/// A8: a proxy that has retried already says so.
#[tokio::test(start_paused = true)]
async fn should_retry_header_is_obeyed_both_ways() {
    let server = Stub::new([reply(503).header("x-should-retry", "false"), reply(200)]);
    let response = server.with(exact()).get(ORDERS).send().await.unwrap();
    assert_eq!((response.status().as_u16(), server.n()), (503, 1));
    assert_eq!(outcome(&response).stop(), StopReason::ServerSaidStop);

    let server = Stub::new([reply(400).header("x-should-retry", "true"), reply(200)]);
    let response = server.with(exact()).get(ORDERS).send().await.unwrap();
    assert_eq!((response.status().as_u16(), server.n()), (200, 2));
}

/// A9: no retries means one send on every path.
#[tokio::test(start_paused = true)]
async fn zero_retries_is_one_send_on_every_path() {
    for attempts in [0, 1] {
        let policy = RetryPolicy::default().max_attempts(attempts).attempt_timeout(secs(3));
        let server = Stub::new([reply(503)]);
        let response = server.with(policy.clone()).get(ORDERS).send().await.unwrap();
        assert_eq!((outcome(&response).stop(), server.n()), (StopReason::AttemptsSpent, 1));

        let server = Stub::new([hang()]);
        server.with(policy.clone()).get(ORDERS).send().await.unwrap_err();
        assert_eq!(server.n(), 1);

        // a port that nobody listens on: nothing reaches a server, and nothing is tried twice
        let sends = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&sends);
        let retry = RetryMiddleware::builder()
            .policy(policy)
            .observer(move |event: &Event<'_>| {
                seen.fetch_add(matches!(event, Event::AttemptStarted { .. }).into(), Ordering::Relaxed);
            });
        let client = RetryMiddleware::client_builder().build().unwrap();
        let client = reqwest_middleware::ClientBuilder::new(client)
            .with(retry.build())
            .build();
        let error = client.get("http://127.0.0.1:1/").send().await.unwrap_err();
        assert!(reqwest_ai_retry::is_connect(&error));
        assert_eq!(sends.load(Ordering::Relaxed), 1);
    }
}

/// A10: a quota window counted in days is handed back at once, with its time.
#[tokio::test(start_paused = true)]
async fn days_of_waiting_come_back_at_once() {
    let server = Stub::new([reply(429).ra(1_382_400), reply(200)]);
    let before = std::time::SystemTime::now();
    let response = server.with(exact()).get(ORDERS).send().await.unwrap();
    assert_eq!(server.n(), 1);
    let retry_at = outcome(&response).retry_at().unwrap();
    assert!(retry_at >= before + secs(1_382_400));
}

/// A caller above that honours `x-should-retry` is told not to do it all again; one answer that it should not be told for
/// is a request that it may well repeat in its own way.
#[tokio::test(start_paused = true)]
async fn loops_above_are_told_not_to_start_again() {
    let word = |response: &Response| {
        let words: Vec<_> = response.headers().get_all("x-should-retry").iter().cloned().collect();
        assert!(words.len() <= 1, "replaced, not appended");
        words.first().map(|word| word.to_str().unwrap().to_owned())
    };
    let spent = Stub::new([reply(429).header("x-should-retry", "true")]);
    assert_eq!(
        word(&spent.with(exact()).get(ORDERS).send().await.unwrap()).as_deref(),
        Some("false")
    );
    let too_long = Stub::new([reply(429).ra(3000)]);
    assert_eq!(
        word(&too_long.with(exact()).get(ORDERS).send().await.unwrap()).as_deref(),
        Some("false")
    );
    let not_replayable = Stub::new([reply(500)]);
    assert_eq!(
        word(&not_replayable.with(exact()).post(ORDERS).send().await.unwrap()),
        None
    );
    let recovered = Stub::new([reply(503), reply(200)]);
    assert_eq!(word(&recovered.with(exact()).get(ORDERS).send().await.unwrap()), None);
    let permanent = Stub::new([reply(404)]);
    assert_eq!(word(&permanent.with(exact()).get(ORDERS).send().await.unwrap()), None);
}
