//! Whatever is dropped, wherever it is, gives back all that it held.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use reqwest_ai_retry::{Account, Backoff, BreakerStatus, Cost, Jitter};
use tokio::time::{Instant, sleep};

use crate::stub::{Stub, chat, crowd, exact, millis, reply, secs};

/// A repeatable draw.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Drops what it runs when it has been polled so often.
struct DropAfter<F> {
    future: Option<Pin<Box<F>>>,
    polls: u64,
}

impl<F: Future> Future for DropAfter<F> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let polls = self.polls;
        let Some(future) = self.future.as_mut().filter(|_| polls > 0) else {
            self.future = None;
            return Poll::Ready(false);
        };
        let done = future.as_mut().poll(cx).is_ready();
        self.polls -= 1;
        if done || self.polls == 0 {
            self.future = None;
            return Poll::Ready(done);
        }
        Poll::Pending
    }
}

/// Ten thousand calls, each dropped after so many polls: in the queue, granted, in flight, in a wait, while the body is read.
#[tokio::test(start_paused = true)]
async fn ten_thousand_cancels_leave_everything_whole() {
    const A_DAY: u64 = 12_000;
    let broke = r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let mut draw = Draw(7);
    let server = Stub::by(move |_| match draw.below(40) {
        0..5 => reply(503),
        5 => reply(503).ra(1),
        6 => reply(500).after(millis(50)),
        7 => reply(429).ra(1),
        8 => reply(429).json(broke),
        9 => reply(200).after(secs(5)).json(r#"{"usage":{"completion_tokens":50}}"#),
        _ => reply(200)
            .after(millis(20))
            .json(r#"{"usage":{"completion_tokens":50}}"#),
    });
    let account = Account::builder()
        .requests_per_minute(60_000)
        .output_tokens_per_minute(60_000_000)
        .requests_per_day(A_DAY)
        .max_concurrency(40)
        .quota_hold(secs(2))
        .build()
        .unwrap();
    let policy = exact().backoff(Backoff::constant(millis(100)).jitter(Jitter::Full));
    let client = server.sharing(&account, policy);
    let mut draw = Draw(11);
    let (mut calls, mut done) = (Vec::new(), 0);
    for call in 0..10_000u64 {
        let client = client.clone();
        let model = ["a", "b", "c"][draw.below(3) as usize];
        let future = Box::pin(async move {
            let response = chat(&client, model).await;
            tokio::task::yield_now().await;
            if let Ok(response) = response {
                drop(response.bytes().await);
            }
        });
        calls.push(tokio::spawn(DropAfter {
            future: Some(future),
            polls: draw.below(14),
        }));
        if call % 50 == 0 {
            sleep(millis(draw.below(400))).await;
        }
    }
    for call in calls {
        // those that nobody polls any more are dropped too
        let abort = call.abort_handle();
        match tokio::time::timeout(secs(20), call).await {
            Ok(ended) => done += u64::from(ended.unwrap()),
            Err(_) => abort.abort(),
        }
    }
    assert!(done > 500 && done < 9_500, "{done}");
    sleep(secs(3_600)).await;
    let status = account.status();
    assert_eq!(status.in_flight, 0);
    for lane in &status.lanes {
        assert_eq!((lane.in_flight, lane.waiting), (0, 0), "{lane:?}");
        assert!(
            lane.retries_left > 19.999 && lane.held_until.is_none() && lane.paused_until.is_none(),
            "{lane:?}"
        );
    }
    // and what the day has left is what was not sent
    let left = A_DAY - server.n() as u64;
    let well = Stub::new([reply(200)]);
    let hurried = well.sharing(&account, exact().max_attempts(1).max_queue_time(secs(60)));
    for model in ["a", "b", "c"] {
        assert_eq!(chat(&hurried, model).await.unwrap().status(), 200, "no probe is out");
    }
    assert!(
        account
            .status()
            .lanes
            .iter()
            .all(|lane| lane.breaker == BreakerStatus::Closed)
    );
    crowd(&hurried, usize::try_from(left).unwrap() + 50).await;
    assert_eq!(well.n() as u64, left);
}

/// Threads that ask, give up and finish at the same time: no place is given twice, none is lost, and the timer is always in
/// somebody's hands. (All that they share is behind one lock: the orders in which they can get it are tried one by one in
/// the tests of the state; this is the same with real threads, wakers and timers.)
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_that_come_and_go_lose_nothing() {
    const PLACES: u32 = 7;
    let account = Account::builder()
        .requests_per_minute(600_000)
        .max_concurrency(PLACES)
        .build()
        .unwrap();
    let (flying, admitted) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let start = Instant::now();
    let tasks: Vec<_> = (0..3_000u64)
        .map(|number| {
            let (account, flying, admitted) = (account.clone(), Arc::clone(&flying), Arc::clone(&admitted));
            tokio::spawn(async move {
                let mut draw = Draw(number);
                let cost = Cost::new().model(["a", "b", "c"][draw.below(3) as usize]);
                let patience = draw.below(3);
                let deadline = (patience == 1).then(|| Instant::now().into_std() + millis(draw.below(300)));
                let asking = DropAfter {
                    polls: if patience == 2 { draw.below(4) } else { u64::MAX },
                    future: Some(Box::pin(async {
                        let Ok(permit) = account.admit(cost, deadline).await else {
                            return;
                        };
                        admitted.fetch_add(1, Ordering::SeqCst);
                        assert!(flying.fetch_add(1, Ordering::SeqCst) < PLACES);
                        struct Landing(Arc<AtomicU32>);
                        impl Drop for Landing {
                            fn drop(&mut self) {
                                self.0.fetch_sub(1, Ordering::SeqCst);
                            }
                        }
                        // before the permit
                        let (permit, landing) = (permit, Landing(Arc::clone(&flying)));
                        for _ in 0..draw.below(4) {
                            tokio::task::yield_now().await;
                        }
                        drop(landing);
                        drop(permit);
                    })),
                };
                asking.await
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(secs(20), task)
            .await
            .expect("nobody waits for ever")
            .unwrap();
    }
    let status = account.status();
    assert_eq!((status.in_flight, flying.load(Ordering::SeqCst)), (0, 0));
    assert!(status.lanes.iter().all(|lane| lane.waiting == 0 && lane.in_flight == 0));
    let allowed = start.elapsed().as_secs_f64() * 10_000.0 + 100.0;
    assert!(f64::from(admitted.load(Ordering::SeqCst)) <= allowed);
    assert!(admitted.load(Ordering::SeqCst) > 500);
}
