//! A number of bytes as it stands in the file: `65536`, `"64KiB"`, `"1.5 MB"`. Knows no key.

use std::fmt;

use bytesize::ByteSize;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

impl Size {
    /// The number, unless it is zero, which switches off what it bounds.
    pub(crate) const fn unless_zero(self) -> Option<usize> {
        match self.0 {
            0 => None,
            bytes => Some(bytes),
        }
    }
}

impl Serialize for Size {
    /// In the largest unit that holds it exactly, so that what is written is what is in force.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units
            .into_iter()
            .find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit))
        {
            Some((unit, name)) => serializer.collect_str(&format_args!("{}{name}", self.0 / unit)),
            None => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes such as 65536 or \"64KiB\"")
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
                let size = usize::try_from(bytes).ok().map(Size);
                size.ok_or_else(|| E::invalid_value(Unexpected::Signed(bytes), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                let size = text.parse::<ByteSize>().ok();
                size.and_then(|size| usize::try_from(size.as_u64()).ok())
                    .map(Size)
                    .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, Serialize)]
    struct Holder {
        limit: Size,
    }

    fn read(value: &str) -> Result<Size, String> {
        let holder: Result<Holder, _> = toml::from_str(&format!("limit = {value}"));
        holder.map(|holder| holder.limit).map_err(|error| error.to_string())
    }

    #[test]
    fn a_number_of_bytes_is_read_and_written_exactly() {
        for (value, bytes, written) in [
            ("0", 0, "0"),
            ("65536", 65_536, "\"64KiB\""),
            ("\"64KiB\"", 65_536, "\"64KiB\""),
            ("\"32 MiB\"", 33_554_432, "\"32MiB\""),
            ("\"1MB\"", 1_000_000, "1000000"),
            ("1023", 1_023, "1023"),
        ] {
            let size = read(value).unwrap();
            assert_eq!(size, Size(bytes), "{value}");
            assert_eq!(
                toml::to_string(&Holder { limit: size }).unwrap(),
                format!("limit = {written}\n")
            );
        }
    }

    #[test]
    fn what_is_no_number_of_bytes_is_refused_with_an_example() {
        for value in ["-1", "\"much\"", "\"-1KiB\"", "true"] {
            let error = read(value).unwrap_err();
            assert!(error.contains("such as 65536"), "{value}: {error}");
        }
    }
}
