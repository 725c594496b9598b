//! rig: its companion `rig-reqwest` takes a client with middleware as it is.

use futures_util::TryStreamExt;
use rig_core::completion::CompletionRequest;
use rig_core::providers::openai::{OpenAI, OpenAIConfig};
use rig_core::streaming::{Item, StreamEvent};
use rig_reqwest::{ReqwestClient, ReqwestMiddlewareClient};

use super::{Answer, Fit, Sdk};
use crate::arrangement::SetUp;
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "rig-core",
    dialect: Dialect::OpenAi,
    client: Fit::Takes(
        "`OpenAIConfig::new(key).connect(ReqwestMiddlewareClient::from(client))` of `rig-reqwest`, feature `reqwest-middleware`; so for its other providers",
    ),
    stop: None,
    call: |set_up, url| Box::pin(call(set_up, url)),
    stream: Some(|set_up, url| Box::pin(stream(set_up, url))),
};

fn provider(set_up: SetUp, url: &str) -> OpenAI {
    let mut config = OpenAIConfig::new("key");
    config.base_url = format!("{url}/v1");
    match set_up.client {
        Some(client) => config.connect(ReqwestMiddlewareClient::from(client)),
        None => config.connect(ReqwestClient::from(set_up.plain)),
    }
}

async fn call(set_up: SetUp, url: String) -> Answer {
    let model = provider(set_up, &url).chat("m");
    Ok(model.call(CompletionRequest::new("hello?")).await?.text())
}

async fn stream(set_up: SetUp, url: String) -> Answer {
    let model = provider(set_up, &url).chat("m");
    let events: Vec<_> = model.stream(CompletionRequest::new("hello?"))?.try_collect().await?;
    let text = events.into_iter().filter_map(|event| match event {
        Item::Event(StreamEvent::Text { text, .. }) => Some(text),
        _ => None,
    });
    Ok(text.collect())
}
