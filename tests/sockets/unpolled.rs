//! Waiting calls that nobody polls, in real time and over several runtimes: one that stands still, whatever the reason, stops
//! nobody in another. What is asserted is that the others go on; each would wait for ever, or until the end of what stands still.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant, SystemTime};

use futures_util::stream::{self, StreamExt};
use reqwest_ai_retry::{Account, Clock, Cost, Limits, Permit, RetryError, RetryMiddleware, RetryPolicy};
use reqwest_middleware::ClientWithMiddleware;
use testbed::{Server, reply};
use tokio::runtime::{Builder, Runtime};

use crate::caller::{client, millis, over, recommended};

/// Much more than any of it takes, and much less than for ever.
const LIMIT: Duration = Duration::from_secs(30);

type Start = Pin<Box<dyn Future<Output = Result<Permit, RetryError>> + Send>>;

fn start(account: &Account) -> Start {
    let account = account.clone();
    Box::pin(async move { account.admit(Cost::new(), None).await })
}

fn look(start: &mut Start) -> Poll<Result<Permit, RetryError>> {
    start.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Ten a second.
fn account() -> Account {
    Account::builder().requests_per_minute(600).build().unwrap()
}

fn single() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi(workers: usize) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

/// The test itself, on a thread of its own, so that one that hangs fails.
fn within_limit(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match is_done.recv_timeout(LIMIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("somebody waits for ever"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => thread.join().unwrap(),
    }
}

/// Five starts, one after the other.
async fn five(account: &Account) {
    for _ in 0..5 {
        drop(start(account).await.unwrap());
    }
}

async fn call(client: &ClientWithMiddleware, server: &Server) {
    let request = client.post(server.url("/v1/chat/completions")).body(r#"{"model":"m"}"#);
    assert_eq!(request.send().await.unwrap().status(), 200);
}

#[test]
fn m1_a_call_in_the_loop_over_other_calls() {
    for runtime in [single(), multi(2)] {
        within_limit(move || {
            runtime.block_on(async {
                let server = Server::start([reply(429).ra(1), reply(200)]).await;
                let client = client(RetryPolicy::default());
                let mut answers = stream::iter(0..8).map(|_| call(&client, &server)).buffer_unordered(4);
                while let Some(()) = answers.next().await {
                    call(&client, &server).await;
                }
            });
        });
    }
}

#[test]
fn m2_a_call_that_is_kept_after_a_select() {
    for runtime in [single(), multi(2)] {
        within_limit(move || {
            runtime.block_on(async {
                let server = Server::start([reply(200)]).await;
                let retry = RetryMiddleware::builder().account(account()).build();
                let client = over(recommended(), retry);
                call(&client, &server).await;
                let mut kept = Box::pin(call(&client, &server));
                tokio::select! {
                    biased;
                    () = &mut kept => panic!("its turn is later"),
                    () = tokio::time::sleep(millis(20)) => {}
                }
                for _ in 0..3 {
                    call(&client, &server).await;
                }
                kept.await;
            });
        });
    }
}

/// M2: a waiter in a runtime that nobody drives any more.
#[test]
fn m2_a_runtime_that_is_idle() {
    within_limit(|| {
        let (account, idle) = (account(), single());
        let (mut kept, spawned) = idle.block_on(async {
            drop(start(&account).await.unwrap());
            let mut kept = start(&account);
            assert!(look(&mut kept).is_pending());
            let spawned = tokio::spawn(start(&account));
            tokio::task::yield_now().await;
            (kept, spawned)
        });
        single().block_on(five(&account));
        multi(2).block_on(five(&account));
        // and it has lost nothing
        drop(idle.block_on(spawned).unwrap().unwrap());
        drop(idle.block_on(&mut kept).unwrap());
    });
}

#[test]
fn a_runtime_that_is_blocked() {
    within_limit(|| {
        let account = account();
        let (release, released) = mpsc::channel::<()>();
        let (waits, is_waiting) = mpsc::channel();
        let blocked = thread::spawn({
            let account = account.clone();
            move || {
                single().block_on(async {
                    drop(start(&account).await.unwrap());
                    let waiter = tokio::spawn(start(&account));
                    tokio::task::yield_now().await;
                    waits.send(()).unwrap();
                    released.recv().unwrap();
                    drop(waiter.await.unwrap().unwrap());
                });
            }
        });
        is_waiting.recv().unwrap();
        single().block_on(five(&account));
        multi(2).block_on(five(&account));
        release.send(()).unwrap();
        blocked.join().unwrap();
    });
}

/// One worker of several, just after it has polled a waiter: the first of all, or one that is to start before the others.
#[test]
fn a_worker_that_is_blocked() {
    for first in [true, false] {
        within_limit(move || blocked_worker(first));
    }
}

fn blocked_worker(first: bool) {
    let account = Account::builder()
        .requests_per_minute(600)
        .model_limits("slow", Limits::new().requests_per_minute(1))
        .build()
        .unwrap();
    let runtime = multi(3);
    if !first {
        let slow = || account.admit(Cost::new().model("slow"), None);
        runtime.block_on(async {
            drop(slow().await.unwrap());
        });
        for _ in 0..2 {
            let account = account.clone();
            runtime.spawn(async move { drop(account.admit(Cost::new().model("slow"), None).await) });
        }
        thread::sleep(millis(300));
    }
    let (release, released) = mpsc::channel::<()>();
    let (waits, is_waiting) = mpsc::channel();
    let blocked = runtime.spawn({
        let account = account.clone();
        async move {
            drop(start(&account).await.unwrap());
            let mut kept = start(&account);
            assert!(look(&mut kept).is_pending());
            waits.send(()).unwrap();
            released.recv().unwrap();
            drop(kept.await.unwrap());
        }
    });
    is_waiting.recv().unwrap();
    runtime.block_on(async {
        let account = account.clone();
        tokio::spawn(async move { five(&account).await }).await.unwrap();
    });
    release.send(()).unwrap();
    runtime.block_on(blocked).unwrap();
}

/// Its tasks are dropped with it, and a future that was polled there is polled elsewhere.
#[test]
fn a_runtime_that_is_shut_down() {
    within_limit(|| {
        for ended in [single(), multi(2)] {
            let account = account();
            let mut kept = start(&account);
            ended.block_on(async {
                drop(start(&account).await.unwrap());
                assert!(look(&mut kept).is_pending());
                for _ in 0..10 {
                    tokio::spawn(start(&account));
                }
                tokio::task::yield_now().await;
            });
            let other = multi(2);
            let waits = other.spawn({
                let account = account.clone();
                async move { five(&account).await }
            });
            drop(ended);
            other.block_on(waits).unwrap();
            drop(other.block_on(&mut kept).unwrap());
            let waiting: u32 = account.status().lanes.iter().map(|lane| lane.waiting).sum();
            assert_eq!((account.status().in_flight, waiting), (0, 0));
        }
    });
}

/// A clock that needs no runtime.
#[derive(Debug)]
struct Threads;

impl Clock for Threads {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall_now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let (done, is_done) = tokio::sync::oneshot::channel();
        thread::spawn(move || {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            let _ = done.send(());
        });
        Box::pin(async { drop(is_done.await) })
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// Threads that each run their own future, in no runtime.
#[test]
fn threads_without_a_runtime() {
    within_limit(|| {
        let account = Account::builder().requests_per_minute(600).clock(Threads).build();
        let account = account.unwrap();
        assert!(look(&mut start(&account)).is_ready());
        let mut kept: Vec<_> = (0..40).map(|_| start(&account)).collect();
        assert!(kept.iter_mut().all(|start| look(start).is_pending()));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let account = account.clone();
                thread::spawn(move || block_on(five(&account)))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for start in kept.into_iter().take(2) {
            drop(block_on(start).unwrap());
        }
    });
}
