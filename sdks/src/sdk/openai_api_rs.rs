//! openai-api-rs: makes a client for each request.

use futures_util::StreamExt;
use openai_api_rs::v1::api::OpenAIClient;
use openai_api_rs::v1::chat_completion::chat_completion::ChatCompletionRequest;
use openai_api_rs::v1::chat_completion::chat_completion_stream::{
    ChatCompletionStreamRequest, ChatCompletionStreamResponse,
};
use openai_api_rs::v1::chat_completion::{ChatCompletionMessage, Content, MessageRole};

use super::{Answer, Fit, Sdk};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "openai-api-rs",
    dialect: Dialect::OpenAi,
    client: Fit::Refuses("makes a client of its own for each request (reqwest 0.12)"),
    stop: None,
    call: |_, url| Box::pin(call(url)),
    stream: Some(|_, url| Box::pin(stream(url))),
};

fn client(url: &str) -> Result<OpenAIClient, Box<dyn std::error::Error>> {
    OpenAIClient::builder()
        .with_api_key("key")
        .with_endpoint(format!("{url}/v1"))
        .build()
}

fn question() -> Vec<ChatCompletionMessage> {
    vec![ChatCompletionMessage {
        role: MessageRole::user,
        content: Content::Text("hello?".to_owned()),
        name: None,
        tool_calls: None,
        tool_call_id: None,
    }]
}

async fn call(url: String) -> Answer {
    let client = client(&url).map_err(|error| error.to_string())?;
    let request = ChatCompletionRequest::new("m".to_owned(), question());
    let answer = client.chat_completion(request).await?;
    let texts = answer
        .inner
        .choices
        .into_iter()
        .filter_map(|choice| choice.message.content);
    Ok(texts.collect())
}

async fn stream(url: String) -> Answer {
    let client = client(&url).map_err(|error| error.to_string())?;
    let request = ChatCompletionStreamRequest::new("m".to_owned(), question());
    let pieces = client.chat_completion_stream(request).await?;
    let pieces: Vec<_> = pieces.collect().await;
    let texts = pieces.into_iter().filter_map(|piece| match piece {
        ChatCompletionStreamResponse::Content(text) => Some(text),
        _ => None,
    });
    Ok(texts.collect())
}
