//! The numbers of a policy hold for every script and every policy.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Extensions;
use proptest::collection::vec;
use proptest::prelude::*;
use reqwest_ai_retry::{Backoff, Event, Jitter, Outcome, Replay, RetryMiddleware, RetryPolicy, StopReason};
use tokio::time::{Instant, timeout};

use crate::stub::{CHAT, Item, ORDERS, PROMPT, Stub, hang, millis, reply, secs};

fn item() -> impl Strategy<Value = Item> {
    let status = prop_oneof![
        4 => prop_oneof![Just(429u16), Just(500), Just(502), Just(503), Just(529), Just(408), Just(409)],
        1 => prop_oneof![Just(200u16), Just(400), Just(404)],
        1 => 200u16..600,
    ];
    let answer = (status, proptest::option::of(0u64..200), 0u64..3_000).prop_map(|(status, delay, after)| {
        let answer = reply(status).after(millis(after));
        match delay {
            Some(delay) => answer.ra(delay),
            None => answer,
        }
    });
    prop_oneof![6 => answer, 1 => Just(hang())]
}

/// The numbers of a policy.
#[derive(Debug, Clone)]
struct Limits {
    attempts: u32,
    retry_time: Duration,
    attempt: Option<Duration>,
    total: Option<Duration>,
    base: Duration,
    jitter: Jitter,
    replay: Replay,
    inspects: bool,
}

impl Limits {
    fn policy(&self) -> RetryPolicy {
        let mut policy = RetryPolicy::default()
            .max_attempts(self.attempts)
            .max_retry_time(self.retry_time)
            .backoff(Backoff::exponential(self.base).jitter(self.jitter))
            .replay(self.replay);
        if let Some(limit) = self.attempt {
            policy = policy.attempt_timeout(limit);
        }
        if let Some(limit) = self.total {
            policy = policy.total_deadline(limit);
        }
        if self.inspects {
            policy = policy.inspect_success(64);
        }
        policy
    }
}

fn limits() -> impl Strategy<Value = Limits> {
    (
        (
            0u32..9,
            0u64..300,
            proptest::option::of(1u64..60),
            proptest::option::of(1u64..200),
        ),
        (
            0u64..5_000,
            prop_oneof![Just(Jitter::Full), Just(Jitter::Equal), Just(Jitter::None)],
        ),
        prop_oneof![Just(Replay::Idempotent), Just(Replay::Inference), Just(Replay::Always)],
        any::<bool>(),
    )
        .prop_map(
            |((attempts, retry_time, attempt, total), (base, jitter), replay, inspects)| Limits {
                attempts,
                retry_time: secs(retry_time),
                attempt: attempt.map(secs),
                total: total.map(secs),
                base: millis(base),
                jitter,
                replay,
                inspects,
            },
        )
}

proptest! {
    /// A6, B16, F3: never more sends than attempts, no wait that ends later than it may, and the count told is the count
    /// sent.
    #[test]
    fn sends_and_waits_keep_within_the_policy(script in vec(item(), 1..12), limits in limits(), chat in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let server = Stub::new(script);
            let waits = Arc::new(Mutex::new(Vec::new()));
            let told = Arc::clone(&waits);
            let start = Instant::now();
            let retry = RetryMiddleware::builder()
                .policy(limits.policy())
                .observer(move |event: &Event<'_>| {
                    if let Event::Waiting { wait, verdict, .. } = event {
                        told.lock().unwrap().push((start.elapsed(), *wait, verdict.server_delay()));
                    }
                })
                .build();
            let client = server.under([retry]);
            let request = client.post(if chat { CHAT } else { ORDERS }).body(PROMPT).build().unwrap();
            let mut extensions = Extensions::new();
            // a server that hangs may hang for ever, where nothing was said of time
            let ended = timeout(secs(100_000), client.execute_with_extensions(request, &mut extensions)).await;
            let n = server.n();
            // a success at the first send leaves nothing to tell
            let Some(outcome) = extensions.remove::<Outcome>() else {
                prop_assert!(n == 1 && matches!(ended, Ok(Ok(response)) if Outcome::of(&response).is_none()));
                return Ok(());
            };

            prop_assert!(n >= 1 && n <= limits.attempts.max(1) as usize, "{n} sends");
            prop_assert_eq!(outcome.sends() as usize, n);
            if ended.is_err() {
                prop_assert_eq!(outcome.stop(), StopReason::Cancelled);
                prop_assert!(limits.attempt.is_none() && limits.total.is_none());
                return Ok(());
            }
            prop_assert_eq!(outcome.attempts().len(), n);
            prop_assert!(outcome.stop() != StopReason::AttemptsSpent || n == limits.attempts.max(1) as usize);
            let waits = waits.lock().unwrap();
            // after its own wait a retry may find that the lane's turn comes too late for it
            let turned_away = [
                StopReason::DeadlinePassed,
                StopReason::QueuePastDeadline,
                StopReason::PausedPastDeadline,
            ];
            prop_assert!(n == waits.len() + 1 || turned_away.contains(&outcome.stop()));
            for (at, wait, delay) in waits.iter() {
                let stated = delay.map_or(Duration::ZERO, |delay| delay.duration());
                let spread = if delay.is_some() { secs(5) } else { Duration::ZERO };
                prop_assert!(*wait >= stated.max(millis(50)), "waits {wait:?} after {stated:?}");
                prop_assert!(*at + *wait <= limits.retry_time + spread, "waits {wait:?} at {at:?}");
            }
            if let Some(total) = limits.total {
                // the timer of the runtime counts in milliseconds
                prop_assert!(start.elapsed() <= total + millis(2), "took {:?}", start.elapsed());
            }
            Ok(())
        })?;
    }
}
