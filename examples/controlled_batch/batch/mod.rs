//! A rehearsal from its options to its report. Knows the order of the steps, each of which is in a file of its own.

mod bar;
mod options;
mod plan;
mod rehearsal;
mod report;
mod watch;
mod weather;

use std::error::Error;
use std::io::Write;

use bar::Bar;
pub(crate) use options::{Command, HELP, Options};
use plan::Plan;
use report::Report;
#[allow(unused_imports, reason = "the example's tests read it")]
pub(crate) use weather::{Failure, Incident, Weather};

/// Prints the plan, runs it and prints the report. Returns `true` if every request succeeded.
pub(crate) fn run(options: &Options, out: &mut dyn Write, terminal: bool) -> Result<bool, Box<dyn Error>> {
    let plan = Plan::of(options);
    if !options.json {
        writeln!(out, "{}", report::plan(&plan))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(plan.is_virtual)
        .build()?;
    let bar = (!options.json).then(|| Bar::new(&mut *out, terminal, &plan));
    let seen = runtime.block_on(rehearsal::run(&plan, bar))?;
    let report = Report::new(&plan, &seen);
    if options.json {
        writeln!(out, "{:#}", report.json())?;
    } else {
        writeln!(out, "{}", report.text())?;
    }
    out.flush()?;
    Ok(seen.successes == plan.requests)
}
