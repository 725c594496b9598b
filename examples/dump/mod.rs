//! A response as `curl -i` prints it. Knows nothing of what is in it.

use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// The response that counts: the last one printed, after interim ones, redirects and a proxy's own.
#[derive(Debug)]
pub(crate) struct Dump<'a> {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: &'a [u8],
}

impl<'a> Dump<'a> {
    /// Reads a dump with CRLF or LF, with a body or without, or says what is wrong with it.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, String> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
        if text.is_empty() {
            return Err("the input is empty".into());
        }
        let mut dump = Self::block(text)?;
        // a body that happens to begin like a status line and is none stays a body
        while let Some(next) = dump
            .body
            .starts_with(b"HTTP/")
            .then(|| Self::block(dump.body).ok())
            .flatten()
        {
            dump = next;
        }
        Ok(dump)
    }

    fn block(text: &'a [u8]) -> Result<Self, String> {
        let (line, mut rest) = next_line(text);
        let status = status_of(line).ok_or_else(|| {
            let begin = String::from_utf8_lossy(line).chars().take(40).collect::<String>();
            format!("expected a status line like `HTTP/1.1 429 Too Many Requests`, found `{begin}`")
        })?;
        let mut headers = HeaderMap::new();
        while !rest.is_empty() {
            let (line, after) = next_line(rest);
            rest = after;
            if line.is_empty() {
                break;
            }
            let (name, value) = header(line).ok_or_else(|| {
                let begin = String::from_utf8_lossy(line).chars().take(20).collect::<String>();
                format!("not a header: `{begin}…`")
            })?;
            headers.append(name, value);
        }
        Ok(Self {
            status,
            headers,
            body: rest,
        })
    }
}

fn next_line(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| byte == b'\n').unwrap_or(text.len());
    let (line, rest) = text.split_at(end);
    (
        line.strip_suffix(b"\r").unwrap_or(line),
        rest.get(1..).unwrap_or_default(),
    )
}

fn status_of(line: &[u8]) -> Option<StatusCode> {
    let line = std::str::from_utf8(line).ok()?;
    let (version, rest) = line.split_once(' ')?;
    version
        .starts_with("HTTP/")
        .then(|| rest.split(' ').next().and_then(|code| StatusCode::from_str(code).ok()))?
}

fn header(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, value) = line.split_at(colon);
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?))
}
