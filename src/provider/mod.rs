//! What an answer means: the order in which its signs bind. What the signs are is known to the families, one file each; a new
//! provider is one more file and one more line in [`FAMILIES`].

mod anthropic;
mod aws;
mod azure;
mod chinese;
mod cloudflare;
mod envelope;
mod facts;
mod google;
mod hosts;
mod layer;
mod litellm;
mod openai;
mod openrouter;
mod payments;
mod prose;
mod scope;
mod sign;
mod status;
mod window;
mod wording;

use std::time::Duration;

pub(crate) use envelope::Envelope;

use crate::classify::{Cause, Class, Delivery, Scope, Seen, Verdict};
use facts::Facts;
use sign::{Family, Meaning};
use window::{Named, Window};

const FAMILIES: &[&Family] = &[
    &openai::FAMILY,
    &anthropic::FAMILY,
    &google::FAMILY,
    &aws::FAMILY,
    &azure::FAMILY,
    &openrouter::FAMILY,
    &hosts::FAMILY,
    &chinese::MOONSHOT,
    &chinese::ZHIPU,
    &chinese::DASHSCOPE,
    &chinese::MINIMAX,
    &chinese::VOLCENGINE,
    &chinese::NUMBERED,
    &cloudflare::FAMILY,
    &litellm::FAMILY,
    &payments::FAMILY,
    &wording::FAMILY,
];

/// Of a day's, a plan's or a longer window, a wait up to this is worth it: the window rolls on and frees a place.
const LONGEST_IN_A_LONG_WINDOW: Duration = Duration::from_secs(300);
/// Where no window is named, a wait from here on is no rate limit's.
const LONGEST_UNNAMED: Duration = Duration::from_secs(3600);

/// The verdict on an answer, or `None` for a success.
pub(crate) fn verdict(seen: &Seen<'_>) -> Option<Verdict> {
    let facts = Facts::of(seen)?;
    let signs = Signs::of(&facts);
    let finding = flagged(&facts, stated(&facts, &signs));
    let refused = facts.delay.is_some() || signs.tell_of_capacity();
    let delivery = match status::delivery(facts.status, refused) {
        // what has begun to answer has done something
        _ if facts.had_begun() => Delivery::Ambiguous,
        delivery => delivery,
    };
    let verdict = Verdict::new(finding.class, finding.cause)
        .with_scope(finding.scope)
        .with_delivery(delivery)
        .with_layer(layer::of(&facts))
        .with_server_delay(facts.delay);
    Some(verdict)
}

/// What the body states, in the order of precedence, or `None` if only the status is left to go by.
fn stated(facts: &Facts<'_>, signs: &Signs) -> Option<Finding> {
    let mut finding = refusal(signs)
        .or_else(|| capacity(signs))
        .or_else(|| larger_than_its_limit(facts, signs))
        .or_else(|| limit_of_zero(facts, signs))
        .or_else(|| spent(facts, signs))
        .or_else(|| named_window(facts, signs))
        .or_else(|| other_code(facts, signs))?;
    if finding.scope == Scope::Unknown && matches!(finding.cause, Cause::RateLimited | Cause::DailyAllowance) {
        finding.scope = scope::of(facts, signs.throttle());
    }
    Some(finding)
}

/// The server's own word on sending again. `false` binds always; `true` lifts a bare status, but neither an empty account nor
/// a fault that the body names.
fn flagged(facts: &Facts<'_>, stated: Option<Finding>) -> Finding {
    let (class, cause) = status::meaning(facts.status);
    let bare = Finding::new(class, cause);
    let finding = stated.unwrap_or(bare);
    let flag = ["x-should-retry", "stripe-should-retry"]
        .into_iter()
        .find_map(|name| facts.header(name));
    let class = match flag {
        Some(flag) if flag.eq_ignore_ascii_case("false") && finding.class == Class::Retryable => Class::Permanent,
        Some(flag) if flag.eq_ignore_ascii_case("true") && stated.is_none() => Class::Retryable,
        _ => finding.class,
    };
    Finding { class, ..finding }
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
    if !signs.tell_of_a_limit(facts) {
        return None;
    }
    let in_prose = facts
        .sentences
        .iter()
        .any(|sentence| prose::numbers_after(&sentence.lower, "limit").any(|limit| limit == 0.0));
    let in_fields = facts.envelope.objects().any(|object| {
        let values = facts::texts(object, &["quota_limit_value", "quotaValue"]);
        values.into_iter().any(|value| value == "0")
    });
    let in_headers = facts.headers.iter().any(|(name, value)| {
        let name = name.as_str();
        name.starts_with("x-ratelimit-limit") && value.as_bytes() == b"0"
    });
    (in_prose || in_fields || in_headers).then_some(Finding::new(Class::QuotaExhausted, Cause::Other))
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
    let named = windows(facts);
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
    if !signs.tell_of_a_limit(facts) {
        return None;
    }
    let limited = Finding::new(Class::Retryable, Cause::RateLimited);
    let named = windows(facts);
    let waits = |longer_than: Duration| facts.wait().is_some_and(|wait| wait > longer_than);
    match named.long {
        Some(long) => {
            let spent = waits(LONGEST_IN_A_LONG_WINDOW) || (facts.delay.is_none() && !named.short);
            let finding = if spent {
                Finding::new(Class::QuotaExhausted, cause_of(long))
            } else {
                limited
            };
            Some(finding.of(scope::of_window(long)))
        }
        None if named.short => Some(limited),
        None => {
            let longest = LONGEST_UNNAMED - Duration::from_nanos(1);
            let spent = waits(longest) || (facts.delay.is_none() && window::none_is_used_up(facts.headers));
            spent.then_some(Finding::new(Class::QuotaExhausted, Cause::DailyAllowance).of(Scope::Day))
        }
    }
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
fn windows(facts: &Facts<'_>) -> Named {
    let names = facts
        .limits()
        .map(window::in_name)
        .fold(Named::default(), Named::merged);
    let sentences = || {
        let named = facts
            .sentences
            .iter()
            .filter(|sentence| !sentence.lower.contains("unlock"));
        named
            .map(|sentence| window::in_prose(&sentence.spelled))
            .find(|named| named.is_any())
    };
    let headers = || {
        let own = FAMILIES.iter().map(|family| (family.window)(facts));
        own.fold(window::in_headers(facts.headers), Named::merged)
    };
    Some(names)
        .filter(|named| named.is_any())
        .or_else(sentences)
        .unwrap_or_else(headers)
}

fn cause_of(window: Window) -> Cause {
    match window {
        Window::Hours | Window::Week => Cause::PlanWindow,
        Window::Short | Window::Day | Window::Month => Cause::DailyAllowance,
    }
}

/// May words about limits be taken for a throttle under this status? A missing path or a wrong parameter may mention one.
fn may_throttle(facts: &Facts<'_>) -> bool {
    !matches!(facts.status.as_u16(), 401 | 402 | 404 | 405 | 413 | 415 | 422)
}

/// What is known of the failure before delivery and layer.
#[derive(Debug, Clone, Copy)]
struct Finding {
    class: Class,
    cause: Cause,
    scope: Scope,
}

impl Finding {
    const fn new(class: Class, cause: Cause) -> Self {
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

/// All that the families read in an answer, in their order.
struct Signs(Vec<Meaning>);

impl Signs {
    fn of(facts: &Facts<'_>) -> Self {
        Self(FAMILIES.iter().flat_map(|family| family.read(facts)).collect())
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = Meaning> {
        self.0.iter().copied()
    }

    fn find(&self, finding: impl Fn(Meaning) -> Option<Finding>) -> Option<Finding> {
        self.all().find_map(finding)
    }

    fn has(&self, meaning: Meaning) -> bool {
        self.0.contains(&meaning)
    }

    fn tell_of_capacity(&self) -> bool {
        self.all().any(|meaning| matches!(meaning, Meaning::Capacity(..)))
    }

    /// The dimension that a throttle names, the most exact one.
    fn throttle(&self) -> Option<Scope> {
        let scopes = self.all().filter_map(|meaning| match meaning {
            Meaning::Throttle(scope) => Some(scope),
            _ => None,
        });
        scopes.reduce(|found, scope| if found == Scope::Unknown { scope } else { found })
    }

    /// Is this about a limit on the rate at all, so that words about windows and limits mean the caller's?
    fn tell_of_a_limit(&self, facts: &Facts<'_>) -> bool {
        facts.status.as_u16() == 429 || (self.throttle().is_some() && may_throttle(facts))
    }
}
