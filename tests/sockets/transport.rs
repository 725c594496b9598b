//! What breaks below HTTP: connections that are refused, cut or silent, and what the caller gets of it.

use std::sync::Arc;

use http::Extensions;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Method, Request};
use reqwest_ai_retry::{
    Cause, Class, Delivery, Outcome, RetryError, RetryMiddleware, StopReason, TimeLimit, Why, is_connect, is_timeout,
};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error, Middleware, Next};
use testbed::{Refused, Reply, Server, fin, hang, reply, rst};

use crate::caller::{ORDERS, client, millis, outcome, over, quick, recommended, stop};

const NOT_TWICE: StopReason = StopReason::NotReplayable(Why::NonIdempotent);

/// Sends without a body; gives the result, and the outcome that the loop leaves in the extensions.
async fn call(
    client: &ClientWithMiddleware,
    method: Method,
    url: String,
) -> (reqwest_middleware::Result<reqwest::Response>, Outcome) {
    let mut extensions = Extensions::new();
    let request = Request::new(method, url.parse().unwrap());
    let result = client.execute_with_extensions(request, &mut extensions).await;
    (result, extensions.remove().unwrap())
}

/// The `reqwest::Error` as which a transport error must come back.
fn transport_error(result: reqwest_middleware::Result<reqwest::Response>) -> reqwest::Error {
    match result {
        Err(Error::Reqwest(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn verdict(outcome: &Outcome) -> (Class, Cause, Delivery) {
    let verdict = outcome.verdict().unwrap();
    (verdict.class(), verdict.cause(), verdict.delivery())
}

/// I5, D8: a connection that breaks after the request leaves it in doubt; what is safe to repeat is repeated.
#[tokio::test]
async fn broken_connection_is_repeated_where_that_is_safe() {
    let items: [fn() -> Reply; 4] = [rst, fin, || reply(200).cut_head(10), || reply(200).cut_head(10).rst()];
    for item in items {
        let server = Server::start([item(), reply(200)]).await;
        let response = client(quick()).get(server.url(ORDERS)).send().await.unwrap();
        assert_eq!((response.status().as_u16(), server.sends()), (200, 2));
        let first = outcome(&response).attempts()[0].verdict().unwrap();
        assert_eq!((first.cause(), first.delivery()), (Cause::Reset, Delivery::Ambiguous));

        let server = Server::start([item(), reply(200)]).await;
        let (result, left) = call(&client(quick()), Method::POST, server.url(ORDERS)).await;
        assert!(transport_error(result).is_request());
        assert_eq!((server.sends(), left.sends(), left.stop()), (1, 1, NOT_TWICE));
    }
}

/// J1: nobody listens, so nothing was sent: repeated whatever the method, and still a connect error at the end.
#[tokio::test]
async fn refused_connection_is_repeated_and_comes_back_as_it_was() {
    let refused = Refused::new().unwrap();
    for method in [Method::GET, Method::POST] {
        let (result, left) = call(&client(quick().max_attempts(3)), method, refused.url(ORDERS)).await;
        assert!(is_connect(result.as_ref().unwrap_err()));
        assert!(transport_error(result).is_connect());
        assert_eq!((left.sends(), left.stop()), (3, StopReason::AttemptsSpent));
        assert_eq!(verdict(&left), (Class::Retryable, Cause::Connect, Delivery::NeverSent));
    }
    // A9: one attempt is one attempt
    let (_, left) = call(&client(quick().max_attempts(1)), Method::GET, refused.url(ORDERS)).await;
    assert_eq!((left.sends(), left.stop()), (1, StopReason::AttemptsSpent));
}

/// Knows no host.
#[derive(Debug)]
struct NoNames;

impl Resolve for NoNames {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(async {
            let unknown: Result<Addrs, _> = Err("no such host".into());
            unknown
        })
    }
}

/// A name that cannot be found is a connection that cannot be made.
#[tokio::test]
async fn unknown_host_is_a_connect_failure() {
    let client = over(
        recommended().dns_resolver(Arc::new(NoNames)),
        RetryMiddleware::new(quick().max_attempts(2)),
    );
    let (result, left) = call(&client, Method::POST, "http://nonexistent.invalid/v1/orders".to_owned()).await;
    let error = transport_error(result);
    assert!(error.is_connect() && error.is_dns());
    assert_eq!((left.sends(), verdict(&left).1), (2, Cause::Connect));
}

/// I7: what was silent is not asked again.
#[tokio::test]
async fn connection_is_not_used_again_after_a_timeout() {
    let server = Server::respond(|request| if request.connection() == 0 { hang() } else { reply(200) }).await;
    let response = client(quick().attempt_timeout(millis(300)))
        .get(server.url(ORDERS))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (response.status().as_u16(), server.connections()),
        (200, server.sends())
    );
    let first = outcome(&response).attempts()[0].verdict().unwrap();
    assert_eq!((first.cause(), first.delivery()), (Cause::Timeout, Delivery::Ambiguous));
    server.wait_open(1).await;
}

/// I4, J1: our own cut is told by its type and by `is_timeout`.
#[tokio::test]
async fn own_timeouts_say_which_limit_cut() {
    let server = Server::start(hang()).await;
    for (policy, limit, sends, stopped) in [
        (
            quick().attempt_timeout(millis(30)).max_attempts(2),
            TimeLimit::Attempt,
            2,
            StopReason::AttemptsSpent,
        ),
        (
            quick().total_deadline(millis(30)),
            TimeLimit::Total,
            1,
            StopReason::DeadlinePassed,
        ),
    ] {
        let (result, left) = call(&client(policy), Method::GET, server.url(ORDERS)).await;
        let error = result.unwrap_err();
        assert!(is_timeout(&error) && !is_connect(&error));
        assert!(matches!(RetryError::of(&error), Some(RetryError::TimedOut { limit: cut, .. }) if *cut == limit));
        assert_eq!(Outcome::of_error(&error), Some(&left));
        assert_eq!((left.sends(), left.stop()), (sends, stopped));
    }
    server.wait_open(0).await;
}

/// J1, D2: reqwest's own timeout is a timeout, before and after the middleware.
#[tokio::test]
async fn timeout_of_the_client_comes_back_as_it_was() {
    let server = Server::start(hang()).await;
    for (method, sends, stopped) in [
        (Method::GET, 2, StopReason::AttemptsSpent),
        (Method::POST, 1, NOT_TWICE),
    ] {
        let client = over(
            recommended().timeout(millis(50)),
            RetryMiddleware::new(quick().max_attempts(2)),
        );
        let (result, left) = call(&client, method, server.url(ORDERS)).await;
        assert!(is_timeout(result.as_ref().unwrap_err()));
        assert!(transport_error(result).is_timeout());
        assert_eq!((left.sends(), left.stop()), (sends, stopped));
        assert_eq!(verdict(&left), (Class::Retryable, Cause::Timeout, Delivery::Ambiguous));
    }
}

/// I10: a connection that the server closed while nobody used it costs the caller nothing.
#[tokio::test]
async fn connection_closed_while_idle_is_replaced() {
    let server = Server::start([
        reply(200).idle_close(10),
        reply(200).times(2).idle_close(10),
        reply(200),
    ])
    .await;
    let client = client(quick());
    for sends in 1..=4 {
        let response = client.get(server.url(ORDERS)).send().await.unwrap();
        assert_eq!((response.status().as_u16(), server.sends()), (200, sends));
        drop(response);
        if sends < 4 {
            server.wait_open(0).await;
        }
    }
}

/// What only a change can help is not repeated, even if it never got as far as a socket.
#[tokio::test]
async fn requests_that_cannot_be_made_are_permanent() {
    let (result, left) = call(&client(quick()), Method::GET, "ftp://127.0.0.1/v1/orders".to_owned()).await;
    assert!(transport_error(result).is_builder());
    assert_eq!((left.sends(), left.stop()), (1, StopReason::Permanent));
    assert_eq!(verdict(&left).1, Cause::InvalidRequest);

    let server = Server::start(reply(302).header("location", ORDERS)).await;
    let (result, left) = call(&client(quick()), Method::GET, server.url(ORDERS)).await;
    assert!(transport_error(result).is_redirect());
    assert_eq!((left.sends(), left.stop()), (1, StopReason::Permanent));
    assert_eq!(verdict(&left).1, Cause::Redirect);
    // ten redirects are reqwest's default
    assert_eq!(server.sends(), 11);
}

/// The error of a middleware below.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("signing failed")]
struct SigningFailed(u32);

/// A middleware that fails before anything is sent.
struct Signer;

#[async_trait::async_trait]
impl Middleware for Signer {
    async fn handle(
        &self,
        _: Request,
        extensions: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let calls: &mut u32 = extensions.get_or_insert_default();
        *calls += 1;
        Err(Error::middleware(SigningFailed(*calls)))
    }
}

/// The error of a middleware below is its last word.
#[tokio::test]
async fn error_of_another_middleware_comes_back_untouched() {
    let client = ClientBuilder::new(recommended().build().unwrap())
        .with(RetryMiddleware::new(quick()))
        .with(Signer)
        .build();
    let (result, left) = call(&client, Method::GET, "http://127.0.0.1:9/v1/orders".to_owned()).await;
    let Err(Error::Middleware(error)) = result else {
        panic!("{result:?}");
    };
    assert_eq!(error.downcast_ref(), Some(&SigningFailed(1)));
    assert_eq!((left.sends(), left.stop()), (1, StopReason::Permanent));
}

/// B5: a delay that does not fit comes back at once, and the connection is there for the next request.
#[tokio::test]
async fn connection_is_used_again_after_giving_up() {
    let server = Server::start([reply(503).ra(3600).json("{}"), reply(200)]).await;
    let client = client(quick());
    let response = client.get(server.url(ORDERS)).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), stop(&response)),
        (503, StopReason::DelayPastDeadline)
    );
    assert!(outcome(&response).waited().is_zero() && outcome(&response).retry_at().is_some());
    assert_eq!(response.text().await.unwrap(), "{}");
    assert_eq!(client.get(server.url(ORDERS)).send().await.unwrap().status(), 200);
    assert_eq!((server.sends(), server.connections()), (2, 1));
}
