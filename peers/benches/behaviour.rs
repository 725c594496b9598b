//! What each retry layer does with the same answers: counted by a scripted server, nothing read from documentation. Knows the
//! situations and how a peer is set up for them, with waits so short that the whole takes a second or two.
//!
//! `cargo bench -p peers --bench behaviour` prints the table.

use std::error::Error;
use std::time::Duration;

use peers::Peer;
use reqwest::Method;
use reqwest_middleware::ClientWithMiddleware;
use testbed::{Reply, Server, reply, script};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The wait between attempts where the server states none.
const WAIT: Duration = Duration::from_millis(50);
/// A wait long enough to look at the sockets in its midst, after whatever is done before it.
const LONG_WAIT: Duration = Duration::from_millis(600);

const INFERENCE: &str = "/v1/chat/completions";
const ORDERS: &str = "/v1/orders";
const BODY: &str = r#"{"model":"some-model-1","messages":[{"role":"user","content":"Hello"}]}"#;
const QUOTA: &str = r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
const INVALID: &str = r#"{"error":{"message":"'messages' is a required property","type":"invalid_request_error","param":null,"code":null}}"#;

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(table())
}

async fn table() -> Outcome<()> {
    println!("Three sends at most for each layer; the server counts.\n");
    print!("{:<58}", "");
    for peer in Peer::ALL {
        print!("{peer:>32}");
    }
    println!();
    row("429, Retry-After: 1, then 200: second send after (ms)", async |peer| {
        let server = Server::start(script![reply(429).ra(1), reply(200)]).await;
        post(&peer.client(WAIT, 1)?, &server, INFERENCE).await;
        Ok(server
            .gaps()
            .first()
            .map_or_else(|| "never".into(), |gap| gap.as_millis().to_string()))
    })
    .await?;
    let counted: [(&str, &str, Reply); 5] = [
        ("429, insufficient_quota: sends", INFERENCE, reply(429).json(QUOTA)),
        ("500 to POST /v1/chat/completions: sends", INFERENCE, reply(500)),
        ("500 to POST /v1/orders: sends", ORDERS, reply(500)),
        ("501: sends", INFERENCE, reply(501)),
        ("400: sends", INFERENCE, reply(400).json(INVALID)),
    ];
    for (what, path, answer) in counted {
        row(what, async |peer| {
            let server = Server::start(answer.clone()).await;
            post(&peer.client(WAIT, 1)?, &server, path).await;
            Ok(server.sends().to_string())
        })
        .await?;
    }
    row("503, the layer put on twice: sends", async |peer| {
        let server = Server::start(reply(503)).await;
        post(&peer.client(WAIT, 2)?, &server, INFERENCE).await;
        Ok(server.sends().to_string())
    })
    .await?;
    row(
        "503 whose body never ends: sockets open during the wait",
        async |peer| {
            let server = Server::start(script![reply(503).body("busy").stalled(), reply(200)]).await;
            let client = peer.client(LONG_WAIT, 1)?;
            let looking = async {
                let mut open = Vec::new();
                while server.sends() < 2 {
                    open.push(server.open());
                    tokio::time::sleep(LONG_WAIT / 100).await;
                }
                // some time before the second send, which may need a new socket
                open.iter()
                    .rev()
                    .nth(20)
                    .map_or_else(|| "no wait".into(), usize::to_string)
            };
            let (open, ()) = tokio::join!(looking, post(&client, &server, INFERENCE));
            Ok(open)
        },
    )
    .await?;
    Ok(())
}

async fn row(what: &str, measure: impl AsyncFn(Peer) -> Outcome<String>) -> Outcome<()> {
    print!("{what:<58}");
    for peer in Peer::ALL {
        print!("{:>32}", measure(peer).await?);
    }
    println!();
    Ok(())
}

/// One call. How it ends is not the question here.
async fn post(client: &ClientWithMiddleware, server: &Server, path: &str) {
    let call = client.request(Method::POST, server.url(path)).body(BODY).send();
    let _ = call.await;
}
