//! What the frames of a stream say: nothing yet, something of the answer, or that it failed. Knows the frames of those who
//! stream answers, and not what an error means.

use serde_json::{Map, Value};

use super::is_error;
use super::json::{json_prefix, repaired};
use crate::event_stream::{Event, Events};

/// Frames that announce an answer or a part of it, each with the place where something of it would already stand.
const OPENINGS: &[(&str, &str)] = &[
    ("message_start", "/message/content"),
    ("content_block_start", "/content_block"),
    ("response.created", "/response/output"),
    ("response.queued", "/response/output"),
    ("response.in_progress", "/response/output"),
    ("response.output_item.added", "/item"),
    ("response.content_part.added", "/part"),
    ("response.reasoning_summary_part.added", "/part"),
    ("message-start", "/delta/message"),
    ("content-start", "/delta/message/content"),
];
/// Frames that keep the connection alive. (`keepalive` is in no documentation of OpenAI's, but in its streams.)
const ALIVE: &[&str] = &["ping", "keepalive"];
/// What stands beside the words of an answer, and is none of them.
const LABELS: &[&str] = &["role", "type", "id", "status"];

/// What one frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing: it keeps the connection alive.
    Nothing,
    /// That an answer has begun, and nothing of it.
    Opening,
    /// Something of the answer, or what nobody knows.
    Output,
    /// That there will be no answer.
    Error,
}

impl Said {
    /// What an event says.
    pub(crate) fn by(event: &Event) -> Self {
        Frame::of(&event.data).says(event.name.as_deref())
    }
}

pub(super) fn is_event_stream(text: &str) -> bool {
    const FIELDS: &[&str] = &["data:", "event:", "id:", "retry:", ":", "error: {", "error:{"];
    FIELDS.iter().any(|field| text.starts_with(field))
}

/// The events of a stream, also the one that was cut off.
pub(super) fn events_of(text: &str) -> Vec<Event> {
    let mut events = Events::default();
    let mut all: Vec<_> = text.bytes().filter_map(|byte| events.take(byte)).collect();
    all.extend(events.end());
    all
}

/// The data of an event.
pub(super) enum Frame {
    Json(Value),
    Text(String),
}

impl Frame {
    pub(super) fn of(data: &str) -> Self {
        match json_prefix(data).or_else(|| repaired(data)) {
            Some(value @ (Value::Object(_) | Value::Array(_))) => Self::Json(value),
            _ => Self::Text(data.to_owned()),
        }
    }

    /// What it says in an event of this name.
    pub(super) fn says(&self, name: Option<&str>) -> Said {
        let name = name.map(str::trim);
        let object = match self {
            // Google puts an error into an array of one
            Self::Json(Value::Array(items)) => items.first().and_then(Value::as_object),
            Self::Json(value) => value.as_object(),
            Self::Text(_) => None,
        };
        if matches!(name, Some("error" | "response.failed")) || object.is_some_and(is_error) {
            return Said::Error;
        }
        if object.and_then(kind).or(name).is_some_and(|kind| ALIVE.contains(&kind)) {
            return Said::Nothing;
        }
        match self {
            Self::Text(text) if text.trim().is_empty() => Said::Nothing,
            Self::Json(value) if opens(value, name) => Said::Opening,
            _ => Said::Output,
        }
    }
}

/// The kind of a frame, where it says that itself.
fn kind(object: &Map<String, Value>) -> Option<&str> {
    object.get("type").and_then(Value::as_str)
}

/// Does this announce an answer without a word of it? A chunk does that with a role and no content.
fn opens(frame: &Value, name: Option<&str>) -> bool {
    let chunk = ["choices", "candidates"].iter().find_map(|key| frame.get(key));
    if let Some(chunk) = chunk {
        return is_blank(chunk);
    }
    let kind = frame.as_object().and_then(kind).or(name);
    OPENINGS
        .iter()
        .find(|(opening, _)| kind == Some(opening))
        .is_some_and(|(_, place)| frame.pointer(place).is_none_or(is_blank))
}

/// No word anywhere in it. Numbers count and weigh an answer, and are not it.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_blank),
        Value::Object(object) => object
            .iter()
            .all(|(key, value)| LABELS.contains(&key.as_str()) || is_blank(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(name: Option<&str>, data: &str) -> Said {
        Said::by(&Event {
            name: name.map(str::to_owned),
            data: data.to_owned(),
        })
    }

    #[test]
    fn what_keeps_alive_says_nothing() {
        assert_eq!(says(Some("ping"), r#"{"type": "ping"}"#), Said::Nothing);
        assert_eq!(says(Some("ping"), ""), Said::Nothing);
        assert_eq!(says(None, r#"{"type":"ping"}"#), Said::Nothing);
        assert_eq!(
            says(Some("keepalive"), r#"{"type":"keepalive","sequence_number":3}"#),
            Said::Nothing
        );
        assert_eq!(says(None, " "), Said::Nothing);
    }

    #[test]
    fn an_opening_has_no_word_of_the_answer() {
        for opening in [
            r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":25,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"response.created","response":{"id":"resp_1","status":"in_progress","instructions":"Be brief.","output":[]}}"#,
            r#"{"type":"response.queued"}"#,
            r#"{"type":"response.in_progress","response":{"output":[]}}"#,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}}"#,
            r#"{"type":"response.content_part.added","part":{"type":"output_text","text":"","annotations":[]}}"#,
            r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","part":{"type":"summary_text","text":""}}"#,
            r#"{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}"#,
            r#"{"type":"message-start","id":"1","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[]}}}"#,
            r#"{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]}"#,
            r#"{"choices":[{"delta":{"role":"assistant"}}],"usage":null}"#,
            r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}"#,
            r#"{"choices":[{"text":"","index":0,"finish_reason":null}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"index":0}],"modelVersion":"m"}"#,
        ] {
            assert_eq!(says(None, opening), Said::Opening, "{opening}");
        }
        let unnamed = r#"{"message":{"content":[]}}"#;
        assert_eq!(says(Some("message_start"), unnamed), Said::Opening);
        assert_eq!(says(None, unnamed), Said::Output);
    }

    #[test]
    fn a_word_or_what_nobody_knows_is_output() {
        for output in [
            "[DONE]",
            "hello",
            r#"{"anything":1}"#,
            r#"[{"candidates":[]}]"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}"#,
            r#"{"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"search","input":{}}}"#,
            r#"{"type":"message_start","message":{"content":[{"type":"text","text":"Hi"}]}}"#,
            r#"{"type":"response.output_text.delta","delta":"Hi"}"#,
            r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"search","arguments":""}}"#,
            r#"{"type":"response.completed","response":{"output":[]}}"#,
            r#"{"choices":[{"delta":{"role":"assistant","content":"Hi"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"Hm"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
            r#"{"candidates":[{"content":{"role":"model"},"finishReason":"SAFETY"}]}"#,
            r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#,
        ] {
            assert_eq!(says(None, output), Said::Output, "{output}");
        }
    }

    #[test]
    fn an_error_is_one_by_its_name_or_by_its_shape() {
        for error in [
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            r#"{"type":"response.failed","response":{"error":{"code":"server_error"}}}"#,
            r#"{"event_type":"error","error":{"message":"no"}}"#,
            r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            r#"{"id":"c","error":{"code":502,"message":"Provider disconnected"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#,
            r#"{"choices":[{"delta":{"content":""},"error":{"code":429,"message":"slow"}}]}"#,
            r#"{"choices":null,"base_resp":{"status_code":1002,"status_msg":"rate limit"}}"#,
            r#"[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]"#,
            r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","code":"3505"}"#,
            r#"{"type":"message-end","delta":{"error":"internal error","finish_reason":"ERROR"}}"#,
        ] {
            assert_eq!(says(None, error), Said::Error, "{error}");
        }
        assert_eq!(says(Some("error"), "Overloaded"), Said::Error);
        assert_eq!(says(Some("error"), ""), Said::Error);
        assert_eq!(
            says(Some("error"), r#"{"code":"Throttling","message":"no"}"#),
            Said::Error
        );
        let fine = r#"{"choices":[{"delta":{"role":"assistant"}}],"base_resp":{"status_code":0,"status_msg":""},"error":null}"#;
        assert_eq!(says(None, fine), Said::Opening);
    }
}
