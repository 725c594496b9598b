//! What became of requests, told apart by what they ask: equal ones, one after another, are one call however many loops
//! above send it. Knows no time of its own, no network and nobody who asks.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderValue, StatusCode};
use reqwest::Request;

use crate::account::{Remembered, hash_credential};
use crate::classify::Verdict;
use crate::clock::Deadline;
use crate::outcome::{Outcome, StopReason};

/// What tells requests apart: a keyed hash, so that nothing of them is kept. The key is the process's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(u64);

static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Fingerprint {
    /// Of method, URL and body; of a body that is a stream nothing can be told.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        Self::hashed(request, false)
    }

    /// And of the credential.
    pub(crate) fn with_credential(request: &Request) -> Option<Self> {
        Self::hashed(request, true)
    }

    fn hashed(request: &Request, credential: bool) -> Option<Self> {
        let body = match request.body() {
            Some(body) => body.as_bytes()?,
            None => &[],
        };
        let mut hash = KEY.build_hasher();
        (request.method(), request.url(), body).hash(&mut hash);
        if credential {
            hash_credential(request.url(), request.headers(), &mut hash);
        }
        Some(Self(std::hash::Hasher::finish(&hash)))
    }
}

/// How far a call has come, for whoever goes on with it.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    pub(crate) outcome: Outcome,
    pub(crate) begun: Instant,
    pub(crate) first_send: Option<Instant>,
    pub(crate) received_at: SystemTime,
    /// When its next attempt is due, if it was cut off in the wait for that.
    pub(crate) due: Option<Deadline>,
}

/// What a further send of a request that was given up is answered with.
#[derive(Debug, Clone, Default)]
pub(crate) enum Last {
    Answer(Arc<Remembered>),
    /// An answer that was let go of.
    Status(StatusCode, Verdict),
    /// There was none.
    #[default]
    Nothing,
}

/// How a call stands when its future ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// The next equal send asks anew: it was answered for good or for bad, or never sent.
    Over,
    /// It was cut off from above: the next equal send goes on with it.
    Open,
    /// The next equal send is answered with the last result.
    GivenUp,
}

impl Stand {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        match outcome.stop() {
            // a poll or a second sample asks again, and so does who has changed what was wrong
            StopReason::Succeeded | StopReason::Permanent | StopReason::Nested => Self::Over,
            _ if outcome.sends() == 0 => Self::Over,
            StopReason::Cancelled => Self::Open,
            _ => Self::GivenUp,
        }
    }
}

/// A call that was given up, and what is still known of it.
#[derive(Debug, Clone)]
pub(crate) struct Spent {
    pub(crate) standing: Standing,
    pub(crate) last: Last,
}

impl Spent {
    /// For how long an equal request can be taken for a repeat by a loop above: as long as such loops wait, or as the
    /// server said, but not so long that an honest second call would never get through.
    pub(crate) fn window(&self, least: Duration) -> Duration {
        let verdict = self.standing.outcome.verdict();
        let stated = verdict
            .and_then(Verdict::server_delay)
            .map_or(Duration::ZERO, |delay| delay.duration());
        least.max(stated).min(LONGEST_WINDOW)
    }
}

/// No loop above waits longer between two sends without asking somebody.
pub(crate) const LONGEST_WINDOW: Duration = Duration::from_secs(300);

/// A place in a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u64);

/// What a ledger says to a request that is about to be sent.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// It is a call of its own.
    Begun(Entry),
    /// It goes on with a call that was cut off, under the key that was sent before.
    Resumed(Entry, Box<Standing>, Option<HeaderValue>),
    /// It is a repeat of a call that was given up.
    Spent(Box<Spent>),
}

#[derive(Debug)]
struct Line {
    entry: Entry,
    print: Fingerprint,
    key: Option<HeaderValue>,
    state: LineState,
}

#[derive(Debug)]
enum LineState {
    InFlight,
    Open(Standing),
    GivenUp(Spent),
}

/// The calls of one operation.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    lines: Vec<Line>,
    next: u64,
}

/// So many calls that are not in flight are remembered; an operation with more of them forgets the oldest.
const REMEMBERED: usize = 256;

impl Ledger {
    /// A request is about to be sent. An equal one in flight does not count: two at the same time are two calls.
    pub(crate) fn claim(&mut self, print: Fingerprint, max_attempts: u32) -> Claimed {
        let known = self
            .lines
            .iter_mut()
            .find(|line| line.print == print && !matches!(line.state, LineState::InFlight));
        let Some(line) = known else {
            let entry = Entry(self.next);
            self.next = self.next.wrapping_add(1);
            self.lines.push(Line {
                entry,
                print,
                key: None,
                state: LineState::InFlight,
            });
            return Claimed::Begun(entry);
        };
        match std::mem::replace(&mut line.state, LineState::InFlight) {
            LineState::Open(standing) if standing.outcome.sends() < max_attempts => {
                Claimed::Resumed(line.entry, Box::new(standing), line.key.clone())
            }
            LineState::Open(standing) => {
                let spent = Spent {
                    standing,
                    last: Last::Nothing,
                };
                line.state = LineState::GivenUp(spent.clone());
                Claimed::Spent(Box::new(spent))
            }
            LineState::GivenUp(spent) => {
                line.state = LineState::GivenUp(spent.clone());
                Claimed::Spent(Box::new(spent))
            }
            LineState::InFlight => Claimed::Begun(line.entry),
        }
    }

    /// Is an equal request in flight beside this one?
    pub(crate) fn has_twin(&self, entry: Entry, print: Fingerprint) -> bool {
        self.lines
            .iter()
            .any(|line| line.entry != entry && line.print == print && matches!(line.state, LineState::InFlight))
    }

    /// The key that goes with the call's sends, now and later.
    pub(crate) fn note_key(&mut self, entry: Entry, key: Option<HeaderValue>) {
        if let Some(line) = self.lines.iter_mut().find(|line| line.entry == entry) {
            line.key = key;
        }
    }

    /// The call's future has ended.
    pub(crate) fn settle(&mut self, entry: Entry, standing: Standing, last: Last) {
        let Some(at) = self.lines.iter().position(|line| line.entry == entry) else {
            return;
        };
        // to the end, so that the oldest stand first
        let mut line = self.lines.remove(at);
        line.state = match Stand::of(&standing.outcome) {
            Stand::Over => return,
            Stand::Open => LineState::Open(standing),
            Stand::GivenUp => LineState::GivenUp(Spent { standing, last }),
        };
        self.lines.push(line);
        let resting = |line: &Line| !matches!(line.state, LineState::InFlight);
        if self.lines.iter().filter(|line| resting(line)).count() > REMEMBERED
            && let Some(oldest) = self.lines.iter().position(resting)
        {
            self.lines.remove(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(stop: StopReason, sends: u32) -> Standing {
        let mut outcome = Outcome::begun();
        for _ in 0..sends {
            outcome.count_send();
        }
        outcome.end(stop, Duration::ZERO, None);
        Standing {
            outcome,
            begun: Instant::now(),
            first_send: None,
            received_at: SystemTime::UNIX_EPOCH,
            due: None,
        }
    }

    fn begun(ledger: &mut Ledger, print: u64) -> Entry {
        match ledger.claim(Fingerprint(print), 4) {
            Claimed::Begun(entry) => entry,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_call_that_was_answered_is_over_and_the_next_equal_one_begins_anew() {
        let mut ledger = Ledger::default();
        for stop in [StopReason::Succeeded, StopReason::Permanent] {
            let entry = begun(&mut ledger, 1);
            ledger.settle(entry, standing(stop, 1), Last::Nothing);
            assert_ne!(begun(&mut ledger, 1), entry);
        }
    }

    #[test]
    fn a_call_that_was_given_up_is_spent_and_others_are_not() {
        let mut ledger = Ledger::default();
        for (print, stop) in [
            (1, StopReason::AttemptsSpent),
            (2, StopReason::QuotaExhausted),
            (3, StopReason::ServerSaidStop),
        ] {
            let entry = begun(&mut ledger, print);
            ledger.settle(entry, standing(stop, 1), Last::Nothing);
            for _ in 0..2 {
                assert!(matches!(ledger.claim(Fingerprint(print), 4), Claimed::Spent(spent)
                    if spent.standing.outcome.stop() == stop));
            }
        }
        begun(&mut ledger, 4);
    }

    #[test]
    fn a_call_cut_off_from_above_goes_on_until_its_attempts_are_spent() {
        let mut ledger = Ledger::default();
        let entry = begun(&mut ledger, 1);
        ledger.note_key(entry, Some(HeaderValue::from_static("k")));
        ledger.settle(entry, standing(StopReason::Cancelled, 3), Last::Nothing);
        assert!(
            matches!(ledger.claim(Fingerprint(1), 4), Claimed::Resumed(again, standing, Some(key))
            if again == entry && standing.outcome.sends() == 3 && key == "k")
        );
        ledger.settle(entry, standing(StopReason::Cancelled, 4), Last::Nothing);
        assert!(matches!(ledger.claim(Fingerprint(1), 4), Claimed::Spent(_)));
    }

    #[test]
    fn equal_calls_in_flight_together_are_calls_of_their_own() {
        let mut ledger = Ledger::default();
        let (first, second) = (begun(&mut ledger, 1), begun(&mut ledger, 1));
        assert_ne!(first, second);
        assert!(ledger.has_twin(first, Fingerprint(1)));
        ledger.settle(first, standing(StopReason::Succeeded, 1), Last::Nothing);
        assert!(!ledger.has_twin(second, Fingerprint(1)));
    }

    #[test]
    fn an_operation_forgets_its_oldest_calls_and_never_one_in_flight() {
        let mut ledger = Ledger::default();
        let in_flight = begun(&mut ledger, 0);
        for print in 1..=1000 {
            let entry = begun(&mut ledger, print);
            ledger.settle(entry, standing(StopReason::AttemptsSpent, 4), Last::Nothing);
        }
        assert_eq!(ledger.lines.len(), REMEMBERED + 1);
        assert!(matches!(ledger.claim(Fingerprint(1000), 4), Claimed::Spent(_)));
        assert!(matches!(ledger.claim(Fingerprint(1), 4), Claimed::Begun(_)));
        ledger.settle(in_flight, standing(StopReason::AttemptsSpent, 4), Last::Nothing);
        assert!(matches!(ledger.claim(Fingerprint(0), 4), Claimed::Spent(_)));
    }

    #[test]
    fn a_window_is_as_long_as_the_servers_delay_but_never_over_five_minutes() {
        use crate::classify::{Cause, Class};
        use crate::outcome::Attempt;
        use crate::retry_after::{DelaySource, ServerDelay};
        let window = |delay: Option<u64>, least| {
            let mut standing = standing(StopReason::AttemptsSpent, 1);
            let delay = delay.map(|delay| ServerDelay::new(Duration::from_secs(delay), DelaySource::RetryAfter));
            let verdict = Verdict::new(Class::Retryable, Cause::RateLimited).with_server_delay(delay);
            let (zero, status) = (Duration::ZERO, Some(StatusCode::TOO_MANY_REQUESTS));
            standing.outcome.record(Attempt::new(zero, zero, status, Some(verdict)));
            let last = Last::Nothing;
            Spent { standing, last }.window(Duration::from_secs(least)).as_secs()
        };
        assert_eq!(window(None, 60), 60);
        assert_eq!(window(Some(7), 60), 60);
        assert_eq!(window(Some(90), 60), 90);
        assert_eq!(window(Some(86_400), 60), 300);
        assert_eq!(window(None, 1000), 300);
    }
}
