//! What is told apart when a provider speaks: a lane of its own for each origin, model and (in an account that was not
//! built) credential, so that one model's refusal never stops another. Knows no queue discipline.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

use http::{HeaderMap, header};
use reqwest::Url;

use super::breaker::{Breaker, BreakerState};
use super::budget::Budget;
use super::concurrency::Ceiling;
use super::hold::Hold;
use super::learn::Rate;
use super::pace::Bucket;
use super::pause::Pause;
use super::queue::Line;
use super::size::Experience;
use super::state::Change;
use super::store::Tie;
use super::tick::Tick;
use crate::json::top_level;

/// A keyed hash of all that tells a lane. The credential is in it and nowhere else; the key is the process's own, so that
/// the hash says nothing to anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneKey(u64);

impl LaneKey {
    /// Of starts of which nothing is known.
    const BY_HAND: Self = Self(0);

    /// As it is told to others.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }
}

impl Hash for LaneKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// A map by lane: its key is a hash already, and one that nobody outside can aim.
pub(crate) type LaneMap<T> = HashMap<LaneKey, T, BuildHasherDefault<AsItIs>>;

/// Takes a number for its own hash.
#[derive(Debug, Default)]
pub(crate) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // no key is made of bytes; should one be, it is told apart all the same
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// A lane that may be needed when the request is gone.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) key: LaneKey,
    pub(crate) name: LaneName,
}

/// What the hash of a lane is made with.
#[derive(Debug, Clone)]
pub(crate) enum Keyed {
    /// A key of this process alone.
    Here(RandomState),
    /// What all that share the account know, so that they give a lane the same name.
    #[cfg(feature = "redis")]
    Everywhere(super::digest::Digest),
}

/// What may be told of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaneName {
    pub(crate) host: String,
    pub(crate) model: String,
}

impl LaneName {
    /// The host; empty for starts asked for by hand.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The model, or the path where no model is named.
    pub fn model(&self) -> &str {
        &self.model
    }
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) key: LaneKey,
    pub(crate) name: LaneName,
    /// Another one may stand in the same place later.
    pub(crate) generation: u32,
    pub(crate) rate: Rate,
    /// The lane's own pace, once anything is known of it.
    pub(crate) bucket: Option<Bucket>,
    pub(crate) pause: Pause,
    pub(crate) hold: Option<Hold>,
    pub(crate) breaker: Breaker,
    pub(crate) budget: Budget,
    pub(crate) ceiling: Ceiling,
    pub(crate) told: Told,
    pub(crate) retries: Line,
    pub(crate) fresh: Line,
    /// Which of the account's models has limits of its own, if this one has.
    pub(crate) model: Option<usize>,
    pub(crate) experience: Experience,
    pub(crate) used_at: Tick,
    /// When those that wait were last looked through for the impatient.
    pub(crate) looked_at: Tick,
    /// Callers give up before their turn: until then the newest goes first.
    pub(crate) overloaded_until: Tick,
    /// What it has from the store, and has told it, if it is shared.
    pub(crate) tie: Option<Box<Tie>>,
}

/// What has been told of what is learnt. Time changes it as well as answers do, so that each answer is asked what is new.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Told {
    per_second: Option<f64>,
    in_flight: Option<u32>,
    is_open: bool,
}

impl Told {
    /// Nothing is new to somebody who has configured it.
    pub(crate) fn before(rate: &Rate) -> Self {
        Self {
            per_second: rate.learnt(),
            in_flight: None,
            is_open: false,
        }
    }
}

impl Lane {
    /// What was learnt since this was last asked.
    pub(crate) fn news(&mut self, now: Tick) -> impl Iterator<Item = Change> + use<> {
        let known = Told {
            per_second: self.rate.learnt(),
            in_flight: self.ceiling.limit(),
            is_open: self.breaker.paces(),
        };
        let told = std::mem::replace(&mut self.told, known);
        let rate = known.per_second.filter(|_| known.per_second != told.per_second);
        let ceiling = known.in_flight.filter(|_| known.in_flight != told.in_flight);
        let rate = rate.map(|per_second| Change::RateLearnt { per_second });
        let ceiling = ceiling.map(|in_flight| Change::CeilingLearnt { in_flight });
        let breaker = (known.is_open != told.is_open).then(|| match self.breaker.state(now) {
            BreakerState::Closed => Change::BreakerClosed,
            BreakerState::Open(until) => Change::BreakerOpened { until },
            BreakerState::HalfOpen => Change::BreakerOpened { until: now },
        });
        breaker.into_iter().chain(rate).chain(ceiling)
    }

    /// Nobody waits in it and nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting() == 0 && self.set_aside() == 0 && self.ceiling.in_flight() == 0
    }

    /// Something that is known of it still keeps calls out.
    pub(crate) fn is_shut(&self, now: Tick) -> bool {
        self.pause.until(now).is_some()
            || self.hold.as_ref().is_some_and(|hold| hold.shut_until(now).is_some())
            || self.breaker.state(now) != BreakerState::Closed
    }

    /// Those of its own who wait, retries or not.
    #[inline]
    pub(crate) fn line(&mut self, retries: bool) -> &mut Line {
        if retries { &mut self.retries } else { &mut self.fresh }
    }

    /// Those that wait for a start, as far as they are counted on.
    pub(crate) fn waiting(&self) -> u32 {
        self.retries.len() + self.fresh.len()
    }

    /// Those that wait and are not counted on.
    pub(crate) fn set_aside(&self) -> u32 {
        self.retries.set_aside() + self.fresh.set_aside()
    }
}

/// What tells the lane of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    url: Option<&'a Url>,
    headers: Option<&'a HeaderMap>,
    body: &'a [u8],
    model: Option<&'a str>,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(request: &'a reqwest::Request) -> Self {
        Self {
            url: Some(request.url()),
            headers: Some(request.headers()),
            body: request.body().and_then(|body| body.as_bytes()).unwrap_or_default(),
            model: None,
        }
    }

    /// A start asked for by hand, of which only the model is known.
    pub(crate) const fn by_hand(model: Option<&'a str>) -> Self {
        Self {
            url: None,
            headers: None,
            body: &[],
            model,
        }
    }

    /// How large its body is.
    pub(crate) const fn bytes(&self) -> usize {
        self.body.len()
    }

    /// The model that the request names: at the top level of a JSON body, or in its path. Else the path itself.
    fn model(&self) -> std::borrow::Cow<'a, str> {
        use std::borrow::Cow;
        if let Some(model) = self.model {
            return Cow::Borrowed(model);
        }
        // asked for by hand: there is nothing to look at
        let Some(url) = self.url else {
            return Cow::Borrowed("");
        };
        if let Some([serde_json::Value::String(model)]) = top_level(self.body, ["model"]) {
            return Cow::Owned(model);
        }
        let path = url.path();
        let named = ["/models/", "/model/", "/deployments/"]
            .iter()
            .find_map(|parent| path.split_once(parent));
        let named = named
            .and_then(|(_, rest)| rest.split(['/', ':']).next())
            .filter(|model| !model.is_empty());
        Cow::Borrowed(named.unwrap_or(path))
    }
}

/// A rule of the user's own.
type LaneBy = std::sync::Arc<dyn Fn(&Url, &HeaderMap) -> String + Send + Sync>;

/// How lanes are told apart.
#[derive(Clone)]
pub(crate) struct LaneNames {
    /// Each credential is an allowance of its own. In an account that was built, several keys may share one.
    pub(crate) by_credential: bool,
    pub(crate) by: Option<LaneBy>,
    /// Models with limits of their own, which are told apart whatever the rule.
    pub(crate) limited: Vec<String>,
}

/// No more of a model's name is kept: it is whatever a request says.
const LONGEST_NAME: usize = 200;

impl std::fmt::Debug for LaneNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneNames")
            .field("by_credential", &self.by_credential)
            .finish_non_exhaustive()
    }
}

impl LaneNames {
    #[inline]
    pub(crate) fn key(&self, asked: &Asked<'_>, hasher: &Keyed) -> LaneKey {
        match asked {
            Asked {
                url: None, model: None, ..
            } => LaneKey::BY_HAND,
            _ => match hasher {
                Keyed::Here(state) => self.hashed(asked, state.build_hasher()),
                #[cfg(feature = "redis")]
                Keyed::Everywhere(digest) => self.hashed(asked, digest.clone()),
            },
        }
    }

    fn hashed(&self, asked: &Asked<'_>, mut hash: impl Hasher) -> LaneKey {
        if let (Some(by), Some(url), Some(headers)) = (&self.by, asked.url, asked.headers) {
            by(url, headers).hash(&mut hash);
            self.limited(asked).hash(&mut hash);
            return LaneKey(hash.finish());
        }
        if let Some(url) = asked.url {
            (url.scheme(), url.host_str(), url.port_or_known_default()).hash(&mut hash);
        }
        if let (true, Some(url), Some(headers)) = (self.by_credential, asked.url, asked.headers) {
            hash_credential(url, headers, &mut hash);
        }
        asked.model().hash(&mut hash);
        LaneKey(hash.finish())
    }

    /// The model, if it has limits of its own.
    fn limited(&self, asked: &Asked<'_>) -> Option<&str> {
        if self.limited.is_empty() {
            return None;
        }
        let model = asked.model();
        self.limited
            .iter()
            .find(|limited| **limited == model)
            .map(String::as_str)
    }

    pub(crate) fn name(&self, asked: &Asked<'_>) -> LaneName {
        let host = asked.url.and_then(|url| url.host_str()).unwrap_or_default().to_owned();
        let mut model = match (&self.by, asked.url, asked.headers) {
            (Some(_), Some(_), Some(_)) => self.limited(asked).unwrap_or_default().to_owned(),
            _ => asked.model().into_owned(),
        };
        if !self.limited.contains(&model) {
            let end = (0..=LONGEST_NAME.min(model.len())).rfind(|at| model.is_char_boundary(*at));
            model.truncate(end.unwrap_or(0));
        }
        LaneName { host, model }
    }
}

/// An AWS signature is another one for every request; the access key's id in it is not.
pub(crate) fn hash_credential(url: &Url, headers: &HeaderMap, hash: &mut impl Hasher) {
    const NAMES: [&str; 3] = ["x-api-key", "api-key", "x-goog-api-key"];
    if let Some(authorization) = headers.get(header::AUTHORIZATION) {
        let signed = authorization.to_str().ok().filter(|value| value.starts_with("AWS4-"));
        match signed
            .and_then(|signed| signed.split_once("Credential="))
            .and_then(|(_, rest)| rest.split('/').next())
        {
            Some(key_id) => key_id.hash(hash),
            None => authorization.as_bytes().hash(hash),
        }
    }
    for value in NAMES.iter().filter_map(|name| headers.get(*name)) {
        value.as_bytes().hash(hash);
    }
    if url.query().is_some_and(|query| query.contains("key=")) {
        url.query_pairs()
            .filter(|(name, _)| name == "key")
            .for_each(|(_, value)| value.hash(hash));
    }
}
