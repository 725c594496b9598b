//! Waiting calls that nobody polls: a program may keep a future beside others, and look at it later or never. Nobody else's
//! start depends on it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use futures_util::{FutureExt, future, poll};
use reqwest_ai_retry::{Account, Permit, RetryError, RetryMiddleware, RetryPolicy};
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, timeout};

use crate::stub::{Stub, chat, exact, millis, reply, secs, spawned};

/// What waiters that are not polled may cost the others in all.
const GRACE: Duration = millis(100);

type Start = Pin<Box<dyn Future<Output = Result<Permit, RetryError>> + Send>>;

fn start(account: &Account) -> Start {
    let account = account.clone();
    Box::pin(async move { account.admit(Default::default(), None).await })
}

/// So many that wait, and are not polled again.
async fn kept(account: &Account, number: usize) -> Vec<Start> {
    let mut kept: Vec<_> = (0..number).map(|_| start(account)).collect();
    for start in &mut kept {
        assert!(poll!(start).is_pending());
    }
    kept
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(secs(600), future).await.expect("it does not wait for ever")
}

fn hourly() -> Account {
    Account::builder().requests_per_minute(60).build().unwrap()
}

/// M1: a stage with back-pressure, whose loop makes a call of its own.
#[tokio::test(start_paused = true)]
async fn m1_a_call_in_the_loop_over_other_calls() {
    let server = Stub::new([reply(429).ra(1), reply(200)]);
    let client = server.under([RetryMiddleware::new(RetryPolicy::default())]);
    let begun = Instant::now();
    soon(async {
        let mut answers = stream::iter(0..8).map(|_| chat(&client, "m")).buffer_unordered(4);
        while let Some(answer) = answers.next().await {
            answer.unwrap();
            chat(&client, "m").await.unwrap();
        }
    })
    .await;
    assert!(begun.elapsed() < secs(30), "{:?}", begun.elapsed());
}

/// The same against a rate of its own, and behind a slow second stage.
#[tokio::test(start_paused = true)]
async fn two_stages_with_back_pressure_between_them() {
    let server = Stub::new([reply(200)]);
    let client = server.sharing(&hourly(), exact().max_queue_time(secs(3_600)));
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let first = client.clone();
    tokio::spawn(async move {
        let mut answers = stream::iter(0..20).map(|_| chat(&first, "m")).buffer_unordered(10);
        while let Some(answer) = answers.next().await {
            answer.unwrap();
            sender.send(()).await.unwrap();
        }
    });
    let begun = Instant::now();
    soon(async {
        while receiver.recv().await.is_some() {
            chat(&client, "m").await.unwrap();
        }
    })
    .await;
    assert_eq!(server.n(), 40);
    // one start a second, whoever makes it
    assert!(begun.elapsed() < secs(45), "{:?}", begun.elapsed());
}

/// M2: a call's future that is kept after a `select!`.
#[tokio::test(start_paused = true)]
async fn m2_a_call_that_is_kept_after_a_select() {
    let server = Stub::new([reply(200)]);
    let client = server.sharing(&hourly(), exact());
    chat(&client, "m").await.unwrap();
    let mut kept = Box::pin(chat(&client, "m"));
    tokio::select! {
        biased;
        _ = &mut kept => panic!("its turn is in a second"),
        () = sleep(millis(100)) => {}
    }
    let others: Vec<_> = (0..3).map(|_| spawned(&client, "m")).collect();
    for (other, turn) in others.into_iter().zip(1..) {
        soon(other).await.unwrap().unwrap();
        assert!(server.start.elapsed() <= secs(turn) + GRACE, "{:?}", server.times());
    }
    // it has kept its place
    let last = spawned(&client, "m");
    sleep(millis(10)).await;
    soon(kept).await.unwrap();
    soon(last).await.unwrap().unwrap();
    assert_eq!(server.n(), 6);
}

/// The only one that waits beside it is polled by the same task.
#[tokio::test(start_paused = true)]
async fn a_kept_call_and_another_in_one_task() {
    let server = Stub::new([reply(200)]);
    let client = server.sharing(&hourly(), exact());
    chat(&client, "m").await.unwrap();
    let mut kept = Box::pin(chat(&client, "m"));
    assert!(poll!(&mut kept).is_pending());
    soon(chat(&client, "m")).await.unwrap();
    assert!(
        server.start.elapsed() <= secs(1) + GRACE,
        "{:?}",
        server.start.elapsed()
    );
    soon(kept).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn forty_in_front_at_a_rate() {
    let account = hourly();
    let begun = Instant::now();
    drop(soon(start(&account)).await.unwrap());
    let in_front = kept(&account, 40).await;
    for turn in 1..=5 {
        drop(soon(start(&account)).await.unwrap());
        let late = begun.elapsed() - secs(turn);
        assert!(late <= GRACE, "{late:?}");
    }
    // each of them goes when it is polled, before those that come then
    let others: Vec<_> = (0..3).map(|_| tokio::spawn(start(&account))).collect();
    sleep(millis(1)).await;
    soon(future::join_all(in_front)).await;
    assert!(others.iter().all(|other| !other.is_finished()));
    for other in others {
        drop(soon(other).await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn forty_in_front_in_a_pause() {
    let server = Stub::new([reply(429).ra(3), reply(200)]);
    let account = Account::builder().build().unwrap();
    let client = server.sharing(&account, exact());
    let first = spawned(&client, "m");
    sleep(millis(10)).await;
    let mut in_front: Vec<_> = (0..40).map(|_| Box::pin(chat(&client, "m"))).collect();
    for call in &mut in_front {
        assert!(poll!(call).is_pending());
    }
    soon(chat(&client, "m")).await.unwrap();
    // the pause, and the pace that was learnt by the refusal
    assert!(server.start.elapsed() < secs(10), "{:?}", server.times());
    soon(first).await.unwrap().unwrap();
    for answer in soon(future::join_all(in_front)).await {
        answer.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn forty_in_front_for_the_only_place() {
    let account = Account::builder().max_concurrency(1).build().unwrap();
    let first = soon(start(&account)).await.unwrap();
    let in_front = kept(&account, 40).await;
    let other = tokio::spawn(start(&account));
    sleep(secs(5)).await;
    let begun = Instant::now();
    drop(first);
    let second = soon(other).await.unwrap().unwrap();
    assert!(begun.elapsed() <= GRACE, "{:?}", begun.elapsed());
    // and now that all of them are known, at once
    let begun = Instant::now();
    let other = tokio::spawn(start(&account));
    sleep(millis(1)).await;
    drop(second);
    let third = soon(other).await.unwrap().unwrap();
    assert!(begun.elapsed() <= millis(10), "{:?}", begun.elapsed());
    drop(third);
    for start in in_front {
        drop(soon(start).await.unwrap());
    }
    assert_eq!(account.status().in_flight, 0);
}

/// The one place there is comes free for one that is not polled: nothing of it is sent, so another has it. Whoever sends
/// holds it.
#[tokio::test(start_paused = true)]
async fn the_only_place_is_nobodys_until_it_is_taken() {
    let account = Account::builder().max_concurrency(1).build().unwrap();
    let first = soon(start(&account)).await.unwrap();
    let mut waiter = kept(&account, 1).await;
    drop(first);
    // its turn has come; it is not polled
    let second = soon(start(&account)).await.unwrap();
    sleep(secs(60)).await;
    assert!(poll!(&mut waiter[0]).is_pending(), "the place is held");
    drop(second);
    drop(soon(waiter.remove(0)).await.unwrap());
    assert_eq!(account.status().in_flight, 0);
}

/// A task that is slow to come back to what it joins: it polls all of them when it does.
#[tokio::test(start_paused = true)]
async fn a_join_in_a_slow_task() {
    let account = Account::builder().requests_per_minute(600).build().unwrap();
    let begun = Instant::now();
    let slow = {
        let mut joined = Box::pin(future::join_all((0..10).map(|_| start(&account))));
        async move {
            loop {
                if let Some(permits) = joined.as_mut().now_or_never() {
                    return permits.into_iter().filter(Result::is_ok).count();
                }
                sleep(secs(1)).await;
            }
        }
    };
    let slow = tokio::spawn(slow);
    sleep(millis(1)).await;
    for turn in 1..=20 {
        drop(soon(start(&account)).await.unwrap());
        // one of ten seconds' starts is theirs
        assert!(
            begun.elapsed() <= millis(115) * turn + secs(2),
            "{turn}: {:?}",
            begun.elapsed()
        );
    }
    assert_eq!(soon(slow).await.unwrap(), 10);
}

/// A set of local tasks that nobody drives.
#[tokio::test(start_paused = true)]
async fn a_local_set_that_is_left_alone() {
    let account = hourly();
    drop(soon(start(&account)).await.unwrap());
    let local = LocalSet::new();
    let theirs: Vec<_> = (0..5).map(|_| local.spawn_local(start(&account))).collect();
    local.run_until(sleep(millis(1))).await;
    let begun = Instant::now();
    for turn in 1..=3 {
        drop(soon(start(&account)).await.unwrap());
        assert!(begun.elapsed() <= secs(turn) + GRACE, "{:?}", begun.elapsed());
    }
    soon(local.run_until(future::join_all(theirs))).await;
}

/// Polls what it is about so much later than it is woken, as a busy runtime does.
async fn slowly<T>(delay: Duration, future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    loop {
        // whatever wakes the task in the meantime
        let woken = Arc::new(Notify::new());
        let waker = Waker::from(Arc::new(Ring(Arc::clone(&woken))));
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        woken.notified().await;
        sleep(delay).await;
    }
}

struct Ring(Arc<Notify>);

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// A runtime that takes its time is not passed by for ever by those that do not.
#[tokio::test(start_paused = true)]
async fn one_that_comes_late_has_its_turn_all_the_same() {
    let account = hourly();
    let begun = Instant::now();
    drop(soon(start(&account)).await.unwrap());
    let late = tokio::spawn(slowly(millis(30), start(&account)));
    tokio::task::yield_now().await;
    let others: Vec<_> = (0..10).map(|_| tokio::spawn(start(&account))).collect();
    drop(soon(late).await.unwrap().unwrap());
    assert!(begun.elapsed() <= secs(2) + GRACE, "{:?}", begun.elapsed());
    for other in others {
        drop(soon(other).await.unwrap().unwrap());
    }
    assert!(begun.elapsed() < secs(12), "{:?}", begun.elapsed());
}
