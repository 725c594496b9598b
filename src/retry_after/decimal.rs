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
