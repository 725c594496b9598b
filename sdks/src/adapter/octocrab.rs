//! The service of `octocrab`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::BodyExt;
use octocrab::OctoBody;
use reqwest_middleware::ClientWithMiddleware;
use tower::{BoxError, Service};

/// Sends what octocrab sends through a client with middleware:
///
/// ```
/// use octocrab::service::middleware::base_uri::BaseUriLayer;
/// use octocrab::{AuthState, OctocrabBuilder};
/// use reqwest_ai_retry::RetryMiddleware;
/// use reqwest_middleware::ClientBuilder;
/// use sdks::adapter::octocrab::RetryService;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = ClientBuilder::new(RetryMiddleware::client_builder().build()?)
///     .with(RetryMiddleware::default())
///     .build();
/// let octocrab = OctocrabBuilder::new_empty()
///     .with_service(RetryService(client))
///     .with_layer(&BaseUriLayer::new("https://api.github.com".parse()?))
///     .with_auth(AuthState::None)
///     .build()?;
/// # let _ = octocrab; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct RetryService(pub ClientWithMiddleware);

impl Service<http::Request<OctoBody>> for RetryService {
    type Response = http::Response<reqwest::Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<OctoBody>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            // read into memory, where most of them are already, so that it can be sent again
            let body = body.collect().await?.to_bytes();
            let request = reqwest::Request::try_from(http::Request::from_parts(head, body))?;
            Ok(client.execute(request).await?.into())
        })
    }
}
