//! ollama-rs: on an older reqwest.

use futures_util::TryStreamExt;
use ollama_rs::Ollama;
use ollama_rs::generation::completion::request::GenerationRequest;

use super::{Answer, Fit, Sdk};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "ollama-rs",
    dialect: Dialect::Ollama,
    client: Fit::Refuses("reqwest 0.12, a plain `reqwest::Client`"),
    stop: None,
    call: |_, url| Box::pin(call(url)),
    stream: Some(|_, url| Box::pin(stream(url))),
};

fn question() -> GenerationRequest<'static> {
    GenerationRequest::new("m".to_owned(), "hello?")
}

fn client(url: &str) -> Result<Ollama, Box<dyn std::error::Error + Send + Sync>> {
    // it appends to the URL as it is written
    Ok(Ollama::from_url(format!("{url}/").parse()?))
}

async fn call(url: String) -> Answer {
    Ok(client(&url)?.generate(question()).await?.response)
}

async fn stream(url: String) -> Answer {
    let pieces = client(&url)?.generate_stream(question()).await?;
    let pieces: Vec<_> = pieces.try_collect().await?;
    Ok(pieces.into_iter().flatten().map(|piece| piece.response).collect())
}
