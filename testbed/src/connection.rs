//! A connection knows how to play replies on one HTTP/1.1 socket while it is being read. It does not know other
//! connections, and asks the script what to play.

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::sleep;

use crate::inbox::{self, Incoming};
use crate::ledger::{Connected, InFlight};
use crate::reply::{Plan, Reply, Step, Then, reply};
use crate::script::Script;

/// Serves one connection until either side closes it.
pub(crate) async fn serve(mut stream: TcpStream, script: &Script<Reply>, connected: Connected) {
    // Pieces that are sent apart must not be joined again.
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.split();
    let (to, from) = mpsc::unbounded_channel();
    let end = tokio::select! {
        () = inbox::read(reader, &connected, to) => End::Fin,
        end = answer(writer, script, from) => end,
    };
    close(stream, end);
    drop(connected);
}

/// How the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Fin,
    Rst,
}

/// Closes by FIN or RST.
pub(crate) fn close(stream: TcpStream, end: End) {
    if end == End::Rst {
        let _ = stream.set_zero_linger();
    }
    drop(stream);
}

async fn answer(
    mut writer: impl AsyncWrite + Unpin,
    script: &Script<Reply>,
    mut from: UnboundedReceiver<Incoming>,
) -> End {
    let (mut then, mut end) = (Then::Next, End::Fin);
    loop {
        let incoming = tokio::select! {
            biased;
            // A request that came in time is answered, and none is after the last reply.
            incoming = from.recv(), if !matches!(then, Then::Close) => incoming,
            () = idle(&then) => return end,
        };
        let (plan, in_flight, last) = match incoming {
            None => return End::Fin,
            Some(Incoming::ExpectsContinue) => (Plan::bytes(b"HTTP/1.1 100 Continue\r\n\r\n"), None, false),
            Some(Incoming::Malformed) => (reply(400).close().plan(""), None, true),
            Some(Incoming::Request(in_flight)) => {
                let Some(request) = in_flight.request() else {
                    return End::Fin;
                };
                let plan = script.answer(&request).plan(request.method());
                let last = request
                    .header("connection")
                    .is_some_and(|value| value.eq_ignore_ascii_case("close"));
                (plan, Some(in_flight), last)
            }
        };
        end = if plan.rst { End::Rst } else { End::Fin };
        then = if last { Then::Close } else { plan.then };
        if let Err(Closed) = play(&mut writer, plan.steps, in_flight).await {
            return end;
        }
    }
}

/// Ends when the connection is to be closed if no request has come.
async fn idle(then: &Then) {
    match then {
        Then::Next => std::future::pending().await,
        Then::Close => {}
        Then::CloseWhenIdle(limit) => sleep(*limit).await,
        Then::CloseWhenOpen(gate) => gate.passed().await,
    }
}

/// The connection is to be closed, or has been.
struct Closed;

async fn play(
    writer: &mut (impl AsyncWrite + Unpin),
    steps: Vec<Step>,
    mut in_flight: Option<InFlight>,
) -> Result<(), Closed> {
    let mut steps = steps.into_iter().peekable();
    while let Some(step) = steps.next() {
        match step {
            Step::Send(bytes) => {
                if steps.peek().is_none() {
                    // Before the last bytes, not after them: a client may have them, and send its next request, before
                    // this task runs on.
                    drop(in_flight.take());
                }
                send(writer, &bytes).await?;
            }
            Step::Pause(time) => sleep(time).await,
            Step::Hold(gate) => gate.passed().await,
            Step::Forever { bytes, pause } => loop {
                send(writer, &bytes).await?;
                if !pause.is_zero() {
                    sleep(pause).await;
                }
            },
            // Ends with the connection, when the client hangs up or the server is dropped.
            Step::Hang => std::future::pending().await,
            Step::Close => return Err(Closed),
        }
    }
    Ok(())
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), Closed> {
    writer.write_all(bytes).await.map_err(|_| Closed)
}
