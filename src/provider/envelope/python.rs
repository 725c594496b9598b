//! JSON as Python prints it into a sentence: as a dictionary (`{'code': None}`), or as bytes, escaped once more
//! (`b'{\n  "code": 1\n}'`). Knows no meaning, and of Python only what its printer writes.

use std::iter::Peekable;
use std::str::CharIndices;

use serde_json::Value;

use super::json::repaired;

/// The object or array at the beginning of this text, and how much of the text it takes.
pub(super) fn printed(text: &str) -> Option<(Value, usize)> {
    let inside = text.trim_start_matches(['{', '[', ' ']);
    let (json, ends) = if inside.starts_with('\'') {
        of_dictionary(text)
    } else {
        unescaped(text)
    };
    let mut values = serde_json::Deserializer::from_str(&json).into_iter::<Value>();
    match values.next()? {
        Ok(value) => {
            let read = values.byte_offset();
            let end = ends.iter().find(|&&(written, _)| written >= read);
            Some((value, end.map_or(text.len(), |&(_, end)| end)))
        }
        Err(error) if error.is_eof() => repaired(&json).map(|value| (value, text.len())),
        Err(_) => None,
    }
}

/// What was written, and for each length of it how much of the source was read by then.
type Respelled = (String, Vec<(usize, usize)>);

/// One level of backslashes less.
fn unescaped(text: &str) -> Respelled {
    let (mut json, mut ends) = (String::new(), Vec::new());
    let mut chars = text.char_indices();
    while let Some((_, c)) = chars.next() {
        match c {
            '\\' => json.push(match chars.next() {
                Some((_, 'n' | 'r' | 't')) => ' ',
                Some((_, c)) => c,
                None => break,
            }),
            c => json.push(c),
        }
        ends.push((json.len(), chars.offset()));
    }
    (json, ends)
}

fn of_dictionary(text: &str) -> Respelled {
    let (mut json, mut ends) = (String::new(), Vec::new());
    let mut chars = text.char_indices().peekable();
    while let Some((_, c)) = chars.next() {
        match c {
            '\'' | '"' => string(&mut chars, c, &mut json),
            c if c.is_ascii_alphabetic() => {
                let mut word = String::from(c);
                while let Some((_, c)) = chars.next_if(|(_, c)| c.is_ascii_alphabetic()) {
                    word.push(c);
                }
                json.push_str(match word.as_str() {
                    "None" => "null",
                    "True" => "true",
                    "False" => "false",
                    other => other,
                });
            }
            c => json.push(c),
        }
        let end = chars.peek().map_or(text.len(), |&(next, _)| next);
        ends.push((json.len(), end));
    }
    (json, ends)
}

/// The rest of a string that this quote has opened; one that was cut off is left open.
fn string(chars: &mut Peekable<CharIndices<'_>>, quote: char, json: &mut String) {
    json.push('"');
    while let Some((_, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, c @ ('n' | 'r' | 't' | 'u' | '"' | '\\'))) => json.extend(['\\', c]),
                Some((_, '\'')) => json.push('\''),
                Some((_, 'x')) => json.push_str("\\u00"),
                Some((_, c)) => json.extend(['\\', '\\', c]),
                None => return,
            },
            c if c == quote => return json.push('"'),
            '"' => json.push_str("\\\""),
            c if c.is_control() => json.push(' '),
            c => json.push(c),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> (Value, &str) {
        let (value, end) = printed(text).unwrap();
        (value, text.get(end..).unwrap())
    }

    #[test]
    fn a_dictionary() {
        let text =
            r#"{'a': None, 'b': [True, 1.5], "c's": "it's \"so\"", 'd': 'a "b" \'c\' \\ \n\xe9\u2014'}. And on {}"#;
        let value = json!({"a": null, "b": [true, 1.5], "c's": "it's \"so\"", "d": "a \"b\" 'c' \\ \n\u{e9}\u{2014}"});
        assert_eq!(read(text), (value, ". And on {}"));
        assert_eq!(read("[{'a': '限'}] b"), (json!([{"a": "限"}]), " b"));
    }

    #[test]
    fn bytes() {
        let text = r#"{\n  "a": "it\'s",\n  "b": "say \\"so\\""\n}\n'. And on"#;
        assert_eq!(read(text), (json!({"a": "it's", "b": "say \"so\""}), r"\n'. And on"));
    }

    #[test]
    fn a_cut_keeps_what_came_before() {
        let whole = r"{'a': {'b': 'c', 'd': 'half \u2014 more'}}";
        for cut in whole.find(", 'd").unwrap()..whole.len() {
            let value = printed(whole.get(..cut).unwrap()).unwrap().0;
            assert_eq!(value.pointer("/a/b"), Some(&json!("c")), "cut at {cut}");
        }
    }

    #[test]
    fn no_python() {
        for text in ["{", "{'", "{\\", "{a}", "[1, 2", "{'a': datetime(1)}", "{'a' 'b'}"] {
            let object = printed(text).filter(|(value, _)| value.get("a").is_some());
            assert_eq!(object, None, "{text}");
        }
    }
}
