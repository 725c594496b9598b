//! An answer knows what is done about one stream. It does not know frames, or the stream it is for.

use std::time::Duration;

use crate::gate::Gate;
use crate::script::Item;

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

/// What the server does about one stream. All times are in milliseconds on tokio's clock.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) act: Act,
    pub(super) after: Duration,
    pub(super) gate: Option<Gate>,
    pub(super) late: Duration,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
    pub(super) finish: Finish,
    pub(super) close: bool,
    times: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Act {
    Reply { status: u16 },
    Reset { code: u32 },
    GoAway { covering: bool, code: u32 },
    Hang,
    Close { rst: bool },
}

/// What follows the body of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Finish {
    End,
    Nothing,
    Reset { code: u32 },
}

fn answer(act: Act) -> Answer {
    Answer {
        act,
        after: Duration::ZERO,
        gate: None,
        late: Duration::ZERO,
        headers: Vec::new(),
        body: Vec::new(),
        finish: Finish::End,
        close: false,
        times: 1,
    }
}

/// A reply with this status.
pub fn reply(status: u16) -> Answer {
    answer(Act::Reply { status })
}

/// RST_STREAM with REFUSED_STREAM as soon as the head has come: the request was not processed.
pub fn refused() -> Answer {
    reset(REFUSED_STREAM)
}

/// RST_STREAM with ENHANCE_YOUR_CALM, after the whole request.
pub fn enhance_your_calm() -> Answer {
    reset(ENHANCE_YOUR_CALM)
}

/// RST_STREAM with INTERNAL_ERROR, after the whole request: it may have been processed.
pub fn internal_error() -> Answer {
    reset(INTERNAL_ERROR)
}

/// RST_STREAM with this code.
pub fn reset(code: u32) -> Answer {
    answer(Act::Reset { code })
}

/// GOAWAY with NO_ERROR whose last stream is below this one, as soon as the head has come: the request was not processed.
/// Other streams go on, unless [`close`](Answer::close) says otherwise.
pub fn goaway_above() -> Answer {
    goaway(NO_ERROR)
}

/// As [`goaway_above`], with this code.
pub fn goaway(code: u32) -> Answer {
    answer(Act::GoAway { covering: false, code })
}

/// GOAWAY with NO_ERROR whose last stream is this one, after the whole request, and then the end of the connection: the
/// request may have been processed.
pub fn goaway_covering() -> Answer {
    answer(Act::GoAway {
        covering: true,
        code: NO_ERROR,
    })
    .close()
}

/// Never answers the stream; others go on.
pub fn hang() -> Answer {
    answer(Act::Hang)
}

/// Resets the connection, after the whole request.
pub fn rst() -> Answer {
    answer(Act::Close { rst: true })
}

/// Closes the connection without a GOAWAY, after the whole request.
pub fn fin() -> Answer {
    answer(Act::Close { rst: false })
}

impl Answer {
    /// Adds a header field to a reply.
    pub fn header(mut self, name: &str, value: impl ToString) -> Answer {
        self.headers.push((name.to_owned(), value.to_string().into_bytes()));
        self
    }

    /// `retry-after`, in seconds or as a date.
    pub fn ra(self, value: impl ToString) -> Answer {
        self.header("retry-after", value)
    }

    /// `retry-after-ms`.
    pub fn ms(self, value: impl ToString) -> Answer {
        self.header("retry-after-ms", value)
    }

    /// The body of a reply.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Answer {
        self.body = body.into();
        self
    }

    /// A body with `content-type: application/json`.
    pub fn json(self, body: impl Into<Vec<u8>>) -> Answer {
        self.header("content-type", "application/json").body(body)
    }

    /// Waits before doing anything.
    pub fn after(mut self, ms: u64) -> Answer {
        self.after = Duration::from_millis(ms);
        self
    }

    /// Waits for the gate before doing anything.
    pub fn held(mut self, gate: &Gate) -> Answer {
        self.gate = Some(gate.clone());
        self
    }

    /// Sends the head of a reply at once, and the body only after a wait.
    pub fn late(mut self, ms: u64) -> Answer {
        self.late = Duration::from_millis(ms);
        self
    }

    /// Sends head and body of a reply, and then never ends the stream.
    pub fn stalled(mut self) -> Answer {
        self.finish = Finish::Nothing;
        self
    }

    /// Sends head and body of a reply, and then resets the stream with this code instead of ending it.
    pub fn broken(mut self, code: u32) -> Answer {
        self.finish = Finish::Reset { code };
        self
    }

    /// Closes the connection afterwards.
    pub fn close(mut self) -> Answer {
        self.close = true;
        self
    }

    /// Stands for so many items in a row.
    pub fn times(mut self, times: usize) -> Answer {
        self.times = times;
        self
    }

    /// A server that does not process a request has no reason to wait for the rest of it.
    pub(super) fn at_head(&self) -> bool {
        matches!(
            self.act,
            Act::Reset { code: REFUSED_STREAM } | Act::GoAway { covering: false, .. }
        )
    }
}

impl From<u16> for Answer {
    fn from(status: u16) -> Answer {
        reply(status)
    }
}

impl Item for Answer {
    fn count(&self) -> usize {
        self.times
    }

    fn of_empty_script() -> Answer {
        reply(500).body("the script is empty")
    }
}
