//! The right to one send. Whatever it holds is given back by dropping it, at whatever point that happens.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::hold::Remembered;
use super::lane::{Known, LaneName};
use super::size::Size;
use super::state::{Changes, Grant, Heard, Payment};
use super::tick::Tick;
use super::{Account, Asked, RequestLimit, Usage};
use crate::classify::{Class, Verdict};

/// The right to one send, and the place in flight that goes with it. Drop it when the answer has been read to its end: what
/// it reserved stays charged if nobody said what was used, since what is not known is not nothing.
#[derive(Debug)]
#[must_use = "dropping a permit gives its place back"]
pub struct Permit {
    admitted: Admitted,
}

impl Permit {
    pub(super) fn granted(account: &Account, grant: Grant, size: Size) -> Self {
        Self {
            admitted: Admitted::granted(account.clone(), grant, size),
        }
    }

    pub(super) fn unasked(account: &Account) -> Self {
        Self {
            admitted: Admitted::unasked(account.clone()),
        }
    }

    /// Says what the request took, and gives its place back.
    pub fn settle(mut self, usage: Usage) {
        self.admitted.settle(usage);
    }

    /// Says what came of the request, so that the account can learn from it: a pause, a rate, a ceiling.
    pub fn report(&mut self, seen: &crate::Seen<'_>, verdict: Option<&Verdict>) {
        let quota = verdict.filter(|verdict| verdict.class() == Class::QuotaExhausted);
        let answer = quota.and_then(|verdict| Remembered::seen(seen, *verdict));
        self.admitted
            .hear(verdict.copied(), RequestLimit::of(seen), answer.map(Arc::new));
    }
}

/// A permit as the loop holds it.
#[derive(Debug)]
pub(crate) struct Admitted {
    account: Account,
    /// `None` while the account is quiet: nothing was asked of it.
    grant: Option<Grant>,
    size: Size,
    /// Its lane, where the request will not be there to tell it.
    known: Option<Box<Known>>,
}

impl Admitted {
    pub(super) const fn granted(account: Account, grant: Grant, size: Size) -> Self {
        Self {
            account,
            grant: Some(grant),
            size,
            known: None,
        }
    }

    pub(super) fn unasked(account: Account) -> Self {
        account.shared.unasked_in_flight.fetch_add(1, Ordering::Relaxed);
        Self {
            account,
            grant: None,
            size: Size::NONE,
            known: None,
        }
    }

    /// The request goes with this send: what may still be asked of it is noted.
    pub(crate) fn keep(&mut self, asked: &Asked<'_>) {
        if self.grant.is_none() {
            self.known = Some(Box::new(self.account.know(asked)));
        }
    }

    /// A provider has spoken to a quiet account: the send that it answered is counted after the fact.
    pub(crate) fn adopt(&mut self, asked: &Asked<'_>) {
        if self.grant.is_none() {
            let known = self
                .known
                .take()
                .map_or_else(|| self.account.know(asked), |known| *known);
            self.grant = self.account.adopt(known);
            if self.grant.is_some() {
                self.account.shared.unasked_in_flight.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Tells the account what came of the send.
    pub(crate) fn hear(
        &mut self,
        verdict: Option<Verdict>,
        requests: Option<RequestLimit>,
        answer: Option<Arc<Remembered>>,
    ) -> Changes {
        let heard = Heard {
            verdict,
            requests,
            answer,
            unasked: self.account.shared.unasked_in_flight.load(Ordering::Relaxed),
        };
        match &mut self.grant {
            Some(grant) => self
                .account
                .shared
                .with(|state, now, woken| state.hear(grant, heard, now, woken)),
            None => Changes::new(),
        }
    }

    /// What may be told of the lane, and the time of day at which a change takes effect.
    pub(crate) fn name(&self) -> Option<LaneName> {
        self.account.shared.lock().name(&self.grant?)
    }

    pub(crate) fn wall(&self, at: Tick) -> Option<SystemTime> {
        let shared = &self.account.shared;
        shared.wall(at, shared.now())
    }

    /// Is it the one that shows whether a circuit breaker may close?
    pub(crate) fn probes_breaker(&self) -> bool {
        self.grant.is_some_and(|grant| grant.pass.is_probe())
    }

    /// Pays for a retry after this send. `None` if the budget has none left.
    pub(crate) fn pay_for_retry(&self, verdict: &Verdict) -> Option<Paid> {
        let Some(grant) = self.grant else {
            return Some(Paid(None));
        };
        let shared = &self.account.shared;
        match shared.with(|state, now, _| state.pay_for_retry(&grant, verdict, now)) {
            Payment::Free => Some(Paid(None)),
            Payment::Paid => Some(Paid(Some((self.account.clone(), grant)))),
            Payment::Refused => None,
        }
    }

    /// Must it be held until the body ends?
    pub(crate) fn outlives_headers(&self) -> bool {
        self.counts_tokens()
            || self
                .grant
                .is_some_and(|grant| self.account.shared.lock().has_ceiling(&grant))
    }

    pub(crate) fn counts_tokens(&self) -> bool {
        self.grant.is_some() && self.account.shared.sizes.count
    }

    /// Corrects what was reserved.
    pub(crate) fn settle(&mut self, usage: Usage) {
        if let Some(grant) = self.grant.filter(|_| self.account.shared.sizes.count) {
            let (size, sizes) = (self.size, &self.account.shared.sizes);
            self.account
                .shared
                .with(|state, now, woken| state.settle_usage(&grant, &size, usage, sizes, now, woken));
        }
    }
}

/// What was paid for a retry; dropped before the retry is made, it is given back.
#[derive(Debug)]
pub(crate) struct Paid(Option<(Account, Grant)>);

impl Paid {
    /// The retry is made.
    pub(crate) fn spend(mut self) {
        self.0 = None;
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        if let Some((account, grant)) = &self.0 {
            account.shared.with(|state, now, _| state.refund_retry(grant, now));
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let shared = &self.account.shared;
        let Some(grant) = self.grant.take() else {
            shared.unasked_in_flight.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        // to look at the clock takes as long as all the rest
        if !shared.lock().finish_alone(&grant) {
            shared.with(|state, now, woken| state.finish(&grant, now, woken));
        }
    }
}
