//! The formats that the SDKs speak: an answer, the same as a stream, and a refusal, as each provider words them. Knows no
//! SDK.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use testbed::{Reply, event, reply, sse};

/// What every answer says.
pub const TEXT: &str = "hello";

/// A provider's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's chat completions.
    OpenAi,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
    /// Ollama's `api/generate`.
    Ollama,
    /// Bedrock's `Converse`, whose streams are in a binary frame.
    Converse,
    /// GitHub's REST API, where a zen saying is the answer, and nothing is streamed.
    GitHub,
}

impl Dialect {
    /// An answer that says [`TEXT`].
    pub fn answer(self) -> Reply {
        let json = match self {
            Self::OpenAi => format!(
                r#"{{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"finish_reason":"stop","message":{{"role":"assistant","content":"{TEXT}"}}}}],"usage":{USAGE}}}"#
            ),
            Self::Responses => responses(TEXT),
            Self::Anthropic => format!(
                r#"{{"id":"m","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"{TEXT}"}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{{"input_tokens":1,"output_tokens":1}}}}"#
            ),
            Self::Gemini => gemini(TEXT, r#","finishReason":"STOP""#),
            Self::Ollama => ollama(TEXT, true),
            Self::Converse => format!(
                r#"{{"output":{{"message":{{"role":"assistant","content":[{{"text":"{TEXT}"}}]}}}},"stopReason":"end_turn","usage":{{"inputTokens":1,"outputTokens":1,"totalTokens":2}},"metrics":{{"latencyMs":1}}}}"#
            ),
            Self::GitHub => format!("\"{TEXT}\""),
        };
        reply(200).json(json)
    }

    /// The same in pieces.
    pub fn stream(self) -> Reply {
        let (first, second) = TEXT.split_at(3);
        match self {
            Self::OpenAi => {
                let piece = |delta: &str, finish: &str| {
                    format!(
                        r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":{finish}}}]}}"#
                    )
                };
                sse([
                    piece(&format!(r#""role":"assistant","content":"{first}""#), "null"),
                    piece(&format!(r#""content":"{second}""#), "null"),
                    piece("", r#""stop""#),
                    "[DONE]".to_owned(),
                ])
            }
            Self::Responses => {
                let delta = |text: &str| {
                    event(
                        "response.output_text.delta",
                        &format!(
                            r#"{{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"{text}"}}"#
                        ),
                    )
                };
                sse([
                    event(
                        "response.created",
                        r#"{"type":"response.created","response":{"id":"r","output":[]}}"#,
                    ),
                    delta(first),
                    delta(second),
                    event(
                        "response.completed",
                        &format!(r#"{{"type":"response.completed","response":{}}}"#, responses(TEXT)),
                    ),
                ])
            }
            Self::Anthropic => {
                let delta = |text: &str| {
                    event(
                        "content_block_delta",
                        &format!(
                            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
                        ),
                    )
                };
                sse([
                    event(
                        "message_start",
                        r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}"#,
                    ),
                    event(
                        "content_block_start",
                        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                    ),
                    delta(first),
                    delta(second),
                    event("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
                    event(
                        "message_delta",
                        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}"#,
                    ),
                    event("message_stop", r#"{"type":"message_stop"}"#),
                ])
            }
            Self::Gemini => sse([gemini(first, ""), gemini(second, r#","finishReason":"STOP""#)]),
            Self::Ollama => reply(200)
                .header("content-type", "application/x-ndjson")
                .chunks([ollama(first, false) + "\n", ollama(second, true) + "\n"]),
            Self::Converse => reply(200)
                .header("content-type", "application/vnd.amazon.eventstream")
                .chunks([
                    frame("messageStart", r#"{"role":"assistant"}"#),
                    frame(
                        "contentBlockDelta",
                        &format!(r#"{{"contentBlockIndex":0,"delta":{{"text":"{first}"}}}}"#),
                    ),
                    frame(
                        "contentBlockDelta",
                        &format!(r#"{{"contentBlockIndex":0,"delta":{{"text":"{second}"}}}}"#),
                    ),
                    frame("messageStop", r#"{"stopReason":"end_turn"}"#),
                ]),
            Self::GitHub => self.answer(),
        }
    }

    /// A refusal with this status, in the provider's words.
    pub fn refusal(self, status: u16) -> Reply {
        match self {
            Self::OpenAi | Self::Responses => {
                let (kind, code) = match status {
                    429 => ("requests", "rate_limit_exceeded"),
                    529 => ("overloaded_error", "overloaded"),
                    _ => ("server_error", "internal_error"),
                };
                reply(status).json(format!(
                    r#"{{"error":{{"message":"Please try again.","type":"{kind}","param":null,"code":"{code}"}}}}"#
                ))
            }
            Self::Anthropic => {
                let kind = match status {
                    429 => "rate_limit_error",
                    529 => "overloaded_error",
                    _ => "api_error",
                };
                reply(status).json(format!(
                    r#"{{"type":"error","error":{{"type":"{kind}","message":"Please try again."}}}}"#
                ))
            }
            Self::Gemini => {
                let kind = match status {
                    429 => "RESOURCE_EXHAUSTED",
                    529 => "UNAVAILABLE",
                    _ => "INTERNAL",
                };
                reply(status).json(format!(
                    r#"{{"error":{{"code":{status},"message":"Please try again.","status":"{kind}"}}}}"#
                ))
            }
            Self::Ollama => reply(status).json(r#"{"error":"please try again"}"#),
            Self::Converse => {
                let kind = match status {
                    429 => "ThrottlingException",
                    529 => "ServiceUnavailableException",
                    _ => "InternalServerException",
                };
                reply(status)
                    .header("x-amzn-errortype", kind)
                    .json(r#"{"message":"Please try again."}"#)
            }
            Self::GitHub => reply(status)
                .json(r#"{"message":"Please try again.","documentation_url":"https://docs.github.com/rest"}"#),
        }
    }
}

const USAGE: &str = r#"{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}"#;

fn responses(text: &str) -> String {
    format!(
        r#"{{"id":"r","object":"response","created_at":1,"status":"completed","model":"m","output":[{{"type":"message","id":"m","role":"assistant","status":"completed","content":[{{"type":"output_text","text":"{text}","annotations":[]}}]}}]}}"#
    )
}

fn gemini(text: &str, finish: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"role":"model","parts":[{{"text":"{text}"}}]}},"index":0{finish}}}],"usageMetadata":{{"promptTokenCount":1,"totalTokenCount":2}},"modelVersion":"m"}}"#
    )
}

fn ollama(text: &str, done: bool) -> String {
    format!(r#"{{"model":"m","created_at":"2025-01-01T00:00:00Z","response":"{text}","done":{done}}}"#)
}

/// One event of a binary stream of AWS.
fn frame(kind: &str, json: &str) -> Vec<u8> {
    let header = |name: &'static str, value: &str| Header::new(name, HeaderValue::String(value.to_owned().into()));
    let message = Message::new(json.to_owned())
        .add_header(header(":message-type", "event"))
        .add_header(header(":event-type", kind))
        .add_header(header(":content-type", "application/json"));
    let mut bytes = Vec::new();
    // fails for headers or payloads of megabytes alone
    let _ = write_message_to(&message, &mut bytes);
    bytes
}
