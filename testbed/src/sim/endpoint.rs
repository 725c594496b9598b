//! The endpoint knows how a simulation answers over HTTP/1.1 on a socket of loopback. It does not know what is decided.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::call::Call;
use super::simulation::{Answer, Simulation};
use crate::connection::{self, End};
use crate::inbox::{self, Incoming};
use crate::ledger::{Connected, Ledger};
use crate::listener::Listener;
use crate::request::Request;

/// A simulation on a port of loopback. Dropping it closes the port and all connections.
#[derive(Debug)]
pub struct Endpoint {
    listener: Listener,
    simulation: Simulation,
}

/// Serves a provider over HTTP/1.1 on a free port of loopback, on the current runtime.
///
/// # Panics
///
/// If loopback has no port to give, since no test can go on then.
pub async fn serve(simulation: impl Into<Simulation>) -> Endpoint {
    let simulation = simulation.into();
    let per_model = simulation.with(|provider| provider.model().per_model);
    let service = simulation.clone();
    let serve = move |stream, connected| {
        let simulation = service.clone();
        async move { connect(stream, simulation, per_model, connected).await }
    };
    match Listener::start(serve).await {
        Ok((listener, _)) => Endpoint { listener, simulation },
        Err(error) => panic!("no port on loopback: {error}"),
    }
}

impl Endpoint {
    /// `http://<address><path>`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listener.address)
    }

    /// The simulation that answers.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// What has come over the wire.
    pub fn ledger(&self) -> &Ledger {
        &self.listener.ledger
    }
}

/// Serves one connection. A client that hangs up gives up its call, since reading goes on meanwhile.
async fn connect(mut stream: TcpStream, simulation: Simulation, per_model: bool, connected: Connected) {
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.split();
    let (to, from) = mpsc::unbounded_channel();
    let end = tokio::select! {
        () = inbox::read(reader, &connected, to) => End::Fin,
        end = converse(writer, simulation, per_model, from) => end.unwrap_or(End::Fin),
    };
    connection::close(stream, end);
    drop(connected);
}

async fn converse(
    mut writer: impl AsyncWrite + Unpin,
    simulation: Simulation,
    per_model: bool,
    mut from: UnboundedReceiver<Incoming>,
) -> io::Result<End> {
    while let Some(incoming) = from.recv().await {
        match incoming {
            Incoming::ExpectsContinue => writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?,
            Incoming::Malformed => {
                let bad = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
                writer.write_all(bad).await?;
                return Ok(End::Fin);
            }
            Incoming::Request(in_flight) => {
                let Some(request) = in_flight.request() else {
                    return Ok(End::Fin);
                };
                let answer = simulation.send(&read(&request, per_model)).await;
                if answer.reply.outcome.is_broken_connection() {
                    return Ok(End::Rst);
                }
                write(&mut writer, answer).await?;
                let last = request.header("connection");
                if last.is_some_and(|value| value.eq_ignore_ascii_case("close")) {
                    return Ok(End::Fin);
                }
            }
        }
    }
    Ok(End::Fin)
}

fn read(request: &Request, per_model: bool) -> Call {
    let header = |name| request.header(name).map(str::as_bytes);
    Call::read(request.path(), header, request.body(), per_model)
}

async fn write(writer: &mut (impl AsyncWrite + Unpin), mut answer: Answer) -> io::Result<()> {
    // The reason may be empty.
    let mut bytes = format!("HTTP/1.1 {} \r\n", answer.reply.status).into_bytes();
    for (name, value) in &answer.reply.headers {
        bytes.extend(name.as_str().bytes());
        bytes.extend(b": ");
        bytes.extend(value.as_bytes());
        bytes.extend(b"\r\n");
    }
    let chunked = answer.reply.pieces.len() > 1;
    if chunked {
        bytes.extend(b"transfer-encoding: chunked\r\n\r\n");
    } else {
        let length: usize = answer.reply.pieces.iter().map(|piece| piece.bytes.len()).sum();
        bytes.extend(format!("content-length: {length}\r\n\r\n").bytes());
    }
    // The head goes out before a body that is not there yet.
    if answer.due().is_some_and(|due| due.is_some()) {
        writer.write_all(&bytes).await?;
        bytes.clear();
    }
    while let Some(piece) = answer.next().await {
        if chunked {
            bytes.extend(format!("{:x}\r\n", piece.len()).bytes());
        }
        bytes.extend(&piece);
        if chunked {
            bytes.extend(b"\r\n");
        }
        if chunked && answer.reply.pieces.is_empty() {
            bytes.extend(b"0\r\n\r\n");
        }
        writer.write_all(&bytes).await?;
        bytes.clear();
    }
    writer.write_all(&bytes).await
}
