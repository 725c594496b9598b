//! Many calls of OpenAI's SDK while its server is down for some seconds: how many are answered, straight and through the
//! gateway with an account.

use std::time::{Duration, Instant};

use serde_json::json;
use testbed::{Server, reply};

use crate::calls::{Language, run, success};
use crate::started::{Started, upstream};

const CALLS: usize = 200;
const WORKERS: usize = 20;
/// From the first request on.
const OUTAGE: Duration = Duration::from_secs(3);

/// What became of them.
struct Measured {
    version: String,
    answered: u64,
    sends: usize,
    failed: usize,
    took: Duration,
}

pub(crate) async fn compare(language: Language) {
    let straight = measure(&language, false).await;
    let through = measure(&language, true).await;
    println!(
        "\n{CALLS} calls of {} {} by {WORKERS} workers, {OUTAGE:?} of 529:",
        language.names[0], through.version
    );
    for (way, measured) in [("straight", &straight), ("through the gateway", &through)] {
        println!(
            "  {way:<20} {:>3} answered, {:>3} sends, of which {:>3} failed, {:.1?}",
            measured.answered, measured.sends, measured.failed, measured.took
        );
    }
    assert_eq!(through.answered, CALLS as u64, "calls are lost");
    assert!(
        through.failed <= straight.failed,
        "more sends failed than without the gateway"
    );
}

async fn measure(language: &Language, through: bool) -> Measured {
    let mut end = None;
    let server = Server::respond(move |_| {
        let end = *end.get_or_insert_with(|| Instant::now() + OUTAGE);
        match Instant::now() < end {
            true => reply(529).json(r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#),
            false => success("openai", false),
        }
    })
    .await;
    let gateway = through.then(|| Started::with(&upstream("one", server.url(""), "account = {}")));
    let base_url = match &gateway {
        Some(gateway) => gateway.url("/one"),
        None => server.url(""),
    };
    let orders = json!({ "base_url": base_url, "calls": CALLS, "workers": WORKERS });
    let (runner, begun) = (language.clone(), Instant::now());
    let results = tokio::task::spawn_blocking(move || run(&runner, runner.outage, &orders));
    let results = results.await.unwrap();
    let arrivals = server.arrivals();
    let failed = arrivals
        .iter()
        .filter(|at| at.duration_since(arrivals[0]) < OUTAGE)
        .count();
    Measured {
        version: results[0]["version"].as_str().unwrap().to_owned(),
        answered: results[0]["answered"].as_u64().unwrap(),
        sends: server.sends(),
        failed,
        took: begun.elapsed(),
    }
}
