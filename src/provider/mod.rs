//! What an answer means: the order in which its signs bind. What the signs are is known to the families, one file each; a new
//! provider is one more file and one more line in [`FAMILIES`].

mod anthropic;
mod aws;
mod azure;
mod cloudflare;
mod dashscope;
mod envelope;
mod facts;
mod google;
mod hosts;
mod layer;
mod litellm;
mod minimax;
mod moonshot;
mod openai;
mod openrouter;
mod payments;
mod precedence;
mod prose;
mod scope;
mod sign;
mod siliconflow;
mod status;
mod volcengine;
mod window;
mod wording;
mod zhipu;

pub(crate) use envelope::{Envelope, Said};

use crate::classify::{Class, Delivery, Seen, Verdict};
use facts::Facts;
use precedence::{Finding, stated};
use sign::{Family, Signs};

const FAMILIES: &[&Family] = &[
    &openai::FAMILY,
    &anthropic::FAMILY,
    &google::FAMILY,
    &aws::FAMILY,
    &azure::FAMILY,
    &openrouter::FAMILY,
    &hosts::FAMILY,
    &moonshot::FAMILY,
    &zhipu::FAMILY,
    &dashscope::FAMILY,
    &minimax::FAMILY,
    &volcengine::FAMILY,
    &siliconflow::FAMILY,
    &cloudflare::FAMILY,
    &litellm::FAMILY,
    &payments::FAMILY,
    &wording::FAMILY,
];

/// The verdict on an answer, or `None` for a success.
pub(crate) fn verdict(seen: &Seen<'_>) -> Option<Verdict> {
    let facts = Facts::of(seen)?;
    let signs = Signs::of(FAMILIES, &facts);
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
