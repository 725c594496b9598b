//! azure_core, which all of Azure's SDKs send through: our client goes in as their transport.

use std::error::Error;
use std::sync::Arc;

use azure_core::http::{
    ClientOptions, Context, FixedRetryOptions, Method, Pipeline, Request, RetryOptions, Transport, Url,
};
use azure_core::time::Duration;
use serde_json::{Value, json};

use super::{Answer, Fit, Sdk};
use crate::adapter::azure::RetryTransport;
use crate::arrangement::{OwnRetries, SetUp};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "azure_core",
    dialect: Dialect::OpenAi,
    client: Fit::Takes(
        "`ClientOptions { transport: Some(Transport::new(Arc::new(RetryTransport(client)))), .. }`, with the [adapter](sdks/src/adapter/azure.rs)",
    ),
    stop: Some("`ClientOptions { retry: RetryOptions::none(), .. }`"),
    call: |set_up, url| Box::pin(call(set_up, url)),
    stream: Some(|set_up, url| Box::pin(stream(set_up, url))),
};

fn pipeline(set_up: SetUp) -> Pipeline {
    let retry = match set_up.own_retries {
        // as many as by default; the default waits twenty seconds and more
        OwnRetries::On => RetryOptions::fixed(FixedRetryOptions {
            delay: Duration::milliseconds(10),
            ..FixedRetryOptions::default()
        }),
        OwnRetries::Off => RetryOptions::none(),
    };
    let transport = set_up
        .client
        .map(|client| Transport::new(Arc::new(RetryTransport(client))));
    let options = ClientOptions {
        retry,
        transport,
        ..ClientOptions::default()
    };
    Pipeline::new(Some("sdks"), None, options, Vec::new(), Vec::new(), None)
}

fn question(url: &str, stream: bool) -> Result<Request, Box<dyn Error + Send + Sync>> {
    let url = Url::parse(&format!(
        "{url}/openai/deployments/m/chat/completions?api-version=2024-10-21"
    ))?;
    let mut request = Request::new(url, Method::Post);
    request.insert_header("content-type", "application/json");
    request.set_body(json!({"messages": [{"role": "user", "content": "hello?"}], "stream": stream}).to_string());
    Ok(request)
}

async fn call(set_up: SetUp, url: String) -> Answer {
    let response = pipeline(set_up)
        .send(&Context::new(), &mut question(&url, false)?, None)
        .await?;
    let answer: Value = serde_json::from_slice(response.body())?;
    let text = answer.pointer("/choices/0/message/content").and_then(Value::as_str);
    Ok(text.unwrap_or_default().to_owned())
}

async fn stream(set_up: SetUp, url: String) -> Answer {
    let response = pipeline(set_up)
        .stream(&Context::new(), &mut question(&url, true)?, None)
        .await?;
    let body = response.into_body().collect_string().await?;
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let pieces = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let texts = pieces.filter_map(|piece| {
        let text = piece.pointer("/choices/0/delta/content").and_then(Value::as_str);
        text.map(str::to_owned)
    });
    Ok(texts.collect())
}
