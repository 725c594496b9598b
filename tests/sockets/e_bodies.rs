//! Request bodies that can be read once, and response bodies that hold a connection.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use reqwest::{Body, Request, multipart};
use reqwest_ai_retry::{Backoff, Event, Outcome, RetryMiddleware, StopReason, Why};
use testbed::{Server, reply};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::caller::{Leaping, ORDERS, client, millis, outcome, over, quick, recommended, stop};

const STREAMING: StopReason = StopReason::NotReplayable(Why::StreamingBody);
const TOO_LARGE: StopReason = StopReason::NotReplayable(Why::BodyTooLarge);

/// Bytes in which a lost, doubled or moved piece shows.
fn bytes(length: usize) -> Vec<u8> {
    (0..length as u32).flat_map(u32::to_le_bytes).take(length).collect()
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn streamed(bytes: &[u8], chunk: usize) -> Body {
    let chunks: Vec<io::Result<Bytes>> = bytes
        .chunks(chunk)
        .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
        .collect();
    Body::wrap_stream(stream::iter(chunks))
}

fn form(url: String) -> Request {
    let file = multipart::Part::bytes(bytes(5_000)).file_name("batch.jsonl");
    let form = multipart::Form::new().text("purpose", "batch").part("file", file);
    reqwest::Client::new().post(url).multipart(form).build().unwrap()
}

/// E1, E2, E9: what can be read once is sent once, and is not refused for it.
#[tokio::test]
async fn streaming_body_is_sent_once_and_its_answer_comes_back() {
    let client = client(quick());
    for (status, stopped) in [(200, None), (503, Some(STREAMING)), (429, Some(STREAMING))] {
        let server = Server::start([reply(status).ms(1).body("answer"), reply(200)]).await;
        let streaming = client.post(server.url(ORDERS)).body(streamed(&bytes(10_000), 700));
        let response = streaming.send().await.unwrap();
        assert_eq!(Outcome::of(&response).map(Outcome::stop), stopped, "{status}");
        assert_eq!((response.status().as_u16(), server.sends()), (status, 1));
        assert_eq!(response.text().await.unwrap(), "answer");
        assert_eq!(server.last_request().unwrap().body_hash(), hash(&bytes(10_000)));

        let server = Server::start([reply(status).ms(1), reply(200)]).await;
        let response = client.execute(form(server.url(ORDERS))).await.unwrap();
        assert_eq!(Outcome::of(&response).map(Outcome::stop), stopped, "{status}");
        assert_eq!((response.status().as_u16(), server.sends()), (status, 1));
        assert!(server.last_request().unwrap().text().contains("batch.jsonl"));
    }
}

/// E1, E2, E6, E9: read into memory, it is sent again, byte for byte.
#[tokio::test]
async fn buffered_body_is_the_same_on_every_attempt() {
    let server = Server::start([reply(503).ms(1).times(2), reply(200)]).await;
    // ten thousand bytes are exactly at the limit
    let client = client(quick().buffer_request(10_000));
    for chunk in [1, 700, 10_000] {
        let before = server.sends();
        let request = client.post(server.url(ORDERS)).body(streamed(&bytes(10_000), chunk));
        let response = request.send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), server.sends() - before),
            (200, if before == 0 { 3 } else { 1 })
        );
    }
    assert!(
        server
            .requests()
            .iter()
            .all(|one| one.body_hash() == hash(&bytes(10_000)))
    );

    let server = Server::start([reply(503).ms(1).times(2), reply(200)]).await;
    let response = client.execute(form(server.url(ORDERS))).await.unwrap();
    assert_eq!((response.status().as_u16(), server.sends()), (200, 3));
    let sent = server.requests();
    assert!(
        sent.iter()
            .all(|one| one.body_hash() == sent[0].body_hash() && one.is_complete())
    );
    assert!(
        sent.iter()
            .all(|one| one.header("content-type") == sent[0].header("content-type"))
    );
    assert!(sent[0].text().contains("batch.jsonl"));
}

/// A body over the limit loses nothing but its second chance.
#[tokio::test]
async fn body_over_the_limit_is_sent_whole_once() {
    let client = client(quick().buffer_request(10_000));
    for (length, chunk) in [(10_001, 10_001), (10_001, 700), (300_000, 70_000)] {
        let server = Server::start([reply(503).ms(1), reply(200)]).await;
        let request = client.post(server.url(ORDERS)).body(streamed(&bytes(length), chunk));
        let response = request.send().await.unwrap();
        assert_eq!((response.status().as_u16(), server.sends()), (503, 1));
        assert_eq!(stop(&response), TOO_LARGE);
        assert_eq!(server.last_request().unwrap().body_hash(), hash(&bytes(length)));
    }
}

/// The caller's stream fails: that is the caller's error, on the wire as without the middleware.
#[tokio::test]
async fn request_stream_that_fails_midway_is_an_error_and_no_request() {
    for policy in [quick(), quick().buffer_request(1 << 20)] {
        let server = Server::start(reply(200)).await;
        let chunks = [
            Ok(Bytes::from_static(b"half")),
            Err(io::Error::other("the disk is gone")),
        ];
        let request = client(policy)
            .post(server.url(ORDERS))
            .body(Body::wrap_stream(stream::iter(chunks)));
        let mut extensions = http::Extensions::new();
        let (client, request) = request.build_split();
        let result = client.execute_with_extensions(request.unwrap(), &mut extensions).await;
        let Err(reqwest_middleware::Error::Reqwest(error)) = result else {
            panic!("{result:?}");
        };
        assert!(error.is_request() || error.is_body());
        assert_eq!(extensions.get::<Outcome>().unwrap().stop(), STREAMING);
        server.wait_open(0).await;
        assert!(server.requests().iter().all(|one| !one.is_complete()));
        assert!(server.sends() <= 1);
    }
}

/// E4: the wait holds no connection, even of a body that never ends.
#[tokio::test]
async fn connection_is_given_up_before_the_wait() {
    for endless in [
        reply(503).endless(),
        reply(503).json("{}").endless().every(5),
        reply(503).body("begun").stalled(),
    ] {
        let server = Server::start(endless).await;
        let (told, mut waits) = mpsc::unbounded_channel();
        let retry = RetryMiddleware::builder()
            .policy(quick().backoff(Backoff::constant(Duration::from_secs(60))))
            // the peek and the drain end; the wait does not
            .clock(Leaping::up_to(Duration::from_secs(2)))
            .observer(move |event: &Event<'_>| {
                if matches!(event, Event::Waiting { .. }) {
                    let _ = told.send(());
                }
            })
            .build();
        let client = over(recommended().pool_max_idle_per_host(1), retry);
        let url = server.url(ORDERS);
        let call = tokio::spawn(async move { client.get(url).send().await });
        waits.recv().await.unwrap();
        server.wait_open(0).await;
        assert_eq!(
            (server.sends(), server.connections(), call.is_finished()),
            (1, 1, false)
        );
        call.abort();
    }
}

/// E5: a body that ends soon is read to its end, so that its connection is used again.
#[tokio::test]
async fn connection_is_used_again_after_a_body_that_ends() {
    let server = Server::start([reply(503).body("late").late(30), reply(200)]).await;
    let response = client(quick()).get(server.url(ORDERS)).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), server.sends(), server.connections()),
        (200, 2, 1)
    );

    // within the peek; more than the peek, the rest within the drain and only after a while
    for body in [
        reply(503).size(20_000),
        reply(503).chunks([vec![b'x'; 80_000], vec![b'x'; 20_000]]).every(10),
    ] {
        let server = Server::start([body.times(10), reply(200)]).await;
        let retry = RetryMiddleware::builder()
            .policy(quick().max_attempts(11))
            .clock(Leaping::up_to(millis(50)))
            .build();
        let response = over(recommended(), retry).get(server.url(ORDERS)).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), server.sends(), server.connections()),
            (200, 11, 1)
        );
    }
}

/// E5: a body that does not end is dropped, by its bytes as well as by its time.
#[tokio::test]
async fn connection_is_dropped_after_a_body_that_does_not_end() {
    let server = Server::start([reply(503).endless(), reply(200)]).await;
    // a clock on which neither the second of the peek nor the drain's tenth of one ever ends
    let retry = RetryMiddleware::builder()
        .policy(quick())
        .clock(Leaping::up_to(millis(50)))
        .build();
    let call = over(recommended(), retry).get(server.url(ORDERS)).send();
    let response = timeout(Duration::from_secs(20), call).await.unwrap().unwrap();
    assert_eq!(
        (response.status().as_u16(), server.sends(), server.connections()),
        (200, 2, 2)
    );

    let server = Server::start([reply(503).body("begun").stalled(), reply(200)]).await;
    let retry = RetryMiddleware::builder()
        .policy(quick())
        .clock(Leaping::up_to(Duration::from_secs(2)))
        .build();
    let response = over(recommended(), retry).get(server.url(ORDERS)).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), server.sends(), server.connections()),
        (200, 2, 2)
    );
}

/// E6: never an empty body on the second try.
#[tokio::test]
async fn bytes_are_the_same_on_every_attempt() {
    let server = Server::start([reply(500), reply(503), reply(200)]).await;
    let request = client(quick())
        .post(server.url(ORDERS))
        .header("idempotency-key", "k")
        .body(bytes(10_000));
    let response = request.send().await.unwrap();
    assert_eq!((outcome(&response).sends(), server.sends()), (3, 3));
    let sent = server.requests();
    assert!(
        sent.iter()
            .all(|one| one.body_hash() == hash(&bytes(10_000)) && one.is_complete())
    );
    assert!(sent.iter().all(|one| one.headers() == sent[0].headers()));
}

/// E7: a success whose body breaks off is a failed attempt where the caller asked to have it read, and only there.
#[tokio::test]
async fn broken_body_of_a_success_is_a_failed_attempt_when_inspected() {
    let script = || [reply(200).body("0123456789").cut(5), reply(200).body("0123456789")];
    let server = Server::start(script()).await;
    let response = client(quick().inspect_success(1024))
        .get(server.url(ORDERS))
        .send()
        .await
        .unwrap();
    assert_eq!((server.sends(), outcome(&response).sends()), (2, 2));
    assert_eq!(response.text().await.unwrap(), "0123456789");

    let server = Server::start(script()).await;
    let mut response = client(quick()).get(server.url(ORDERS)).send().await.unwrap();
    assert_eq!((server.sends(), Outcome::of(&response)), (1, None));
    let mut read = Vec::new();
    let error = loop {
        match response.chunk().await {
            Ok(chunk) => read.extend(chunk.unwrap()),
            Err(error) => break error,
        }
    };
    assert_eq!(read, b"01234");
    assert!(error.is_body() || error.is_decode());

    // the effect of a POST may be there although its answer is not
    let server = Server::start(script()).await;
    let response = client(quick().inspect_success(1024))
        .post(server.url(ORDERS))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (server.sends(), stop(&response)),
        (1, StopReason::NotReplayable(Why::NonIdempotent))
    );
    assert!(response.bytes().await.unwrap_err().is_decode());
}
