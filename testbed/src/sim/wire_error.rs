//! The wire errors know how to come by a `reqwest::Error` of a broken connection, which nothing but a connection can make.
//! They do not know the call that it happens to.
//!
//! A thread of its own breaks real connections of loopback. The caller blocks for it and does not yield to its runtime: under
//! a paused clock no virtual time passes.

use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use reqwest::{Client, Error, Url};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::connection::{End, close};
use crate::refused::Refused;

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireError {
    /// The peer resets the connection after the request has come.
    Reset,
    /// Nobody listens.
    Refused,
    /// The timeout of the request is over before a response comes.
    Timeout,
}

type Order = (WireError, Sender<Result<Error, String>>);

/// An error of this kind as it would be for a request to `url`.
///
/// # Panics
///
/// If loopback has no port to give, since no test can go on then.
pub(crate) fn wire_error(kind: WireError, url: &Url) -> Error {
    static THREAD: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let orders = THREAD.get_or_init(|| {
        let (to, from) = mpsc::channel::<Order>();
        thread::spawn(move || {
            let made = Loopback::new();
            for (kind, reply) in from {
                let error = made
                    .as_ref()
                    .map_err(Clone::clone)
                    .and_then(|loopback| loopback.fail(kind));
                // the caller may have gone
                let _ = reply.send(error);
            }
        });
        Mutex::new(to)
    });
    let (reply, error) = mpsc::channel();
    let _ = orders
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((kind, reply));
    match error.recv() {
        Ok(Ok(error)) => error.with_url(url.clone()),
        Ok(Err(why)) => panic!("no broken connection on loopback: {why}"),
        Err(_) => panic!("no broken connection on loopback: its thread has ended"),
    }
}

/// Where connections are broken.
struct Loopback {
    runtime: tokio::runtime::Runtime,
    client: Client,
    listener: TcpListener,
    listening: String,
    refused: Refused,
}

impl Loopback {
    fn new() -> Result<Loopback, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let (listener, refused) = runtime
            .block_on(async { Ok((TcpListener::bind(("127.0.0.1", 0)).await?, Refused::new()?)) })
            .map_err(|error: std::io::Error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let client = Client::builder().no_proxy().pool_max_idle_per_host(0).build();
        Ok(Loopback {
            runtime,
            client: client.map_err(|error| error.to_string())?,
            listener,
            listening: format!("http://{address}/"),
            refused,
        })
    }

    fn fail(&self, kind: WireError) -> Result<Error, String> {
        let sent = self.runtime.block_on(async {
            Ok::<_, String>(match kind {
                WireError::Refused => self.client.post(self.refused.url("/")).send().await,
                WireError::Timeout => {
                    // a listener of its own: the time may be over before the connection is made, which then stays in its backlog
                    let silent = TcpListener::bind(("127.0.0.1", 0))
                        .await
                        .map_err(|error| error.to_string())?;
                    let address = silent.local_addr().map_err(|error| error.to_string())?;
                    let request = self.client.post(format!("http://{address}/"));
                    request.timeout(Duration::from_millis(1)).send().await
                }
                WireError::Reset => {
                    let reset = async {
                        if let Ok((mut stream, _)) = self.listener.accept().await {
                            // a request that has come: a reset before it could be an error of the connecting instead
                            let _ = stream.read(&mut [0; 1024]).await;
                            close(stream, End::Rst);
                        }
                    };
                    tokio::join!(self.client.post(&self.listening).send(), reset).0
                }
            })
        })?;
        sent.err().ok_or_else(|| "a response came".to_owned())
    }
}
