//! The cases know the providers that are usually compared, by name. They do not know how one fares against them.

use std::time::Duration;

use super::law::Law;
use super::model::Model;
use super::shape::Shape;

/// A way to enforce an allowance of requests per minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A bucket of burst 1.
    Bucket1,
    /// A bucket of burst 10.
    Bucket10,
    /// A bucket of burst 60.
    Bucket60,
    /// Windows of a second; of more, where no whole number fits into one.
    PerSecond,
    /// Windows of ten seconds; of more, where no whole number fits into one.
    PerTenSeconds,
    /// The minutes of the clock.
    FixedMinute,
    /// Any minute.
    SlidingMinute,
    /// A bucket of burst 10, half of whose rate somebody else uses.
    Half,
}

/// All of them.
pub fn cases() -> [Case; 8] {
    [
        Case::Bucket1,
        Case::Bucket10,
        Case::Bucket60,
        Case::PerSecond,
        Case::PerTenSeconds,
        Case::FixedMinute,
        Case::SlidingMinute,
        Case::Half,
    ]
}

impl Case {
    /// What it is called in a table.
    pub fn name(self) -> &'static str {
        match self {
            Case::Bucket1 => "bucket_1",
            Case::Bucket10 => "bucket_10",
            Case::Bucket60 => "bucket_60",
            Case::PerSecond => "per_1s",
            Case::PerTenSeconds => "per_10s",
            Case::FixedMinute => "fixed_minute",
            Case::SlidingMinute => "sliding_minute",
            Case::Half => "half",
        }
    }

    /// The case with this allowance per minute, in the shape of OpenAI.
    pub fn model(self, allowance: u64) -> Model {
        let minute = Duration::from_secs(60);
        let law = match self {
            Case::Bucket1 => Law::bucket(allowance, minute, 1),
            Case::Bucket10 | Case::Half => Law::bucket(allowance, minute, 10),
            Case::Bucket60 => Law::bucket(allowance, minute, 60),
            Case::PerSecond => quantised(allowance, 1),
            Case::PerTenSeconds => quantised(allowance, 10),
            Case::FixedMinute => Law::window(allowance, minute),
            Case::SlidingMinute => Law::sliding(allowance, minute),
        };
        let model = Model::new(Shape::OpenAi).requests(law);
        match self {
            Case::Half => model.somebody_else(allowance, 2 * minute),
            _ => model,
        }
    }
}

/// Windows of the given seconds, or the shortest longer ones in which the allowance comes to a whole number.
fn quantised(allowance: u64, seconds: u64) -> Law {
    let mut length = seconds;
    while length < 60 && !(allowance * length).is_multiple_of(60) {
        length += 1;
    }
    Law::window(allowance * length / 60, Duration::from_secs(length))
}
