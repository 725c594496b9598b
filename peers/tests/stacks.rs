//! How many sends reach the server when retry layers stand on one another: ours in and around others, real ones, over
//! sockets. Ours is set to four sends, every other layer to three retries.

use std::time::Duration;

use reqwest::{Request, Response};
use reqwest_ai_retry::{Backoff, Jitter, Operation, Outcome, RetryMiddleware, RetryPolicy, StopReason};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Result};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use testbed::{Server, reply, rst};
use tower::{Service as _, ServiceExt as _};

const WAIT: Duration = Duration::from_millis(5);
const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

fn policy() -> RetryPolicy {
    let backoff = Backoff::constant(WAIT).min(WAIT).jitter(Jitter::None);
    RetryPolicy::default().max_attempts(4).backoff(backoff)
}

fn ours() -> RetryMiddleware {
    RetryMiddleware::new(policy())
}

fn theirs() -> RetryTransientMiddleware<ExponentialBackoff> {
    let backoff = ExponentialBackoff::builder()
        .retry_bounds(WAIT, WAIT)
        .build_with_max_retries(3);
    RetryTransientMiddleware::new_with_policy(backoff)
}

fn client() -> ClientBuilder {
    ClientBuilder::new(RetryMiddleware::client_builder().no_proxy().build().unwrap())
}

async fn ask(client: &ClientWithMiddleware, server: &Server) -> Result<Response> {
    client.post(server.url("/v1/chat/completions")).body(BODY).send().await
}

/// A2: 16 elsewhere.
#[tokio::test]
async fn ours_in_ours_is_one_layer() {
    let server = Server::start([503]).await;
    ask(&client().with(ours()).with(ours()).build(), &server).await.unwrap();
    assert_eq!(server.sends(), 4);
}

/// A1: it passes the same extensions with each of its tries, and is answered from memory once we have given up: 16
/// elsewhere.
#[tokio::test]
async fn under_reqwest_retry_the_count_is_ours() {
    let server = Server::start([503]).await;
    let client = client().with(theirs()).with(ours()).build();
    let response = ask(&client, &server).await.unwrap();
    assert_eq!((server.sends(), response.status().as_u16()), (4, 503));
    assert_eq!(Outcome::of(&response).unwrap().stop(), StopReason::OperationSpent);

    // another call of the same program is another call
    ask(&client, &server).await.unwrap();
    assert_eq!(server.sends(), 8);
}

/// A1: so also where nothing was answered.
#[tokio::test]
async fn under_reqwest_retry_a_broken_connection_is_ours_to_count_too() {
    let server = Server::start(rst()).await;
    ask(&client().with(theirs()).with(ours()).build(), &server)
        .await
        .unwrap_err();
    assert_eq!(server.sends(), 4);
}

/// Ours sends once, and leaves the retries to the layer above on purpose.
#[tokio::test]
async fn under_reqwest_retry_one_send_of_ours_leaves_the_retries_to_it() {
    let server = Server::start([503]).await;
    let once = RetryMiddleware::new(policy().max_attempts(1));
    ask(&client().with(theirs()).with(once).build(), &server).await.unwrap();
    assert_eq!(server.sends(), 4);
}

/// A layer below cannot be seen: it multiplies, and must be taken off.
#[tokio::test]
async fn over_reqwest_retry_its_retries_multiply_ours() {
    let server = Server::start([503]).await;
    let response = ask(&client().with(ours()).with(theirs()).build(), &server)
        .await
        .unwrap();
    assert_eq!(server.sends(), 16);
    assert_eq!(Outcome::of(&response).unwrap().sends(), 4, "what we passed down");
}

fn repeats_by_itself() -> reqwest::retry::Builder {
    reqwest::retry::for_host("127.0.0.1")
        .no_budget()
        .max_retries_per_request(2)
        .classify_fn(|seen| match seen.status() {
            Some(status) if status.is_server_error() => seen.retryable(),
            _ => seen.success(),
        })
}

/// A5: a policy of reqwest's own cannot be seen either; the recommended builder has none.
#[tokio::test]
async fn over_a_retry_policy_of_reqwest_it_multiplies_and_the_recommended_builder_has_none() {
    let own = reqwest::Client::builder().no_proxy().retry(repeats_by_itself());
    let server = Server::start([503]).await;
    ask(&ClientBuilder::new(own.build().unwrap()).with(ours()).build(), &server)
        .await
        .unwrap();
    assert_eq!(server.sends(), 12);

    let server = Server::start([503]).await;
    ask(&client().with(ours()).build(), &server).await.unwrap();
    assert_eq!(server.sends(), 4);
}

async fn application(client: &ClientWithMiddleware, server: &Server) -> Result<Response> {
    let mut last = ask(client, server).await;
    for _ in 1..5 {
        if matches!(&last, Ok(response) if response.status().is_success()) {
            break;
        }
        last = ask(client, server).await;
    }
    last
}

/// A4, A7: a loop of five in the application makes twenty sends, unless it is one operation or guarded against.
#[tokio::test]
async fn application_loop_is_one_call_in_an_operation_and_under_the_guard() {
    let server = Server::start([503]).await;
    application(&client().with(ours()).build(), &server).await.unwrap();
    assert_eq!(server.sends(), 20);

    let server = Server::start([503]).await;
    let plain = client().with(ours()).build();
    Operation::new().scope(application(&plain, &server)).await.unwrap();
    assert_eq!(server.sends(), 4);

    let server = Server::start([503]).await;
    let guarded = RetryMiddleware::builder()
        .policy(policy())
        .outer_retry_guard(Duration::from_secs(60));
    application(&client().with(guarded.build()).build(), &server)
        .await
        .unwrap();
    assert_eq!(server.sends(), 4);
}

/// All of it at once: 4 × 4 × 5 elsewhere.
#[tokio::test]
async fn everything_above_at_once_is_still_one_call() {
    let server = Server::start([503]).await;
    let client = client().with(theirs()).with(ours()).with(ours()).build();
    let op = Operation::new();
    op.scope(application(&client, &server)).await.unwrap();
    assert_eq!((server.sends(), op.outcome().unwrap().sends()), (4, 4));
}

/// A buffer calls the service in a task of its own, but what it sends is polled by the caller.
#[tokio::test]
async fn operation_reaches_through_a_tower_buffer() {
    let server = Server::start(reply(503)).await;
    let plain = client().with(ours()).build();
    let inner = tower::service_fn(move |request: Request| {
        let client = plain.clone();
        async move { client.execute(request).await }
    });
    let mut buffered = tower::buffer::Buffer::new(inner, 4);
    let op = Operation::new();
    op.scope(async {
        for _ in 0..3 {
            let request = reqwest::Client::new()
                .post(server.url("/v1/chat/completions"))
                .body(BODY)
                .build()
                .unwrap();
            buffered.ready().await.unwrap().call(request).await.unwrap();
        }
    })
    .await;
    assert_eq!((server.sends(), op.outcome().unwrap().sends()), (4, 4));
}
