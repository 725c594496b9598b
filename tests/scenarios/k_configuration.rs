//! Policies per request, hosts without a scope, and middlewares inside the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{Extensions, HeaderValue};
use reqwest::{Request, Response};
use reqwest_ai_retry::{RetryMiddleware, RetryPolicy};
use reqwest_middleware::{ClientBuilder, Middleware, Next, Result};

use crate::stub::{ORDERS, Stub, exact, reply};

/// K1: a policy in the request's extensions replaces the client's, all of it.
#[tokio::test(start_paused = true)]
async fn a_request_may_bring_its_own_policy() {
    for (retries, n) in [(0, 1), (3, 4)] {
        let server = Stub::new([reply(503)]);
        let client = server.with(exact().max_attempts(2));
        client
            .get(ORDERS)
            .with_extension(exact().max_attempts(retries + 1))
            .send()
            .await
            .unwrap();
        assert_eq!(server.n(), n);
        client.get(ORDERS).send().await.unwrap();
        assert_eq!(server.n(), n + 2, "the next request has the client's policy again");
    }
}

/// K2: one client, any host.
#[tokio::test(start_paused = true)]
async fn every_host_is_retried() {
    for url in ["http://one.example/v1/models", "http://two.example/v1/models"] {
        let server = Stub::new([reply(503), reply(200)]);
        server.with(RetryPolicy::default()).get(url).send().await.unwrap();
        assert_eq!(server.n(), 2);
    }
}

/// Signs with a counter, as an authentication middleware with a timestamp would.
struct Sign(Arc<AtomicU32>);

#[async_trait::async_trait]
impl Middleware for Sign {
    async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        request.headers_mut().insert("x-signature", HeaderValue::from(count));
        next.run(request, extensions).await
    }
}

/// K3, K4: a middleware placed inside runs on every attempt, so its stamps are fresh.
#[tokio::test(start_paused = true)]
async fn an_inner_middleware_runs_on_every_attempt() {
    let server = Stub::new([reply(503), reply(503), reply(200)]);
    let client = ClientBuilder::new(RetryMiddleware::client_builder().build().unwrap())
        .with(RetryMiddleware::new(exact()))
        .with(Sign(Arc::default()))
        .with(server.clone())
        .build();
    client.get(ORDERS).send().await.unwrap();
    let stamps: Vec<_> = server
        .sent()
        .iter()
        .map(|sent| sent.headers["x-signature"].clone())
        .collect();
    assert_eq!(stamps, ["0", "1", "2"]);
}

/// The policy of a client can be read, and its `Debug` says nothing that is not a number or a choice.
#[test]
fn a_middleware_shows_its_policy() {
    let retry = RetryMiddleware::new(exact().max_attempts(7));
    assert_eq!(*retry.policy(), exact().max_attempts(7));
    assert!(format!("{retry:?}").contains("max_attempts: 7"));
}
