//! The right to one send. Whatever it holds is given back by dropping it, at whatever point that happens.

use std::time::SystemTime;

use super::lane::LaneName;
use super::size::Size;
use super::state::{Changes, Grant, Heard};
use super::tick::Tick;
use super::{Account, Asked, RequestLimit, Usage};
use crate::classify::Verdict;

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
        let requests = RequestLimit::of(seen);
        self.admitted.hear(Heard {
            verdict: verdict.copied(),
            requests,
            answer: None,
        });
    }
}

/// A permit as the loop holds it.
#[derive(Debug)]
pub(crate) struct Admitted {
    account: Account,
    /// `None` while the account is quiet: nothing was asked of it.
    grant: Option<Grant>,
    size: Size,
}

impl Admitted {
    pub(super) const fn granted(account: Account, grant: Grant, size: Size) -> Self {
        Self {
            account,
            grant: Some(grant),
            size,
        }
    }

    pub(super) const fn unasked(account: Account) -> Self {
        Self {
            account,
            grant: None,
            size: Size::NONE,
        }
    }

    /// A provider has spoken to a quiet account: the send that it answered is counted after the fact.
    pub(crate) fn adopt(&mut self, asked: &Asked<'_>) {
        if self.grant.is_none() {
            self.grant = self.account.adopt(asked);
        }
    }

    /// Tells the account what came of the send.
    pub(crate) fn hear(&mut self, heard: Heard) -> Changes {
        match &self.grant {
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

    /// Pays for a retry after this send. False if the budget has none left.
    pub(crate) fn pay_for_retry(&self, verdict: &Verdict) -> bool {
        match &self.grant {
            Some(grant) => self
                .account
                .shared
                .with(|state, now, _| state.pay_for_retry(grant, verdict, now)),
            None => true,
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

impl Drop for Admitted {
    fn drop(&mut self) {
        let Some(grant) = self.grant.take() else { return };
        let shared = &self.account.shared;
        // to look at the clock takes as long as all the rest
        if !shared.lock().finish_alone(&grant) {
            shared.with(|state, now, woken| state.finish(&grant, now, woken));
        }
    }
}
