//! A reply knows what is sent for one request, down to pauses and faults. It does not know the connection it is sent on,
//! or which request it answers.

use std::time::Duration;

use crate::event::Event;
use crate::gate::Gate;
use crate::script::Item;

/// What the server does with one request: an answer, or one of the ways to fail to give one.
///
/// Made by [`reply`], [`sse`], [`hang`], [`rst`] or [`fin`], then refined by the methods here. All times are in
/// milliseconds on tokio's clock.
#[derive(Clone, Debug)]
pub struct Reply {
    manner: Manner,
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    pieces: Vec<Vec<u8>>,
    framing: Framing,
    filler: &'static [u8],
    trailers: Vec<(String, String)>,
    interim: Vec<u8>,
    after: Duration,
    gate: Option<Gate>,
    late: Duration,
    body_gate: Option<Gate>,
    every: Duration,
    fault: Option<Fault>,
    split: Split,
    then: Then,
    rst: bool,
    times: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    Answer,
    Hang,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Framing {
    Length,
    Chunked,
    Endless,
    UntilClose,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The body stops after so many bytes and the connection closes.
    Cut(usize),
    /// The head stops after so many bytes and the connection closes.
    CutHead(usize),
    /// All pieces are sent, but the body never ends.
    Stalled,
}

#[derive(Clone, Debug)]
enum Split {
    No,
    At(Vec<usize>),
    Every(usize),
}

/// What becomes of the connection after a reply.
#[derive(Clone, Debug)]
pub(crate) enum Then {
    Next,
    Close,
    CloseWhenIdle(Duration),
    CloseWhenOpen(Gate),
}

/// One thing to do on the socket.
#[derive(Debug)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Pause(Duration),
    Hold(Gate),
    Forever { bytes: Vec<u8>, pause: Duration },
    Hang,
    Close,
}

/// A reply spelled out for one request.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) then: Then,
    pub(crate) rst: bool,
}

impl Plan {
    /// These bytes, and then the next request.
    pub(crate) fn bytes(bytes: &[u8]) -> Plan {
        Plan {
            steps: vec![Step::Send(bytes.to_vec())],
            then: Then::Next,
            rst: false,
        }
    }
}

/// An answer with this status and, until a body is given, an empty body with `content-length: 0`.
pub fn reply(status: u16) -> Reply {
    Reply {
        manner: Manner::Answer,
        status,
        headers: Vec::new(),
        pieces: Vec::new(),
        framing: Framing::Length,
        // Blanks, so that a JSON text that they follow stays one.
        filler: &[b' '; 1024],
        trailers: Vec::new(),
        interim: Vec::new(),
        after: Duration::ZERO,
        gate: None,
        late: Duration::ZERO,
        body_gate: None,
        every: Duration::ZERO,
        fault: None,
        split: Split::No,
        then: Then::Next,
        rst: false,
        times: 1,
    }
}

/// 200 with a `text/event-stream` of these events, one chunk for each.
pub fn sse<E: Into<Event>>(events: impl IntoIterator<Item = E>) -> Reply {
    let chunks = events.into_iter().map(|event| event.into().into_bytes());
    Reply {
        filler: b": ping\n\n",
        ..reply(200).header("content-type", "text/event-stream").chunks(chunks)
    }
}

/// Reads the request and never answers.
pub fn hang() -> Reply {
    Reply {
        manner: Manner::Hang,
        ..reply(200)
    }
}

/// Reads the request, then resets the connection.
pub fn rst() -> Reply {
    Reply { rst: true, ..fin() }
}

/// Reads the request, then closes the connection before any byte of an answer.
pub fn fin() -> Reply {
    Reply {
        manner: Manner::Close,
        ..reply(200)
    }
}

impl Reply {
    /// Adds a header field; the same name may come more than once. A given `content-length` or `transfer-encoding` is
    /// sent instead of the true one.
    pub fn header(self, name: &str, value: impl ToString) -> Reply {
        self.header_bytes(name, value.to_string())
    }

    /// Adds a header field whose value need not be text.
    pub fn header_bytes(mut self, name: &str, value: impl Into<Vec<u8>>) -> Reply {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// `retry-after`, in seconds or as a date.
    pub fn ra(self, value: impl ToString) -> Reply {
        self.header("retry-after", value)
    }

    /// `retry-after-ms`.
    pub fn ms(self, value: impl ToString) -> Reply {
        self.header("retry-after-ms", value)
    }

    /// The body, framed by `content-length`.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Reply {
        self.pieces = vec![body.into()];
        self
    }

    /// A body with `content-type: application/json`.
    pub fn json(self, body: impl Into<Vec<u8>>) -> Reply {
        self.header("content-type", "application/json").body(body)
    }

    /// A body of so many bytes: the alphabet, over and over.
    pub fn size(self, bytes: usize) -> Reply {
        self.body((b'a'..=b'z').cycle().take(bytes).collect::<Vec<u8>>())
    }

    /// A body with `transfer-encoding: chunked`, in these chunks. Empty ones are left out, since an empty chunk is the
    /// end.
    pub fn chunks<C: Into<Vec<u8>>>(mut self, chunks: impl IntoIterator<Item = C>) -> Reply {
        self.pieces = chunks.into_iter().map(Into::into).collect();
        self.framing = Framing::Chunked;
        self
    }

    /// Adds a trailer field, which needs a chunked body and makes the body one.
    pub fn trailer(mut self, name: &str, value: impl ToString) -> Reply {
        self.trailers.push((name.to_owned(), value.to_string()));
        self.framing = Framing::Chunked;
        self
    }

    /// `body∞`: after the body given so far, chunk after chunk for ever (blanks, or comments in a [`sse`] reply), as fast
    /// as the client reads or one [`every`](Reply::every) so often.
    pub fn endless(mut self) -> Reply {
        self.framing = Framing::Endless;
        self
    }

    /// No `content-length` and no chunks: the body ends where the connection does.
    pub fn until_close(mut self) -> Reply {
        self.framing = Framing::UntilClose;
        self.close()
    }

    /// Pauses between chunks, events and split pieces.
    pub fn every(mut self, ms: u64) -> Reply {
        self.every = Duration::from_millis(ms);
        self
    }

    /// Waits before the first byte: slow headers, or a late [`rst`] or [`fin`].
    pub fn after(mut self, ms: u64) -> Reply {
        self.after = Duration::from_millis(ms);
        self
    }

    /// Waits for the gate before the first byte.
    pub fn held(mut self, gate: &Gate) -> Reply {
        self.gate = Some(gate.clone());
        self
    }

    /// Sends the head at once, and the body only after a wait.
    pub fn late(mut self, ms: u64) -> Reply {
        self.late = Duration::from_millis(ms);
        self
    }

    /// Sends the head at once, and the body when the gate is opened.
    pub fn body_held(mut self, gate: &Gate) -> Reply {
        self.body_gate = Some(gate.clone());
        self
    }

    /// Sends the head and the first `bytes` of the body, framed as if all of it came, then closes.
    pub fn cut(mut self, bytes: usize) -> Reply {
        self.fault = Some(Fault::Cut(bytes));
        self
    }

    /// Sends the whole body but not its end, then closes: a stream that dies. Needs a chunked body, since one with a
    /// length is then whole.
    pub fn broken(self) -> Reply {
        self.cut(usize::MAX)
    }

    /// Sends the first `bytes` of the head, then closes.
    pub fn cut_head(mut self, bytes: usize) -> Reply {
        self.fault = Some(Fault::CutHead(bytes));
        self
    }

    /// Sends the body given but not its end, and then nothing more: a stream that goes silent. A body with a length
    /// announces one byte more than it has.
    pub fn stalled(mut self) -> Reply {
        self.fault = Some(Fault::Stalled);
        self
    }

    /// Sends a reply with this status, a 1xx, before everything else.
    pub fn interim(mut self, status: u16) -> Reply {
        self.interim
            .extend(format!("HTTP/1.1 {status} {}\r\n\r\n", reason(status)).bytes());
        self
    }

    /// 103 with this `link`, before everything else.
    pub fn early_hints(mut self, link: &str) -> Reply {
        self.interim
            .extend(format!("HTTP/1.1 103 {}\r\nlink: {link}\r\n\r\n", reason(103)).bytes());
        self
    }

    /// Sends the bytes, head included, in pieces of these lengths and the rest as the last piece. Between pieces there is
    /// a pause, of 1 ms if [`every`](Reply::every) says nothing else.
    pub fn split(mut self, lengths: impl IntoIterator<Item = usize>) -> Reply {
        self.split = Split::At(lengths.into_iter().collect());
        self
    }

    /// As [`split`](Reply::split), in pieces of one length to the end.
    pub fn split_every(mut self, bytes: usize) -> Reply {
        self.split = Split::Every(bytes.max(1));
        self
    }

    /// Says `connection: close` and closes after the reply; else the connection is kept.
    pub fn close(self) -> Reply {
        Reply {
            then: Then::Close,
            ..self.header("connection", "close")
        }
    }

    /// Lets the client believe that the connection is kept, and closes it once it has been idle for so long.
    pub fn idle_close(mut self, ms: u64) -> Reply {
        self.then = Then::CloseWhenIdle(Duration::from_millis(ms));
        self
    }

    /// As [`idle_close`](Reply::idle_close), once the gate is open: for a test that blocks the client meanwhile (see
    /// [`Server::start_apart`](crate::Server::start_apart)), so that it cannot notice the close before its next request.
    pub fn idle_close_when(mut self, gate: &Gate) -> Reply {
        self.then = Then::CloseWhenOpen(gate.clone());
        self
    }

    /// Whatever closes the connection in this reply does it by a reset.
    pub fn rst(mut self) -> Reply {
        self.rst = true;
        self
    }

    /// Stands for so many items in a row.
    pub fn times(mut self, times: usize) -> Reply {
        self.times = times;
        self
    }

    /// The bytes and waits of this reply to a request with this method.
    pub(crate) fn plan(&self, method: &str) -> Plan {
        let mut steps = Steps::default();
        steps.pause(self.after);
        steps.hold(&self.gate);
        match self.manner {
            Manner::Hang => steps.push(Step::Hang),
            Manner::Close => steps.push(Step::Close),
            Manner::Answer => self.answer(method, &mut steps),
        }
        let gap = if self.every.is_zero() {
            Duration::from_millis(1)
        } else {
            self.every
        };
        let steps = match &self.split {
            Split::No => steps.0,
            Split::At(lengths) => split(steps.0, lengths.iter().copied().chain([usize::MAX]), gap),
            Split::Every(length) => split(steps.0, std::iter::repeat(*length), gap),
        };
        Plan {
            steps,
            then: self.then.clone(),
            rst: self.rst,
        }
    }

    fn answer(&self, method: &str, steps: &mut Steps) {
        steps.send(&self.interim);
        let head = self.head();
        if let Some(Fault::CutHead(bytes)) = self.fault {
            steps.send(&head[..bytes.min(head.len())]);
            steps.push(Step::Close);
            return;
        }
        steps.send(&head);
        if method.eq_ignore_ascii_case("HEAD") || !self.may_have_body() {
            return;
        }
        steps.pause(self.late);
        steps.hold(&self.body_gate);
        let chunked = matches!(self.framing, Framing::Chunked | Framing::Endless);
        let mut left = match self.fault {
            Some(Fault::Cut(bytes)) => bytes,
            _ => usize::MAX,
        };
        for (index, piece) in self.pieces.iter().filter(|piece| !piece.is_empty()).enumerate() {
            // A split sets the pauses itself.
            if index > 0 && matches!(self.split, Split::No) {
                steps.pause(self.every);
            }
            let whole = left >= piece.len();
            if chunked {
                steps.send(format!("{:x}\r\n", piece.len()).as_bytes());
            }
            steps.send(&piece[..piece.len().min(left)]);
            if chunked && whole {
                steps.send(b"\r\n");
            }
            left = left.saturating_sub(piece.len());
            if left == 0 {
                break;
            }
        }
        match (self.fault, self.framing) {
            (Some(Fault::Cut(_)), _) => steps.push(Step::Close),
            (Some(Fault::Stalled), _) => steps.push(Step::Hang),
            (_, Framing::Endless) => {
                if !self.pieces.is_empty() {
                    steps.pause(self.every);
                }
                let mut bytes = format!("{:x}\r\n", self.filler.len()).into_bytes();
                bytes.extend(self.filler);
                bytes.extend(b"\r\n");
                steps.push(Step::Forever {
                    bytes,
                    pause: self.every,
                });
            }
            (_, Framing::Chunked) => {
                let mut end = b"0\r\n".to_vec();
                for (name, value) in &self.trailers {
                    end.extend(format!("{name}: {value}\r\n").bytes());
                }
                end.extend(b"\r\n");
                steps.send(&end);
            }
            (_, Framing::Length | Framing::UntilClose) => {}
        }
    }

    fn head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status)).into_bytes();
        for (name, value) in &self.headers {
            head.extend(name.bytes());
            head.extend(b": ");
            head.extend(value);
            head.extend(b"\r\n");
        }
        let given = ["content-length", "transfer-encoding"];
        let framed = self
            .headers
            .iter()
            .any(|(name, _)| given.iter().any(|g| name.eq_ignore_ascii_case(g)));
        if !framed && self.may_have_body() {
            match self.framing {
                Framing::Length => {
                    let missing = usize::from(matches!(self.fault, Some(Fault::Stalled)));
                    let length: usize = self.pieces.iter().map(Vec::len).sum::<usize>() + missing;
                    head.extend(format!("content-length: {length}\r\n").bytes());
                }
                Framing::Chunked | Framing::Endless => head.extend(b"transfer-encoding: chunked\r\n"),
                Framing::UntilClose => {}
            }
        }
        head.extend(b"\r\n");
        head
    }

    fn may_have_body(&self) -> bool {
        !matches!(self.status, 100..=199 | 204 | 304)
    }
}

impl From<u16> for Reply {
    fn from(status: u16) -> Reply {
        reply(status)
    }
}

impl Item for Reply {
    fn count(&self) -> usize {
        self.times
    }

    fn of_empty_script() -> Reply {
        reply(500).body("the script is empty")
    }
}

#[derive(Default)]
struct Steps(Vec<Step>);

impl Steps {
    fn push(&mut self, step: Step) {
        self.0.push(step);
    }

    fn pause(&mut self, time: Duration) {
        if !time.is_zero() {
            self.push(Step::Pause(time));
        }
    }

    fn hold(&mut self, gate: &Option<Gate>) {
        if let Some(gate) = gate {
            self.push(Step::Hold(gate.clone()));
        }
    }

    /// Bytes with nothing between them go out in one write, as most servers do it.
    fn send(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            _ if bytes.is_empty() => {}
            Some(Step::Send(before)) => before.extend(bytes),
            _ => self.push(Step::Send(bytes.to_vec())),
        }
    }
}

/// The same bytes, in pieces of these lengths with pauses between them.
fn split(steps: Vec<Step>, lengths: impl IntoIterator<Item = usize>, gap: Duration) -> Vec<Step> {
    let mut lengths = lengths.into_iter().filter(|length| *length > 0);
    let mut left = lengths.next().unwrap_or(usize::MAX);
    let mut result = Vec::new();
    for step in steps {
        let Step::Send(bytes) = step else {
            result.push(step);
            continue;
        };
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(left.min(rest.len()));
            if matches!(result.last(), Some(Step::Send(_))) {
                result.push(Step::Pause(gap));
            }
            result.push(Step::Send(now.to_vec()));
            left -= now.len();
            if left == 0 {
                left = lengths.next().unwrap_or(usize::MAX);
            }
            rest = later;
        }
    }
    result
}

fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        425 => "Too Early",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Site is overloaded",
        // The phrase may be empty.
        _ => "",
    }
}
