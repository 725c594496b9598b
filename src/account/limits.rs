//! What a user configures, and its counters: the limits of an account or of one model. Knows nothing that is learnt.

use std::time::Duration;

use super::credit::Lead;
use super::pace::Bucket;
use super::tick::Tick;

/// The limits of an account or of one model; each that is not set is unlimited until the provider speaks of one.
///
/// ```
/// use reqwest_ai_retry::Limits;
///
/// let limits = Limits::new().requests_per_minute(30).output_tokens_per_minute(8_000);
/// # let _ = limits;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    pub(crate) requests_per_minute: Option<f64>,
    pub(crate) requests_per_day: Option<u64>,
    pub(crate) input_tokens_per_minute: Option<f64>,
    pub(crate) output_tokens_per_minute: Option<f64>,
    pub(crate) max_concurrency: Option<u32>,
}

impl Limits {
    /// No limit.
    pub const fn new() -> Self {
        Self {
            requests_per_minute: None,
            requests_per_day: None,
            input_tokens_per_minute: None,
            output_tokens_per_minute: None,
            max_concurrency: None,
        }
    }

    /// Starts per minute, evenly spaced: 90 is one every two thirds of a second, and never 90 at once. (See
    /// [`AccountBuilder::requests_per_minute`](crate::AccountBuilder::requests_per_minute) for what a provider's own headers
    /// may add.)
    #[must_use]
    pub fn requests_per_minute(mut self, requests: u32) -> Self {
        self.requests_per_minute = Some(f64::from(requests));
        self
    }

    /// Starts per day, counted over 24 hours from the first of them.
    #[must_use]
    pub const fn requests_per_day(mut self, requests: u64) -> Self {
        self.requests_per_day = Some(requests);
        self
    }

    /// Input (prompt) tokens per minute.
    #[must_use]
    pub fn input_tokens_per_minute(mut self, tokens: u32) -> Self {
        self.input_tokens_per_minute = Some(f64::from(tokens));
        self
    }

    /// Output (completion) tokens per minute.
    #[must_use]
    pub fn output_tokens_per_minute(mut self, tokens: u32) -> Self {
        self.output_tokens_per_minute = Some(f64::from(tokens));
        self
    }

    /// Requests in flight together.
    #[must_use]
    pub const fn max_concurrency(mut self, requests: u32) -> Self {
        self.max_concurrency = Some(requests);
        self
    }

    /// The field that holds a zero: a limit that nothing can ever pass.
    #[inline]
    pub(crate) fn zero_field(&self) -> Option<&'static str> {
        let zero = |value: Option<f64>| value == Some(0.0);
        if zero(self.requests_per_minute) {
            Some("requests_per_minute")
        } else if self.requests_per_day == Some(0) {
            Some("requests_per_day")
        } else if zero(self.input_tokens_per_minute) {
            Some("input_tokens_per_minute")
        } else if zero(self.output_tokens_per_minute) {
            Some("output_tokens_per_minute")
        } else if self.max_concurrency == Some(0) {
            Some("max_concurrency")
        } else {
            None
        }
    }
}

/// What one start takes of each dimension.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Weights {
    pub(crate) input: f64,
    pub(crate) output: f64,
}

/// Starts that wait, and what they will take.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Load {
    pub(crate) starts: u32,
    pub(crate) weights: Weights,
}

impl Load {
    #[inline]
    pub(crate) fn add(&mut self, weights: Weights) {
        self.starts += 1;
        self.weights.input += weights.input;
        self.weights.output += weights.output;
    }

    #[inline]
    pub(crate) fn take(&mut self, weights: Weights) {
        self.starts = self.starts.saturating_sub(1);
        self.weights = match self.starts {
            // what rounding has left
            0 => Weights::default(),
            _ => Weights {
                input: (self.weights.input - weights.input).max(0.0),
                output: (self.weights.output - weights.output).max(0.0),
            },
        };
    }

    #[inline]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.starts += other.starts;
        self.weights.input += other.weights.input;
        self.weights.output += other.weights.output;
        self
    }
}

/// The counters of configured limits. All dimensions are charged or none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Counters {
    pub(crate) requests: Option<Bucket>,
    pub(crate) day: Option<Day>,
    pub(crate) input: Option<Bucket>,
    pub(crate) output: Option<Bucket>,
}

impl Counters {
    #[inline]
    pub(crate) fn new(limits: &Limits, now: Tick) -> Self {
        // ten seconds' worth at once: about what providers let through, and room for one long answer
        let tokens = |per_minute: f64| Bucket::new(per_minute / 60.0, per_minute / 6.0, now);
        Self {
            requests: limits
                .requests_per_minute
                .map(|per_minute| Bucket::new(per_minute / 60.0, 1.0, now)),
            day: limits.requests_per_day.map(|limit| Day {
                limit,
                counted: 0,
                since: None,
            }),
            input: limits.input_tokens_per_minute.map(tokens),
            output: limits.output_tokens_per_minute.map(tokens),
        }
    }

    /// No more than this part of the limits is for us.
    pub(crate) fn share(&mut self, limits: &Limits, part: f64, now: Tick) {
        for (bucket, per_minute) in [
            (&mut self.requests, limits.requests_per_minute),
            (&mut self.input, limits.input_tokens_per_minute),
            (&mut self.output, limits.output_tokens_per_minute),
        ] {
            if let (Some(bucket), Some(per_minute)) = (bucket, per_minute) {
                bucket.set_rate(part * per_minute / 60.0, now);
            }
        }
        if let (Some(day), Some(limit)) = (&mut self.day, limits.requests_per_day) {
            day.limit = ((limit as f64 * part) as u64).max(1);
        }
    }

    /// When a start of these weights fits, behind these others. Before its turn it may come at the pace alone.
    #[inline(always)]
    pub(crate) fn ready_at(&self, weights: Weights, ahead: Load, lead: Lead, now: Tick) -> Tick {
        let mut ready = Tick::default();
        if let Some(requests) = &self.requests
            && lead != Lead::Beside
        {
            let turn = requests.ready_behind(f64::from(ahead.starts), 1.0, now);
            ready = match lead {
                Lead::Early(seconds) => turn.plus_seconds(-seconds),
                Lead::None | Lead::Beside => turn,
            };
        }
        if let Some(input) = &self.input {
            ready = ready.max(input.ready_behind(ahead.weights.input, weights.input, now));
        }
        if let Some(output) = &self.output {
            ready = ready.max(output.ready_behind(ahead.weights.output, weights.output, now));
        }
        if let Some(day) = &self.day {
            ready = ready.max(day.ready_at(ahead.starts, now));
        }
        ready
    }

    #[inline]
    pub(crate) fn charge(&mut self, weights: Weights, on_credit: bool, now: Tick) {
        if let Some(requests) = &mut self.requests
            && !on_credit
        {
            requests.charge(1.0, now);
        }
        if let Some(input) = &mut self.input {
            input.charge(weights.input, now);
        }
        if let Some(output) = &mut self.output {
            output.charge(weights.output, now);
        }
        if let Some(day) = &mut self.day {
            day.charge(now);
        }
    }

    /// Gives back (or, if negative, charges) tokens.
    #[inline]
    pub(crate) fn refund_tokens(&mut self, weights: Weights, now: Tick) {
        if let Some(input) = &mut self.input {
            input.refund(weights.input, now);
        }
        if let Some(output) = &mut self.output {
            output.refund(weights.output, now);
        }
    }
}

/// A day's allowance, counted from its first start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Day {
    limit: u64,
    counted: u64,
    since: Option<Tick>,
}

impl Day {
    const LENGTH: Duration = Duration::from_secs(86_400);

    fn ends(&self, now: Tick) -> Option<Tick> {
        self.since.map(|since| since + Self::LENGTH).filter(|end| *end > now)
    }

    fn ready_at(&self, ahead: u32, now: Tick) -> Tick {
        match self.ends(now) {
            Some(end) if self.counted.saturating_add(u64::from(ahead)) >= self.limit => end,
            _ => Tick::default(),
        }
    }

    fn charge(&mut self, now: Tick) {
        if self.ends(now).is_none() {
            self.since = Some(now);
            self.counted = 0;
        }
        self.counted = self.counted.saturating_add(1);
    }
}
