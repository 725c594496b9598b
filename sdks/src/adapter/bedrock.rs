//! The HTTP client of the AWS SDKs.

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use reqwest_middleware::{ClientWithMiddleware, Error};
use tower::BoxError;

/// Sends what an AWS SDK sends through a client with middleware:
///
/// ```
/// use aws_sdk_bedrockruntime::config::retry::RetryConfig;
/// use aws_sdk_bedrockruntime::config::{Config, StalledStreamProtectionConfig};
/// use reqwest_ai_retry::RetryMiddleware;
/// use reqwest_middleware::ClientBuilder;
/// use sdks::adapter::bedrock::RetryConnector;
///
/// # fn build() -> reqwest::Result<Config> {
/// let client = ClientBuilder::new(RetryMiddleware::client_builder().build()?)
///     .with(RetryMiddleware::default())
///     .build();
/// let config = Config::builder()
///     .http_client(RetryConnector(client).into_client())
///     .retry_config(RetryConfig::disabled())
///     .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
///     .build();
/// # Ok(config) }
/// ```
///
/// The protection against stalled streams takes the middleware's wait before a retry for a stall: left on, it ends the call
/// after five seconds in which nothing was sent.
///
/// A request is signed once, above the middleware: its repeats carry the same signature, which AWS honours for five
/// minutes.
#[derive(Debug, Clone)]
pub struct RetryConnector(pub ClientWithMiddleware);

impl RetryConnector {
    /// In the form that a configuration takes it.
    pub fn into_client(self) -> SharedHttpClient {
        http_client_fn(move |_, _| SharedHttpConnector::new(self.clone()))
    }
}

impl HttpConnector for RetryConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let client = self.0.clone();
        HttpConnectorFuture::new(async move {
            let request = sendable(request).map_err(ConnectorError::user)?;
            let response = client.execute(request).await.map_err(connector_error)?;
            let response = http::Response::from(response).map(SdkBody::from_body_1_x);
            HttpResponse::try_from(response).map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

fn sendable(request: HttpRequest) -> Result<reqwest::Request, BoxError> {
    let request = request.try_into_http1x()?;
    let request = request.map(|body| match body.bytes() {
        // so that it can be sent again
        Some(bytes) => reqwest::Body::from(bytes.to_vec()),
        None => reqwest::Body::wrap(body),
    });
    Ok(request.try_into()?)
}

/// AWS's own retries repeat `io` and `timeout`. What our middleware refused or gave up on is neither, so that they leave it
/// alone even where they are not stopped.
fn connector_error(error: Error) -> ConnectorError {
    match error {
        Error::Reqwest(error) if error.is_timeout() => ConnectorError::timeout(error.into()),
        Error::Reqwest(error) => ConnectorError::io(error.into()),
        error => ConnectorError::other(error.into(), None),
    }
}
