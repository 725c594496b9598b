//! Retries multiply when an SDK's own loop stands above: one logical call, whoever sends it again.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::StreamExt;
use futures_util::future::join_all;
use http::HeaderName;
use reqwest::Response;
use reqwest_ai_retry::{
    Account, Event, GiveUp, IdempotencyKey, Operation, Outcome, RetryError, RetryMiddleware, RetryPolicy, StopReason,
};
use reqwest_middleware::{ClientWithMiddleware, Result};
use task_local_extensions::{Extensions, get_local_item, with_extensions};

use crate::stub::{CHAT, ORDERS, PROMPT, Stub, chat, exact, hang, millis, prompt, reply, secs, spawned, stop};

/// An SDK that sends up to so many times, whatever it is told.
async fn sdk(client: &ClientWithMiddleware, tries: usize, body: &str) -> Result<Response> {
    let mut result = client.post(CHAT).body(body.to_owned()).send().await;
    for _ in 1..tries {
        if matches!(&result, Ok(response) if response.status().is_success()) {
            break;
        }
        result = client.post(CHAT).body(body.to_owned()).send().await;
    }
    result
}

fn keys(server: &Stub, name: &'static str) -> Vec<Option<String>> {
    let key = |headers: &http::HeaderMap| headers.get(name).map(|key| key.to_str().unwrap().to_owned());
    server.sent().iter().map(|sent| key(&sent.headers)).collect()
}

async fn text(response: Response) -> String {
    response.text().await.unwrap()
}

/// A1, A4, A7: 16 sends elsewhere, and 80 with a loop of the application's on top.
#[tokio::test(start_paused = true)]
async fn loops_above_cost_the_sends_of_one_call() {
    let server = Stub::new([reply(429)
        .header("x-request-id", "r-7")
        .json(r#"{"error":{"type":"rate"}}"#)]);
    let client = server.with(exact().max_attempts(4));
    let op = Operation::new();
    let result = op
        .scope(async {
            let mut last = sdk(&client, 4, PROMPT).await;
            for _ in 1..5 {
                last = sdk(&client, 4, PROMPT).await;
            }
            last
        })
        .await;

    let response = result.unwrap();
    assert_eq!((server.n(), response.status().as_u16()), (4, 429));
    assert_eq!(response.headers()["x-should-retry"], "false");
    assert_eq!(response.headers()["x-request-id"], "r-7");
    let outcome = Outcome::of(&response).unwrap();
    assert_eq!((outcome.stop(), outcome.sends()), (StopReason::OperationSpent, 4));
    assert_eq!(text(response).await, r#"{"error":{"type":"rate"}}"#);
    let outcome = op.outcome().unwrap();
    assert_eq!((outcome.stop(), outcome.sends()), (StopReason::AttemptsSpent, 4));
    assert_eq!(outcome.attempts().len(), 4);
}

/// A1: for SDKs that loop on the status.
#[tokio::test(start_paused = true)]
async fn repeat_of_a_spent_call_is_an_error_where_errors_are_asked_for() {
    let server = Stub::new([reply(503)]);
    let client = server.with(exact().max_attempts(3).give_up(GiveUp::Error));
    let results = Operation::new()
        .scope(async { [sdk(&client, 1, PROMPT).await, sdk(&client, 1, PROMPT).await] })
        .await;
    assert_eq!(server.n(), 3);
    let [first, second] = results.map(|result| result.unwrap_err());
    assert_eq!(RetryError::of(&first).unwrap().stop(), StopReason::AttemptsSpent);
    let second = RetryError::of(&second).unwrap();
    assert_eq!(second.stop(), StopReason::OperationSpent);
    assert_eq!(second.status().unwrap(), 503);
}

/// A1: nothing had been answered, so there is no answer to give again.
#[tokio::test(start_paused = true)]
async fn repeat_after_no_answer_at_all_is_an_error_and_the_outcome_tells_it() {
    let server = Stub::new([hang()]);
    let client = server.with(exact().max_attempts(2).attempt_timeout(secs(1)));
    let op = Operation::new();
    let result = op.scope(sdk(&client, 4, PROMPT)).await;
    assert_eq!(server.n(), 2);
    let error = result.unwrap_err();
    assert_eq!(RetryError::of(&error).unwrap().stop(), StopReason::OperationSpent);
    let outcome = op.outcome().unwrap();
    assert_eq!((outcome.stop(), outcome.sends()), (StopReason::AttemptsSpent, 2));
}

/// A quota that is used up is not asked again; neither is a request that must not be sent twice.
#[tokio::test(start_paused = true)]
async fn other_give_ups_are_not_sent_again_either() {
    let quota = reply(429).json(r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}"#);
    for (item, url, stopped) in [
        (quota, CHAT, StopReason::QuotaExhausted),
        (
            reply(503).header("x-should-retry", "false"),
            CHAT,
            StopReason::ServerSaidStop,
        ),
        (reply(429).ra(3000), CHAT, StopReason::DelayPastDeadline),
    ] {
        let server = Stub::new([item]);
        let client = server.with(exact());
        let op = Operation::new();
        for _ in 0..3 {
            op.scope(client.post(url).body(PROMPT).send()).await.unwrap();
        }
        assert_eq!((server.n(), op.outcome().unwrap().stop()), (1, stopped));
    }
    let server = Stub::new([reply(500), reply(200)]);
    let client = server.with(exact());
    let op = Operation::new();
    let first = op.scope(client.post(ORDERS).body("{}").send()).await.unwrap();
    assert!(!first.headers().contains_key("x-should-retry"));
    let second = op.scope(client.post(ORDERS).body("{}").send()).await.unwrap();
    assert_eq!((server.n(), second.status().as_u16()), (1, 500));
    assert_eq!(second.headers()["x-should-retry"], "false");
}

/// Polling a job, asking twice, correcting a mistake: each is a call of its own, with its own generated key.
#[tokio::test(start_paused = true)]
async fn equal_request_after_an_answer_is_a_new_call() {
    let server = Stub::new([reply(200), reply(404), reply(503), reply(200), reply(400)]);
    let client = server.with(exact().idempotency_key(IdempotencyKey::Generate));
    let op = Operation::new();
    let statuses = op
        .scope(async {
            let mut statuses = Vec::new();
            for _ in 0..4 {
                let response = client.post(CHAT).body(PROMPT).send().await.unwrap();
                statuses.push(response.status().as_u16());
            }
            statuses
        })
        .await;
    assert_eq!((statuses, server.n()), (vec![200, 404, 200, 400], 5));
    let keys = keys(&server, "idempotency-key");
    assert_eq!(keys[2], keys[3], "one call");
    assert_eq!(std::collections::HashSet::<_>::from_iter(&keys).len(), 4, "{keys:?}");
}

/// An agent's steps: each request has its own count.
#[tokio::test(start_paused = true)]
async fn different_requests_have_their_own_counts() {
    let server = Stub::new([reply(503)]);
    let client = server.with(exact().max_attempts(3));
    let op = Operation::new();
    op.scope(async {
        for model in ["a", "b", "a", "b"] {
            chat(&client, model).await.unwrap();
        }
    })
    .await;
    assert_eq!((server.n(), op.outcome().unwrap().sends()), (6, 6));
}

#[tokio::test(start_paused = true)]
async fn equal_requests_in_flight_together_are_separate_calls() {
    let server = Stub::new([reply(503).after(millis(10))]);
    let client = server.with(exact().max_attempts(3));
    let op = Operation::new().idempotency_key("k");
    let both = op
        .scope(async { join_all([sdk(&client, 4, PROMPT), sdk(&client, 4, PROMPT)]).await })
        .await;
    assert_eq!((both.len(), server.n()), (2, 6));
    let keys = keys(&server, "idempotency-key");
    assert_eq!(
        keys.iter().flatten().count(),
        3,
        "a key stands for one effect: {keys:?}"
    );
}

/// Through streams of futures, and where the future is polled by somebody else once it has been sent.
#[tokio::test(start_paused = true)]
async fn scope_reaches_streams_and_stays_with_what_was_sent_inside() {
    let server = Stub::new([reply(503)]);
    let client = server.with(exact().max_attempts(2));
    let op = Operation::new();
    op.scope(async {
        let calls = futures_util::stream::iter(["a", "b", "c", "d"]).map(|model| {
            let (client, body) = (client.clone(), prompt(model));
            async move { sdk(&client, 3, &body).await }
        });
        calls.buffer_unordered(2).for_each(|_| async {}).await;
    })
    .await;
    assert_eq!((server.n(), op.outcome().unwrap().sends()), (8, 8));

    // begun inside, ended outside
    let op = Operation::new();
    let mut call = Box::pin(chat(&client, "e"));
    let begun = op
        .scope(std::future::poll_fn(|cx| {
            Poll::Ready(call.as_mut().poll(cx).is_pending())
        }))
        .await;
    assert!(begun);
    call.await.unwrap();
    assert_eq!((server.n(), op.outcome().unwrap().sends()), (10, 2));
    op.scope(chat(&client, "e")).await.unwrap();
    assert_eq!(server.n(), 10);
}

#[tokio::test(start_paused = true)]
async fn spawned_task_is_outside_and_a_clone_takes_it_inside() {
    let server = Stub::new([reply(503)]);
    let client = server.with(exact().max_attempts(2));
    let op = Operation::new();
    let twice = |client: ClientWithMiddleware| async move { sdk(&client, 2, PROMPT).await };
    op.scope(async { tokio::spawn(twice(client.clone())).await.unwrap() })
        .await
        .unwrap();
    assert_eq!((server.n(), op.outcome()), (4, None));

    let inside = op.clone();
    let task = tokio::spawn(async move { inside.scope(twice(client)).await });
    task.await.unwrap().unwrap();
    assert_eq!((server.n(), op.outcome().unwrap().sends()), (6, 2));
}

/// A panic inside must not leave the operation on the thread: the next task there would be answered from its memory.
#[tokio::test(start_paused = true)]
async fn panic_inside_leaves_nothing_for_the_next_task() {
    let server = Stub::new([reply(503)]);
    let client = server.with(exact().max_attempts(2));
    let op = Operation::new();
    let failing = op.clone();
    let inner = client.clone();
    // a runtime of one thread: both tasks are polled on it
    let task = tokio::spawn(async move {
        failing
            .scope(async {
                chat(&inner, "m").await.unwrap();
                panic!("inside of the scope");
            })
            .await
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(server.n(), 2);

    let after = tokio::spawn(async move { chat(&client, "m").await }).await.unwrap();
    assert_eq!((server.n(), stop(&after)), (4, StopReason::AttemptsSpent));
    assert_eq!(op.outcome().unwrap().sends(), 2);
}

/// The program has items of its own in the task.
#[tokio::test(start_paused = true)]
async fn items_of_the_program_stay_visible_inside() {
    #[derive(Clone, PartialEq, Debug)]
    struct Tenant(&'static str);
    let server = Stub::new([reply(200)]);
    let client = server.with(exact());
    let op = Operation::new();
    let (_, seen) = with_extensions(
        Extensions::new().with(Tenant("a")),
        op.scope(async {
            chat(&client, "m").await.unwrap();
            get_local_item::<Tenant>().await
        }),
    )
    .await;
    assert_eq!(seen, Some(Tenant("a")));
    assert_eq!(op.outcome().unwrap().sends(), 1);
}

/// A1: a part of an operation that the program gives items of its own is a part of it still.
#[tokio::test(start_paused = true)]
async fn items_of_the_program_do_not_hide_the_operation() {
    let server = Stub::new([reply(503)]);
    let client = server.with(exact().max_attempts(3));
    let op = Operation::new();
    op.scope(async {
        for _ in 0..3 {
            let (_, sent) = with_extensions(Extensions::new(), sdk(&client, 2, PROMPT)).await;
            sent.unwrap();
        }
    })
    .await;
    assert_eq!((server.n(), op.outcome().unwrap().sends()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn nested_scope_inherits_what_it_does_not_set_and_does_not_multiply() {
    let server = Stub::new([reply(503)]);
    let client = server.with(exact());
    let outer = Operation::new().policy(exact().max_attempts(3)).idempotency_key("k");
    let inner = Operation::new();
    outer
        .scope(async {
            for _ in 0..3 {
                let inner = inner.clone();
                inner.scope(sdk(&client, 2, PROMPT)).await.unwrap();
                // another operation, as a library would make one for each of its own tries
                Operation::new().scope(sdk(&client, 2, PROMPT)).await.unwrap();
            }
        })
        .await;
    assert_eq!(server.n(), 3);
    assert!(
        keys(&server, "idempotency-key")
            .iter()
            .all(|key| key.as_deref() == Some("k"))
    );
    assert_eq!(outer.outcome().unwrap().sends(), 3);
    assert_eq!(inner.outcome().unwrap().sends(), 3);

    // what it sets is its own
    let server = Stub::new([reply(503)]);
    let client = server.with(exact());
    let inner = Operation::new().policy(exact().max_attempts(2));
    outer.scope(inner.scope(chat(&client, "other"))).await.unwrap();
    assert_eq!(server.n(), 2);
}

/// A program that scopes each of its steps with clones of one operation, one step inside another.
#[tokio::test(start_paused = true)]
async fn operation_scoped_in_itself_counts_once() {
    let server = Stub::new([reply(503)]);
    let client = server.with(exact().max_attempts(3));
    let (op, other) = (Operation::new(), Operation::new());
    let again = op.clone();
    op.scope(other.scope(again.scope(sdk(&client, 4, PROMPT))))
        .await
        .unwrap();
    assert_eq!(server.n(), 3);
    for operation in [op, other] {
        let outcome = operation.outcome().unwrap();
        assert_eq!((outcome.sends(), outcome.attempts().len()), (3, 3));
    }
}

/// F1: the deadline is the operation's, over all its requests; a request after it is not sent.
#[tokio::test(start_paused = true)]
async fn deadline_is_shared_and_hard() {
    let server = Stub::by(|sent| {
        if sent.body.contains(&b'z') {
            hang()
        } else {
            reply(200).after(secs(4))
        }
    });
    let client = server.with(exact());
    let op = Operation::new().deadline(secs(10));
    let start = tokio::time::Instant::now();
    let error = op
        .scope(async {
            chat(&client, "a").await.unwrap();
            chat(&client, "b").await.unwrap();
            chat(&client, "z").await.unwrap_err()
        })
        .await;
    assert_eq!(start.elapsed(), secs(10));
    assert!(reqwest_ai_retry::is_timeout(&error));
    let late = op.scope(chat(&client, "c")).await;
    assert_eq!((server.n(), stop(&late)), (3, StopReason::DeadlinePassed));
}

/// G1: a cancel ends waits and the attempt in flight, and nothing is sent after it.
#[tokio::test(start_paused = true)]
async fn cancel_ends_waits_and_the_attempt_in_flight() {
    for (item, sends) in [(reply(503).ra(60), 1), (hang(), 1)] {
        let server = Stub::new([item]);
        let client = server.with(exact());
        let op = Operation::new();
        let start = tokio::time::Instant::now();
        let (result, ()) = tokio::join!(op.scope(chat(&client, "m")), async {
            tokio::time::sleep(secs(5)).await;
            op.cancel();
        });
        assert_eq!((start.elapsed(), server.n()), (secs(5), sends));
        let error = result.unwrap_err();
        assert!(matches!(RetryError::of(&error), Some(RetryError::Cancelled { .. })));
        let outcome = op.outcome().unwrap();
        assert_eq!((outcome.stop(), outcome.sends()), (StopReason::Cancelled, 1));
        assert_eq!(stop(&op.scope(chat(&client, "m")).await), StopReason::Cancelled);
        assert_eq!(stop(&op.scope(chat(&client, "n")).await), StopReason::Cancelled);
        assert_eq!(server.n(), sends);
    }
}

/// G1, J2: a wait that is cut off was a wait as long as it was, in the account's queue and between two attempts.
#[tokio::test(start_paused = true)]
async fn wait_that_a_cancel_cuts_off_is_told() {
    let one = Account::builder().max_concurrency(1).build().unwrap();
    let busy = Stub::new([hang()]);
    let first = spawned(&busy.sharing(&one, exact()), "m");
    tokio::time::sleep(secs(1)).await;
    let server = Stub::new([reply(503).ra(60)]);
    for (client, sends) in [(server.sharing(&one, exact()), 0), (server.with(exact()), 1)] {
        let op = Operation::new();
        let (result, ()) = tokio::join!(op.scope(chat(&client, "m")), async {
            tokio::time::sleep(secs(5)).await;
            op.cancel();
        });
        assert_eq!(stop(&result), StopReason::Cancelled);
        let outcome = op.outcome().unwrap();
        assert_eq!((outcome.sends(), outcome.waited()), (sends, secs(5)));
    }
    first.abort();
}

/// G1: an operation inside another is cancelled with it.
#[tokio::test(start_paused = true)]
async fn cancel_reaches_scopes_inside() {
    let server = Stub::new([hang()]);
    let client = server.with(exact());
    let (outer, inner) = (Operation::new(), Operation::new());
    let (result, ()) = tokio::join!(outer.scope(inner.scope(chat(&client, "m"))), async {
        tokio::time::sleep(secs(1)).await;
        outer.cancel();
    });
    assert_eq!(stop(&result), StopReason::Cancelled);
    assert_eq!(inner.outcome().unwrap().stop(), StopReason::Cancelled);
}

/// G1: what a cancel refuses is told as any other call, whatever had come before.
#[tokio::test(start_paused = true)]
async fn call_refused_by_a_cancel_is_told_like_any_other() {
    let server = Stub::new([reply(200)]);
    let client = server.with(exact());
    for before in [0, 1] {
        let op = Operation::new();
        for _ in 0..before {
            op.scope(chat(&client, "m")).await.unwrap();
        }
        op.clone().cancel();
        let mut extensions = http::Extensions::new();
        let request = client.post(CHAT).body(PROMPT).build().unwrap();
        let refused = op.scope(client.execute_with_extensions(request, &mut extensions)).await;
        assert_eq!(stop(&refused), StopReason::Cancelled);
        assert_eq!(op.outcome().unwrap().stop(), StopReason::Cancelled);
        assert_eq!(op.outcome().unwrap().sends(), before);
        assert_eq!(extensions.get::<Outcome>().unwrap().stop(), StopReason::Cancelled);
    }
    assert_eq!(server.n(), 1);
}

/// A3, F1: an SDK's own timeout drops the call and sends again: its sends count all the same.
#[tokio::test(start_paused = true)]
async fn call_that_was_dropped_goes_on_where_it_was() {
    let server = Stub::new([hang()]);
    let client = server.with(exact().max_attempts(3).idempotency_key(IdempotencyKey::Generate));
    let op = Operation::new();
    let stops = op
        .scope(async {
            let mut stops = Vec::new();
            for _ in 0..6 {
                let call = client.post(ORDERS).body("{}").send();
                stops.push(
                    tokio::time::timeout(secs(10), call)
                        .await
                        .map(|ended| stop(&ended))
                        .ok(),
                );
            }
            stops
        })
        .await;
    assert_eq!(server.n(), 3);
    let spent = Some(StopReason::OperationSpent);
    assert_eq!(stops, [None, None, None, spent, spent, spent]);
    let keys = keys(&server, "idempotency-key");
    assert!(keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_eq!(op.outcome().unwrap().sends(), 3);
}

/// A3, B1: nor does an SDK's own timeout shorten what the server said, or the wait between two attempts.
#[tokio::test(start_paused = true)]
async fn wait_in_which_a_call_was_dropped_is_waited_out() {
    for (item, least) in [
        (reply(429).ra(90), 90),
        (reply(503).ra(90), 90),
        (reply(429), 1),
        (reply(503), 1),
    ] {
        let server = Stub::new([item, reply(200)]);
        let client = server.with(exact());
        let op = Operation::new();
        let mut tries = 1;
        while op
            .scope(tokio::time::timeout(millis(300), chat(&client, "m")))
            .await
            .is_err()
        {
            tries += 1;
        }
        assert!(server.times()[1] >= secs(least));
        let outcome = op.outcome().unwrap();
        assert_eq!(
            (server.n(), outcome.sends(), outcome.stop()),
            (2, 2, StopReason::Succeeded)
        );
        assert!(tries > 3 && outcome.waited() >= secs(least));
    }

    // and the deadline is the operation's still
    let server = Stub::new([reply(503), reply(200)]);
    let client = server.with(exact());
    let op = Operation::new();
    let cut = op.scope(tokio::time::timeout(millis(300), chat(&client, "m"))).await;
    assert!(cut.is_err());
    let shorter = client
        .post(CHAT)
        .body(prompt("m"))
        .with_extension(exact().total_deadline(millis(600)));
    assert_eq!(stop(&op.scope(shorter.send()).await), StopReason::DeadlinePassed);
    assert_eq!(server.n(), 1);
}

/// D3: one key for the first request that can have an effect, and no other.
#[tokio::test(start_paused = true)]
async fn own_key_goes_with_one_request_in_the_header_of_the_policy() {
    let server = Stub::by(|sent| reply(if sent.body == b"{}" { 500 } else { 200 }));
    let key = IdempotencyKey::Keep.header(HeaderName::from_static("x-key"));
    let client = server.with(exact().max_attempts(2).idempotency_key(key));
    let op = Operation::new().idempotency_key("order-7");
    op.scope(async {
        client.get(ORDERS).body("list").send().await.unwrap();
        // ambiguous, and sent again all the same: the key makes that safe
        client.post(ORDERS).body("{}").send().await.unwrap();
        client.post(ORDERS).body("{\"other\":1}").send().await.unwrap();
    })
    .await;
    let expected = [None, Some("order-7"), Some("order-7"), None].map(|key| key.map(str::to_owned));
    assert_eq!(keys(&server, "x-key"), expected);

    let own = client.post(ORDERS).body("x").header("x-key", "mine");
    Operation::new()
        .idempotency_key("not-this")
        .scope(own.send())
        .await
        .unwrap();
    assert_eq!(keys(&server, "x-key").last().unwrap().as_deref(), Some("mine"));
}

/// K1: the policy of the request comes first, then the operation's, then the client's.
#[tokio::test(start_paused = true)]
async fn policy_of_the_operation_stands_between_the_requests_and_the_clients() {
    let server = Stub::new([reply(503)]);
    let client = server.with(exact().max_attempts(4));
    let op = Operation::new().policy(exact().max_attempts(2));
    op.scope(chat(&client, "a")).await.unwrap();
    assert_eq!(server.n(), 2);
    let own = client
        .post(CHAT)
        .body(PROMPT)
        .with_extension(RetryPolicy::default().max_attempts(1));
    op.scope(own.send()).await.unwrap();
    assert_eq!(server.n(), 3);
}

/// E1: what cannot be told from another is a call of its own.
#[tokio::test(start_paused = true)]
async fn streaming_bodies_are_calls_of_their_own_unless_they_are_read() {
    let body = || reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(PROMPT)]));
    let server = Stub::new([reply(503)]);
    for (policy, sends) in [(exact(), 3), (exact().max_attempts(2).buffer_request(1 << 10), 3 + 2)] {
        let client = server.with(policy);
        let op = Operation::new();
        for _ in 0..3 {
            op.scope(client.post(CHAT).body(body()).send()).await.unwrap();
        }
        assert_eq!(server.n(), sends);
        assert!(op.outcome().unwrap().sends() >= 2);
    }
}

/// A1: without the caller's help: 16 → 4.
#[tokio::test(start_paused = true)]
async fn guard_answers_a_loop_above_from_memory() {
    let guarded = |server: &Stub, give_up| {
        let policy = exact().max_attempts(4).give_up(give_up);
        server.under([RetryMiddleware::builder()
            .policy(policy)
            .outer_retry_guard(secs(60))
            .build()])
    };
    let server = Stub::new([reply(429).json("{}")]);
    let client = guarded(&server, GiveUp::Response);
    let response = sdk(&client, 9, PROMPT).await.unwrap();
    assert_eq!((server.n(), response.status().as_u16()), (4, 429));
    assert_eq!(response.headers()["x-should-retry"], "false");
    assert_eq!(Outcome::of(&response).unwrap().stop(), StopReason::OperationSpent);
    assert_eq!(text(response).await, "{}");

    // another credential or another body is somebody else's call
    client.post(CHAT).bearer_auth("k2").body(PROMPT).send().await.unwrap();
    assert_eq!(server.n(), 8);
    chat(&client, "other").await.unwrap();
    assert_eq!(server.n(), 12);

    let server = Stub::new([reply(500)]);
    assert!(sdk(&guarded(&server, GiveUp::Error), 9, PROMPT).await.is_err());
    assert_eq!(server.n(), 4);
}

/// What is kept is bounded by its bytes, those of the headers too.
#[tokio::test(start_paused = true)]
async fn guard_forgets_the_oldest_when_it_keeps_too_much() {
    let long = "x".repeat(1 << 16);
    for in_header in [true, false] {
        let long = long.clone();
        let server = Stub::by(move |_| match in_header {
            true => reply(503).header("x-long", &long),
            false => reply(503).body(&long),
        });
        let retry = RetryMiddleware::builder().policy(exact().max_attempts(1));
        let client = server.under([retry.outer_retry_guard(secs(60)).build()]);
        for model in 0..80 {
            chat(&client, &model.to_string()).await.unwrap();
        }
        for (model, sends) in [("79", 80), ("0", 81)] {
            chat(&client, model).await.unwrap();
            assert_eq!(server.n(), sends);
        }
    }
}

/// The window ends, and a server's delay makes it longer.
#[tokio::test(start_paused = true)]
async fn guard_lets_an_equal_request_through_after_its_window() {
    for (item, after, sends) in [
        (reply(503), 29, 1),
        (reply(503), 31, 2),
        (reply(503).ra(200), 199, 1),
        (reply(503).ra(200), 201, 2),
        (reply(503).ra(4000), 299, 1),
        (reply(503).ra(4000), 301, 2),
    ] {
        let server = Stub::new([item]);
        let retry = RetryMiddleware::builder().policy(exact().max_attempts(1));
        let client = server.under([retry.outer_retry_guard(secs(30)).build()]);
        chat(&client, "m").await.unwrap();
        tokio::time::sleep(secs(after)).await;
        // the lane's own pause is not what is tested here
        let _ = chat(&client, "m").await;
        let spent = server.n() == 1;
        assert_eq!(spent, sends == 1, "{after} s");
    }
}

/// One of two in flight together was given up, the other answered: what it was given up for is over.
#[tokio::test(start_paused = true)]
async fn success_makes_the_guard_forget() {
    let slow = reply(200).after(secs(5));
    let server = Stub::new([reply(503).after(secs(1)), slow, reply(200)]);
    let retry = RetryMiddleware::builder().policy(exact().max_attempts(1));
    let client = server.under([retry.outer_retry_guard(secs(60)).build()]);
    let (first, second) = tokio::join!(chat(&client, "m"), chat(&client, "m"));
    assert_eq!(
        (first.unwrap().status().as_u16(), second.unwrap().status().as_u16()),
        (503, 200)
    );
    let third = chat(&client, "m").await.unwrap();
    assert_eq!((server.n(), third.status().as_u16()), (3, 200));
}

/// An equal call that was refused unsent has heard nothing new, and one that was answered in an operation has.
#[tokio::test(start_paused = true)]
async fn guard_forgets_by_answers_wherever_they_came_and_by_nothing_else() {
    let guarded = |server: &Stub, policy: RetryPolicy, account: Account| {
        let retry = RetryMiddleware::builder().policy(policy).account(account);
        server.under([retry.outer_retry_guard(secs(60)).build()])
    };
    let server = Stub::new([reply(429).ra(200).after(secs(1)), reply(200)]);
    let one = Account::builder().max_concurrency(1).build().unwrap();
    let client = guarded(&server, exact().max_attempts(1).max_queue_time(secs(2)), one);
    let (first, second) = tokio::join!(chat(&client, "m"), chat(&client, "m"));
    assert_eq!(
        (stop(&first), stop(&second)),
        (StopReason::AttemptsSpent, StopReason::PausedPastDeadline)
    );
    assert_eq!(stop(&chat(&client, "m").await), StopReason::OperationSpent);
    assert_eq!(server.n(), 1);

    let server = Stub::new([reply(503), reply(200)]);
    let client = guarded(&server, exact().max_attempts(1), Account::default());
    chat(&client, "m").await.unwrap();
    Operation::new().scope(chat(&client, "m")).await.unwrap();
    assert_eq!(chat(&client, "m").await.unwrap().status().as_u16(), 200);
    assert_eq!(server.n(), 3);
}

/// The SDK says itself that it repeats.
#[tokio::test(start_paused = true)]
async fn repeat_of_an_sdk_says_so_in_the_outcome_and_in_an_event() {
    let server = Stub::new([reply(200)]);
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    let retry = RetryMiddleware::builder().observer(move |event: &Event<'_>| {
        if let Event::SdkRetry { count, .. } = event {
            seen.lock().unwrap().push(*count);
        }
    });
    let client = server.under([retry.build()]);
    for (count, expected) in [("0", None), ("2", Some(2)), ("-1", None), ("many", None)] {
        let request = client.get(ORDERS).header("x-stainless-retry-count", count);
        let response = request.send().await.unwrap();
        assert_eq!(Outcome::of(&response).and_then(Outcome::sdk_retry_count), expected);
    }
    assert_eq!(*told.lock().unwrap(), [2]);
}

/// Its repeats come when the call is given up, and are answered from memory: the operation tells of them all the same.
#[tokio::test(start_paused = true)]
async fn operation_tells_that_an_sdk_repeats() {
    let server = Stub::new([reply(503)]);
    let client = server.with(exact().max_attempts(2));
    let op = Operation::new();
    for (count, told) in [(0, None), (1, Some(1)), (2, Some(2))] {
        let request = client.post(CHAT).body(PROMPT).header("x-stainless-retry-count", count);
        let response = op.scope(request.send()).await.unwrap();
        assert_eq!(Outcome::of(&response).unwrap().sdk_retry_count(), told);
        assert_eq!(op.outcome().unwrap().sdk_retry_count(), told);
    }
    assert_eq!((server.n(), op.outcome().unwrap().sends()), (2, 2));
}

/// An operation is cheap to have without one: what is not polled does nothing.
#[test]
fn scope_that_is_never_polled_sends_nothing() {
    let op = Operation::new();
    drop(op.scope(std::future::pending::<()>()));
    let mut pending = pin!(op.scope(std::future::pending::<()>()));
    assert!(
        pending
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    assert_eq!(op.outcome(), None);
}
