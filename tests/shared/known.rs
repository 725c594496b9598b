//! What one has learnt all know: pauses, rates, ceilings, and where a breaker stands.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reqwest_ai_retry::{BreakerStatus, CircuitBreaker, Clock};

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

/// Fails for as long as it takes to open the breaker: seven calls within 1.8 s.
async fn fail(clock: &Forward, account: &Account) {
    for _ in 0..7 {
        let mut permit = admit(account).await;
        // a probe is waited for four times as long
        clock.by(ms(300));
        report(&mut permit, 500, &[], BROKEN);
        if lane(account).breaker == BreakerStatus::Open {
            return;
        }
    }
    panic!("it does not open");
}

/// The time of the next probe has come, by the store's clock.
fn let_probe(server: &RedisServer) {
    let mut raw = raw(server);
    let hash = key(&mut raw, ":lane:0000000000000000");
    let set = redis::cmd("HSET").arg(&hash).arg("until").arg("1").exec(&mut raw);
    set.unwrap();
}

/// One process's failures open the breaker of all; when its time has come one probe goes, wherever, and its success closes
/// it for all.
#[tokio::test]
async fn a_breaker_opens_for_all_and_one_probe_closes_it() {
    let server = RedisServer::start();
    let clock = Forward::default();
    // long enough for a busy machine to see it open
    let interval = Duration::from_secs(5);
    let breaker = CircuitBreaker::new().probe_interval(interval, interval);
    let build = |account: AccountBuilder| {
        let account = account.requests_per_minute(60_000).clock(clock.clone());
        account.circuit_breaker(breaker)
    };
    let members = [member(&server, build).await, member(&server, build).await];
    drop(admit(&members[1]).await);
    fail(&clock, &members[0]).await;
    until("it is open for the other", || {
        lane(&members[1]).breaker != BreakerStatus::Closed
    })
    .await;
    let refused = admit_by(&clock, &members[1], ms(50)).await;
    assert_eq!(reason(refused), Some(StopReason::CircuitOpen));
    // five seconds later, by the clocks of both and by the store's
    clock.by(interval);
    let_probe(&server);
    let (one, other) = tokio::join!(
        admit_by(&clock, &members[0], ms(800)),
        admit_by(&clock, &members[1], ms(800))
    );
    let (probe, refused) = match (one, other) {
        (Ok(probe), refused) | (refused, Ok(probe)) => (probe, refused),
        both => panic!("one probe passes: {both:?}"),
    };
    let refused = reason(refused);
    assert_eq!(refused, Some(StopReason::CircuitOpen), "exactly one probe");
    let mut probe = probe;
    report(&mut probe, 200, &[], "{}");
    until("it is open for neither", || {
        members
            .iter()
            .all(|account| matches!(lane(account).breaker, BreakerStatus::Closed | BreakerStatus::HalfOpen))
    })
    .await;
    for account in &members {
        for _ in 0..5 {
            report(&mut admit_by(&clock, account, ms(500)).await.unwrap(), 200, &[], "{}");
        }
        assert_eq!(lane(account).breaker, BreakerStatus::Closed);
    }
}

/// What gets through in one process is no outage, whatever another has met.
#[tokio::test]
async fn a_process_whose_sends_get_through_does_not_stop_for_another() {
    let server = RedisServer::start();
    let clock = Forward::default();
    // with a limit and without: the store lends, or is not asked
    for limit in [Some(60_000), None] {
        let interval = Duration::from_secs(5);
        let breaker = CircuitBreaker::new().probe_interval(interval, interval);
        let build = |account: AccountBuilder| {
            let account = account.circuit_breaker(breaker).clock(clock.clone());
            match limit {
                Some(limit) => account.requests_per_minute(limit),
                None => account,
            }
        };
        let mut members = Vec::new();
        for _ in 0..2 {
            let store = RedisStore::connect(server.url())
                .await
                .unwrap()
                .account(format!("{limit:?}"));
            members.push(build(Account::builder()).redis(store).build().unwrap());
        }
        while members[0]
            .status()
            .lanes
            .first()
            .is_none_or(|lane| lane.breaker != BreakerStatus::Open)
        {
            report(
                &mut admit_by(&clock, &members[0], ms(200)).await.unwrap(),
                500,
                &[],
                BROKEN,
            );
            clock.by(ms(300));
            report(
                &mut admit_by(&clock, &members[1], ms(200)).await.unwrap(),
                200,
                &[],
                "{}",
            );
        }
        let end = Instant::now() + ms(1_500);
        while Instant::now() < end {
            let mut permit = admit_by(&clock, &members[1], ms(200)).await.unwrap();
            report(&mut permit, 200, &[], "{}");
            tokio::time::sleep(ms(20)).await;
        }
        assert_eq!(lane(&members[0]).breaker, BreakerStatus::Open, "{limit:?}");
        assert_eq!(lane(&members[1]).breaker, BreakerStatus::Closed, "{limit:?}");
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
    fail(&clock, &members[0]).await;
    until("it is open for the other", || {
        lane(&members[1]).breaker != BreakerStatus::Closed
    })
    .await;
    clock.by(Duration::from_secs(5));
    let_probe(&server);
    drop(admit(&members[0]).await);
    let end = Instant::now() + Duration::from_secs(10);
    while reason(admit_by(&clock, &members[1], Duration::from_secs(5)).await).is_some() {
        assert!(Instant::now() < end, "the probe's place is not given back");
        tokio::time::sleep(ms(20)).await;
    }
}
