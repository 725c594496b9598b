//! A model knows how a provider is set up: its limits, what its answers say, how long they take. It has no state.

use std::time::{Duration, SystemTime};

use super::call::Call;
use super::law::Law;
use super::outage::{Fault, Outage};
use super::shape::Shape;
use super::tokens::{Charge, Tokens};

/// How a provider is set up; all limits given are in force together, for each key apart.
///
/// Until something else is said: no limits, no outages, a refusal does not count, hints are exact, limits are stated per
/// minute, a call takes 2 s and a refusal 50 ms, no jitter, answers as [`Output::usual`], windows begin with the start.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) shape: Shape,
    pub(crate) requests: Vec<Law>,
    pub(crate) changes: Vec<(Duration, Law)>,
    pub(crate) tokens: Vec<(Tokens, Law, Charge)>,
    pub(crate) daily: Option<u64>,
    pub(crate) growth: Option<(u64, u64, Duration)>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) background: Option<(u64, Duration)>,
    pub(crate) counts_refusals: bool,
    pub(crate) outages: Vec<Outage>,
    pub(crate) hint: Hint,
    pub(crate) headers: Headers,
    pub(crate) latency: Latency,
    pub(crate) first_token: Duration,
    pub(crate) refusal_after: Duration,
    pub(crate) jitter: Duration,
    pub(crate) output: Output,
    pub(crate) max_tokens: u64,
    pub(crate) phase: Phase,
    pub(crate) epoch: SystemTime,
    pub(crate) per_model: bool,
}

/// How a refusal says when to come back. The wait is counted from the moment of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// In `retry-after-ms`, and rounded up in `retry-after`; in the body as well, where the shape does that.
    Exact,
    /// In `retry-after`, rounded up to whole seconds; in the body as well, where the shape does that.
    Seconds,
    /// Exactly, but only in the body: prose of OpenAI, `RetryInfo` of Gemini.
    Body,
    /// Not at all.
    None,
}

/// What the limit headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// The limit as it comes to in a minute, and what remains of the real one.
    PerMinute,
    /// The limit as it is enforced: 20 where 20 in 10 s are allowed.
    AsEnforced,
    /// -1, -1 and 0, as some deployments send that know nothing.
    Sentinels,
    /// There are none.
    Off,
}

/// How long a call takes from its arrival to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Always so long.
    Fixed(Duration),
    /// As long as it takes to produce the answer, at so many tokens a second.
    TokensPerSecond(u64),
}

/// How many tokens an answer has, where the call does not say. `max_tokens` cuts it off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Output {
    /// Always so many.
    Fixed(u64),
    /// Drawn from a log-normal distribution.
    LogNormal {
        /// Its median.
        median: f64,
        /// The standard deviation of its logarithm.
        sigma: f64,
    },
}

/// Where the provider's clock, and so its windows, stands at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    At(Duration),
    Seeded,
}

impl Output {
    /// Median 300, σ 0.8.
    pub fn usual() -> Output {
        Output::LogNormal {
            median: 300.0,
            sigma: 0.8,
        }
    }
}

impl Model {
    /// A provider without limits whose answers look like this.
    pub fn new(shape: Shape) -> Model {
        Model {
            shape,
            requests: Vec::new(),
            changes: Vec::new(),
            tokens: Vec::new(),
            daily: None,
            growth: None,
            concurrency: None,
            background: None,
            counts_refusals: false,
            outages: Vec::new(),
            hint: Hint::Exact,
            headers: Headers::PerMinute,
            latency: Latency::Fixed(Duration::from_secs(2)),
            first_token: Duration::from_millis(200),
            refusal_after: Duration::from_millis(50),
            jitter: Duration::ZERO,
            output: Output::usual(),
            max_tokens: 4096,
            phase: Phase::At(Duration::ZERO),
            // A Monday at midnight, UTC, so that days and minutes of the wall clock begin with the start too.
            epoch: SystemTime::UNIX_EPOCH + Duration::from_secs(1_748_822_400),
            per_model: false,
        }
    }

    /// Adds a limit of requests.
    pub fn requests(mut self, law: Law) -> Model {
        self.requests.push(law);
        self
    }

    /// From `at` on, this is the one limit of requests, in place of those before; it begins unused. A provider that comes
    /// back from an outage with less than it had. To be called in the order of the times.
    pub fn requests_from(mut self, at: Duration, law: Law) -> Model {
        self.changes.push((at, law));
        self
    }

    /// Adds a limit of tokens.
    pub fn tokens(mut self, of: Tokens, law: Law, charge: Charge) -> Model {
        self.tokens.push((of, law, charge));
        self
    }

    /// Refuses more than so many calls in a day of the provider's clock, as a quota that is spent.
    pub fn daily(mut self, amount: u64) -> Model {
        self.daily = Some(amount);
        self
    }

    /// Refuses more than so many calls at a time.
    pub fn concurrency(mut self, most: usize) -> Model {
        self.concurrency = Some(most);
        self
    }

    /// Refuses, with `slow_down`, more than `percent` of the calls of the `per` before, once there are more than `floor`.
    pub fn growth(mut self, floor: u64, percent: u64, per: Duration) -> Model {
        self.growth = Some((floor, percent, per));
        self
    }

    /// Lets somebody else make so many calls in each `per`, evenly, through the same limits of requests and ahead of
    /// everybody. They must be fewer than the limits allow, or nothing is left.
    pub fn somebody_else(mut self, calls: u64, per: Duration) -> Model {
        self.background = Some((calls, per));
        self
    }

    /// Counts refused calls against the limits of requests. A client that does not stop is then
    /// never let in, nor is a crowd without a plan in common: give such a run an end.
    pub fn counting_refusals(mut self) -> Model {
        self.counts_refusals = true;
        self
    }

    /// Adds a time in which every call fails.
    pub fn outage(self, from: Duration, to: Duration, fault: Fault) -> Model {
        self.failing(Outage::new(from, to, fault))
    }

    /// Adds an outage. Where several meet a call, the first one added decides.
    pub fn failing(mut self, outage: Outage) -> Model {
        self.outages.push(outage);
        self
    }

    /// How a refusal says when to come back.
    pub fn hint(self, hint: Hint) -> Model {
        Model { hint, ..self }
    }

    /// What the limit headers say.
    pub fn headers(self, headers: Headers) -> Model {
        Model { headers, ..self }
    }

    /// How long a call takes.
    pub fn latency(self, latency: Latency) -> Model {
        Model { latency, ..self }
    }

    /// When the head of a stream comes; 200 ms if nothing is said.
    pub fn first_token(self, first_token: Duration) -> Model {
        Model { first_token, ..self }
    }

    /// How long a refusal takes, and a failure in an outage.
    pub fn refusal_after(self, refusal_after: Duration) -> Model {
        Model { refusal_after, ..self }
    }

    /// Delays each call on its way to the provider by anything up to `most`.
    pub fn jitter(self, most: Duration) -> Model {
        Model { jitter: most, ..self }
    }

    /// How long answers are.
    pub fn output(self, output: Output) -> Model {
        Model { output, ..self }
    }

    /// What is charged for a call that says no `max_tokens`; 4096 if nothing is said.
    pub fn max_tokens(self, max_tokens: u64) -> Model {
        Model { max_tokens, ..self }
    }

    /// How long the provider's windows have been running at the start.
    pub fn phase(self, phase: Duration) -> Model {
        Model {
            phase: Phase::At(phase),
            ..self
        }
    }

    /// Draws the phase by the seed, anywhere in the longest window.
    pub fn seeded_phase(self) -> Model {
        Model {
            phase: Phase::Seeded,
            ..self
        }
    }

    /// What a wall clock showed at the start, phase aside.
    pub fn epoch(self, epoch: SystemTime) -> Model {
        Model { epoch, ..self }
    }

    /// Keeps the limits apart for each model that a request names, and not only for each credential.
    pub fn per_model(self) -> Model {
        Model {
            per_model: true,
            ..self
        }
    }

    /// What is wrong at `at` for the `attempt`-th attempt of a prompt, if anything.
    pub(crate) fn fault(&self, at: Duration, call: &Call, attempt: u32, seed: u64) -> Option<Fault> {
        let outage = self.outages.iter().find(|outage| outage.meets(at, call, attempt, seed));
        outage.map(|outage| outage.fault)
    }

    pub(crate) fn longest_window(&self) -> Duration {
        let changed = self.changes.iter().map(|(_, law)| law);
        let laws = self
            .requests
            .iter()
            .chain(changed)
            .chain(self.tokens.iter().map(|(_, law, _)| law));
        laws.filter_map(Law::window_length).max().unwrap_or_default()
    }
}
