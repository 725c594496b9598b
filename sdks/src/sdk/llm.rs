//! llm: retries when it is asked to, whatever the error.

use futures_util::TryStreamExt;
use llm::LLMProvider;
use llm::builder::{LLMBackend, LLMBuilder};
use llm::chat::ChatMessage;
use llm::error::LLMError;

use super::{Answer, Fit, Sdk};
use crate::arrangement::{OwnRetries, SetUp};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "llm",
    dialect: Dialect::Responses,
    client: Fit::Refuses("reqwest 0.12, a plain `reqwest::Client`, and not through its builder"),
    stop: Some("`.resilient(false)`, the default; counted as it comes with `true`"),
    call: |set_up, url| Box::pin(call(set_up, url)),
    stream: Some(|set_up, url| Box::pin(stream(set_up, url))),
};

fn provider(set_up: &SetUp, url: &str) -> Result<Box<dyn LLMProvider>, LLMError> {
    let builder = LLMBuilder::new()
        .backend(LLMBackend::OpenAI)
        .api_key("key")
        .base_url(format!("{url}/v1/"))
        .model("m");
    match set_up.own_retries {
        OwnRetries::On => builder.resilient(true).resilient_backoff(10, 20).build(),
        OwnRetries::Off => builder.build(),
    }
}

fn question() -> [ChatMessage; 1] {
    [ChatMessage::user().content("hello?").build()]
}

async fn call(set_up: SetUp, url: String) -> Answer {
    let answer = provider(&set_up, &url)?.chat(&question()).await?;
    Ok(answer.text().unwrap_or_default())
}

async fn stream(set_up: SetUp, url: String) -> Answer {
    let pieces = provider(&set_up, &url)?.chat_stream(&question()).await?;
    Ok(pieces.try_collect().await?)
}
