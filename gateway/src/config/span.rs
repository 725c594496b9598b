//! A length of time as it stands in the file: `"20s"`, `"1m 30s"`, `"500ms"`. Knows no key.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time that is not negative. A bare number is refused, since it does not say of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(pub(crate) Duration);

impl Span {
    pub(crate) const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SignedDuration::try_from(self.0) {
            Ok(duration) => write!(f, "{duration:#}"),
            Err(_) => write!(f, "{}s", self.0.as_secs()),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time such as \"20s\", \"1m 30s\" or \"500ms\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
                let parsed = text.parse::<SignedDuration>().ok();
                parsed
                    .and_then(|duration| Duration::try_from(duration).ok())
                    .map(Span)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, Serialize)]
    struct Holder {
        wait: Span,
    }

    fn read(value: &str) -> Result<Span, String> {
        let holder: Result<Holder, _> = toml::from_str(&format!("wait = {value}"));
        holder.map(|holder| holder.wait).map_err(|error| error.to_string())
    }

    #[test]
    fn a_length_of_time_is_read_and_written_with_its_unit() {
        for (text, milliseconds, written) in [
            ("20s", 20_000, "20s"),
            ("500ms", 500, "500ms"),
            ("1m 30s", 90_000, "1m 30s"),
            ("1m30s", 90_000, "1m 30s"),
            ("90 seconds", 90_000, "1m 30s"),
            ("2h", 7_200_000, "2h"),
            ("0s", 0, "0s"),
        ] {
            let span = read(&format!("\"{text}\"")).unwrap();
            assert_eq!(span.0, Duration::from_millis(milliseconds), "{text}");
            assert_eq!(
                toml::to_string(&Holder { wait: span }).unwrap(),
                format!("wait = \"{written}\"\n")
            );
        }
    }

    #[test]
    fn what_is_no_length_of_time_is_refused_with_an_example() {
        for value in ["20", "\"20\"", "\"-1s\"", "\"soon\"", "\"\"", "true"] {
            let error = read(value).unwrap_err();
            assert!(error.contains("such as \"20s\""), "{value}: {error}");
        }
    }
}
