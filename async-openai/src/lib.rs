//! [`reqwest_ai_retry`] under [`async_openai`], in place of its own retries.
//!
//! async-openai repeats 429, 5xx and refused connections up to three times by itself. A client that retries below it is
//! asked again each time: five sends become twenty. [`RetryService`] takes the place of its whole HTTP stack, retries
//! included, so that the number configured in [`RetryPolicy::max_attempts`](reqwest_ai_retry::RetryPolicy::max_attempts)
//! is the number sent, for calls and for streams.
//!
//! ```no_run
//! use async_openai::Client;
//! use async_openai::config::OpenAIConfig;
//! use async_openai::types::chat::{ChatCompletionRequestUserMessageArgs, CreateChatCompletionRequestArgs};
//! use reqwest_ai_retry::RetryMiddleware;
//! use reqwest_ai_retry_async_openai::{RetryService, retry_error};
//! use reqwest_middleware::ClientBuilder;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let http = ClientBuilder::new(RetryMiddleware::client_builder().build()?)
//!     .with(RetryMiddleware::default())
//!     .build();
//! let client = Client::with_config(OpenAIConfig::new()).with_http_service(RetryService::new(http));
//!
//! let request = CreateChatCompletionRequestArgs::default()
//!     .model("gpt-4o-mini")
//!     .messages([ChatCompletionRequestUserMessageArgs::default().content("hello").build()?.into()])
//!     .build()?;
//! match client.chat().create(request).await {
//!     Ok(answer) => println!("{:?}", answer.choices),
//!     Err(error) => match retry_error(&error) {
//!         Some(ours) => println!("{} (again at {:?})", ours.outcome().user_message(), ours.retry_at()),
//!         None => println!("{error}"), // the provider's own answer, or a transport error, as ever
//!     },
//! }
//! # Ok(()) }
//! ```
//!
//! # What to know
//!
//! * **Order.** `with_http_client` and `Client::build` install async-openai's own stack again, with its retries and without
//!   this service. Call `with_http_service` last.
//! * **Layers.** Do not put `OpenAIRetryLayer` or another retrying layer on top; where one must stay, run the call in an
//!   [`Operation`], which keeps the count. Other layers are welcome. A `concurrency_limit` would hold its place through the
//!   waits: [`Account`](reqwest_ai_retry::Account) has one that does not.
//! * **Answers.** A response that was given up on becomes the `OpenAIError` that async-openai makes of it. async-openai
//!   keeps the response to itself, and the [`Outcome`](reqwest_ai_retry::Outcome) with it: an [`Operation`] around the call
//!   tells it, and an [`Observe`](reqwest_ai_retry::Observe)r; or ask for errors with
//!   [`GiveUp::Error`](reqwest_ai_retry::GiveUp::Error) and read it with [`retry_error`].
//! * **Uploads** are multipart streams, and are sent once unless
//!   [`RetryPolicy::buffer_request`](reqwest_ai_retry::RetryPolicy::buffer_request) allows to keep them.
//! * **Keys.** The request is built once per call, so that an idempotency key is the same on every attempt, whether the
//!   caller gave it (`client.chat().header("Idempotency-Key", key)?`) or the policy
//!   [generates](reqwest_ai_retry::IdempotencyKey::Generate) it.
//!
//! [`Operation`]: reqwest_ai_retry::Operation

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use reqwest::Response;
use reqwest_ai_retry::RetryError;
use reqwest_middleware::{ClientWithMiddleware, Error};
use tower_service::Service;

/// A client with middleware as the HTTP service of an async-openai client; see [`with_http_service`].
///
/// Always ready, and cheap to clone: clones share the client with its connections and middleware.
///
/// [`with_http_service`]: async_openai::Client::with_http_service
#[derive(Clone, Debug)]
pub struct RetryService {
    client: ClientWithMiddleware,
}

impl RetryService {
    /// Sends through `client`, once through its middleware per call of async-openai.
    pub const fn new(client: ClientWithMiddleware) -> Self {
        Self { client }
    }

    /// The client that it sends through.
    pub const fn client(&self) -> &ClientWithMiddleware {
        &self.client
    }
}

impl From<ClientWithMiddleware> for RetryService {
    fn from(client: ClientWithMiddleware) -> Self {
        Self::new(client)
    }
}

impl Service<HttpRequestFactory> for RetryService {
    type Response = Response;
    /// A transport error is [`OpenAIError::Reqwest`], as it is without this service; one of the retry middleware is a
    /// [`RetryError`] in [`OpenAIError::Boxed`], where [`retry_error`] finds it; one of another middleware is a
    /// [`reqwest_middleware::Error`] in `Boxed`.
    type Error = OpenAIError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, OpenAIError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, factory: HttpRequestFactory) -> Self::Future {
        let client = self.client.clone();
        Box::pin(async move {
            let request = factory.build().await?;
            client.execute(request).await.map_err(openai_error)
        })
    }
}

fn openai_error(error: Error) -> OpenAIError {
    match error {
        Error::Reqwest(error) => OpenAIError::Reqwest(error),
        error => OpenAIError::Boxed(match RetryError::of(&error) {
            Some(ours) => Box::new(ours.clone()),
            None => Box::new(error),
        }),
    }
}

/// The error of the retry middleware in an error of async-openai, if it is one: a limit that cut the call, a send that the
/// account refused, or a response that was given up on under
/// [`GiveUp::Error`](reqwest_ai_retry::GiveUp::Error).
///
/// ```
/// # use async_openai::error::OpenAIError;
/// use reqwest_ai_retry_async_openai::retry_error;
///
/// # fn see(error: OpenAIError) {
/// if let Some(ours) = retry_error(&error) {
///     eprintln!("{}: {} sends, again at {:?}", ours.stop(), ours.outcome().sends(), ours.retry_at());
/// }
/// # }
/// ```
pub fn retry_error(error: &OpenAIError) -> Option<&RetryError> {
    match error {
        OpenAIError::Boxed(error) => (&**error as &(dyn StdError + 'static)).downcast_ref(),
        _ => None,
    }
}

/// The README's example is compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
