//! What an incident is: a provider, what goes wrong with it and when, and the callers that meet it. Knows no contender and
//! no bar.

use std::time::Duration;

use testbed::sim::{Fault, Headers, Latency, Model, Outage, Shape};

/// How long a failure takes until its response comes.
pub(crate) const FAILURE_TAKES: Duration = Duration::from_millis(30);

/// What kind of incident it is, and with that, what can be demanded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Nothing goes wrong.
    Fair,
    /// No call gets through for a while; of one model, if the incident names one.
    Outage,
    /// A part of the sends fails.
    Share,
    /// Outages that come again and again.
    Flaps,
    /// What was allowed before comes back smaller: so many starts a second are let through.
    Smaller(f64),
    /// More calls arrive than are served.
    Overload,
    /// Some prompts fail always, the others never.
    Poison,
}

/// How calls come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Load {
    /// A number of prompts, each worker one after another.
    Batch { prompts: u64, workers: usize },
    /// Workers that ask without a pause until then.
    Endless { workers: usize, until: Duration },
    /// One call after another at this distance, until then, however many are in flight.
    Arrivals { every: Duration, until: Duration },
}

/// How a caller gives up that has no patience for more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum GiveUp {
    /// It says so beforehand: `total_deadline`.
    Deadline(Duration),
    /// It drops the call's future.
    Drop(Duration),
}

impl GiveUp {
    pub(crate) const fn after(self) -> Duration {
        match self {
            Self::Deadline(time) | Self::Drop(time) => time,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Incident {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The provider without what goes wrong.
    pub(crate) provider: Model,
    pub(crate) shape: Shape,
    /// What goes wrong.
    pub(crate) outages: Vec<Outage>,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// The delay that failures state.
    pub(crate) hint: Option<Duration>,
    pub(crate) load: Load,
    /// Prompts are for these in turn; of several, the first is the one that fails.
    pub(crate) models: &'static [&'static str],
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) gives_up: Option<GiveUp>,
    /// What is configured, where a rate is: starts a minute.
    pub(crate) rate: u32,
    /// The provider refuses what is faster than that.
    pub(crate) limited: bool,
    pub(crate) poisonous: Vec<u64>,
}

impl Incident {
    /// Nothing that goes wrong: healthy responses after 300 ms, no limit, 1,800 a minute where a rate is configured.
    pub(crate) fn new(name: impl Into<String>, load: Load) -> Self {
        Self {
            name: name.into(),
            kind: Kind::Fair,
            provider: provider(Shape::OpenAi),
            shape: Shape::OpenAi,
            outages: Vec::new(),
            from: Duration::ZERO,
            to: Duration::ZERO,
            hint: None,
            load,
            models: &["large"],
            attempt_timeout: None,
            gives_up: None,
            rate: 1800,
            limited: false,
            poisonous: Vec::new(),
        }
    }

    /// The provider is Anthropic, in place of OpenAI.
    pub(crate) fn anthropic(self) -> Self {
        Self {
            shape: Shape::Anthropic,
            provider: provider(Shape::Anthropic),
            ..self
        }
    }

    /// Nothing gets through from then on for so many seconds.
    pub(crate) fn down(mut self, from: f64, seconds: f64, fault: Fault) -> Self {
        (self.from, self.to) = (at(from), at(from + seconds));
        if let Fault::Hinted { retry_after, .. } = fault {
            self.hint = Some(Duration::from_secs(retry_after));
        }
        let mut outage = Outage::new(self.from, self.to, fault);
        if let [failing, _, ..] = self.models {
            outage = outage.model(failing);
        }
        self.outages.push(outage);
        self.kind = if self.outages.len() > 1 {
            Kind::Flaps
        } else {
            Kind::Outage
        };
        self
    }

    /// So many outages, each of that length, one beginning so many seconds after the other.
    pub(crate) fn flaps(self, times: u32, from: f64, every: f64, seconds: f64, fault: Fault) -> Self {
        (0..times).fold(self, |incident, n| {
            incident.down(f64::from(n).mul_add(every, from), seconds, fault)
        })
    }

    /// A part of all sends fails, all the time.
    pub(crate) fn share(mut self, share: f64, fault: Fault) -> Self {
        self.outages.push(Outage::endless(fault).share(share));
        self.kind = Kind::Share;
        self
    }

    /// A part of all sends fails for a while.
    pub(crate) fn share_for(mut self, share: f64, from: f64, seconds: f64, fault: Fault) -> Self {
        (self.from, self.to) = (at(from), at(from + seconds));
        self.outages.push(Outage::new(self.from, self.to, fault).share(share));
        self.kind = Kind::Share;
        self
    }

    pub(crate) fn poison(mut self, prompts: &[u64], fault: Fault) -> Self {
        self.outages
            .push(Outage::endless(fault).prompts(prompts.iter().copied()));
        self.poisonous = prompts.to_vec();
        self.kind = Kind::Poison;
        self
    }

    pub(crate) fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    pub(crate) fn models(self, models: &'static [&'static str]) -> Self {
        Self { models, ..self }
    }

    pub(crate) fn attempt_timeout(self, seconds: u64) -> Self {
        let attempt_timeout = Some(Duration::from_secs(seconds));
        Self {
            attempt_timeout,
            ..self
        }
    }

    pub(crate) fn gives_up(self, gives_up: GiveUp) -> Self {
        Self {
            gives_up: Some(gives_up),
            ..self
        }
    }

    /// Changes the provider.
    pub(crate) fn provider(self, change: impl FnOnce(Model) -> Model) -> Self {
        let provider = change(self.provider);
        Self { provider, ..self }
    }

    /// The provider allows this rate, a minute, and it is what is configured too.
    pub(crate) fn allows(self, rate: u32) -> Self {
        Self {
            rate,
            limited: true,
            ..self
        }
    }

    pub(crate) fn healthy(self, ms: u64) -> Self {
        self.provider(|model| model.latency(Latency::Fixed(Duration::from_millis(ms))))
    }

    /// The provider with all that goes wrong.
    pub(crate) fn model(&self) -> Model {
        let outages = self.outages.iter().cloned();
        outages.fold(self.provider.clone(), Model::failing)
    }

    /// The same in fair weather.
    pub(crate) fn calm(&self) -> Self {
        Self {
            outages: Vec::new(),
            ..self.clone()
        }
    }

    /// The outage that a call for this model meets at `now`, where a whole one is under way: when it ends.
    pub(crate) fn down_until(&self, now: Duration, model: &str) -> Option<Duration> {
        let concerned = !matches!(self.kind, Kind::Share | Kind::Poison)
            && (self.models.len() == 1 || self.models.first() == Some(&model));
        let mut met = self.outages.iter().filter(|_| concerned);
        met.find(|outage| outage.from <= now && now < outage.to)
            .map(|outage| outage.to)
    }

    /// How long nothing got through, at a time.
    pub(crate) fn length(&self) -> Duration {
        self.to.saturating_sub(self.from)
    }

    /// When the callers stop, where it is a matter of time.
    pub(crate) const fn until(&self) -> Option<Duration> {
        match self.load {
            Load::Batch { .. } => None,
            Load::Endless { until, .. } | Load::Arrivals { until, .. } => Some(until),
        }
    }

    /// Returns `true` if who is answered depends on the waits that a layer happens to draw, and not on the failures alone.
    pub(crate) fn is_a_matter_of_luck(&self) -> bool {
        match self.kind {
            Kind::Share => self.gives_up.is_some() || !self.to.is_zero(),
            Kind::Overload => true,
            _ => false,
        }
    }

    pub(crate) fn hangs(&self) -> bool {
        self.outages.iter().any(|outage| outage.fault == Fault::Hang)
    }
}

fn provider(shape: Shape) -> Model {
    Model::new(shape)
        .headers(Headers::Off)
        .latency(Latency::Fixed(Duration::from_millis(300)))
        .refusal_after(FAILURE_TAKES)
        .jitter(Duration::from_millis(5))
}

pub(crate) fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}
