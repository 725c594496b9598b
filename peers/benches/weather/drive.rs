//! The callers: workers that take one prompt after another, or calls that arrive. Knows when each call began and ended, and
//! nothing of what lies below the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest_middleware::ClientWithMiddleware;
use testbed::sim::Shape;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::incident::{Incident, Load};

/// What an endless worker does after a call that failed in no time: without it, time would not go on.
const BREATH: Duration = Duration::from_millis(20);

/// A call as its caller saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) prompt: u64,
    pub(crate) ended: Duration,
    pub(crate) answered: bool,
}

/// What every caller has.
#[derive(Clone)]
struct Caller {
    client: ClientWithMiddleware,
    url: &'static str,
    models: &'static [&'static str],
    /// Where the layer has no such setting of its own.
    send_timeout: Option<Duration>,
    patience: Option<Duration>,
    start: Instant,
}

/// Makes all calls of an incident; `timed` sets reqwest's own timeout on each send.
pub(crate) async fn drive(
    incident: &Incident,
    client: ClientWithMiddleware,
    timed: bool,
) -> Result<Vec<Made>, JoinError> {
    let caller = Caller {
        client,
        url: match incident.shape {
            Shape::Anthropic => "https://api.anthropic.com/v1/messages",
            _ => "https://api.openai.com/v1/chat/completions",
        },
        models: incident.models,
        send_timeout: incident.attempt_timeout.filter(|_| timed),
        patience: incident.gives_up.map(|gives_up| gives_up.after()),
        start: Instant::now(),
    };
    match incident.load {
        Load::Batch { prompts, workers } => crew(&caller, workers, move |taken, _| taken < prompts).await,
        Load::Endless { workers, until } => crew(&caller, workers, move |_, now| now < until).await,
        Load::Arrivals { every, until } => arrivals(&caller, every, until).await,
    }
}

async fn crew(
    caller: &Caller,
    workers: usize,
    goes_on: impl Fn(u64, Duration) -> bool + Copy + Send + 'static,
) -> Result<Vec<Made>, JoinError> {
    let taken = Arc::new(AtomicU64::new(0));
    let mut crew = JoinSet::new();
    for _ in 0..workers {
        let (caller, taken) = (caller.clone(), Arc::clone(&taken));
        crew.spawn(async move {
            let mut all = Vec::new();
            loop {
                let prompt = taken.fetch_add(1, Ordering::Relaxed);
                let begun = caller.start.elapsed();
                if !goes_on(prompt, begun) {
                    return all;
                }
                let made = caller.ask(prompt).await;
                all.push(made);
                if !made.answered && made.ended == begun {
                    sleep(BREATH).await;
                }
            }
        });
    }
    let mut all = Vec::new();
    while let Some(worker) = crew.join_next().await {
        all.extend(worker?);
    }
    Ok(all)
}

async fn arrivals(caller: &Caller, every: Duration, until: Duration) -> Result<Vec<Made>, JoinError> {
    let mut calls = JoinSet::new();
    let mut due = Duration::ZERO;
    for prompt in 0.. {
        if due >= until {
            break;
        }
        sleep_until(caller.start + due).await;
        let caller = caller.clone();
        calls.spawn(async move { caller.ask(prompt).await });
        due += every;
    }
    let mut all = Vec::new();
    while let Some(call) = calls.join_next().await {
        all.push(call?);
    }
    Ok(all)
}

impl Caller {
    async fn ask(&self, prompt: u64) -> Made {
        let answered = match self.patience {
            Some(patience) => timeout(patience, self.answered(prompt)).await.unwrap_or(false),
            None => self.answered(prompt).await,
        };
        Made {
            prompt,
            ended: self.start.elapsed(),
            answered,
        }
    }

    /// One call to the end of its body.
    async fn answered(&self, prompt: u64) -> bool {
        let at = usize::try_from(prompt).unwrap_or(0) % self.models.len();
        let model = self.models.get(at).copied().unwrap_or_default();
        let body = format!(
            r#"{{"model":"{model}","messages":[{{"role":"user","content":"Prompt {prompt}"}}],"max_tokens":512}}"#
        );
        let mut request = self
            .client
            .post(self.url)
            .header("authorization", "Bearer key")
            .header("x-prompt", prompt)
            .body(body);
        if let Some(limit) = self.send_timeout {
            request = request.timeout(limit);
        }
        match request.send().await {
            Ok(response) => response.status().is_success() && response.bytes().await.is_ok(),
            Err(_) => false,
        }
    }
}
