//! The listener knows its port and the connections it has accepted. It does not know what is spoken on them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use crate::ledger::{Connected, Ledger};

/// A listening socket of loopback; dropping it closes it and every connection of it.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    pub(crate) ledger: Arc<Ledger>,
    accepting: AbortHandle,
}

impl Listener {
    /// Starts to accept; the handle ends when the listener is dropped.
    pub(crate) async fn start<F>(
        serve: impl Fn(TcpStream, Connected) -> F + Send + 'static,
    ) -> io::Result<(Listener, JoinHandle<()>)>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = socket.local_addr()?;
        let ledger = Arc::new(Ledger::default());
        let handle = tokio::spawn(accept(socket, Arc::clone(&ledger), serve));
        let accepting = handle.abort_handle();
        let listener = Listener {
            address,
            ledger,
            accepting,
        };
        Ok((listener, handle))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept<F>(socket: TcpListener, ledger: Arc<Ledger>, serve: impl Fn(TcpStream, Connected) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    // Owns the connections, so that the end of this task is the end of them all.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, ledger.connected()));
                }
                // A client that gave up before it was accepted, or too many open files: the next may do better.
                Err(_) => tokio::task::yield_now().await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
