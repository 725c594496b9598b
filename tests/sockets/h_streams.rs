//! A place in flight is held as long as an answer streams.

use reqwest::Response;
use reqwest_ai_retry::{Account, BreakerStatus, CircuitBreaker, Outcome, RetryMiddleware, StopReason};
use reqwest_middleware::ClientWithMiddleware;
use testbed::{Gate, Server, reply, rst, sse};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::caller::{ORDERS, millis, over, quick, recommended};

fn limited(places: u32) -> (Account, ClientWithMiddleware) {
    let account = Account::builder().max_concurrency(places).build().unwrap();
    let retry = RetryMiddleware::builder().policy(quick()).account(account.clone());
    (account, over(recommended(), retry.build()))
}

fn get(client: &ClientWithMiddleware, server: &Server) -> JoinHandle<Response> {
    let request = client.get(server.url(ORDERS));
    tokio::spawn(async move { request.send().await.unwrap() })
}

/// H2: slow streams under a limit of two, and never three open.
#[tokio::test]
async fn streams_never_exceed_the_limit() {
    let server = Server::start(sse(["one", "two", "three"]).every(10)).await;
    let (account, client) = limited(2);
    let calls: Vec<_> = (0..6)
        .map(|_| {
            let call = get(&client, &server);
            tokio::spawn(async move { call.await.unwrap().text().await.unwrap() })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap().contains("three"));
    }
    assert_eq!((server.sends(), server.peak_in_flight()), (6, 2));
    assert_eq!(account.status().in_flight, 0);
}

/// H2: the headers free nothing; the end of the body does, and so does dropping it, and so does its breaking off.
#[tokio::test]
async fn a_place_is_free_when_the_body_is_over() {
    let gate = Gate::new();
    let server = Server::start([
        reply(200).body("held").body_held(&gate),
        reply(200).body("begun").endless().every(10),
        reply(200).body("0123456789").cut(5),
        reply(200).body("last"),
    ])
    .await;
    let (account, client) = limited(1);
    let first = get(&client, &server).await.unwrap();
    let second = get(&client, &server);
    sleep(millis(40)).await;
    assert_eq!((server.sends(), account.status().in_flight), (1, 1));
    assert!(!second.is_finished());
    gate.open();
    assert_eq!(first.text().await.unwrap(), "held");
    let second = timeout(millis(2_000), second).await.unwrap().unwrap();
    let third = get(&client, &server);
    sleep(millis(40)).await;
    assert!(!third.is_finished() && server.sends() == 2);
    drop(second);
    let third = timeout(millis(2_000), third).await.unwrap().unwrap();
    let fourth = get(&client, &server);
    assert!(third.text().await.is_err());
    assert_eq!(
        timeout(millis(2_000), fourth)
            .await
            .unwrap()
            .unwrap()
            .text()
            .await
            .unwrap(),
        "last"
    );
    assert_eq!((server.sends(), account.status().in_flight), (4, 0));
}

/// A server that breaks every connection opens the breaker like one that fails.
#[tokio::test]
async fn broken_connections_open_the_breaker() {
    let server = Server::start([rst()]).await;
    let account = Account::builder()
        .circuit_breaker(CircuitBreaker::new().min_duration(millis(50)))
        .build()
        .unwrap();
    let retry = RetryMiddleware::builder()
        .policy(quick().max_attempts(1).fail_fast(true))
        .account(account.clone())
        .build();
    let client = over(recommended(), retry);
    let request = || client.get(server.url(ORDERS)).send();
    for _ in 0..6 {
        assert_eq!(
            account
                .status()
                .lanes
                .iter()
                .find(|lane| lane.breaker != BreakerStatus::Closed),
            None
        );
        assert!(request().await.is_err());
        sleep(millis(15)).await;
    }
    assert_eq!(account.status().lanes[0].breaker, BreakerStatus::Open);
    let error = request().await.unwrap_err();
    assert_eq!(
        Outcome::of_error(&error).map(Outcome::stop),
        Some(StopReason::CircuitOpen)
    );
    assert_eq!(server.sends(), 6);
}

/// M4: what a request's own `timeout` of reqwest's cuts is no evidence for those who wait longer.
#[tokio::test]
async fn requests_that_time_out_by_themselves_do_not_hold_a_patient_one() {
    for calls in [5, 30] {
        let server = Server::start([reply(200).body("late").after(300)]).await;
        let account = Account::builder().build().unwrap();
        let retry = RetryMiddleware::builder().policy(quick()).account(account.clone());
        let client = over(recommended(), retry.build());
        for _ in 0..calls {
            let cut = client.get(server.url(ORDERS)).timeout(millis(20));
            assert!(cut.with_extension(quick().max_attempts(1)).send().await.is_err());
        }
        assert!(
            account
                .status()
                .lanes
                .iter()
                .all(|lane| lane.breaker == BreakerStatus::Closed)
        );
        let sends = server.sends();
        let patient = get(&client, &server);
        sleep(millis(100)).await;
        assert_eq!(server.sends(), sends + 1);
        assert_eq!(patient.await.unwrap().text().await.unwrap(), "late");
    }
}
