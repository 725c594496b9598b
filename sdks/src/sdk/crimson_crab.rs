//! crimson-crab: a client for Anthropic with the retries of the official SDKs, but not their `x-should-retry`.

use crimson_crab::Client;
use crimson_crab::prelude::{MessageParam, MessagesRequest};
use futures_util::TryStreamExt;

use super::{Answer, Fit, Sdk, delta};
use crate::arrangement::{OwnRetries, SetUp};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "crimson-crab",
    dialect: Dialect::Anthropic,
    client: Fit::Refuses("has a client of its own (reqwest 0.12)"),
    stop: Some("`ClientBuilder::max_retries(0)`"),
    call: |set_up, url| Box::pin(call(set_up, url)),
    stream: Some(|set_up, url| Box::pin(stream(set_up, url))),
};

fn client(set_up: &SetUp, url: String) -> crimson_crab::Result<Client> {
    let builder = Client::builder().api_key("key").base_url(url);
    match set_up.own_retries {
        OwnRetries::On => builder.build(),
        OwnRetries::Off => builder.max_retries(0).build(),
    }
}

fn question() -> crimson_crab::Result<MessagesRequest> {
    MessagesRequest::builder()
        .model("m")
        .max_tokens(64)
        .messages(vec![MessageParam::user("hello?")])
        .build()
}

async fn call(set_up: SetUp, url: String) -> Answer {
    let answer = client(&set_up, url)?.messages().create(&question()?).await?;
    Ok(answer.text())
}

async fn stream(set_up: SetUp, url: String) -> Answer {
    let events = client(&set_up, url)?.messages().stream(&question()?).await?;
    let events: Vec<_> = events.try_collect().await?;
    Ok(events.iter().map(delta).collect())
}
