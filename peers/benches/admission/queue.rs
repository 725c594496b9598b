//! A hundred thousand that wait and are then given up: the bytes they hold and the time to cancel them. Knows no rate.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest_ai_retry::{Account, Cost};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::heap;

pub(crate) const WAITERS: usize = 100_000;

/// What it takes for all of them to wait.
#[derive(Debug)]
pub(crate) struct Queue {
    what: &'static str,
    /// Live on the heap for each, its task included.
    pub(crate) bytes: f64,
    cancelled: Duration,
}

/// Ours last.
pub(crate) fn measure() -> Result<Vec<Queue>, Box<dyn Error>> {
    let bare = wait("a task that waits for nothing", || async {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<()>().await
    })?;
    let semaphore = Arc::new(Semaphore::new(0));
    let peer = wait("tokio Semaphore::acquire", || {
        let semaphore = Arc::clone(&semaphore);
        async move {
            BEGUN.fetch_add(1, Ordering::Relaxed);
            drop(semaphore.acquire().await)
        }
    })?;
    // one start at once, and the next in a minute
    let account = Account::builder().requests_per_minute(1).build()?;
    let ours = wait("Account::admit", || {
        let account = account.clone();
        async move {
            BEGUN.fetch_add(1, Ordering::Relaxed);
            drop(account.admit(Cost::new(), None).await)
        }
    })?;
    Ok(vec![bare, peer, ours])
}

/// Tasks that have begun to wait. No part of them, so that it does not make them larger.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

fn wait<F: Future<Output = ()> + Send + 'static>(
    what: &'static str,
    waiter: impl Fn() -> F,
) -> Result<Queue, Box<dyn Error>> {
    let runtime: Runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    BEGUN.store(0, Ordering::Relaxed);
    let mut tasks: Vec<JoinHandle<()>> = Vec::with_capacity(WAITERS);
    let before = heap::held();
    for _ in 0..WAITERS {
        tasks.push(runtime.spawn(waiter()));
    }
    while BEGUN.load(Ordering::Relaxed) < WAITERS {
        std::thread::yield_now();
    }
    // the last of them has begun, and may not be in the queue yet
    std::thread::sleep(Duration::from_millis(50));
    let held = heap::held() - before;
    let begun = Instant::now();
    tasks.iter().for_each(JoinHandle::abort);
    runtime.block_on(async {
        for task in tasks {
            // cancelled, or the one that was admitted
            let _ = task.await;
        }
    });
    Ok(Queue {
        what,
        bytes: held as f64 / WAITERS as f64,
        cancelled: begun.elapsed(),
    })
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<34}{:>10.1} bytes each, all cancelled in {:.1} ms",
            self.what,
            self.bytes,
            1000.0 * self.cancelled.as_secs_f64()
        )
    }
}
