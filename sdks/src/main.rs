//! The command line: prints the README's table, compares it with a file, or writes it there.

use std::process::ExitCode;
use std::{env, fs};

use futures_util::{StreamExt, stream};
use sdks::arrangement::Connections;
use sdks::gateway::Program;
use sdks::measure::Case;
use sdks::sdk::Sdk;
use sdks::table::{self, Counts};

/// Cases at a time: most of their time is the waits of the SDKs.
const TOGETHER: usize = 32;

/// What to do with the table.
enum Task {
    Print,
    Check(String),
    Write(String),
}

fn main() -> ExitCode {
    let done = task().and_then(|task| {
        let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
        let table = runtime.block_on(measure())?;
        carry_out(task, &table)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn task() -> Result<Task, String> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.as_slice() {
        [] => Ok(Task::Print),
        [how, file] if how == "--check" => Ok(Task::Check(file.clone())),
        [how, file] if how == "--write" => Ok(Task::Write(file.clone())),
        _ => Err("usage: sdks [--check FILE | --write FILE]".to_owned()),
    }
}

/// Runs every case; fails if a promise was broken.
async fn measure() -> Result<String, String> {
    let cases = Sdk::ALL.iter().flat_map(Case::of);
    let gateway = &Program::build()?;
    let connections = &Connections::new().map_err(|error| error.to_string())?;
    let seen = stream::iter(cases).map(|case| async move { (case, case.measure(connections, gateway).await) });
    let mut seen = seen.buffer_unordered(TOGETHER);
    let (mut counts, mut broken, mut total) = (Counts::default(), Vec::new(), 0);
    while let Some((case, seen)) = seen.next().await {
        let seen = seen?;
        counts.enter(&case, &seen);
        broken.extend(case.broken_promise(&seen));
        total += 1;
    }
    if !broken.is_empty() {
        broken.sort();
        return Err(format!("{} of {total} cases:\n{}", broken.len(), broken.join("\n")));
    }
    eprintln!("{total} cases");
    Ok(table::render(&counts))
}

fn carry_out(task: Task, table: &str) -> Result<(), String> {
    let file = match &task {
        Task::Print => {
            print!("{table}");
            return Ok(());
        }
        Task::Check(file) | Task::Write(file) => file,
    };
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let place = table::find(&text).ok_or_else(|| format!("{file} has no marks for the table"))?;
    let (before, now, after) = (&text[..place.start], &text[place.clone()], &text[place.end..]);
    match task {
        _ if now == table => Ok(()),
        Task::Write(_) => {
            fs::write(file, format!("{before}{table}{after}")).map_err(|error| format!("{file}: {error}"))
        }
        _ => Err(format!("the table in {file} is not what was counted now:\n\n{table}")),
    }
}
