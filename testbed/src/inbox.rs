//! The inbox knows how requests are read from an HTTP/1.1 connection, one after another. It does not know what is
//! answered, and never writes.

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc::UnboundedSender;

use crate::ledger::{Connected, InFlight};

/// A longer head is no request.
const HEAD_LIMIT: usize = 1 << 20;

/// What the reading side tells the answering side.
pub(crate) enum Incoming {
    /// The client waits for a 100 before it sends the body.
    ExpectsContinue,
    Request(InFlight),
    /// What came is not HTTP/1.1; nothing after it can be read.
    Malformed,
}

/// Why reading stopped.
enum Stop {
    /// The client closed or reset the connection.
    Gone,
    Malformed,
}

/// Reads requests until the client is gone, whatever the answering side is doing meanwhile. Only so does a server that
/// hangs notice that the client has hung up.
pub(crate) async fn read(stream: impl AsyncRead + Unpin, connected: &Connected, to: UnboundedSender<Incoming>) {
    let mut inbox = Inbox {
        stream,
        buffer: Vec::new(),
    };
    loop {
        match inbox.request(connected, &to).await {
            Ok(request) => {
                let _ = to.send(Incoming::Request(request));
            }
            Err(Stop::Gone) => return,
            Err(Stop::Malformed) => break,
        }
    }
    let _ = to.send(Incoming::Malformed);
    while inbox.fill().await.is_ok() {
        inbox.buffer.clear();
    }
}

struct Inbox<R> {
    stream: R,
    buffer: Vec<u8>,
}

struct Head {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
}

enum Length {
    Bytes(usize),
    Chunked,
}

impl<R: AsyncRead + Unpin> Inbox<R> {
    async fn request(&mut self, connected: &Connected, to: &UnboundedSender<Incoming>) -> Result<InFlight, Stop> {
        let head = self.head().await?;
        let length = head.length()?;
        let expects = head
            .values("expect")
            .any(|value| value.eq_ignore_ascii_case("100-continue"));
        let request = connected
            .ledger
            .arrived(connected.id, head.method, head.path, head.headers);
        if expects {
            let _ = to.send(Incoming::ExpectsContinue);
        }
        match length {
            Length::Bytes(bytes) => self.body(bytes, connected, &request).await?,
            Length::Chunked => self.chunks(connected, &request).await?,
        }
        connected.ledger.completed(request.number());
        Ok(request)
    }

    async fn head(&mut self) -> Result<Head, Stop> {
        let mut budget = HEAD_LIMIT;
        let mut line = self.line(&mut budget).await?;
        while line.is_empty() {
            // Blank lines before a request are allowed for.
            line = self.line(&mut budget).await?;
        }
        let mut words = line.split(' ');
        let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next()) else {
            return Err(Stop::Malformed);
        };
        if method.is_empty() || !version.starts_with("HTTP/1.") {
            return Err(Stop::Malformed);
        }
        let (method, path) = (method.to_owned(), path.to_owned());
        let headers = self.fields(&mut budget).await?;
        Ok(Head { method, path, headers })
    }

    /// Header or trailer fields, up to and with the blank line.
    async fn fields(&mut self, budget: &mut usize) -> Result<Vec<(String, String)>, Stop> {
        let mut fields = Vec::new();
        loop {
            let line = self.line(budget).await?;
            if line.is_empty() {
                return Ok(fields);
            }
            let (name, value) = line.split_once(':').ok_or(Stop::Malformed)?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    async fn chunks(&mut self, connected: &Connected, request: &InFlight) -> Result<(), Stop> {
        loop {
            let line = self.line(&mut { HEAD_LIMIT }).await?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).map_err(|_| Stop::Malformed)?;
            if size == 0 {
                self.fields(&mut { HEAD_LIMIT }).await?;
                return Ok(());
            }
            self.body(size, connected, request).await?;
            if !self.line(&mut { HEAD_LIMIT }).await?.is_empty() {
                return Err(Stop::Malformed);
            }
        }
    }

    /// Enters what has come as it comes, so that a body that breaks off can be seen.
    async fn body(&mut self, bytes: usize, connected: &Connected, request: &InFlight) -> Result<(), Stop> {
        let mut left = bytes;
        while left > 0 {
            if self.buffer.is_empty() {
                self.fill().await?;
            }
            let now = left.min(self.buffer.len());
            connected.ledger.received(request.number(), &self.buffer[..now]);
            self.buffer.drain(..now);
            left -= now;
        }
        Ok(())
    }

    async fn line(&mut self, budget: &mut usize) -> Result<String, Stop> {
        let mut seen = 0;
        loop {
            if let Some(end) = self.buffer[seen..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=seen + end).collect();
                *budget = budget.checked_sub(line.len()).ok_or(Stop::Malformed)?;
                let line = String::from_utf8_lossy(&line);
                return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
            }
            seen = self.buffer.len();
            if seen > *budget {
                return Err(Stop::Malformed);
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), Stop> {
        self.buffer.reserve(16 * 1024);
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => Err(Stop::Gone),
            Ok(_) => Ok(()),
        }
    }
}

impl Head {
    fn length(&self) -> Result<Length, Stop> {
        if self
            .values("transfer-encoding")
            .any(|value| value.to_ascii_lowercase().ends_with("chunked"))
        {
            return Ok(Length::Chunked);
        }
        match self.values("content-length").next() {
            Some(value) => value.parse().map(Length::Bytes).map_err(|_| Stop::Malformed),
            None => Ok(Length::Bytes(0)),
        }
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}
