//! What is sent upstream, how often, and what comes back.

use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{Gate, Refused, Reply, Server, hang, reply, rst};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::started::{QUICK, Started, ask, caller, upstream};

/// A raw exchange on a connection of its own, up to the close.
pub(crate) async fn exchange(gateway: &Started, request: &str) -> String {
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn failures_are_retried_until_the_success() {
    for failure in [reply(429), reply(500), reply(529), rst()] {
        let success = reply(200).json(r#"{"choices":[]}"#).header("x-request-id", "r1");
        let server = Server::start([failure.clone().times(2), success]).await;
        let gateway = Started::before(&server, "");

        let answer = ask(&gateway).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{failure:?}");
        assert_eq!(answer.headers()["x-request-id"], "r1");
        assert_eq!(answer.headers()["x-retry-gateway-sends"], "3");
        assert_eq!(answer.headers()["x-retry-gateway-stop"], "succeeded");
        assert!(!answer.headers().contains_key("x-should-retry"));
        assert_eq!(answer.text().await.unwrap(), r#"{"choices":[]}"#);
        assert_eq!(server.sends(), 3, "{failure:?}");
        for request in server.requests() {
            assert_eq!(request.path(), "/v1/chat/completions");
            assert_eq!(request.text(), r#"{"model":"m","messages":[]}"#);
        }
    }
}

#[tokio::test]
async fn a_plain_success_says_nothing_of_the_gateway() {
    let server = Server::start([reply(200).body("ok")]).await;
    let gateway = Started::before(&server, "");
    let answer = ask(&gateway).send().await.unwrap();
    let said: Vec<_> = answer.headers().keys().map(|name| name.as_str().to_owned()).collect();
    assert_eq!(said, ["content-length", "date"]);
}

#[tokio::test]
async fn the_number_configured_is_the_number_sent() {
    for status in [429, 500, 529] {
        let body = r#"{"error":{"message":"no"}}"#;
        let server = Server::start(reply(status).json(body)).await;
        let gateway = Started::before(&server, "policy.max_attempts = 4");

        let answer = ask(&gateway).send().await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers()["x-should-retry"], "false");
        assert_eq!(answer.headers()["x-retry-gateway-stop"], "attempts_spent");
        assert_eq!(answer.text().await.unwrap(), body, "the provider's own words");
        assert_eq!(server.sends(), 4);
    }
}

#[tokio::test]
async fn an_upstream_without_an_answer_is_a_bad_gateway() {
    let server = Server::start(rst()).await;
    let refused = Refused::new().unwrap();
    let gateway = Started::with(&format!(
        "{}{}",
        upstream("one", server.url(""), &format!("{QUICK}\npolicy.max_attempts = 4")),
        upstream("two", refused.url(""), &format!("{QUICK}\npolicy.max_attempts = 4")),
    ));
    let two = caller()
        .post(gateway.url("/two/v1/chat/completions?key=hunter2"))
        .body("{}");
    for (call, code) in [(ask(&gateway), "upstream_broke_off"), (two, "upstream_unreachable")] {
        let answer = call.send().await.unwrap();
        assert_eq!(answer.status(), 502);
        assert_eq!(answer.headers()["x-should-retry"], "false");
        assert_eq!(answer.headers()["x-retry-gateway-sends"], "4");
        let text = answer.text().await.unwrap();
        assert!(!text.contains("hunter2") && !text.contains("127.0.0.1"), "{text}");
        let body: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(body["error"]["code"], code);
    }
    assert_eq!(server.sends(), 4);
}

#[tokio::test]
async fn a_cut_attempt_is_a_gateway_timeout() {
    let server = Server::start(hang()).await;
    let gateway = Started::before(&server, "policy.max_attempts = 2\npolicy.attempt_timeout = \"200ms\"");
    let answer = ask(&gateway).send().await.unwrap();
    assert_eq!(answer.status(), 504);
    assert_eq!(answer.headers()["x-should-retry"], "false");
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["error"]["type"], "timeout_error");
    assert_eq!(server.sends(), 2);
}

#[tokio::test]
async fn a_long_delay_is_handed_over_at_once() {
    let server = Server::start(reply(429).ra(3600)).await;
    let gateway = Started::before(&server, "");
    for _ in 0..2 {
        let answer = ask(&gateway).send().await.unwrap();
        assert_eq!(
            (answer.status(), &answer.headers()["retry-after"]),
            (429.try_into().unwrap(), &"3600".try_into().unwrap())
        );
        assert_eq!(answer.headers()["x-should-retry"], "false");
    }
}

#[tokio::test]
async fn a_pause_of_the_shared_account_is_answered_with_its_end() {
    let server = Server::start(reply(429).ra(30)).await;
    let short = "policy.max_retry_time = \"1s\"\naccount.max_pause = \"1s\"";
    let gateway = Started::before(&server, short);
    let first = ask(&gateway).send().await.unwrap();
    assert_eq!(first.headers()["retry-after"], "30");

    let second = ask(&gateway).send().await.unwrap();
    assert_eq!(second.status(), 429);
    assert_eq!(second.headers()["x-should-retry"], "false");
    assert_eq!(second.headers()["x-retry-gateway-sends"], "0");
    let wait: u64 = second.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=40).contains(&wait), "{wait}");
    let body: Value = second.json().await.unwrap();
    assert_eq!(body["error"]["code"], "paused_past_deadline");
    assert_eq!(server.sends(), 1);
}

#[tokio::test]
async fn an_open_circuit_is_answered_without_the_network() {
    let server = Server::start(reply(500)).await;
    let more = "account.circuit_breaker.min_duration = \"0s\"
                account.circuit_breaker.probe_interval = [\"20s\", \"20s\"]
                policy.max_attempts = 1\npolicy.fail_fast = true";
    let gateway = Started::before(&server, more);
    for _ in 0..6 {
        assert_eq!(ask(&gateway).send().await.unwrap().status(), 500);
    }
    let answer = ask(&gateway).send().await.unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
    assert_eq!(answer.headers()["x-should-retry"], "false");
    let body: Value = answer.json().await.unwrap();
    assert_eq!(
        (&body["error"]["type"], &body["error"]["code"]),
        (&"overloaded_error".into(), &"circuit_open".into())
    );
    assert_eq!(server.sends(), 6);
}

/// Without `fail_fast` the same callers are answered, a little later.
#[tokio::test]
async fn calls_wait_for_an_open_circuit() {
    let server = Server::start([reply(500).times(6), reply(200).times(1)]).await;
    let more = "account.circuit_breaker = { min_duration = \"0s\", probe_interval = [\"300ms\", \"1s\"] }
                policy.max_attempts = 1";
    let gateway = Started::before(&server, more);
    for _ in 0..6 {
        assert_eq!(ask(&gateway).send().await.unwrap().status(), 500);
    }
    let begun = Instant::now();
    assert_eq!(ask(&gateway).send().await.unwrap().status(), 200);
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    assert_eq!(server.sends(), 7);
}

#[tokio::test]
async fn tokens_are_estimated_by_the_bytes_that_are_configured() {
    for (bytes_per_token, second) in [(1000.0, 200), (1.0, 429)] {
        let server = Server::start(reply(200)).await;
        // ten seconds' worth, a hundred tokens, may go at once
        let account =
            format!("account = {{ input_tokens_per_minute = 600, input_bytes_per_token = {bytes_per_token:?} }}");
        let gateway = Started::before(&server, &format!("{account}\npolicy.max_queue_time = \"1ms\""));
        let body = format!(r#"{{"model":"m","prompt":"{}"}}"#, "x".repeat(1000));
        for status in [200, second] {
            let answer = ask(&gateway).body(body.clone()).send().await.unwrap();
            assert_eq!(answer.status(), status, "{bytes_per_token}");
        }
    }
}

#[tokio::test]
async fn giving_up_as_an_error_is_a_status_that_no_sdk_repeats() {
    let server = Server::start(reply(429)).await;
    let gateway = Started::before(&server, "policy.max_attempts = 3\npolicy.give_up = \"error\"");
    let answer = ask(&gateway).send().await.unwrap();
    assert_eq!(answer.status(), 424);
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["error"]["code"], "attempts_spent");
    assert_eq!(body["error"]["upstream_status"], 429);
    assert_eq!(server.sends(), 3);
}

#[tokio::test]
async fn a_request_above_the_limit_is_sent_once_and_whole() {
    for (bytes, sends) in [(1024, 3), (1025, 1), (100_000, 1)] {
        let server = Server::start([reply(429), reply(429), reply(200)]).await;
        let gateway = Started::before(&server, "policy.buffer_request = \"1KiB\"");
        let body = "x".repeat(bytes);
        let answer = ask(&gateway).body(body.clone()).send().await.unwrap();
        assert_eq!(server.sends(), sends, "{bytes}");
        if sends == 1 {
            assert_eq!(answer.status(), 429);
            assert_eq!(
                answer.headers()["x-retry-gateway-stop"],
                "not_replayable:body_too_large"
            );
            assert!(
                !answer.headers().contains_key("x-should-retry"),
                "the caller may try again"
            );
        }
        for request in server.requests() {
            assert_eq!(request.text(), body);
            assert_eq!(request.header("content-length"), Some(bytes.to_string().as_str()));
        }
    }
}

#[tokio::test]
async fn a_request_that_was_not_kept_is_left_to_the_caller() {
    let server = Server::start(rst()).await;
    let gateway = Started::before(&server, "policy.buffer_request = \"1KiB\"");
    let answer = ask(&gateway).body("x".repeat(2000)).send().await.unwrap();
    assert_eq!(answer.status(), 502);
    assert!(!answer.headers().contains_key("x-should-retry"));
    assert_eq!(server.sends(), 1);
}

#[tokio::test]
async fn a_repeat_by_an_sdk_that_is_told_in_vain_is_answered_from_memory() {
    for (failure, status) in [(reply(429).body("no"), 429), (rst(), 502)] {
        let server = Server::start(failure).await;
        let gateway = Started::before(&server, "policy.max_attempts = 4\nouter_retry_guard = \"60s\"");
        for count in 0..3 {
            let answer = ask(&gateway)
                .header("x-stainless-retry-count", count)
                .send()
                .await
                .unwrap();
            assert_eq!(answer.status(), status);
            assert_eq!(answer.headers()["x-should-retry"], "false");
            let stop = if count == 0 {
                "attempts_spent"
            } else {
                "operation_spent"
            };
            assert_eq!(answer.headers()["x-retry-gateway-stop"], stop);
        }
        assert_eq!(server.sends(), 4);
    }
}

#[tokio::test]
async fn a_request_above_the_limit_is_passed_on_as_it_comes() {
    let server = Server::start(reply(200).body("ok")).await;
    let gateway = Started::before(&server, "policy.buffer_request = \"1KiB\"");
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let head = "POST /one/v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&[b'x'; 3000]).await.unwrap();
    let some = |ledger: &testbed::Ledger| {
        ledger
            .last_request()
            .is_some_and(|request| request.body().len() >= 3000)
    };
    server.wait_until("the first part of the body", some).await;
    stream.write_all(&[b'x'; 2000]).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(server.last_request().unwrap().body().len(), 5000);
}

#[tokio::test]
async fn a_caller_that_waits_for_a_word_before_its_body_gets_it_here() {
    let server = Server::start([reply(429), reply(200)]).await;
    let gateway = Started::before(&server, "");
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let head = "POST /one/v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 13\r\nexpect: 100-continue\r\n\
                connection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut word = [0; 25];
    stream.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(br#"{"model":"m"}"#).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(server.sends(), 2);
    for request in server.requests() {
        assert_eq!(
            (request.text().as_str(), request.header("expect")),
            (r#"{"model":"m"}"#, None)
        );
    }
}

#[tokio::test]
async fn a_chunked_request_is_kept_and_sent_again() {
    let server = Server::start([reply(429), reply(200)]).await;
    let gateway = Started::before(&server, "");
    let chunks = "POST /one/v1/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
                  d\r\n{\"model\":\"m\",\r\nc\r\n\"system\":\"\"}\r\n0\r\n\r\n";
    let answer = exchange(&gateway, chunks).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(server.sends(), 2);
    for request in server.requests() {
        assert_eq!(request.text(), r#"{"model":"m","system":""}"#);
        assert_eq!(request.header("content-length"), Some("25"));
        assert_eq!(request.header("transfer-encoding"), None);
    }
}

#[tokio::test]
async fn fields_of_one_connection_are_not_passed_on() {
    let answer = reply(200)
        .header("connection", "x-hop, keep-alive")
        .header("x-hop", "1")
        .header("keep-alive", "timeout=5")
        .header("proxy-authenticate", "Basic")
        .header("x-kept", "1")
        .body("ok");
    let server = Server::start(answer).await;
    let gateway = Started::before(&server, "");
    let answer = exchange(
        &gateway,
        "GET /one/v1/models?a=1&b=%20 HTTP/1.1\r\nhost: localhost:1\r\nconnection: close, x-hop\r\nx-hop: 1\r\n\
         keep-alive: timeout=9\r\nproxy-authorization: Basic eDp5\r\nproxy-connection: keep-alive\r\nte: trailers\r\n\
         upgrade: h2c\r\nauthorization: Bearer k\r\nx-stainless-retry-count: 1\r\n\r\n",
    )
    .await;

    let sent = server.last_request().unwrap();
    assert_eq!((sent.method(), sent.path()), ("GET", "/v1/models?a=1&b=%20"));
    let mut names: Vec<_> = sent.headers().iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    // `accept: */*` is the client's, and says what its absence says
    assert_eq!(
        names,
        ["accept", "authorization", "host", "via", "x-stainless-retry-count"]
    );
    assert_eq!(sent.header("host"), Some(server.addr().to_string().as_str()));
    assert_eq!(sent.header("authorization"), Some("Bearer k"));

    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, "ok");
    let head = head.to_ascii_lowercase();
    assert!(head.contains("x-kept: 1"), "{head}");
    for gone in ["x-hop", "keep-alive", "proxy-authenticate"] {
        assert!(!head.contains(gone), "{gone}: {head}");
    }
}

#[tokio::test]
async fn encodings_are_not_undone() {
    let packed = [0x1f_u8, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3];
    let server = Server::start(reply(200).header("content-encoding", "gzip").body(packed)).await;
    for (setting, asked) in [("", "identity"), ("accept_encoding = \"pass\"", "gzip, br")] {
        let gateway = Started::before(&server, setting);
        let call = ask(&gateway)
            .header("accept-encoding", "gzip, br")
            .header("content-encoding", "zstd");
        let answer = call.send().await.unwrap();
        let sent = server.last_request().unwrap();
        assert_eq!(sent.header("accept-encoding"), Some(asked));
        assert_eq!(sent.header("content-encoding"), Some("zstd"));
        assert_eq!(answer.headers()["content-encoding"], "gzip");
        assert_eq!(answer.headers()["content-length"], "13");
        assert_eq!(answer.bytes().await.unwrap().as_ref(), packed);

        ask(&gateway).send().await.unwrap();
        assert_eq!(server.last_request().unwrap().header("accept-encoding"), None);
    }
}

#[tokio::test]
async fn a_spent_quota_is_told_though_the_caller_would_take_it_packed() {
    let spent = r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota","message":"no"}}"#;
    // as a network in between does it; what stands in the body is then for the caller alone
    let rule = move |request: &testbed::Request| match request.header("accept-encoding") {
        Some(accepted) if accepted.contains("gzip") => reply(429).header("content-encoding", "gzip").body([0x1f, 0x8b]),
        _ => reply(429).json(spent),
    };
    for (setting, sends) in [("", 1), ("accept_encoding = \"pass\"", 3)] {
        let server = Server::respond(rule).await;
        let gateway = Started::before(&server, &format!("{setting}\npolicy.max_attempts = 3"));
        let answer = ask(&gateway)
            .header("accept-encoding", "gzip, deflate")
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 429);
        assert_eq!(server.sends(), sends, "{setting}");
    }
}

#[tokio::test]
async fn answers_without_a_body_keep_their_heads() {
    let bare = reply(200).header("content-length", 1234);
    let server = Server::respond(move |request| match request.method() {
        "HEAD" => bare.clone(),
        "DELETE" => reply(204),
        _ => reply(304).header("etag", "\"1\""),
    })
    .await;
    let gateway = Started::before(&server, "");
    let (client, url) = (caller(), gateway.url("/one/v1/files/f"));
    let head = client.head(&url).send().await.unwrap();
    assert_eq!(head.headers()["content-length"], "1234");
    assert_eq!(client.delete(&url).send().await.unwrap().status(), 204);
    let unchanged = client.get(&url).send().await.unwrap();
    assert_eq!(
        (unchanged.status().as_u16(), &unchanged.headers()["etag"]),
        (304, &"\"1\"".try_into().unwrap())
    );
}

#[tokio::test]
async fn a_redirect_is_the_callers_to_follow() {
    let elsewhere = Server::start(reply(200)).await;
    let server = Server::start(reply(307).header("location", elsewhere.url("/v1"))).await;
    let gateway = Started::before(&server, "");
    let answer = ask(&gateway).send().await.unwrap();
    assert_eq!(answer.status(), 307);
    assert_eq!(answer.headers()["location"], elsewhere.url("/v1").as_str());
    assert_eq!((server.sends(), elsewhere.sends()), (1, 0));
}

#[tokio::test]
async fn the_ceiling_holds_for_all_callers_together() {
    let gate = Gate::new();
    let server = Server::start(reply(200).held(&gate).body("ok")).await;
    let gateway = Started::before(&server, "account.max_concurrency = 3");
    let client = caller();
    let calls = (0..40).map(|_| {
        let call = client.post(gateway.url("/one/v1/messages")).body(r#"{"model":"m"}"#);
        async move { call.send().await.unwrap().text().await.unwrap() }
    });
    let full = async {
        server.wait_in_flight(3).await;
        gate.open();
    };
    let (answers, ()) = tokio::join!(futures_util::future::join_all(calls), full);
    assert_eq!(answers, vec!["ok"; 40]);
    assert_eq!((server.sends(), server.peak_in_flight()), (40, 3));
}

#[tokio::test]
async fn several_upstreams_have_names_and_one_may_be_the_default() {
    let (one, two) = (
        Server::start(reply(200).body("1")).await,
        Server::start(reply(200).body("2")).await,
    );
    let gateway = Started::with(&format!(
        "default_upstream = \"two\"\n{}{}",
        upstream("one", one.url("/base"), ""),
        upstream("two", two.url(""), "")
    ));
    for (path, body) in [("/one/v1/x", "1"), ("/two/v1/x", "2"), ("/v1/x", "2")] {
        let answer = caller().get(gateway.url(path)).send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), body, "{path}");
    }
    assert_eq!(one.last_request().unwrap().path(), "/base/v1/x");
    let paths: Vec<_> = two.requests().iter().map(|request| request.path().to_owned()).collect();
    assert_eq!(paths, ["/v1/x", "/v1/x"]);
}

#[tokio::test]
async fn one_keys_spent_quota_is_not_anothers() {
    let spent =
        reply(429).json(r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota","message":"no"}}"#);
    let rule = move |request: &testbed::Request| -> Reply {
        match request.header("authorization") {
            Some("Bearer poor") => spent.clone(),
            _ => reply(200).body("ok"),
        }
    };
    for (account, sends) in [("", 4), ("account.lane_by_header = \"authorization\"", 3)] {
        let server = Server::respond(rule.clone()).await;
        let gateway = Started::before(&server, account);
        for (key, status) in [("poor", 429), ("rich", 200), ("poor", 429), ("rich", 200)] {
            let answer = ask(&gateway).bearer_auth(key).send().await.unwrap();
            assert_eq!(answer.status(), status, "{key} {account}");
        }
        // an account that is held by key answers the second call of a spent one from memory
        assert_eq!(server.sends(), sends, "{account}");
    }
}
