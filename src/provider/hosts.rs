//! Those who host open models (Groq, Together, Fireworks, Hugging Face, Cerebras, Replicate, NVIDIA, Ollama, W&B) and smaller
//! vendors (Mistral, xAI, Cohere, DeepSeek, Perplexity), as far as their words are their own.

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::{Cause, Scope};

pub(super) const FAMILY: Family = Family {
    names: &[
        (
            Meaning::Capacity(Cause::Overloaded, Scope::Unknown),
            &["service_tier_capacity_exceeded"],
        ),
        (Meaning::Spent(Cause::SpendLimit), &["blocked_api_access"]),
        // Together's type for both; Cerebras names the window in the sentence
        (Meaning::PerhapsSpent(Cause::Balance), &["credit_limit"]),
        (Meaning::Throttle(Scope::Requests), &["request_quota_exceeded"]),
        (
            Meaning::Throttle(Scope::Tokens),
            &["token_quota_exceeded", "too_many_tokens_error"],
        ),
    ],
    phrases: &[
        // an hour, but of a plan that is to be bought
        (Meaning::Spent(Cause::DailyAllowance), &["reached free usage limit"]),
        (Meaning::Spent(Cause::PlanWindow), &["session usage limit"]),
        (Meaning::Spent(Cause::Balance), &["need a grok subscription"]),
    ],
    also: |facts| {
        // a cold start tells how long it will take
        let loading = facts
            .envelope
            .objects()
            .any(|object| object.contains_key("estimated_time"));
        loading.then_some(Meaning::Capacity(Cause::ModelLoading, Scope::Unknown))
    },
    ..NOTHING
};
