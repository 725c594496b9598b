//! The quota hold of a lane: what is used up stays so for a while, and calls are answered from memory. Knows no request.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use reqwest::{Response, Url};

use super::tick::Tick;
use crate::classify::Verdict;

/// The refusal that calls are answered with.
#[derive(Clone)]
pub(crate) struct Remembered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) verdict: Verdict,
}

impl Remembered {
    /// As the answer to another request.
    pub(crate) fn response(&self, url: &Url) -> Response {
        let mut response = http::Response::new(self.body.clone());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        crate::body::with_url(response.map(reqwest::Body::from), url.clone())
    }
}

/// Neither headers nor body: they are the provider's answer to one caller.
impl std::fmt::Debug for Remembered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remembered")
            .field("status", &self.status)
            .field("verdict", &self.verdict)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) until: Tick,
    pub(crate) answer: Arc<Remembered>,
    /// One call is on its way to see whether it still holds.
    pub(crate) probing: bool,
}
