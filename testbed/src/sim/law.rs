//! A law knows how much a limit allows in which time. It does not know what has been used.

use std::time::Duration;

/// The limit of one quantity: requests, or tokens of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// `amount` per `per` flows back continuously, up to `burst`; full at the start.
    Bucket {
        /// What flows back in `per`.
        amount: u64,
        /// The time in which it does.
        per: Duration,
        /// The most that can be saved up.
        burst: u64,
    },
    /// `amount` in each window of length `per`; windows begin at multiples of `per` on the provider's clock.
    Window {
        /// What each window allows.
        amount: u64,
        /// Its length.
        per: Duration,
    },
    /// `amount` in any stretch of length `per`.
    Sliding {
        /// What any stretch allows.
        amount: u64,
        /// Its length.
        per: Duration,
    },
}

impl Law {
    /// A token bucket.
    pub fn bucket(amount: u64, per: Duration, burst: u64) -> Law {
        Law::Bucket { amount, per, burst }
    }

    /// Windows on the provider's clock: a fixed minute, or one second of it.
    pub fn window(amount: u64, per: Duration) -> Law {
        Law::Window { amount, per }
    }

    /// A sliding window.
    pub fn sliding(amount: u64, per: Duration) -> Law {
        Law::Sliding { amount, per }
    }

    /// What it comes to in a minute, burst aside: the number that a provider's documentation would give.
    pub fn per_minute(&self) -> u64 {
        let (Law::Bucket { amount, per, .. } | Law::Window { amount, per } | Law::Sliding { amount, per }) = *self;
        let minute = u128::from(amount) * Duration::from_secs(60).as_nanos() / per.as_nanos().max(1);
        u64::try_from(minute).unwrap_or(u64::MAX)
    }

    /// The most that can be had at one moment.
    pub fn at_once(&self) -> u64 {
        match *self {
            Law::Bucket { burst, .. } => burst,
            Law::Window { amount, .. } | Law::Sliding { amount, .. } => amount,
        }
    }

    pub(crate) fn window_length(&self) -> Option<Duration> {
        match *self {
            Law::Window { per, .. } => Some(per),
            Law::Bucket { .. } | Law::Sliding { .. } => None,
        }
    }
}
