//! What is told of a lane is traced too. Alone in its program: tracing remembers for each place in the code whether anybody
//! listens, and other tests that come by while nobody does would have it remember that.

#![cfg(feature = "tracing")]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest_ai_retry::{Account, RetryMiddleware};
use reqwest_middleware::ClientBuilder;
use testbed::{Server, reply, script};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const BROKE: &str = r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#;
const HOLD: Duration = Duration::from_millis(30);

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_hold_is_traced() {
    let lines = Lines::default();
    let writer = lines.clone();
    let layer = fmt::layer().with_ansi(false).with_writer(move || writer.clone());
    let _guard = tracing_subscriber::registry().with(layer).set_default();
    let server = Server::start(script![reply(429).json(BROKE), reply(200)]).await;
    let account = Account::builder().quota_hold(HOLD).build().unwrap();
    let client = RetryMiddleware::client_builder().no_proxy().build().unwrap();
    let client = ClientBuilder::new(client)
        .with(RetryMiddleware::builder().account(account).build())
        .build();
    for _ in 0..2 {
        let call = client.post(server.url("/v1/chat/completions")).body(r#"{"model":"m"}"#);
        call.send().await.unwrap();
        tokio::time::sleep(2 * HOLD).await;
    }
    let traced = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let line = |what: &str| traced.lines().find(|line| line.contains(what)).unwrap();
    let held = line("quota used up, lane held");
    assert!(
        held.contains("WARN") && held.contains("model=\"m\"") && held.contains("until=\"20"),
        "{held}"
    );
    assert!(line("lane released").contains("INFO"), "{traced}");
    assert_eq!(server.sends(), 2);
}
