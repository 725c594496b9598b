//! langchain-rust: makes an async-openai client for each call, with that client's retries.

use futures_util::TryStreamExt;
use langchain_rust::language_models::llm::LLM;
use langchain_rust::llm::OpenAIConfig;
use langchain_rust::llm::openai::OpenAI;
use langchain_rust::schemas::Message;

use super::{Answer, Fit, Sdk};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "langchain-rust",
    dialect: Dialect::OpenAi,
    client: Fit::Refuses("makes an async-openai client of its own for each call"),
    stop: None,
    call: |_, url| Box::pin(call(url)),
    stream: Some(|_, url| Box::pin(stream(url))),
};

fn model(url: &str) -> OpenAI<OpenAIConfig> {
    OpenAI::new(
        OpenAIConfig::new()
            .with_api_key("key")
            .with_api_base(format!("{url}/v1")),
    )
}

async fn call(url: String) -> Answer {
    Ok(model(&url).invoke("hello?").await?)
}

async fn stream(url: String) -> Answer {
    let pieces = model(&url).stream(&[Message::new_human_message("hello?")]).await?;
    let pieces: Vec<_> = pieces.try_collect().await?;
    Ok(pieces.into_iter().map(|piece| piece.content).collect())
}
