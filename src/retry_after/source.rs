//! The places where an answer can state a delay, as names. Knows how none of them is read.

use std::fmt;

/// Where an answer stated its delay. Its `Display` completes "the delay stands in …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DelaySource {
    /// `retry-after-ms` (OpenAI, Azure) or `x-ms-retry-after-ms` (Azure), in milliseconds.
    RetryAfterMs,
    /// `Retry-After` (RFC 9110, section 10.2.3): seconds, an HTTP-date, or off the standard an epoch.
    RetryAfter,
    /// `X-Retry-In` (Traefik), a Go duration and finer than the `Retry-After` beside it.
    RetryIn,
    /// The IETF's `RateLimit` field or the `RateLimit-Reset` of its older drafts, of a limit with nothing remaining.
    RateLimit,
    /// `X-RateLimit-Reset`, the reset of the only limit or of whichever was hit: seconds or an epoch.
    RateLimitReset,
    /// A number in the body that is named as a wait: `retry_after`, `resets_in_seconds`, `estimated_time`.
    BodyField,
    /// The upstream's headers as a router quotes them in the body (OpenRouter's `metadata.headers`).
    QuotedHeaders,
    /// `retryDelay` of a `google.rpc.RetryInfo` in the body.
    RetryInfo,
    /// `quotaResetDelay` in the body (Google's Cloud Code).
    QuotaReset,
    /// The sentence meant for people: "Please try again in 6.78s".
    Message,
    /// A point in time in the body: `quotaResetTimeStamp`, `resets_at`.
    BodyTimestamp,
    /// The reset of one named limit with nothing remaining: `x-ratelimit-reset-tokens`,
    /// `anthropic-ratelimit-requests-reset`. An upper bound, for it tells when that limit is whole again.
    LimitReset,
    /// The reset of a ChatGPT plan window that is used up (`x-codex-primary-…`).
    PlanWindow,
    /// A rule of one's own, which knew where to look.
    Rule,
}

impl fmt::Display for DelaySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RetryAfterMs => "the retry-after-ms header",
            Self::RetryAfter => "the Retry-After header",
            Self::RetryIn => "the X-Retry-In header",
            Self::RateLimit => "the RateLimit header",
            Self::RateLimitReset => "the X-RateLimit-Reset header",
            Self::BodyField => "a number in the body",
            Self::QuotedHeaders => "headers quoted in the body",
            Self::RetryInfo => "the body's RetryInfo",
            Self::QuotaReset => "the body's quotaResetDelay",
            Self::Message => "the error message",
            Self::BodyTimestamp => "a timestamp in the body",
            Self::LimitReset => "the reset header of one limit",
            Self::PlanWindow => "the x-codex headers of one window",
            Self::Rule => "a rule",
        })
    }
}
