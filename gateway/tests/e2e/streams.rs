//! Bodies that come bit by bit, and callers that do not wait for their end.

use std::time::Duration;

use testbed::{Server, event, hang, reply, sse};

use crate::started::{Started, ask};

#[tokio::test]
async fn an_event_arrives_before_the_next_is_sent() {
    // nothing ever comes after the first event, so that what waited for more would wait for ever
    let server = Server::start(sse(["one"]).stalled()).await;
    let gateway = Started::before(&server, "");
    let mut answer = ask(&gateway).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    assert_eq!(answer.chunk().await.unwrap().unwrap().as_ref(), b"data: one\n\n");
}

#[tokio::test]
async fn a_stream_is_retried_before_it_begins_and_then_handed_over_byte_for_byte() {
    let server = Server::start([reply(529), sse(["one", "two", "[DONE]"]).split_every(3)]).await;
    let gateway = Started::before(&server, "");
    let answer = ask(&gateway).send().await.unwrap();
    assert_eq!(
        answer.text().await.unwrap(),
        "data: one\n\ndata: two\n\ndata: [DONE]\n\n"
    );
    assert_eq!(server.sends(), 2);
}

#[tokio::test]
async fn an_error_before_any_output_is_retried() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    for (setting, sends) in [("", 2), ("policy.inspect_stream_start = false", 1)] {
        let server = Server::start([sse([event("error", overloaded)]), sse(["one"])]).await;
        let gateway = Started::before(&server, setting);
        // packed answers, which every SDK asks for, could not be looked into
        let answer = ask(&gateway)
            .header("accept-encoding", "gzip, deflate")
            .send()
            .await
            .unwrap();
        let text = answer.text().await.unwrap();
        assert_eq!(server.sends(), sends, "{setting}");
        assert_eq!(text == "data: one\n\n", sends == 2, "{text}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_does_not_end_well() {
    let server = Server::start(sse(["one"]).broken()).await;
    let gateway = Started::before(&server, "");
    let answer = ask(&gateway).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(
        answer.text().await.is_err(),
        "a cut answer must not pass for a whole one"
    );
    assert_eq!(server.sends(), 1, "what has begun is not repeated");
}

#[tokio::test]
async fn a_caller_that_hangs_up_before_the_answer_frees_the_upstream() {
    let server = Server::start(hang()).await;
    let gateway = Started::before(&server, "account.max_concurrency = 1");
    let call = tokio::spawn(ask(&gateway).send());
    server.wait_complete(1).await;
    call.abort();
    server.wait_open(0).await;
    gateway.wait_log("the caller hung up").await;

    // its place in the account is free too
    let next = tokio::spawn(ask(&gateway).send());
    server.wait_sends(2).await;
    next.abort();
    server.wait_open(0).await;
}

#[tokio::test]
async fn a_caller_that_hangs_up_in_a_stream_frees_the_upstream() {
    let server = Server::start(sse(["one"]).endless().every(5)).await;
    let gateway = Started::before(&server, "account.max_concurrency = 1");
    let mut answer = ask(&gateway).send().await.unwrap();
    assert!(answer.chunk().await.unwrap().is_some());
    assert_eq!(server.open(), 1);
    drop(answer);
    server.wait_open(0).await;
}

#[tokio::test]
async fn a_caller_that_hangs_up_in_a_wait_ends_the_call() {
    let server = Server::start(reply(429).ra(1)).await;
    let gateway = Started::before(&server, "");
    let call = tokio::spawn(ask(&gateway).send());
    server.wait_complete(1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    call.abort();
    gateway.wait_log("the caller hung up").await;
}
