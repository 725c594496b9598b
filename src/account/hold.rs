//! The quota hold of a lane: what is used up stays so for a while, and calls are answered from memory. Knows no request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use reqwest::{Response, Url};

use super::learn::Stamp;
use super::tick::Tick;
use crate::classify::{Seen, Verdict};

/// The refusal that calls are answered with.
#[derive(Clone)]
pub(crate) struct Remembered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) verdict: Verdict,
}

impl Remembered {
    /// What a program with a client of its own has seen.
    #[inline]
    pub(crate) fn seen(seen: &Seen<'_>, verdict: Verdict) -> Option<Self> {
        Some(Self {
            status: seen.status()?,
            headers: seen.headers()?.clone(),
            body: Bytes::copy_from_slice(seen.body()),
            verdict,
        })
    }

    /// How much memory it takes, roughly.
    pub(crate) fn size(&self) -> usize {
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len());
        self.body.len() + headers.sum::<usize>()
    }

    /// As the answer to another request.
    #[inline]
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

/// A probe that has said nothing for this long is not waited for: another may go.
const LEASE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub(crate) struct Hold {
    until: Tick,
    /// When the provider said that there will be an allowance again.
    renewed_at: Option<Tick>,
    pub(crate) answer: Arc<Remembered>,
    /// One call is on its way to see whether it still holds, and is waited for until then.
    probe: Option<(Stamp, Tick)>,
}

impl Hold {
    #[inline]
    pub(crate) const fn new(until: Tick, renewed_at: Option<Tick>, answer: Arc<Remembered>) -> Self {
        Self {
            until,
            renewed_at,
            answer,
            probe: None,
        }
    }

    /// Nothing may pass now; the time is when it is worth to ask again, by the provider's word if there is one.
    #[inline]
    pub(crate) fn shut_until(&self, now: Tick) -> Option<Tick> {
        let until = self.held_until(now)?;
        Some(self.renewed_at.map_or(until, |renewed| renewed.max(until)))
    }

    /// Until when calls are answered from memory, if they are: while a probe is on its way, until it is not waited for any
    /// longer.
    #[inline]
    pub(crate) fn held_until(&self, now: Tick) -> Option<Tick> {
        let leased = self.probe.map_or(self.until, |(_, leased)| leased);
        Some(self.until.max(leased)).filter(|until| *until > now)
    }

    /// One may pass, to see whether it still holds.
    #[inline]
    pub(crate) fn probe(&mut self, by: Stamp, now: Tick) {
        self.probe = Some((by, now + LEASE));
    }

    #[inline]
    pub(crate) fn is_probed_by(&self, stamp: Stamp) -> bool {
        self.probe.is_some_and(|(by, _)| by == stamp)
    }

    /// The probe is over, and has not ended the hold.
    #[inline]
    pub(crate) const fn give_back(&mut self) {
        self.probe = None;
    }
}
