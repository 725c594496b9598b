//! How calls fare when a provider is not well: incidents of all kinds in virtual time, with ours in every set-up, with
//! `reqwest-retry`, with an SDK's loop, and with an oracle that knows when the incident ends. Knows the order of the runs and
//! the command line; what happens, who meets it, what is measured and what is demanded stands beside it.
//!
//! `cargo bench -p peers --bench weather` prints it all, and fails if a bar is missed. After `--`:
//!
//! * `--only built` (a part of the word of one of ours), `--incident 'full pace'` (a part of a name), `--seeds 3`: less of it;
//! * `--brief`: a line for each incident and contender;
//! * `--trace`: each run of the first seed, second by second, and nothing else;
//! * `--gate off`: a bar that is missed is no failure.

mod bars;
mod cells;
mod contender;
mod drive;
mod incident;
mod incidents;
mod oracle;
mod run;
mod table;
mod trace;

use std::process::ExitCode;
use std::time::Instant;

use peers::pool;

use crate::cells::{Cells, Job};
use crate::contender::Contender;
use crate::incident::Incident;
use crate::run::{Failed, Run};
use crate::table::Block;

const USAGE: &str = "usage: weather [--only <one of ours>] [--incident <part of a name>] [--seeds <n>] [--brief] [--trace] \
                     [--gate on|off]";
const SEEDS: u64 = 2;
const FIRST_SEED: u64 = 1;

/// What is asked for.
#[derive(Default)]
struct Asked {
    only: Option<String>,
    incident: Option<String>,
    seeds: Option<u64>,
    brief: bool,
    trace: bool,
    ungated: bool,
}

impl Asked {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, Failed> {
        let mut asked = Self::default();
        let mut words = words.filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(USAGE);
            match word.as_str() {
                "--only" => asked.only = Some(value()?),
                "--incident" => asked.incident = Some(value()?),
                "--seeds" => asked.seeds = Some(value()?.parse()?),
                "--brief" => asked.brief = true,
                "--trace" => asked.trace = true,
                "--gate" => asked.ungated = value()? == "off",
                _ => return Err(USAGE.into()),
            }
        }
        Ok(asked)
    }

    fn wants(&self, incident: &Incident) -> bool {
        self.incident
            .as_ref()
            .is_none_or(|part| incident.name.contains(part.as_str()))
    }

    fn wants_of_ours(&self, contender: Contender) -> bool {
        self.only
            .as_ref()
            .is_none_or(|part| contender.word().contains(part.as_str()))
    }
}

fn main() -> Result<ExitCode, Failed> {
    let asked = Asked::read(std::env::args().skip(1))?;
    let begun = Instant::now();
    let mut incidents = incidents::all();
    incidents.retain(|incident| asked.wants(incident));
    if asked.trace {
        return trace(&asked, &incidents);
    }
    let mut ours = Contender::OURS.to_vec();
    ours.retain(|contender| asked.wants_of_ours(*contender));
    let seeds: Vec<u64> = (FIRST_SEED..)
        .take(usize::try_from(asked.seeds.unwrap_or(SEEDS))?)
        .collect();
    let blocks = meet(&incidents, &ours, &seeds)?;
    for block in &blocks {
        print!("{}", if asked.brief { block.brief() } else { block.full() });
    }
    if !asked.brief {
        print!("\n{}", table::markdown(&blocks));
    }
    let (totals, whole) = table::totals(&blocks, &ours);
    println!(
        "{totals}{} incidents, {:.1} s",
        blocks.len(),
        begun.elapsed().as_secs_f64()
    );
    Ok(if whole || asked.ungated {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Makes all runs.
fn meet<'a>(incidents: &'a [Incident], ours: &'a [Contender], seeds: &[u64]) -> Result<Vec<Block<'a>>, Failed> {
    let jobs: Vec<Job> = incidents
        .iter()
        .enumerate()
        .flat_map(|(at, incident)| cells::jobs(at, incident, ours, seeds))
        .collect();
    let run = |job: &Job| match incidents.get(job.incident) {
        Some(incident) => job.run(incident),
        None => Ok(Run::default()),
    };
    let mut all: Vec<Cells> = incidents.iter().map(|_| Cells::default()).collect();
    for (job, run) in jobs.iter().zip(pool::each(&jobs, run)) {
        if let Some(cells) = all.get_mut(job.incident) {
            cells.add(job, run?);
        }
    }
    let seed = seeds.first().copied().unwrap_or(FIRST_SEED);
    let blocks = incidents.iter().zip(all).map(|(incident, cells)| Block {
        incident,
        cells,
        ours,
        seed,
    });
    Ok(blocks.collect())
}

/// Prints timelines; with `--only`, of others than ours too.
fn trace(asked: &Asked, incidents: &[Incident]) -> Result<ExitCode, Failed> {
    for incident in incidents {
        for contender in Contender::OURS.into_iter().chain(Contender::OTHERS) {
            if asked.wants_of_ours(contender) {
                println!("\n{} · {contender}", incident.name);
                print!("{}", trace::timeline(incident, contender, FIRST_SEED)?);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
