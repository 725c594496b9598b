//! What is kept in the store, and what is shown of it, tells no secret.

use reqwest_ai_retry::{RetryMiddleware, RetryPolicy, StoreError};
use reqwest_middleware::ClientBuilder;
use testbed::Server;

use super::*;

const SECRET: &str = "sk-very-secret-0123456789";

#[tokio::test]
async fn keys_and_values_hold_no_credential() {
    let server = RedisServer::start();
    let provider = Server::start([200]).await;
    let account = member(&server, |account| {
        account
            .requests_per_minute(60_000)
            .max_concurrency(8)
            .lane_by(|_, headers| {
                format!(
                    "{:?}",
                    headers
                        .get("authorization")
                        .map(|value| value.to_str().unwrap().to_owned())
                )
            })
    })
    .await;
    let retry = RetryMiddleware::builder()
        .policy(RetryPolicy::default())
        .account(account)
        .build();
    let client = ClientBuilder::new(RetryMiddleware::client_builder().build().unwrap())
        .with(retry)
        .build();
    let sent = client
        .get(provider.url("/v1/models?key=also-secret"))
        .bearer_auth(SECRET)
        .send()
        .await;
    assert_eq!(sent.unwrap().status(), 200);
    let mut raw = raw(&server);
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut raw).unwrap();
    assert!(keys.len() >= 4, "{keys:?}");
    let tag = |key: &String| {
        key.split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .map(|(tag, _)| tag.to_owned())
    };
    assert!(
        keys.iter().all(|key| tag(key).as_deref() == Some("default")),
        "one hash tag: {keys:?}"
    );
    let mut kept = keys.join(" ");
    for key in &keys {
        let dump: Vec<u8> = redis::cmd("DUMP").arg(key).query(&mut raw).unwrap();
        kept.push_str(&String::from_utf8_lossy(&dump));
    }
    assert!(!kept.contains("secret"), "{kept}");
    // and all of it is forgotten by itself
    for key in &keys {
        let left: i64 = redis::cmd("PTTL").arg(key).query(&mut raw).unwrap();
        assert!(left > 0, "{key}: {left}");
    }
}

#[tokio::test]
async fn a_password_is_never_shown() {
    let server = RedisServer::of("redis-server", &["--requirepass", SECRET]).unwrap();
    let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}/", server.port());
    let store = RedisStore::connect(url(SECRET)).await.unwrap();
    let account = Account::builder()
        .requests_per_minute(6_000)
        .redis(store.clone())
        .build()
        .unwrap();
    drop(admit(&account).await);
    let wrong = RedisStore::connect(url("wrong-but-secret")).await.unwrap_err();
    assert_eq!(wrong, StoreError::Authentication);
    let unreadable = RedisStore::connect("redis://secret@@:x/y").await.unwrap_err();
    let builder = Account::builder().redis(store.clone());
    for shown in [
        format!("{store:?}"),
        format!("{account:?}"),
        format!("{builder:?}"),
        format!("{wrong} {wrong:?}"),
        format!("{unreadable} {unreadable:?}"),
    ] {
        assert!(!shown.contains("secret") && !shown.contains("127.0.0.1"), "{shown}");
    }
}

#[tokio::test]
async fn a_set_up_that_cannot_work_is_told_its_field() {
    let store = || RedisStore::lazy("redis://127.0.0.1:1/").unwrap();
    for (store, field) in [
        (store().account(""), "redis.account"),
        (store().account("a}b"), "redis.account"),
        (store().processes(0), "redis.processes"),
        (store().timeout(Duration::ZERO), "redis.timeout"),
    ] {
        assert_eq!(Account::builder().redis(store).build().unwrap_err().field(), field);
    }
    assert_eq!(RedisStore::lazy("http://127.0.0.1/").unwrap_err(), StoreError::Url);
}
