//! The one decision: try again and when, or stop and why. Pure: what was seen, what was done and what chance drew go in
//! as data.

use std::time::Duration;

use crate::backoff::scaled;
use crate::classify::{Cause, Class, Seen, Verdict};
use crate::outcome::{StopReason, Why};
use crate::policy::RetryPolicy;

/// Where a call stands when an attempt has failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// Sends so far.
    pub(crate) sends: u32,
    /// Time since the first of them.
    pub(crate) elapsed: Duration,
    /// Time until the total deadline, if there is one.
    pub(crate) remaining: Option<Duration>,
    /// Can and may this request be sent again after such a failure?
    pub(crate) replayable: Result<(), Why>,
    /// Does a retry layer above own this call?
    pub(crate) nested: bool,
    /// What chance drew for the backoff and for the spread on top of a server's delay, each from `[0, 1)`.
    pub(crate) draws: [f64; 2],
}

/// What to do about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Send again after this wait.
    Retry(Duration),
    /// Give up.
    Stop(StopReason),
}

/// Decides. The order is from what no policy can change to what only time forbids.
pub(crate) fn decide(seen: &Seen<'_>, verdict: &Verdict, progress: &Progress, policy: &RetryPolicy) -> Decision {
    let stop = match verdict.class() {
        Class::QuotaExhausted => Some(StopReason::QuotaExhausted),
        Class::Permanent if is_transient(verdict.cause()) && seen.asks_not_to_retry() => {
            Some(StopReason::ServerSaidStop)
        }
        Class::Permanent => Some(StopReason::Permanent),
        Class::Retryable if progress.remaining.is_some_and(|left| left.is_zero()) => Some(StopReason::DeadlinePassed),
        Class::Retryable if progress.nested => Some(StopReason::Nested),
        Class::Retryable if progress.sends >= policy.max_attempts => Some(StopReason::AttemptsSpent),
        Class::Retryable => progress.replayable.err().map(StopReason::NotReplayable),
    };
    match stop {
        Some(reason) => Decision::Stop(reason),
        None => wait(verdict.server_delay().map(|delay| delay.duration()), progress, policy),
    }
}

/// A permanent verdict over a cause that passes by itself: only the server's word made it permanent.
const fn is_transient(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::RateLimited
            | Cause::Overloaded
            | Cause::ServerError
            | Cause::Timeout
            | Cause::ModelLoading
            | Cause::Conflict
            | Cause::Other
    )
}

/// The wait, if it fits. The server's word is a floor. It is tested bare, and the limit itself still fits: with the spread
/// in the test, a delay equal to the limit would be refused by chance. The spread comes on top of what the server said, so
/// that a crowd told the same moment does not come back as one wave.
fn wait(server_delay: Option<Duration>, progress: &Progress, policy: &RetryPolicy) -> Decision {
    let [draw, spread_draw] = progress.draws;
    let backoff = policy.backoff.delay(progress.sends, draw);
    let stated = server_delay.unwrap_or(Duration::ZERO);
    let least = backoff.max(stated);

    let left_to_retry = policy.max_retry_time.checked_sub(progress.elapsed);
    let fits = |wait: Duration| left_to_retry.is_some_and(|left| wait <= left);
    // strictly less: a send at the very deadline would be cut before it began
    let precedes_deadline = |wait: Duration| progress.remaining.is_none_or(|left| wait < left);

    if server_delay.is_some() && left_to_retry.is_some() && !(fits(stated) && precedes_deadline(stated)) {
        return Decision::Stop(StopReason::DelayPastDeadline);
    }
    if !fits(least) {
        return Decision::Stop(StopReason::RetryTimeSpent);
    }
    if !precedes_deadline(least) {
        return Decision::Stop(StopReason::DeadlinePassed);
    }
    let spread = server_delay.map_or(Duration::ZERO, |delay| scaled(spread_of(delay), spread_draw));
    // the attempt after the wait gets at least as much of what is left as the spread takes
    let spread = progress
        .remaining
        .map_or(spread, |left| spread.min(left.saturating_sub(least) / 2));
    Decision::Retry(least.saturating_add(spread))
}

/// How far a crowd is spread on top of a server's delay: a tenth of it, at least 250 ms, at most 5 s.
fn spread_of(delay: Duration) -> Duration {
    (delay / 10).clamp(Duration::from_millis(250), Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use http::{HeaderMap, Method, StatusCode};
    use proptest::prelude::*;
    use reqwest::Url;

    use super::*;
    use crate::backoff::{Backoff, Jitter};
    use crate::retry_after::{DelaySource, ServerDelay};

    const fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn progress() -> Progress {
        Progress {
            sends: 1,
            elapsed: Duration::ZERO,
            remaining: None,
            replayable: Ok(()),
            nested: false,
            draws: [0.0, 0.0],
        }
    }

    fn policy() -> RetryPolicy {
        RetryPolicy::default()
            .backoff(Backoff::exponential(s(1)).jitter(Jitter::None))
            .max_retry_time(s(60))
    }

    fn told(delay: Option<Duration>) -> Verdict {
        Verdict::new(Class::Retryable, Cause::RateLimited)
            .with_server_delay(delay.map(|delay| ServerDelay::new(delay, DelaySource::RetryAfter)))
    }

    fn decided(verdict: &Verdict, progress: &Progress, policy: &RetryPolicy) -> Decision {
        let (url, headers) = (
            Url::parse("https://api.example.com/v1/orders").unwrap(),
            HeaderMap::new(),
        );
        let now = SystemTime::UNIX_EPOCH;
        let seen = Seen::response(&Method::GET, &url, StatusCode::TOO_MANY_REQUESTS, &headers, &[], now);
        decide(&seen, verdict, progress, policy)
    }

    /// B13, B4, B16: the larger of the server's and the client's delay, and never less than the floor.
    #[test]
    fn wait_is_the_larger_of_backoff_and_server_delay() {
        let at = |delay, sends| decided(&told(delay), &Progress { sends, ..progress() }, &policy());
        assert_eq!(at(Some(s(7)), 1), Decision::Retry(s(7)));
        assert_eq!(at(Some(s(1)), 4), Decision::Retry(s(8)));
        assert_eq!(at(Some(s(0)), 1), Decision::Retry(s(1)));
        assert_eq!(at(None, 1), Decision::Retry(s(1)));
    }

    /// B2, B3: the limit itself fits; a second more ends the call instead of being shortened.
    #[test]
    fn a_delay_that_fits_exactly_is_waited_and_a_longer_one_stops() {
        let at = |delay| {
            decided(
                &told(Some(s(delay))),
                &Progress {
                    draws: [0.0, 0.99],
                    ..progress()
                },
                &policy(),
            )
        };
        assert!(matches!(at(59), Decision::Retry(wait) if wait > s(59)));
        assert!(
            matches!(at(60), Decision::Retry(wait) if wait > s(60)),
            "the spread may overrun max_retry_time"
        );
        assert_eq!(at(61), Decision::Stop(StopReason::DelayPastDeadline));
    }

    /// F3, F5: no wait is begun that ends at or after the deadline.
    #[test]
    fn a_wait_that_uses_up_the_deadline_is_not_begun() {
        let left = |left| Progress {
            remaining: Some(left),
            ..progress()
        };
        assert_eq!(
            decided(&told(None), &left(s(1)), &policy()),
            Decision::Stop(StopReason::DeadlinePassed)
        );
        assert_eq!(
            decided(&told(Some(s(5))), &left(s(5)), &policy()),
            Decision::Stop(StopReason::DelayPastDeadline)
        );
        assert_eq!(
            decided(&told(Some(s(5))), &left(s(6)), &policy()),
            Decision::Retry(s(5))
        );
        assert_eq!(
            decided(&told(Some(s(5))), &left(s(0)), &policy()),
            Decision::Stop(StopReason::DeadlinePassed)
        );
    }

    #[test]
    fn backoff_past_the_retry_time_stops_for_its_own_reason() {
        let late = Progress {
            elapsed: s(59) + Duration::from_millis(1),
            ..progress()
        };
        assert_eq!(
            decided(&told(None), &late, &policy()),
            Decision::Stop(StopReason::RetryTimeSpent)
        );
        let over = Progress {
            elapsed: s(61),
            ..progress()
        };
        assert_eq!(
            decided(&told(Some(s(1))), &over, &policy()),
            Decision::Stop(StopReason::RetryTimeSpent)
        );
    }

    #[test]
    fn reasons_come_in_their_order() {
        let refused = Progress {
            sends: 5,
            replayable: Err(Why::NonIdempotent),
            nested: true,
            ..progress()
        };
        let stop = |progress: &Progress| decided(&told(None), progress, &policy());
        assert_eq!(stop(&refused), Decision::Stop(StopReason::Nested));
        assert_eq!(
            stop(&Progress {
                nested: false,
                ..refused
            }),
            Decision::Stop(StopReason::AttemptsSpent)
        );
        let unsent = Progress {
            nested: false,
            sends: 1,
            ..refused
        };
        assert_eq!(
            stop(&unsent),
            Decision::Stop(StopReason::NotReplayable(Why::NonIdempotent))
        );
        let quota = Verdict::new(Class::QuotaExhausted, Cause::Balance);
        assert_eq!(
            decided(&quota, &refused, &policy()),
            Decision::Stop(StopReason::QuotaExhausted)
        );
    }

    proptest! {
        /// Never below the server's word; without one, never above the cap; never past the deadline.
        #[test]
        fn waits_keep_their_bounds(
            delay in proptest::option::of(0u64..200_000),
            elapsed in 0u64..100_000,
            remaining in proptest::option::of(0u64..200_000),
            sends in 1u32..5,
            draws in [0.0f64..1.0, 0.0..1.0],
        ) {
            let (delay, elapsed) = (delay.map(Duration::from_millis), Duration::from_millis(elapsed));
            let remaining = remaining.map(Duration::from_millis);
            let policy = RetryPolicy::default();
            let progress = Progress { sends, elapsed, remaining, draws, ..progress() };
            if let Decision::Retry(wait) = decided(&told(delay), &progress, &policy) {
                let floor = delay.unwrap_or_default().max(Duration::from_millis(50));
                prop_assert!(wait >= floor);
                let spread = if delay.is_some() { s(5) } else { Duration::ZERO };
                prop_assert!(wait <= delay.unwrap_or_default().max(s(30)) + spread);
                prop_assert!(floor + elapsed <= s(120));
                prop_assert!(remaining.is_none_or(|left| wait < left));
            }
        }
    }
}
