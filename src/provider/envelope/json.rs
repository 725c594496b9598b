//! JSON where it is not alone or not whole: in prose, and cut off. Knows no meaning.

use serde_json::Value;

use super::python::printed;

/// How often a `{` in prose is tried as the beginning of JSON.
pub(super) const MAX_TRIES: usize = 16;
/// Below the 128 levels at which `serde_json` refuses, with room for the brackets that a repair adds.
const MAX_NESTING: usize = 100;

/// The first JSON object or array in prose, with the text before and after it.
pub(super) fn next_json(text: &str) -> Option<(&str, &str, Value)> {
    let starts = text.char_indices().filter(|&(_, c)| c == '{' || c == '[');
    for (at, _) in starts.take(MAX_TRIES) {
        let (before, candidate) = text.split_at(at);
        let mut values = serde_json::Deserializer::from_str(candidate).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) if holds_object(&value) => {
                let after = candidate.get(values.byte_offset()..).unwrap_or_default();
                return Some((before, after, value));
            }
            Some(Err(error)) if error.is_eof() => {
                if let Some(value) = repaired(candidate).filter(holds_object) {
                    return Some((before, "", value));
                }
            }
            Some(Err(_)) => {
                if let Some((value, end)) = printed(candidate).filter(|(value, _)| holds_object(value)) {
                    return Some((before, candidate.get(end..).unwrap_or_default(), value));
                }
            }
            _ => {}
        }
    }
    None
}

/// `[1234]` or `{}` in a sentence is a sentence's business.
pub(super) fn holds_object(value: &Value) -> bool {
    match value {
        Value::Object(object) => !object.is_empty(),
        Value::Array(items) => items.first().is_some_and(holds_object),
        _ => false,
    }
}

pub(super) fn json_prefix(text: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(text)
        .into_iter()
        .next()
        .and_then(Result::ok)
}

/// JSON that was cut off (or is nested too deep to be read), closed again at the last place where that gives JSON, so that
/// what came before the cut is kept: also the beginning of a string.
pub(super) fn repaired(text: &str) -> Option<Value> {
    let mut open = Vec::new();
    let (mut in_string, mut escaped) = (false, 0_usize);
    let (mut end, mut whole) = (0, 0);
    for (at, c) in text.char_indices() {
        if in_string {
            match c {
                _ if escaped > 0 => escaped = if c == 'u' && escaped == 1 { 5 } else { escaped } - 1,
                '\\' => escaped = 1,
                '"' => in_string = false,
                _ => {}
            }
            if escaped == 0 {
                end = at + c.len_utf8();
            }
            continue;
        }
        end = at + c.len_utf8();
        match c {
            '"' => in_string = true,
            '{' | '[' if open.len() == MAX_NESTING => break,
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' => {
                open.pop();
            }
            _ => {}
        }
        // what follows up to the next such place is one key or one value, whole or not
        match c {
            ',' => whole = at,
            '{' | '[' | '}' | ']' => whole = end,
            _ => {}
        }
        if open.is_empty() && c != '"' {
            break;
        }
    }
    let closed = |kept: &str, quote: &str| {
        let brackets = open.iter().rev();
        let text: String = kept.chars().chain(quote.chars()).chain(brackets.copied()).collect();
        serde_json::from_str(&text).ok()
    };
    let string = text.get(..end).filter(|kept| in_string || kept.ends_with('"'));
    let with_string = string.and_then(|kept| closed(kept, if in_string { "\"" } else { "" }));
    with_string.or_else(|| text.get(..whole).and_then(|kept| closed(kept, "")))
}
