//! The shape of Anthropic knows its bodies and headers. It does not know when they are due.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::super::meter::nanos;
use super::super::reply::Refusal;
use super::limits::{Quantity, Standing};
use super::{Face, Said, Usage, span};

static REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-ratelimit-requests-limit"),
    HeaderName::from_static("anthropic-ratelimit-requests-remaining"),
    HeaderName::from_static("anthropic-ratelimit-requests-reset"),
];

static INPUT: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-ratelimit-input-tokens-limit"),
    HeaderName::from_static("anthropic-ratelimit-input-tokens-remaining"),
    HeaderName::from_static("anthropic-ratelimit-input-tokens-reset"),
];

static OUTPUT: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-ratelimit-output-tokens-limit"),
    HeaderName::from_static("anthropic-ratelimit-output-tokens-remaining"),
    HeaderName::from_static("anthropic-ratelimit-output-tokens-reset"),
];

static TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-ratelimit-tokens-limit"),
    HeaderName::from_static("anthropic-ratelimit-tokens-remaining"),
    HeaderName::from_static("anthropic-ratelimit-tokens-reset"),
];

pub(super) fn limit_headers(face: &Face<'_>, quantity: Quantity, standing: Standing, headers: &mut HeaderMap) {
    let [limit, remaining, reset] = match quantity {
        Quantity::Requests => &REQUESTS,
        Quantity::Input => &INPUT,
        Quantity::Output => &OUTPUT,
        Quantity::Total => &TOKENS,
    };
    headers.insert(limit, standing.limit.into());
    headers.insert(remaining, standing.remaining.into());
    let at = match standing.remaining {
        ..0 => "0".to_owned(),
        _ => span::rfc3339(face.wall(face.now.saturating_add(nanos(standing.reset)))),
    };
    if let Ok(at) = HeaderValue::try_from(at) {
        headers.insert(reset, at);
    }
}

pub(super) fn message(Usage { input, output }: Usage) -> String {
    format!(
        r#"{{"id":"msg_sim","type":"message","role":"assistant","model":"sim","content":[{{"type":"text","text":"ok"}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{{"input_tokens":{input},"output_tokens":{output}}}}}"#
    )
}

pub(super) fn stream(Usage { input, output }: Usage) -> (String, &'static str, String) {
    let open = format!(
        "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"id\":\"msg_sim\",\"type\":\"message\",\
         \"role\":\"assistant\",\"model\":\"sim\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\
         \"usage\":{{\"input_tokens\":{input},\"output_tokens\":1}}}}}}\n\n\
         event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"index\":0,\
         \"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n"
    );
    let delta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
                 \"delta\":{\"type\":\"text_delta\",\"text\":\"ok\"}}\n\n";
    let close = format!(
        "event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n\
         event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"end_turn\",\
         \"stop_sequence\":null}},\"usage\":{{\"output_tokens\":{output}}}}}\n\n\
         event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
    );
    (open, delta, close)
}

/// There is no prose of a delay here: [`Hint::Body`](super::Hint::Body) says nothing in this shape.
pub(super) fn refusal(said: Said) -> String {
    let limit = said.limit;
    let exceeded = |what| {
        format!(
            "This request would exceed the rate limit for your organization (org-sim) of {limit} {what} per minute. For details, refer to: https://docs.anthropic.com/en/api/rate-limits."
        )
    };
    let message = match said.kind {
        Refusal::Requests => exceeded("requests"),
        Refusal::InputTokens => exceeded("input tokens"),
        Refusal::OutputTokens => exceeded("output tokens"),
        Refusal::TotalTokens | Refusal::TooLarge => exceeded("tokens"),
        Refusal::Concurrency => "Number of concurrent connections has exceeded your rate limit. Please try again later or contact sales at https://www.anthropic.com/contact-sales to discuss your options for a rate limit increase.".to_owned(),
        Refusal::Growth => "This request would exceed your organization's acceleration limit: your usage has increased too quickly. Ramp up your traffic gradually.".to_owned(),
        Refusal::Quota => {
            return r#"{"type":"error","error":{"type":"rate_limit_error","message":"You have reached your specified API usage limits.","details":{"error_code":"enforced_spend_limit_reached"}},"request_id":"req_sim"}"#.to_owned();
        }
    };
    format!(r#"{{"type":"error","error":{{"type":"rate_limit_error","message":"{message}"}},"request_id":"req_sim"}}"#)
}

pub(super) fn failure(status: u16) -> String {
    let (kind, message) = match status {
        429 => (
            "rate_limit_error",
            "This request would exceed your organization's rate limit",
        ),
        503 | 529 => ("overloaded_error", "Overloaded"),
        _ => ("api_error", "Internal server error"),
    };
    format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_sim"}}"#)
}
