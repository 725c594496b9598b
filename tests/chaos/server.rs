//! A server that fails as a world has it. Knows no client.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::Extensions;
use reqwest::{Request, Response, ResponseBuilderExt};
use reqwest_middleware::{Middleware, Next, Result};
use testbed::sim::{Fault, Model, Outage, Provider, Shape, Simulation, Transport};
use tokio::time::sleep;

use crate::body::{End, Pieces};
use crate::draw::Draw;
use crate::ledger::Shared;

/// The header that says which call a send is of.
pub(crate) const CALL: &str = "x-call";

/// How a send fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Status(u16),
    /// `Retry-After` in seconds.
    Hinted(u16),
    HintedMillis,
    Quota,
    TooManyAtOnce,
    Reset,
    Refused,
    Hang,
    /// A success whose body breaks off.
    BrokenBody,
    /// A failure whose body does.
    BrokenError,
    SilentError,
    /// A stream that begins with an error.
    StreamError,
}

pub(crate) const KINDS: [Kind; 24] = [
    Kind::Status(500),
    Kind::Status(502),
    Kind::Status(503),
    Kind::Status(529),
    Kind::Status(408),
    Kind::Status(409),
    Kind::Status(400),
    Kind::Status(404),
    Kind::Status(429),
    Kind::Status(429),
    Kind::Hinted(429),
    Kind::Hinted(429),
    Kind::Hinted(503),
    Kind::Hinted(529),
    Kind::HintedMillis,
    Kind::Quota,
    Kind::TooManyAtOnce,
    Kind::Reset,
    Kind::Refused,
    Kind::Hang,
    Kind::BrokenBody,
    Kind::BrokenError,
    Kind::SilentError,
    Kind::StreamError,
];

/// When sends fail, and how.
#[derive(Debug, Clone)]
pub(crate) struct Weather {
    /// The part of sends that fails at any time, each in one of these ways.
    pub(crate) failing: f64,
    pub(crate) kinds: Vec<Kind>,
    /// In an outage all do, of one model or of all.
    pub(crate) outages: Vec<(Duration, Duration, Option<usize>, Kind)>,
    /// The longest that a failure takes, and a success.
    pub(crate) failure_takes: u32,
    pub(crate) success_takes: u32,
}

#[derive(Clone)]
pub(crate) struct Server {
    shared: Shared,
    state: Arc<Mutex<State>>,
    /// What takes a connection to fail.
    broken: Arc<Broken>,
}

struct Broken {
    reset: Transport,
    refused: Transport,
    hang: Transport,
}

struct State {
    draw: Draw,
    weather: Weather,
    is_well: bool,
}

enum Answer {
    Broken(Kind),
    Response {
        status: u16,
        after: Duration,
        headers: Vec<(&'static str, String)>,
        pieces: Vec<(Duration, Bytes)>,
        end: End,
    },
}

impl Server {
    pub(crate) fn new(shared: Shared, draw: Draw, weather: Weather) -> Self {
        let always = |fault| {
            let model = Model::new(Shape::OpenAi).failing(Outage::endless(fault));
            Transport::new(Simulation::new(Provider::new(model, 0)))
        };
        Self {
            shared,
            state: Arc::new(Mutex::new(State {
                draw,
                weather,
                is_well: false,
            })),
            broken: Arc::new(Broken {
                reset: always(Fault::ConnectionReset),
                refused: always(Fault::ConnectionRefused),
                hang: always(Fault::Hang),
            }),
        }
    }

    /// From now on everything succeeds at once.
    pub(crate) fn recover(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_well = true;
    }
}

#[async_trait]
impl Middleware for Server {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let number = request
            .headers()
            .get(CALL)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let call: usize = number.expect("each send says of which call it is");
        let flight = self.shared.sent(call);
        let model = self.shared.lock().calls[call].lane.model;
        let now = self.shared.now();
        let answer = self
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .answer(model, now);
        match answer {
            Answer::Broken(Kind::Reset) => self.broken.reset.handle(request, extensions, next).await,
            Answer::Broken(Kind::Refused) => self.broken.refused.handle(request, extensions, next).await,
            Answer::Broken(_) => self.broken.hang.handle(request, extensions, next).await,
            Answer::Response {
                status,
                after,
                headers,
                pieces,
                end,
            } => {
                sleep(after).await;
                let flight = Some(flight).filter(|_| status < 400);
                let body = reqwest::Body::wrap(Pieces::new(pieces, end, flight));
                let mut response = http::Response::builder().status(status).url(request.url().clone());
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                Ok(response.body(body).expect("a valid response").into())
            }
        }
    }
}

impl State {
    fn answer(&mut self, model: usize, now: Duration) -> Answer {
        if self.is_well {
            return success(Duration::from_millis(20), [Duration::ZERO; 1], 10, End::Whole);
        }
        let outage = self
            .weather
            .outages
            .iter()
            .find(|(from, to, of, _)| (*from..*to).contains(&now) && of.is_none_or(|of| of == model));
        let mut kind = outage.map(|(.., kind)| *kind);
        if kind.is_none() && !self.weather.kinds.is_empty() && self.draw.chance(self.weather.failing) {
            kind = Some(self.draw.pick(&self.weather.kinds));
        }
        match kind {
            Some(kind) => self.failure(kind),
            None => self.success(End::Whole),
        }
    }

    fn success(&mut self, end: End) -> Answer {
        let after = self.draw.millis(1, self.weather.success_takes);
        let pieces: Vec<_> = (0..self.draw.number(1, 4)).map(|_| self.draw.millis(0, 400)).collect();
        success(after, pieces, self.draw.number(1, 400), end)
    }

    fn failure(&mut self, kind: Kind) -> Answer {
        let after = self.draw.millis(0, self.weather.failure_takes);
        let mut headers = vec![("content-type", "application/json".to_owned())];
        let (mut status, mut body, mut end) = (500, r#"{"error":{"message":"It failed."}}"#, End::Whole);
        match kind {
            Kind::Reset | Kind::Refused | Kind::Hang => return Answer::Broken(kind),
            Kind::BrokenBody => return self.success(End::Broken),
            Kind::Status(of) => status = of,
            Kind::Hinted(of) => {
                status = of;
                headers.push(("retry-after", self.draw.number(1, 20).to_string()));
            }
            Kind::HintedMillis => {
                status = 429;
                headers.push(("retry-after-ms", self.draw.number(1, 3_000).to_string()));
            }
            Kind::Quota => {
                status = 429;
                body = r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#;
            }
            Kind::TooManyAtOnce => {
                status = 429;
                body = r#"{"error":{"message":"Too many concurrent requests. Please reduce concurrency."}}"#;
            }
            Kind::BrokenError => end = End::Broken,
            Kind::SilentError => end = End::Silent,
            Kind::StreamError => {
                status = 200;
                headers = vec![("content-type", "text/event-stream".to_owned())];
                body = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
            }
        }
        Answer::Response {
            status,
            after,
            headers,
            pieces: vec![(self.draw.millis(0, 30), Bytes::from_static(body.as_bytes()))],
            end,
        }
    }
}

fn success(after: Duration, pieces: impl IntoIterator<Item = Duration>, tokens: u32, end: End) -> Answer {
    let usage = format!(r#""usage":{{"prompt_tokens":20,"completion_tokens":{tokens}}}}}"#);
    let blanks = pieces.into_iter().map(|after| (after, Bytes::from_static(b" ")));
    let mut pieces: Vec<_> = [(Duration::ZERO, Bytes::from_static(b"{\"id\":1,"))]
        .into_iter()
        .chain(blanks)
        .collect();
    pieces.push((Duration::ZERO, Bytes::from(usage)));
    Answer::Response {
        status: 200,
        after,
        headers: vec![("content-type", "application/json".to_owned())],
        pieces,
        end,
    }
}
