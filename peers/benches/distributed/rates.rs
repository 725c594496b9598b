//! Four processes of fifty tasks each on one rate, in real time: the table, and one of them killed at half time.

use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

use redis::Connection;
use testbed::RedisServer;

use super::bar;
use super::crew::{Crew, PROCESSES};
use super::worker::Means;

const TASKS: usize = 50;
const SECONDS: u64 = 10;
const RATES: [u32; 3] = [2, 100, 1_000];
const SECOND: u128 = 1_000_000;

const SHARE: f64 = 0.99;
const CALLS: f64 = 0.3;
const FAIR: f64 = 0.8;

/// What came of it.
struct Run {
    /// Who started, and when in microseconds from the first start; in order.
    starts: Vec<(usize, u128)>,
    calls: u64,
}

fn run(means: Means, rate: u32, server: &RedisServer, killed: Option<Duration>) -> Result<Run, Box<dyn Error>> {
    let mut connection = redis::Client::open(server.url())?.get_connection()?;
    redis::cmd("FLUSHALL").exec(&mut connection)?;
    let before = calls(&mut connection)?;
    // a moment longer than is counted
    let orders = [
        means.name().to_owned(),
        server.url(),
        rate.to_string(),
        TASKS.to_string(),
        (SECONDS + 1).to_string(),
    ];
    let mut crew = Crew::start(&orders)?;
    if let Some(after) = killed {
        sleep(after);
        crew.kill(0);
    }
    let lines = crew.listen();
    let calls = calls(&mut connection)? - before;
    let mut starts: Vec<(usize, u128)> = Vec::new();
    for (who, line) in lines {
        // one that was killed may have been in the middle of a line
        starts.extend(line.parse().ok().filter(|at| *at > 1_000 * SECOND).map(|at| (who, at)));
    }
    starts.sort_by_key(|(_, at)| *at);
    let first = starts.first().ok_or("nobody started")?.1;
    starts.iter_mut().for_each(|(_, at)| *at -= first);
    Ok(Run { starts, calls })
}

/// Scripts that were run.
fn calls(connection: &mut Connection) -> Result<u64, Box<dyn Error>> {
    let info: String = redis::cmd("INFO").arg("commandstats").query(connection)?;
    let calls = info.lines().find_map(|line| {
        line.strip_prefix("cmdstat_evalsha:calls=")?
            .split(',')
            .next()?
            .parse()
            .ok()
    });
    Ok(calls.unwrap_or(0))
}

impl Run {
    /// Starts from then until then, in microseconds.
    fn between(&self, from: u128, to: u128) -> usize {
        self.starts.iter().filter(|(_, at)| (from..to).contains(at)).count()
    }

    fn counted(&self) -> usize {
        self.between(0, u128::from(SECONDS) * SECOND)
    }

    fn share(&self, rate: u32) -> f64 {
        self.counted() as f64 / (f64::from(rate) * SECONDS as f64)
    }

    fn fullest_second(&self) -> usize {
        let from = |at: usize| {
            let end = self.starts[at].1 + SECOND;
            self.starts.partition_point(|(_, other)| *other < end) - at
        };
        (0..self.starts.len()).map(from).max().unwrap_or(0)
    }

    fn calls_per_start(&self) -> f64 {
        self.calls as f64 / self.starts.len() as f64
    }

    /// Of the one that got least, as a part of an equal share.
    fn fairness(&self) -> f64 {
        let of = |process| self.starts.iter().filter(|(who, _)| *who == process).count();
        let least = (0..PROCESSES).map(of).min().unwrap_or(0);
        least as f64 * PROCESSES as f64 / self.starts.len() as f64
    }
}

pub(crate) fn rates() -> Result<bool, Box<dyn Error>> {
    println!("{PROCESSES} processes of {TASKS} tasks each on one rate, {SECONDS} s of real time");
    println!(
        "{:<10}{:>8}{:>12}{:>18}{:>17}{:>12}",
        "", "rate", "used", "fullest second", "calls per start", "fairness"
    );
    let mut met = true;
    let mut bars = Vec::new();
    for means in Means::ALL {
        for rate in RATES {
            let server = RedisServer::start();
            let run = run(means, rate, &server, None)?;
            println!(
                "{:<10}{:>6}/s{:>10.2} %{:>18}{:>17.3}{:>12.2}",
                means.name(),
                rate,
                100.0 * run.share(rate),
                run.fullest_second(),
                run.calls_per_start(),
                run.fairness()
            );
            if means == Means::Lent {
                bars.push((rate, run));
            }
        }
    }
    for (rate, run) in bars {
        println!("lent, {rate}/s");
        let (share, fullest) = (run.share(rate), run.fullest_second());
        let most = (1.02 * f64::from(rate)).ceil() as usize + 1;
        met &= bar(
            share >= SHARE,
            &format!("{:.2} % of the rate; {} % demanded", 100.0 * share, 100.0 * SHARE),
        );
        met &= bar(
            fullest <= most,
            &format!("{fullest} starts in the fullest second; {most} allowed"),
        );
        if rate >= 100 {
            let calls = run.calls_per_start();
            met &= bar(calls <= CALLS, &format!("{calls:.3} calls per start; {CALLS} allowed"));
        }
        let fairness = run.fairness();
        met &= bar(
            fairness >= FAIR,
            &format!("{fairness:.2} of an equal share at the least; {FAIR} demanded"),
        );
    }
    Ok(met)
}

/// What the others use from two seconds after one is killed.
pub(crate) fn killed() -> Result<bool, Box<dyn Error>> {
    println!("One of the {PROCESSES} is killed at half time");
    let mut met = true;
    for rate in RATES {
        let server = RedisServer::start();
        let run = run(Means::Lent, rate, &server, Some(Duration::from_secs(SECONDS / 2)))?;
        let killed = run.starts.iter().filter(|(who, _)| *who == 0).map(|(_, at)| *at).max();
        let from = killed.unwrap_or(0) + 2 * SECOND;
        // to the last whole start, so that a slow rate is not counted by halves
        let last = u128::from(SECONDS) * SECOND;
        let expected = (last.saturating_sub(from)) as f64 / SECOND as f64 * f64::from(rate);
        let used = run.between(from, last) as f64 / expected.floor().max(1.0);
        met &= bar(
            used >= SHARE,
            &format!(
                "{rate}/s: the others use {:.2} % of it from 2 s after; {} % demanded",
                100.0 * used,
                100.0 * SHARE
            ),
        );
    }
    Ok(met)
}
