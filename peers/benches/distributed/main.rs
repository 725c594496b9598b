//! Processes that share one account's rate through a Redis server of the bench's own: how true the rate is, what it costs, and
//! who gets how much of it; beside it processes that share nothing, and such as ask the server again and again. Knows the
//! order of the measurements and the bars; how each is taken stands beside it.
//!
//! `cargo bench -p peers --bench distributed` prints the tables and fails if a bar is missed: two and a half minutes for the
//! rates, five for the batch. After `--`, the words `rates`, `killed` and `batch` choose among them.

mod batch;
mod crew;
mod rates;
mod worker;

use std::error::Error;
use std::process::ExitCode;

type Part = fn() -> Result<bool, Box<dyn Error>>;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.first().is_some_and(|word| word == worker::WORD) {
        worker::run(words.get(1..).unwrap_or_default())?;
        return Ok(ExitCode::SUCCESS);
    }
    let parts: [(&str, Part); 3] = [
        ("rates", rates::rates),
        ("killed", rates::killed),
        ("batch", batch::batch),
    ];
    if words.iter().any(|word| parts.iter().all(|(part, _)| part != word)) {
        return Err("usage: distributed [rates] [killed] [batch]".into());
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

/// Prints whether a bar is met, and says so.
fn bar(met: bool, what: &str) -> bool {
    println!("  {} {what}", if met { "met   " } else { "MISSED" });
    met
}
