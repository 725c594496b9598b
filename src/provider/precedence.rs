//! The order in which signs bind: refusals, the server's own shortage, what never fits, no allowance, a spent one, a named
//! window with the wait that is stated, any other code. Knows no provider.

use std::time::Duration;

use super::facts::{self, Facts};
use super::sign::{Meaning, Signs};
use super::window::{self, Named, Window};
use super::{prose, scope};
use crate::classify::{Cause, Class, Scope};

/// Of a day's, a plan's or a longer window, a wait up to this is worth it: the window rolls on and frees a place.
const LONGEST_IN_A_LONG_WINDOW: Duration = Duration::from_secs(300);
/// Where no window is named, a wait from here on is no rate limit's.
const TOO_LONG_UNNAMED: Duration = Duration::from_secs(3600);

/// What the body states, in the order of precedence, or `None` if only the status is left to go by.
pub(super) fn stated(facts: &Facts<'_>, signs: &Signs) -> Option<Finding> {
    let mut finding = refusal(signs)
        .or_else(|| capacity(signs))
        .or_else(|| larger_than_its_limit(facts, signs))
        .or_else(|| limit_of_zero(facts, signs))
        .or_else(|| spent(facts, signs))
        .or_else(|| named_window(facts, signs))
        .or_else(|| other_code(facts, signs))?;
    finding.scope = match (finding.cause, finding.scope) {
        (Cause::RateLimited, Scope::Unknown) => scope::of(facts, signs.throttle()),
        (Cause::DailyAllowance, _) => Scope::Day,
        (Cause::PlanWindow, _) => windows(facts, signs).long.map_or(Scope::Unknown, scope::of_window),
        (_, scope) => scope,
    };
    Some(finding)
}

fn refusal(signs: &Signs) -> Option<Finding> {
    signs.find(|meaning| match meaning {
        Meaning::Refusal(cause) => Some(Finding::new(Class::Permanent, cause)),
        _ => None,
    })
}

/// The server's shortage, not the caller's allowance, whatever it is named and however long the wait.
fn capacity(signs: &Signs) -> Option<Finding> {
    signs.find(|meaning| match meaning {
        Meaning::Capacity(cause, scope) => Some(Finding::new(Class::Retryable, cause).of(scope)),
        _ => None,
    })
}

/// "Limit 30000, Requested 37313": no wait helps. What a window holds ("Used", "Current", "actual") is not the request.
fn larger_than_its_limit(facts: &Facts<'_>, signs: &Signs) -> Option<Finding> {
    let exceeds = |sentence: &str| {
        let limit = prose::numbers_after(sentence, "limit").next();
        let requested = prose::numbers_after(sentence, "requested").next();
        !sentence.contains("concurren") && limit.zip(requested).is_some_and(|(limit, requested)| requested > limit)
    };
    let too_large = signs.has(Meaning::Oversize) || facts.sentences.iter().any(|sentence| exceeds(&sentence.lower));
    too_large.then_some(Finding::new(Class::Permanent, Cause::TooLarge))
}

/// There is no allowance at all, so that nothing comes back with time.
fn limit_of_zero(facts: &Facts<'_>, signs: &Signs) -> Option<Finding> {
    if !is_throttled(facts, signs) {
        return None;
    }
    let in_prose = facts.sentences.iter().any(|sentence| {
        !sentence.lower.contains("remaining limit")
            && prose::numbers_after(&sentence.lower, "limit").any(|limit| limit == 0.0)
    });
    let in_fields = facts.envelope.objects().any(|object| {
        let values = facts::texts(object, &["quota_limit_value", "quotaValue"]);
        values.into_iter().any(|value| value == "0")
    });
    let in_headers = facts.headers.iter().any(|(name, value)| {
        let name = name.as_str();
        name.starts_with("x-ratelimit-limit") && value.as_bytes() == b"0"
    });
    (in_prose || in_fields || in_headers).then_some(Finding::new(Class::QuotaExhausted, Cause::NoAllowance))
}

/// Money, credit or an allowance is used up, in a code or in words.
fn spent(facts: &Facts<'_>, signs: &Signs) -> Option<Finding> {
    let spent = |cause| Finding::new(Class::QuotaExhausted, cause);
    let surely = signs.all().filter_map(|meaning| match meaning {
        Meaning::Spent(cause) => Some(cause),
        _ => None,
    });
    // several may be named at once; a limit that somebody set tells more than an empty account
    let weight = |cause: &Cause| match cause {
        Cause::SpendLimit => 3,
        Cause::PlanWindow => 2,
        Cause::DailyAllowance => 1,
        _ => 0,
    };
    if let Some(cause) = surely.max_by_key(weight) {
        return Some(spent(cause));
    }
    let named = windows(facts, signs);
    let passes = named.short
        || facts.wait().is_some_and(|wait| wait <= LONGEST_IN_A_LONG_WINDOW)
        || (named.long.is_none() && facts.says_any(&["try again later", "try again shortly", "wait a moment"]));
    signs.find(|meaning| match meaning {
        Meaning::PerhapsSpent(cause) if !passes => Some(spent(named.long.map_or(cause, cause_of))),
        _ => None,
    })
}

/// A day's, plan's or longer window with a long wait or none is as good as spent; a shorter one passes at any wait.
fn named_window(facts: &Facts<'_>, signs: &Signs) -> Option<Finding> {
    if !is_throttled(facts, signs) {
        return None;
    }
    let limited = Finding::new(Class::Retryable, Cause::RateLimited);
    let named = windows(facts, signs);
    let Some(long) = named.long else {
        let spent = match facts.wait() {
            _ if named.short => return Some(limited),
            Some(wait) => wait >= TOO_LONG_UNNAMED,
            None => window::none_is_used_up(facts.headers),
        };
        return spent.then_some(Finding::new(Class::QuotaExhausted, Cause::DailyAllowance));
    };
    let spent = match facts.wait() {
        Some(wait) => wait > LONGEST_IN_A_LONG_WINDOW,
        None => !named.short,
    };
    let finding = if spent {
        Finding::new(Class::QuotaExhausted, cause_of(long))
    } else {
        limited
    };
    Some(finding.of(scope::of_window(long)))
}

/// Any other code or sentence with a meaning. A throttle comes first: names of faults are also used for throttles.
fn other_code(facts: &Facts<'_>, signs: &Signs) -> Option<Finding> {
    let throttled = signs
        .throttle()
        .filter(|_| may_throttle(facts))
        .map(|scope| Finding::new(Class::Retryable, Cause::RateLimited).of(scope));
    let transient = || {
        signs.find(|meaning| match meaning {
            Meaning::Transient(cause) => Some(Finding::new(Class::Retryable, cause)),
            _ => None,
        })
    };
    // a 5xx with a fault's name comes from something between that lost its own way
    let wrong = || {
        signs.find(|meaning| match meaning {
            Meaning::Wrong(cause) if !facts.is_server_error() => Some(Finding::new(Class::Permanent, cause)),
            _ => None,
        })
    };
    let shortly = || {
        let passes = facts.status.as_u16() == 402 && facts.says_any(&["retry in", "try again in", "temporar"]);
        passes.then_some(Finding::new(Class::Retryable, Cause::RateLimited))
    };
    throttled.or_else(transient).or_else(wrong).or_else(shortly)
}

/// The windows of the limit that was hit: as its name says, else the first sentence that names one (the next may speak of
/// what more money would buy), else the headers.
fn windows(facts: &Facts<'_>, signs: &Signs) -> Named {
    let names = facts
        .limits()
        .map(window::in_name)
        .fold(Named::default(), Named::merged);
    let sentences = || {
        let named = facts
            .sentences
            .iter()
            .filter(|sentence| is_about_a_limit(&sentence.lower));
        named
            .map(|sentence| window::in_prose(&sentence.spelled))
            .find(|named| named.is_any())
    };
    let headers = || window::in_headers(facts.headers).merged(signs.windows);
    Some(names)
        .filter(|named| named.is_any())
        .or_else(sentences)
        .unwrap_or_else(headers)
}

/// A support desk answers within 24 hours, and money unlocks a thousand requests per day: neither is the limit that was hit.
fn is_about_a_limit(sentence: &str) -> bool {
    const WORDS: &[&str] = &[
        "limit",
        "quota",
        "exceed",
        "request",
        "token",
        "usage",
        "used",
        "allowance",
        "allocat",
        "call",
        "quer",
        "message",
        "image",
        "credit",
        "rate",
        "free",
        "cap",
        "plan",
        "maximum",
        "限",
        "次",
        "量",
        "额",
        "用",
    ];
    !sentence.contains("unlock") && WORDS.iter().any(|word| sentence.contains(word))
}

fn cause_of(window: Window) -> Cause {
    match window {
        Window::Hours | Window::Week => Cause::PlanWindow,
        Window::Short | Window::Day | Window::Month => Cause::DailyAllowance,
    }
}

/// Is this about a limit on the rate at all, so that words about windows and limits mean the caller's?
fn is_throttled(facts: &Facts<'_>, signs: &Signs) -> bool {
    facts.status.as_u16() == 429 || (signs.throttle().is_some() && may_throttle(facts))
}

/// May words about limits be taken for a throttle under this status? A missing path or a wrong parameter may mention one.
fn may_throttle(facts: &Facts<'_>) -> bool {
    !matches!(facts.status.as_u16(), 401 | 402 | 404 | 405 | 413 | 415 | 422)
}

/// What is known of the failure before delivery and layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finding {
    pub(super) class: Class,
    pub(super) cause: Cause,
    pub(super) scope: Scope,
}

impl Finding {
    pub(super) const fn new(class: Class, cause: Cause) -> Self {
        Self {
            class,
            cause,
            scope: Scope::Unknown,
        }
    }

    const fn of(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }
}
