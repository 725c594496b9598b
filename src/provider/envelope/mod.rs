//! The body of an answer by its shape: JSON unwrapped layer by layer, an event stream, a page, or plain text. Knows where
//! errors are kept, and neither providers nor what an error means.

mod json;
mod python;
mod stream;

use std::collections::VecDeque;

use serde_json::{Map, Value};

use json::{MAX_TRIES, holds_object, next_json, repaired};
use stream::{Frame, events_of, is_event_stream};

pub(crate) use stream::Said;

/// More than any error needs; what lies beyond is the echo of a prompt or a success.
const MAX_BYTES: usize = 256 * 1024;
/// A gateway before a gateway before an API, each with `error` and a JSON string inside, is six deep.
const MAX_DEPTH: usize = 10;
const MAX_OBJECTS: usize = 64;

/// Where objects with an error's facts are kept, in whatever case they are spelled.
const CARRIERS: &[&str] = &[
    "error",
    "errors",
    "detail",
    "details",
    "metadata",
    "raw",
    "message",
    "msg",
    "base_resp",
    "innererror",
    "inner_error",
    "fault",
    "cause",
    "header",
    "responsemetadata",
    "violations",
    "previous_errors",
];
/// Where sentences meant for people are kept, the plainest name first.
const SENTENCES: &[&str] = &[
    "message",
    "error",
    "detail",
    "msg",
    "status_msg",
    "error_msg",
    "errmsg",
    "errormessage",
    "error_message",
    "error_description",
    "errortext",
    "faultstring",
    "title",
    "description",
    "raw",
    "details",
    "cause",
];
/// What a router writes from here on is the record of other calls, not a word on this one.
const RECORD_OF_OTHERS: &str = "cooldown_list=";

/// The kind of body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shape {
    #[default]
    Empty,
    Json,
    /// An event stream, or JSON values line after line. `error` says whether one of its frames is an error, `begun` whether
    /// the answer had been opened before it.
    Stream {
        error: bool,
        begun: bool,
    },
    Html,
    Text,
}

/// What could be read of a body, from the outermost layer to the innermost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Envelope {
    shape: Shape,
    objects: Vec<Map<String, Value>>,
    messages: Vec<String>,
}

impl Envelope {
    pub(crate) fn of(body: &[u8]) -> Self {
        let prefix = body.get(..MAX_BYTES).unwrap_or(body);
        let text = String::from_utf8_lossy(prefix);
        let text = text.trim_start_matches('\u{feff}').trim();
        let mut reader = Reader::default();
        let shape = if text.is_empty() {
            Shape::Empty
        } else if text.starts_with('<') {
            reader.messages.push(text.to_owned());
            Shape::Html
        } else if is_event_stream(text) {
            reader.event_stream(text)
        } else if text.starts_with(['{', '[']) || (text.starts_with('"') && text.ends_with('"')) {
            reader.json(text)
        } else {
            reader.prose(text, 0);
            Shape::Text
        };
        reader.unwrap_all();
        Self {
            shape,
            objects: reader.objects,
            messages: reader.messages,
        }
    }

    /// The kind of body.
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Is this an error, whatever the status says? The record of a job (it has an `id` of its own) tells in a string how the
    /// job ended, and a remote procedure call answers to its own protocol.
    pub(crate) fn is_error(&self) -> bool {
        match self.shape {
            Shape::Stream { error, .. } => error,
            Shape::Json => self.objects.first().is_some_and(|root| {
                let job = root.contains_key("id") && root.get("error").is_some_and(Value::is_string);
                is_error(root) && !job && !root.contains_key("jsonrpc")
            }),
            _ => false,
        }
    }

    /// The JSON objects that may carry an error's facts, outermost first: the root, its `error`, what was unwrapped.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Map<String, Value>> {
        self.objects.iter()
    }

    /// The sentences meant for people, outermost first (for a body that is no JSON: its text).
    pub(crate) fn messages(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(String::as_str)
    }
}

/// Breadth first, so that what is found comes outermost first.
#[derive(Default)]
struct Reader {
    queue: VecDeque<(Value, usize)>,
    objects: Vec<Map<String, Value>>,
    messages: Vec<String>,
}

impl Reader {
    /// One value, or several of a stream without frames (newline-delimited JSON), of which only the errors count.
    fn json(&mut self, text: &str) -> Shape {
        let mut values: Vec<Value> = serde_json::Deserializer::from_str(text)
            .into_iter()
            .map_while(Result::ok)
            .collect();
        if values.len() > 1 && values.iter().all(Value::is_object) {
            return self.frames(values.into_iter().map(|value| (None, Frame::Json(value))));
        }
        match values.drain(..).next().or_else(|| repaired(text).filter(holds_object)) {
            Some(value) => {
                self.queue.push_back((value, 0));
                Shape::Json
            }
            None => {
                self.prose(text, 0);
                Shape::Text
            }
        }
    }

    fn event_stream(&mut self, text: &str) -> Shape {
        let events = events_of(text).into_iter();
        self.frames(events.map(|event| (event.name, Frame::of(&event.data))))
    }

    fn frames(&mut self, frames: impl Iterator<Item = (Option<String>, Frame)>) -> Shape {
        let (mut error, mut begun) = (false, false);
        for (name, frame) in frames {
            match frame.says(name.as_deref()) {
                Said::Error => {
                    error = true;
                    match frame {
                        Frame::Json(value) => self.queue.push_back((value, 0)),
                        Frame::Text(text) => self.prose(&text, 0),
                    }
                }
                Said::Opening | Said::Output => begun |= !error,
                Said::Nothing => {}
            }
        }
        Shape::Stream { error, begun }
    }

    fn unwrap_all(&mut self) {
        while let Some((value, depth)) = self.queue.pop_front() {
            if depth > MAX_DEPTH || self.objects.len() >= MAX_OBJECTS {
                continue;
            }
            match value {
                Value::Object(object) => {
                    self.unwrap_object(&object, depth + 1);
                    self.objects.push(object);
                }
                Value::Array(items) => {
                    let items = items.into_iter().take(MAX_OBJECTS);
                    self.queue.extend(items.map(|item| (item, depth + 1)));
                }
                Value::String(text) => self.prose(&text, depth + 1),
                _ => {}
            }
        }
    }

    fn unwrap_object(&mut self, object: &Map<String, Value>, depth: usize) {
        for name in SENTENCES {
            for (_, value) in fields(object, name) {
                if let Value::String(text) = value {
                    self.prose(text, depth);
                }
            }
        }
        for (key, value) in object {
            match value {
                // a response, a delta or a choice holds the model's words too, so that only its error is looked at
                Value::Object(inner) if ["response", "delta"].iter().any(|name| key.eq_ignore_ascii_case(name)) => {
                    self.queue
                        .extend(fields(inner, "error").map(|(_, error)| (error.clone(), depth)));
                }
                Value::Array(choices) if key == "choices" => {
                    let errors = choices.iter().filter_map(|choice| choice.get("error"));
                    self.queue.extend(errors.map(|error| (error.clone(), depth)));
                }
                Value::Object(_) | Value::Array(_) if CARRIERS.iter().any(|name| key.eq_ignore_ascii_case(name)) => {
                    self.queue.push_back((value.clone(), depth));
                }
                _ => {}
            }
        }
    }

    /// A sentence, and the JSON that somebody pasted into it.
    fn prose(&mut self, text: &str, depth: usize) {
        let text = text
            .find(RECORD_OF_OTHERS)
            .and_then(|at| text.get(..at))
            .unwrap_or(text);
        let (mut sentence, mut rest) = (String::new(), text);
        for _ in 0..MAX_TRIES {
            let Some((before, after, value)) = next_json(rest) else {
                break;
            };
            sentence.push_str(before);
            rest = after;
            self.queue.push_back((value, depth + 1));
        }
        sentence.push_str(rest);
        let sentence = sentence.trim();
        if !sentence.is_empty() && self.messages.len() < MAX_OBJECTS {
            self.messages.push(sentence.to_owned());
        }
    }
}

/// The fields of this name, in any case.
fn fields<'a>(object: &'a Map<String, Value>, name: &'a str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name))
}

/// Is this frame of a stream, or this answer with a success status, an error?
fn is_error(object: &Map<String, Value>) -> bool {
    let is = |key: &str, names: &[&str]| {
        object
            .get(key)
            .and_then(Value::as_str)
            .is_some_and(|name| names.contains(&name))
    };
    let says = |error: Option<&Value>| match error {
        Some(Value::String(text)) => !text.is_empty() && text != "None",
        Some(Value::Object(error)) => error.values().any(|value| !value.is_null()),
        _ => false,
    };
    let failed = |choice: &Value| {
        says(choice.get("error")) || choice.get("finish_reason").and_then(Value::as_str) == Some("error")
    };
    let code = object.get("base_resp").and_then(|outcome| outcome.get("status_code"));
    is("type", &["error", "response.failed"])
        || is("event_type", &["error"])
        || is("object", &["error"])
        || says(object.get("error"))
        || says(object.get("delta").and_then(|delta| delta.get("error")))
        || code.and_then(Value::as_u64).is_some_and(|code| code != 0)
        || object
            .get("choices")
            .and_then(Value::as_array)
            .is_some_and(|choices| choices.iter().any(failed))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn messages(body: &str) -> Vec<String> {
        Envelope::of(body.as_bytes()).messages().map(str::to_owned).collect()
    }

    fn codes(body: &str) -> Vec<String> {
        let envelope = Envelope::of(body.as_bytes());
        envelope
            .objects()
            .filter_map(|object| object.get("code")?.as_str().map(str::to_owned))
            .collect()
    }

    #[test]
    fn the_layers_come_outermost_first() {
        let body = r#"[{"message":"outer","error":{"message":"inner","code":"a","metadata":{"raw":"{\"error\":{\"message\":\"innermost\",\"code\":\"b\"}}"}}}]"#;
        assert_eq!(messages(body), ["outer", "inner", "innermost"]);
        assert_eq!(codes(body), ["a", "b"]);
    }

    #[test]
    fn json_pasted_into_a_sentence_is_unwrapped() {
        let body = r#"{"error":{"message":"APIError: Some_Exception - {\"error\":{\"message\":\"no money\",\"code\":\"X\"}}. Received Model Group=m"}}"#;
        assert_eq!(
            messages(body),
            ["APIError: Some_Exception - . Received Model Group=m", "no money"]
        );
        assert_eq!(codes(body), ["X"]);
    }

    #[test]
    fn a_cut_keeps_what_came_before() {
        let whole = r#"{"error":{"code":"a","message":"half a sentence \u00e9 and more","details":[{"x":1}]},"id":7}"#;
        for cut in 0..whole.len() {
            let envelope = Envelope::of(whole.get(..cut).unwrap().as_bytes());
            assert_eq!(envelope.shape() == Shape::Empty, cut == 0);
            if cut >= whole.find(",\"message").unwrap() {
                assert_eq!(codes(whole.get(..cut).unwrap()), ["a"], "cut at {cut}");
            }
        }
        assert_eq!(messages(r#"{"error":{"message":"half a sent"#), ["half a sent"]);
        assert_eq!(messages(r#"{"error":{"message":"half \u00"#), ["half"]);
    }

    #[test]
    fn deep_nesting_is_cut_like_the_end_of_a_body() {
        let body = format!(r#"{{"error":{{"code":"a","x":{}"#, "[".repeat(100_000));
        assert_eq!(codes(&body), ["a"]);
    }

    #[test]
    fn only_the_errors_of_a_stream_count() {
        let body = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n\
                    event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"Overloaded\"}}\n\n";
        let envelope = Envelope::of(body.as_bytes());
        assert_eq!(
            envelope.shape(),
            Shape::Stream {
                error: true,
                begun: true
            }
        );
        assert_eq!(messages(body), ["Overloaded"]);
        let failed = "data: {\"type\":\"response.failed\",\"response\":{\"output\":[],\"error\":{\"code\":\"busy\"}}}";
        assert_eq!(codes(failed), ["busy"]);
        let fine = "data: {\"choices\":[{\"delta\":{\"content\":\"error\"}}]}\n\ndata: [DONE]\n";
        assert_eq!(Envelope::of(fine.as_bytes()).objects().count(), 0);
        let lines = "{\"response\":\"a\"}\n{\"error\":\"broken\"}\n";
        assert_eq!(messages(lines), ["broken"]);
    }

    #[test]
    fn what_is_no_json_is_text() {
        assert_eq!(messages("Retry later\n"), ["Retry later"]);
        assert_eq!(messages("\"quoted\""), ["quoted"]);
        assert_eq!(Envelope::of(b"<html></html>").shape(), Shape::Html);
        assert_eq!(Envelope::of(b"\xff\xfe").messages().count(), 1);
        assert_eq!(messages("{not json"), ["{not json"]);
    }
}
