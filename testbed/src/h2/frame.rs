//! A frame knows its bytes on the wire. It does not know streams, or when a frame may be sent.

use tokio::io::{AsyncRead, AsyncReadExt};

pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// The size that every peer must accept.
const MAX_FRAME: usize = 16_384;

pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// The next frame; `None` when the peer is gone.
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Option<Frame> {
        let mut head = [0; 9];
        from.read_exact(&mut head).await.ok()?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        from.read_exact(&mut payload).await.ok()?;
        Some(Frame {
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
            payload,
        })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload of a DATA frame without its padding.
    pub(super) fn data(&self) -> &[u8] {
        match self.payload.split_first() {
            Some((padding, rest)) if self.has(PADDED) => &rest[..rest.len().saturating_sub(usize::from(*padding))],
            _ => &self.payload,
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub(super) fn settings(flags: u8) -> Vec<u8> {
    frame(SETTINGS, flags, 0, &[])
}

pub(super) fn pong(payload: &[u8]) -> Vec<u8> {
    frame(PING, ACK, 0, payload)
}

pub(super) fn window_update(stream: u32, bytes: usize) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &(bytes as u32).to_be_bytes())
}

pub(super) fn rst_stream(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(super) fn goaway(last_stream: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last_stream.to_be_bytes(), code.to_be_bytes()].concat())
}

pub(super) fn headers(stream: u32, end: bool, status: u16, fields: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut block = Vec::new();
    // Literals that touch no table: `:status` by its place in the static table, every other name spelled out.
    block.push(0x08);
    string(&mut block, status.to_string().as_bytes());
    for (name, value) in fields {
        block.push(0x00);
        string(&mut block, name.to_ascii_lowercase().as_bytes());
        string(&mut block, value);
    }
    frame(HEADERS, END_HEADERS | if end { END_STREAM } else { 0 }, stream, &block)
}

pub(super) fn data(stream: u32, end: bool, body: &[u8]) -> Vec<u8> {
    let pieces: Vec<&[u8]> = body.chunks(MAX_FRAME).collect();
    let last = pieces.len().saturating_sub(1);
    let flags = |index| if end && index == last { END_STREAM } else { 0 };
    pieces
        .iter()
        .enumerate()
        .flat_map(|(index, piece)| frame(DATA, flags(index), stream, piece))
        .collect()
}

/// A string of HPACK without Huffman coding: its length as an integer with a prefix of 7 bits, then its bytes.
fn string(block: &mut Vec<u8>, text: &[u8]) {
    match text.len().checked_sub(127) {
        None => block.push(text.len() as u8),
        Some(mut rest) => {
            block.push(127);
            while rest >= 128 {
                block.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            block.push(rest as u8);
        }
    }
    block.extend(text);
}
