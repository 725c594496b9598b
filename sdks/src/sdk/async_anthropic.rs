//! async-anthropic: on an older reqwest; its streams open again by themselves.

use std::error::Error;
use std::time::Duration;

use async_anthropic::Client;
use async_anthropic::types::{CreateMessagesRequest, CreateMessagesRequestBuilder, MessageBuilder, MessageRole};
use backoff::ExponentialBackoff;
use futures_util::StreamExt;

use super::{Answer, Fit, Sdk, delta};
use crate::arrangement::{OwnRetries, SetUp};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "async-anthropic",
    dialect: Dialect::Anthropic,
    client: Fit::Refuses("reqwest 0.12, a plain `reqwest::Client`"),
    stop: Some(
        "`.backoff(ExponentialBackoff { max_elapsed_time: Some(Duration::ZERO), .. })`, for calls; none for streams",
    ),
    call: |set_up, url| Box::pin(call(set_up, url)),
    stream: Some(|set_up, url| Box::pin(stream(set_up, url))),
};

fn client(set_up: &SetUp, url: String) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let mut builder = Client::builder();
    builder.api_key("key").base_url(url).version("2023-06-01");
    if set_up.own_retries == OwnRetries::Off {
        builder.backoff(ExponentialBackoff {
            max_elapsed_time: Some(Duration::ZERO),
            ..ExponentialBackoff::default()
        });
    }
    Ok(builder.build()?)
}

fn question() -> Result<CreateMessagesRequest, Box<dyn Error + Send + Sync>> {
    let message = MessageBuilder::default()
        .role(MessageRole::User)
        .content("hello?")
        .build()?;
    Ok(CreateMessagesRequestBuilder::default()
        .model("m")
        .messages(vec![message])
        .build()?)
}

async fn call(set_up: SetUp, url: String) -> Answer {
    let answer = client(&set_up, url)?.messages().create(question()?).await?;
    let content = answer.content.unwrap_or_default();
    let texts = content.iter().filter_map(|block| block.as_text());
    Ok(texts.map(|text| text.text.as_str()).collect())
}

async fn stream(set_up: SetUp, url: String) -> Answer {
    let events = client(&set_up, url)?.messages().create_stream(question()?).await;
    // an error is not its last item: it opens again, for as long as somebody reads
    let events: Vec<_> = events.collect().await;
    let events: Result<Vec<_>, _> = events.into_iter().collect();
    Ok(events?.iter().map(delta).collect())
}
