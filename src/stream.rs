//! The start of a streamed answer: how long it says nothing, and whether it then gives output or an error. Data in, data
//! out; knows neither the body that the bytes come from nor a clock.

use std::time::Duration;

use crate::event_stream::Events;
use crate::provider::Said;

/// How much of a stream is held back until it tells, and for how long past the headers.
pub(crate) const HOLD_BYTES: usize = 16 * 1024;
pub(crate) const HOLD_TIME: Duration = Duration::from_secs(2);

/// What the start of a stream has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Told {
    /// Nothing yet.
    #[default]
    Nothing,
    /// Something of the answer, or more than is held back.
    Output,
    /// That there will be no answer; the error ends after so many bytes.
    Failure(usize),
}

/// Reads the start of a stream. What it tells depends on the bytes alone, and not on how they are cut.
#[derive(Debug, Default)]
pub(crate) struct StreamStart {
    events: Events,
    read: usize,
    told: Told,
}

impl StreamStart {
    /// Reads on in a stream of which this much has come: what was read before, and more.
    pub(crate) fn read(&mut self, beginning: &[u8]) -> Told {
        let held = beginning.get(..HOLD_BYTES).unwrap_or(beginning);
        for &byte in held.get(self.read..).unwrap_or_default() {
            if self.told != Told::Nothing {
                break;
            }
            self.read += 1;
            self.told = match self.events.take(byte).map(|event| Said::by(&event)) {
                None | Some(Said::Nothing | Said::Opening) => Told::Nothing,
                Some(Said::Output) => Told::Output,
                Some(Said::Error) => Told::Failure(self.read),
            };
        }
        if self.told == Told::Nothing && self.read == HOLD_BYTES {
            self.told = Told::Output;
        }
        self.told
    }

    /// What it has told so far.
    pub(crate) const fn told(&self) -> Told {
        self.told
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::provider::Envelope;

    const ERROR: &str = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
    const OUTPUT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"é\"}}]}\n\n";
    const OPENING: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n";
    const PING: &str = ": ping\n\nevent: ping\ndata: {}\n\n";

    fn told(text: &str) -> Told {
        StreamStart::default().read(text.as_bytes())
    }

    #[test]
    fn the_first_that_tells_decides() {
        assert_eq!(told(""), Told::Nothing);
        assert_eq!(told(&format!("{PING}{OPENING}")), Told::Nothing);
        assert_eq!(told(&format!("{PING}{OPENING}{OUTPUT}{ERROR}")), Told::Output);
        let before = format!("{PING}{OPENING}");
        let end = before.len() + ERROR.len();
        assert_eq!(told(&format!("{before}{ERROR}{OUTPUT}")), Told::Failure(end));
        assert_eq!(
            told(ERROR.trim_end()),
            Told::Nothing,
            "an event ends with its blank line"
        );
    }

    #[test]
    fn what_does_not_tell_within_the_bound_is_output() {
        let pings = ":\n\n".repeat(HOLD_BYTES);
        assert_eq!(told(pings.get(..HOLD_BYTES - 1).unwrap()), Told::Nothing);
        assert_eq!(told(&pings), Told::Output);
        let at = |start: usize| format!("{}{ERROR}", pings.get(..start).unwrap());
        let last = (HOLD_BYTES - ERROR.len()) / 3 * 3;
        assert_eq!(told(&at(last)), Told::Failure(last + ERROR.len()));
        assert_eq!(told(&at(last + 3)), Told::Output);
        assert_eq!(
            told(&format!("data: {{\"error\":\"{}", "x".repeat(1 << 20))),
            Told::Output
        );
    }

    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let known = [
            ERROR,
            OUTPUT,
            OPENING,
            PING,
            "\n",
            "\r",
            "\r\n",
            "data: ",
            "event: error",
            "\u{feff}",
            ":",
            "{\"error\":{\"code\":1}}",
        ];
        prop_oneof![
            4 => proptest::sample::select(known.map(|text| text.as_bytes().to_vec()).to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..9),
            1 => (0usize..6_000).prop_map(|length| vec![b'x'; length]),
        ]
    }

    proptest! {
        /// The same bytes tell the same, however they are cut; and what ends with an error is one to the classifier.
        #[test]
        fn what_is_told_does_not_depend_on_the_chunks(
            pieces in proptest::collection::vec(piece(), 0..12),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
        ) {
            let bytes = [PING.as_bytes(), &pieces.concat()].concat();
            let whole = StreamStart::default().read(&bytes);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let mut start = StreamStart::default();
            for cut in cuts {
                start.read(bytes.get(..cut).unwrap());
            }
            prop_assert_eq!(start.told(), whole);
            if bytes.len() < 3_000 {
                let mut start = StreamStart::default();
                for cut in 0..=bytes.len() {
                    start.read(bytes.get(..cut).unwrap());
                }
                prop_assert_eq!(start.told(), whole);
            }
            if let Told::Failure(end) = whole {
                prop_assert!(end <= HOLD_BYTES.min(bytes.len()));
                prop_assert_eq!(StreamStart::default().read(bytes.get(..end).unwrap()), whole);
                prop_assert_eq!(StreamStart::default().read(bytes.get(..end - 1).unwrap()), Told::Nothing);
                prop_assert!(Envelope::of(bytes.get(..end).unwrap()).is_error());
            }
        }
    }
}
