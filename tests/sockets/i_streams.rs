//! Errors inside a stream whose status was 200: before any output they are failures like any other, behind it they are the
//! caller's.

use std::io;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::Extensions;
use reqwest::{Body, Request, Response, StatusCode};
use reqwest_ai_retry::{
    Account, Cause, Class, Delivery, GiveUp, Outcome, Replay, RetryError, RetryMiddleware, RetryPolicy, StopReason,
    Verdict, Why,
};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use testbed::{Event, Gate, Reply, Server, comment, event, h2, reply, sse};
use tokio::time::{Instant, timeout};

use crate::caller::{Leaping, client, outcome, over, quick, recommended, stop};

const CHAT: &str = "/v1/chat/completions";
const PROMPT: &str = r#"{"model":"m","stream":true,"messages":[]}"#;
const OVERLOADED: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"Überlastet"}}"#;
const OPENING: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const OUTPUT: &str = r#"{"choices":[{"index":0,"delta":{"content":"Grüße"},"finish_reason":null}]}"#;
const DONE: &str = "[DONE]";

async fn post(client: &ClientWithMiddleware, url: String) -> Response {
    client.post(url).body(PROMPT).send().await.unwrap()
}

fn overloaded() -> Event {
    event("error", OVERLOADED)
}

fn answer() -> Reply {
    sse([OPENING, OUTPUT, DONE])
}

fn text_of(events: &[&str]) -> String {
    events.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// A stream of exactly this text.
fn verbatim(text: impl Into<Vec<u8>>) -> Reply {
    reply(200).header("content-type", "text/event-stream").body(text)
}

fn first(response: &Response) -> Verdict {
    *outcome(response).attempts()[0].verdict().unwrap()
}

/// I3: the caller sees only the second answer.
#[tokio::test]
async fn error_before_any_output_is_sent_again() {
    use Class::{Permanent, QuotaExhausted, Retryable};
    let errors = [
        (Some("error"), OVERLOADED, Cause::Overloaded, Delivery::Refused),
        (
            Some("error"),
            r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#,
            Cause::ServerError,
            Delivery::Ambiguous,
        ),
        (
            Some("error"),
            r#"{"type":"error","code":"rate_limit_exceeded","message":"Rate limit reached","param":null}"#,
            Cause::RateLimited,
            Delivery::Refused,
        ),
        (
            Some("response.failed"),
            r#"{"type":"response.failed","response":{"id":"r","status":"failed","output":[],"error":{"code":"server_error","message":"An error occurred"}}}"#,
            Cause::ServerError,
            Delivery::Ambiguous,
        ),
        (
            None,
            r#"{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#,
            Cause::Overloaded,
            Delivery::Refused,
        ),
        (
            None,
            r#"{"id":"g","error":{"code":502,"message":"Provider disconnected"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
            Cause::ServerError,
            Delivery::Ambiguous,
        ),
    ];
    for (name, data, cause, delivery) in errors {
        let error = || name.map_or_else(|| data.into(), |name| event(name, data));
        for alive in [
            vec![],
            vec![comment("OPENROUTER PROCESSING"), event("ping", r#"{"type":"ping"}"#)],
        ] {
            let failing = alive.iter().cloned().chain([error()]);
            let server = Server::start([sse(failing), answer()]).await;
            let response = post(&client(quick()), server.url(CHAT)).await;
            assert_eq!((server.sends(), stop(&response)), (2, StopReason::Succeeded), "{data}");
            let verdict = first(&response);
            assert_eq!((verdict.class(), verdict.cause()), (Retryable, cause), "{data}");
            assert_eq!(verdict.delivery(), delivery, "{data}");
            assert_eq!(response.text().await.unwrap(), text_of(&[OPENING, OUTPUT, DONE]));
        }
    }
    for (data, class, reason) in [
        (
            r#"{"error":{"type":"invalid_request_error","message":"no"}}"#,
            Permanent,
            StopReason::Permanent,
        ),
        (
            r#"{"error":{"code":"insufficient_quota","message":"no"}}"#,
            QuotaExhausted,
            StopReason::QuotaExhausted,
        ),
    ] {
        let server = Server::start([sse([data]), answer()]).await;
        let response = post(&client(quick()), server.url(CHAT)).await;
        assert_eq!((server.sends(), stop(&response)), (1, reason));
        assert_eq!(first(&response).class(), class);
        assert_eq!(response.text().await.unwrap(), text_of(&[data]));
    }
}

/// I3: what announces an answer is no output. But it says that the server had begun, so that a repeat must be harmless.
#[tokio::test]
async fn error_behind_an_opening_is_sent_again_where_that_is_safe() {
    let message = event(
        "message_start",
        r#"{"type":"message_start","message":{"id":"m","content":[]}}"#,
    );
    let response = |kind: &str| {
        event(
            kind,
            &format!(r#"{{"type":"{kind}","response":{{"id":"r","output":[]}}}}"#),
        )
    };
    let ping = event("ping", r#"{"type":"ping"}"#);
    for opening in [
        vec![message.clone(), ping.clone()],
        vec![
            response("response.created"),
            response("response.queued"),
            response("response.in_progress"),
        ],
        vec![OPENING.into(), comment("still there")],
    ] {
        let failing = || sse(opening.iter().cloned().chain([overloaded()]));
        let server = Server::start([failing(), answer()]).await;
        let response = post(&client(quick()), server.url(CHAT)).await;
        assert_eq!((server.sends(), stop(&response)), (2, StopReason::Succeeded));
        assert_eq!(first(&response).delivery(), Delivery::Ambiguous);
        let server = Server::start([failing(), answer()]).await;
        let response = post(&client(quick().replay(Replay::Idempotent)), server.url(CHAT)).await;
        assert_eq!(server.sends(), 1);
        assert_eq!(stop(&response), StopReason::NotReplayable(Why::NonIdempotent));
    }
    // a ping opens nothing: the overload is a refusal still
    let server = Server::start([sse([ping, overloaded()]), answer()]).await;
    let response = post(&client(quick().replay(Replay::Idempotent)), server.url(CHAT)).await;
    assert_eq!((server.sends(), stop(&response)), (2, StopReason::Succeeded));
}

/// I3: each server has its own way to begin, to keep alive and to fail.
#[tokio::test]
async fn error_in_a_servers_own_dialect_is_sent_again() {
    let azure_opening = r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}"#;
    let azure_error = r#"{"error":{"message":"The server had an error while processing your request.","type":"server_error","param":null,"code":null}}"#;
    for (server, text, cause) in [
        (
            "llama.cpp until 2025",
            "error: {\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}\n\ndata: [DONE]\n\n".to_owned(),
            Cause::ModelLoading,
        ),
        (
            "Responses, which keeps alive with an event",
            [
                r#"{"type":"response.created","response":{"id":"r","status":"in_progress","error":null,"output":[]}}"#,
                r#"{"type":"keepalive","sequence_number":2}"#,
                r#"{"type":"response.failed","response":{"id":"r","error":{"code":"server_error","message":"no"},"output":[]}}"#,
            ]
            .map(|data| format!("data: {data}\n\n"))
            .concat(),
            Cause::ServerError,
        ),
        ("Azure", text_of(&[azure_opening, OPENING, azure_error]), Cause::ServerError),
        (
            "Mistral",
            text_of(&[
                r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","code":"3505"}"#,
            ]),
            Cause::Overloaded,
        ),
        (
            "Cohere",
            text_of(&[
                r#"{"type":"message-start","delta":{"message":{"role":"assistant","content":[]}}}"#,
                r#"{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}"#,
                r#"{"type":"message-end","delta":{"error":"an internal error","finish_reason":"ERROR"}}"#,
            ]),
            Cause::ServerError,
        ),
        (
            "Gemini, over several lines",
            "data: [{\r\ndata:   \"error\": {\r\ndata:     \"code\": 503,\r\ndata:     \"status\": \"UNAVAILABLE\"\r\ndata:   }\r\ndata: }]\r\n\r\n".to_owned(),
            Cause::Overloaded,
        ),
        (
            "JSON that is called a stream",
            "{\"error\":{\"message\":\"The engine is currently overloaded\",\"code\":503}}".to_owned(),
            Cause::Overloaded,
        ),
    ] {
        let failing = verbatim(text);
        let sent = Server::start([failing, answer()]).await;
        let response = post(&client(quick()), sent.url(CHAT)).await;
        assert_eq!((sent.sends(), stop(&response)), (2, StopReason::Succeeded), "{server}");
        assert_eq!(first(&response).cause(), cause, "{server}");
    }
}

/// I3: output first, and the rest is the caller's.
#[tokio::test]
async fn error_behind_output_is_handed_over() {
    for output in [
        OUTPUT,
        r#"{"type":"content_block_delta","delta":{"text":"Hi"}}"#,
        r#"{"what":"nobody knows"}"#,
        "no JSON",
        DONE,
    ] {
        let events: [Event; 4] = [comment("x"), OPENING.into(), output.into(), overloaded()];
        let whole = format!(
            ": x\n\n{}event: error\n{}",
            text_of(&[OPENING, output]),
            text_of(&[OVERLOADED])
        );
        for pause in [0, 5] {
            let server = Server::start(sse(events.clone()).every(pause)).await;
            let response = post(&client(quick()), server.url(CHAT)).await;
            assert!(Outcome::of(&response).is_none());
            assert_eq!(response.text().await.unwrap(), whole);
            assert_eq!(server.sends(), 1);
        }
    }
}

/// I3: lines end in three ways, a byte order mark may stand before them, and packets end anywhere, in a character too.
#[tokio::test]
async fn streams_are_read_however_they_are_written_and_cut() {
    let failing = format!(": ping\n\nevent: error\ndata: {OVERLOADED}\n\n");
    let fine = format!("retry: 10\n\n{}", text_of(&[OPENING, OUTPUT, DONE]));
    for ending in ["\n", "\r\n", "\r"] {
        for mark in ["", "\u{feff}"] {
            let written = |text: &str| format!("{mark}{}", text.replace('\n', ending));
            let (failing, fine) = (written(&failing), written(&fine));
            // between the two bytes of the Ü
            let middle = failing.find('Ü').unwrap() + 1;
            for cut in [
                |reply: Reply, _| reply,
                |reply: Reply, middle: usize| reply.split([reply_head(), middle]),
                |reply: Reply, _| reply.split_every(7),
                |reply: Reply, _| reply.split_every(16),
            ] {
                let server = Server::start([
                    cut(verbatim(failing.clone()).until_close(), middle),
                    cut(verbatim(fine.clone()).until_close(), middle),
                ])
                .await;
                let response = post(&client(quick()), server.url(CHAT)).await;
                assert_eq!(stop(&response), StopReason::Succeeded, "{ending:?} {mark:?}");
                assert_eq!(first(&response).cause(), Cause::Overloaded);
                assert_eq!(response.bytes().await.unwrap(), fine.as_bytes());
                assert_eq!(server.sends(), 2);
            }
        }
    }
}

/// How long the head of `verbatim(…).until_close()` is.
fn reply_head() -> usize {
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".len()
}

/// I3: more than 16 KiB are not held back, be it an error.
#[tokio::test]
async fn first_event_of_a_megabyte_is_handed_over() {
    let long = "x".repeat(1 << 20);
    for data in [
        format!(r#"{{"choices":[{{"delta":{{"content":"{long}"}}}}]}}"#),
        format!(r#"{{"error":{{"message":"{long}"}}}}"#),
    ] {
        let server = Server::start(sse([data.as_str(), DONE])).await;
        let response = post(&client(quick()), server.url(CHAT)).await;
        assert!(Outcome::of(&response).is_none());
        assert!(response.text().await.unwrap() == text_of(&[&data, DONE]));
        assert_eq!(server.sends(), 1);
    }
}

/// I3: a stream that says nothing for two seconds is handed over, whatever it then says, and none of it is cut.
#[tokio::test]
async fn server_that_stalls_before_the_first_event_is_not_waited_for() {
    let gate = Gate::new();
    let server = Server::start(sse([overloaded()]).body_held(&gate)).await;
    let retry = RetryMiddleware::builder()
        .policy(quick())
        .clock(Leaping::up_to(Duration::from_secs(2)))
        .build();
    let response = post(&over(recommended(), retry), server.url(CHAT)).await;
    assert!(Outcome::of(&response).is_none(), "the answer is a success");
    gate.open();
    let whole = format!("event: error\n{}", text_of(&[OVERLOADED]));
    assert_eq!(response.text().await.unwrap(), whole);
    assert_eq!(server.sends(), 1);
}

/// A transport that answers with a stream that opens and then says nothing.
struct Silent;

#[async_trait::async_trait]
impl Middleware for Silent {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> reqwest_middleware::Result<Response> {
        let opening = stream::iter([Ok::<_, io::Error>(text_of(&[OPENING]))]);
        let response = http::Response::builder().header("content-type", "Text/Event-Stream; charset=utf-8");
        let body = Body::wrap_stream(opening.chain(stream::pending()));
        Ok(response.body(body).unwrap().into())
    }
}

/// I3: it is two seconds from the headers, or what is left of the whole call; the attempt has ended at the headers.
#[tokio::test(start_paused = true)]
async fn stream_is_held_back_for_two_seconds_at_most() {
    let secs = Duration::from_secs;
    for (policy, held) in [
        (quick(), secs(2)),
        (quick().attempt_timeout(secs(1)), secs(2)),
        (quick().total_deadline(secs(1)), secs(1)),
        (quick().inspect_stream_start(false), secs(0)),
    ] {
        let client = ClientBuilder::new(recommended().build().unwrap())
            .with(RetryMiddleware::new(policy))
            .with(Silent)
            .build();
        let start = Instant::now();
        let mut response = post(&client, format!("http://127.0.0.1:9{CHAT}")).await;
        assert_eq!(start.elapsed(), held);
        assert!(Outcome::of(&response).is_none(), "the answer is a success");
        assert_eq!(response.chunk().await.unwrap().unwrap(), text_of(&[OPENING]));
        assert!(timeout(secs(3600), response.chunk()).await.is_err(), "nothing is cut");
    }
}

/// I3: and so is one that says nothing again and again, with what it has said.
#[tokio::test]
async fn server_that_only_pings_is_not_waited_for() {
    let server = Server::start(sse([OPENING]).endless().every(5)).await;
    let retry = RetryMiddleware::builder()
        .policy(quick())
        .clock(Leaping::up_to(Duration::from_secs(2)))
        .build();
    let mut response = post(&over(recommended(), retry), server.url(CHAT)).await;
    assert!(Outcome::of(&response).is_none());
    let mut read = Vec::new();
    let expected = format!("{}{}", text_of(&[OPENING]), ": ping\n\n".repeat(20));
    while read.len() < expected.len() {
        read.extend(response.chunk().await.unwrap().unwrap());
    }
    assert!(read.starts_with(expected.as_bytes()));
    drop(response);
    server.wait_open(0).await;
}

/// I3: a pause of the server's before its error is not the end of looking.
#[tokio::test]
async fn error_that_comes_a_little_later_is_sent_again() {
    let failing = sse([comment("x"), OPENING.into(), overloaded()]).late(20).every(20);
    let server = Server::start([failing.stalled(), answer()]).await;
    let response = post(&client(quick()), server.url(CHAT)).await;
    assert_eq!((server.sends(), stop(&response)), (2, StopReason::Succeeded));
}

/// I3: a connection that breaks before any output is a broken connection; an end in good order is the server's last word.
#[tokio::test]
async fn stream_without_output_is_a_failure_only_if_it_breaks() {
    for failing in [
        sse([OPENING]).broken(),
        sse([OPENING]).broken().rst(),
        sse([OUTPUT]).cut(20),
    ] {
        let server = Server::start([failing.clone(), answer()]).await;
        let response = post(&client(quick()), server.url(CHAT)).await;
        assert_eq!((server.sends(), stop(&response)), (2, StopReason::Succeeded));
        assert_eq!(
            (first(&response).cause(), first(&response).delivery()),
            (Cause::Reset, Delivery::Ambiguous)
        );
        // given up on, it breaks for the caller where it broke
        let server = Server::start(failing).await;
        let response = post(&client(quick().max_attempts(2)), server.url(CHAT)).await;
        assert_eq!((server.sends(), stop(&response)), (2, StopReason::AttemptsSpent));
        assert!(response.text().await.is_err());
    }
    for (ended, whole) in [
        (verbatim(""), String::new()),
        (sse([OPENING]), text_of(&[OPENING])),
        (sse([comment("x")]).until_close(), ": x\n\n".to_owned()),
    ] {
        let server = Server::start(ended).await;
        let response = post(&client(quick()), server.url(CHAT)).await;
        assert!(Outcome::of(&response).is_none());
        assert_eq!(response.text().await.unwrap(), whole);
        assert_eq!(server.sends(), 1);
    }
}

/// I3: an error that its end cuts off, and one that is no event at all though the header says so, are errors.
#[tokio::test]
async fn error_in_whatever_form_it_ends_the_stream_is_sent_again() {
    for body in [
        format!("event: error\ndata: {OVERLOADED}"),
        format!("data: {OVERLOADED}\n"),
        OVERLOADED.to_owned(),
        "{\n  \"error\": {\n    \"code\": 529\n  }\n}".to_owned(),
    ] {
        let server = Server::start([verbatim(body.clone()), answer()]).await;
        let response = post(&client(quick()), server.url(CHAT)).await;
        assert_eq!(
            (server.sends(), first(&response).cause()),
            (2, Cause::Overloaded),
            "{body}"
        );
    }
}

/// I3: given up on, the stream comes back as it was received, with the outcome on it.
#[tokio::test]
async fn stream_given_up_on_comes_back_as_received() {
    let events: [Event; 3] = [comment("x"), overloaded(), OUTPUT.into()];
    let whole = format!(": x\n\nevent: error\n{}", text_of(&[OVERLOADED, OUTPUT]));
    for attempts in [1, 3] {
        for failing in [sse(events.clone()), sse(events.clone()).every(5)] {
            let server = Server::start(failing).await;
            let policy = quick().max_attempts(attempts);
            let response = post(&client(policy.clone()), server.url(CHAT)).await;
            assert_eq!(server.sends(), attempts as usize);
            assert_eq!(
                (response.status(), stop(&response)),
                (StatusCode::OK, StopReason::AttemptsSpent)
            );
            assert_eq!(response.headers()["x-should-retry"], "false");
            assert_eq!(response.headers()["content-type"], "text/event-stream");
            assert_eq!(response.url().as_str(), server.url(CHAT));
            assert_eq!(response.text().await.unwrap(), whole);

            let asked = client(policy.give_up(GiveUp::Error));
            let error = asked.post(server.url(CHAT)).body(PROMPT).send().await.unwrap_err();
            assert_eq!(Outcome::of_error(&error).unwrap().sends(), attempts);
            let reqwest_middleware::Error::Middleware(error) = error else {
                panic!("{error}");
            };
            let Some(RetryError::GaveUp { status, verdict, .. }) = error.downcast_ref() else {
                panic!("{error}");
            };
            assert_eq!((*status, verdict.cause()), (StatusCode::OK, Cause::Overloaded));
        }
    }
}

/// I3: what is not asked for, is not a model's or cannot be read is left alone.
#[tokio::test]
async fn other_streams_are_left_alone() {
    let whole = format!("event: error\n{}", text_of(&[OVERLOADED]));
    let encoded = sse([overloaded()]).header("content-encoding", "zstd");
    let lines = reply(200)
        .header("content-type", "application/x-ndjson")
        .body(whole.clone());
    for (policy, path, answer) in [
        (quick().inspect_stream_start(false), CHAT, sse([overloaded()])),
        (
            quick().inspect_success(4096).inspect_stream_start(false),
            CHAT,
            sse([overloaded()]),
        ),
        (quick(), "/v1/orders", sse([overloaded()])),
        (quick(), "/v1/threads/t/messages", sse([overloaded()])),
        (quick(), CHAT, encoded),
        (quick(), CHAT, lines),
    ] {
        let server = Server::start(answer).await;
        let response = post(&client(policy), server.url(path)).await;
        assert!(Outcome::of(&response).is_none(), "{path}");
        assert_eq!(response.text().await.unwrap(), whole);
        assert_eq!(server.sends(), 1);
    }
    for coding in ["identity", "none"] {
        let server = Server::start([sse([overloaded()]).header("content-encoding", coding), answer()]).await;
        post(&client(quick()), server.url(CHAT)).await;
        assert_eq!(server.sends(), 2, "{coding}");
    }
    let server = Server::start(sse([overloaded()])).await;
    let response = client(quick()).get(server.url(CHAT)).send().await.unwrap();
    assert_eq!((response.text().await.unwrap(), server.sends()), (whole, 1));
}

/// I3: two layers send what the outer one says, of streams too.
#[tokio::test]
async fn two_layers_send_a_stream_as_often_as_one() {
    let layers = |policy: RetryPolicy| {
        ClientBuilder::new(recommended().build().unwrap())
            .with(RetryMiddleware::new(policy.clone()))
            .with(RetryMiddleware::new(policy))
            .build()
    };
    let server = Server::start([sse([overloaded()]), answer()]).await;
    let response = post(&layers(quick()), server.url(CHAT)).await;
    assert_eq!((server.sends(), stop(&response)), (2, StopReason::Succeeded));
    assert_eq!(response.text().await.unwrap(), text_of(&[OPENING, OUTPUT, DONE]));
    let server = Server::start(sse([overloaded()])).await;
    let response = post(&layers(quick().max_attempts(3)), server.url(CHAT)).await;
    assert_eq!((server.sends(), stop(&response)), (3, StopReason::AttemptsSpent));
}

/// A stream that was looked into holds its place until it ends, one that failed gives it back before the wait.
#[tokio::test]
async fn stream_that_was_looked_into_holds_its_place_to_the_end() {
    let account = Account::builder()
        .max_concurrency(1)
        .output_tokens_per_minute(1_000_000_000)
        .build()
        .unwrap();
    let retry = RetryMiddleware::builder().policy(quick()).account(account.clone());
    let client = over(recommended(), retry.build());
    let server = Server::start([sse([overloaded()]).stalled(), answer()]).await;
    let mut response = post(&client, server.url(CHAT)).await;
    assert_eq!((server.sends(), account.status().in_flight), (2, 1));
    while response.chunk().await.unwrap().is_some() {}
    assert_eq!(account.status().in_flight, 0);
    let response = post(&client, server.url(CHAT)).await;
    assert_eq!(account.status().in_flight, 1);
    drop(response);
    assert_eq!(account.status().in_flight, 0);
}

/// I3 over HTTP/2: the same, and a stream that is reset before any output is a broken one.
#[tokio::test]
async fn error_before_any_output_is_sent_again_over_http2() {
    let stream = |text: &str| h2::reply(200).header("content-type", "text/event-stream").body(text);
    let fine = text_of(&[OPENING, OUTPUT, DONE]);
    let failing = format!(": ping\n\nevent: error\n{}", text_of(&[OVERLOADED]));
    let client = over(recommended().http2_prior_knowledge(), RetryMiddleware::new(quick()));
    for (item, cause) in [
        (stream(&failing), Cause::Overloaded),
        (stream(&failing).late(20).stalled(), Cause::Overloaded),
        (stream(&text_of(&[OPENING])).broken(2), Cause::Reset),
    ] {
        let server = h2::Server::start([item, stream(&fine)]).await;
        let response = post(&client, server.url(CHAT)).await;
        assert_eq!((server.sends(), first(&response).cause()), (2, cause));
        assert_eq!(response.text().await.unwrap(), fine);
    }
    let behind = format!("{}{failing}", text_of(&[OUTPUT]));
    let server = h2::Server::start([stream(&behind), stream(&fine)]).await;
    let response = post(&client, server.url(CHAT)).await;
    assert_eq!((response.text().await.unwrap(), server.sends()), (behind, 1));
}
