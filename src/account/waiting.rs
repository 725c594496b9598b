//! The future of a waiter. Knows how it is woken, not when.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::driver::{self, Drive, Home};
use super::queue::Place;
use super::state::{Answer, Polled};
use super::tick::Tick;
use super::{Shared, Sleep};

/// A call that waits for its start. Dropping it leaves the queue.
///
/// There may be very many of them, so what only some need is behind a pointer.
pub(super) struct Waiting<'a> {
    shared: &'a Arc<Shared>,
    place: Place,
    timers: Option<Box<Timers<'a>>>,
    done: bool,
}

#[derive(Default)]
struct Timers<'a> {
    /// Ends when the caller's time is up.
    bound: Option<Sleep<'a>>,
    /// The driver of a waiter outside of any runtime.
    drive: Option<Drive>,
}

impl Shared {
    pub(super) fn wait(self: &Arc<Self>, place: Place, bound: Option<Tick>) -> Waiting<'_> {
        let bound = bound.filter(|bound| bound.instant(self.base).is_some());
        Waiting {
            shared: self,
            place,
            timers: bound.map(|bound| {
                Box::new(Timers {
                    bound: Some(self.sleep_until(bound)),
                    drive: None,
                })
            }),
            done: false,
        }
    }
}

impl Waiting<'_> {
    fn end(&mut self, answer: Answer) -> Poll<Answer> {
        self.done = true;
        self.timers = None;
        Poll::Ready(answer)
    }
}

impl Future for Waiting<'_> {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let (shared, place) = (self.shared, self.place);
        let home = Home::of(place);
        let (polled, is_first) = shared.with(|state, now, woken| {
            let polled = state.poll(place, cx.waker(), now, woken);
            let is_first = matches!(polled, Polled::Wait) && state.enlist(home.driver());
            (polled, is_first)
        });
        if let Polled::Answered(answer) = polled {
            return self.end(answer);
        }
        if is_first && let Some(drive) = driver::begin(shared, &home) {
            self.timers.get_or_insert_default().drive = Some(drive);
        }
        let Some(timers) = &mut self.timers else {
            return Poll::Pending;
        };
        if let Some(bound) = &mut timers.bound
            && bound.as_mut().poll(cx).is_ready()
        {
            let refusal = shared.with(|state, now, woken| state.expire(place, now, woken));
            return self.end(Err(refusal));
        }
        if let Some(drive) = &mut timers.drive
            && drive.as_mut().poll(cx).is_ready()
        {
            timers.drive = None;
        }
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.shared
                .with(|state, now, woken| state.cancel(self.place, now, woken));
        }
    }
}
