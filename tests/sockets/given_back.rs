//! A response that comes through the middleware is the response that a client without it gets.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use proptest::prelude::*;
use reqwest::{Body, Request, Response};
use reqwest_ai_retry::{
    Account, Cause, Class, Classifier, Outcome, RetryMiddleware, RetryPolicy, Ruling, Seen, StopReason, Verdict,
};
use reqwest_middleware::{ClientBuilder, Middleware, Next};
use testbed::{Gate, Reply, Server, reply, sse};
use tokio::time::timeout;

use crate::caller::{Leaping, ORDERS, millis, over, quick, recommended, stop};

/// All that a caller can see of a response.
#[derive(Debug, PartialEq)]
struct Got {
    status: StatusCode,
    version: Version,
    headers: Vec<(HeaderName, HeaderValue)>,
    length: Option<u64>,
    is_ours: bool,
    /// With the reason phrase, which is in the extensions.
    as_error: Option<String>,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
    end: End,
}

#[derive(Debug, PartialEq)]
enum End {
    Whole,
    Broken {
        text: String,
        body: bool,
        decode: bool,
        timeout: bool,
    },
    /// There was more than the caller wanted.
    Dropped,
}

/// Reads it, but no more than so many bytes.
async fn got(response: Response, server: &Server, at_most: usize) -> Got {
    let mut headers = response.headers().clone();
    headers.remove("x-should-retry");
    let mut got = Got {
        status: response.status(),
        version: response.version(),
        headers: headers
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        length: response.content_length(),
        is_ours: response.url().as_str() == server.url(ORDERS) && response.remote_addr() == Some(server.addr()),
        as_error: response
            .error_for_status_ref()
            .err()
            .map(|error| error.without_url().to_string()),
        body: Vec::new(),
        trailers: None,
        end: End::Whole,
    };
    let mut body = http::Response::<Body>::from(response).into_body();
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => got.body.extend(data),
            Ok(Err(frame)) => got.trailers = frame.into_trailers().ok(),
            Err(error) => {
                got.end = End::Broken {
                    body: error.is_body(),
                    decode: error.is_decode(),
                    timeout: error.is_timeout(),
                    text: error.to_string(),
                };
                return got;
            }
        }
        if got.body.len() >= at_most {
            got.body.truncate(at_most);
            got.end = End::Dropped;
            return got;
        }
    }
    got
}

/// An answer of a form, with this status.
type Form = fn(u16) -> Reply;

/// Answers in all the forms in which a body comes.
fn forms() -> Vec<(&'static str, Form)> {
    vec![
        ("empty", reply),
        ("ten bytes", |status| reply(status).size(10)),
        ("json", |status| reply(status).json(r#"{"error":{"message":"no"}}"#)),
        ("a megabyte", |status| {
            reply(status).body("0123456789abcdef".repeat(1 << 16))
        }),
        ("chunks", |status| reply(status).chunks(["one", "two", "three"])),
        ("many chunks", |status| reply(status).chunks(vec![[b'x'; 10_000]; 20])),
        ("endless", |status| reply(status).body("begun").endless()),
        ("trickling", |status| {
            reply(status).chunks(["one", "two", "three"]).every(10)
        }),
        ("late", |status| reply(status).size(1000).late(30)),
        ("split everywhere", |status| {
            reply(status).chunks(["one", "two"]).split_every(5)
        }),
        ("trailers", |status| {
            reply(status).body("x").trailer("x-sum", 7).trailer("x-end", "yes")
        }),
        ("no length", |status| reply(status).size(1000).until_close()),
        ("cut length", |status| reply(status).size(1000).cut(500)),
        ("cut length, reset", |status| reply(status).size(1000).cut(500).rst()),
        ("cut chunks", |status| reply(status).chunks(["one", "two"]).cut(4)),
        ("cut far behind the peek", |status| {
            reply(status).body("0123456789abcdef".repeat(20_000)).cut(300_000)
        }),
        ("broken chunks", |status| reply(status).chunks(["one", "two"]).broken()),
        ("many headers", |status| {
            let twice = reply(status).header("x-a", 1).header("x-b", 2).header("x-a", 3);
            twice
                .header_bytes("x-raw", [0xff, b'!'])
                .header("x-empty", "")
                .body("x")
        }),
        ("early hints", |status| reply(status).early_hints("</a>").body("x")),
        ("closing", |status| reply(status).close().body("x")),
    ]
}

/// What a caller gets from a server that plays this: through the middleware, and without it if there is none.
async fn from(script: Vec<Reply>, method: Method, retry: Option<RetryMiddleware>) -> (Got, Option<StopReason>) {
    let server = Server::start(script).await;
    let request = Request::new(method, server.url(ORDERS).parse().unwrap());
    let response = match retry {
        None => recommended().build().unwrap().execute(request).await.unwrap(),
        Some(retry) => over(recommended(), retry).execute(request).await.unwrap(),
    };
    let stop = Outcome::of(&response).map(Outcome::stop);
    let got = got(response, &server, (1 << 20) + 1).await;
    // what is given back holds its connection no longer than the caller does
    server.wait_open(0).await;
    (got, stop)
}

fn with(policy: RetryPolicy) -> Option<RetryMiddleware> {
    Some(RetryMiddleware::new(policy))
}

#[tokio::test]
async fn failure_given_up_on_comes_back_as_received() {
    for (name, form) in forms() {
        for (status, attempts, stop) in [
            (503, 1, StopReason::AttemptsSpent),
            (503, 2, StopReason::AttemptsSpent),
            (404, 5, StopReason::Permanent),
            (529, 1, StopReason::AttemptsSpent),
        ] {
            let (plain, _) = from(vec![form(status)], Method::GET, None).await;
            assert!(plain.is_ours);
            let (ours, why) = from(vec![form(status)], Method::GET, with(quick().max_attempts(attempts))).await;
            assert_eq!(ours, plain, "{name} {status} {attempts}");
            assert_eq!(why, Some(stop), "{name} {status} {attempts}");
        }
    }
}

#[tokio::test]
async fn success_comes_back_as_received_first_or_last() {
    for (name, form) in forms() {
        let (plain, _) = from(vec![form(200)], Method::GET, None).await;
        let (first, why) = from(vec![form(200)], Method::GET, with(quick())).await;
        assert_eq!((&first, why), (&plain, None), "{name}");
        let (recovered, why) = from(vec![reply(503), form(200)], Method::GET, with(quick())).await;
        assert_eq!((&recovered, why), (&plain, Some(StopReason::Succeeded)), "{name}");
    }
}

/// A body that holds a place in flight, or is read for the tokens that it took, is the body that it was.
#[tokio::test]
async fn an_answer_that_holds_its_place_comes_back_as_received() {
    for (name, form) in forms() {
        for account in [
            Account::builder().max_concurrency(4),
            Account::builder().output_tokens_per_minute(1_000_000_000),
        ] {
            let account = account.build().unwrap();
            let retry = || {
                RetryMiddleware::builder()
                    .policy(quick())
                    .account(account.clone())
                    .build()
            };
            for status in [200, 404] {
                let (plain, _) = from(vec![form(status)], Method::GET, None).await;
                let (held, _) = from(vec![form(status)], Method::GET, Some(retry())).await;
                assert_eq!(held, plain, "{name} {status}");
            }
            assert_eq!(account.status().in_flight, 0, "{name}");
        }
    }
}

#[tokio::test]
async fn success_that_was_inspected_comes_back_as_received() {
    for (name, form) in forms() {
        let (plain, _) = from(vec![form(200)], Method::GET, None).await;
        for limit in [0, 1, 16, 4096, 2 << 20] {
            let (inspected, _) = from(
                vec![form(200)],
                Method::GET,
                with(quick().max_attempts(1).inspect_success(limit)),
            )
            .await;
            assert_eq!(inspected, plain, "{name} {limit}");
        }
    }
}

#[tokio::test]
async fn answers_without_a_body_come_back_as_received() {
    let inspected = quick().max_attempts(2).inspect_success(4096);
    for (status, method) in [
        (200, Method::HEAD),
        (404, Method::HEAD),
        (503, Method::HEAD),
        (204, Method::GET),
        (304, Method::GET),
        (503, Method::OPTIONS),
    ] {
        for form in [
            |status| reply(status),
            |status| reply(status).size(10),
            |status| reply(status).chunks(["x"]),
        ] {
            let (plain, _) = from(vec![form(status)], method.clone(), None).await;
            for policy in [quick().max_attempts(1), inspected.clone()] {
                let (ours, _) = from(vec![form(status)], method.clone(), with(policy)).await;
                assert_eq!(ours, plain, "{method} {status}");
            }
        }
    }
}

/// What has not come within the second of the peek comes later, to the caller.
#[tokio::test]
async fn body_that_is_later_than_the_peek_comes_back_as_received() {
    for form in [
        |gate: &Gate| reply(503).size(200_000).body_held(gate),
        |gate: &Gate| reply(503).chunks(["one", "two"]).trailer("x-sum", 7).body_held(gate),
        |gate: &Gate| reply(503).size(1000).body_held(gate).cut(400),
    ] {
        let gate = Gate::new();
        let server = Server::start(form(&gate)).await;
        let retry = RetryMiddleware::builder()
            .policy(quick().max_attempts(1))
            .clock(Leaping::up_to(Duration::from_secs(2)))
            .build();
        let client = over(recommended(), retry);
        // it is given back although nothing of its body has come
        let response = client.get(server.url(ORDERS)).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), stop(&response)),
            (503, StopReason::AttemptsSpent)
        );
        gate.open();
        let ours = got(response, &server, usize::MAX).await;
        let response = recommended()
            .build()
            .unwrap()
            .get(server.url(ORDERS))
            .send()
            .await
            .unwrap();
        assert_eq!(ours, got(response, &server, usize::MAX).await);
    }
}

/// What has come when the peek ends is not lost.
#[tokio::test]
async fn body_that_stops_within_the_peek_keeps_its_beginning() {
    let server = Server::start(reply(503).chunks(["one", "two"]).stalled()).await;
    let retry = RetryMiddleware::builder()
        .policy(quick().max_attempts(1))
        .clock(Leaping::up_to(Duration::from_secs(2)))
        .build();
    let mut response = over(recommended(), retry).get(server.url(ORDERS)).send().await.unwrap();
    let mut read = Vec::new();
    while read.len() < 6 {
        read.extend(response.chunk().await.unwrap().unwrap());
    }
    assert_eq!(read, b"onetwo");
    assert!(timeout(millis(20), response.chunk()).await.is_err());
    drop(response);
    server.wait_open(0).await;
}

/// The timeouts that the caller gave to reqwest go on in a body that was looked into and put back.
#[tokio::test]
async fn timeouts_of_the_client_hold_in_a_body_that_was_put_back() {
    let server = Server::start(reply(503).body("begun").stalled()).await;
    for client in [
        recommended().timeout(millis(500)),
        recommended().read_timeout(millis(200)),
    ] {
        let retry = RetryMiddleware::builder()
            .policy(quick().max_attempts(1))
            .clock(Leaping::up_to(Duration::from_secs(2)))
            .build();
        let response = over(client, retry).get(server.url(ORDERS)).send().await.unwrap();
        assert!(response.bytes().await.unwrap_err().is_timeout());
    }
}

/// F6: no limit of ours cuts a stream that has begun.
#[tokio::test]
async fn healthy_stream_outlives_the_deadlines() {
    let limit = Duration::from_secs(1);
    let policy = quick()
        .attempt_timeout(limit)
        .total_deadline(limit)
        .max_retry_time(limit);
    let call = async |policy: RetryPolicy, answer: Reply, whole: &str| {
        let gate = Gate::new();
        let server = Server::start(answer.body_held(&gate)).await;
        let client = over(recommended(), RetryMiddleware::new(policy));
        let response = client.get(server.url(ORDERS)).send().await.unwrap();
        tokio::time::sleep(limit + millis(50)).await;
        gate.open();
        assert_eq!(response.text().await.unwrap(), whole);
    };
    let stream = "data: one\n\ndata: two\n\n";
    tokio::join!(
        call(policy.clone(), sse(["one", "two"]), stream),
        call(policy.clone().inspect_success(4096), sse(["one", "two"]), stream),
        call(policy.clone(), reply(200).body("late"), "late"),
    );
}

/// A rule of the caller's that calls a success a failure does not change what comes back either.
#[tokio::test]
async fn answer_that_a_rule_refused_comes_back_as_received() {
    let classifier = Classifier::default().rule(|seen: &Seen<'_>| match seen.status() {
        Some(StatusCode::OK) => Ruling::Failure(Verdict::new(Class::Retryable, Cause::ModelLoading)),
        _ => Ruling::Pass,
    });
    let retry = || {
        let policy = quick().max_attempts(2).inspect_success(64);
        RetryMiddleware::builder()
            .policy(policy)
            .classifier(classifier.clone())
            .build()
    };
    for (name, form) in forms() {
        let (plain, _) = from(vec![form(200)], Method::GET, None).await;
        let (ours, why) = from(vec![form(200)], Method::GET, Some(retry())).await;
        assert_eq!((ours, why), (plain, Some(StopReason::AttemptsSpent)), "{name}");
    }
}

/// One step of a body.
#[derive(Debug, Clone)]
enum Step {
    Data(Vec<u8>),
    Pending,
    Trailers,
    Broken,
}

/// A body of such steps.
#[derive(Debug, Clone)]
struct Steps {
    steps: VecDeque<Step>,
    states_length: bool,
}

impl Steps {
    fn left(&self) -> u64 {
        let lengths = self.steps.iter().map(|step| match step {
            Step::Data(data) => data.len() as u64,
            _ => 0,
        });
        lengths.sum()
    }
}

impl http_body::Body for Steps {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.steps.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Data(data)) => Poll::Ready(Some(Ok(Frame::data(data.into())))),
            Some(Step::Pending) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Some(Step::Trailers) => {
                self.steps.clear();
                let sum = (HeaderName::from_static("x-sum"), HeaderValue::from_static("7"));
                Poll::Ready(Some(Ok(Frame::trailers(HeaderMap::from_iter([sum])))))
            }
            Some(Step::Broken) => {
                self.steps.clear();
                Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::ConnectionReset))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        if self.states_length {
            SizeHint::with_exact(self.left())
        } else {
            SizeHint::new()
        }
    }
}

/// A transport that answers with one body of this type.
struct Canned(u16, &'static str, Steps);

#[async_trait::async_trait]
impl Middleware for Canned {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> reqwest_middleware::Result<Response> {
        let response = http::Response::builder().status(self.0).header("content-type", self.1);
        Ok(response.body(Body::wrap(self.2.clone())).unwrap().into())
    }
}

/// A body read to its end: bytes, trailers, error, and the length left at each step.
async fn read(mut body: Body) -> (Vec<u8>, Option<HeaderMap>, Option<String>) {
    let (mut data, mut trailers, mut error) = (Vec::new(), None, None);
    let mut left = body.size_hint().exact();
    loop {
        let said_to_be_over = body.is_end_stream();
        let Some(frame) = body.frame().await else {
            break;
        };
        assert!(!said_to_be_over, "a body that says that it is over is not read on");
        match frame.map(Frame::into_data) {
            Ok(Ok(chunk)) => {
                left = left.map(|left| left - chunk.len() as u64);
                data.extend(chunk);
            }
            Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
            Err(broken) => error = Some(format!("{broken} {}", broken.is_body())),
        }
        assert_eq!(
            body.size_hint().exact(),
            left,
            "the stated length goes down with the bytes"
        );
    }
    (data, trailers, error)
}

/// Events and pieces of some.
const EVENTS: &[&str] = &[
    ": ping\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
    "event: error\ndata: {\"error\":{\"code\":529}}\n\n",
    "data: {\"error\":",
    "\r",
    "\n\n",
    "\u{feff}",
];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 1..12).prop_map(Step::Data),
        4 => proptest::sample::select(EVENTS).prop_map(|text| Step::Data(text.into())),
        3 => Just(Step::Pending),
        1 => Just(Step::Trailers),
        1 => Just(Step::Broken),
    ]
}

proptest! {
    /// However a body is cut into chunks, wherever the peek ends and however the body does, the caller gets all of it.
    #[test]
    fn bodies_come_back_whole_however_they_are_cut(
        steps in proptest::collection::vec(step(), 0..12),
        states_length in any::<bool>(),
        status in prop_oneof![Just(200u16), Just(503), Just(404)],
        limit in 0usize..80,
        content_type in prop_oneof![Just("application/json"), Just("text/event-stream")],
    ) {
        let end = steps.iter().position(|step| matches!(step, Step::Trailers | Step::Broken));
        let steps = steps.get(..end.map_or(steps.len(), |end| end + 1)).unwrap_or_default();
        let body = Steps { steps: steps.iter().cloned().collect(), states_length };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (plain, ours, length) = runtime.block_on(async {
            let client = ClientBuilder::new(recommended().build().unwrap())
                .with(RetryMiddleware::new(quick().max_attempts(1).inspect_success(limit)))
                .with(Canned(status, content_type, body.clone()))
                .build();
            let response = client.post("http://127.0.0.1:9/v1/chat/completions").send().await.unwrap();
            let length = response.content_length();
            let ours = read(http::Response::<Body>::from(response).into_body()).await;
            (read(Body::wrap(body.clone())).await, ours, length)
        });
        prop_assert_eq!(ours, plain);
        prop_assert_eq!(length, states_length.then(|| body.left()));
    }
}
