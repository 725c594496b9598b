//! What stands at the top level of a JSON body, found without building the rest of it. Knows no meaning.

use std::borrow::Cow;

use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// The values under these keys of the top level, wherever they stand; null for one that is not there. `None` for a body that
/// is no JSON object. What stands behind the last of them is not read.
pub(crate) fn top_level<const N: usize>(body: &[u8], keys: [&str; N]) -> Option<[Value; N]> {
    // to say so, the parser would allocate an error
    if body.is_empty() {
        return None;
    }
    let mut found = Found {
        keys,
        values: [const { Value::Null }; N],
        begun: false,
    };
    let read = serde_json::Deserializer::from_slice(body).deserialize_map(&mut found);
    (read.is_ok() || found.is_complete()).then_some(found.values)
}

struct Found<'a, const N: usize> {
    keys: [&'a str; N],
    values: [Value; N],
    begun: bool,
}

impl<const N: usize> Found<'_, N> {
    fn is_complete(&self) -> bool {
        self.begun && self.values.iter().all(|value| !value.is_null())
    }
}

impl<'de, const N: usize> Visitor<'de> for &mut Found<'_, N> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.begun = true;
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let wanted = self.keys.iter().zip(&mut self.values).find(|(name, _)| **name == key);
            match wanted {
                Some((_, value)) => *value = map.next_value()?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
            if self.is_complete() {
                return Err(A::Error::custom("nothing more is wanted"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_top_level_counts_wherever_a_key_stands() {
        let body = br#"{"messages":[{"model":"inner","text":"\"model\":\"quoted\""}],"model":"outer","n":2}"#;
        assert_eq!(top_level(body, ["model"]), Some([json!("outer")]));
        assert_eq!(
            top_level(body, ["n", "model", "x"]),
            Some([json!(2), json!("outer"), Value::Null])
        );
        assert_eq!(
            top_level(br#"{"model":"cut","messages":[{"ro"#, ["model"]),
            Some([json!("cut")])
        );
        for none in [&b"[1]"[..], b"", b"model=m", b"{\"mod", b"\xff"] {
            assert_eq!(top_level(none, ["model"]), None);
        }
    }
}
