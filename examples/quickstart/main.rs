//! Calls an AI provider through the middleware and prints what happened, line by line; then the same calls without it.
//!
//! The provider is a scripted one on loopback, so this needs no network, no key and less than ten seconds:
//!
//! ```text
//! cargo run --example quickstart
//! ```
//!
//! A real one is called instead if `OPENAI_BASE_URL` names it (with `OPENAI_API_KEY` and `OPENAI_MODEL` if it wants them).
//! TLS is the program's choice, and this one leaves it off unless told otherwise:
//!
//! ```text
//! OPENAI_BASE_URL=https://api.openai.com/v1 OPENAI_API_KEY=… cargo run --example quickstart --features reqwest/rustls
//! ```

mod provider;

use std::time::{Duration, Instant};

use reqwest_ai_retry::{Event, Outcome, RetryMiddleware, RetryPolicy};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Ok(base) = std::env::var("OPENAI_BASE_URL") {
        println!("one call to the endpoint in OPENAI_BASE_URL");
        return Ok(call(&with_retries(), &base).await?);
    }
    for moment in provider::moments().await {
        println!("\n== {} ==\n", moment.title);
        println!("with the middleware:");
        call(&with_retries(), &moment.server.url("/v1")).await?;
    }
    for moment in provider::moments().await {
        println!("\n== {}, without the middleware ==\n", moment.title);
        call(
            &ClientBuilder::new(reqwest::Client::new()).build(),
            &moment.server.url("/v1"),
        )
        .await?;
    }
    Ok(())
}

/// The whole set-up: a client with reqwest's hidden retries off, and the middleware. The observer is for the timeline.
fn with_retries() -> ClientWithMiddleware {
    let retry = RetryMiddleware::builder()
        .policy(RetryPolicy::default().max_retry_time(Duration::from_secs(30)))
        .observer(timeline())
        .build();
    match RetryMiddleware::client_builder().build() {
        Ok(client) => ClientBuilder::new(client).with(retry).build(),
        Err(error) => unreachable!("a client without TLS needs nothing that could be missing: {error}"),
    }
}

/// Prints a call as it goes.
fn timeline() -> impl Fn(&Event<'_>) + Send + Sync {
    let start = Instant::now();
    move |event| {
        let at = format!("  {:>6.2} s ", start.elapsed().as_secs_f64());
        match event {
            Event::AttemptStarted { call, attempt, .. } => {
                println!("{at} attempt {attempt}: {} {}", call.method(), call.path())
            }
            Event::AttemptFinished {
                status,
                verdict: Some(verdict),
                headers,
                ..
            } => println!(
                "{at}   {}: {:?}, {:?}{}{}",
                status.map_or("no answer".to_owned(), |status| status.as_u16().to_string()),
                verdict.class(),
                verdict.cause(),
                verdict.server_delay().map_or(String::new(), |delay| format!(
                    ", the server says {:?}",
                    delay.duration()
                )),
                headers.request_id().map_or(String::new(), |id| format!(" [{id}]")),
            ),
            Event::AttemptFinished { status, .. } => println!("{at}   {}", status.map_or(0, |status| status.as_u16())),
            Event::Waiting { wait, .. } => println!("{at}   waits {:.2} s", wait.as_secs_f64()),
            Event::GaveUp { stop, .. } => println!("{at} gave up: {stop}"),
            Event::Recovered { outcome, .. } => println!("{at} recovered after {} attempts", outcome.sends()),
            _ => {}
        }
    }
}

/// One streamed chat call; prints the answer, or what an end user would be told.
async fn call(client: &ClientWithMiddleware, base: &str) -> reqwest_middleware::Result<()> {
    let model = std::env::var("OPENAI_MODEL").unwrap_or_else(|_| "gpt-4o-mini".to_owned());
    let body = serde_json::json!({
        "model": model,
        "stream": true,
        "messages": [{ "role": "user", "content": "In one sentence: what is good retrying?" }],
    });
    let mut request = client
        .post(format!("{}/chat/completions", base.trim_end_matches('/')))
        .json(&body);
    if let Ok(key) = std::env::var("OPENAI_API_KEY") {
        request = request.bearer_auth(key);
    }
    let response = request.send().await?;
    let (status, outcome) = (response.status(), Outcome::of(&response).cloned());
    let text = response.text().await?;
    println!(
        "  status {}: {}",
        status.as_u16(),
        if status.is_success() {
            answer(&text)
        } else {
            error_message(&text)
        }
    );
    if let Some(outcome) = outcome {
        println!(
            "  outcome: {} sends, {:.2} s of waiting, {}",
            outcome.sends(),
            outcome.waited().as_secs_f64(),
            outcome.stop()
        );
        println!("  to the user: {}", outcome.user_message());
    }
    Ok(())
}

/// The words of a stream of chat chunks.
fn answer(stream: &str) -> String {
    let chunks = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let words = chunks.filter_map(|chunk| {
        let chunk: serde_json::Value = serde_json::from_str(chunk).ok()?;
        Some(chunk.pointer("/choices/0/delta/content")?.as_str()?.to_owned())
    });
    words.collect()
}

fn error_message(body: &str) -> String {
    let message = serde_json::from_str::<serde_json::Value>(body).ok();
    let message = message.and_then(|body| Some(body.pointer("/error/message")?.as_str()?.to_owned()));
    message.unwrap_or_else(|| "no message".to_owned())
}
