//! Start, health, status, log and end.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Gate, Server, hang, reply, sse};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::started::{Started, ask, caller, file, run, run_without_roots, upstream};

#[tokio::test]
async fn a_call_in_flight_ends_before_the_gateway_does() {
    let gate = Gate::new();
    let server = Server::start(sse(["one"]).body_held(&gate)).await;
    let mut gateway = Started::before(&server, "");
    // a connection that is merely open holds nothing up
    let idle = TcpStream::connect(gateway.address()).await.unwrap();
    let answer = ask(&gateway).send().await.unwrap();

    gateway.terminate();
    gateway.wait_log("stopping").await;
    let closed = async {
        while TcpStream::connect(gateway.address()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(
        tokio::time::timeout(Duration::from_secs(5), closed).await.is_ok(),
        "new calls are let in"
    );
    gate.open();
    assert_eq!(answer.text().await.unwrap(), "data: one\n\n");
    assert!(gateway.ended().await.success());
    assert!(!gateway.log().contains("in flight: their time is over"));
    drop(idle);
}

#[tokio::test]
async fn a_call_that_does_not_end_is_cut_after_the_grace() {
    let server = Server::start(hang()).await;
    let mut gateway = Started::with(&format!(
        "shutdown_grace = \"50ms\"\n{}",
        upstream("one", server.url(""), "")
    ));
    let call = tokio::spawn(ask(&gateway).send());
    server.wait_complete(1).await;
    gateway.terminate();
    assert!(gateway.ended().await.success());
    gateway.wait_log("their time is over").await;
    assert!(call.await.unwrap().is_err());
    server.wait_open(0).await;
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let server = Server::start(hang()).await;
    let mut gateway = Started::with(&format!(
        "shutdown_grace = \"1h\"\n{}",
        upstream("one", server.url(""), "")
    ));
    let call = tokio::spawn(ask(&gateway).send());
    server.wait_complete(1).await;
    gateway.interrupt();
    gateway.wait_log("stopping").await;
    gateway.interrupt();
    assert!(gateway.ended().await.success());
    assert!(call.await.unwrap().is_err());
}

#[tokio::test]
async fn health_and_status_are_told_without_an_upstream() {
    let gate = Gate::new();
    let server = Server::start(reply(200).held(&gate).body("ok")).await;
    let gateway = Started::before(
        &server,
        "account.max_concurrency = 2\naccount.requests_per_minute = 600",
    );
    let health = caller().get(gateway.url("/healthz")).send().await.unwrap();
    assert_eq!(
        (health.status().as_u16(), health.text().await.unwrap().as_str()),
        (200, "ok\n")
    );

    let call = tokio::spawn(ask(&gateway).send());
    server.wait_complete(1).await;
    let answer = caller().get(gateway.url("/status")).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/json");
    let status: Value = answer.json().await.unwrap();
    let one = &status["upstreams"]["one"];
    assert_eq!((&one["in_flight"], &one["max_in_flight"]), (&json!(1), &json!(2)));
    assert_eq!(one["lanes"][0]["model"], "m");
    assert_eq!(one["lanes"][0]["breaker"], "closed");
    gate.open();
    assert_eq!(call.await.unwrap().unwrap().status(), 200);
    assert_eq!(server.sends(), 1);
}

#[tokio::test]
async fn nothing_secret_is_logged_or_shown() {
    let server = Server::start([reply(429).ra(0), reply(500), reply(401).body("hunter2-answer")]).await;
    let trace = "log = \"trace\"\n";
    let config = format!("{trace}{}", upstream("one", server.url(""), crate::started::QUICK));
    let gateway = Started::with(&config);
    let call = caller()
        .post(gateway.url("/one/v1/messages?key=hunter2-query"))
        .bearer_auth("hunter2-key")
        .header("x-api-key", "hunter2-key")
        .header("cookie", "hunter2-cookie")
        .body(r#"{"model":"m","prompt":"hunter2-body"}"#);
    assert_eq!(call.send().await.unwrap().status(), 401);
    assert_eq!(server.sends(), 3);
    gateway.wait_log("path=\"/v1/messages\"").await;
    gateway.wait_log("status=401 sends=3").await;
    let status = caller().get(gateway.url("/status")).send().await.unwrap();
    let shown = status.text().await.unwrap();
    assert!(!shown.contains("hunter2"), "{shown}");
    // the filter says all; what other crates trace of bytes on the wire is for whoever asks for it by name
    let log: Vec<_> = gateway
        .log()
        .lines()
        .filter(|line| line.contains("hunter2"))
        .map(str::to_owned)
        .collect();
    assert_eq!(log, [""; 0]);
}

#[tokio::test]
async fn the_access_log_has_one_line_for_each_call_and_can_be_off() {
    for (setting, lines) in [("", 2), ("access_log = false\n", 0)] {
        let server = Server::start(reply(200)).await;
        let mut gateway = Started::with(&format!("{setting}{}", upstream("one", server.url(""), "")));
        for path in ["/one/v1/models?key=hunter2", "/nowhere"] {
            caller().get(gateway.url(path)).send().await.unwrap();
        }
        gateway.terminate();
        gateway.ended().await;
        gateway.wait_log("stopped").await;
        let log = gateway.log();
        let access: Vec<_> = log.lines().filter(|line| line.contains(" access: ")).collect();
        assert_eq!(access.len(), lines, "{log}");
        if let [call, astray] = access[..] {
            assert!(
                call.contains("method=GET path=\"/one/v1/models\" upstream=\"one\" status=200 sends=1"),
                "{call}"
            );
            assert!(astray.contains("upstream=\"\" status=404 sends=0"), "{astray}");
        }
    }
}

#[tokio::test]
async fn a_slow_caller_and_a_silent_one_hold_nobody_up() {
    let server = Server::start(reply(200).body("ok")).await;
    let gateway = Started::before(&server, "");
    let mut slow = TcpStream::connect(gateway.address()).await.unwrap();
    slow.write_all(b"GET /one/v1/models HTTP/1.1\r\nhost: loc")
        .await
        .unwrap();
    assert_eq!(ask(&gateway).send().await.unwrap().status(), 200);
    slow.write_all(b"alhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("ok"), "{answer}");
}

#[test]
fn a_check_prints_what_is_in_force_and_serves_nothing() {
    let path = file(&upstream("openai", "https://api.openai.com", "policy.max_attempts = 3"));
    let path = path.to_str().unwrap();
    let checked = run(&["--check", "--config", path]);
    let printed = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.status.success(), "{printed}");
    assert!(
        printed.contains("max_attempts = 3\nmax_retry_time = \"2m\"\n"),
        "{printed}"
    );
    assert!(
        printed.contains("# http://127.0.0.1:8787/openai/… -> https://api.openai.com/…\n"),
        "{printed}"
    );

    // what it prints is a configuration that comes to the same
    std::fs::write(path, &printed).unwrap();
    let again = run(&["--check", "--config", path]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), printed);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_check_fails_with_the_key_at_fault() {
    for (text, part) in [
        ("", "missing field `upstreams`"),
        ("listen = 8787", "listen"),
        (
            "listen = \"0.0.0.0:8787\"\n[upstreams.one]\nurl = \"https://one.example\"",
            "allow_non_loopback = true",
        ),
        (
            "[upstreams.one]\nurl = \"https://one.example\"\nretries = 3",
            "unknown field `retries`, expected one of",
        ),
        (
            "[upstreams.one]\nurl = \"https://one.example\"\npolicy.max_retry_time = 20",
            "such as \"20s\"",
        ),
        (
            "[upstreams.one]\nurl = \"https://u:hunter2@one.example\"",
            "upstreams.one.url: a credential",
        ),
    ] {
        let path = file(text);
        for check in [&["--check"][..], &[]] {
            let mut arguments = vec!["--config", path.to_str().unwrap()];
            arguments.extend(check);
            let refused = run(&arguments);
            let said = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(2), "{said}");
            assert!(said.contains(part), "{said}");
        }
        std::fs::remove_file(path).unwrap();
    }
    let missing = run(&["--check", "--config", "/nowhere/gateway.toml"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_port_in_use_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("listen = \"{}\"\n", taken.local_addr().unwrap());
    let path = file(&format!("{listen}{}", upstream("one", "https://one.example", "")));
    let refused = run(&["--config", path.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        String::from_utf8(refused.stderr)
            .unwrap()
            .contains("cannot listen on 127.0.0.1:")
    );
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_machine_without_roots_is_told_so() {
    let path = file(&upstream("one", "https://one.example", ""));
    let refused = run_without_roots(&["--config", path.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("cert"), "{said}");
    std::fs::remove_file(path).unwrap();
}
