//! Four processes share one account through a Redis server, against a simulated provider that refuses whatever comes too soon.
//!
//! Both servers are started here, on loopback; `redis-server` must be installed (`apt-get install redis-server`):
//!
//! ```text
//! cargo run --features redis --example shared_account
//! ```

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use reqwest_ai_retry::{Account, RedisStore, RetryMiddleware};
use reqwest_middleware::ClientBuilder;
use testbed::RedisServer;
use testbed::sim::{Case, Headers, Latency, Provider, serve};

const PROCESSES: usize = 4;
const TASKS: usize = 5;
const REQUESTS: usize = 20;
/// What the provider allows, a minute; the processes know it.
const ALLOWANCE: u32 = 600;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [] => direct().await,
        [redis, provider] => {
            work(redis, provider).await?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("usage: shared_account".into()),
    }
}

/// What each process does: nothing in it knows of the others, but for the store.
async fn work(redis: &str, provider: &str) -> Result<(), Box<dyn Error>> {
    let store = RedisStore::connect(redis).await?.account("example");
    let account = Account::builder().requests_per_minute(ALLOWANCE).redis(store).build()?;
    let retry = RetryMiddleware::builder().account(account).build();
    let client = ClientBuilder::new(RetryMiddleware::client_builder().build()?)
        .with(retry)
        .build();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (client, provider) = (client.clone(), provider.to_owned());
            tokio::spawn(async move {
                for _ in 0..REQUESTS / TASKS {
                    let prompt = r#"{"model":"any","messages":[{"role":"user","content":"hello"}]}"#;
                    match client.post(&provider).body(prompt).send().await {
                        Ok(answer) => println!("{}", answer.status().as_u16()),
                        Err(error) => println!("{error}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    Ok(())
}

/// Starts the servers and the processes, and says what came of it, as the provider saw it.
async fn direct() -> Result<ExitCode, Box<dyn Error>> {
    let redis = RedisServer::start();
    let model = Case::Bucket10
        .model(ALLOWANCE.into())
        .headers(Headers::Off)
        .latency(Latency::Fixed(Duration::from_millis(300)));
    let provider = serve(Provider::new(model, 1)).await;
    println!(
        "a provider that allows {ALLOWANCE} a minute, {PROCESSES} processes of {TASKS} tasks that send {REQUESTS} each"
    );
    let begun = Instant::now();
    let mut workers = Vec::new();
    for number in 1..=PROCESSES {
        let mut child = Command::new(std::env::current_exe()?)
            .args([redis.url(), provider.url("/v1/chat/completions")])
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().ok_or("no answers to read")?).lines();
        workers.push(tokio::task::spawn_blocking(move || {
            let answers: Vec<String> = answers.map_while(Result::ok).collect();
            child.wait().ok();
            (number, answers, begun.elapsed())
        }));
    }
    let mut served = 0;
    for worker in workers {
        let (number, answers, took) = worker.await?;
        let well = answers.iter().filter(|answer| *answer == "200").count();
        println!(
            "process {number}: {well} of {} answered well, after {:.1} s",
            answers.len(),
            took.as_secs_f64()
        );
        served += well;
    }
    let refused = provider.simulation().with(|provider| provider.tally().refused());
    let least = f64::from(u32::try_from(PROCESSES * REQUESTS)? - 1) * 60.0 / f64::from(ALLOWANCE);
    println!(
        "all: {served} served and {refused} refused in {:.1} s; {least:.1} s is the least that the allowance takes",
        begun.elapsed().as_secs_f64()
    );
    let all = served == PROCESSES * REQUESTS;
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
