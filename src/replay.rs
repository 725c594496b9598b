//! The request side: can it be sent again, and may it? Knows methods, paths and the idempotency key; knows no answer.

use http::{HeaderValue, Method};
use reqwest::{Request, Url};
use serde_json::Value;

use crate::body::Peeked;
use crate::classify::Delivery;
use crate::clock::{Clock, Deadline};
use crate::json::top_level;
use crate::outcome::Why;
use crate::policy::{Replay, RetryPolicy};

/// A request on its way: whole as long as it may be sent once more.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Once it is not kept any more nothing but its method and URL.
    request: Request,
    /// Why it is not whole any more.
    spent: Option<Why>,
    /// Why it could not be kept, should it not be.
    unkept: Why,
}

impl Outgoing {
    pub(crate) const fn new(request: Request) -> Self {
        Self {
            request,
            spent: None,
            unkept: Why::StreamingBody,
        }
    }

    pub(crate) const fn request(&self) -> &Request {
        &self.request
    }

    /// All of it, as long as it may be sent once more.
    pub(crate) fn whole(&self) -> Option<&Request> {
        self.spent.is_none().then_some(&self.request)
    }

    pub(crate) fn method(&self) -> &Method {
        self.request.method()
    }

    pub(crate) fn url(&self) -> &Url {
        self.request.url()
    }

    /// Reads the request's body into memory if the policy asks for that.
    pub(crate) async fn prepare(&mut self, policy: &RetryPolicy, deadline: Deadline, clock: &dyn Clock) {
        if let Some(limit) = policy.buffer_request {
            // boxed, since every call would have room for it otherwise
            self.unkept = Box::pin(buffer(&mut self.request, limit, deadline, clock)).await;
        }
    }

    /// The key that the request brings. A blank one is none: no server would tell anything by it.
    pub(crate) fn key(&self, policy: &RetryPolicy) -> Option<&HeaderValue> {
        let key = self.request.headers().get(policy.idempotency_key.name());
        key.filter(|key| !key.as_bytes().trim_ascii().is_empty())
    }

    /// Gives the request this idempotency key.
    pub(crate) fn set_key(&mut self, policy: &RetryPolicy, key: HeaderValue) {
        self.request.headers_mut().insert(policy.idempotency_key.name(), key);
    }

    /// Gives the request a new idempotency key, if the policy asks for that and it has none.
    #[inline]
    pub(crate) fn generate_key(&mut self, policy: &RetryPolicy) {
        if policy.idempotency_key.generates() {
            self.give_new_key(policy);
        }
    }

    fn give_new_key(&mut self, policy: &RetryPolicy) {
        if !self.method().is_idempotent() && self.key(policy).is_none() {
            let key = uuid::Uuid::new_v4().hyphenated().to_string();
            if let Ok(key) = HeaderValue::try_from(key) {
                self.set_key(policy, key);
            }
        }
    }

    /// What to send next. A clone of it is kept if there is need for it and it can be cloned. The original goes first, since
    /// its maps may have room for the headers that the transport adds.
    pub(crate) fn send(&mut self, keep: bool) -> Request {
        let copy = if keep { self.request.try_clone() } else { None };
        let kept = copy.unwrap_or_else(|| {
            self.spent = Some(self.unkept);
            Request::new(self.method().clone(), self.url().clone())
        });
        std::mem::replace(&mut self.request, kept)
    }

    /// Does it go to where models are asked for an answer? Told by its method and path alone, which outlive the last send.
    pub(crate) fn goes_to_a_model(&self) -> bool {
        goes_to_a_model(&self.request)
    }

    /// Can and may it be sent again after a failure of this delivery?
    pub(crate) fn may_repeat(&self, delivery: Delivery, policy: &RetryPolicy) -> Result<(), Why> {
        if let Some(why) = self.spent {
            return Err(why);
        }
        let request = &self.request;
        let harmless = || {
            request.method().is_idempotent()
                || self.key(policy).is_some()
                || match policy.replay {
                    Replay::Always => true,
                    Replay::Inference => is_inference(request),
                    Replay::Idempotent => false,
                }
        };
        if delivery == Delivery::Ambiguous && !harmless() {
            Err(Why::NonIdempotent)
        } else {
            Ok(())
        }
    }
}

/// Reads a streaming body into memory, or puts it back if it is longer than the limit, has trailers or breaks off. Gives
/// the reason why it cannot be sent again, if it was put back.
async fn buffer(request: &mut Request, limit: usize, deadline: Deadline, clock: &dyn Clock) -> Why {
    let body = match request.body_mut() {
        Some(body) if body.as_bytes().is_none() => body,
        _ => return Why::StreamingBody,
    };
    // one byte more than may be kept tells a body that just fits from one that does not
    let peeked = Peeked::read(std::mem::take(body), limit.saturating_add(1), deadline, clock).await;
    let why = if peeked.prefix().len() > limit {
        Why::BodyTooLarge
    } else {
        Why::StreamingBody
    };
    *body = match peeked.whole() {
        Some(whole) if whole.len() <= limit => whole.clone().into(),
        _ => peeked.put_back(),
    };
    why
}

/// Path endings of calls that ask a model for an answer and name the model in the body.
const MODEL_IN_BODY: &[&str] = &[
    "/chat/completions",
    "/completions",
    "/fim/completions",
    "/messages",
    "/messages/count_tokens",
    "/responses",
    "/embeddings",
    "/embed",
    "/rerank",
    "/moderations",
    "/classify",
    "/tokenize",
    "/api/chat",
    "/api/generate",
    "/api/embed",
    "/v1/chat",
    "/v2/chat",
    "/text-generation/generation",
    "/text/chatcompletion_v2",
];

/// Last path segments of calls that name the model in the path, with the segment that stands before the model: Gemini and
/// Vertex (`models/M:generateContent`), Bedrock (`model/M/converse`), Azure (`deployments/D/chat/completions`).
const MODEL_IN_PATH: &[(&str, &[&str])] = &[
    (
        "models/",
        &[
            ":generateContent",
            ":streamGenerateContent",
            ":embedContent",
            ":batchEmbedContents",
            ":countTokens",
            ":rawPredict",
            ":streamRawPredict",
        ],
    ),
    (
        "model/",
        &[
            "/invoke",
            "/invoke-with-response-stream",
            "/converse",
            "/converse-stream",
        ],
    ),
    ("deployments/", &["/chat/completions", "/completions", "/embeddings"]),
];

/// Parts of a path under which a call leaves something behind, or makes a job of media.
const STATEFUL_PATH: &[&str] = &[
    "/threads/",
    "/batches",
    "/images",
    "/audio",
    "/video",
    "/conversations/",
    "canvas",
    "reel",
    "stability.",
    "imagen",
];

/// Is this a call that asks a model for an answer, so that a repeat costs tokens but has no other effect? The path alone
/// does not tell: `POST …/messages` is also how mail is sent.
fn is_inference(request: &Request) -> bool {
    if !goes_to_a_model(request) {
        return false;
    }
    let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
    let Some([model, background, conversation]) = top_level(body, ["model", "background", "conversation"]) else {
        return false;
    };
    let stateful = background == Value::Bool(true) || !conversation.is_null();
    !stateful && (model.is_string() || names_a_model(request.url()))
}

/// Does it go to where models are asked for an answer?
fn goes_to_a_model(request: &Request) -> bool {
    let path = request.url().path();
    *request.method() == Method::POST
        && !STATEFUL_PATH.iter().any(|part| path.contains(part))
        && (MODEL_IN_BODY
            .iter()
            .any(|ending| path.trim_end_matches('/').ends_with(ending))
            || names_a_model(request.url()))
}

/// Does the path name a model?
fn names_a_model(url: &Url) -> bool {
    let path = url.path().trim_end_matches('/');
    MODEL_IN_PATH.iter().any(|(parent, calls)| {
        calls.iter().any(|call| {
            path.strip_suffix(call)
                .and_then(|before| before.rsplit_once(parent))
                .is_some_and(|(_, model)| !model.is_empty() && (*parent != "deployments/" || !model.contains('/')))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(url: &str, body: &str) -> Request {
        let mut request = Request::new(Method::POST, Url::parse(url).unwrap());
        *request.body_mut() = Some(body.to_owned().into());
        request
    }

    #[test]
    fn inference_is_told_by_path_and_model() {
        let with_model = r#"{"messages":[{"model":1}],"model":"m","stream":true}"#;
        for url in [
            "https://api.openai.com/v1/chat/completions",
            "https://api.openai.com/v1/responses/",
            "https://api.anthropic.com/v1/messages?beta=true",
            "http://localhost:11434/api/generate",
            "https://gateway.example/openai/v1/embeddings",
            "https://api.cohere.com/v2/rerank",
        ] {
            assert!(is_inference(&post(url, with_model)), "{url}");
            assert!(
                !is_inference(&post(url, r#"{"metadata":{"model":"m"}}"#)),
                "{url}: a nested model is none"
            );
            assert!(!is_inference(&post(url, "model=m")), "{url}: a form is no inference");
        }
        for url in [
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
            "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-v2%3A1/converse",
            "https://bedrock-runtime.us-east-1.amazonaws.com/model/meta.llama3/invoke",
            "https://r.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21",
        ] {
            assert!(is_inference(&post(url, r#"{"messages":[]}"#)), "{url}");
        }
    }

    #[test]
    fn what_leaves_something_behind_is_no_inference() {
        let model = r#"{"model":"m"}"#;
        for url in [
            "https://api.openai.com/v1/threads/t/messages",
            "https://api.openai.com/v1/batches",
            "https://api.anthropic.com/v1/messages/batches",
            "https://api.openai.com/v1/images/generations",
            "https://api.openai.com/v1/audio/speech",
            "https://api.openai.com/v1/videos",
            "https://bedrock-runtime.us-east-1.amazonaws.com/model/amazon.nova-canvas-v1/invoke",
            "https://api.example.com/v1/orders",
            "https://models.example.com/model/m/deploy",
        ] {
            assert!(!is_inference(&post(url, model)), "{url}");
        }
        let responses = "https://api.openai.com/v1/responses";
        assert!(!is_inference(&post(responses, r#"{"model":"m","background":true}"#)));
        assert!(!is_inference(&post(
            responses,
            r#"{"model":"m","conversation":"conv_1"}"#
        )));
        assert!(is_inference(&post(
            responses,
            r#"{"model":"m","background":false,"conversation":null}"#
        )));
        assert!(!is_inference(&post(
            "https://mail.example.com/v1/messages",
            r#"{"to":"a@example.com"}"#
        )));
    }
}
