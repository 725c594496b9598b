//! Ten thousand that wait at a thousand a second, in real time: how true the rate is, and what it takes. Knows no provider.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest_ai_retry::{Account, Cost};

pub(crate) const WAITERS: usize = 10_000;
pub(crate) const RATE: u32 = 1_000;
pub(crate) const SECONDS: u32 = 5;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Throttled {
    admissions: usize,
    pub(crate) fullest_second: usize,
    polls: u64,
    /// Of the process, for each second of real time.
    cpu: Option<Duration>,
    /// How far from its place in the order of arrival one is admitted, on average.
    displaced: f64,
}

impl Throttled {
    pub(crate) fn share(&self) -> f64 {
        self.admissions as f64 / f64::from(RATE * SECONDS)
    }

    /// The first poll of those that were not admitted is in it.
    pub(crate) fn polls_per_admission(&self) -> f64 {
        self.polls as f64 / self.admissions as f64
    }
}

pub(crate) fn measure() -> Result<Throttled, Box<dyn Error>> {
    let account = Account::builder().requests_per_minute(60 * RATE).build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    let polls = Arc::new(AtomicU64::new(0));
    let admissions = Arc::new(Mutex::new(Vec::with_capacity(WAITERS)));
    let cpu = cpu();
    let begun = Instant::now();
    for arrival in 0..WAITERS {
        let (account, polls, admissions) = (account.clone(), Arc::clone(&polls), Arc::clone(&admissions));
        runtime.spawn(async move {
            let mut admit = pin!(account.admit(Cost::new(), None));
            let permit = poll_fn(|cx| {
                polls.fetch_add(1, Ordering::Relaxed);
                admit.as_mut().poll(cx)
            })
            .await;
            if let (Ok(_), Ok(mut admissions)) = (permit, admissions.lock()) {
                admissions.push((arrival, begun.elapsed()));
            }
        });
    }
    let length = Duration::from_secs(SECONDS.into());
    std::thread::sleep(length.saturating_sub(begun.elapsed()));
    let polls = polls.load(Ordering::Relaxed);
    let cpu = cpu.zip(self::cpu()).map(|(before, after)| (after - before) / SECONDS);
    // the end of all of them, so that no other measurement meets it
    runtime.shutdown_timeout(Duration::from_secs(10));
    let admissions = admissions.lock().map_err(|_| "a task panicked")?;
    let admissions: Vec<_> = admissions.iter().filter(|(_, at)| *at <= length).collect();
    let mut times: Vec<Duration> = admissions.iter().map(|(_, at)| *at).collect();
    times.sort();
    let second = |from: usize| times.partition_point(|at| *at < times[from] + Duration::from_secs(1)) - from;
    let displaced = admissions
        .iter()
        .zip(0..)
        .map(|((arrival, _), rank)| arrival.abs_diff(rank));
    Ok(Throttled {
        admissions: times.len(),
        fullest_second: (0..times.len()).map(second).max().unwrap_or(0),
        polls,
        cpu,
        displaced: displaced.sum::<usize>() as f64 / times.len() as f64,
    })
}

/// What the process has used so far, where the kernel says so in `/proc`, in its steps of a hundredth of a second.
fn cpu() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis(10 * (user + system)))
}

impl fmt::Display for Throttled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "admitted {} of {}, fullest second {}, polls per admission {:.2}, mean displacement {:.1}, CPU ",
            self.admissions,
            RATE * SECONDS,
            self.fullest_second,
            self.polls_per_admission(),
            self.displaced
        )?;
        match self.cpu {
            Some(cpu) => write!(f, "{} ms/s", cpu.as_millis()),
            None => write!(f, "unknown"),
        }
    }
}
