//! The SDKs, one a file: how our client goes into it, how its own retries are stopped, and one call and one stream with
//! it. What is written here is what a user of the SDK writes.

mod async_anthropic;
mod async_openai;
mod azure_core;
mod bedrock;
mod claudius;
mod crimson_crab;
mod gemini_rust;
mod genai;
mod langchain_rust;
mod llm;
mod octocrab;
mod ollama_rs;
mod openai_api_rs;
mod rig;
mod rust_claude_sdk;

use std::error::Error;

use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::arrangement::{Arrangement, SetUp};
use crate::dialect::Dialect;
use crate::measure::Way;

/// What an SDK returned: the text of the answer, or its error.
pub type Answer = Result<String, Box<dyn Error + Send + Sync>>;

/// Asks the server at this address (`http://host:port`) once with an SDK that is set up so.
type Ask = fn(SetUp, String) -> BoxFuture<'static, Answer>;

/// An SDK.
#[derive(Debug)]
pub struct Sdk {
    /// Its package.
    pub name: &'static str,
    /// The format it speaks here.
    pub dialect: Dialect,
    /// Whether our client goes in, and how.
    pub client: Fit,
    /// The line that stops its own retries; `None` if there is none.
    pub stop: Option<&'static str>,
    call: Ask,
    stream: Option<Ask>,
}

/// Whether a client with middleware goes into an SDK.
#[derive(Debug)]
pub enum Fit {
    /// It does, by this line.
    Takes(&'static str),
    /// It does not, for this reason.
    Refuses(&'static str),
}

impl Sdk {
    /// All of them: first those that take our client.
    pub const ALL: &'static [Self] = &[
        async_openai::SDK,
        rig::SDK,
        azure_core::SDK,
        bedrock::SDK,
        octocrab::SDK,
        genai::SDK,
        langchain_rust::SDK,
        async_anthropic::SDK,
        rust_claude_sdk::SDK,
        claudius::SDK,
        crimson_crab::SDK,
        llm::SDK,
        ollama_rs::SDK,
        openai_api_rs::SDK,
        gemini_rust::SDK,
    ];

    /// Can it be arranged so?
    pub const fn allows(&self, arrangement: Arrangement) -> bool {
        match arrangement {
            Arrangement::AsItComes => true,
            Arrangement::Stopped => self.stop.is_some(),
            Arrangement::Gateway | Arrangement::GatewayGuarded => matches!(self.client, Fit::Refuses(_)),
            Arrangement::GatewayStopped => matches!(self.client, Fit::Refuses(_)) && self.stop.is_some(),
            _ => matches!(self.client, Fit::Takes(_)),
        }
    }

    /// Does it answer in this way?
    pub const fn answers(&self, way: Way) -> bool {
        matches!(way, Way::Call) || self.stream.is_some()
    }

    /// Asks the server at `url` for an answer.
    pub fn ask(&self, way: Way, set_up: SetUp, url: String) -> BoxFuture<'static, Answer> {
        let ask = match (way, self.stream) {
            (Way::Stream, Some(stream)) => stream,
            _ => self.call,
        };
        ask(set_up, url)
    }
}

/// The text that an event of Anthropic's streams adds.
fn delta(event: &impl Serialize) -> String {
    let event = serde_json::to_value(event).unwrap_or_default();
    let text = event.pointer("/delta/text").and_then(|text| text.as_str());
    text.unwrap_or_default().to_owned()
}
