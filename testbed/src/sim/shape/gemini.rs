//! The shape of Gemini knows its bodies; limit headers it has none. It does not know when they are due.

use super::super::reply::Refusal;
use super::{Said, Usage, span};

pub(super) fn message(usage: Usage) -> String {
    let usage = used(usage);
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"text":"ok"}}],"role":"model"}},"finishReason":"STOP","index":0}}],{usage},"modelVersion":"sim"}}"#
    )
}

pub(super) fn stream(usage: Usage) -> (String, &'static str, String) {
    let delta = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"ok\"}],\"role\":\"model\"},\"index\":0}],\
                 \"modelVersion\":\"sim\"}\n\n";
    let close = format!("data: {}\n\n", message(usage));
    (delta.to_owned(), delta, close)
}

fn used(Usage { input, output }: Usage) -> String {
    let total = input + output;
    format!(
        r#""usageMetadata":{{"promptTokenCount":{input},"candidatesTokenCount":{output},"totalTokenCount":{total}}}"#
    )
}

pub(super) fn refusal(said: Said) -> String {
    let limit = said.limit;
    let (id, metric) = match said.kind {
        Refusal::Requests | Refusal::TooLarge => ("GenerateRequestsPerMinutePerProjectPerModel", "generate_requests"),
        Refusal::InputTokens => ("GenerateContentInputTokensPerModelPerMinute", "input_token_count"),
        Refusal::OutputTokens => ("GenerateContentOutputTokensPerModelPerMinute", "output_token_count"),
        Refusal::TotalTokens => ("GenerateContentTokensPerModelPerMinute", "token_count"),
        Refusal::Quota => ("GenerateRequestsPerDayPerProjectPerModel", "generate_requests"),
        Refusal::Concurrency => {
            return error(429, "RESOURCE_EXHAUSTED", "Too many concurrent requests.", "");
        }
        Refusal::Growth => {
            return error(
                429,
                "RESOURCE_EXHAUSTED",
                "Your traffic has increased too quickly.",
                &retry(said),
            );
        }
    };
    let message = format!(
        r"You exceeded your current quota.\n* Quota exceeded for metric: generativelanguage.googleapis.com/{metric}, limit: {limit}"
    );
    let violation = format!(
        r#"{{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{"quotaMetric":"generativelanguage.googleapis.com/{metric}","quotaId":"{id}","quotaDimensions":{{"location":"global","model":"sim"}},"quotaValue":"{limit}"}}]}}"#
    );
    let retry = retry(said);
    let details = if retry.is_empty() {
        violation
    } else {
        format!("{violation},{retry}")
    };
    error(429, "RESOURCE_EXHAUSTED", &message, &details)
}

fn retry(said: Said) -> String {
    match said.wait {
        Some(wait) => {
            let delay = span::protobuf(wait);
            format!(r#"{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{delay}"}}"#)
        }
        None => String::new(),
    }
}

pub(super) fn failure(status: u16) -> String {
    match status {
        429 => error(
            status,
            "RESOURCE_EXHAUSTED",
            "Resource has been exhausted (e.g. check quota).",
            "",
        ),
        503 | 529 => error(
            status,
            "UNAVAILABLE",
            "The model is overloaded. Please try again later.",
            "",
        ),
        _ => error(status, "INTERNAL", "An internal error has occurred.", ""),
    }
}

fn error(code: u16, status: &str, message: &str, details: &str) -> String {
    let details = match details {
        "" => String::new(),
        details => format!(r#","details":[{details}]"#),
    };
    format!(r#"{{"error":{{"code":{code},"message":"{message}","status":"{status}"{details}}}}}"#)
}
