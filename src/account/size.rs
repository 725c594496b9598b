//! How many tokens a request will take, before it is sent. Knows no queue; what it does not know it estimates, and corrects
//! by what answers say.

use std::collections::VecDeque;
use std::sync::Arc;

use super::limits::Weights;
use super::usage::Usage;
use crate::json::top_level;

/// How a provider charges output tokens against its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Charge {
    /// As they are produced. What nine in ten answers took is reserved, and corrected by what each took. The default.
    #[default]
    OnProduce,
    /// `max_tokens` at the start, and nothing comes back.
    UpfrontFinal,
    /// `max_tokens` at the start, corrected at the end.
    UpfrontSettled,
}

/// What a start asked for by hand takes.
///
/// ```
/// use reqwest_ai_retry::Cost;
///
/// let cost = Cost::new().model("big-model").input_tokens(1_200).max_output_tokens(500);
/// # let _ = cost;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cost {
    pub(crate) model: Option<String>,
    input_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
}

impl Cost {
    /// One request, of a size that is not known.
    pub const fn new() -> Self {
        Self {
            model: None,
            input_tokens: None,
            max_output_tokens: None,
        }
    }

    /// The model asked, which has a lane of its own.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Its input (prompt) tokens.
    #[must_use]
    pub const fn input_tokens(mut self, tokens: u64) -> Self {
        self.input_tokens = Some(tokens);
        self
    }

    /// The most output tokens that it allows.
    #[must_use]
    pub const fn max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    pub(crate) fn size(&self) -> Size {
        Size {
            bytes: 0,
            input: self.input_tokens.map(|tokens| tokens as f64),
            max_output: self.max_output_tokens,
        }
    }
}

/// What is known of a request's size.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Size {
    pub(crate) bytes: usize,
    pub(crate) input: Option<f64>,
    pub(crate) max_output: Option<u64>,
}

type Estimate = Arc<dyn Fn(&reqwest::Request) -> u64 + Send + Sync>;

impl std::fmt::Debug for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sizes")
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

/// How sizes are told.
#[derive(Clone, Default)]
pub(crate) struct Sizes {
    /// A limit on tokens is configured, so that they count.
    pub(crate) count: bool,
    pub(crate) output: Charge,
    pub(crate) estimate: Option<Estimate>,
}

/// The names under which requests say how much they allow; the largest counts (a small one beside a large one is a trap that
/// a gateway fell into).
const MOST_OUTPUT: [&str; 5] = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "num_predict",
];

impl Sizes {
    pub(crate) fn of(&self, request: &reqwest::Request) -> Size {
        let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
        Size {
            bytes: body.len(),
            input: self.estimate.as_ref().map(|estimate| estimate(request) as f64),
            max_output: top_level(body, MOST_OUTPUT)
                .and_then(|most| most.iter().filter_map(serde_json::Value::as_u64).max()),
        }
    }
}

/// What answers have taught about sizes in a lane.
#[derive(Debug, Clone)]
pub(crate) struct Experience {
    /// Input tokens per byte of the request.
    per_byte: f64,
    /// Output tokens of the last answers.
    outputs: VecDeque<u32>,
    /// What nine in ten of them took at most.
    usual: f64,
}

/// Before any answer: a token every four bytes, as English text has; and what a long answer takes.
const PER_BYTE: f64 = 0.25;
const FIRST_OUTPUT: f64 = 1024.0;
const REMEMBERED: usize = 64;

impl Default for Experience {
    fn default() -> Self {
        Self {
            per_byte: PER_BYTE,
            outputs: VecDeque::new(),
            usual: FIRST_OUTPUT,
        }
    }
}

impl Experience {
    /// What to reserve. What is only an estimate does not exceed what the limit holds at once: the first request would wait
    /// for no reason.
    pub(crate) fn weigh(&self, size: &Size, sizes: &Sizes, capacity: f64) -> Weights {
        let most = size.max_output.map(|most| most as f64);
        let usual = self.usual.min(capacity);
        let output = match (sizes.output, most) {
            (Charge::OnProduce, Some(most)) => usual.min(most),
            (Charge::UpfrontFinal | Charge::UpfrontSettled, Some(most)) => most,
            (_, None) => usual,
        };
        Weights {
            input: size.input.unwrap_or(size.bytes as f64 * self.per_byte),
            output,
        }
    }

    fn usual_output(&self) -> f64 {
        let mut sorted: Vec<u32> = self.outputs.iter().copied().collect();
        let at = (sorted.len() - 1) * 9 / 10;
        f64::from(*sorted.select_nth_unstable(at).1)
    }

    /// Learns from the answer to a request of so many bytes; gives what was reserved too much (negative: too little).
    pub(crate) fn learn(&mut self, bytes: usize, reserved: Weights, usage: Usage, sizes: &Sizes) -> Weights {
        if let (Some(input), 1..) = (usage.input_tokens, bytes) {
            let seen = (input as f64 / bytes as f64).clamp(0.02, 2.0);
            self.per_byte += 0.2 * (seen - self.per_byte);
        }
        if let Some(output) = usage.output_tokens {
            if self.outputs.len() >= REMEMBERED {
                self.outputs.pop_front();
            }
            self.outputs.push_back(u32::try_from(output).unwrap_or(u32::MAX));
            self.usual = self.usual_output();
        }
        let over = |reserved: f64, used: Option<u64>| used.map_or(0.0, |used| reserved - used as f64);
        let output = match sizes.output {
            Charge::UpfrontFinal => 0.0,
            Charge::OnProduce | Charge::UpfrontSettled => over(reserved.output, usage.output_tokens),
        };
        Weights {
            input: over(reserved.input, usage.input_tokens),
            output,
        }
    }
}
