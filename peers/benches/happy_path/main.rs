//! What a call costs that goes well at once: allocations, bytes, time and instructions, with no retry layer, with
//! `reqwest-retry` and with ours. Knows the order of the measurements and the bars; how each is taken stands beside it.
//!
//! `cargo bench -p peers --bench happy_path` prints the tables and fails if a bar is missed. After `--`, the words
//! `allocations <layer>` list each allocation of one call with the frames that led to it (build with
//! `CARGO_PROFILE_BENCH_DEBUG=1` to see lines).

mod call;
mod count;
mod instructions;
mod table;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use peers::Layer;

use crate::call::{Caller, Loopback, Stub, Transport};
use crate::table::{Cost, Table};

#[global_allocator]
static ALLOCATOR: count::Counting = count::Counting;

/// Allocations that ours may make beyond reqwest-retry's: the marker in the extensions by which a layer below knows that
/// the call is taken care of.
const EXTRA_ALLOCATIONS: f64 = 2.0;
/// Instructions that ours may take, as a multiple of reqwest-retry's.
const INSTRUCTIONS_RATIO: f64 = 1.1;

/// Rounds of each measurement of time; every layer has its turn in each.
const ROUNDS: usize = 101;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => measure(),
        ["allocations", layer] => {
            explain(layer.parse()?)?;
            Ok(ExitCode::SUCCESS)
        }
        ["calls", transport, layer, calls] => {
            let (layer, calls) = (layer.parse()?, calls.parse()?);
            match transport.parse()? {
                Transport::Stub => Stub::new(layer)?.run(calls)?,
                Transport::Loopback => Loopback::new(layer)?.run(calls)?,
            }
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("usage: happy_path [allocations <layer>]".into()),
    }
}

/// All measurements, and the bars.
fn measure() -> Result<ExitCode, Box<dyn Error>> {
    println!(
        "POST, four headers, {} bytes of JSON, answered 200 at once\n",
        call::BODY.len()
    );
    let stub = table(Transport::Stub, 200, Stub::new)?;
    println!("{stub}");
    println!("{}", table(Transport::Loopback, 40, Loopback::new)?);

    let (ours, peer) = (stub.cost(Layer::Ours)?, stub.cost(Layer::ReqwestRetry)?);
    let extra = ours.allocations - peer.allocations;
    let mut met = bar(
        extra <= EXTRA_ALLOCATIONS,
        &format!("{extra:+.2} allocations to reqwest-retry's over the stub; {EXTRA_ALLOCATIONS:+} allowed"),
    );
    match (ours.instructions, peer.instructions) {
        (Some(ours), Some(peer)) => {
            let ratio = ours / peer;
            met &= bar(
                ratio <= INSTRUCTIONS_RATIO,
                &format!("{ratio:.3} × reqwest-retry's instructions over the stub; {INSTRUCTIONS_RATIO} allowed"),
            );
        }
        _ => println!("SKIP  instructions: valgrind was not found; it counts them (apt-get install valgrind)"),
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn bar(met: bool, what: &str) -> bool {
    println!("{}  {what}", if met { "PASS" } else { "FAIL" });
    met
}

/// Measures every layer over one transport, taking turns.
fn table<C: Caller>(
    transport: Transport,
    calls: usize,
    start: impl Fn(Layer) -> Result<C, Box<dyn Error>>,
) -> Result<Table, Box<dyn Error>> {
    let mut callers = Vec::new();
    for layer in Layer::ALL {
        let caller = start(layer)?;
        caller.run(calls)?;
        callers.push((layer, caller, Vec::new()));
    }
    for _ in 0..ROUNDS {
        for (_, caller, times) in &mut callers {
            let prepared = caller.prepare(calls)?;
            let begun = Instant::now();
            let answers = caller.call_all(prepared)?;
            times.push(begun.elapsed().as_nanos() as f64 / calls as f64);
            drop(answers);
        }
    }
    let mut table = Table::new(transport);
    for (layer, caller, mut times) in callers {
        times.sort_by(f64::total_cmp);
        let counted = count::during(&caller, calls)?;
        table.add(
            layer,
            Cost {
                allocations: counted.allocations as f64 / calls as f64,
                bytes: counted.bytes as f64 / calls as f64,
                nanoseconds: times[times.len() / 2],
                instructions: instructions::per_call(transport, layer)?,
            },
        );
    }
    Ok(table)
}

/// Each allocation of one call over the stub, with its origin.
fn explain(layer: Layer) -> Result<(), Box<dyn Error>> {
    let stub = Stub::new(layer)?;
    stub.run(10)?;
    let prepared = stub.prepare(1)?;
    let (answers, traces) = count::traced(|| stub.call_all(prepared));
    answers?;
    for (number, (bytes, trace)) in traces.iter().enumerate() {
        println!("{}. {bytes} bytes\n{trace}", number + 1);
    }
    Ok(())
}
