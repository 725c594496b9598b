//! An admission that does not wait, beside what peers take for the same. Knows no queue.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Instant, SystemTime};

use governor::{Quota, RateLimiter};
use reqwest_ai_retry::{Account, Clock, Cost};
use tokio::sync::Semaphore;

use crate::heap;

/// So few that a round is much shorter than a time slice, and the median is not what else the machine does.
pub(crate) const ADMISSIONS: u32 = 1_000;
const ROUNDS: usize = 2_001;

/// tokio's clock as a program has it. The one of this member can be paused, for the benches in virtual time, and looks for
/// that first each time.
#[derive(Debug)]
struct Unpaused;

impl Clock for Unpaused {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall_now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

/// What one admission takes.
#[derive(Debug)]
pub(crate) struct Taken {
    what: &'static str,
    pub(crate) median: f64,
    least: f64,
    pub(crate) allocations: f64,
    bytes: f64,
}

/// Ours first.
pub(crate) fn measure() -> Result<Vec<Taken>, Box<dyn Error>> {
    // so fast that nothing ever waits for its turn
    let account = Account::builder()
        .requests_per_minute(u32::MAX)
        .clock(Unpaused)
        .build()?;
    let quiet = Account::builder().clock(Unpaused).build()?;
    let limiter = RateLimiter::direct(Quota::per_second(NonZeroU32::MAX));
    let semaphore = Semaphore::new(1);
    // tokio's clock is what an account reads; a runtime is what says that it is not paused
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let _entered = runtime.enter();
    let mut ways: [(&'static str, &mut dyn FnMut()); 5] = [
        ("Account::admit, a rate configured", &mut || {
            let _ = black_box(&now(account.admit(Cost::new(), None)));
        }),
        ("Account::admit, no limit", &mut || {
            let _ = black_box(&now(quiet.admit(Cost::new(), None)));
        }),
        ("governor check", &mut || {
            let _ = black_box(limiter.check());
        }),
        ("governor until_ready", &mut || now(limiter.until_ready())),
        ("tokio Semaphore::acquire", &mut || {
            let _ = black_box(&now(semaphore.acquire()));
        }),
    ];
    let mut taken: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    // in turn, so that what else the machine does meets all of them
    for _ in 0..ROUNDS {
        for ((_, way), taken) in ways.iter_mut().zip(&mut taken) {
            let begun = Instant::now();
            for _ in 0..ADMISSIONS {
                way();
            }
            taken.push(begun.elapsed().as_nanos() as f64 / f64::from(ADMISSIONS));
        }
    }
    let rows = ways.into_iter().zip(taken).map(|((what, way), mut taken)| {
        taken.sort_by(f64::total_cmp);
        let count = heap::during(|| (0..ADMISSIONS).for_each(|_| way()));
        Taken {
            what,
            median: taken[taken.len() / 2],
            least: taken[0],
            allocations: count.allocations as f64 / f64::from(ADMISSIONS),
            bytes: count.bytes as f64 / f64::from(ADMISSIONS),
        }
    });
    Ok(rows.collect())
}

/// The output of a future that does not wait: polled by hand, so that no executor is measured with it, and where it is made,
/// as `.await` would.
#[inline(always)]
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits, and what is measured is what does not"),
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<34}{:>10.1}{:>10.1}{:>14.4}{:>10.1}",
            self.what, self.median, self.least, self.allocations, self.bytes
        )
    }
}
