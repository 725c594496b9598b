//! A reply knows what the provider answers to one call, and when. It does not know how it is sent.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

/// What the provider answers to one call.
#[derive(Debug)]
pub struct Reply {
    /// What became of the call.
    pub outcome: Outcome,
    /// The status; 0 if there is no response.
    pub status: u16,
    /// The header fields.
    pub headers: HeaderMap,
    /// How long after the arrival the head is sent, or the connection breaks; `None` is never.
    pub head_after: Option<Duration>,
    /// The body, piece by piece.
    pub pieces: VecDeque<Piece>,
    /// What an admitted call holds until its end, for [`Provider::finish`](super::Provider::finish).
    pub slot: Option<Slot>,
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub struct Piece {
    /// How long after the piece before it, or the head, it is sent.
    pub after: Duration,
    /// What is sent.
    pub bytes: Bytes,
}

/// The place of an admitted call at the provider. It can be given back once.
#[derive(Debug)]
pub struct Slot {
    pub(crate) key: u64,
    pub(crate) id: u64,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was admitted, and will be answered with 200.
    Admitted,
    /// A limit was in its way.
    Refused(Refusal),
    /// It met an outage and is answered with this status.
    Failed(u16),
    /// It met an outage, and its connection is reset.
    ConnectionReset,
    /// It met an outage, and its connection is refused.
    ConnectionRefused,
    /// It met an outage and is never answered.
    Hung,
}

impl Outcome {
    pub(crate) fn is_broken_connection(self) -> bool {
        matches!(self, Outcome::ConnectionReset | Outcome::ConnectionRefused)
    }
}

/// What a call was refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many requests.
    Requests,
    /// Too many tokens of prompts.
    InputTokens,
    /// Too many tokens of answers.
    OutputTokens,
    /// Too many tokens.
    TotalTokens,
    /// Too many calls at a time.
    Concurrency,
    /// The allowance of the day is spent.
    Quota,
    /// The traffic grew too fast.
    Growth,
    /// It alone is more than the limit ever allows.
    TooLarge,
}

impl Reply {
    /// The whole body as text.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self
            .pieces
            .iter()
            .flat_map(|piece| piece.bytes.iter().copied())
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The value of a header field, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// How long after the arrival the last of the body is sent; `None` is never.
    pub fn ends_after(&self) -> Option<Duration> {
        let body: Duration = self.pieces.iter().map(|piece| piece.after).sum();
        self.head_after.map(|head| head + body)
    }
}
