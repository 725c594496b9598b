//! The server knows its address and what it has seen. It does not know HTTP, which is the connection's business.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

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
    /// Starts a server on the current runtime.
    ///
    /// # Panics
    ///
    /// If loopback has no port to give, since no test can go on then.
    pub async fn start(script: impl Into<Script<Reply>>) -> Server {
        let script = Arc::new(script.into());
        let serve = move |stream, connected| {
            let script = Arc::clone(&script);
            async move { connection::serve(stream, &script, connected).await }
        };
        match Listener::start(serve).await {
            Ok(listener) => Server { listener },
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
