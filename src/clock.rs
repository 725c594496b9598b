//! Where the loop gets its time from, and how it bounds a future by it. Knows nothing of retries.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime};

/// A source of time. The default is tokio's (which its paused clock moves in tests); one's own makes a simulation.
///
/// ```
/// use std::{future::Future, pin::Pin, time::{Duration, Instant, SystemTime}};
/// use reqwest_ai_retry::{Clock, RetryMiddleware};
///
/// /// A machine whose wall clock is an hour slow.
/// #[derive(Debug)]
/// struct Slow;
///
/// impl Clock for Slow {
///     fn now(&self) -> Instant {
///         tokio::time::Instant::now().into_std()
///     }
///     fn wall_now(&self) -> SystemTime {
///         SystemTime::now() - Duration::from_secs(3600)
///     }
///     fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
///         Box::pin(tokio::time::sleep_until(at.into()))
///     }
/// }
///
/// let retry = RetryMiddleware::builder().clock(Slow).build();
/// # let _ = retry;
/// ```
pub trait Clock: Debug + Send + Sync {
    /// The monotonic time: for waits and deadlines.
    fn now(&self) -> Instant;

    /// The time of day: for HTTP-dates, epochs and [`Outcome::retry_at`](crate::Outcome::retry_at).
    fn wall_now(&self) -> SystemTime;

    /// Completes at `at`, at once if that has passed. What an account sleeps for all that wait is polled by a task of its own in
    /// their runtime.
    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// tokio's clock and timer, and the system's time of day.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn wall_now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

/// A point in time that must not be passed, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// `limit` after `start`; a limit that lies beyond what the clock can tell is none.
    pub(crate) fn after(start: Instant, limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| start.checked_add(limit)))
    }

    /// The earlier of the two.
    pub(crate) fn or_earlier(self, other: Self) -> Self {
        Self(self.0.into_iter().chain(other.0).min())
    }

    /// The point in time.
    pub(crate) const fn instant(self) -> Option<Instant> {
        self.0
    }

    /// What is left; `None` without a deadline, zero once it has come.
    pub(crate) fn remaining(self, now: Instant) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(now))
    }

    /// Has it come?
    pub(crate) fn is_past(self, now: Instant) -> bool {
        self.0.is_some_and(|at| at <= now)
    }

    /// Runs `future` until the deadline: `None` if it was cut. What is ready is taken even at the deadline itself.
    pub(crate) async fn cut<T>(self, clock: &dyn Clock, future: impl Future<Output = T>) -> Option<T> {
        match self.0 {
            None => Some(future.await),
            Some(at) => tokio::select! {
                biased;
                output = future => Some(output),
                () = clock.sleep_until(at) => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_cuts_what_is_not_ready_and_no_earlier() {
        let clock = TokioClock;
        let start = clock.now();
        let deadline = Deadline::after(start, Some(Duration::from_secs(3)));
        assert_eq!(deadline.cut(&clock, std::future::pending::<()>()).await, None);
        assert_eq!(clock.now() - start, Duration::from_secs(3));
        assert!(deadline.is_past(clock.now()));
        assert_eq!(deadline.remaining(clock.now()), Some(Duration::ZERO));
        assert_eq!(deadline.cut(&clock, async { 7 }).await, Some(7));
    }

    #[test]
    fn a_limit_beyond_the_clock_is_no_deadline() {
        let start = TokioClock.now();
        assert_eq!(Deadline::after(start, Some(Duration::MAX)), Deadline::default());
        let near = Deadline::after(start, Some(Duration::from_secs(1)));
        assert_eq!(near.or_earlier(Deadline::default()), near);
        assert_eq!(
            near.or_earlier(Deadline::after(start, Some(Duration::from_secs(2)))),
            near
        );
    }
}
