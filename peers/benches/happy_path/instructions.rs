//! Counts instructions: runs this program again under valgrind. Knows how valgrind is called and what it prints; nothing
//! of calls but the name of the function that makes one.

use std::error::Error;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

use peers::Layer;

use crate::call::Transport;

/// Instructions of one call; `None` without valgrind. Two runs of different length, so that what is done once per run
/// cancels out.
pub(crate) fn per_call(transport: Transport, layer: Layer) -> Result<Option<f64>, Box<dyn Error>> {
    let (few, many) = (100_u32, 400_u32);
    let (Some(less), Some(more)) = (collected(transport, layer, few)?, collected(transport, layer, many)?) else {
        return Ok(None);
    };
    Ok(Some((more as f64 - less as f64) / f64::from(many - few)))
}

fn collected(transport: Transport, layer: Layer, calls: u32) -> Result<Option<u64>, Box<dyn Error>> {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        // Only within the call, on the thread that makes it.
        .arg(format!("--toggle-collect=*measured_{}_call*", transport.word()))
        .arg(std::env::current_exe()?)
        .args(["calls", transport.word(), layer.word(), &calls.to_string()])
        .stdin(Stdio::null())
        .output();
    let run = match run {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        run => run?,
    };
    let said = String::from_utf8_lossy(&run.stderr);
    let number = said
        .lines()
        .find_map(|line| line.split_once("Collected : "))
        .map(|(_, number)| number.trim());
    match number {
        Some(number) if run.status.success() => Ok(Some(number.parse()?)),
        _ => Err(format!("valgrind did not count: {said}").into()),
    }
}
