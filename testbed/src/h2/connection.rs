//! A connection knows the streams of one HTTP/2 socket and plays an answer on each. It does not know other connections,
//! and asks the script what to play.

use std::collections::HashMap;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::answer::{Act, Answer, Finish};
use super::frame::{self, Frame};
use crate::connection::{End, close};
use crate::ledger::{Connected, InFlight};
use crate::script::Script;

/// How long a closed connection is still read, see [`serve`].
const LINGER: Duration = Duration::from_millis(500);

/// What is to be written.
enum Out {
    Frames(Vec<u8>),
    Close(End),
}

struct Stream {
    request: usize,
    /// Tells the player that the request is whole; taken when it is.
    whole: Option<oneshot::Sender<()>>,
    player: AbortHandle,
}

/// Serves one connection until either side closes it.
pub(super) async fn serve(mut stream: TcpStream, script: &Script<Answer>, connected: Connected) {
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.split();
    let (to, from) = mpsc::unbounded_channel();
    let mut players = JoinSet::new();
    let end = tokio::select! {
        () = read(reader, script, &connected, &to, &mut players) => End::Rst,
        end = write(writer, from) => end,
    };
    // Waited for, so that nothing is in flight on a connection that counts as closed.
    players.shutdown().await;
    if end == End::Fin && stream.shutdown().await.is_ok() {
        // To close while the client still sends (its ACK of the settings, say) would be a reset, which can overtake the
        // last frames.
        let _ = timeout(LINGER, tokio::io::copy(&mut stream, &mut tokio::io::sink())).await;
    }
    close(stream, end);
    drop(connected);
}

/// Reads frames until the client is gone or speaks something else.
async fn read(
    mut reader: impl AsyncRead + Unpin,
    script: &Script<Answer>,
    connected: &Connected,
    to: &UnboundedSender<Out>,
    players: &mut JoinSet<()>,
) {
    let write = |frames| {
        let _ = to.send(Out::Frames(frames));
    };
    let mut preface = [0; frame::PREFACE.len()];
    if reader.read_exact(&mut preface).await.is_err() || preface != *frame::PREFACE {
        return;
    }
    write(frame::settings(0));
    let mut streams: HashMap<u32, Stream> = HashMap::new();
    while let Some(frame) = Frame::read(&mut reader).await {
        while players.try_join_next().is_some() {}
        match frame.kind {
            frame::SETTINGS if !frame.has(frame::ACK) => write(frame::settings(frame::ACK)),
            frame::PING if !frame.has(frame::ACK) => write(frame::pong(&frame.payload)),
            frame::HEADERS => {
                // A second one on the same stream has the trailers.
                streams
                    .entry(frame.stream)
                    .or_insert_with(|| begin(frame.stream, script, connected, to, players));
            }
            frame::DATA if !frame.payload.is_empty() => {
                if let Some(stream) = streams.get(&frame.stream) {
                    connected.ledger.received(stream.request, frame.data());
                }
                let bytes = frame.payload.len();
                write(
                    [
                        frame::window_update(0, bytes),
                        frame::window_update(frame.stream, bytes),
                    ]
                    .concat(),
                );
            }
            frame::RST_STREAM => {
                if let Some(stream) = streams.get(&frame.stream) {
                    stream.player.abort();
                }
            }
            _ => {}
        }
        let ends = matches!(frame.kind, frame::HEADERS | frame::DATA) && frame.has(frame::END_STREAM);
        if let Some(stream) = streams.get_mut(&frame.stream).filter(|_| ends)
            && let Some(whole) = stream.whole.take()
        {
            connected.ledger.completed(stream.request);
            let _ = whole.send(());
        }
    }
}

fn begin(
    id: u32,
    script: &Script<Answer>,
    connected: &Connected,
    to: &UnboundedSender<Out>,
    players: &mut JoinSet<()>,
) -> Stream {
    let in_flight = connected
        .ledger
        .arrived(connected.id, String::new(), String::new(), Vec::new());
    let request = in_flight.number();
    let (whole, is_whole) = oneshot::channel();
    let answer = in_flight.request().map(|request| script.answer(&request));
    let to = to.clone();
    let player = players.spawn(async move {
        if let Some(answer) = answer {
            play(answer, id, is_whole, in_flight, &to).await;
        }
    });
    Stream {
        request,
        whole: Some(whole),
        player,
    }
}

async fn play(
    answer: Answer,
    id: u32,
    is_whole: oneshot::Receiver<()>,
    in_flight: InFlight,
    to: &UnboundedSender<Out>,
) {
    let write = |frames| {
        let _ = to.send(Out::Frames(frames));
    };
    if !answer.at_head() && is_whole.await.is_err() {
        return;
    }
    sleep(answer.after).await;
    if let Some(gate) = &answer.gate {
        gate.passed().await;
    }
    match answer.act {
        Act::Hang => std::future::pending().await,
        Act::Reset { code } => {
            drop(in_flight);
            write(frame::rst_stream(id, code));
        }
        Act::GoAway { covering, code } => {
            // Streams of clients have odd numbers.
            let last = if covering { id } else { id.saturating_sub(2) };
            drop(in_flight);
            write(frame::goaway(last, code));
        }
        Act::Close { rst } => {
            let _ = to.send(Out::Close(if rst { End::Rst } else { End::Fin }));
            return;
        }
        Act::Reply { status } => {
            let ends = answer.finish == Finish::End;
            let mut frames = frame::headers(id, ends && answer.body.is_empty(), status, &answer.headers);
            if !answer.late.is_zero() {
                write(std::mem::take(&mut frames));
                sleep(answer.late).await;
            }
            frames.extend(frame::data(id, ends, &answer.body));
            match answer.finish {
                Finish::End => {}
                Finish::Nothing => {
                    write(frames);
                    return std::future::pending().await;
                }
                Finish::Reset { code } => frames.extend(frame::rst_stream(id, code)),
            }
            drop(in_flight);
            write(frames);
        }
    }
    if answer.close {
        let _ = to.send(Out::Close(End::Fin));
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut from: UnboundedReceiver<Out>) -> End {
    loop {
        match from.recv().await {
            Some(Out::Frames(frames)) => {
                if writer.write_all(&frames).await.is_err() {
                    return End::Rst;
                }
            }
            Some(Out::Close(end)) => return end,
            None => return End::Fin,
        }
    }
}
