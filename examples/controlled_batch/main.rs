//! Rehearses a batch against a simulated provider, as one would verify a set-up before a live run: the plan, and beside it
//! what was seen. Knows the command line's two ends; the batch is in `batch`.
//!
//! ```text
//! cargo run --example controlled_batch
//! cargo run --example controlled_batch -- --requests 600 --allowance 120 --target 90 --latency 2s
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
