//! In what order starts are made, and who is not kept waiting for nothing.

use reqwest_ai_retry::{Account, Cost, Outcome, RetryPolicy, StopReason};
use tokio::time::{Instant, sleep};

use crate::stub::{Stub, chat, crowd, exact, millis, prompt, reply, secs, spawned, stop};

/// A batch of hundreds is no reason to refuse anybody.
#[tokio::test(start_paused = true)]
async fn a_queue_of_six_hundred_waits_its_turn() {
    let server = Stub::new([reply(200)]);
    let account = Account::builder().requests_per_minute(90).build().unwrap();
    let results = crowd(&server.sharing(&account, RetryPolicy::default()), 600).await;
    assert!(
        results
            .iter()
            .all(|result| result.as_ref().is_ok_and(|response| response.status() == 200))
    );
    let last = *server.times().last().unwrap();
    assert!(last >= secs(398) && last <= secs(408), "{last:?}");
    // and each knows how long it waited
    let waited = results
        .iter()
        .filter_map(|result| Outcome::of(result.as_ref().unwrap()));
    assert_eq!(waited.map(|outcome| outcome.waited()).max().unwrap(), last);
}

#[tokio::test(start_paused = true)]
async fn first_come_first_served_and_retries_before_new_work() {
    let server = Stub::by(|sent| {
        let fails = sent.at < millis(1) && sent.body == prompt("first").into_bytes();
        if fails { reply(503) } else { reply(200) }
    });
    let account = Account::builder()
        .requests_per_minute(60)
        .lane_by(|_, _| "one".to_owned())
        .build()
        .unwrap();
    let client = server.sharing(&account, exact());
    let names = ["first", "a", "b", "c", "d"];
    let calls = names.map(|name| spawned(&client, name));
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let order: Vec<_> = server
        .sent()
        .into_iter()
        .map(|sent| String::from_utf8(sent.body).unwrap())
        .collect();
    // "a" goes at one second, when the retry's own wait of one second ends too
    let at = |name| order.iter().rposition(|body| *body == prompt(name)).unwrap();
    assert!(at("first") <= 2 && at("first") < at("b"), "{order:?}");
    assert!(at("a") < at("b") && at("b") < at("c") && at("c") < at("d"), "{order:?}");
}

/// Those that wait in different lanes for the same limit are served as they came.
#[tokio::test(start_paused = true)]
async fn a_newcomer_in_another_lane_does_not_jump_the_queue() {
    let server = Stub::new([reply(200)]);
    let account = Account::builder().requests_per_minute(60).build().unwrap();
    let client = server.sharing(&account, exact());
    chat(&client, "old").await.unwrap();
    let waits = spawned(&client, "old");
    tokio::task::yield_now().await;
    sleep(millis(500)).await;
    // a clock that leaps: the slot is there, and the one that waits has not been woken yet
    tokio::time::advance(millis(700)).await;
    let newcomer = spawned(&client, "new");
    waits.await.unwrap().unwrap();
    newcomer.await.unwrap().unwrap();
    let order: Vec<_> = server.sent().into_iter().map(|sent| sent.body).collect();
    assert_eq!(order[1..], [prompt("old").into_bytes(), prompt("new").into_bytes()]);
}

/// Many light ones do not keep a heavy one from ever finding enough.
#[tokio::test(start_paused = true)]
async fn what_is_heavy_is_not_starved_by_what_is_light() {
    let account = Account::builder().input_tokens_per_minute(60_000).build().unwrap();
    let start = Instant::now();
    let light = tokio::spawn({
        let account = account.clone();
        async move {
            for call in 0..600 {
                let cost = Cost::new()
                    .model(format!("light-{}", call % 3))
                    .input_tokens(200)
                    .max_output_tokens(1);
                drop(account.admit(cost, None).await.unwrap());
                sleep(millis(100)).await;
            }
        }
    });
    sleep(millis(50)).await;
    // they take twice what there is
    let more = tokio::spawn({
        let account = account.clone();
        async move {
            for _ in 0..600 {
                drop(
                    account
                        .admit(Cost::new().model("more").input_tokens(100), None)
                        .await
                        .unwrap(),
                );
                sleep(millis(50)).await;
            }
        }
    });
    sleep(secs(20)).await;
    drop(
        account
            .admit(Cost::new().model("heavy").input_tokens(9_000), None)
            .await
            .unwrap(),
    );
    assert!(start.elapsed() < secs(40), "{:?}", start.elapsed());
    light.abort();
    more.abort();
}

/// A wait that is known not to fit is not begun, and charges nothing.
#[tokio::test(start_paused = true)]
async fn a_wait_that_does_not_fit_is_refused_at_once() {
    let server = Stub::new([reply(200)]);
    let account = Account::builder().requests_per_minute(60).build().unwrap();
    let client = server.sharing(&account, exact());
    let waiting: Vec<_> = (0..11).map(|_| spawned(&client, "m")).collect();
    sleep(millis(1)).await;
    let hurried = server.sharing(&account, exact().max_queue_time(secs(5)));
    let start = Instant::now();
    for _ in 0..100 {
        assert_eq!(stop(&chat(&hurried, "m").await), StopReason::QueuePastDeadline);
    }
    assert!(start.elapsed() < millis(1));
    let patient = server.sharing(&account, exact().max_queue_time(secs(12)));
    assert!(chat(&patient, "m").await.is_ok());
    for call in waiting {
        call.await.unwrap().unwrap();
    }
    assert!(server.times()[11] <= secs(12), "{:?}", server.times());
}

/// Those ahead are counted by what they take, not by what the newcomer takes.
#[tokio::test(start_paused = true)]
async fn light_calls_ahead_do_not_count_as_heavy() {
    let account = Account::builder().input_tokens_per_minute(6_000).build().unwrap();
    let admit = |tokens, wait| {
        let account = account.clone();
        tokio::spawn(async move {
            let deadline = Instant::now() + secs(wait);
            account
                .admit(Cost::new().input_tokens(tokens), Some(deadline.into_std()))
                .await
        })
    };
    drop(admit(1_000, 1).await.unwrap().unwrap());
    let light: Vec<_> = (0..10).map(|_| admit(10, 60)).collect();
    sleep(millis(1)).await;
    // 100 tokens ahead, 900 of its own: ten seconds
    assert!(admit(900, 12).await.unwrap().is_ok());
    for call in light {
        assert!(call.await.unwrap().is_ok());
    }
}

/// In a slow start the pace of the moment says nothing of the time it takes until one's turn.
#[tokio::test(start_paused = true)]
async fn a_growing_pace_refuses_nobody_for_what_it_is_now() {
    let server = Stub::new([reply(200)]);
    let client = server.sharing(&Account::adaptive(), exact().max_queue_time(secs(60)));
    assert!(crowd(&client, 100).await.iter().all(Result::is_ok));
    let ramped = Account::builder().start_ramp(secs(30)).build().unwrap();
    let client = server.sharing(&ramped, exact().max_queue_time(secs(60)));
    assert!(crowd(&client, 100).await.iter().all(Result::is_ok));
}

/// A cold pool comes up gradually, all its lanes together.
#[tokio::test(start_paused = true)]
async fn a_start_ramp_is_shared_by_all_lanes() {
    let server = Stub::new([reply(200)]);
    let account = Account::builder().start_ramp(secs(30)).build().unwrap();
    let client = server.sharing(&account, exact());
    let calls: Vec<_> = (0..200)
        .map(|call| spawned(&client, ["a", "b", "c", "d"][call % 4]))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let times = server.times();
    let before = |end| times.iter().filter(|at| **at < end).count();
    assert!(before(millis(900)) <= 2, "{times:?}");
    // ten doublings in thirty seconds: the sum up to three seconds is about four, up to twelve about sixty-five
    assert!((3..=6).contains(&before(secs(3))), "{}", before(secs(3)));
    assert!((50..=80).contains(&before(secs(12))), "{}", before(secs(12)));
    sleep(secs(60)).await;
    let start = Instant::now();
    crowd(&client, 200).await;
    assert!(start.elapsed() < millis(10), "once it is over nothing is slowed");
}

/// Places in flight are given back before a wait, and only once the body has ended otherwise.
#[tokio::test(start_paused = true)]
async fn a_place_is_held_until_the_body_is_done_with() {
    let server = Stub::new([reply(200).json(r#"{"ok":true}"#)]);
    let account = Account::builder().max_concurrency(2).build().unwrap();
    let client = server.sharing(&account, exact().max_queue_time(secs(1)));
    let (first, second) = (chat(&client, "m").await.unwrap(), chat(&client, "m").await.unwrap());
    assert_eq!(account.status().in_flight, 2);
    assert_eq!(stop(&chat(&client, "m").await), StopReason::QueuePastDeadline);
    assert_eq!(first.text().await.unwrap(), r#"{"ok":true}"#);
    assert_eq!(account.status().in_flight, 1);
    let third = chat(&client, "m").await.unwrap();
    drop((second, third));
    assert_eq!(account.status().in_flight, 0);

    // an answer without a body is over with its headers
    let server = Stub::new([reply(204)]);
    let client = server.sharing(&account, exact());
    let _kept = chat(&client, "m").await.unwrap();
    assert_eq!(account.status().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_day_has_so_many_starts() {
    let server = Stub::new([reply(200)]);
    let account = Account::builder().requests_per_day(10).build().unwrap();
    let client = server.sharing(&account, exact().max_queue_time(secs(60)));
    let results = crowd(&client, 15).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 10);
    let refused = results.iter().find(|result| result.is_err()).unwrap();
    assert_eq!(stop(refused), StopReason::QueuePastDeadline);
    let at = Outcome::of_error(refused.as_ref().unwrap_err())
        .unwrap()
        .retry_at()
        .unwrap();
    let left = at.duration_since(std::time::SystemTime::now()).unwrap();
    assert!(left > secs(86_000) && left <= secs(86_401), "{left:?}");
    sleep(secs(86_400)).await;
    assert_eq!(
        crowd(&client, 15).await.iter().filter(|result| result.is_ok()).count(),
        10
    );
}

/// One that waits and is not polled holds up nobody else: each has the next turn that comes, without anybody coming by.
#[tokio::test(start_paused = true)]
async fn a_waiting_call_that_is_not_polled_is_passed_by() {
    let server = Stub::new([reply(200)]);
    let account = Account::builder().requests_per_minute(60).build().unwrap();
    let client = server.sharing(&account, exact());
    chat(&client, "m").await.unwrap();
    let mut idle = Box::pin(chat(&client, "m"));
    assert!(futures_util::poll!(&mut idle).is_pending());
    let others: Vec<_> = (0..4).map(|_| spawned(&client, "m")).collect();
    for (call, turn) in others.into_iter().zip(1..) {
        tokio::time::timeout(secs(20), call).await.unwrap().unwrap().unwrap();
        let late = server.start.elapsed() - secs(turn);
        assert!(late <= millis(100), "{late:?}");
    }
    idle.await.unwrap();
    assert_eq!(server.n(), 6);
}
