//! Set-ups that cannot work, and what is told of an account.

use std::time::Duration;

use reqwest_ai_retry::{Account, AccountBuilder, BreakerStatus, CircuitBreaker, Limits, RetryBudget};

use crate::stub::{Stub, chat, crowd, exact, millis, reply, secs, spawned};

#[test]
fn a_set_up_that_cannot_work_names_the_field() {
    let field = |builder: AccountBuilder| {
        let error = builder.build().unwrap_err();
        assert!(error.to_string().starts_with(error.field()), "{error}");
        error.field().to_owned()
    };
    let new = Account::builder;
    assert_eq!(field(new().requests_per_minute(0)), "requests_per_minute");
    assert_eq!(field(new().requests_per_day(0)), "requests_per_day");
    assert_eq!(field(new().input_tokens_per_minute(0)), "input_tokens_per_minute");
    assert_eq!(field(new().output_tokens_per_minute(0)), "output_tokens_per_minute");
    assert_eq!(field(new().max_concurrency(0)), "max_concurrency");
    let zero = Limits::new().requests_per_minute(0);
    assert_eq!(
        field(new().model_limits("m", zero)),
        "model_limits(m).requests_per_minute"
    );
    let some = Limits::new().requests_per_minute(1);
    assert_eq!(
        field(new().model_limits("m", some).model_limits("m", some)),
        "model_limits(m)"
    );
    let breaker = |breaker: CircuitBreaker| field(new().circuit_breaker(breaker));
    let settings = CircuitBreaker::new;
    assert_eq!(breaker(settings().min_calls(0)), "circuit_breaker.min_calls");
    assert_eq!(breaker(settings().min_calls(17)), "circuit_breaker.min_calls");
    assert_eq!(breaker(settings().min_failures(0)), "circuit_breaker.min_failures");
    for (least, most) in [(Duration::ZERO, secs(1)), (secs(2), secs(1))] {
        let apart = settings().probe_interval(least, most);
        assert_eq!(breaker(apart), "circuit_breaker.probe_interval");
    }
    let budget = |budget: RetryBudget| field(new().retry_budget(budget));
    let settings = RetryBudget::new;
    assert_eq!(budget(settings().reserve(0)), "retry_budget.reserve");
    for number in [-0.1, f64::NAN, f64::INFINITY] {
        assert_eq!(budget(settings().per_success(number)), "retry_budget.per_success");
        assert_eq!(budget(settings().min_per_second(number)), "retry_budget.min_per_second");
    }
    assert_eq!(budget(settings().min_per_second(0.0)), "retry_budget.min_per_second");
    let extremes = CircuitBreaker::new()
        .min_calls(16)
        .min_failures(1)
        .probe_interval(secs(1), secs(1));
    let budget = RetryBudget::new().reserve(1).per_success(0.0);
    assert!(new().circuit_breaker(extremes).retry_budget(budget).build().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_status_tells_what_is_known() {
    let account = Account::builder()
        .requests_per_minute(60)
        .max_concurrency(2)
        .build()
        .unwrap();
    assert!(account.status().lanes.is_empty());
    let server = Stub::new([
        reply(200).after(secs(10)),
        reply(200).after(secs(10)),
        reply(503).ra(30),
        reply(200),
    ]);
    let client = server.sharing(&account, exact());
    let calls: Vec<_> = (0..4).map(|_| spawned(&client, "m")).collect();
    tokio::time::sleep(millis(1_500)).await;
    let status = account.status();
    assert_eq!(
        (status.in_flight, status.max_in_flight, status.lanes.len()),
        (2, Some(2), 1)
    );
    let lane = &status.lanes[0];
    assert_eq!((lane.host.as_str(), lane.model.as_str()), ("127.0.0.1", "m"));
    assert_eq!((lane.in_flight, lane.waiting), (2, 2));
    assert!(lane.starts_per_minute.is_some_and(|pace| pace > 50.0 && pace <= 60.0));
    assert_eq!(
        (lane.breaker, lane.paused_until, lane.held_until),
        (BreakerStatus::Closed, None, None)
    );
    assert!(lane.retries_left > 19.0 && lane.idle < secs(1));
    tokio::time::sleep(secs(12)).await;
    let paused = account.status().lanes[0].paused_until.unwrap();
    let left = paused.duration_since(std::time::SystemTime::now()).unwrap();
    assert!(left > secs(20) && left <= secs(30), "{left:?}");
    for call in calls {
        call.await.unwrap().unwrap();
    }
    tokio::time::sleep(secs(100)).await;
    let status = account.status();
    assert_eq!((status.in_flight, status.lanes[0].waiting), (0, 0));
    assert!(status.lanes[0].idle >= secs(100));
    drop(chat(&client, "m").await);
    drop(crowd(&client, 1).await);
}

#[cfg(feature = "serde")]
#[tokio::test(start_paused = true)]
async fn the_status_can_be_written_down() {
    let account = Account::builder().requests_per_minute(60).build().unwrap();
    let client = Stub::new([reply(429).ra(3)]).sharing(&account, exact().max_attempts(1));
    chat(&client, "m").await.unwrap();
    let json = serde_json::to_value(account.status()).unwrap();
    assert_eq!(json["in_flight"], 0);
    assert_eq!(json["lanes"][0]["model"], "m");
    assert_eq!(json["lanes"][0]["breaker"], "closed");
    assert_eq!(json["lanes"][0]["idle"], 0.0);
    assert!(json["lanes"][0]["paused_until"].is_object());
}
