//! The call that is measured and the two transports below it. Knows nothing of how it is measured.

use std::error::Error;
use std::fmt;
use std::pin::pin;
use std::str::FromStr;
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, header};
use peers::Layer;
use reqwest::{Client, Request, Response, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use testbed::{Server, reply};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

pub(crate) const BODY: &str = r#"{"model":"some-model-1","temperature":0.2,"max_tokens":512,"stream":false,"messages":[{"role":"system","content":"You answer briefly and you name your sources."},{"role":"user","content":"Which rivers flow into the Baltic Sea, and which of them is the longest? Give the lengths in kilometres."}]}"#;
const ANSWER: &str =
    r#"{"id":"r-1","choices":[{"index":0,"message":{"role":"assistant","content":"The Vistula, 1,047 km."}}]}"#;
const PATH: &str = "/v1/chat/completions";

/// What carries the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Drops the request and makes a response, the same for all: what differs is the cost of the layers.
    Stub,
    /// A server on loopback, one connection, kept alive.
    Loopback,
}

impl Transport {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Stub => "stub",
            Self::Loopback => "loopback",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stub => "over a stub",
            Self::Loopback => "over loopback",
        })
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        [Self::Stub, Self::Loopback]
            .into_iter()
            .find(|transport| transport.word() == word)
            .ok_or_else(|| format!("no transport is called {word:?}"))
    }
}

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Makes calls of which only the call itself is measured.
pub(crate) trait Caller {
    /// What is made before the measured region: a request for each call, and room for the answers.
    fn prepare(&self, calls: usize) -> Outcome<Prepared>;

    /// The measured region.
    fn call_all(&self, prepared: Prepared) -> Outcome<Vec<Response>>;

    fn run(&self, calls: usize) -> Outcome<()> {
        let prepared = self.prepare(calls)?;
        self.call_all(prepared).map(drop)
    }
}

/// Requests and room for their answers.
#[derive(Debug)]
pub(crate) struct Prepared {
    requests: Vec<Request>,
    answers: Vec<Response>,
}

impl Prepared {
    fn new(url: &str, calls: usize) -> Outcome<Self> {
        Ok(Self {
            requests: (0..calls).map(|_| request(url)).collect::<Outcome<_>>()?,
            answers: Vec::with_capacity(calls),
        })
    }
}

/// Built anew for each call, as a caller does: its header values and its body have one owner, and the first clone of each
/// allocates for the second. A clone of a clone would hide that.
fn request(url: &str) -> Outcome<Request> {
    let mut request = Request::new(Method::POST, Url::parse(url)?);
    let values = [
        (header::AUTHORIZATION, "Bearer sk-0123456789abcdef0123456789abcdef"),
        (header::CONTENT_TYPE, "application/json"),
        (header::USER_AGENT, "some-sdk/1.2.3"),
        (
            HeaderName::from_static("x-request-id"),
            "6f1c1f0e-2f3a-4a53-9f4e-0d3f5b9a7c11",
        ),
    ];
    *request.headers_mut() = HeaderMap::with_capacity(values.len());
    for (name, value) in values {
        request.headers_mut().insert(name, HeaderValue::from_str(value)?);
    }
    *request.body_mut() = Some(BODY.to_owned().into());
    Ok(request)
}

/// Calls over the stub.
pub(crate) struct Stub {
    client: ClientWithMiddleware,
    /// For layers that ask tokio for the time.
    runtime: Runtime,
}

impl Stub {
    pub(crate) fn new(layer: Layer) -> Outcome<Self> {
        let client = layer.put_on(ClientBuilder::new(Client::new())).with(Ready).build();
        Ok(Self {
            client,
            runtime: runtime()?,
        })
    }
}

impl Caller for Stub {
    fn prepare(&self, calls: usize) -> Outcome<Prepared> {
        Prepared::new(&format!("http://api.example.com{PATH}"), calls)
    }

    fn call_all(&self, prepared: Prepared) -> Outcome<Vec<Response>> {
        let Prepared { requests, mut answers } = prepared;
        let _entered = self.runtime.enter();
        for request in requests {
            answers.push(measured_stub_call(&self.client, request)?);
        }
        Ok(answers)
    }
}

/// One call over the stub. By itself, and never inlined, so that instructions can be counted for it alone. Nothing in it
/// waits, so it is polled once and no executor is measured.
#[inline(never)]
fn measured_stub_call(client: &ClientWithMiddleware, request: Request) -> Outcome<Response> {
    let mut extensions = Extensions::new();
    let call = pin!(client.execute_with_extensions(request, &mut extensions));
    match call.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Ok(answer?),
        Poll::Pending => Err("a call over the stub had to wait".into()),
    }
}

/// The transport that answers by itself.
struct Ready;

#[async_trait::async_trait]
impl Middleware for Ready {
    async fn handle(
        &self,
        _request: Request,
        _extensions: &mut Extensions,
        _next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        Ok(http::Response::new(ANSWER).into())
    }
}

/// Calls over loopback, to a server on a thread of its own.
pub(crate) struct Loopback {
    client: ClientWithMiddleware,
    url: String,
    runtime: Runtime,
    /// Sends nothing; the server ends when it is dropped.
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

impl Loopback {
    pub(crate) fn new(layer: Layer) -> Outcome<Self> {
        let server_runtime = runtime()?;
        let server = server_runtime.block_on(Server::start(reply(200).json(ANSWER)));
        let url = server.url(PATH);
        let (stop, stopped) = oneshot::channel();
        let serving = std::thread::spawn(move || {
            // An error says that the sender is gone, which is the sign to stop.
            let _ = server_runtime.block_on(stopped);
            drop(server);
        });
        Ok(Self {
            client: layer.put_on(ClientBuilder::new(Client::new())).build(),
            url,
            runtime: runtime()?,
            stop: Some(stop),
            serving: Some(serving),
        })
    }
}

impl Caller for Loopback {
    fn prepare(&self, calls: usize) -> Outcome<Prepared> {
        Prepared::new(&self.url, calls)
    }

    fn call_all(&self, prepared: Prepared) -> Outcome<Vec<Response>> {
        for request in prepared.requests {
            measured_loopback_call(&self.runtime, &self.client, request)?;
        }
        Ok(prepared.answers)
    }
}

/// One call over loopback, its body included, since the connection is free for the next call only then.
#[inline(never)]
fn measured_loopback_call(runtime: &Runtime, client: &ClientWithMiddleware, request: Request) -> Outcome<()> {
    let mut extensions = Extensions::new();
    let body = runtime.block_on(async {
        let response = client.execute_with_extensions(request, &mut extensions).await?;
        response.bytes().await.map_err(reqwest_middleware::Error::from)
    })?;
    if body == ANSWER {
        Ok(())
    } else {
        Err("another answer than the server's".into())
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            // A panic of the server's has shown itself in a failed call.
            let _ = serving.join();
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
