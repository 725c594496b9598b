//! aws-sdk-bedrockruntime, and so the other AWS SDKs: our client goes in as their HTTP client.

use std::error::Error;
use std::time::Duration;

use aws_sdk_bedrockruntime::Client;
use aws_sdk_bedrockruntime::config::retry::RetryConfig;
use aws_sdk_bedrockruntime::config::{BehaviorVersion, Config, Credentials, Region, StalledStreamProtectionConfig};
use aws_sdk_bedrockruntime::types::{ContentBlock, ConversationRole, ConverseStreamOutput, Message};

use super::{Answer, Fit, Sdk};
use crate::adapter::bedrock::RetryConnector;
use crate::arrangement::{OwnRetries, SetUp};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "aws-sdk-bedrockruntime",
    dialect: Dialect::Converse,
    client: Fit::Takes(
        "`Config::builder().http_client(RetryConnector(client).into_client()).stalled_stream_protection(StalledStreamProtectionConfig::disabled())`, with the [adapter](sdks/src/adapter/bedrock.rs)",
    ),
    stop: Some("`.retry_config(RetryConfig::disabled())`"),
    call: |set_up, url| Box::pin(call(set_up, url)),
    stream: Some(|set_up, url| Box::pin(stream(set_up, url))),
};

fn client(set_up: SetUp, url: String) -> Client {
    let retry = match set_up.own_retries {
        // as many as by default; the default waits a second
        OwnRetries::On => RetryConfig::standard().with_initial_backoff(Duration::from_millis(10)),
        OwnRetries::Off => RetryConfig::disabled(),
    };
    // it comes with a client of its own, but with two TLS libraries too
    let client = set_up.client.unwrap_or_else(|| set_up.plain.into());
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("id", "secret", None, None, "fixed"))
        .endpoint_url(url)
        .http_client(RetryConnector(client).into_client())
        .retry_config(retry)
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .build();
    Client::from_conf(config)
}

fn question() -> Result<Message, Box<dyn Error + Send + Sync>> {
    let text = ContentBlock::Text("hello?".to_owned());
    Ok(Message::builder().role(ConversationRole::User).content(text).build()?)
}

async fn call(set_up: SetUp, url: String) -> Answer {
    let answer = client(set_up, url)
        .converse()
        .model_id("m")
        .messages(question()?)
        .send()
        .await?;
    let message = answer.output().and_then(|output| output.as_message().ok());
    let content = message.map(|message| message.content()).unwrap_or_default();
    Ok(content
        .iter()
        .filter_map(|block| block.as_text().ok().map(String::as_str))
        .collect())
}

async fn stream(set_up: SetUp, url: String) -> Answer {
    let mut answer = client(set_up, url)
        .converse_stream()
        .model_id("m")
        .messages(question()?)
        .send()
        .await?;
    let mut text = String::new();
    while let Some(event) = answer.stream.recv().await? {
        if let ConverseStreamOutput::ContentBlockDelta(event) = event {
            let delta = event.delta().and_then(|delta| delta.as_text().ok());
            text.extend(delta.map(String::as_str));
        }
    }
    Ok(text)
}
