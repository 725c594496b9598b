//! octocrab: not an AI SDK, but the one that many agents call beside it. Our client goes in as its tower service.

use std::error::Error;

use octocrab::service::middleware::base_uri::BaseUriLayer;
use octocrab::service::middleware::retry::RetryConfig;
use octocrab::{AuthState, Octocrab, OctocrabBuilder};
use tower::retry::RetryLayer;

use super::{Answer, Fit, Sdk};
use crate::adapter::octocrab::RetryService;
use crate::arrangement::{OwnRetries, SetUp};
use crate::dialect::Dialect;

pub(super) const SDK: Sdk = Sdk {
    name: "octocrab",
    dialect: Dialect::GitHub,
    client: Fit::Takes(
        "`OctocrabBuilder::new_empty().with_service(RetryService(client))`, with the [adapter](sdks/src/adapter/octocrab.rs)",
    ),
    stop: Some("the same call: it replaces them; without our client `.add_retry_config(RetryConfig::None)`"),
    call: |set_up, url| Box::pin(call(set_up, url)),
    stream: None,
};

fn client(set_up: SetUp, url: &str) -> Result<Octocrab, Box<dyn Error + Send + Sync>> {
    let base = BaseUriLayer::new(url.parse()?);
    let own = RetryLayer::new(RetryConfig::Simple(3));
    let octocrab = match (set_up.own_retries, set_up.client) {
        (OwnRetries::On, None) => Octocrab::builder().base_uri(url)?.build_with_reqwest(set_up.plain)?,
        (OwnRetries::Off, None) => Octocrab::builder()
            .base_uri(url)?
            .add_retry_config(RetryConfig::None)
            .build_with_reqwest(set_up.plain)?,
        (OwnRetries::Off, Some(client)) => OctocrabBuilder::new_empty()
            .with_service(RetryService(client))
            .with_layer(&base)
            .with_auth(AuthState::None)
            .build()?,
        (OwnRetries::On, Some(client)) => OctocrabBuilder::new_empty()
            .with_service(RetryService(client))
            .with_layer(&own)
            .with_layer(&base)
            .with_auth(AuthState::None)
            .build()?,
    };
    Ok(octocrab)
}

async fn call(set_up: SetUp, url: String) -> Answer {
    Ok(client(set_up, &url)?.get("/zen", None::<&()>).await?)
}
