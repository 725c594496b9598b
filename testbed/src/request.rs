//! A request knows what a client sent and when it arrived. It does not know how it was read or what was answered.

use std::hash::{DefaultHasher, Hash, Hasher};

use tokio::time::Instant;

/// One request as the server received it, whole or in part.
///
/// Over HTTP/2 the header block is not decoded: method, path and headers are empty there.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) number: usize,
    pub(crate) connection: usize,
    pub(crate) in_flight: usize,
    pub(crate) arrived: Instant,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) complete: bool,
}

impl Request {
    /// Its place in the order of arrival, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The connection it came on, from 0 in the order of acceptance.
    pub fn connection(&self) -> usize {
        self.connection
    }

    /// How many requests were unanswered when this one arrived, itself included.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// When its head had arrived, on tokio's clock, which a test may have paused.
    pub fn arrived(&self) -> Instant {
        self.arrived
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The path with its query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// All header fields in order, with names in lower case.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The first value of a header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.header_all(name).first().copied()
    }

    /// Every value of a header field, in order.
    pub fn header_all(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The body, without its framing.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A hash of the body, to compare long bodies in a message that can be read.
    pub fn body_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.body.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether the body came to its end.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}
