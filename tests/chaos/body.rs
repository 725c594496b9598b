//! The body of a response: pieces that come late, break off or stay away. Knows no HTTP.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::{Sleep, sleep};

use crate::ledger::Flight;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Whole,
    Broken,
    Silent,
}

pub(crate) struct Pieces {
    pieces: VecDeque<(Duration, Bytes)>,
    end: End,
    pause: Option<Pin<Box<Sleep>>>,
    /// In flight until the body ends.
    flight: Option<Flight>,
}

impl Pieces {
    pub(crate) fn new(pieces: impl IntoIterator<Item = (Duration, Bytes)>, end: End, flight: Option<Flight>) -> Self {
        let pieces: VecDeque<_> = pieces.into_iter().collect();
        let flight = flight.filter(|_| !(pieces.is_empty() && end == End::Whole));
        Self {
            pieces,
            end,
            pause: None,
            flight,
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(&(after, _)) = self.pieces.front() else {
            return match self.end {
                End::Whole => Poll::Ready(None),
                End::Silent => Poll::Pending,
                End::Broken => {
                    (self.end, self.flight) = (End::Whole, None);
                    Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())))
                }
            };
        };
        if !after.is_zero() {
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(after)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let piece = self.pieces.pop_front().map(|(_, bytes)| Ok(Frame::data(bytes)));
        if self.is_end_stream() {
            self.flight = None;
        }
        Poll::Ready(piece)
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.end == End::Whole
    }
}
