//! How many tokens an answer says it took. Knows the shapes of `usage` that providers send; knows no limit.

use serde::Deserialize;
use serde_json::Value;

/// How much of the end of a body is looked at: the usage stands last, in a JSON answer as in a stream.
pub(crate) const TAIL: usize = 16 * 1024;

/// Tokens that a request took, as far as is known: what is not known is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Input (prompt) tokens that count towards the limit.
    pub input_tokens: Option<u64>,
    /// Output (completion) tokens.
    pub output_tokens: Option<u64>,
}

const INPUT: &[&str] = &[
    "prompt_tokens",
    "input_tokens",
    "promptTokenCount",
    "inputTokens",
    "prompt_eval_count",
];
const OUTPUT: &[&str] = &[
    "completion_tokens",
    "output_tokens",
    "candidatesTokenCount",
    "outputTokens",
    "eval_count",
];
/// Counted beside the ones above.
const MORE_INPUT: &[&str] = &["cache_creation_input_tokens"];
const MORE_OUTPUT: &[&str] = &["thoughtsTokenCount"];

impl Usage {
    /// What the end of a body says: the last usage in it, and for what that leaves out the one before. A stream reports the
    /// input at its start and the output at its end.
    pub(crate) fn in_tail(tail: &[u8]) -> Self {
        let mut found = Self::default();
        for key in ["\"usage\"", "\"usageMetadata\"", "\"eval_count\""] {
            let mut end = tail.len();
            while let Some(at) = last_position(tail.get(..end).unwrap_or_default(), key.as_bytes()) {
                end = at;
                let quoted = at.checked_sub(1).and_then(|before| tail.get(before)) == Some(&b'\\');
                let object = if key == "\"eval_count\"" {
                    enclosing(tail, at)
                } else {
                    value_after(tail, at + key.len())
                };
                if let Some(usage) = object.filter(|_| !quoted).as_ref().map(Self::of) {
                    found.input_tokens = found.input_tokens.or(usage.input_tokens);
                    found.output_tokens = found.output_tokens.or(usage.output_tokens);
                }
                if found.input_tokens.is_some() && found.output_tokens.is_some() {
                    return found;
                }
            }
        }
        found
    }

    fn of(usage: &Value) -> Self {
        // Cohere nests them
        let usage = usage.get("tokens").unwrap_or(usage);
        let first = |names: &[&str]| names.iter().find_map(|name| usage.get(name)?.as_u64());
        let sum = |names: &[&str]| names.iter().filter_map(|name| usage.get(name)?.as_u64()).sum::<u64>();
        Self {
            input_tokens: first(INPUT).map(|tokens| tokens.saturating_add(sum(MORE_INPUT))),
            output_tokens: first(OUTPUT).map(|tokens| tokens.saturating_add(sum(MORE_OUTPUT))),
        }
    }
}

fn last_position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).rposition(|window| window == part)
}

/// The JSON object after a key and its colon.
fn value_after(text: &[u8], at: usize) -> Option<Value> {
    let rest = text.get(at..)?.trim_ascii_start().strip_prefix(b":")?;
    let value = Value::deserialize(&mut serde_json::Deserializer::from_slice(rest)).ok()?;
    value.is_object().then_some(value)
}

/// The object on one line that a top-level key stands in (Ollama sends its counts beside the answer).
fn enclosing(text: &[u8], at: usize) -> Option<Value> {
    let start = text
        .get(..at)?
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    let line = text.get(start..)?;
    Value::deserialize(&mut serde_json::Deserializer::from_slice(line)).ok()
}

/// The end of a body that passes.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    pub(crate) fn pass(&mut self, data: &[u8]) {
        let data = data.get(data.len().saturating_sub(TAIL)..).unwrap_or_default();
        let surplus = (self.0.len() + data.len()).saturating_sub(2 * TAIL);
        if surplus > 0 {
            // in steps of a whole tail, so that many small chunks do not move it each
            let keep = self.0.len().saturating_sub(TAIL - data.len().min(TAIL));
            self.0.drain(..keep.max(surplus).min(self.0.len()));
        }
        self.0.extend_from_slice(data);
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::in_tail(self.0.get(self.0.len().saturating_sub(TAIL)..).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: impl Into<Option<u64>>, output: impl Into<Option<u64>>) -> Usage {
        Usage {
            input_tokens: input.into(),
            output_tokens: output.into(),
        }
    }

    #[test]
    fn every_shape_is_read_and_an_unknown_one_is_not_zero() {
        let cases = [
            (
                r#"{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":34,"total_tokens":46}}"#,
                usage(12, 34),
            ),
            (
                r#"{"usage":{"input_tokens":5,"cache_creation_input_tokens":7,"cache_read_input_tokens":90,"output_tokens":3}}"#,
                usage(12, 3),
            ),
            (
                r#"{"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":2,"thoughtsTokenCount":40}}"#,
                usage(8, 42),
            ),
            (r#"{"usage":{"inputTokens":30,"outputTokens":628}}"#, usage(30, 628)),
            (
                r#"{"usage":{"billed_units":{"input_tokens":1},"tokens":{"input_tokens":9,"output_tokens":4}}}"#,
                usage(9, 4),
            ),
            (
                "{\"done\":false}\n{\"done\":true,\"prompt_eval_count\":26,\"eval_count\":298}\n",
                usage(26, 298),
            ),
            (
                "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n\
                 event: message_delta\ndata: {\"delta\":{},\"usage\":{\"output_tokens\":15}}\n\n",
                usage(25, 15),
            ),
            (
                "data: {\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
                usage(1, 2),
            ),
            (
                r#"{"content":"say \"usage\": {\"prompt_tokens\":99}"}"#,
                usage(None, None),
            ),
            (r#"{"usage":{"credits":3}}"#, usage(None, None)),
            (r#"{"usage":{"prompt_tok"#, usage(None, None)),
            ("", usage(None, None)),
        ];
        for (body, expected) in cases {
            assert_eq!(Usage::in_tail(body.as_bytes()), expected, "{body}");
            for size in [1, 7, 4096] {
                let mut tail = Tail::default();
                tail.pass(&vec![b' '; 3 * TAIL]);
                body.as_bytes().chunks(size).for_each(|chunk| tail.pass(chunk));
                assert_eq!(tail.usage(), expected, "{size}: {body}");
            }
        }
    }
}
