//! Rehearses a batch against a simulated provider, to verify a set-up before a live run, and compares the result with the
//! plan. Knows the arguments and the exit status; the batch is in `batch`.
//!
//! ```text
//! cargo run --example controlled_batch
//! cargo run --example controlled_batch -- --requests 600 --allowance 120 --target 90 --latency 2s
//! cargo run --example controlled_batch -- --requests 600 --outage 20s@30s --status 529
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod batch;

use std::io::IsTerminal;
use std::process::ExitCode;

use batch::{Command, HELP};

fn main() -> ExitCode {
    let options = match Command::parse(std::env::args().skip(1)) {
        Ok(Command::Run(options)) => options,
        Ok(Command::Help) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("controlled_batch: {why} (see --help)");
            return ExitCode::from(2);
        }
    };
    let mut out = std::io::stdout();
    let terminal = out.is_terminal();
    match batch::run(&options, &mut out, terminal) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("controlled_batch: {error}");
            ExitCode::FAILURE
        }
    }
}
