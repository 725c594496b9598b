//! The callers: workers that take one prompt after another, or calls that arrive. Knows when each call began and ended, and
//! nothing of what lies below the client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest_middleware::ClientWithMiddleware;
use testbed::sim::Shape;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::incident::{Incident, Load};

/// What an endless worker does after a call that failed in no time: without it, time would not go on.
const BREATH: Duration = Duration::from_millis(20);

/// No run takes so long, unless calls wait that nobody wakes.
const FOR_EVER: Duration = Duration::from_secs(24 * 60 * 60);

/// A call as its caller saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) prompt: u64,
    pub(crate) begun: Duration,
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
    made: Arc<Mutex<Vec<Made>>>,
}

/// Makes all calls of an incident; `timed` sets reqwest's own timeout on each send. A call that never ends counts as not
/// answered.
pub(crate) async fn drive(incident: &Incident, client: ClientWithMiddleware, timed: bool) -> Vec<Made> {
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
        made: Arc::default(),
    };
    let all = async {
        match incident.load {
            Load::Batch { prompts, workers } => crew(&caller, workers, move |taken, _| taken < prompts).await,
            Load::Endless { workers, until } => crew(&caller, workers, move |_, now| now < until).await,
            Load::Arrivals { every, until } => arrivals(&caller, every, until).await,
        }
    };
    let _ = timeout(FOR_EVER, all).await;
    caller
        .made
        .lock()
        .map(|mut made| std::mem::take(&mut *made))
        .unwrap_or_default()
}

async fn crew(caller: &Caller, workers: usize, goes_on: impl Fn(u64, Duration) -> bool + Copy + Send + 'static) {
    let taken = Arc::new(AtomicU64::new(0));
    let mut crew = JoinSet::new();
    for _ in 0..workers {
        let (caller, taken) = (caller.clone(), Arc::clone(&taken));
        crew.spawn(async move {
            loop {
                let prompt = taken.fetch_add(1, Ordering::Relaxed);
                let begun = caller.start.elapsed();
                if !goes_on(prompt, begun) {
                    return;
                }
                if !caller.ask(prompt).await && caller.start.elapsed() == begun {
                    sleep(BREATH).await;
                }
            }
        });
    }
    crew.join_all().await;
}

async fn arrivals(caller: &Caller, every: Duration, until: Duration) {
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
    calls.join_all().await;
}

impl Caller {
    /// Returns `true` if it was answered.
    async fn ask(&self, prompt: u64) -> bool {
        let begun = self.start.elapsed();
        let note = |at: Option<usize>, made: Made| {
            let mut all = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            match at.and_then(|at| all.get_mut(at)) {
                Some(noted) => *noted = made,
                None => all.push(made),
            }
            all.len() - 1
        };
        let mut made = Made {
            prompt,
            begun,
            ended: begun,
            answered: false,
        };
        let at = note(None, made);
        made.answered = match self.patience {
            Some(patience) => timeout(patience, self.answered(prompt)).await.unwrap_or(false),
            None => self.answered(prompt).await,
        };
        made.ended = self.start.elapsed();
        note(Some(at), made);
        made.answered
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
