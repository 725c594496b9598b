//! What it costs to ask an account for a start: when there is nothing to wait for, when ten thousand wait, and when a
//! hundred thousand do. Knows the order of the measurements and the bars; how each is taken stands beside it.
//!
//! `cargo bench -p peers --bench admission` prints the tables and fails if a bar is missed. After `--`, the words `free`,
//! `throttled` and `queue` choose among them.

mod free;
mod heap;
mod queue;
mod throttled;

use std::error::Error;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: heap::Counting = heap::Counting;

/// Nanoseconds for an admission that does not wait, and the allocations it may make.
const FREE_NANOSECONDS: f64 = 100.0;
const FREE_ALLOCATIONS: f64 = 0.0;
/// Of the configured rate, and starts in the fullest second at a thousand a second.
const RATE: f64 = 0.99;
const FULLEST_SECOND: usize = 1_010;
const POLLS: f64 = 4.0;
/// Bytes on the heap for one that waits, its task included.
const BYTES: f64 = 400.0;

/// Measures, prints, and says whether the bars were met.
type Part = fn() -> Result<bool, Box<dyn Error>>;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let parts: [(&str, Part); 3] = [("free", free), ("throttled", throttled), ("queue", queue)];
    if words.iter().any(|word| parts.iter().all(|(part, _)| part != word)) {
        return Err("usage: admission [free] [throttled] [queue]".into());
    }
    let mut met = true;
    for (part, measure) in parts {
        if words.is_empty() || words.iter().any(|word| word == part) {
            met &= measure()?;
            println!();
        }
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn free() -> Result<bool, Box<dyn Error>> {
    println!(
        "An admission that does not wait, its permit dropped ({} at a time)",
        free::ADMISSIONS
    );
    println!(
        "{:<34}{:>10}{:>10}{:>14}{:>10}",
        "", "ns median", "ns least", "allocations", "bytes"
    );
    let costs = free::measure()?;
    costs.iter().for_each(|cost| println!("{cost}"));
    let ours = costs.first().ok_or("nothing was measured")?;
    let time = format!("{:.1} ns; {FREE_NANOSECONDS} allowed", ours.median);
    let allocations = format!("{:.4} allocations; {FREE_ALLOCATIONS} allowed", ours.allocations);
    Ok(bar(ours.median <= FREE_NANOSECONDS, &time) & bar(ours.allocations <= FREE_ALLOCATIONS, &allocations))
}

fn throttled() -> Result<bool, Box<dyn Error>> {
    println!(
        "{} tasks that wait, {} a second, {} s of real time, 2 workers",
        throttled::WAITERS,
        throttled::RATE,
        throttled::SECONDS
    );
    let ours = throttled::measure()?;
    println!("{ours}");
    let (share, fullest, polls) = (ours.share(), ours.fullest_second, ours.polls_per_admission());
    let rate = format!("{:.2} % of the rate; {} % demanded", 100.0 * share, 100.0 * RATE);
    let second = format!("{fullest} starts in the fullest second; {FULLEST_SECOND} allowed");
    let polled = format!("{polls:.2} polls per admission; {POLLS} allowed");
    Ok(bar(share >= RATE, &rate) & bar(fullest <= FULLEST_SECOND, &second) & bar(polls <= POLLS, &polled))
}

fn queue() -> Result<bool, Box<dyn Error>> {
    println!("{} tasks that wait, 2 workers", queue::WAITERS);
    let lengths = queue::measure()?;
    lengths.iter().for_each(|length| println!("{length}"));
    let ours = lengths.last().ok_or("nothing was measured")?;
    let bytes = format!("{:.1} bytes for one that waits; {BYTES} allowed", ours.bytes);
    Ok(bar(ours.bytes <= BYTES, &bytes))
}

fn bar(met: bool, what: &str) -> bool {
    println!("{}  {what}", if met { "PASS" } else { "FAIL" });
    met
}
