//! The right to one send. Whatever it holds is given back by dropping it, at whatever point that happens.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::breaker::Signal;
use super::hold::Remembered;
use super::lane::{Known, LaneName};
use super::start::Priority;
use super::state::{Changes, Cut, Grant, Heard};
use super::sync::Ordering;
use super::tick::Tick;
use super::{Account, Asked, RequestLimit, Usage};
use crate::classify::{Cause, Class, Verdict};
use crate::outcome::StopReason;

/// The right to one send, and the place in flight that goes with it. Drop it when the answer has been read to its end: what
/// it reserved stays charged if nobody said what was used, since what is not known is not nothing.
#[derive(Debug)]
#[must_use = "dropping a permit gives its place back"]
pub struct Permit {
    account: Account,
    grant: Grant,
    /// Of the request: by what its answer says it took, the next ones are weighed.
    bytes: usize,
}

impl Permit {
    pub(super) const fn new(account: Account, grant: Grant, bytes: usize) -> Self {
        Self { account, grant, bytes }
    }

    /// Says what the request took, and gives its place back.
    pub fn settle(self, usage: Usage) {
        self.correct(usage);
    }

    /// Says what came of the request, so that the account can learn from it: a pause, a rate, a ceiling.
    pub fn report(&mut self, seen: &crate::Seen<'_>, verdict: Option<&Verdict>) {
        let quota = verdict.filter(|verdict| verdict.class() == Class::QuotaExhausted);
        let answer = quota.and_then(|verdict| Remembered::seen(seen, *verdict));
        // nothing came back, by whoever's limit
        let unanswered = seen.status().is_none() && verdict.is_some_and(|verdict| verdict.cause() == Cause::Timeout);
        let cut = if unanswered { Cut::ByCaller } else { Cut::No };
        let evidence = Evidence {
            signal: Signal::of(verdict, cut),
            call: next_call(),
            given_up: false,
        };
        self.hear(verdict.copied(), RequestLimit::of(seen), answer.map(Arc::new), evidence);
    }

    fn hear(
        &mut self,
        verdict: Option<Verdict>,
        requests: Option<RequestLimit>,
        answer: Option<Arc<Remembered>>,
        evidence: Evidence,
    ) -> Changes {
        let (shared, grant) = (&self.account.shared, &mut self.grant);
        let unasked = shared.unasked_in_flight.load(Ordering::Relaxed);
        let heard = Heard {
            verdict,
            requests,
            answer,
            unasked,
            signal: evidence.signal,
            call: evidence.call,
            given_up: evidence.given_up,
        };
        shared.with(|state, now, woken| state.hear(grant, heard, now, woken))
    }

    /// Corrects what was reserved.
    fn correct(&self, usage: Usage) {
        let shared = &self.account.shared;
        if shared.sizes.count {
            let (grant, bytes) = (&self.grant, self.bytes);
            shared.with(|state, now, woken| state.settle_usage(grant, bytes, usage, &shared.sizes, now, woken));
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (shared, grant) = (&self.account.shared, &self.grant);
        // to look at the clock takes as long as all the rest
        if !shared.lock().finish_alone(grant) {
            shared.with(|state, now, woken| state.finish(grant, now, woken));
        } else if grant.is_told() {
            shared.tell_store();
        }
    }
}

/// A permit as the loop holds it: small, since most calls are not asked, and counted while it is.
#[derive(Debug)]
pub(crate) struct Admitted {
    account: Account,
    /// `None` while the account is quiet: nothing was asked of it.
    permit: Option<Box<Permit>>,
    /// Its lane, where the request will not be there to tell it.
    known: Option<Box<Known>>,
}

impl Admitted {
    pub(super) fn asked(account: Account, permit: Permit) -> Self {
        Self {
            account,
            permit: Some(Box::new(permit)),
            known: None,
        }
    }

    pub(super) fn unasked(account: Account) -> Self {
        account.shared.unasked_in_flight.fetch_add(1, Ordering::Relaxed);
        Self {
            account,
            permit: None,
            known: None,
        }
    }

    /// The request goes with this send: what may still be asked of it is noted.
    pub(crate) fn keep(&mut self, asked: &Asked<'_>) {
        if self.permit.is_none() {
            self.known = Some(Box::new(self.account.know(asked)));
        }
    }

    /// A provider has spoken to a quiet account: the send that it answered is counted after the fact.
    pub(crate) fn adopt(&mut self, asked: &Asked<'_>, sent_at: Instant) {
        if self.permit.is_some() {
            return;
        }
        let known = self.known.take();
        let known = known.map_or_else(|| self.account.know(asked), |known| *known);
        if let Some(grant) = self.account.adopt(known, sent_at) {
            self.permit = Some(Box::new(Permit::new(self.account.clone(), grant, asked.bytes())));
            self.account.shared.unasked_in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Was the account asked for it?
    pub(crate) const fn is_asked(&self) -> bool {
        self.permit.is_some()
    }

    /// Tells the account what came of the send.
    pub(crate) fn hear(
        &mut self,
        verdict: Option<Verdict>,
        requests: Option<RequestLimit>,
        answer: Option<Arc<Remembered>>,
        evidence: Evidence,
    ) -> Changes {
        match &mut self.permit {
            Some(permit) => permit.hear(verdict, requests, answer, evidence),
            None => Changes::new(),
        }
    }

    fn grant(&self) -> Option<&Grant> {
        self.permit.as_ref().map(|permit| &permit.grant)
    }

    /// What may be told of the lane, and the time of day at which a change takes effect.
    pub(crate) fn name(&self) -> Option<LaneName> {
        self.account.shared.lock().name(self.grant()?)
    }

    pub(crate) fn wall(&self, at: Tick) -> Option<SystemTime> {
        let shared = &self.account.shared;
        shared.wall(at, shared.now())
    }

    /// Is it the one that shows whether a circuit breaker may close?
    pub(crate) fn probes_breaker(&self) -> bool {
        self.grant().is_some_and(|grant| grant.token.is_probe())
    }

    /// How a retry after this send will stand to others, or why a call that fails fast ends here.
    pub(crate) fn plan_retry(&self, verdict: &Verdict, fails_fast: bool) -> Result<Priority, StopReason> {
        let Some(grant) = self.grant() else {
            return Ok(Priority::PacedRetry);
        };
        let shared = &self.account.shared;
        shared.with(|state, now, _| state.plan_retry(grant, verdict, fails_fast, now))
    }

    /// Must it be held until the body ends?
    #[inline]
    pub(crate) fn outlives_headers(&self) -> bool {
        let held = |grant| self.account.shared.lock().has_ceiling(grant);
        self.counts_tokens() || self.grant().is_some_and(held)
    }

    pub(crate) fn counts_tokens(&self) -> bool {
        self.permit.is_some() && self.account.shared.sizes.count
    }

    /// Corrects what was reserved.
    pub(crate) fn settle(&mut self, usage: Usage) {
        if let Some(permit) = &self.permit {
            permit.correct(usage);
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if self.permit.is_none() {
            self.account.shared.unasked_in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What a send tells beside its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence {
    /// Whether anything gets through.
    pub(crate) signal: Signal,
    /// The call that it is of.
    pub(crate) call: u64,
    /// The call's time was over.
    pub(crate) given_up: bool,
}

/// A number that no other call has: to tell the failures of one from those of many.
pub(crate) fn next_call() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
