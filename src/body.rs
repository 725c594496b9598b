//! Bodies that are looked into and put back: a bounded peek, the rest of the stream behind it, and letting go of an answer
//! so that its connection can be used again. Knows no status and no meaning.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header, response};
use http_body::{Body as _, Frame, SizeHint};
use reqwest::{Body, Response, ResponseBuilderExt, Url};

use crate::account::{Admitted, Remembered, Tail};
use crate::classify::Verdict;
use crate::clock::{Clock, Deadline};
use crate::stream::{HOLD_TIME, StreamStart, Told};

/// How much of a failure's body is looked at, and how long past the headers it is waited for.
pub(crate) const PEEK_BYTES: usize = 64 * 1024;
const PEEK_TIME: Duration = Duration::from_secs(1);
/// How much of the rest is read so that the connection can be used again, and for how long.
const DRAIN_BYTES: usize = 64 * 1024;
const DRAIN_TIME: Duration = Duration::from_millis(100);

/// How far to look into a body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Depth {
    /// So many bytes, should they come at once.
    Bytes(usize),
    /// Up to the first event of a stream that tells something.
    Events,
}

impl Depth {
    /// How long past the headers.
    pub(crate) const fn patience(self) -> Duration {
        match self {
            Self::Bytes(_) => PEEK_TIME,
            Self::Events => HOLD_TIME,
        }
    }
}

/// A body, the beginning of which has been read. As a body itself it gives back what was read and then the rest: the same
/// bytes, the same trailers, the same length, the same error.
#[derive(Debug)]
pub(crate) struct Peeked {
    prefix: Bytes,
    limit: usize,
    end: End,
    rest: Body,
    /// What is still to come, if the sender had stated the length: a length must not appear that was not there.
    exact: Option<u64>,
}

/// How far the peek came.
#[derive(Debug)]
enum End {
    /// There may be more in the rest.
    Open,
    /// The body ended, with these trailers.
    Reached(Option<HeaderMap>),
    /// The body broke off; the error is still to be handed over.
    Broken(reqwest::Error),
}

impl Peeked {
    /// Reads until `limit` bytes are there, the body ends, or the deadline comes. A chunk is kept whole, so the prefix may be
    /// longer than the limit by a part of the last one.
    pub(crate) async fn read(body: Body, limit: usize, deadline: Deadline, clock: &dyn Clock) -> Self {
        let mut peeked = Self::read_while(body, |prefix| prefix.len() < limit, deadline, clock).await;
        peeked.limit = limit;
        peeked
    }

    /// Reads the start of an event stream until it tells something, the body ends, or the deadline comes. What is then looked
    /// at is the error that came first and what stands before it, or all of a body that ended before it told anything; of
    /// any other nothing, as of every success.
    async fn read_start(body: Body, deadline: Deadline, clock: &dyn Clock) -> Self {
        let mut start = StreamStart::default();
        let untold = |prefix: &[u8]| start.read(prefix) == Told::Nothing;
        let mut peeked = Self::read_while(body, untold, deadline, clock).await;
        peeked.limit = match start.told() {
            Told::Failure(end) => end,
            Told::Nothing if peeked.is_complete() => peeked.prefix.len(),
            Told::Nothing | Told::Output => 0,
        };
        peeked
    }

    async fn read_while(body: Body, wanted: impl FnMut(&[u8]) -> bool, deadline: Deadline, clock: &dyn Clock) -> Self {
        let exact = body.size_hint().exact();
        let mut peeked = Self {
            prefix: Bytes::new(),
            limit: 0,
            end: End::Open,
            rest: body,
            exact,
        };
        let mut prefix = BytesMut::new();
        deadline.cut(clock, peeked.fill(&mut prefix, wanted)).await;
        peeked.prefix = prefix.freeze();
        peeked
    }

    async fn fill(&mut self, prefix: &mut BytesMut, mut wanted: impl FnMut(&[u8]) -> bool) {
        while wanted(prefix) {
            match poll_fn(|cx| Pin::new(&mut self.rest).poll_frame(cx)).await {
                None => return self.end = End::Reached(None),
                Some(Err(error)) => return self.end = End::Broken(error),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => prefix.extend_from_slice(&data),
                    Err(frame) => {
                        if let Ok(trailers) = frame.into_trailers() {
                            return self.end = End::Reached(Some(trailers));
                        }
                    }
                },
            }
        }
    }

    /// What was read, up to the limit.
    pub(crate) fn prefix(&self) -> &[u8] {
        self.prefix.get(..self.limit).unwrap_or(&self.prefix)
    }

    /// The whole body, if it was read to its end and has no trailers.
    pub(crate) const fn whole(&self) -> Option<&Bytes> {
        match self.end {
            End::Reached(None) => Some(&self.prefix),
            _ => None,
        }
    }

    /// Is all of it here, even if it broke off?
    const fn is_complete(&self) -> bool {
        !matches!(self.end, End::Open)
    }

    /// Did it break off while it was read?
    pub(crate) const fn is_broken(&self) -> bool {
        matches!(self.end, End::Broken(_))
    }

    /// As a body again.
    pub(crate) fn put_back(self) -> Body {
        Body::wrap(self)
    }
}

impl http_body::Body for Peeked {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = if !self.prefix.is_empty() {
            Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.prefix)))))
        } else {
            match std::mem::replace(&mut self.end, End::Reached(None)) {
                End::Open => {
                    self.end = End::Open;
                    Pin::new(&mut self.rest).poll_frame(cx)
                }
                End::Reached(trailers) => Poll::Ready(trailers.map(Frame::trailers).map(Ok)),
                End::Broken(error) => Poll::Ready(Some(Err(error))),
            }
        };
        if let (Poll::Ready(Some(Ok(frame))), Some(exact)) = (&frame, self.exact) {
            let sent = frame.data_ref().map_or(0, |data| data.len() as u64);
            self.exact = Some(exact.saturating_sub(sent));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.prefix.is_empty()
            && match &self.end {
                End::Open => self.rest.is_end_stream(),
                End::Reached(trailers) => trailers.is_none(),
                End::Broken(_) => false,
            }
    }

    fn size_hint(&self) -> SizeHint {
        if let Some(exact) = self.exact {
            return SizeHint::with_exact(exact);
        }
        let mut hint = SizeHint::new();
        let read = self.prefix.len() as u64;
        hint.set_lower(read.saturating_add(match self.end {
            End::Open => self.rest.size_hint().lower(),
            End::Reached(_) | End::Broken(_) => 0,
        }));
        hint
    }
}

/// An answer, untouched or looked into.
#[derive(Debug)]
pub(crate) enum Answer {
    Untouched(Response),
    Peeked(Box<PeekedResponse>),
}

#[derive(Debug)]
pub(crate) struct PeekedResponse {
    head: response::Parts,
    url: Url,
    body: Peeked,
}

impl Answer {
    /// Looks into the body of an answer.
    pub(crate) async fn peek(response: Response, depth: Depth, deadline: Deadline, clock: &dyn Clock) -> Self {
        let url = response.url().clone();
        let (head, body) = http::Response::<Body>::from(response).into_parts();
        let body = match depth {
            Depth::Bytes(limit) => Peeked::read(body, limit, deadline, clock).await,
            Depth::Events => Peeked::read_start(body, deadline, clock).await,
        };
        Self::Peeked(Box::new(PeekedResponse { head, url, body }))
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Untouched(response) => response.status(),
            Self::Peeked(peeked) => peeked.head.status,
        }
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        match self {
            Self::Untouched(response) => response.headers(),
            Self::Peeked(peeked) => &peeked.head.headers,
        }
    }

    /// What was read of the body, up to the limit of the peek.
    pub(crate) fn prefix(&self) -> &[u8] {
        match self {
            Self::Untouched(_) => &[],
            Self::Peeked(peeked) => peeked.body.prefix(),
        }
    }

    /// Did the body break off while it was looked into?
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self, Self::Peeked(peeked) if peeked.body.is_broken())
    }

    /// The response as it was received.
    #[inline]
    pub(crate) fn into_response(self) -> Response {
        match self {
            Self::Untouched(response) => response,
            Self::Peeked(peeked) => peeked.into_response(),
        }
    }

    /// The permit is held until the body ends or is dropped.
    pub(crate) fn held_by(self, permit: Admitted) -> Self {
        let response = self.into_response();
        let url = response.url().clone();
        let response = http::Response::<Body>::from(response);
        // nothing will be read of it, and so its end would not be seen
        if response.body().is_end_stream() {
            return Self::Untouched(with_url(response, url));
        }
        let tail = permit.counts_tokens().then(Tail::default);
        let held = response.map(|body| {
            Body::wrap(Held {
                body,
                permit: Some(permit),
                tail,
            })
        });
        Self::Untouched(with_url(held, url))
    }

    /// The answer, to be given to other calls: if all of it is here.
    pub(crate) fn remember(&self, verdict: Verdict) -> Option<Arc<Remembered>> {
        match self {
            Self::Peeked(peeked) => peeked.body.whole().map(|body| {
                let (status, headers) = (peeked.head.status, peeked.head.headers.clone());
                Arc::new(Remembered {
                    status,
                    headers,
                    body: body.clone(),
                    verdict,
                })
            }),
            Self::Untouched(_) => None,
        }
    }

    /// As much of the answer as is here, for further sends of the same request.
    pub(crate) fn kept(&self, verdict: Verdict) -> Remembered {
        let (body, whole) = match self {
            Self::Peeked(peeked) => (peeked.body.prefix.clone(), peeked.body.whole().is_some()),
            Self::Untouched(_) => (Bytes::new(), false),
        };
        let mut headers = self.headers().clone();
        if !whole {
            headers.remove(header::CONTENT_LENGTH);
        }
        Remembered {
            status: self.status(),
            headers,
            body,
            verdict,
        }
    }

    /// Frees the connection: reads on a little so that it can be used again, or drops it. Gives the answer back if nothing
    /// of it is lost, that is, if it had been read to its end.
    pub(crate) async fn let_go(self, clock: &dyn Clock) -> Option<Self> {
        let body = match self {
            Self::Peeked(peeked) if peeked.body.is_complete() => return Some(Self::Peeked(peeked)),
            Self::Peeked(peeked) => peeked.body.rest,
            Self::Untouched(response) => response.into(),
        };
        let deadline = Deadline::after(clock.now(), Some(DRAIN_TIME));
        deadline.cut(clock, drain(body)).await;
        None
    }
}

async fn drain(mut body: Body) {
    let mut read = 0;
    while read < DRAIN_BYTES {
        match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            None | Some(Err(_)) => return,
        }
    }
}

impl PeekedResponse {
    fn into_response(self) -> Response {
        with_url(http::Response::from_parts(self.head, self.body.put_back()), self.url)
    }
}

/// reqwest keeps the URL of a response that is built by hand in a private extension; a dummy carries it over.
pub(crate) fn with_url(response: http::Response<Body>, url: Url) -> Response {
    let (mut head, body) = response.into_parts();
    let carrier = http::Response::builder()
        .url(url)
        .body(())
        .map(|carrier| carrier.into_parts().0.extensions);
    if let Ok(url) = carrier {
        head.extensions.extend(url);
    }
    http::Response::from_parts(head, body).into()
}

/// A body that holds a permit until it ends or is dropped, and reads what the answer took as it passes.
struct Held {
    body: Body,
    permit: Option<Admitted>,
    tail: Option<Tail>,
}

impl Held {
    /// The body has ended: what it said is settled, and the place in flight is free before the last byte is looked at.
    fn end(&mut self) {
        if let (Some(mut permit), Some(tail)) = (self.permit.take(), self.tail.take()) {
            permit.settle(tail.usage());
        }
    }
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(tail), Some(data)) = (&mut self.tail, frame.data_ref()) {
                    tail.pass(data);
                }
                if self.body.is_end_stream() {
                    self.end();
                }
            }
            Some(Err(_)) | None => self.end(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
