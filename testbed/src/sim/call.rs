//! A call knows what is asked of the provider, as far as limits care. It does not know when, or what becomes of it.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;

/// One request to a simulated provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// The most tokens the answer may have; what the provider assumes if nothing is said is a matter of the model.
    pub max_tokens: Option<u64>,
    /// The tokens that the answer will have; drawn by the provider if nothing is said.
    pub output_tokens: Option<u64>,
    /// The model that is asked for.
    pub model: Option<String>,
    /// Which prompt it is: equal numbers are attempts of one. Over HTTP a header `x-prompt` says it, else it is a hash of
    /// the body.
    pub prompt: u64,
    /// Whose limits are used: equal keys share them.
    pub key: u64,
    /// Whether the answer comes as a stream of events.
    pub stream: bool,
}

/// The parts of a request's JSON that matter here, in the words of OpenAI, Anthropic and Gemini.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    model: Option<String>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    #[serde(rename = "generationConfig")]
    generation_config: Option<GenerationConfig>,
    stream: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GenerationConfig {
    max_output_tokens: Option<u64>,
}

impl Call {
    /// A call with so many tokens of prompt, the rest unsaid.
    pub fn new(input_tokens: u64) -> Call {
        Call {
            input_tokens,
            ..Call::default()
        }
    }

    /// Reads an HTTP request: a token for every four bytes of the body, and the rest as its JSON says. With
    /// `per_model`, the model is a part of the key.
    pub(crate) fn read<'a>(
        path: &str,
        header: impl Fn(&'static str) -> Option<&'a [u8]>,
        body: &[u8],
        per_model: bool,
    ) -> Call {
        // What is no JSON says nothing.
        let asked: Asked = serde_json::from_slice(body).unwrap_or_default();
        let credential = CREDENTIALS.iter().find_map(|name| header(name));
        let key = key(
            credential,
            asked.model.as_deref().filter(|_| per_model),
            path,
            per_model,
        );
        let numbered = header(PROMPT).and_then(|number| str::from_utf8(number).ok()?.parse().ok());
        let gemini = asked.generation_config.and_then(|config| config.max_output_tokens);
        let stated = asked.max_tokens.or(asked.max_completion_tokens);
        Call {
            input_tokens: u64::try_from(body.len()).unwrap_or(u64::MAX).div_ceil(4),
            max_tokens: stated.or(asked.max_output_tokens).or(gemini),
            output_tokens: None,
            model: asked.model.or_else(|| named_in(path).map(str::to_owned)),
            prompt: numbered.unwrap_or_else(|| hash(body)),
            key,
            stream: asked.stream.unwrap_or_default() || path.contains("streamGenerateContent"),
        }
    }
}

/// The headers that carry a credential, in the order in which they are looked at.
const CREDENTIALS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];

/// The header that numbers a prompt.
const PROMPT: &str = "x-prompt";

/// Gemini names the model in the path.
fn named_in(path: &str) -> Option<&str> {
    let (_, model) = path.split_once("/models/")?;
    model.split([':', '/']).next()
}

fn hash(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

fn key(credential: Option<&[u8]>, model: Option<&str>, path: &str, per_model: bool) -> u64 {
    if credential.is_none() && !per_model {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    credential.hash(&mut hasher);
    if per_model {
        model.unwrap_or(path).hash(&mut hasher);
    }
    hasher.finish()
}
