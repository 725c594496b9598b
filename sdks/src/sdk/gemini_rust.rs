//! gemini-rust: on an older reqwest.

#![expect(
    deprecated,
    reason = "by its newer interface it speaks to a newer endpoint, through the same client"
)]

use std::error::Error;

use futures_util::TryStreamExt;
use gemini_rust::{ClientError, ContentBuilder, GeminiBuilder};

use super::{Answer, Fit, Sdk};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "gemini-rust",
    dialect: Dialect::Gemini,
    client: Fit::Refuses("reqwest 0.12, a plain `reqwest::ClientBuilder`"),
    stop: None,
    call: |_, url| Box::pin(call(url)),
    stream: Some(|_, url| Box::pin(stream(url))),
};

fn question(url: &str) -> Result<ContentBuilder, Box<dyn Error + Send + Sync>> {
    let base = format!("{url}/v1beta/").parse()?;
    let client = GeminiBuilder::new("key").with_base_url(base).build()?;
    Ok(client.generate_content().with_user_message("hello?"))
}

async fn call(url: String) -> Answer {
    Ok(question(&url)?.execute().await?.text())
}

async fn stream(url: String) -> Answer {
    let pieces: Result<Vec<_>, ClientError> = question(&url)?.execute_stream().await?.try_collect().await;
    Ok(pieces?.iter().map(|piece| piece.text()).collect())
}
