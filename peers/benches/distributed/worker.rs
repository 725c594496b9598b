//! One of the processes: tasks that start as often as they may, and write down when. Knows no other process and no bar.

use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use redis::Script;
use redis::aio::ConnectionManager;
use reqwest_ai_retry::{Account, Cost, RedisStore, RetryMiddleware, RetryPolicy};
use reqwest_middleware::ClientBuilder;

/// By which this program knows that it is a worker.
pub(crate) const WORD: &str = "worker";

/// How starts are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// By our account over Redis.
    Lent,
    /// By nothing: an account of its own with the whole rate.
    Alone,
    /// By asking Redis until it says yes, and sleeping as long as it says in between.
    Polled,
}

impl Means {
    pub(crate) const ALL: [Self; 3] = [Self::Lent, Self::Polled, Self::Alone];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lent => "lent",
            Self::Alone => "alone",
            Self::Polled => "polled",
        }
    }
}

/// A token bucket of burst 1 in Redis: the wait in microseconds, and zero if the start is made.
const POLL: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local next = tonumber(redis.call('GET', KEYS[1])) or 0
if next > now then return next - now end
redis.call('SET', KEYS[1], string.format('%.0f', math.max(next, now) + ARGV[1]), 'PX', 60000)
return 0
";

/// Does what the words say: the means, the server, starts a second, tasks, seconds; or a batch.
pub(crate) fn run(words: &[String]) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let word = |at: usize| words.get(at).map(String::as_str).ok_or("too few words");
    if word(0)? == "batch" {
        let (url, provider, requests, number) = (word(1)?, word(2)?, word(3)?.parse()?, word(4)?.parse()?);
        return runtime.block_on(batch(url, provider, requests, number));
    }
    let means = Means::ALL
        .into_iter()
        .find(|means| means.name() == words[0])
        .ok_or("no such means")?;
    let (url, rate, tasks, seconds) = (word(1)?, word(2)?.parse()?, word(3)?.parse()?, word(4)?.parse()?);
    runtime.block_on(start(means, url, rate, tasks, Duration::from_secs(seconds)))
}

/// Says that all is made, and waits for the others.
fn ready() -> Result<(), Box<dyn Error>> {
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

async fn start(means: Means, url: &str, rate: u32, tasks: usize, length: Duration) -> Result<(), Box<dyn Error>> {
    let account = match means {
        Means::Lent => {
            let account = Account::builder().requests_per_minute(60 * rate);
            Some(account.redis(RedisStore::connect(url).await?).build()?)
        }
        Means::Alone => Some(Account::builder().requests_per_minute(60 * rate).build()?),
        Means::Polled => None,
    };
    let connection = ConnectionManager::new(redis::Client::open(url)?).await?;
    ready()?;
    let end = Instant::now() + length;
    let (told, starts) = mpsc::channel::<u128>();
    // written by another thread, at once: whoever is killed has said what it did
    let writer = std::thread::spawn(move || {
        let mut out = std::io::stdout().lock();
        for at in starts {
            writeln!(out, "{at}").ok();
        }
    });
    let script = Arc::new(Script::new(POLL));
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let (account, mut connection, script, told) =
                (account.clone(), connection.clone(), Arc::clone(&script), told.clone());
            tokio::spawn(async move {
                while Instant::now() < end {
                    match &account {
                        Some(account) => match account.admit(Cost::new(), Some(end)).await {
                            Ok(permit) => drop(permit),
                            // no more before the end
                            Err(_) => return,
                        },
                        None => loop {
                            let gap = 1_000_000 / rate;
                            let wait = script
                                .key("poll")
                                .arg(gap)
                                .invoke_async(&mut connection)
                                .await
                                .unwrap_or(1_000);
                            if wait == 0 {
                                break;
                            }
                            tokio::time::sleep(Duration::from_micros(wait)).await;
                        },
                    }
                    told.send(now()).ok();
                }
            })
        })
        .collect();
    drop(told);
    for task in tasks {
        task.await?;
    }
    writer.join().map_err(|_| "the writer panicked")?;
    Ok(())
}

fn now() -> u128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros())
}

/// Its part of a batch: so many requests by so many tasks, each until it is answered.
async fn batch(url: &str, provider: &str, requests: usize, number: usize) -> Result<(), Box<dyn Error>> {
    let store = RedisStore::connect(url).await?;
    let account = Account::builder().requests_per_minute(120).redis(store).build()?;
    let policy = RetryPolicy::default()
        .max_attempts(1_000)
        .max_retry_time(Duration::from_secs(100_000));
    let retry = RetryMiddleware::builder().policy(policy).account(account).build();
    let client = ClientBuilder::new(RetryMiddleware::client_builder().build()?)
        .with(retry)
        .build();
    ready()?;
    let left = Arc::new(AtomicUsize::new(requests));
    // fifty in all
    let tasks: Vec<_> = (0..if number < 2 { 13 } else { 12 })
        .map(|_| {
            let (client, left, provider) = (client.clone(), Arc::clone(&left), provider.to_owned());
            tokio::spawn(async move {
                let take = |left: usize| left.checked_sub(1);
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                    let body = r#"{"model":"m","messages":[]}"#;
                    let answer = client.post(&provider).body(body).send().await;
                    let status = answer.map_or(0, |answer| answer.status().as_u16());
                    println!("{status}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    Ok(())
}
