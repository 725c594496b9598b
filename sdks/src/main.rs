//! The command line: prints the README's table, compares it with a file, or writes it there.

use std::process::ExitCode;
use std::{env, fs};

use futures_util::{StreamExt, stream};
use sdks::arrangement::{Arrangement, Connections};
use sdks::gateway::Gateway;
use sdks::measure::Case;
use sdks::sdk::{Base, Sdk};
use sdks::table::{self, Counts};
use testbed::Server;

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
    let connections = &Connections::new().map_err(|error| error.to_string())?;
    let cases = stream::iter(Sdk::ALL.iter().flat_map(Case::of));
    let (behind, direct): (Vec<_>, Vec<_>) = cases
        .then(|case| async move { (case, case.server().await) })
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .partition(|(case, _)| case.arrangement == Arrangement::Gateway);
    // one gateway before all that can be told by a path, and one before each other
    let (told, alone): (Vec<_>, Vec<_>) = behind.iter().partition(|(case, _)| case.sdk.base == Base::Path);
    let gateway = gateway_before(&told)?;
    let gateways: Vec<_> = alone
        .iter()
        .map(|one| gateway_before(&[*one]))
        .collect::<Result<_, _>>()?;

    let told = told
        .iter()
        .enumerate()
        .map(|(number, (case, server))| (case, server, gateway.url(number)));
    let alone = alone
        .iter()
        .zip(&gateways)
        .map(|((case, server), gateway)| (case, server, gateway.origin()));
    let direct = direct.iter().map(|(case, server)| (case, server, server.url("")));
    let seen = stream::iter(direct.chain(told).chain(alone))
        .map(|(case, server, url)| async move { (case, case.measure(server, url, connections).await) });
    let mut seen = seen.buffer_unordered(TOGETHER);
    let (mut counts, mut broken, mut total) = (Counts::default(), Vec::new(), 0);
    while let Some((case, seen)) = seen.next().await {
        counts.enter(case, &seen);
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

fn gateway_before(behind: &[&(Case, Server)]) -> Result<Gateway, String> {
    let urls: Vec<_> = behind.iter().map(|(_, server)| server.url("")).collect();
    Gateway::before(urls.iter().map(String::as_str)).map_err(|error| error.to_string())
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
