//! claudius: a client for Anthropic with retries of its own.

use claudius::{Anthropic, KnownModel, MessageCreateParams};
use futures_util::TryStreamExt;

use super::{Answer, Fit, Sdk, delta};
use crate::arrangement::{OwnRetries, SetUp};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "claudius",
    dialect: Dialect::Anthropic,
    client: Fit::Refuses("has a client of its own"),
    stop: Some("`.with_max_retries(0)`"),
    call: |set_up, url| Box::pin(call(set_up, url)),
    stream: Some(|set_up, url| Box::pin(stream(set_up, url))),
};

fn client(set_up: &SetUp, url: &str) -> claudius::Result<Anthropic> {
    let client = Anthropic::new(Some("key".to_owned()))?.with_base_url(url.to_owned());
    Ok(match set_up.own_retries {
        // as many as by default; the default waits up to as long as the call has taken so far
        OwnRetries::On => client.with_backoff_params(1.0, 1000.0),
        OwnRetries::Off => client.with_max_retries(0),
    })
}

async fn call(set_up: SetUp, url: String) -> Answer {
    let question = MessageCreateParams::simple("hello?", KnownModel::ClaudeOpus45);
    let answer = client(&set_up, &url)?.send(question).await?;
    let texts = answer.content.iter().filter_map(|block| block.as_text());
    Ok(texts.map(|block| block.text.as_str()).collect())
}

async fn stream(set_up: SetUp, url: String) -> Answer {
    let question = MessageCreateParams::simple_streaming("hello?", KnownModel::ClaudeOpus45);
    let events = client(&set_up, &url)?.stream(&question).await?;
    let events: Vec<_> = events.try_collect().await?;
    Ok(events.iter().map(delta).collect())
}
