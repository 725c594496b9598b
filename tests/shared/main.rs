//! One account over many processes, against a Redis server of the test's own (`apt-get install redis-server`). Each account
//! here is a process of its own as far as the store can tell; `processes` makes real ones of them.

mod faults;
mod flight;
mod known;
mod outage;
mod processes;
mod rates;
mod secrets;

use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, Method, StatusCode};
use reqwest::Url;
use reqwest_ai_retry::{
    Account, AccountBuilder, Classifier, Cost, LaneStatus, Permit, RedisStore, RetryError, Seen, StopReason,
};
use testbed::RedisServer;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One process of those that share an account in this server.
async fn member(server: &RedisServer, build: impl FnOnce(AccountBuilder) -> AccountBuilder) -> Account {
    let store = RedisStore::connect(server.url()).await.unwrap();
    build(Account::builder()).redis(store).build().unwrap()
}

async fn admit(account: &Account) -> Permit {
    tokio::time::timeout(Duration::from_secs(20), account.admit(Cost::new(), None))
        .await
        .expect("a start within 20 s")
        .unwrap()
}

/// A start that must come within so long.
async fn admit_within(account: &Account, within: Duration) -> Result<Permit, RetryError> {
    account.admit(Cost::new(), Some(Instant::now() + within)).await
}

/// Why a start was refused.
fn reason(refused: Result<Permit, RetryError>) -> Option<StopReason> {
    match refused {
        Err(RetryError::Refused { outcome, .. }) => Some(outcome.stop()),
        _ => None,
    }
}

/// Tells the account what came of the send: a failure with this status, these headers and this body.
fn report(permit: &mut Permit, status: u16, headers: &[(&'static str, &str)], body: &str) {
    let url = Url::parse("https://api.example.com/v1/chat/completions").unwrap();
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect::<Vec<(http::HeaderName, http::HeaderValue)>>()
        .into_iter()
        .collect();
    let status = StatusCode::from_u16(status).unwrap();
    let seen = Seen::response(
        &Method::POST,
        &url,
        status,
        &headers,
        body.as_bytes(),
        SystemTime::now(),
    );
    let verdict = Classifier::default().classify(&seen);
    permit.report(&seen, verdict.as_ref());
}

/// What an account knows of its only lane.
fn lane(account: &Account) -> LaneStatus {
    account.status().lanes.into_iter().next().unwrap()
}

/// Waits until it is so, for ten seconds at most.
async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !so() {
        assert!(Instant::now() < end, "{what}: not within 10 s");
        tokio::time::sleep(ms(5)).await;
    }
}

/// Speaks to the server past the account.
fn raw(server: &RedisServer) -> redis::Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

/// The only key whose name ends so.
fn key(connection: &mut redis::Connection, end: &str) -> String {
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("*{end}")).query(connection).unwrap();
    assert_eq!(keys.len(), 1, "{keys:?}");
    keys.into_iter().next().unwrap()
}
