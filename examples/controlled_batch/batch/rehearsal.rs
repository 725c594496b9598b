//! The batch itself: the simulated provider, the middleware with its account, and the workers that share it. Knows no
//! report.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest_ai_retry::{Account, Event, Outcome, RetryMiddleware, RetryPolicy};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use testbed::sim::{self, Latency, Law, Model, Provider, Shape, Simulation, Tally, Transport};

use super::bar::Bar;
use super::plan::Plan;
use super::watch::{Counts, Watch};

/// The most that a request takes to reach the provider, as over a network.
const ON_THE_WAY: Duration = Duration::from_millis(20);

/// The result of a batch.
#[derive(Debug)]
pub(crate) struct Seen {
    /// By the client's count.
    pub(crate) client: Counts,
    /// By the provider's own count.
    pub(crate) provider: Tally,
    pub(crate) successes: u64,
    pub(crate) time: Duration,
    /// Wall-clock time, which virtual time runs ahead of.
    pub(crate) wall: Duration,
    /// Calls that the account still counts as in flight or waiting; zero unless something leaks.
    pub(crate) left_over: u32,
}

pub(crate) async fn run(plan: &Plan, bar: Option<Bar<'_>>) -> Result<Seen, Box<dyn Error>> {
    let wall = std::time::Instant::now();
    let simulation = Simulation::new(Provider::new(model(plan), plan.seed));
    let account = Account::builder()
        .requests_per_minute(plan.target)
        .max_concurrency(plan.concurrency)
        .build()?;
    let watch = Arc::new(Watch::new(plan.spacing));
    let observer = watch.clone();
    let mut policy = RetryPolicy::default();
    if let Some(timeout) = plan.weather.attempt_timeout(plan.latency) {
        policy = policy.attempt_timeout(timeout);
    }
    let retry = RetryMiddleware::builder()
        .policy(policy)
        .account(account.clone())
        .seed(plan.seed)
        .observer(move |event: &Event<'_>| observer.event(event))
        .build();
    // a proxy named by the environment cannot reach loopback
    let client = RetryMiddleware::client_builder().no_proxy().build()?;
    let client = ClientBuilder::new(client).with(retry);
    let (client, base, endpoint) = if plan.is_virtual {
        let client = client.with(Transport::new(simulation.clone()));
        (client, "http://provider.invalid".to_owned(), None)
    } else {
        let endpoint = sim::serve(simulation.clone()).await;
        (client, endpoint.url(""), Some(endpoint))
    };
    let (client, url) = (client.build(), format!("{base}/v1/chat/completions"));

    let (next, bar) = (Cell::new(0), RefCell::new(bar));
    let draw = || {
        if let Some(bar) = bar.borrow_mut().as_mut() {
            bar.draw(&watch);
        }
    };
    let worker = || async {
        while next.get() < plan.requests {
            next.set(next.get() + 1);
            match read(&client, &url, next.get(), &watch).await {
                Ok(()) => watch.succeeded(),
                Err(why) => watch.failed(why),
            }
            draw();
        }
    };
    let mut workers = pin!(join_all((0..plan.workers).map(|_| worker())));
    loop {
        tokio::select! {
            _ = &mut workers => break,
            // in virtual time it would not be seen to move
            () = tokio::time::sleep(Duration::from_millis(100)), if !plan.is_virtual => draw(),
        }
    }
    let time = watch.elapsed();
    drop(endpoint);

    let status = account.status();
    let waiting: u32 = status.lanes.iter().map(|lane| lane.waiting).sum();
    let client = watch.counts();
    Ok(Seen {
        successes: client.successes,
        client,
        provider: simulation.tally(),
        time,
        wall: wall.elapsed(),
        left_over: status.in_flight + waiting,
    })
}

fn model(plan: &Plan) -> Model {
    let minute = Duration::from_secs(60);
    let fair = Model::new(Shape::OpenAi)
        .requests(Law::bucket(plan.allowance.into(), minute, plan.burst.into()))
        .latency(Latency::Fixed(plan.latency))
        .jitter(ON_THE_WAY);
    plan.weather.simulated().fold(fair, Model::failing)
}

/// Sends one request and reads the response to its end. The error says why it failed.
async fn read(client: &ClientWithMiddleware, url: &str, number: u64, watch: &Watch) -> Result<(), String> {
    let body = serde_json::json!({
        "model": "demo-model",
        "messages": [{ "role": "user", "content": format!("What does record {number} say?") }],
    });
    let response = client.post(url).json(&body).send().await.map_err(|error| {
        let outcome = Outcome::of_error(&error);
        outcome.map_or_else(|| "no response".to_owned(), |outcome| outcome.stop().to_string())
    })?;
    if !response.status().is_success() {
        let outcome = Outcome::of(&response);
        return Err(outcome.map_or_else(|| response.status().to_string(), |outcome| outcome.stop().to_string()));
    }
    let body = response.bytes().await;
    watch.body_ended();
    body.map(drop).map_err(|_| "the response body was cut off".to_owned())
}
