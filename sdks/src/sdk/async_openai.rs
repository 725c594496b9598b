//! async-openai: a tower service takes the place of its HTTP stack; ours is `reqwest-ai-retry-async-openai`.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::middleware::ReqwestService;
use async_openai::middleware::retry::OpenAIRetryLayer;
use async_openai::types::chat::{
    ChatCompletionRequestUserMessageArgs, CreateChatCompletionRequest, CreateChatCompletionRequestArgs,
};
use futures_util::TryStreamExt;
use reqwest_ai_retry_async_openai::RetryService;
use tower::Layer;

use super::{Answer, Fit, Sdk};
use crate::arrangement::{OwnRetries, SetUp};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "async-openai",
    dialect: Dialect::OpenAi,
    client: Fit::Takes(
        "`Client::with_config(config).with_http_service(RetryService::new(client))`, the last call of all",
    ),
    stop: Some("the same call: it replaces them"),
    call: |set_up, url| Box::pin(call(set_up, url)),
    stream: Some(|set_up, url| Box::pin(stream(set_up, url))),
};

fn client(set_up: SetUp, url: &str) -> Client<OpenAIConfig> {
    let config = OpenAIConfig::new()
        .with_api_key("key")
        .with_api_base(format!("{url}/v1"));
    let client = Client::build(set_up.plain.clone(), config);
    match (set_up.own_retries, set_up.client) {
        (OwnRetries::On, None) => client,
        (OwnRetries::Off, None) => client.with_http_service(ReqwestService::new(set_up.plain)),
        (OwnRetries::Off, Some(http)) => client.with_http_service(RetryService::new(http)),
        (OwnRetries::On, Some(http)) => {
            client.with_http_service(OpenAIRetryLayer::default().layer(RetryService::new(http)))
        }
    }
}

fn question() -> Result<CreateChatCompletionRequest, async_openai::error::OpenAIError> {
    let message = ChatCompletionRequestUserMessageArgs::default()
        .content("hello?")
        .build()?;
    CreateChatCompletionRequestArgs::default()
        .model("m")
        .messages([message.into()])
        .build()
}

async fn call(set_up: SetUp, url: String) -> Answer {
    let completion = client(set_up, &url).chat().create(question()?).await?;
    let text = completion
        .choices
        .into_iter()
        .filter_map(|choice| choice.message.content);
    Ok(text.collect())
}

async fn stream(set_up: SetUp, url: String) -> Answer {
    let pieces = client(set_up, &url).chat().create_stream(question()?).await?;
    let pieces: Vec<_> = pieces.try_collect().await?;
    let choices = pieces.into_iter().flat_map(|piece| piece.choices);
    Ok(choices.filter_map(|choice| choice.delta.content).collect())
}
