//! A batch of 600 by fifty workers in four processes, at 120 a minute and 2 s each, against a simulated provider over HTTP, in
//! real time: how near its end is to the provider's exact bound, and how much of it was refused.

use std::error::Error;
use std::time::Duration;

use testbed::RedisServer;
use testbed::sim::{Case, Headers, Latency, Provider, serve};

use super::bar;
use super::crew::{Crew, PROCESSES};

const REQUESTS: usize = 600;
const LATENCY: Duration = Duration::from_secs(2);
const MAKESPAN: f64 = 1.05;
const WASTED: f64 = 0.01;

pub(crate) fn batch() -> Result<bool, Box<dyn Error>> {
    let model = Case::Bucket10
        .model(120)
        .headers(Headers::Off)
        .latency(Latency::Fixed(LATENCY))
        .refusal_after(Duration::from_millis(50));
    let runtime = tokio::runtime::Runtime::new()?;
    let endpoint = runtime.block_on(serve(Provider::new(model, 7)));
    let server = RedisServer::start();
    let orders = [
        "batch".to_owned(),
        server.url(),
        endpoint.url("/v1/chat/completions"),
        (REQUESTS / PROCESSES).to_string(),
    ];
    println!("A batch of {REQUESTS} in {PROCESSES} processes, 120 a minute, bucket of burst 10 without headers");
    let mut crew = Crew::start(&orders)?;
    let begun = std::time::Instant::now();
    let statuses = crew.listen();
    let took = begun.elapsed() - Duration::from_millis(500);
    let finished = statuses.iter().filter(|(_, status)| status == "200").count();
    let simulation = endpoint.simulation();
    let bound = simulation.with(|provider| provider.bound(REQUESTS as u64, LATENCY));
    let refused = simulation.with(|provider| provider.tally().refused());
    let (makespan, wasted) = (
        took.as_secs_f64() / bound.as_secs_f64(),
        refused as f64 / REQUESTS as f64,
    );
    let mut met = bar(finished == REQUESTS, &format!("{finished} of {REQUESTS} finished"));
    met &= bar(
        makespan <= MAKESPAN,
        &format!(
            "{:.1} s, {makespan:.3} of the bound; {MAKESPAN} allowed",
            took.as_secs_f64()
        ),
    );
    met &= bar(
        wasted <= WASTED,
        &format!("{:.2} % refused; {} % allowed", 100.0 * wasted, 100.0 * WASTED),
    );
    Ok(met)
}
