//! A part that is switched off by a word, or set by a table: `false`, `true`, `{ key = … }`. Knows no key.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Off, or on with these settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Switch<T> {
    Off,
    On(T),
}

impl<T: Copy> Switch<T> {
    /// What its settings come to, or `off`.
    pub(crate) fn map_or<U>(self, off: U, on: impl FnOnce(T) -> U) -> U {
        match self {
            Self::Off => off,
            Self::On(settings) => on(settings),
        }
    }
}

impl<T: Default> Default for Switch<T> {
    fn default() -> Self {
        Self::On(T::default())
    }
}

impl<T: Serialize> Serialize for Switch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::On(settings) => settings.serialize(serializer),
        }
    }
}

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for Switch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = Switch<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`false`, `true` or a table of settings")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<Switch<T>, E> {
                Ok(if on { Switch::default() } else { Switch::Off })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Switch<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Switch::On)
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    struct Part {
        number: u32,
    }

    impl Default for Part {
        fn default() -> Self {
            Self { number: 7 }
        }
    }

    #[derive(Debug, Deserialize, Serialize)]
    struct Holder {
        part: Switch<Part>,
    }

    fn read(text: &str) -> Result<Switch<Part>, String> {
        let holder: Result<Holder, _> = toml::from_str(text);
        holder.map(|holder| holder.part).map_err(|error| error.to_string())
    }

    #[test]
    fn a_word_or_a_table_is_read_and_written() {
        let on = |number| Switch::On(Part { number });
        for (text, expected, written) in [
            ("part = false", Switch::Off, "part = false\n"),
            ("part = true", on(7), "[part]\nnumber = 7\n"),
            ("part = {}", on(7), "[part]\nnumber = 7\n"),
            ("part.number = 2", on(2), "[part]\nnumber = 2\n"),
            ("[part]\nnumber = 2", on(2), "[part]\nnumber = 2\n"),
        ] {
            let part = read(text).unwrap();
            assert_eq!(part, expected, "{text}");
            assert_eq!(toml::to_string(&Holder { part }).unwrap(), written);
        }
    }

    #[test]
    fn what_is_neither_is_refused_with_what_may_stand_there() {
        assert!(read("part = 3").unwrap_err().contains("`false`, `true` or a table"));
        let unknown = read("part = { numbre = 3 }").unwrap_err();
        assert!(
            unknown.contains("unknown field `numbre`, expected `number`"),
            "{unknown}"
        );
    }
}
