//! One batch in virtual time: a contender, a provider and a seed. Knows what is measured, and not what is demanded.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest_ai_retry::Account;
use reqwest_middleware::ClientWithMiddleware;
use testbed::sim::{Provider, Simulation, Transport};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::contender::Contender;
use crate::scene::Scene;

const URL: &str = "https://api.openai.com/v1/chat/completions";
const BODY: &str = r#"{"model":"some-model-1","messages":[{"role":"user","content":"Hello"}],"max_tokens":512}"#;

/// What came of one batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) requests: u64,
    pub(crate) finished: u64,
    /// Of the shortest time in which any client can do it.
    pub(crate) makespan: f64,
    /// The same of a client that starts its requests evenly at the allowance and never ahead of that.
    pub(crate) even: f64,
    /// Of the requests.
    pub(crate) refused: f64,
    pub(crate) sends: u64,
    /// Of the median request's time.
    pub(crate) slowest: f64,
}

/// Runs it on a thread of its own clock.
pub(crate) fn run(scene: &Scene, contender: Contender, seed: u64) -> Result<Run, Box<dyn Error + Send + Sync>> {
    in_virtual_time(scene, contender, seed, async |_, _| ())
}

/// The same beside somebody who watches until the batch ends.
pub(crate) fn in_virtual_time(
    scene: &Scene,
    contender: Contender,
    seed: u64,
    watch: impl AsyncFnOnce(&Simulation, Option<&Account>),
) -> Result<Run, Box<dyn Error + Send + Sync>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(async {
        let simulation = Simulation::new(Provider::new(scene.model.clone(), seed));
        let (client, account) = contender.client(Transport::new(simulation.clone()), scene.allowance, seed)?;
        let batch = batch(scene, &client);
        let watched = async {
            watch(&simulation, account.as_ref()).await;
            std::future::pending::<()>().await;
        };
        let requests = tokio::select! {
            biased;
            requests = batch => requests?,
            () = watched => Vec::new(),
        };
        Ok(measure(scene, &simulation, requests))
    })
}

/// When a request ended, how long it had taken, and whether it was answered.
struct Request {
    ended: Duration,
    took: Duration,
    answered: bool,
}

async fn batch(scene: &Scene, client: &ClientWithMiddleware) -> Result<Vec<Request>, Box<dyn Error + Send + Sync>> {
    let start = Instant::now();
    let taken = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..scene.workers {
        let (client, taken, requests) = (client.clone(), Arc::clone(&taken), scene.requests);
        workers.spawn(async move {
            let mut made = Vec::new();
            while taken.fetch_add(1, Ordering::Relaxed) < requests {
                let begun = Instant::now();
                let answered = ask(&client).await;
                made.push(Request {
                    ended: start.elapsed(),
                    took: begun.elapsed(),
                    answered,
                });
            }
            made
        });
    }
    let mut made = Vec::new();
    while let Some(worker) = workers.join_next().await {
        made.extend(worker?);
    }
    Ok(made)
}

/// One request to the end of its body.
async fn ask(client: &ClientWithMiddleware) -> bool {
    match client.post(URL).body(BODY).send().await {
        Ok(response) => response.status().is_success() && response.bytes().await.is_ok(),
        Err(_) => false,
    }
}

fn measure(scene: &Scene, simulation: &Simulation, requests: Vec<Request>) -> Run {
    let bound = simulation.with(|provider| provider.bound(scene.requests, scene.latency));
    let interval = 60.0 / f64::from(scene.allowance);
    let even = scene.requests.saturating_sub(1) as f64 * interval + scene.latency.as_secs_f64();
    let ended = requests.iter().map(|request| request.ended).max().unwrap_or_default();
    let mut times: Vec<f64> = requests.iter().map(|request| request.took.as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    let (median, slowest) = (times.get(times.len() / 2), times.last());
    let (sends, refused) = simulation.with(|provider| (provider.tally().sends, provider.tally().refused()));
    Run {
        requests: scene.requests,
        finished: requests.iter().filter(|request| request.answered).count() as u64,
        makespan: ended.as_secs_f64() / bound.as_secs_f64(),
        even: even / bound.as_secs_f64(),
        refused: refused as f64 / scene.requests as f64,
        sends,
        slowest: median
            .zip(slowest)
            .map_or(f64::NAN, |(median, slowest)| slowest / median),
    }
}
