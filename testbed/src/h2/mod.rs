//! An HTTP/2 server of hand-made frames, with prior knowledge and without TLS, for what only HTTP/2 can say about a
//! request: refused, calm down, gone away. It does not decode header blocks and keeps no window for what it sends, so
//! bodies of replies must stay below 64 KiB.
//!
//! ```no_run
//! # async fn example() {
//! use testbed::h2;
//!
//! let server = h2::Server::start([h2::goaway_above(), h2::reply(200).body("ok")]).await;
//! # }
//! ```

mod answer;
mod connection;
mod frame;

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

pub use answer::{
    Answer, enhance_your_calm, fin, goaway, goaway_above, goaway_covering, hang, internal_error, refused, reply, reset,
    rst,
};

use crate::ledger::Ledger;
use crate::listener::Listener;
use crate::script::Script;

/// An HTTP/2 server on a free port of loopback that plays a script, one item per stream. What it has seen is read through
/// [`Ledger`], to which it dereferences. Dropping it closes the port and all connections.
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
    pub async fn start(script: impl Into<Script<Answer>>) -> Server {
        let script = Arc::new(script.into());
        let serve = move |stream, connected| {
            let script = Arc::clone(&script);
            async move { connection::serve(stream, &script, connected).await }
        };
        match Listener::start(serve).await {
            Ok((listener, _)) => Server { listener },
            Err(error) => panic!("no port on loopback: {error}"),
        }
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
