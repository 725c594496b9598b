//! The ledger knows what a server has seen: connections, requests and when. It does not know what was answered, or which
//! version of HTTP was spoken.

use std::fmt;
use std::panic::Location;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::request::Request;

/// How long a `wait_…` waits, in real time even where the test has paused tokio's clock.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a server has seen so far, with ways to wait for more.
#[derive(Default)]
pub struct Ledger {
    book: Mutex<Book>,
    changed: Notify,
}

#[derive(Default)]
struct Book {
    connections: usize,
    open: usize,
    in_flight: usize,
    peak: usize,
    requests: Vec<Request>,
}

impl Ledger {
    /// Requests received, whole or in part: the number of request heads.
    pub fn sends(&self) -> usize {
        self.book().requests.len()
    }

    /// Connections accepted.
    pub fn connections(&self) -> usize {
        self.book().connections
    }

    /// Connections that neither side has closed.
    pub fn open(&self) -> usize {
        self.book().open
    }

    /// Requests whose reply has not been sent to its end, on connections that are still open.
    pub fn in_flight(&self) -> usize {
        self.book().in_flight
    }

    /// The most requests that were ever in flight together.
    pub fn peak_in_flight(&self) -> usize {
        self.book().peak
    }

    /// Every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.book().requests.clone()
    }

    /// The request with this number, from 0, if it has come.
    pub fn request(&self, number: usize) -> Option<Request> {
        self.book().requests.get(number).cloned()
    }

    /// The newest request, if any has come.
    pub fn last_request(&self) -> Option<Request> {
        self.book().requests.last().cloned()
    }

    /// When each request arrived, on tokio's clock.
    pub fn arrivals(&self) -> Vec<Instant> {
        self.book().requests.iter().map(Request::arrived).collect()
    }

    /// When each request arrived, counted from the first: `[0, t₂, t₃, …]`.
    pub fn offsets(&self) -> Vec<Duration> {
        let arrivals = self.arrivals();
        arrivals.iter().map(|at| at.duration_since(arrivals[0])).collect()
    }

    /// The time between each request and the next.
    pub fn gaps(&self) -> Vec<Duration> {
        self.arrivals()
            .windows(2)
            .map(|pair| pair[1].duration_since(pair[0]))
            .collect()
    }

    /// Waits until at least `n` requests have come.
    ///
    /// # Panics
    ///
    /// If that has not happened after five seconds of real time. So do all the other waits.
    #[track_caller]
    pub fn wait_sends(&self, n: usize) -> impl Future<Output = ()> {
        self.wait_until(format!("at least {n} sends"), move |ledger| ledger.sends() >= n)
    }

    /// Waits until at least `n` requests have come whole.
    #[track_caller]
    pub fn wait_complete(&self, n: usize) -> impl Future<Output = ()> {
        let complete = move |ledger: &Ledger| ledger.book().requests.iter().filter(|r| r.complete).count() >= n;
        self.wait_until(format!("at least {n} whole requests"), complete)
    }

    /// Waits until at least `n` connections have been accepted.
    #[track_caller]
    pub fn wait_connections(&self, n: usize) -> impl Future<Output = ()> {
        self.wait_until(format!("at least {n} connections"), move |ledger| {
            ledger.connections() >= n
        })
    }

    /// Waits until exactly `n` connections are open.
    #[track_caller]
    pub fn wait_open(&self, n: usize) -> impl Future<Output = ()> {
        self.wait_until(format!("{n} open connections"), move |ledger| ledger.open() == n)
    }

    /// Waits until exactly `n` requests are in flight.
    #[track_caller]
    pub fn wait_in_flight(&self, n: usize) -> impl Future<Output = ()> {
        self.wait_until(format!("{n} requests in flight"), move |ledger| ledger.in_flight() == n)
    }

    /// Waits until the condition holds; `what` says it in the message of the panic.
    #[track_caller]
    pub fn wait_until(&self, what: impl Into<String>, condition: impl Fn(&Ledger) -> bool) -> impl Future<Output = ()> {
        self.wait_within(PATIENCE, what.into(), condition, Location::caller())
    }

    async fn wait_within(
        &self,
        patience: Duration,
        what: String,
        condition: impl Fn(&Ledger) -> bool,
        caller: &Location<'_>,
    ) {
        if condition(self) {
            return;
        }
        let mut patience_lost = real_timer(patience);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, or a change between the look and the wait would be missed.
            changed.as_mut().enable();
            if condition(self) {
                return;
            }
            tokio::select! {
                () = changed => {}
                _ = &mut patience_lost.expired => panic!("waited {patience:?} at {caller} for {what}: {self:?}"),
            }
        }
    }

    pub(crate) fn connected(self: &Arc<Ledger>) -> Connected {
        let id = self.write(|book| {
            book.connections += 1;
            book.open += 1;
            book.connections - 1
        });
        Connected {
            ledger: Arc::clone(self),
            id,
        }
    }

    /// Enters a request at the arrival of its head.
    pub(crate) fn arrived(
        self: &Arc<Ledger>,
        connection: usize,
        method: String,
        path: String,
        headers: Vec<(String, String)>,
    ) -> InFlight {
        let number = self.write(|book| {
            book.in_flight += 1;
            book.peak = book.peak.max(book.in_flight);
            book.requests.push(Request {
                number: book.requests.len(),
                connection,
                in_flight: book.in_flight,
                arrived: Instant::now(),
                method,
                path,
                headers,
                body: Vec::new(),
                complete: false,
            });
            book.requests.len() - 1
        });
        InFlight {
            ledger: Arc::clone(self),
            number,
        }
    }

    /// Enters more of the body of a request.
    pub(crate) fn received(&self, number: usize, bytes: &[u8]) {
        self.change(number, |request| request.body.extend_from_slice(bytes));
    }

    /// Enters that a request has come whole.
    pub(crate) fn completed(&self, number: usize) {
        self.change(number, |request| request.complete = true);
    }

    fn change(&self, number: usize, change: impl FnOnce(&mut Request)) {
        self.write(|book| book.requests.get_mut(number).map(change));
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(&self, change: impl FnOnce(&mut Book) -> T) -> T {
        let result = change(&mut self.book());
        self.changed.notify_waiters();
        result
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let book = self.book();
        f.debug_struct("Ledger")
            .field("sends", &book.requests.len())
            .field("connections", &book.connections)
            .field("open", &book.open)
            .field("in_flight", &book.in_flight)
            .finish_non_exhaustive()
    }
}

/// An open connection; dropping it enters the close.
pub(crate) struct Connected {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) id: usize,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.ledger.write(|book| book.open -= 1);
    }
}

/// A request without its whole reply; dropping it enters the end of the reply.
pub(crate) struct InFlight {
    ledger: Arc<Ledger>,
    number: usize,
}

impl InFlight {
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// The request as it is now. `None` cannot happen: requests are never taken out of the ledger.
    pub(crate) fn request(&self) -> Option<Request> {
        self.ledger.request(self.number)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.ledger.write(|book| book.in_flight -= 1);
    }
}

struct RealTimer {
    expired: oneshot::Receiver<()>,
    // Dropped with the timer, which ends its thread at once.
    _stop: mpsc::Sender<()>,
}

/// Real time that runs on its own thread: a timer of the runtime would be advanced at will by a test with paused time.
fn real_timer(time: Duration) -> RealTimer {
    let (expire, expired) = oneshot::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
            let _ = expire.send(());
        }
    });
    RealTimer { expired, _stop: stop }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "for a miracle: Ledger { sends: 0,")]
    async fn a_wait_in_vain_says_what_was_missed() {
        let ledger = Ledger::default();
        ledger
            .wait_within(
                Duration::from_millis(20),
                "a miracle".to_owned(),
                |_| false,
                Location::caller(),
            )
            .await;
    }
}
