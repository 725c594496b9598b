//! What does not get through.

use serde_json::Value;
use testbed::{Server, reply};

use crate::relaying::exchange;
use crate::started::{Started, caller, upstream};

async fn refused(gateway: &Started, target: &str, more: &str) -> (String, Value) {
    let host = if more.contains("host: ") {
        ""
    } else {
        "host: localhost\r\n"
    };
    let answer = exchange(
        gateway,
        &format!("GET {target} HTTP/1.1\r\n{host}{more}connection: close\r\n\r\n"),
    )
    .await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.to_ascii_lowercase().contains("x-should-retry: false"), "{head}");
    let status = head.split(' ').nth(1).unwrap().to_owned();
    (status, serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn only_configured_upstreams_can_be_reached() {
    let (server, other) = (Server::start(reply(200)).await, Server::start(reply(200)).await);
    let gateway = Started::with(&format!(
        "default_upstream = \"one\"\n{}",
        upstream("one", server.url("/base"), "")
    ));
    for (target, code) in [
        (other.url("/v1"), "not_a_path"),
        (other.url("/one/v1"), "not_a_path"),
        (format!("//{}/v1", other.addr()), "unclean_path"),
        ("/one/../admin".to_owned(), "unclean_path"),
        ("/one/%2e%2E/admin".to_owned(), "unclean_path"),
        ("/one/..%2fadmin".to_owned(), "unclean_path"),
    ] {
        let (status, body) = refused(&gateway, &target, "").await;
        assert_eq!(
            (status.as_str(), &body["error"]["code"]),
            ("400", &code.into()),
            "{target}"
        );
    }
    assert_eq!((server.sends(), other.sends()), (0, 0));

    // taken as the paths they are, at the upstream they belong to
    for target in [format!("/one//{}/v1", other.addr()), format!("/@{}/v1", other.addr())] {
        let head = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        assert!(exchange(&gateway, &head).await.starts_with("HTTP/1.1 200"), "{target}");
        let path = target.strip_prefix("/one").unwrap_or(&target);
        assert_eq!(server.last_request().unwrap().path(), format!("/base{path}"));
    }
    assert_eq!((server.sends(), other.sends()), (2, 0));
}

#[tokio::test]
async fn what_names_no_upstream_leads_nowhere() {
    let server = Server::start(reply(200)).await;
    let gateway = Started::before(&server, "");
    for target in ["/", "/two/v1", "/v1/chat/completions", "/onex"] {
        let (status, body) = refused(&gateway, target, "").await;
        assert_eq!(
            (status.as_str(), &body["error"]["code"]),
            ("404", &"no_such_upstream".into()),
            "{target}"
        );
    }
    assert_eq!(server.sends(), 0);
}

#[tokio::test]
async fn tunnels_and_other_protocols_are_refused() {
    let server = Server::start(reply(200)).await;
    let gateway = Started::before(&server, "");
    let answer = exchange(
        &gateway,
        "CONNECT api.example:443 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let websocket = "upgrade: websocket\r\nconnection: upgrade\r\n";
    let (status, body) = refused(&gateway, "/one/v1/realtime", websocket).await;
    assert_eq!(
        (status.as_str(), &body["error"]["code"]),
        ("501", &"another_protocol".into())
    );
    assert_eq!(server.sends(), 0);
}

#[tokio::test]
async fn a_page_that_rebinds_its_name_is_not_let_in() {
    let server = Server::start(reply(200)).await;
    let one = upstream("one", server.url(""), "");
    let gateway = Started::with(&format!("allowed_hosts = [\"gateway.internal\"]\n{one}"));
    for target in ["/one/v1/models", "/status", "/healthz"] {
        let (status, body) = refused(&gateway, target, "host: evil.example\r\n").await;
        assert_eq!(
            (status.as_str(), &body["error"]["code"]),
            ("421", &"foreign_host".into()),
            "{target}"
        );
    }
    assert_eq!(server.sends(), 0);
    for host in ["localhost", "127.0.0.1:80", "gateway.internal"] {
        let head = format!("GET /one/v1 HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        assert!(exchange(&gateway, &head).await.starts_with("HTTP/1.1 200"), "{host}");
    }
}

#[tokio::test]
async fn a_circle_of_gateways_is_broken() {
    let server = Server::start(reply(200)).await;
    let gateway = Started::before(&server, "");
    let four = "via: 1.1 reqwest-ai-retry-gateway, 1.1 reqwest-ai-retry-gateway\r\n".repeat(2);
    let (status, body) = refused(&gateway, "/one/v1/models", &four).await;
    assert_eq!((status.as_str(), &body["error"]["code"]), ("508", &"circle".into()));
    assert_eq!(server.sends(), 0);
}

#[tokio::test]
async fn the_gateways_own_pages_can_only_be_read() {
    let server = Server::start(reply(200)).await;
    let gateway = Started::before(&server, "");
    for page in ["/healthz", "/status"] {
        let answer = caller().post(gateway.url(page)).body("x").send().await.unwrap();
        assert_eq!(answer.status(), 405, "{page}");
    }
    assert_eq!(server.sends(), 0);
}
