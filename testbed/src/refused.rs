//! A refused port knows an address where nobody listens. It does not know of any request, since none can arrive.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// An address that refuses every connection. The port is kept while this lives, so that no other server can get it.
#[derive(Debug)]
pub struct Refused {
    _bound: TcpSocket,
    address: SocketAddr,
}

impl Refused {
    /// Takes a free port without listening on it.
    pub fn new() -> io::Result<Refused> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?;
        Ok(Refused {
            _bound: socket,
            address,
        })
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// `http://<address><path>`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
