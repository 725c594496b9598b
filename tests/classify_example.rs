//! The dumps that the example `classify` reads.

#![allow(clippy::unwrap_used)]

#[path = "../examples/dump/mod.rs"]
mod dump;

use dump::Dump;

#[test]
fn the_last_block_counts() {
    let text = b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/2 429 \r\nRetry-After: 3\r\n\r\n{\"a\":1}\n";
    let dump = Dump::parse(text).unwrap();
    assert_eq!((dump.status.as_u16(), dump.body), (429, &b"{\"a\":1}\n"[..]));
    assert_eq!(dump.headers["retry-after"], "3");
}

#[test]
fn line_ends_and_bodies_are_optional() {
    for text in [
        "HTTP/2 429",
        "HTTP/2 429\n",
        "HTTP/1.1 429 Too Many Requests\r\na: b",
        "\n\nHTTP/3 429\na: b\n\n",
    ] {
        let dump = Dump::parse(text.as_bytes()).unwrap();
        assert_eq!((dump.status.as_u16(), dump.body), (429, &b""[..]), "{text:?}");
    }
    let dump = Dump::parse(b"HTTP/2 503\n\nHTTP/ is no status line").unwrap();
    assert_eq!(dump.body, b"HTTP/ is no status line");
}

#[test]
fn what_is_no_dump_is_named() {
    for (text, why) in [
        ("", "empty"),
        ("{\"error\":1}", "status line"),
        ("HTTP/2 429\nno header\n", "not a header"),
        ("HTTP/2 banana\n", "status line"),
    ] {
        assert!(Dump::parse(text.as_bytes()).unwrap_err().contains(why), "{text:?}");
    }
}
