//! What only HTTP/2 says of a request: that it was not processed. And the repeats that reqwest makes by itself when it is
//! told so.
//!
//! The tests of requests that were never processed fail if the `h2` that hyper uses is another version than the one that
//! the crate looks for in its errors: the error would not be recognised, and the POST not be repeated.

use reqwest::Method;
use reqwest_ai_retry::{Cause, Delivery, Outcome, RetryMiddleware, StopReason, Why};
use testbed::h2::{self, Answer};
use testbed::{Server, reply};

use crate::caller::{ORDERS, client, outcome, over, quick, recommended, stop};

/// What became of `S[item, 200]`: the server's count, ours, and the end.
async fn sent(method: Method, item: Answer) -> (usize, u32, StopReason) {
    let server = h2::Server::start([item, h2::reply(200)]).await;
    let client = over(recommended().http2_prior_knowledge(), RetryMiddleware::new(quick()));
    let mut extensions = http::Extensions::new();
    let request = client
        .request(method, server.url(ORDERS))
        .body("order")
        .build()
        .unwrap();
    let result = client.execute_with_extensions(request, &mut extensions).await;
    let left: Outcome = extensions.remove().unwrap();
    assert_eq!(result.is_ok(), left.stop() == StopReason::Succeeded);
    (server.sends(), left.sends(), left.stop())
}

/// D9: the server says that it did not process the request, so it is sent again whatever the method.
#[tokio::test]
async fn unprocessed_request_is_repeated_whatever_the_method() {
    for method in [Method::POST, Method::GET] {
        for item in [h2::refused(), h2::goaway_above(), h2::goaway_above().close()] {
            let shown = format!("{method} {item:?}");
            assert_eq!(
                sent(method.clone(), item).await,
                (2, 2, StopReason::Succeeded),
                "{shown}"
            );
        }
    }
}

/// D9: and the verdict says why.
#[tokio::test]
async fn unprocessed_request_was_never_sent() {
    for item in [h2::refused(), h2::goaway_above()] {
        let server = h2::Server::start([item, h2::reply(200)]).await;
        let client = over(recommended().http2_prior_knowledge(), RetryMiddleware::new(quick()));
        let response = client.post(server.url(ORDERS)).send().await.unwrap();
        let first = outcome(&response).attempts()[0].verdict().unwrap();
        assert_eq!((first.cause(), first.delivery()), (Cause::Reset, Delivery::NeverSent));
    }
}

/// D9, D8: everything else may have been processed.
#[tokio::test]
async fn request_that_may_have_been_processed_is_repeated_only_where_that_is_safe() {
    let items: [fn() -> Answer; 7] = [
        h2::enhance_your_calm,
        h2::internal_error,
        h2::goaway_covering,
        || h2::goaway(11),
        || h2::goaway(2),
        h2::rst,
        h2::fin,
    ];
    for item in items {
        let shown = format!("{:?}", item());
        let not_twice = StopReason::NotReplayable(Why::NonIdempotent);
        assert_eq!(sent(Method::POST, item()).await, (1, 1, not_twice), "{shown}");
        assert_eq!(
            sent(Method::GET, item()).await,
            (2, 2, StopReason::Succeeded),
            "{shown}"
        );
    }
}

/// A failure's body that the server breaks off leaves the status, which is what there is to go by.
#[tokio::test]
async fn answers_of_http2_are_looked_into_and_given_back() {
    let server = h2::Server::start([
        h2::reply(503).ms(1).json("{}").late(20),
        h2::reply(429).ms(1).body("begun").broken(2),
        h2::reply(503).ra(3600).json("{\"error\":{}}"),
    ])
    .await;
    let client = over(recommended().http2_prior_knowledge(), RetryMiddleware::new(quick()));
    let response = client.post(server.url(ORDERS)).body("order").send().await.unwrap();
    assert_eq!((server.sends(), server.connections()), (3, 1));
    assert_eq!(stop(&response), StopReason::DelayPastDeadline);
    assert_eq!(response.version(), http::Version::HTTP_2);
    assert_eq!(response.text().await.unwrap(), "{\"error\":{}}");
}

/// A5: with the recommended client the number configured is the number sent; over reqwest's own default the server gets
/// two more for each, which nobody above can see.
#[tokio::test]
async fn recommended_client_sends_the_number_configured() {
    let default = || reqwest::Client::builder().no_proxy();
    let kinds: [(fn() -> reqwest::ClientBuilder, usize); 2] = [(recommended, 1), (default, 3)];
    for (builder, repeats) in kinds {
        for item in [h2::refused(), h2::goaway_above()] {
            let server = h2::Server::start(item).await;
            let client = over(
                builder().http2_prior_knowledge(),
                RetryMiddleware::new(quick().max_attempts(2)),
            );
            let mut extensions = http::Extensions::new();
            let request = client.post(server.url(ORDERS)).body("order").build().unwrap();
            client
                .execute_with_extensions(request, &mut extensions)
                .await
                .unwrap_err();
            assert_eq!(extensions.get::<Outcome>().unwrap().sends(), 2);
            assert_eq!(server.sends(), 2 * repeats);
        }
    }
}

/// A5: retries that the caller gave to reqwest run below, unseen, and multiply.
#[tokio::test]
async fn retries_given_to_reqwest_multiply_unseen() {
    let server = Server::start(reply(503)).await;
    let address = server.addr().ip().to_string();
    let own = reqwest::retry::for_host(address)
        .no_budget()
        .classify_fn(|attempt| match attempt.status() {
            Some(status) if status.is_server_error() => attempt.retryable(),
            _ => attempt.success(),
        });
    let retry = || RetryMiddleware::new(quick().max_attempts(2));
    let multiplied = over(recommended().retry(own), retry())
        .get(server.url(ORDERS))
        .send()
        .await
        .unwrap();
    assert_eq!((outcome(&multiplied).sends(), server.sends()), (2, 6));

    let server = Server::start(reply(503)).await;
    let counted = client(quick().max_attempts(2))
        .get(server.url(ORDERS))
        .send()
        .await
        .unwrap();
    assert_eq!((outcome(&counted).sends(), server.sends()), (2, 2));
}
