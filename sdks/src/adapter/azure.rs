//! The transport of `azure_core`.

use azure_core::error::{Error, ErrorKind, ResultExt};
use azure_core::http::headers::Headers;
use azure_core::http::{AsyncRawResponse, Body, HttpClient, Request};
use futures_util::TryStreamExt;
use reqwest_middleware::ClientWithMiddleware;

/// Sends what an Azure SDK sends through a client with middleware:
///
/// ```
/// use std::sync::Arc;
/// use azure_core::http::{ClientOptions, RetryOptions, Transport};
/// use reqwest_ai_retry::RetryMiddleware;
/// use reqwest_middleware::ClientBuilder;
/// use sdks::adapter::azure::RetryTransport;
///
/// # fn build() -> reqwest::Result<ClientOptions> {
/// let client = ClientBuilder::new(RetryMiddleware::client_builder().build()?)
///     .with(RetryMiddleware::default())
///     .build();
/// let options = ClientOptions {
///     transport: Some(Transport::new(Arc::new(RetryTransport(client)))),
///     retry: RetryOptions::none(),
///     ..ClientOptions::default()
/// };
/// # Ok(options) }
/// ```
#[derive(Debug, Clone)]
pub struct RetryTransport(pub ClientWithMiddleware);

#[async_trait::async_trait]
impl HttpClient for RetryTransport {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let method = reqwest::Method::from_bytes(request.method().as_str().as_bytes())
            .with_context(ErrorKind::DataConversion, "not a method of HTTP")?;
        let mut sent = self.0.request(method, request.url().clone());
        for (name, value) in request.headers().iter() {
            sent = sent.header(name.as_str(), value.as_str());
        }
        sent = match request.body().clone() {
            Body::Bytes(bytes) => sent.body(bytes),
            Body::SeekableStream(stream) => sent.body(reqwest::Body::wrap_stream(stream)),
        };
        let response = sent.send().await.map_err(azure_error)?;

        let mut headers = Headers::new();
        for (name, value) in response.headers() {
            if let Ok(value) = value.to_str() {
                headers.insert(name.as_str().to_owned(), value.to_owned());
            }
        }
        let status = response.status().as_u16().into();
        let body = response
            .bytes_stream()
            .map_err(|error| Error::with_error(ErrorKind::Io, error, "the body broke off"));
        Ok(AsyncRawResponse::new(status, headers, Box::pin(body)))
    }
}

/// Azure's own retries repeat `Io` and `Connection`. What our middleware refused or gave up on is neither, so that they
/// leave it alone even where they are not stopped.
fn azure_error(error: reqwest_middleware::Error) -> Error {
    let kind = match &error {
        reqwest_middleware::Error::Reqwest(error) if error.is_connect() => ErrorKind::Connection,
        reqwest_middleware::Error::Reqwest(_) => ErrorKind::Io,
        reqwest_middleware::Error::Middleware(_) => ErrorKind::Other,
    };
    Error::with_error(kind, error, "the request could not be sent")
}
