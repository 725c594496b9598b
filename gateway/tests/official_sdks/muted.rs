//! A hop that takes away the word by which the gateway says not to start again. What is sent then shows what the word does.

use std::net::SocketAddr;

use tokio::io::{self, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

const WORD: &[u8] = b"x-should-retry";

/// Where the hop listens.
pub(crate) async fn before(gateway: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((caller, _)) = listener.accept().await {
            let (from_caller, to_caller) = caller.into_split();
            let (from_gateway, to_gateway) = TcpStream::connect(gateway).await.unwrap().into_split();
            tokio::spawn(pass(from_caller, to_gateway));
            tokio::spawn(mute(from_gateway, to_caller));
        }
    });
    address
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = io::copy(&mut from, &mut to).await;
}

/// A head comes in one piece here, since it is written in one.
async fn mute(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let read = &mut piece[..read];
        if let Some(at) = read.windows(WORD.len()).position(|window| window == WORD) {
            read[at..at + WORD.len()].fill(b'x');
        }
        if to.write_all(read).await.is_err() {
            return;
        }
    }
}
