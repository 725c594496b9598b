//! The shape of OpenAI knows its bodies and headers. It does not know when they are due.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::super::reply::Refusal;
use super::limits::{Quantity, Standing};
use super::{Face, Said, Usage, span};

static REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];

static TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// There is one group for tokens; a limit of the total, which is what OpenAI has, is written last and stays.
pub(super) fn limit_headers(_: &Face<'_>, quantity: Quantity, standing: Standing, headers: &mut HeaderMap) {
    let [limit, remaining, reset] = match quantity {
        Quantity::Requests => &REQUESTS,
        Quantity::Input | Quantity::Output | Quantity::Total => &TOKENS,
    };
    headers.insert(limit, standing.limit.into());
    headers.insert(remaining, standing.remaining.into());
    let text = match standing.remaining {
        // With the sentinels the reset is a bare number.
        ..0 => HeaderValue::from_static("0"),
        _ => HeaderValue::try_from(span::go(standing.reset)).unwrap_or_else(|_| HeaderValue::from_static("0s")),
    };
    headers.insert(reset, text);
}

pub(super) fn message(usage: Usage) -> String {
    let usage = used(usage);
    format!(
        r#"{{"id":"chatcmpl-sim","object":"chat.completion","created":1748822400,"model":"sim","choices":[{{"index":0,"message":{{"role":"assistant","content":"ok"}},"finish_reason":"stop"}}],{usage}}}"#
    )
}

pub(super) fn stream(usage: Usage) -> (String, &'static str, String) {
    const CHUNK: &str = r#""id":"chatcmpl-sim","object":"chat.completion.chunk","created":1748822400,"model":"sim""#;
    let usage = used(usage);
    let open = format!(
        "data: {{{CHUNK},\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"finish_reason\":null}}]}}\n\n"
    );
    let delta = "data: {\"id\":\"chatcmpl-sim\",\"object\":\"chat.completion.chunk\",\"created\":1748822400,\"model\":\"sim\",\
                 \"choices\":[{\"index\":0,\"delta\":{\"content\":\"ok\"},\"finish_reason\":null}]}\n\n";
    let close = format!(
        "data: {{{CHUNK},\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n\
         data: {{{CHUNK},\"choices\":[],{usage}}}\n\ndata: [DONE]\n\n"
    );
    (open, delta, close)
}

fn used(Usage { input, output }: Usage) -> String {
    let total = input + output;
    format!(r#""usage":{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total}}}"#)
}

pub(super) fn refusal(said: Said) -> String {
    let Said {
        limit, used, requested, ..
    } = said;
    let retry = match said.wait {
        Some(wait) => format!(" Please try again in {}.", span::go(wait)),
        None => String::new(),
    };
    let reached = |name| {
        format!(
            "Rate limit reached for sim in organization org-sim on {name}: Limit {limit}, Used {used}, Requested {requested}.{retry} Visit https://platform.openai.com/account/rate-limits to learn more."
        )
    };
    let (message, kind, code) = match said.kind {
        Refusal::Requests => (reached("requests per min (RPM)"), "requests", "rate_limit_exceeded"),
        Refusal::InputTokens => (reached("input tokens per min"), "tokens", "rate_limit_exceeded"),
        Refusal::OutputTokens => (reached("output tokens per min"), "tokens", "rate_limit_exceeded"),
        Refusal::TotalTokens => (reached("tokens per min (TPM)"), "tokens", "rate_limit_exceeded"),
        Refusal::TooLarge => {
            let text = format!(
                "Request too large for sim in organization org-sim on tokens per min (TPM): Limit {limit}, Requested {requested}. The input or output tokens must be reduced in order to run successfully. Visit https://platform.openai.com/account/rate-limits to learn more."
            );
            (text, "tokens", "rate_limit_exceeded")
        }
        Refusal::Concurrency => {
            let text = "Too many concurrent requests for sim in organization org-sim. Please wait for earlier requests to finish.";
            (text.to_owned(), "requests", "concurrency_limit_exceeded")
        }
        Refusal::Quota => {
            let text = "You exceeded your current quota, please check your plan and billing details. For more information on this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors.";
            (text.to_owned(), "insufficient_quota", "insufficient_quota")
        }
        Refusal::Growth => {
            let text = format!("Slow down: the rate of your requests has increased too quickly.{retry}");
            (text, "rate_limit_error", "slow_down")
        }
    };
    format!(r#"{{"error":{{"message":"{message}","type":"{kind}","param":null,"code":"{code}"}}}}"#)
}

pub(super) fn failure(status: u16) -> String {
    let (message, kind, code) = match status {
        429 => (
            "Rate limit reached for requests. Please slow down.",
            "requests",
            r#""rate_limit_exceeded""#,
        ),
        503 | 529 => (
            "The server is currently overloaded with other requests. Sorry about that! You can retry your request.",
            "service_unavailable_error",
            r#""server_is_overloaded""#,
        ),
        _ => (
            "The server had an error while processing your request. Sorry about that!",
            "server_error",
            "null",
        ),
    };
    format!(r#"{{"error":{{"message":"{message}","type":"{kind}","param":null,"code":{code}}}}}"#)
}
