//! A spent quota is no rate limit: it is told at once, and the provider's answer comes back whole.

use reqwest_ai_retry::{Account, Class, Event, Outcome, RetryMiddleware, StopReason};
use reqwest_middleware::ClientBuilder;
use testbed::sim::{Model, Provider, Refusal, Shape, Simulation, Transport};

use crate::stub::{CHAT, Item, PROMPT, Stub, exact, reply, spawned};

async fn sends(script: [Item; 2]) -> (usize, Option<StopReason>) {
    let server = Stub::new(script);
    let response = server.with(exact()).post(CHAT).body(PROMPT).send().await.unwrap();
    (server.n(), Outcome::of(&response).map(Outcome::stop))
}

/// C1, C5: `insufficient_quota` ends the call at its first answer.
/// C2: the mark may stand in `type` or in `code` alone.
#[tokio::test(start_paused = true)]
async fn insufficient_quota_is_not_retried() {
    for body in [
        r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota","param":null}}"#,
        r#"{"error":{"message":"x","type":"insufficient_quota","code":null}}"#,
        r#"{"error":{"message":"x","type":null,"code":"insufficient_quota"}}"#,
        r#"{"error":{"message":"x","type":"insufficient_quota","code":"credit_balance_exhausted"}}"#,
    ] {
        assert_eq!(
            sends([reply(429).json(body), reply(200)]).await,
            (1, Some(StopReason::QuotaExhausted)),
            "{body}"
        );
    }
}

/// C3, C4: after giving up, the provider's own words are the result, and the note is beside them.
#[tokio::test(start_paused = true)]
async fn the_providers_answer_comes_back_whole() {
    let body = r#"{"error":{"message":"You have no API credits remaining.","type":"insufficient_quota","code":"credit_balance_exhausted"}}"#;
    let server = Stub::new([reply(429).json(body)]);
    let response = server.with(exact()).post(CHAT).body(PROMPT).send().await.unwrap();
    let outcome = Outcome::of(&response).unwrap().clone();
    assert_eq!(outcome.verdict().unwrap().class(), Class::QuotaExhausted);
    assert!(outcome.user_message().contains("credit"), "{}", outcome.user_message());
    let json: serde_json::Value = response.json().await.unwrap();
    assert_eq!(json["error"]["code"], "credit_balance_exhausted");
    assert_eq!(json["error"]["message"], "You have no API credits remaining.");

    let server = Stub::new([reply(503).json(r#"{"error":{"message":"Overloaded"}}"#)]);
    let response = server
        .with(exact().max_attempts(2))
        .post(CHAT)
        .body(PROMPT)
        .send()
        .await
        .unwrap();
    assert_eq!(Outcome::of(&response).unwrap().stop(), StopReason::AttemptsSpent);
    assert_eq!(response.text().await.unwrap(), r#"{"error":{"message":"Overloaded"}}"#);
}

/// C6: Gemini's per-day quota stops, its per-minute quota waits.
#[tokio::test(start_paused = true)]
async fn a_days_quota_stops_and_a_minutes_waits() {
    let body = |quota: &str| {
        format!(
            r#"{{"error":{{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.",
            "status":"RESOURCE_EXHAUSTED","details":[{{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{
            "quotaMetric":"generativelanguage.googleapis.com/generate_content_requests","quotaId":"{quota}"}}]}},
            {{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"20s"}}]}}}}"#
        )
    };
    let day = reply(429).json(&body("GenerateRequestsPerDayPerProjectPerModel-FreeTier"));
    assert_eq!(sends([day, reply(200)]).await, (1, Some(StopReason::QuotaExhausted)));
    let minute = reply(429).json(&body("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"));
    assert_eq!(sends([minute, reply(200)]).await, (2, Some(StopReason::Succeeded)));
}

/// C8: a limit of zero is no allowance at all.
#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_is_no_rate() {
    let none = reply(429)
        .header("x-ratelimit-limit-requests", 0)
        .header("x-ratelimit-remaining-requests", 0);
    assert_eq!(sends([none, reply(200)]).await, (1, Some(StopReason::QuotaExhausted)));
}

/// C9: a 429 that is HTML, empty or cut off is still a 429.
#[tokio::test(start_paused = true)]
async fn an_unreadable_body_falls_back_to_the_status() {
    for body in [
        "<html><head><title>429 Too Many Requests</title></head></html>",
        "",
        r#"{"error":{"mess"#,
        "\u{fffd}\0",
    ] {
        assert_eq!(
            sends([reply(429).json(body), reply(200)]).await,
            (2, Some(StopReason::Succeeded)),
            "{body}"
        );
    }
}

/// C7: refusals for too many in flight lower the ceiling, so that waiting helps.
#[tokio::test(start_paused = true)]
async fn a_concurrency_refusal_lowers_the_ceiling() {
    for account in [Account::default(), Account::builder().build().unwrap()] {
        let simulation = Simulation::new(Provider::new(Model::new(Shape::OpenAi).concurrency(5), 7));
        let learnt = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let told = std::sync::Arc::clone(&learnt);
        let retry = RetryMiddleware::builder()
            .policy(exact())
            .account(account.clone())
            .observer(move |event: &Event<'_>| {
                if let Event::CeilingLearnt { in_flight, .. } = event {
                    told.lock().unwrap().push(*in_flight);
                }
            });
        let client = ClientBuilder::new(reqwest::Client::new())
            .with(retry.build())
            .with(Transport::new(simulation.clone()))
            .build();
        // each reads its answer, and asks again
        let workers = (0..8).map(|_| {
            let client = client.clone();
            async move {
                for _ in 0..3 {
                    let response = spawned(&client, "m").await.unwrap().unwrap();
                    assert_eq!(response.status(), 200);
                    drop(response.bytes().await.unwrap());
                }
            }
        });
        futures_util::future::join_all(workers).await;
        assert_eq!(*learnt.lock().unwrap().last().unwrap(), 5);
        let status = account.status();
        let ceiling = status.lanes[0].learnt_max_in_flight;
        assert!(ceiling.is_some_and(|most| (5..=6).contains(&most)), "{ceiling:?}");
        let refused = simulation.tally().refused_for(Refusal::Concurrency);
        assert!(refused <= 8, "{refused}");
        assert_eq!(status.in_flight, 0);
    }
}
