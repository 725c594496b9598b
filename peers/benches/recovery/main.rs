//! How a batch fares when fifty workers share one allowance: six hundred requests against simulated providers, in virtual
//! time, with each way to share it. Knows the order of the runs and the command line; what is run, measured and demanded
//! stands beside it.
//!
//! `cargo bench -p peers --bench recovery` prints the tables. After `--`:
//!
//! * `--only ours` (or a part of another contender's word), `--provider bucket10`, `--headers on|off`, `--seeds 3`: less of it,
//!   and of the table's providers only;
//! * `--unseen`: only those that no constant was chosen by;
//! * `--trace`: each run of the first seed as a timeline;
//! * `--gate`: a bar that is missed is an exit code.

mod bars;
mod contender;
mod governed;
mod run;
mod scene;
mod summary;
mod trace;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use peers::pool;

use crate::contender::Contender;
use crate::run::Run;
use crate::scene::Scene;
use crate::summary::{Row, Tally};

const USAGE: &str = "usage: recovery [--only <contender>] [--provider <name>] [--headers on|off] [--seeds <n>] [--unseen] \
                     [--trace] [--gate]";

/// What is asked for.
#[derive(Default)]
struct Asked {
    only: Option<String>,
    provider: Option<String>,
    headers: Option<bool>,
    seeds: Option<u64>,
    unseen: bool,
    trace: bool,
    gate: bool,
}

impl Asked {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut asked = Self::default();
        let mut words = words.filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(USAGE);
            match word.as_str() {
                "--only" => asked.only = Some(value()?),
                "--provider" => asked.provider = Some(value()?.replace('_', "")),
                "--headers" => asked.headers = Some(value()? == "on"),
                "--seeds" => asked.seeds = Some(value()?.parse()?),
                "--unseen" => asked.unseen = true,
                "--trace" => asked.trace = true,
                "--gate" => asked.gate = true,
                _ => return Err(USAGE.into()),
            }
        }
        Ok(asked)
    }

    fn wants_scene(&self, scene: &Scene) -> bool {
        let name = scene.name.replace('_', "");
        self.provider.as_ref().is_none_or(|provider| *provider == name)
            && self.headers.is_none_or(|headers| headers == scene.headers)
    }

    fn wants(&self, contender: Contender) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| contender.word().contains(only.as_str()))
    }

    /// Is it the whole that is asked for?
    fn is_whole(&self) -> bool {
        self.only.is_none() && self.provider.is_none() && self.headers.is_none() && !self.unseen
    }
}

/// A table's seeds, and others for the providers that were not looked at.
const SEEDS: u64 = 10;
const FIRST_SEED: u64 = 1;
const FIRST_UNSEEN_SEED: u64 = 7001;

fn main() -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let asked = Asked::read(std::env::args().skip(1))?;
    let begun = Instant::now();
    let mut tally = Tally::default();
    if !asked.unseen {
        println!(
            "{} requests, {} workers, 2 s each, 120 a minute allowed, 0–20 ms on the way, refusals after 50 ms with exact hints",
            scene::REQUESTS,
            scene::WORKERS
        );
        compare(scene::known(), &Contender::ALL, FIRST_SEED, true, &asked, &mut tally)?;
    }
    if asked.unseen || asked.is_whole() {
        println!("\nProviders and seeds that no constant was chosen by");
        compare(
            scene::unseen(),
            &Contender::OURS,
            FIRST_UNSEEN_SEED,
            false,
            &asked,
            &mut tally,
        )?;
    }
    println!("\n{tally}\n{:.1} s", begun.elapsed().as_secs_f64());
    Ok(if asked.gate && tally.missed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Lets contenders meet providers, and prints a table of each.
fn compare(
    scenes: Vec<Scene>,
    contenders: &[Contender],
    first_seed: u64,
    with_bars: bool,
    asked: &Asked,
    tally: &mut Tally,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let scenes: Vec<Scene> = scenes.into_iter().filter(|scene| asked.wants_scene(scene)).collect();
    let contenders: Vec<Contender> = contenders.iter().copied().filter(|one| asked.wants(*one)).collect();
    if asked.trace {
        for (scene, contender) in scenes
            .iter()
            .flat_map(|scene| contenders.iter().map(move |one| (scene, *one)))
        {
            println!("\n{} · {}", scene.title(), contender);
            print!("{}", trace::timeline(scene, contender, first_seed)?);
        }
    }
    let seeds = first_seed..first_seed + asked.seeds.unwrap_or(SEEDS);
    let mut jobs = Vec::new();
    for scene in 0..scenes.len() {
        for contender in 0..contenders.len() {
            jobs.extend(seeds.clone().map(|seed| (scene, contender, seed)));
        }
    }
    let runs = pool::each(&jobs, |(scene, contender, seed)| {
        run::run(&scenes[*scene], contenders[*contender], *seed)
    });
    let runs: Vec<Run> = runs.into_iter().collect::<Result<_, _>>()?;
    let per_row = jobs.len() / (scenes.len() * contenders.len()).max(1);
    let mut rows = runs.chunks(per_row.max(1));
    for scene in &scenes {
        println!("\n{}", Row::head(scene));
        for contender in &contenders {
            let bars = with_bars.then(|| bars::of(scene, *contender)).flatten();
            let row = Row::of(*contender, rows.next().unwrap_or_default(), bars);
            println!("{row}");
            tally.count(scene, &row);
        }
    }
    Ok(())
}
