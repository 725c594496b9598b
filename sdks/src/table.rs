//! The README's tables, made of what was counted, and their place in a file. Counts nothing.

use std::collections::HashMap;

use crate::arrangement::{Arrangement, MAX_ATTEMPTS};
use crate::fault::{Course, Fault};
use crate::measure::{Case, PATIENCE, Seen, Sends, Way};
use crate::sdk::{Fit, Sdk};
use crate::version;

const BEGIN: &str = "<!-- sdks: made by `cargo run -p sdks -- --write README.md` -->\n";
const END: &str = "<!-- sdks: end -->\n";

/// The columns of an SDK that takes a client.
const WITH_CLIENT: [Arrangement; 7] = [
    Arrangement::AsItComes,
    Arrangement::Stopped,
    Arrangement::Stacked,
    Arrangement::StackedErrors,
    Arrangement::Ours,
    Arrangement::InOperation,
    Arrangement::Guarded,
];

/// The columns of one that does not.
const WITH_GATEWAY: [Arrangement; 5] = [
    Arrangement::AsItComes,
    Arrangement::Stopped,
    Arrangement::Gateway,
    Arrangement::GatewayStopped,
    Arrangement::GatewayGuarded,
];

/// What was counted against servers that never recover.
#[derive(Debug, Default)]
pub struct Counts(HashMap<(&'static str, Arrangement, Way, Fault), Sends>);

impl Counts {
    /// Enters one measurement.
    pub fn enter(&mut self, case: &Case, seen: &Seen) {
        if let Course::Always(fault) = case.course {
            self.0
                .insert((case.sdk.name, case.arrangement, case.way, fault), seen.sends);
        }
    }

    /// `5`, if it is the same for every fault and way, else which fault costs how many.
    fn cell(&self, sdk: &Sdk, arrangement: Arrangement) -> String {
        let by_way = |way| {
            let of = |fault| self.0.get(&(sdk.name, arrangement, way, fault)).copied();
            let counts: Vec<_> = Fault::ALL
                .into_iter()
                .filter_map(|fault| Some((fault, of(fault)?)))
                .collect();
            phrase(&counts)
        };
        let (call, stream) = (by_way(Way::Call), by_way(Way::Stream));
        match stream {
            _ if call.is_empty() => "–".to_owned(),
            stream if stream.is_empty() || stream == call => call,
            stream => format!("call {call}<br>stream {stream}"),
        }
    }
}

/// `4`, or `4 (reset: 1)`, or `1 (429, 529: no end)`: what most faults cost, and the others.
fn phrase(counts: &[(Fault, Sends)]) -> String {
    let often = |sends: Sends| counts.iter().filter(|(_, other)| *other == sends).count();
    let mut kinds: Vec<Sends> = counts.iter().map(|(_, sends)| *sends).collect();
    kinds.sort_by_key(|&sends| (std::cmp::Reverse(often(sends)), sends));
    kinds.dedup();
    let Some((&most, others)) = kinds.split_first() else {
        return String::new();
    };
    let others = others.iter().map(|&sends| {
        let faults = counts.iter().filter(|(_, other)| *other == sends);
        let names: Vec<_> = faults.map(|(fault, _)| fault.name()).collect();
        format!("{}: {}", names.join(", "), words(sends))
    });
    let others: Vec<_> = others.collect();
    match others.is_empty() {
        true => words(most),
        false => format!("{} ({})", words(most), others.join("; ")),
    }
}

fn words(sends: Sends) -> String {
    match sends {
        Sends::Ended(count) => count.to_string(),
        Sends::Held(count) => format!("{count}²"),
        Sends::NoEnd => "no end".to_owned(),
    }
}

/// The section of the README.
pub fn render(counts: &Counts) -> String {
    let (mut lines, mut sends) = (String::new(), String::new());
    let (mut reasons, mut relayed) = (String::new(), String::new());
    for sdk in Sdk::ALL {
        let name = format!("`{}` {}", sdk.name, version::of(sdk.name).unwrap_or_default());
        let cell = |arrangement| counts.cell(sdk, arrangement);
        let alone = cell(Arrangement::AsItComes);
        let stop = match sdk.stop {
            Some(line) => line,
            None if alone == "1" => "it has none",
            None => "nothing",
        };
        match sdk.client {
            Fit::Takes(line) => {
                row(&mut lines, &[&name, line, stop]);
                let mut cells = vec![name];
                cells.extend(WITH_CLIENT.map(cell));
                row(&mut sends, &cells);
            }
            Fit::Refuses(why) => {
                row(&mut reasons, &[&name, why, stop]);
                let mut cells = vec![name];
                cells.extend(WITH_GATEWAY.map(cell));
                row(&mut relayed, &cells);
            }
        }
    }
    format!(
        "{BEGIN}\
         SDKs that take the client:\n\n\
         | SDK | the client goes in by | its own retries are stopped by |\n\
         |---|---|---|\n{lines}\n\
         Sends for one call, or one stream, to a server that fails for ever, by 429, 500, 529 or a reset connection. Ours is \
         configured for {MAX_ATTEMPTS}.\n\n\
         | SDK | as it comes | its retries stopped | its retries over ours¹ | the same, `GiveUp::Error`¹ | stopped, over ours | its retries over ours, in an \
         `Operation` | its retries over ours, with `outer_retry_guard` |\n\
         |---|---|---|---|---|---|---|---|\n{sends}\n\
         SDKs that do not take it:\n\n\
         | SDK | why not | its own retries are stopped by |\n\
         |---|---|---|\n{reasons}\n\
         Their sends to the same server, straight, and with their base URL at a running [gateway](gateway/README.md) whose \
         `max_attempts` is {MAX_ATTEMPTS}:\n\n\
         | SDK | as it comes | its retries stopped | as it comes, through the gateway | stopped, through the gateway | as it \
         comes, through the gateway with `outer_retry_guard` |\n\
         |---|---|---|---|---|---|\n{relayed}\n\
         –: it has no retries to stop, or no way to stop them. ¹ Without the account's circuit breaker and retry \
         budget, which would make them wait. ² The SDK goes on asking, and the gateway answers from memory until the window \
         is over. \"No end\": still going on after {} s.\n{END}",
        PATIENCE.as_secs(),
    )
}

fn row<S: AsRef<str>>(table: &mut String, cells: &[S]) {
    for cell in cells {
        table.push_str("| ");
        table.push_str(cell.as_ref());
        table.push(' ');
    }
    table.push_str("|\n");
}

/// Where the section stands in a file, its marks included.
pub fn find(file: &str) -> Option<std::ops::Range<usize>> {
    let begin = file.find(BEGIN)?;
    let end = file.get(begin..)?.find(END)?;
    Some(begin..begin + end + END.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_faults_cost_comes_first() {
        let [a, b, c, d] = Fault::ALL;
        let ended = Sends::Ended;
        assert_eq!(
            phrase(&[(a, ended(4)), (b, ended(4)), (c, ended(4)), (d, ended(4))]),
            "4"
        );
        assert_eq!(
            phrase(&[(a, Sends::NoEnd), (b, ended(1)), (c, Sends::NoEnd), (d, ended(1))]),
            "1 (429, 529: no end)"
        );
        assert_eq!(
            phrase(&[(a, ended(4)), (b, ended(4)), (c, ended(1)), (d, ended(2))]),
            "4 (529: 1; reset: 2)"
        );
        assert_eq!(phrase(&[]), "");
    }

    #[test]
    fn the_section_is_found_between_its_marks() {
        let file = format!("before\n{BEGIN}old\n{END}after\n");
        assert_eq!(
            find(&file).map(|place| &file[place]),
            Some(&*format!("{BEGIN}old\n{END}"))
        );
        assert_eq!(find(&format!("{END}{BEGIN}")), None);
    }
}
