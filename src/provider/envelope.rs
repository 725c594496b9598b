//! The body of an answer by its shape: JSON unwrapped layer by layer, or text. Knows no provider and no meaning.

use serde_json::{Map, Value};

/// What could be read of a body, from the outermost layer to the innermost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Envelope {
    objects: Vec<Map<String, Value>>,
    text: String,
}

impl Envelope {
    pub(crate) fn of(_body: &[u8]) -> Self {
        Self::default()
    }

    /// The JSON objects that may carry an error's facts, outermost first: the root, its `error`, what was unwrapped.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Map<String, Value>> {
        self.objects.iter()
    }

    /// The sentences meant for people, outermost first (for a body that is no JSON: its text).
    pub(crate) fn messages(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.text.as_str())
    }
}
