//! The server knows its address and what it has seen. It does not know HTTP, which is the connection's business.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, mpsc};

use tokio::runtime::Builder;
use tokio::task::JoinHandle;

use crate::connection;
use crate::ledger::Ledger;
use crate::listener::Listener;
use crate::reply::Reply;
use crate::request::Request;
use crate::script::Script;

/// An HTTP/1.1 server on a free port of loopback that plays a script. What it has seen is read through [`Ledger`], to
/// which it dereferences. Dropping it closes the port and all connections.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
}

impl Server {
    /// Starts a server on the current runtime, and on its clock: where a test has paused the clock of a single-threaded
    /// runtime, the times of replies and arrivals are virtual and exact.
    ///
    /// # Panics
    ///
    /// If loopback has no port to give, since no test can go on then.
    pub async fn start(script: impl Into<Script<Reply>>) -> Server {
        Server::accepting(script.into()).await.0
    }

    /// Starts a server on a thread and a runtime of its own, so that it goes on while the runtime of the client is blocked
    /// or busy. Its times are real.
    ///
    /// # Panics
    ///
    /// As [`start`](Server::start).
    pub fn start_apart(script: impl Into<Script<Reply>>) -> Server {
        let script = script.into();
        let (to, from) = mpsc::channel();
        std::thread::spawn(move || {
            let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                let (server, accepting) = Server::accepting(script).await;
                let _ = to.send(server);
                let _ = accepting.await;
            });
        });
        match from.recv() {
            Ok(server) => server,
            Err(_) => panic!("no thread, runtime or port for a server"),
        }
    }

    async fn accepting(script: Script<Reply>) -> (Server, JoinHandle<()>) {
        let script = Arc::new(script);
        let serve = move |stream, connected| {
            let script = Arc::clone(&script);
            async move { connection::serve(stream, &script, connected).await }
        };
        match Listener::start(serve).await {
            Ok((listener, accepting)) => (Server { listener }, accepting),
            Err(error) => panic!("no port on loopback: {error}"),
        }
    }

    /// Starts a server that decides by looking at each request, once it has come whole.
    pub async fn respond(rule: impl FnMut(&Request) -> Reply + Send + 'static) -> Server {
        Server::start(Script::by(rule)).await
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        self.listener.address
    }

    /// `http://<address><path>`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listener.address)
    }
}

impl Deref for Server {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        &self.listener.ledger
    }
}
