//! The transport knows how a request of reqwest becomes a call, and an answer a response. It does not know sockets, and
//! never calls what comes after it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Extensions, Response};
use http_body::{Body, Frame, SizeHint};
use reqwest::{Request, ResponseBuilderExt};
use reqwest_middleware::{Middleware, Next};
use tokio::time::{Sleep, sleep_until, timeout};

use super::call::Call;
use super::reply::Outcome;
use super::simulation::{Answer, Simulation};
use super::wire_error::{WireError, wire_error};

/// A middleware, to be the last one, that answers from a simulation instead of a network.
///
/// Connections that break are real errors of reqwest, and so is the timeout of a request, which ends with the head of the
/// response. What a call holds at the provider it holds until the body of the response has been read to its end or is dropped.
#[derive(Clone, Debug)]
pub struct Transport {
    simulation: Simulation,
    per_model: bool,
}

impl Transport {
    /// Answers from this simulation.
    pub fn new(simulation: impl Into<Simulation>) -> Transport {
        let simulation = simulation.into();
        let per_model = simulation.with(|provider| provider.model().per_model);
        Transport { simulation, per_model }
    }

    /// The simulation that answers.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    fn read(&self, request: &Request) -> Call {
        let headers = request.headers();
        let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
        let header = |name| headers.get(name).map(http::HeaderValue::as_bytes);
        Call::read(request.url().path(), header, body, self.per_model)
    }

    /// The answer, or how the connection breaks.
    async fn send(&self, request: &Request) -> Result<Answer, WireError> {
        let call = self.read(request);
        let sent = self.simulation.send(&call);
        let answer = match request.timeout() {
            Some(limit) => timeout(*limit, sent).await.map_err(|_| WireError::Timeout)?,
            None => sent.await,
        };
        match answer.reply.outcome {
            Outcome::ConnectionReset => Err(WireError::Reset),
            Outcome::ConnectionRefused => Err(WireError::Refused),
            _ => Ok(answer),
        }
    }
}

#[async_trait]
impl Middleware for Transport {
    async fn handle(
        &self,
        request: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let mut answer = match self.send(&request).await {
            Ok(answer) => answer,
            Err(kind) => return Err(wire_error(kind, request.url()).into()),
        };
        let mut response = Response::builder()
            .status(answer.reply.status)
            .url(request.url().clone());
        if let Some(headers) = response.headers_mut() {
            *headers = std::mem::take(&mut answer.reply.headers);
        }
        let body = reqwest::Body::wrap(AnswerBody { answer, pause: None });
        match response.body(body) {
            Ok(response) => Ok(response.into()),
            Err(error) => Err(reqwest_middleware::Error::Middleware(error.into())),
        }
    }
}

/// The body of a response, piece by piece as the pieces come.
struct AnswerBody {
    answer: Answer,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(due) = self.answer.due() else {
            return Poll::Ready(None);
        };
        if let Some(due) = due {
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep_until(due)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        Poll::Ready(self.answer.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.answer.reply.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let pieces = &self.answer.reply.pieces;
        let left: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
        match pieces.len() {
            0 | 1 => SizeHint::with_exact(u64::try_from(left).unwrap_or(u64::MAX)),
            // The length of a stream is not known beforehand.
            _ => SizeHint::default(),
        }
    }
}
