//! What one has learnt all know: pauses, rates, ceilings, and where a breaker stands.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reqwest_ai_retry::{BreakerStatus, Clock};

use super::*;

const REFUSED: &str = r#"{"error":{"type":"rate_limit_error","message":"slow down"}}"#;
const BROKEN: &str = r#"{"error":{"type":"server_error","message":"no"}}"#;

/// A refusal that one has got pauses all, for no less than it said, and a smaller hint takes nothing back.
#[tokio::test]
async fn a_refusal_that_one_gets_pauses_all() {
    let server = RedisServer::start();
    let build = |account: AccountBuilder| account.requests_per_minute(60_000);
    let (one, other) = (member(&server, build).await, member(&server, build).await);
    drop(admit(&other).await);
    let (mut long, mut short) = (admit(&one).await, admit(&other).await);
    report(&mut long, 429, &[("retry-after", "60")], REFUSED);
    until("the other is paused", || lane(&other).paused_until.is_some()).await;
    report(&mut short, 429, &[("retry-after", "1")], REFUSED);
    let refused = admit_within(&other, Duration::from_secs(30)).await;
    assert_eq!(reason(refused), Some(StopReason::PausedPastDeadline));
    let least = SystemTime::now() + Duration::from_secs(50);
    tokio::time::sleep(ms(700)).await;
    for account in [&one, &other] {
        let paused = lane(account).paused_until.unwrap();
        assert!(
            paused > least && paused < least + Duration::from_secs(11),
            "{paused:?} {least:?}"
        );
    }
    // and whoever comes later knows it from the first
    let late = member(&server, build).await;
    let refused = admit_within(&late, Duration::from_secs(5)).await;
    assert_eq!(reason(refused), Some(StopReason::PausedPastDeadline));
}

/// Those that wait when the pause is heard of and cannot wait so long are turned away.
#[tokio::test]
async fn a_pause_heard_of_turns_away_those_that_cannot_wait() {
    let server = RedisServer::start();
    let build = |account: AccountBuilder| account.max_concurrency(2);
    let (one, other) = (member(&server, build).await, member(&server, build).await);
    let (mut first, _second) = (admit(&one).await, admit(&one).await);
    let waits = tokio::spawn(async move { reason(admit_within(&other, Duration::from_secs(30)).await) });
    tokio::time::sleep(ms(20)).await;
    report(&mut first, 429, &[("retry-after", "100")], REFUSED);
    let stopped = tokio::time::timeout(Duration::from_secs(10), waits).await;
    assert_eq!(stopped.unwrap().unwrap(), Some(StopReason::PausedPastDeadline));
}

/// A rate that a refusal has lowered is lowered for all, and once: others that are refused of the same burst add nothing.
#[tokio::test]
async fn a_rate_that_one_has_learnt_all_keep_to() {
    let server = RedisServer::start();
    let build = |account: AccountBuilder| account.requests_per_minute(6_000);
    let (one, other) = (member(&server, build).await, member(&server, build).await);
    let (mut first, mut second) = (admit(&one).await, admit(&other).await);
    let before = lane(&one).starts_per_minute.unwrap();
    report(&mut first, 429, &[("retry-after-ms", "300")], REFUSED);
    let learnt = lane(&one).starts_per_minute.unwrap_or(before);
    until("it is lower", || {
        lane(&one).starts_per_minute.is_some_and(|rate| rate < before)
    })
    .await;
    let lower = lane(&one).starts_per_minute.unwrap();
    assert!(lower <= learnt);
    until("the other keeps to it", || {
        lane(&other).starts_per_minute == Some(lower)
    })
    .await;
    report(&mut second, 429, &[("retry-after-ms", "300")], REFUSED);
    tokio::time::sleep(ms(600)).await;
    for account in [&one, &other] {
        assert_eq!(lane(account).starts_per_minute, Some(lower));
    }
    let late = member(&server, build).await;
    drop(admit(&late).await);
    assert_eq!(lane(&late).starts_per_minute, Some(lower));
}

/// A rate that nobody configured is not each one's own: what headers told one is spent by all together.
#[tokio::test]
async fn a_rate_that_headers_tell_one_is_the_rate_of_all_together() {
    let server = RedisServer::start();
    let build = |account: AccountBuilder| account;
    let members = [member(&server, build).await, member(&server, build).await];
    let mut first = admit(&members[0]).await;
    drop(admit(&members[1]).await);
    let headers = [
        ("x-ratelimit-limit-requests", "1200"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "50ms"),
    ];
    report(&mut first, 200, &headers, "{}");
    until("both know a rate", || {
        members.iter().all(|account| lane(account).starts_per_minute.is_some())
    })
    .await;
    let rate = lane(&members[0]).starts_per_minute.unwrap() / 60.0;
    let begun = Instant::now();
    for at in 0..11 {
        drop(admit(&members[at % 2]).await);
    }
    let least = Duration::from_secs_f64(9.0 / rate) - ms(20);
    assert!(begun.elapsed() >= least, "{:?} {least:?}", begun.elapsed());
}

/// A ceiling that a refusal has taught one is the ceiling of all.
#[tokio::test]
async fn a_ceiling_that_one_has_learnt_all_keep_to() {
    let server = RedisServer::start();
    let build = |account: AccountBuilder| account.requests_per_minute(60_000);
    let (one, other) = (member(&server, build).await, member(&server, build).await);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(admit(&one).await);
    }
    drop(admit(&other).await);
    until("each knows of the other", || {
        matches!(
            one.status().store,
            reqwest_ai_retry::StoreStatus::Shared { processes: 2, .. }
        )
    })
    .await;
    let body = r#"{"error":{"type":"rate_limit_error","message":"Too many concurrent requests"}}"#;
    let mut last = held.pop().unwrap();
    report(&mut last, 429, &[], body);
    let ceiling = lane(&one).learnt_max_in_flight.expect("a ceiling is learnt");
    until("the other knows it", || {
        lane(&other).learnt_max_in_flight == Some(ceiling)
    })
    .await;
}

/// tokio's clock, put forward by hand.
#[derive(Debug, Clone, Default)]
struct Forward(Arc<AtomicU64>);

impl Forward {
    fn by(&self, span: Duration) {
        self.0.fetch_add(span.as_nanos().try_into().unwrap(), Ordering::SeqCst);
    }

    fn lead(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

/// A start that must come within so long by this clock.
async fn admit_by(clock: &Forward, account: &Account, within: Duration) -> Result<Permit, RetryError> {
    account.admit(Cost::new(), Some(clock.now() + within)).await
}

impl Clock for Forward {
    fn now(&self) -> Instant {
        Instant::now() + self.lead()
    }

    fn wall_now(&self) -> SystemTime {
        SystemTime::now() + self.lead()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let at = at.checked_sub(self.lead()).unwrap_or(at);
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

/// One process's failures open the breaker of all; when its time has come one probe goes, wherever, and its success closes
/// it for all.
#[tokio::test]
async fn a_breaker_opens_for_all_and_one_probe_closes_it() {
    let server = RedisServer::start();
    let clock = Forward::default();
    let build = |account: AccountBuilder| account.requests_per_minute(60_000).clock(clock.clone());
    let members = [member(&server, build).await, member(&server, build).await];
    drop(admit(&members[1]).await);
    for _ in 0..5 {
        report(&mut admit(&members[0]).await, 500, &[], BROKEN);
    }
    assert_eq!(lane(&members[0]).breaker, BreakerStatus::Open);
    until("it is open for the other", || {
        lane(&members[1]).breaker == BreakerStatus::Open
    })
    .await;
    let refused = admit_within(&members[1], Duration::from_secs(1)).await;
    assert_eq!(reason(refused), Some(StopReason::CircuitOpen));
    // five seconds later, by the clocks of both and by the store's
    clock.by(Duration::from_secs(5));
    let mut raw = raw(&server);
    let hash = key(&mut raw, ":lane:0000000000000000");
    redis::cmd("HSET")
        .arg(&hash)
        .arg("until")
        .arg("1")
        .exec(&mut raw)
        .unwrap();
    let (one, other) = tokio::join!(
        admit_by(&clock, &members[0], Duration::from_secs(2)),
        admit_by(&clock, &members[1], Duration::from_secs(2))
    );
    let (probe, refused) = match (one, other) {
        (Ok(probe), refused) | (refused, Ok(probe)) => (probe, refused),
        both => panic!("one probe passes: {both:?}"),
    };
    let refused = reason(refused);
    assert_eq!(refused, Some(StopReason::CircuitOpen), "exactly one probe");
    let mut probe = probe;
    report(&mut probe, 200, &[], "{}");
    until("it is closed for both", || {
        members
            .iter()
            .all(|account| lane(account).breaker == BreakerStatus::Closed)
    })
    .await;
    for account in &members {
        drop(admit(account).await);
    }
}

/// A probe that is dropped without an answer gives its place back, to whichever process asks next.
#[tokio::test]
async fn a_dropped_probe_returns_its_place_to_all() {
    let server = RedisServer::start();
    let clock = Forward::default();
    let build = |account: AccountBuilder| account.clock(clock.clone());
    let members = [member(&server, build).await, member(&server, build).await];
    drop(admit(&members[1]).await);
    for _ in 0..5 {
        report(&mut admit(&members[0]).await, 500, &[], BROKEN);
    }
    until("it is open for the other", || {
        lane(&members[1]).breaker == BreakerStatus::Open
    })
    .await;
    clock.by(Duration::from_secs(5));
    let mut raw = raw(&server);
    let hash = key(&mut raw, ":lane:0000000000000000");
    redis::cmd("HSET")
        .arg(&hash)
        .arg("until")
        .arg("1")
        .exec(&mut raw)
        .unwrap();
    drop(admit(&members[0]).await);
    let end = Instant::now() + Duration::from_secs(10);
    while reason(admit_by(&clock, &members[1], Duration::from_secs(5)).await).is_some() {
        assert!(Instant::now() < end, "the probe's place is not given back");
        tokio::time::sleep(ms(20)).await;
    }
}
