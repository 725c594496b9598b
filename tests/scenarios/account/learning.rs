//! What answers teach: a batch on one allowance ends near the physical limit, whatever the headers look like.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest_ai_retry::{Account, RetryMiddleware, RetryPolicy};
use reqwest_middleware::ClientBuilder;
use testbed::sim::{Case, Headers, Latency, Provider, Simulation, Transport};

use crate::stub::{CHAT, PROMPT, secs};

/// The makespan over the provider's exact bound, and the refused part, of a batch of 200 by 20 workers.
async fn batch(case: Case, headers: Headers, account: Account) -> (f64, f64) {
    const REQUESTS: usize = 200;
    let model = case
        .model(120)
        .headers(headers)
        .jitter(Duration::from_millis(20))
        .latency(Latency::Fixed(secs(2)));
    let server = Simulation::new(Provider::new(model, 11));
    let policy = RetryPolicy::default().max_attempts(1000).max_retry_time(secs(100_000));
    let retry = RetryMiddleware::builder()
        .policy(policy)
        .account(account)
        .seed(11)
        .build();
    let client = ClientBuilder::new(RetryMiddleware::client_builder().build().unwrap())
        .with(retry)
        .with(Transport::new(server.clone()))
        .build();
    let left = Arc::new(AtomicUsize::new(REQUESTS));
    let workers = (0..20).map(|_| {
        let (client, left) = (client.clone(), Arc::clone(&left));
        tokio::spawn(async move {
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
            {
                let response = client.post(CHAT).body(PROMPT).send().await.unwrap();
                assert_eq!(response.status(), 200);
                response.bytes().await.unwrap();
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let bound = server.with(|provider| provider.bound(REQUESTS as u64, secs(2)));
    let refused = server.with(|provider| provider.tally().refused());
    (
        server.elapsed().as_secs_f64() / bound.as_secs_f64(),
        refused as f64 / REQUESTS as f64,
    )
}

/// Azure sends -1 and 0 for what it does not know, and a limit per ten seconds under the name of one per minute.
#[tokio::test(start_paused = true)]
async fn headers_that_say_nothing_or_count_otherwise_do_no_harm() {
    for case in [Case::Bucket10, Case::PerTenSeconds] {
        for headers in [
            Headers::PerMinute,
            Headers::AsEnforced,
            Headers::Sentinels,
            Headers::Off,
        ] {
            let configured = Account::builder().requests_per_minute(120).build().unwrap();
            for (name, account, most) in [
                ("configured", configured, 0.02),
                ("adaptive", Account::adaptive(), 0.06),
            ] {
                let (makespan, refused) = batch(case, headers, account).await;
                assert!(
                    makespan <= 1.15 && refused <= most,
                    "{name}, {case:?}, {headers:?}: {makespan}, {refused}"
                );
            }
        }
    }
}

/// A target below the provider's allowance is kept, however much room its headers show.
#[tokio::test(start_paused = true)]
async fn a_target_below_the_allowance_is_not_exceeded() {
    let account = Account::builder().requests_per_minute(90).build().unwrap();
    let (makespan, refused) = batch(Case::Bucket60, Headers::PerMinute, account).await;
    let bound = (200.0 - 60.0) / 2.0 + 2.0;
    assert!(
        makespan * bound >= 199.0 / 1.5 && refused == 0.0,
        "{makespan}, {refused}"
    );
}

/// A wrong belief is corrected: the real allowance is half of what was configured.
#[tokio::test(start_paused = true)]
async fn a_real_allowance_below_the_configured_one_is_noticed() {
    for headers in [Headers::PerMinute, Headers::Off] {
        let account = Account::builder().requests_per_minute(120).build().unwrap();
        let (makespan, refused) = batch(Case::Half, headers, account).await;
        assert!(
            makespan <= 1.05 && refused <= 0.10,
            "{headers:?}: {makespan}, {refused}"
        );
    }
}

/// What a window holds is lost at its end. Headers that show it are used, whatever unit their limit counts by: the last of a
/// batch come sooner than an even pace would have them, and nobody is refused for it.
#[tokio::test(start_paused = true)]
async fn what_a_window_holds_is_used_before_its_end() {
    let even = 199.0 / 2.0 + 2.0;
    for case in [Case::PerTenSeconds, Case::FixedMinute] {
        let bound = if case == Case::FixedMinute { 62.0 } else { 92.0 };
        for headers in [Headers::PerMinute, Headers::AsEnforced] {
            let configured = Account::builder().requests_per_minute(120).build().unwrap();
            for account in [configured, Account::adaptive()] {
                let (makespan, refused) = batch(case, headers, account).await;
                assert!(
                    makespan * bound <= even - 1.0 && refused <= 0.03,
                    "{case:?}, {headers:?}: {makespan}, {refused}"
                );
            }
        }
    }
}
