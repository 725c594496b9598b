//! rust-claude-sdk: honours `x-should-retry`, as the official SDKs do.

use rust_claude_sdk::{Client, ClientConfig, Error, MessagesRequest, StreamEvent};

use super::{Answer, Fit, Sdk, delta};
use crate::arrangement::{OwnRetries, SetUp};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "rust-claude-sdk",
    dialect: Dialect::Anthropic,
    client: Fit::Refuses("has a client of its own (reqwest 0.12)"),
    stop: Some("`ClientConfig { max_retries: 0, .. }`"),
    call: |set_up, url| Box::pin(call(set_up, url)),
    stream: Some(|set_up, url| Box::pin(stream(set_up, url))),
};

fn client(set_up: &SetUp, url: String) -> Result<Client, Error> {
    let mut config = ClientConfig::api_key("key");
    config.base_url = url;
    if set_up.own_retries == OwnRetries::Off {
        config.max_retries = 0;
    }
    Client::new(config)
}

fn question() -> MessagesRequest {
    MessagesRequest::new("m", 64).user("hello?")
}

async fn call(set_up: SetUp, url: String) -> Answer {
    Ok(client(&set_up, url)?.create(&question()).await?.text())
}

async fn stream(set_up: SetUp, url: String) -> Answer {
    let mut events = client(&set_up, url)?.stream(&question()).await?;
    let mut text = String::new();
    while let Some(event) = events.next_event().await {
        if let event @ StreamEvent::ContentBlockDelta { .. } = event? {
            text += &delta(&event);
        }
    }
    Ok(text)
}
