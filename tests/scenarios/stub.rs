//! A transport without sockets: a middleware that never calls `next` and answers from a script, one item per send, the
//! last one again and again. It runs under tokio's paused clock, so that a wait of an hour takes no time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::{Body, Request, Response, ResponseBuilderExt};
use reqwest_ai_retry::{Account, Backoff, BreakerStatus, Jitter, Outcome, RetryMiddleware, RetryPolicy, StopReason};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use tokio::time::{Instant, sleep};

/// What the server does with one send.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    after: Duration,
    hangs: bool,
}

/// An answer of this status.
pub(crate) fn reply(status: u16) -> Item {
    Item {
        status,
        headers: Vec::new(),
        body: Vec::new(),
        after: Duration::ZERO,
        hangs: false,
    }
}

/// Never an answer.
pub(crate) fn hang() -> Item {
    Item {
        hangs: true,
        ..reply(200)
    }
}

impl Item {
    pub(crate) fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    /// `Retry-After`, in the notation of the scenarios `+RA=`.
    pub(crate) fn ra(self, value: impl ToString) -> Self {
        self.header("retry-after", value)
    }

    pub(crate) fn json(self, body: &str) -> Self {
        self.body(body).header("content-type", "application/json")
    }

    pub(crate) fn body(self, body: &str) -> Self {
        Self {
            body: body.into(),
            ..self
        }
    }

    /// The headers come this much later.
    pub(crate) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }
}

/// One send as the server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    /// Virtual time since the stub was made.
    pub(crate) at: Duration,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// The scripted transport.
#[derive(Clone)]
pub(crate) struct Stub {
    script: Arc<Mutex<Script>>,
    sent: Arc<Mutex<Vec<Sent>>>,
    pub(crate) start: Instant,
}

enum Script {
    Items(VecDeque<Item>),
    Rule(Box<dyn FnMut(&Sent) -> Item + Send>),
}

impl Script {
    fn answer(&mut self, sent: &Sent) -> Item {
        match self {
            Self::Items(items) if items.len() > 1 => items.pop_front().unwrap(),
            Self::Items(items) => items.front().unwrap().clone(),
            Self::Rule(rule) => rule(sent),
        }
    }
}

impl Stub {
    pub(crate) fn new(script: impl IntoIterator<Item = Item>) -> Self {
        Self::of(Script::Items(script.into_iter().collect()))
    }

    /// Answers each send by looking at it.
    pub(crate) fn by(rule: impl FnMut(&Sent) -> Item + Send + 'static) -> Self {
        Self::of(Script::Rule(Box::new(rule)))
    }

    fn of(script: Script) -> Self {
        Self {
            script: Arc::new(Mutex::new(script)),
            sent: Arc::default(),
            start: Instant::now(),
        }
    }

    /// The sends counted, `n` in the notation of the scenarios.
    pub(crate) fn n(&self) -> usize {
        self.sent.lock().unwrap().len()
    }

    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    /// When each send came.
    pub(crate) fn times(&self) -> Vec<Duration> {
        self.sent().iter().map(|sent| sent.at).collect()
    }

    /// A client over this stub, with these middlewares, the outermost first.
    pub(crate) fn under(&self, layers: impl IntoIterator<Item = RetryMiddleware>) -> ClientWithMiddleware {
        let client = RetryMiddleware::client_builder().build().unwrap();
        let layers = layers
            .into_iter()
            .fold(ClientBuilder::new(client), |client, layer| client.with(layer));
        layers.with(self.clone()).build()
    }

    /// A client over this stub that shares this account.
    pub(crate) fn sharing(&self, account: &Account, policy: RetryPolicy) -> ClientWithMiddleware {
        let retry = RetryMiddleware::builder().policy(policy).account(account.clone());
        self.under([retry.build()])
    }

    /// A client over this stub with this policy.
    pub(crate) fn with(&self, policy: RetryPolicy) -> ClientWithMiddleware {
        self.under([RetryMiddleware::new(policy)])
    }
}

#[async_trait::async_trait]
impl Middleware for Stub {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let sent = Sent {
            at: self.start.elapsed(),
            method: request.method().clone(),
            path: request.url().path().to_owned(),
            headers: request.headers().clone(),
            body: request.body().and_then(Body::as_bytes).unwrap_or_default().to_vec(),
        };
        let item = self.script.lock().unwrap().answer(&sent);
        self.sent.lock().unwrap().push(sent);
        if item.hangs {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(item.after).await;
        let mut response = http::Response::builder().status(item.status).url(request.url().clone());
        for (name, value) in item.headers {
            // not every value of a test is text that a header may hold
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            response = response.header(HeaderName::from_static(name), value);
        }
        Ok(response.body(item.body).unwrap().into())
    }
}

/// A URL that no inference call has.
pub(crate) const ORDERS: &str = "http://127.0.0.1:9/v1/orders";
/// A URL that inference calls have.
pub(crate) const CHAT: &str = "http://127.0.0.1:9/v1/chat/completions";
/// The body of an inference call.
pub(crate) const PROMPT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The default policy, but with an exact backoff of 1, 2, 4, … seconds.
pub(crate) fn exact() -> RetryPolicy {
    RetryPolicy::default().backoff(Backoff::exponential(secs(1)).jitter(Jitter::None))
}

/// The body of an inference call of this model.
pub(crate) fn prompt(model: &str) -> String {
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hello"}}]}}"#)
}

/// Sends one inference call to this model.
pub(crate) async fn chat(client: &ClientWithMiddleware, model: &str) -> Result<Response> {
    client.post(CHAT).body(prompt(model)).send().await
}

/// How a call ended.
pub(crate) fn stop(result: &Result<Response>) -> StopReason {
    match result {
        Ok(response) => Outcome::of(response).map_or(StopReason::Succeeded, Outcome::stop),
        Err(error) => Outcome::of_error(error).unwrap().stop(),
    }
}

/// Starts a call and leaves it to itself.
pub(crate) fn spawned(client: &ClientWithMiddleware, model: &str) -> tokio::task::JoinHandle<Result<Response>> {
    let (client, model) = (client.clone(), model.to_owned());
    tokio::spawn(async move { chat(&client, &model).await })
}

/// Starts so many calls at once, and waits for them all.
pub(crate) async fn crowd(client: &ClientWithMiddleware, calls: usize) -> Vec<Result<Response>> {
    futures_util::future::join_all((0..calls).map(|_| spawned(client, "m")))
        .await
        .into_iter()
        .map(|joined| joined.unwrap())
        .collect()
}

/// Where the breaker of the first lane stands.
pub(crate) fn breaker_of(account: &Account) -> BreakerStatus {
    let lanes = account.status().lanes;
    lanes.first().map_or(BreakerStatus::Closed, |lane| lane.breaker)
}

/// Sends that fail until they open the breaker of the account: [`OPENING`] of them, over 1.5 s. Gives a client whose calls
/// are of one send.
pub(crate) async fn opened(server: &Stub, account: Account) -> (Account, ClientWithMiddleware) {
    let client = server.sharing(&account, exact().max_attempts(1));
    for call in 0..OPENING {
        assert_eq!(breaker_of(&account), BreakerStatus::Closed, "{call}");
        drop(chat(&client, "m").await);
        if call + 1 < OPENING {
            sleep(millis(300)).await;
        }
    }
    assert_eq!(breaker_of(&account), BreakerStatus::Open);
    (account, client)
}

/// Failures that open a breaker.
pub(crate) const OPENING: usize = 6;
