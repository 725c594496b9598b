//! One batch in virtual time. Knows what is counted, and not what is demanded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest_ai_retry::{Account, RetryMiddleware, RetryPolicy};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use testbed::sim::{Provider, Simulation, Transport};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Incident;
use crate::alone::Alone;

const SEED: u64 = 1;
/// No run takes so long, unless calls wait that nobody wakes.
const FOR_EVER: Duration = Duration::from_secs(24 * 60 * 60);

/// The retry layer under test.
pub(crate) enum Layer {
    Alone,
    Ours(Account),
}

/// What came of it; a poisonous prompt counts among the sends only.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) asked: f64,
    pub(crate) answered: f64,
    pub(crate) sends: f64,
    /// Those that met what went wrong, and not a limit of the provider.
    pub(crate) failed: f64,
}

pub(crate) fn run(incident: &Incident, layer: Layer) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let simulation = Simulation::new(Provider::new(incident.model.clone(), SEED));
        let answered = batch(incident, client(incident, layer, &simulation)).await;
        let tally = simulation.tally();
        Run {
            asked: (incident.prompts - u64::from(incident.poisonous.is_some())) as f64,
            answered: answered as f64,
            sends: tally.sends as f64,
            failed: tally.failed as f64,
        }
    })
}

fn client(incident: &Incident, layer: Layer, simulation: &Simulation) -> ClientWithMiddleware {
    let stack = ClientBuilder::new(RetryMiddleware::client_builder().build().expect("a client"));
    let stack = match layer {
        Layer::Alone => stack.with(Alone::new(SEED, incident.attempt_timeout)),
        Layer::Ours(account) => {
            let mut policy = RetryPolicy::default();
            if let Some(limit) = incident.attempt_timeout {
                policy = policy.attempt_timeout(limit);
            }
            let layer = RetryMiddleware::builder().policy(policy).account(account).seed(SEED);
            stack.with(layer.build())
        }
    };
    stack.with(Transport::new(simulation.clone())).build()
}

/// How many prompts were answered that are not poisonous.
async fn batch(incident: &Incident, client: ClientWithMiddleware) -> u64 {
    let (taken, answered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut workers = JoinSet::new();
    for _ in 0..incident.workers {
        let (client, taken, answered) = (client.clone(), Arc::clone(&taken), Arc::clone(&answered));
        let (prompts, models, poisonous) = (incident.prompts, incident.models, incident.poisonous);
        workers.spawn(async move {
            loop {
                let prompt = taken.fetch_add(1, Ordering::Relaxed);
                if prompt >= prompts {
                    return;
                }
                let model = models[usize::try_from(prompt).expect("small") % models.len()];
                if ask(&client, prompt, model).await && poisonous != Some(prompt) {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    let _ = timeout(FOR_EVER, workers.join_all()).await;
    answered.load(Ordering::Relaxed)
}

/// Returns `true` if an answer came, to the end of its body.
async fn ask(client: &ClientWithMiddleware, prompt: u64, model: &str) -> bool {
    let request = client
        .post("https://api.openai.com/v1/chat/completions")
        .header("x-prompt", prompt)
        .body(format!(
            r#"{{"model":"{model}","messages":[{{"role":"user","content":"Prompt {prompt}"}}]}}"#
        ));
    match request.send().await {
        Ok(response) => response.status().is_success() && response.bytes().await.is_ok(),
        Err(_) => false,
    }
}
