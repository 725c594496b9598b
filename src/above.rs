//! The layers above a call that may send its request again: an operation in scope, those that the guard is for, or whoever
//! passes the same extensions on. Knows what they must be told, not how a call runs.

use std::time::{Duration, Instant};

use http::{Extensions, HeaderMap, HeaderName};

use crate::call::Ended;
use crate::classify::Verdict;
use crate::guard::Guard;
use crate::ledger::{Claimed, Entry, Fingerprint, Last, Spent, Stand, Standing};
use crate::operation::Current;
use crate::outcome::Mark;
use crate::policy::RetryPolicy;
use crate::replay::Outgoing;

/// What is known of one call to those above it.
#[derive(Debug, Default)]
pub(crate) struct Above<'a> {
    operation: Option<&'a Current>,
    guard: Option<&'a Guard>,
    /// What tells the request to the guard of a call in an operation, which counts by other marks.
    guarded: Option<Fingerprint>,
    /// What an earlier call with the same extensions left.
    left: Option<GivenUp>,
    /// The call's place in the operation.
    entry: Option<Entry>,
    /// What it took over from an earlier part of itself.
    mark: Mark,
    /// What tells the request, once somebody may have to know it again.
    print: Option<Fingerprint>,
    /// What a repeat of the request gets.
    last: Last,
}

/// What those above know of a request that is about to be sent.
#[derive(Debug)]
pub(crate) enum Known {
    Nothing,
    /// It was cut off, and goes on.
    Resumed(Box<Standing>),
    /// It was given up.
    Spent(Box<Spent>),
}

/// What a call that was given up leaves to a layer above that sends the same request again with the same extensions.
#[derive(Debug, Clone)]
struct GivenUp {
    print: Fingerprint,
    spent: Box<Spent>,
    until: Instant,
}

/// So long such a layer may wait before it sends again.
const WINDOW: Duration = Duration::from_secs(60);

impl<'a> Above<'a> {
    /// Somebody above counts, is guarded against, or has had the same extensions before. (Boxed, since most calls have
    /// nobody.)
    #[inline]
    pub(crate) fn of(
        operation: Option<&'a Current>,
        guard: Option<&'a Guard>,
        extensions: &mut Extensions,
    ) -> Option<Box<Self>> {
        let left = extensions.remove::<GivenUp>();
        (operation.is_some() || guard.is_some() || left.is_some()).then(|| {
            Box::new(Self {
                operation,
                guard,
                left,
                ..Self::default()
            })
        })
    }

    /// The operation that it is a part of, if that is cancelled.
    pub(crate) fn cancelled(&self) -> Option<&'a Current> {
        self.operation.filter(|operation| operation.is_cancelled())
    }

    /// Asks what becomes of the request; what is a part of an operation gets its key.
    pub(crate) fn ask(
        &mut self,
        outgoing: &mut Outgoing,
        policy: &RetryPolicy,
        extensions: &mut Extensions,
        now: Instant,
    ) -> Known {
        let request = outgoing.request();
        let Some(operation) = self.operation else {
            self.print = Fingerprint::with_credential(request);
            let known = self.print.and_then(|print| self.recall(print, extensions, now));
            // one that is sent once leaves it to a layer above to send it again, whatever an earlier call left
            self.print = self.print.filter(|_| self.guard.is_some() || policy.max_attempts > 1);
            return known.map_or(Known::Nothing, Known::Spent);
        };
        // what is given up in an operation is known to whoever made it, but its success ends what the guard knows
        self.guarded = self.guard.and_then(|_| Fingerprint::with_credential(request));
        self.print = Fingerprint::of(request);
        let Some(print) = self.print else {
            return Known::Nothing;
        };
        match operation.claim(print, policy.max_attempts) {
            Claimed::Spent(spent) => {
                if let Some(count) = sdk_retry_count(request.headers()) {
                    operation.note_sdk_retry(count);
                }
                Known::Spent(spent)
            }
            Claimed::Resumed(entry, standing, key) => {
                self.entry = Some(entry);
                self.mark = standing.outcome.mark();
                if let Some(key) = key {
                    outgoing.set_key(policy, key);
                }
                Known::Resumed(standing)
            }
            Claimed::Begun(entry) => {
                self.entry = Some(entry);
                let own = operation.own_key(entry, print, outgoing.request());
                if let Some(key) = own.filter(|_| outgoing.key(policy).is_none()) {
                    outgoing.set_key(policy, key);
                }
                Known::Nothing
            }
        }
    }

    /// What became of an equal request, in the memory of the guard or of whoever passes the extensions on.
    fn recall(&mut self, print: Fingerprint, extensions: &mut Extensions, now: Instant) -> Option<Box<Spent>> {
        if let Some(guard) = self.guard {
            return guard.recall(print, now).map(Box::new);
        }
        let left = self
            .left
            .take()
            .filter(|left| left.print == print && now < left.until)?;
        let spent = left.spent.clone();
        extensions.insert(left);
        Some(spent)
    }

    /// The request has the key that goes with the call.
    pub(crate) fn note_key(&self, outgoing: &Outgoing, policy: &RetryPolicy) {
        if let Some((operation, entry)) = self.operation.zip(self.entry) {
            operation.note_key(entry, outgoing.key(policy).cloned());
        }
    }

    /// The request failed, and is still whole: the last attempt will take it along.
    pub(crate) fn note_request(&mut self, outgoing: &Outgoing) {
        self.print = self.print.or_else(|| Fingerprint::with_credential(outgoing.whole()?));
    }

    /// The call ended so: as much of a refusal as is here is kept, if anybody would know the request again.
    #[cold]
    pub(crate) fn note_end(&mut self, ended: &Ended, verdict: Option<&Verdict>) {
        if let (Some(_), Ended::Answered(answer), Some(verdict)) = (self.print, ended, verdict) {
            self.last = Last::Answer(answer.kept(*verdict).into());
        }
    }

    /// What a repeat of the request gets.
    pub(crate) fn note_last(&mut self, last: Last) {
        self.last = last;
    }

    /// The call has ended: leaves what an equal request must know to the operation, to the guard, or to whoever has the
    /// extensions.
    pub(crate) fn settle(self, standing: Standing, extensions: &mut Extensions, now: Instant) {
        let Self {
            operation,
            guard,
            guarded,
            entry,
            mark,
            print,
            last,
            ..
        } = self;
        let stand = Stand::of(&standing.outcome);
        // one that was not sent has heard nothing new
        let answered = stand == Stand::Over && standing.outcome.sends() > 0;
        if let Some((guard, print)) = guard.zip(guarded.or(print)).filter(|_| answered) {
            guard.forget(print);
        }
        if let Some(operation) = operation {
            operation.record(&standing.outcome.since(mark), standing.begun);
            if let Some(entry) = entry {
                operation.settle(entry, standing, last);
            }
            return;
        }
        let Some(print) = print.filter(|_| stand == Stand::GivenUp) else {
            return;
        };
        let spent = Spent { standing, last };
        if let Some(guard) = guard {
            guard.remember(print, spent, now);
        } else if let Some(until) = now.checked_add(spent.window(WINDOW)) {
            let spent = Box::new(spent);
            extensions.insert(GivenUp { print, spent, until });
        }
    }
}

/// Which repeat of an SDK's own loop the request is, if it says so. (A request has few headers: to look at each takes less
/// than the map's own look-up.)
pub(crate) fn sdk_retry_count(headers: &HeaderMap) -> Option<u32> {
    static NAME: HeaderName = HeaderName::from_static("x-stainless-retry-count");
    let (_, count) = headers.iter().find(|(name, _)| **name == NAME)?;
    count.to_str().ok()?.parse().ok().filter(|count| *count > 0)
}
