//! What it costs to ask an account for a start: when there is nothing to wait for, when ten thousand wait, and when a
//! hundred thousand do. Knows the order of the measurements and the bars; how each is taken stands beside it.
//!
//! `cargo bench -p peers --bench admission` prints the tables and fails if a bar is missed.

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
const BYTES: f64 = 350.0;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut met = true;

    println!(
        "An admission that does not wait, its permit dropped ({} at a time)",
        free::ADMISSIONS
    );
    println!(
        "{:<34}{:>10}{:>10}{:>14}{:>10}",
        "", "ns median", "ns least", "allocations", "bytes"
    );
    let costs = free::measure()?;
    for cost in &costs {
        println!("{cost}");
    }
    if let Some(ours) = costs.first() {
        met &= bar(
            ours.median <= FREE_NANOSECONDS,
            &format!("{:.1} ns; {FREE_NANOSECONDS} allowed", ours.median),
        );
        met &= bar(
            ours.allocations <= FREE_ALLOCATIONS,
            &format!("{:.4} allocations; {FREE_ALLOCATIONS} allowed", ours.allocations),
        );
    }

    println!(
        "\n{} tasks that wait, {} a second, {} s of real time, 2 workers",
        throttled::WAITERS,
        throttled::RATE,
        throttled::SECONDS
    );
    let ours = throttled::measure()?;
    println!("{ours}");
    met &= bar(
        ours.share() >= RATE,
        &format!("{:.2} % of the rate; {} % demanded", 100.0 * ours.share(), 100.0 * RATE),
    );
    met &= bar(
        ours.fullest_second <= FULLEST_SECOND,
        &format!(
            "{} starts in the fullest second; {FULLEST_SECOND} allowed",
            ours.fullest_second
        ),
    );
    met &= bar(
        ours.polls_per_admission() <= POLLS,
        &format!("{:.2} polls per admission; {POLLS} allowed", ours.polls_per_admission()),
    );

    println!("\n{} tasks that wait, 2 workers", queue::WAITERS);
    let lengths = queue::measure()?;
    for length in &lengths {
        println!("{length}");
    }
    if let Some(ours) = lengths.last() {
        met &= bar(
            ours.bytes <= BYTES,
            &format!("{:.1} bytes for one that waits; {BYTES} allowed", ours.bytes),
        );
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn bar(met: bool, what: &str) -> bool {
    println!("{}  {what}", if met { "PASS" } else { "FAIL" });
    met
}
