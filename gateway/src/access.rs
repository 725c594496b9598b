//! The access log: one event for each request, when its head is answered or its caller is gone. Knows no header field, no
//! query and no body, so that it cannot tell a secret.

use std::time::Instant;

use http::{Method, StatusCode};

/// A request under way. Dropping it writes the line, so that one whose caller hangs up is told of too.
#[derive(Debug)]
pub(crate) struct Access<'a> {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// Which upstream it is for, once that is known.
    pub(crate) upstream: &'a str,
    /// How often it was sent there.
    pub(crate) sends: u32,
    /// Why the call ended, where that is worth a word.
    pub(crate) stop: Option<String>,
    /// What the caller gets; `None` if the caller did not wait for it.
    pub(crate) status: Option<StatusCode>,
    pub(crate) began: Instant,
    pub(crate) on: bool,
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        if !self.on {
            return;
        }
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (method, path, upstream, sends) = (&self.method, &self.path, self.upstream, self.sends);
        let stop = self.stop.as_deref();
        match self.status {
            Some(status) => {
                let status = status.as_u16();
                tracing::info!(target: "access", %method, path, upstream, status, sends, stop, ms);
            }
            None => tracing::info!(target: "access", %method, path, upstream, ms, "the caller hung up"),
        }
    }
}
