//! genai: takes a client, but only reqwest's own.

use futures_util::TryStreamExt;
use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatRequest, ChatStreamEvent};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ModelSpec, ServiceTarget};

use super::{Answer, Fit, Sdk};
use crate::arrangement::SetUp;
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "genai",
    dialect: Dialect::OpenAi,
    client: Fit::Refuses("`with_reqwest` takes a plain `reqwest::Client`"),
    stop: None,
    call: |set_up, url| Box::pin(call(set_up, url)),
    stream: Some(|set_up, url| Box::pin(stream(set_up, url))),
};

fn client(set_up: SetUp) -> Result<Client, genai::Error> {
    Client::builder().with_reqwest(set_up.plain).build()
}

fn model(url: &str) -> ModelSpec {
    ModelSpec::Target(ServiceTarget {
        model: ModelIden::from_static(AdapterKind::OpenAI, "m"),
        endpoint: Endpoint::from_owned(format!("{url}/v1/")),
        auth: AuthData::Key("key".to_owned()),
    })
}

fn question() -> ChatRequest {
    ChatRequest::new(vec![ChatMessage::user("hello?")])
}

async fn call(set_up: SetUp, url: String) -> Answer {
    let answer = client(set_up)?.exec_chat(model(&url), question(), None).await?;
    Ok(answer.content.into_joined_texts().unwrap_or_default())
}

async fn stream(set_up: SetUp, url: String) -> Answer {
    let answer = client(set_up)?.exec_chat_stream(model(&url), question(), None).await?;
    let events: Vec<_> = answer.stream.try_collect().await?;
    let text = events.into_iter().filter_map(|event| match event {
        ChatStreamEvent::Chunk(chunk) => Some(chunk.content),
        _ => None,
    });
    Ok(text.collect())
}
