//! Real processes: the test runs itself again as workers, that start as fast as their shared account lets them and write down
//! when. One that is killed takes nothing with it for long.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use super::*;

/// Set where this program is a worker.
const WORKER: &str = "AI_RETRY_WORKER";

/// A worker: writes a line for each start until it is killed. As a test of its own it does nothing.
#[tokio::test]
async fn worker() {
    let Ok(url) = std::env::var(WORKER) else { return };
    let store = RedisStore::connect(url).await.unwrap();
    let account = Account::builder()
        .requests_per_minute(6_000)
        .max_concurrency(40)
        .redis(store)
        .build()
        .unwrap();
    for _ in 0..20 {
        let account = account.clone();
        tokio::spawn(async move {
            loop {
                let permit = admit(&account).await;
                eprintln!("started");
                tokio::time::sleep(ms(20)).await;
                drop(permit);
            }
        });
    }
    std::future::pending().await
}

struct Worker(Child);

impl Worker {
    /// Tells by its number when it starts something.
    fn start(number: usize, server: &RedisServer, starts: mpsc::Sender<(usize, Instant)>) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["processes::worker", "--exact", "--nocapture"])
            .env(WORKER, server.url())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if line.contains("started") && starts.send((number, Instant::now())).is_err() {
                    return;
                }
            }
        });
        Self(child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Four share 100 a second, and are seen to do so from outside; when one is killed the others have all of it.
#[test]
fn four_processes_share_a_rate_and_three_go_on() {
    let server = RedisServer::start();
    let (told, starts) = mpsc::channel();
    let mut workers: Vec<_> = (0..4)
        .map(|number| Worker::start(number, &server, told.clone()))
        .collect();
    let next = || {
        starts
            .recv_timeout(Duration::from_secs(30))
            .expect("somebody starts within 30 s")
    };
    // until all are there
    let mut seen = [0; 4];
    while seen.contains(&0) {
        seen[next().0] += 1;
    }
    let count = |number: usize, next: &dyn Fn() -> (usize, Instant)| {
        let mut each = [0; 4];
        let begun = Instant::now();
        for _ in 0..number {
            each[next().0] += 1;
        }
        (each, begun.elapsed())
    };
    // what a busy machine holds back comes together, up to half a second of it
    let (each, took) = count(200, &next);
    assert!(took >= ms(1_990 - 500), "{each:?} in {took:?}");
    assert!(each.iter().all(|made| *made >= 25), "{each:?}");
    drop(workers.remove(0));
    let (_, took) = count(50, &next);
    assert!(took < Duration::from_secs(10), "{took:?}");
    let (each, took) = count(200, &next);
    assert!(took >= ms(1_990 - 500), "{each:?} in {took:?}");
    assert_eq!(each[0], 0);
    assert!(each[1..].iter().all(|made| *made >= 40), "{each:?}");
}
