//! What reaches the server when async-openai sends through [`RetryService`].

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::middleware::retry::OpenAIRetryLayer;
use async_openai::traits::RequestOptionsBuilder;
use async_openai::types::InputSource;
use async_openai::types::chat::{
    ChatCompletionRequestUserMessageArgs, CreateChatCompletionRequest, CreateChatCompletionRequestArgs,
};
use async_openai::types::files::{CreateFileRequest, FileInput, FilePurpose};
use futures_util::StreamExt;
use reqwest_ai_retry::{Backoff, GiveUp, IdempotencyKey, Jitter, Operation, RetryMiddleware, RetryPolicy, StopReason};
use reqwest_ai_retry_async_openai::{RetryService, retry_error};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use testbed::{Reply, Server, reply, rst, script, sse};
use tower_layer::Layer;

/// Retries here, beside the three that async-openai would make.
const SENDS: usize = 3;

fn policy() -> RetryPolicy {
    RetryPolicy::default()
        .max_attempts(SENDS as u32)
        .backoff(Backoff::constant(std::time::Duration::from_millis(20)).jitter(Jitter::None))
}

fn http(policy: RetryPolicy) -> ClientWithMiddleware {
    ClientBuilder::new(RetryMiddleware::client_builder().build().unwrap())
        .with(RetryMiddleware::new(policy))
        .build()
}

fn config(server: &Server) -> OpenAIConfig {
    OpenAIConfig::new().with_api_key("key").with_api_base(server.url("/v1"))
}

fn client(server: &Server, policy: RetryPolicy) -> Client<OpenAIConfig> {
    Client::with_config(config(server)).with_http_service(RetryService::from(http(policy)))
}

fn question() -> CreateChatCompletionRequest {
    let message = ChatCompletionRequestUserMessageArgs::default()
        .content("hello")
        .build()
        .unwrap();
    CreateChatCompletionRequestArgs::default()
        .model("gpt-4o-mini")
        .messages([message.into()])
        .build()
        .unwrap()
}

fn rate_limited() -> Reply {
    reply(429).json(r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#)
}

fn answer() -> Reply {
    reply(200).json(
        r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[
            {"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}]}"#,
    )
}

fn streamed() -> Reply {
    let piece = |text: &str| {
        format!(
            r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[
                {{"index":0,"delta":{{"role":"assistant","content":"{text}"}}}}]}}"#
        )
        .replace('\n', "")
    };
    sse([piece("hel"), piece("lo"), "[DONE]".to_owned()])
}

async fn read(client: &Client<OpenAIConfig>) -> Result<String, OpenAIError> {
    let mut stream = client.chat().create_stream(question()).await?;
    let mut text = String::new();
    while let Some(piece) = stream.next().await {
        text.extend(piece?.choices.into_iter().filter_map(|choice| choice.delta.content));
    }
    Ok(text)
}

#[tokio::test(start_paused = true)]
async fn a_call_is_sent_as_often_as_configured() {
    for failure in [rate_limited(), 500.into(), 529.into(), rst()] {
        let server = Server::start(failure.clone()).await;
        assert!(client(&server, policy()).chat().create(question()).await.is_err());
        assert_eq!(server.sends(), SENDS, "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_sent_as_often_as_configured() {
    for failure in [rate_limited(), 500.into(), 529.into(), rst()] {
        let server = Server::start(failure.clone()).await;
        assert!(read(&client(&server, policy())).await.is_err());
        assert_eq!(server.sends(), SENDS, "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_and_a_stream_recover() {
    let server = Server::start(script![rst(), 529, answer()]).await;
    let completion = client(&server, policy()).chat().create(question()).await.unwrap();
    assert_eq!(completion.choices[0].message.content.as_deref(), Some("hello"));
    assert_eq!(server.sends(), 3);

    let server = Server::start(script![rst(), 529, streamed()]).await;
    assert_eq!(read(&client(&server, policy())).await.unwrap(), "hello");
    assert_eq!(server.sends(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_providers_own_words_come_back() {
    let server = Server::start(rate_limited()).await;
    match client(&server, policy()).chat().create(question()).await {
        Err(OpenAIError::ApiError(error)) => {
            assert_eq!(error.status_code, 429);
            assert_eq!(error.api_error.code.as_deref(), Some("rate_limit_exceeded"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_give_up_asked_for_as_an_error_is_found_again() {
    let server = Server::start(rate_limited()).await;
    let error = client(&server, policy().give_up(GiveUp::Error))
        .chat()
        .create(question())
        .await
        .unwrap_err();
    let ours = retry_error(&error).unwrap();
    assert_eq!(ours.stop(), StopReason::AttemptsSpent);
    assert_eq!(ours.outcome().sends() as usize, SENDS);
    assert_eq!(server.sends(), SENDS);
}

#[tokio::test(start_paused = true)]
async fn a_transport_error_is_the_one_of_async_openai() {
    let server = Server::start(rst()).await;
    let error = client(&server, policy()).chat().create(question()).await.unwrap_err();
    assert!(matches!(error, OpenAIError::Reqwest(_)), "{error:?}");
    assert!(retry_error(&error).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_error_of_another_middleware_can_be_told() {
    struct Refuses;
    #[async_trait::async_trait]
    impl reqwest_middleware::Middleware for Refuses {
        async fn handle(
            &self,
            _: reqwest::Request,
            _: &mut http::Extensions,
            _: reqwest_middleware::Next<'_>,
        ) -> reqwest_middleware::Result<reqwest::Response> {
            Err(reqwest_middleware::Error::middleware(std::fmt::Error))
        }
    }
    let server = Server::start(answer()).await;
    let http = ClientBuilder::new(reqwest::Client::new()).with(Refuses).build();
    let client = Client::with_config(config(&server)).with_http_service(RetryService::new(http));
    let error = client.chat().create(question()).await.unwrap_err();
    assert!(retry_error(&error).is_none());
    match error {
        OpenAIError::Boxed(error) => assert!(error.downcast_ref::<reqwest_middleware::Error>().is_some()),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.sends(), 0);
}

#[tokio::test(start_paused = true)]
async fn with_http_client_afterwards_puts_its_own_retries_back() {
    let server = Server::start(rate_limited()).await;
    let undone = client(&server, policy()).with_http_client(reqwest::Client::new());
    assert!(undone.chat().create(question()).await.is_err());
    assert_eq!(server.sends(), 4, "its three retries");

    let server = Server::start(rate_limited()).await;
    let last = Client::with_config(config(&server))
        .with_http_client(reqwest::Client::new())
        .with_http_service(RetryService::from(http(policy())));
    assert!(last.chat().create(question()).await.is_err());
    assert_eq!(server.sends(), SENDS);
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_retries_on_top_multiplies() {
    let server = Server::start(rate_limited()).await;
    let stacked = OpenAIRetryLayer::default().layer(RetryService::from(http(policy())));
    let client = Client::with_config(config(&server)).with_http_service(stacked);
    assert!(client.chat().create(question()).await.is_err());
    assert_eq!(server.sends(), 4 * SENDS);
}

#[tokio::test(start_paused = true)]
async fn in_an_operation_it_does_not_and_what_was_done_is_told() {
    let server = Server::start(rate_limited()).await;
    let stacked = OpenAIRetryLayer::default().layer(RetryService::from(http(policy())));
    let client = Client::with_config(config(&server)).with_http_service(stacked);
    let operation = Operation::new();
    assert!(operation.scope(client.chat().create(question())).await.is_err());
    assert_eq!(server.sends(), SENDS);
    assert_eq!(operation.outcome().map(|outcome| outcome.sends() as usize), Some(SENDS));
}

#[tokio::test(start_paused = true)]
async fn an_idempotency_key_is_the_same_on_every_attempt() {
    let keys = |server: &Server| -> Vec<_> {
        let keys = server.requests().into_iter();
        keys.map(|request| request.header("idempotency-key").map(str::to_owned))
            .collect()
    };

    let server = Server::start(rate_limited()).await;
    let client = client(&server, policy());
    let _ = client
        .chat()
        .header("Idempotency-Key", "mine")
        .unwrap()
        .create(question())
        .await;
    assert_eq!(keys(&server), vec![Some("mine".to_owned()); SENDS]);

    let server = Server::start(rate_limited()).await;
    let generating = policy().idempotency_key(IdempotencyKey::Generate);
    let client = Client::with_config(config(&server)).with_http_service(RetryService::from(http(generating)));
    let _ = client.chat().create(question()).await;
    let seen = keys(&server);
    assert!(seen[0].is_some());
    assert_eq!(seen, vec![seen[0].clone(); SENDS]);
}

#[tokio::test(start_paused = true)]
async fn an_upload_is_repeated_where_it_may_be_kept() {
    async fn upload(policy: RetryPolicy) -> usize {
        let server = Server::start(rate_limited()).await;
        let file = FileInput {
            source: InputSource::VecU8 {
                filename: "batch.jsonl".to_owned(),
                vec: b"{}\n".to_vec(),
            },
        };
        let request = CreateFileRequest {
            file,
            purpose: FilePurpose::Batch,
            expires_after: None,
        };
        assert!(client(&server, policy).files().create(request).await.is_err());
        server.sends()
    }
    assert_eq!(upload(policy()).await, 1);
    assert_eq!(upload(policy().buffer_request(1 << 20)).await, SENDS);
}
