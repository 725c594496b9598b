//! Every item of an HTTP/2 script does what it says, as an HTTP/2 client sees it.

use std::error::Error;

use h2::Reason;
use reqwest::{Client, Response, Version};
use testbed::{Gate, h2 as http2};

fn client() -> Client {
    Client::builder()
        .http2_prior_knowledge()
        .retry(reqwest::retry::never())
        .build()
        .unwrap()
}

async fn post(client: &Client, server: &http2::Server) -> reqwest::Result<Response> {
    client.post(server.url("/v1/orders")).body("hello").send().await
}

/// The error of the HTTP/2 layer inside, if that layer is the one that failed.
fn h2_error(error: &reqwest::Error) -> Option<&h2::Error> {
    std::iter::successors(error.source(), |error| (*error).source()).find_map(|error| error.downcast_ref())
}

#[tokio::test]
async fn replies_with_headers_and_bodies() {
    let long = "v".repeat(500);
    let server = http2::Server::start([
        http2::reply(200).header("X-Long", &long).body("ok"),
        http2::reply(429).ra(3),
        http2::reply(200).body(vec![b'x'; 60_000]).late(10),
    ])
    .await;
    let client = client();
    let response = post(&client, &server).await.unwrap();
    assert_eq!((response.version(), response.status().as_u16()), (Version::HTTP_2, 200));
    assert_eq!(response.headers()["x-long"], long.as_str());
    assert_eq!(response.text().await.unwrap(), "ok");
    let response = post(&client, &server).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"3".parse().unwrap())
    );
    assert_eq!(
        post(&client, &server).await.unwrap().bytes().await.unwrap().len(),
        60_000
    );
    assert_eq!(
        (server.sends(), server.connections(), server.open(), server.in_flight()),
        (3, 1, 1, 0)
    );
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.is_complete() && request.body() == b"hello")
    );
    // A response holds its connection even when it has nothing more to give.
    drop((client, response));
    server.wait_open(0).await;
}

#[tokio::test]
async fn large_requests_are_read_whole() {
    let server = http2::Server::start(http2::reply(200)).await;
    let body = vec![b'x'; 1 << 20];
    client().post(server.url("/")).body(body.clone()).send().await.unwrap();
    assert_eq!(server.last_request().unwrap().body(), body);
}

#[tokio::test]
async fn streams_are_reset_with_their_reason() {
    for (item, reason) in [
        (http2::refused(), Reason::REFUSED_STREAM),
        (http2::enhance_your_calm(), Reason::ENHANCE_YOUR_CALM),
        (http2::internal_error(), Reason::INTERNAL_ERROR),
        (http2::reset(8), Reason::CANCEL),
    ] {
        let server = http2::Server::start([item, http2::reply(200)]).await;
        let client = client();
        let error = post(&client, &server).await.unwrap_err();
        let error = h2_error(&error).unwrap();
        assert!(error.is_reset() && error.is_remote(), "{error:?}");
        assert_eq!(error.reason(), Some(reason));
        assert_eq!(post(&client, &server).await.unwrap().status(), 200);
        assert_eq!((server.sends(), server.connections()), (2, 1));
    }
}

#[tokio::test]
async fn goaway_above_says_that_the_request_was_not_processed() {
    for item in [http2::goaway_above(), http2::goaway_above().close()] {
        let server = http2::Server::start([http2::reply(200), item, http2::reply(200)]).await;
        let client = client();
        post(&client, &server).await.unwrap();
        let error = post(&client, &server).await.unwrap_err();
        let error = h2_error(&error).unwrap();
        assert!(error.is_go_away() && error.is_remote(), "{error:?}");
        assert_eq!(error.reason(), Some(Reason::NO_ERROR));
        assert_eq!(post(&client, &server).await.unwrap().status(), 200);
        assert_eq!((server.sends(), server.connections()), (3, 2));
        server.wait_open(1).await;
    }
}

#[tokio::test]
async fn goaway_above_lets_lower_streams_end() {
    let gate = Gate::new();
    let server = http2::Server::start([http2::reply(200).body("kept").held(&gate), http2::goaway_above()]).await;
    let client = client();
    let kept = tokio::spawn({
        let (client, url) = (client.clone(), server.url("/"));
        async move { client.get(url).send().await?.text().await }
    });
    server.wait_sends(1).await;
    assert!(
        h2_error(&post(&client, &server).await.unwrap_err())
            .unwrap()
            .is_go_away()
    );
    gate.open();
    assert_eq!(kept.await.unwrap().unwrap(), "kept");
    server.wait_open(0).await;
}

#[tokio::test]
async fn goaway_covering_leaves_the_request_in_doubt() {
    let server = http2::Server::start([http2::goaway_covering(), http2::reply(200)]).await;
    let client = client();
    let error = post(&client, &server).await.unwrap_err();
    let proof = h2_error(&error).is_some_and(|error| error.is_go_away() && error.is_remote());
    assert!(!proof, "{error:?}");
    server.wait_open(0).await;
    assert_eq!(post(&client, &server).await.unwrap().status(), 200);
    assert_eq!((server.sends(), server.connections()), (2, 2));
}

#[tokio::test]
async fn goaway_with_a_code() {
    let server = http2::Server::start(http2::goaway(11)).await;
    let error = post(&client(), &server).await.unwrap_err();
    assert_eq!(h2_error(&error).unwrap().reason(), Some(Reason::ENHANCE_YOUR_CALM));
}

#[tokio::test]
async fn connections_that_end_without_a_goaway() {
    for item in [http2::rst(), http2::fin()] {
        let server = http2::Server::start([item, http2::reply(200)]).await;
        let client = client();
        let error = post(&client, &server).await.unwrap_err();
        assert!(!h2_error(&error).is_some_and(|error| error.is_go_away()), "{error:?}");
        server.wait_open(0).await;
        assert_eq!(post(&client, &server).await.unwrap().status(), 200);
        assert_eq!((server.sends(), server.connections()), (2, 2));
    }
}

#[tokio::test]
async fn a_cancelled_stream_is_not_in_flight_and_its_connection_stays() {
    let server = http2::Server::start([http2::hang(), http2::reply(200).body("begun").stalled(), 200.into()]).await;
    let client = client();
    tokio::select! {
        answer = post(&client, &server) => panic!("{answer:?}"),
        () = server.wait_sends(1) => {}
    }
    server.wait_in_flight(0).await;
    let mut response = post(&client, &server).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "begun");
    assert_eq!(server.in_flight(), 1);
    drop(response);
    server.wait_in_flight(0).await;
    assert_eq!(post(&client, &server).await.unwrap().status(), 200);
    assert_eq!((server.sends(), server.connections(), server.open()), (3, 1, 1));
}

#[tokio::test]
async fn a_body_may_be_broken_off() {
    let server = http2::Server::start(http2::reply(200).body("begun").broken(2)).await;
    let mut response = post(&client(), &server).await.unwrap();
    let mut error = None;
    while error.is_none() {
        error = response.chunk().await.err();
    }
    assert_eq!(
        h2_error(&error.unwrap()).unwrap().reason(),
        Some(Reason::INTERNAL_ERROR)
    );
}

#[tokio::test]
async fn a_client_of_another_version_is_turned_away() {
    let server = http2::Server::start(http2::reply(200)).await;
    assert!(Client::new().get(server.url("/")).send().await.is_err());
    server.wait_open(0).await;
    assert_eq!((server.sends(), server.connections() >= 1), (0, true));
}
