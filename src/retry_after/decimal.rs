//! A number as it is written, digit by digit. Knows no unit until it is multiplied by one, and no float: 2.007 times
//! 1000 is 2007.0000000000002 in binary, so that rounding up would wait a millisecond too long.

use std::time::Duration;

use serde_json::Number;

use super::scan::digits;

/// Fraction digits kept; of those after them only whether one is not zero matters.
const PLACES: usize = 18;
const SCALE: u64 = 10_u64.pow(18);

/// A number of zero or more. One too large to hold is the largest that can be held: an absurd delay stays a long one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Decimal {
    whole: u64,
    /// In units of 10⁻¹⁸.
    fraction: u64,
    /// A digit further right is not zero.
    beyond: bool,
}

impl Decimal {
    /// A whole number.
    pub(super) const fn integer(whole: u64) -> Self {
        Self {
            whole,
            fraction: 0,
            beyond: false,
        }
    }

    /// All of `text` as a number: digits, and perhaps a full stop and more digits. No sign, exponent or separator.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (whole, rest) = digits(text);
        let (number, rest) = Self::with_fraction(whole, append(0, whole), rest)?;
        rest.is_empty().then_some(number)
    }

    /// The number that `text` begins with, and the rest. Takes `1,234` as people write it, and leaves a full stop that
    /// ends the sentence.
    pub(super) fn leading(text: &str) -> Option<(Self, &str)> {
        let (first, mut rest) = digits(text);
        let mut whole = append(0, first);
        if (1..=3).contains(&first.len()) {
            while let Some((group, after)) = rest.strip_prefix(',').map(digits)
                && group.len() == 3
            {
                whole = append(whole, group);
                rest = after;
            }
        }
        Self::with_fraction(first, whole, rest)
    }

    /// A number of a JSON body, none if it is negative. Rust writes a float without exponent and with the fewest digits
    /// that name it, which are those that were sent, up to fifteen.
    pub(super) fn of_json(number: &Number) -> Option<Self> {
        match number.as_u64() {
            Some(whole) => Some(Self::integer(whole)),
            None => Self::parse(&number.as_f64()?.to_string()),
        }
    }

    fn with_fraction<'a>(written: &str, whole: u64, rest: &'a str) -> Option<(Self, &'a str)> {
        match rest.strip_prefix('.').map(digits) {
            Some((places, rest)) if !places.is_empty() => {
                let kept = append(0, places.get(..PLACES).unwrap_or(places));
                let missing = u32::try_from(PLACES.saturating_sub(places.len())).unwrap_or(0);
                let number = Self {
                    whole,
                    fraction: kept.saturating_mul(10_u64.saturating_pow(missing)),
                    beyond: places.bytes().skip(PLACES).any(|digit| digit != b'0'),
                };
                Some((number, rest))
            }
            _ if written.is_empty() => None,
            _ => Some((Self::integer(whole), rest)),
        }
    }

    /// Whether it is exactly zero.
    pub(super) fn is_zero(self) -> bool {
        self == Self::integer(0)
    }

    /// So many units of `unit` nanoseconds, rounded up to the nanosecond.
    pub(super) fn times(self, unit: u64) -> Duration {
        const SECOND: u128 = 1_000_000_000;
        let (unit, scale) = (u128::from(unit), u128::from(SCALE));
        let fraction = u128::from(self.fraction).saturating_mul(unit);
        let up = self.beyond || fraction % scale != 0;
        let nanos = u128::from(self.whole)
            .saturating_mul(unit)
            .saturating_add(fraction / scale)
            .saturating_add(u128::from(up));
        Duration::new(
            u64::try_from(nanos / SECOND).unwrap_or(u64::MAX),
            u32::try_from(nanos % SECOND).unwrap_or(0),
        )
    }
}

/// `number` with `digits` written behind it.
fn append(number: u64, digits: &str) -> u64 {
    digits.bytes().fold(number, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit.wrapping_sub(b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn all_of_a_text_or_none_of_it() {
        for text in ["0", "5", "0.5", ".5", "007", "99999999999999999999999"] {
            assert!(Decimal::parse(text).is_some(), "{text:?}");
        }
        for text in [
            "", ".", "5.", "-1", "+1", "1e3", "1,234", " 5", "5 ", "NaN", "\u{b2}", "1.2.3",
        ] {
            assert_eq!(Decimal::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_beginning_leaves_the_rest() {
        let leading = |text| Decimal::leading(text).map(|(number, rest)| (number.times(SECOND).as_millis(), rest));
        assert_eq!(leading("5. Visit"), Some((5_000, ". Visit")));
        assert_eq!(leading("5.25s."), Some((5_250, "s.")));
        assert_eq!(leading("52,220 s"), Some((52_220_000, " s")));
        assert_eq!(leading("1,234,567.5"), Some((1_234_567_500, "")));
        assert_eq!(leading("5, 300"), Some((5_000, ", 300")));
        assert_eq!(leading("2022,123"), Some((2_022_000, ",123")));
        assert_eq!(leading("~5"), None);
    }

    #[test]
    fn a_part_of_a_nanosecond_is_one() {
        let nanos = |text| Decimal::parse(text).unwrap().times(SECOND).as_nanos();
        assert_eq!(nanos("2.007"), 2_007_000_000);
        assert_eq!(nanos("0.0000000001"), 1);
        assert_eq!(nanos("1.000000000000000000000000"), 1_000_000_000);
        assert_eq!(nanos("1.000000000000000000000001"), 1_000_000_001);
        assert_eq!(nanos("0.999999999999999999999999"), 1_000_000_000);
    }

    #[test]
    fn too_large_is_the_largest() {
        let number = Decimal::parse(&"9".repeat(100)).unwrap();
        assert_eq!(number.times(1), Duration::from_nanos(u64::MAX));
        assert_eq!(number.times(SECOND * 3600).as_secs(), u64::MAX);
        assert!(number > Decimal::integer(u64::MAX - 1));
    }

    #[test]
    fn a_json_number_keeps_its_digits() {
        let millis = |text: &str| {
            let number = serde_json::from_str(text).unwrap();
            Some(Decimal::of_json(&number)?.times(SECOND).as_millis())
        };
        assert_eq!(millis("2.007"), Some(2_007));
        assert_eq!(millis("1e3"), Some(1_000_000));
        assert_eq!(millis("20.0"), Some(20_000));
        assert_eq!(millis("-0.5"), None);
        assert!(millis("1e300").unwrap() > 1_000_000_000_000);
    }
}
