//! A shape knows how a provider's decisions look as answers: statuses, headers and bodies. It decides nothing.

mod anthropic;
mod gemini;
mod limits;
mod openai;
mod span;

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::account::{Account, Refused};
use super::meter::{NEVER, Nanos};
use super::model::{Headers, Hint, Model};
use super::outage::Fault;
use super::reply::{Outcome, Piece, Refusal, Reply};
use super::tokens::Demand;
use limits::{Quantity, Standing};

/// Whose answers a provider's look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `x-ratelimit-*` with Go durations on every answer, delays in prose as well.
    OpenAi,
    /// `anthropic-ratelimit-*` with RFC 3339 times beside a `date`.
    Anthropic,
    /// No headers at all, delays as `RetryInfo` in the body.
    Gemini,
}

/// The tokens of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// What the text of a refusal says.
#[derive(Clone, Copy, Debug)]
struct Said {
    kind: Refusal,
    limit: u64,
    used: u64,
    requested: u64,
    /// As the body states it.
    wait: Option<Duration>,
}

/// The provider as it is seen at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Face<'a> {
    pub(crate) model: &'a Model,
    pub(crate) now: Nanos,
    pub(crate) phase: Nanos,
}

static RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// More pieces than that show nothing new.
const MOST_PIECES: u64 = 8;

impl Face<'_> {
    pub(crate) fn success(&self, account: &Account, usage: Usage, time: Duration, stream: bool) -> Reply {
        let mut reply = self.answer(200, Outcome::Admitted, time);
        self.limit_headers(account, &mut reply.headers);
        if stream {
            let first = self.model.first_token.min(time);
            reply.head_after = Some(first);
            reply.pieces = self.stream(usage, time - first);
            let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
            reply.headers.insert(header::CONTENT_TYPE, kind);
        } else {
            reply.pieces = whole(match self.model.shape {
                Shape::OpenAi => openai::message(usage),
                Shape::Anthropic => anthropic::message(usage),
                Shape::Gemini => gemini::message(usage),
            });
        }
        reply
    }

    pub(crate) fn refusal(&self, account: &Account, refused: Refused, demand: Demand) -> Reply {
        let mut reply = self.answer(429, Outcome::Refused(refused.kind), self.model.refusal_after);
        self.limit_headers(account, &mut reply.headers);
        // Those who sell a quota do not say when there is more of it, Gemini aside.
        let said = refused.until != NEVER && (refused.kind != Refusal::Quota || self.model.shape == Shape::Gemini);
        let wait = said.then(|| Duration::from_nanos(refused.until.saturating_sub(self.now)));
        let in_body = match (self.model.hint, self.model.shape) {
            (Hint::None, _) => None,
            (Hint::Seconds, _) => wait.map(|wait| Duration::from_secs(span::seconds_up(wait))),
            (Hint::Exact | Hint::Body, _) => wait,
        };
        if let Some(wait) = wait.filter(|_| self.model.shape != Shape::Gemini) {
            if self.model.hint == Hint::Exact {
                reply.headers.insert(&RETRY_AFTER_MS, span::millis_up(wait).into());
            }
            if matches!(self.model.hint, Hint::Exact | Hint::Seconds) {
                reply.headers.insert(header::RETRY_AFTER, span::seconds_up(wait).into());
            }
        }
        let (limit, used, requested) = limits::numbers(account, refused.kind, demand, self.now);
        let said = Said {
            kind: refused.kind,
            limit,
            used,
            requested,
            wait: in_body,
        };
        reply.pieces = whole(match self.model.shape {
            Shape::OpenAi => openai::refusal(said),
            Shape::Anthropic => anthropic::refusal(said),
            Shape::Gemini => gemini::refusal(said),
        });
        reply
    }

    pub(crate) fn failure(&self, fault: Fault) -> Reply {
        let (status, retry_after) = match fault {
            Fault::Status(status) => (status, None),
            Fault::Hinted { status, retry_after } => (status, Some(retry_after)),
            Fault::ConnectionReset => return self.answer(0, Outcome::ConnectionReset, self.model.refusal_after),
            Fault::ConnectionRefused => return self.answer(0, Outcome::ConnectionRefused, self.model.refusal_after),
            Fault::Hang => {
                let mut reply = self.answer(0, Outcome::Hung, Duration::ZERO);
                reply.head_after = None;
                return reply;
            }
        };
        let mut reply = self.answer(status, Outcome::Failed(status), self.model.refusal_after);
        if let Some(seconds) = retry_after {
            reply.headers.insert(header::RETRY_AFTER, seconds.into());
        }
        reply.pieces = whole(match self.model.shape {
            Shape::OpenAi => openai::failure(status),
            Shape::Anthropic => anthropic::failure(status),
            Shape::Gemini => gemini::failure(status),
        });
        reply
    }

    fn answer(&self, status: u16, outcome: Outcome, after: Duration) -> Reply {
        let mut headers = HeaderMap::with_capacity(16);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.model.shape == Shape::Anthropic {
            let date = span::http_date(self.wall(self.now));
            headers.insert(header::DATE, date);
        }
        Reply {
            outcome,
            status,
            headers,
            head_after: Some(after),
            pieces: VecDeque::new(),
            slot: None,
        }
    }

    /// What a wall clock shows at that moment.
    fn wall(&self, at: Nanos) -> SystemTime {
        self.model.epoch + Duration::from_nanos(at.saturating_add(self.phase))
    }

    fn limit_headers(&self, account: &Account, headers: &mut HeaderMap) {
        let write: fn(&Face<'_>, Quantity, Standing, &mut HeaderMap) = match self.model.shape {
            _ if self.model.headers == Headers::Off => return,
            Shape::OpenAi => openai::limit_headers,
            Shape::Anthropic => anthropic::limit_headers,
            Shape::Gemini => return,
        };
        for quantity in [Quantity::Requests, Quantity::Input, Quantity::Output, Quantity::Total] {
            if let Some(standing) = limits::standing(account, quantity, self.model.headers, self.now) {
                write(self, quantity, standing, headers);
            }
        }
    }

    /// An opening piece with the head, then one after another until `time` is over, the last of which has the usage.
    fn stream(&self, usage: Usage, time: Duration) -> VecDeque<Piece> {
        let (open, delta, close) = match self.model.shape {
            Shape::OpenAi => openai::stream(usage),
            Shape::Anthropic => anthropic::stream(usage),
            Shape::Gemini => gemini::stream(usage),
        };
        let count = u32::try_from(usage.output.clamp(1, MOST_PIECES)).unwrap_or(1);
        let step = time / count;
        let piece = |after, bytes| Piece { after, bytes };
        let mut pieces = VecDeque::from([piece(Duration::ZERO, Bytes::from(open))]);
        pieces.extend((1..count).map(|_| piece(step, Bytes::from_static(delta.as_bytes()))));
        pieces.push_back(piece(time - step * (count - 1), Bytes::from(close)));
        pieces
    }
}

fn whole(text: String) -> VecDeque<Piece> {
    VecDeque::from([Piece {
        after: Duration::ZERO,
        bytes: Bytes::from(text),
    }])
}
