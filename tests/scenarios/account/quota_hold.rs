//! A quota that is used up stays so for a while: calls are answered from memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest_ai_retry::{
    Account, Cause, Class, Classifier, GiveUp, Outcome, RetryError, RetryMiddleware, Ruling, Scope, Seen, StopReason,
    Verdict,
};
use tokio::time::{Instant, sleep};

use crate::stub::{CHAT, PROMPT, Stub, chat, crowd, exact, hang, millis, reply, secs, spawned, stop};

const BROKE: &str = r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#;

fn built() -> Account {
    Account::builder().build().unwrap()
}

/// The same refusal without a send, for a minute, then one that looks whether it still holds.
#[tokio::test(start_paused = true)]
async fn calls_are_answered_from_memory_and_then_one_probes() {
    let server = Stub::new([
        reply(429).header("x-request-id", "req-1").json(BROKE),
        reply(429).header("x-request-id", "req-2").json(BROKE),
        reply(200).after(secs(1)),
    ]);
    let account = built();
    let client = server.sharing(&account, exact());
    let first = chat(&client, "m").await.unwrap();
    let (status, headers, url) = (first.status(), first.headers().clone(), first.url().clone());
    let body = first.bytes().await.unwrap();
    let start = Instant::now();
    for _ in 0..20 {
        let held = chat(&client, "m").await.unwrap();
        let outcome = Outcome::of(&held).unwrap();
        assert_eq!((outcome.stop(), outcome.sends()), (StopReason::QuotaExhausted, 0));
        assert!(outcome.retry_at().is_some() && !outcome.user_message().is_empty());
        assert_eq!((held.status(), held.headers(), held.url()), (status, &headers, &url));
        assert_eq!(held.bytes().await.unwrap(), body);
    }
    assert!(start.elapsed() < millis(1) && server.n() == 1);
    assert!(account.status().lanes[0].held_until.is_some());
    sleep(secs(59)).await;
    crowd(&client, 10).await;
    assert_eq!(server.n(), 1);

    // the probe finds it as it was
    sleep(secs(2)).await;
    let results = crowd(&client, 50).await;
    assert!(results.iter().all(|result| stop(result) == StopReason::QuotaExhausted));
    assert_eq!(server.n(), 2);
    assert_eq!(chat(&client, "m").await.unwrap().headers()["x-request-id"], "req-2");

    // and the next one does not
    sleep(secs(61)).await;
    let results = crowd(&client, 50).await;
    assert_eq!(server.n(), 3);
    assert_eq!(
        results
            .iter()
            .filter(|result| stop(result) == StopReason::Succeeded)
            .count(),
        1
    );
    crowd(&client, 50).await;
    assert_eq!(server.n(), 53);
    assert!(account.status().lanes[0].held_until.is_none());
}

/// Another model's quota is its own.
#[tokio::test(start_paused = true)]
async fn only_the_lane_is_held() {
    let server = Stub::new([reply(429).json(BROKE), reply(200)]);
    let client = server.sharing(&built(), exact());
    chat(&client, "m").await.unwrap();
    assert_eq!(chat(&client, "other").await.unwrap().status(), 200);
}

/// A probe that is dropped, or is never heard of again, does not hold the others out for ever.
#[tokio::test(start_paused = true)]
async fn a_lost_probe_is_replaced() {
    let server = Stub::new([reply(429).json(BROKE), hang(), hang(), reply(200)]);
    let client = server.sharing(&built(), exact());
    chat(&client, "m").await.unwrap();
    sleep(secs(61)).await;
    let dropped = spawned(&client, "m");
    sleep(millis(10)).await;
    dropped.abort();
    drop(dropped.await);
    let lost = spawned(&client, "m");
    sleep(secs(30)).await;
    assert_eq!(stop(&chat(&client, "m").await), StopReason::QuotaExhausted);
    sleep(secs(31)).await;
    assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
    assert_eq!(server.n(), 4);
    lost.abort();
}

/// What had been sent before and goes well says nothing of the quota.
#[tokio::test(start_paused = true)]
async fn an_earlier_call_that_goes_well_ends_no_hold() {
    let server = Stub::new([reply(200).after(secs(5)), reply(429).json(BROKE), reply(200)]);
    let client = server.sharing(&built(), exact());
    let early = spawned(&client, "m");
    sleep(millis(10)).await;
    chat(&client, "m").await.unwrap();
    assert_eq!(early.await.unwrap().unwrap().status(), 200);
    assert_eq!(stop(&chat(&client, "m").await), StopReason::QuotaExhausted);
    assert_eq!(server.n(), 2);
}

/// Those that wait when it begins need not wait.
#[tokio::test(start_paused = true)]
async fn a_hold_empties_the_queue() {
    let server = Stub::new([reply(429).json(BROKE).after(secs(1))]);
    let account = Account::builder().max_concurrency(1).build().unwrap();
    let results = crowd(&server.sharing(&account, exact()), 30).await;
    assert!(results.iter().all(|result| stop(result) == StopReason::QuotaExhausted));
    assert!(server.n() == 1 && server.start.elapsed() < secs(2));
}

/// A caller that asked for errors, since it would loop over the status, gets one.
#[tokio::test(start_paused = true)]
async fn a_held_call_is_an_error_where_errors_are_asked_for() {
    let server = Stub::new([reply(429).json(BROKE)]);
    let client = server.sharing(&built(), exact().give_up(GiveUp::Error));
    for sends in [1, 0] {
        let error = chat(&client, "m").await.unwrap_err();
        let ours = RetryError::of(&error).unwrap();
        assert!(matches!(ours, RetryError::GaveUp { .. }), "{ours:?}");
        assert_eq!((ours.status().unwrap().as_u16(), ours.outcome().sends()), (429, sends));
    }
}

/// The provider's word on when there will be an allowance again is passed on, though it is looked for sooner.
#[tokio::test(start_paused = true)]
async fn a_held_call_is_told_what_the_provider_said() {
    let server = Stub::new([reply(429).ra(7_200).json(BROKE)]);
    let client = server.sharing(&built(), exact());
    for _ in 0..2 {
        let response = chat(&client, "m").await.unwrap();
        let at = Outcome::of(&response).unwrap().retry_at().unwrap();
        let left = at.duration_since(std::time::SystemTime::now()).unwrap();
        assert!(left > secs(7_100), "{left:?}");
    }
    assert_eq!(server.n(), 1);
}

/// What depends on the size of the request, or is no quota, is asked again each time.
#[tokio::test(start_paused = true)]
async fn what_may_not_meet_the_next_call_is_not_held() {
    for (cause, scope, held) in [
        (Cause::Balance, Scope::Unknown, true),
        (Cause::SpendLimit, Scope::Unknown, true),
        (Cause::DailyAllowance, Scope::Day, true),
        (Cause::DailyAllowance, Scope::Requests, true),
        (Cause::PlanWindow, Scope::Unknown, true),
        (Cause::DailyAllowance, Scope::Tokens, false),
        (Cause::DailyAllowance, Scope::InputTokens, false),
        (Cause::DailyAllowance, Scope::OutputTokens, false),
    ] {
        let server = Stub::new([reply(429).json("{}")]);
        let rule = move |_: &Seen<'_>| Ruling::Failure(Verdict::new(Class::QuotaExhausted, cause).with_scope(scope));
        let retry = RetryMiddleware::builder()
            .account(built())
            .classifier(Classifier::default().rule(rule));
        let client = server.under([retry.build()]);
        for _ in 0..3 {
            chat(&client, "m").await.unwrap();
        }
        assert_eq!(server.n(), if held { 1 } else { 3 }, "{cause:?} {scope:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_hold_has_the_length_that_was_set() {
    for (hold, sends) in [(0, 3), (5, 2), (600, 1)] {
        let server = Stub::new([reply(402).json(BROKE)]);
        let account = Account::builder().quota_hold(secs(hold)).build().unwrap();
        let client = server.sharing(&account, exact());
        for _ in 0..2 {
            chat(&client, "m").await.unwrap();
        }
        sleep(secs(6)).await;
        chat(&client, "m").await.unwrap();
        assert_eq!(server.n(), sends, "{hold}");
    }
}

/// An answer that is not here whole cannot be given again.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_was_not_read_whole_is_not_held() {
    let body = BROKE.replacen(
        "{\"error\"",
        &format!("{{\"padding\":\"{}\",\"error\"", "x".repeat(70_000)),
        1,
    );
    let down = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&down);
    let server = Stub::by(move |_| {
        if seen.load(Ordering::SeqCst) {
            reply(402).json(&body)
        } else {
            reply(200)
        }
    });
    let client = server.sharing(&built(), exact());
    for _ in 0..2 {
        let response = client.post(CHAT).body(PROMPT).send().await.unwrap();
        assert_eq!(response.status(), 402);
        assert!(response.bytes().await.unwrap().len() > 70_000);
    }
}
