//! Nothing secret leaves: canaries in all places of requests and answers, and all that is told of them.

use std::fmt::{Debug, Display};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::{Request, Url};
use reqwest_ai_retry::{
    Backoff, Classifier, Event, GiveUp, Outcome, RetryError, RetryMiddleware, RetryPolicy, Ruling, Seen, ServerDelay,
    StopReason,
};
use reqwest_middleware::{ClientBuilder, Error, Middleware, Next};
use testbed::{Refused, Reply, Server, fin, hang, reply, rst};
use tokio::time::timeout;

use crate::caller::{ORDERS, millis, quick, recommended};

/// The word that stands in every secret.
const CANARY: &str = "canary";

/// Everything that was told.
#[derive(Debug, Clone, Default)]
struct Told(Arc<Mutex<String>>);

impl Told {
    fn say(&self, line: impl Display) {
        let mut told = self.0.lock().unwrap();
        told.push_str(&line.to_string());
        told.push('\n');
    }

    fn debug(&self, value: &impl Debug) {
        self.say(format!("{value:?}\n{value:#?}"));
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    fn count(&self, part: &str) -> usize {
        self.text().matches(part).count()
    }

    #[track_caller]
    fn keeps_the_secrets(&self) {
        let text = self.text();
        let told: Vec<_> = text
            .lines()
            .filter(|line| line.to_lowercase().contains(CANARY))
            .collect();
        assert!(told.is_empty(), "{told:#?}");
    }
}

#[cfg(feature = "tracing")]
impl Told {
    /// What this crate traces on this thread, at all levels, until the guard is dropped.
    fn trace(&self) -> tracing::subscriber::DefaultGuard {
        use tracing_subscriber::filter::Targets;
        use tracing_subscriber::fmt;
        use tracing_subscriber::fmt::format::FmtSpan;
        use tracing_subscriber::layer::SubscriberExt;
        use tracing_subscriber::util::SubscriberInitExt;

        let told = self.clone();
        let lines = fmt::layer()
            .with_ansi(false)
            .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE)
            .with_writer(move || told.clone());
        let ours = Targets::new().with_target("reqwest_ai_retry", tracing::Level::TRACE);
        tracing_subscriber::registry().with(lines).with(ours).set_default()
    }
}

impl io::Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A request full of secrets: in its URL, in its headers and in its body.
fn request(method: Method, url: &str) -> Request {
    let mut url: Url = url.parse().unwrap();
    url.set_username("canary-user").unwrap();
    url.set_password(Some("canary-password")).unwrap();
    url.set_query(Some("key=canary-query&api-version=1"));
    url.set_fragment(Some("canary-fragment"));
    let mut request = Request::new(method, url);
    for name in [
        "authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "cookie",
        "openai-organization",
        "idempotency-key",
        "x-request-id",
        "x-custom",
    ] {
        let value = HeaderValue::from_str(&format!("Bearer canary-{name}")).unwrap();
        request.headers_mut().insert(name, value);
    }
    *request.body_mut() = Some(r#"{"model":"the-model","messages":[{"content":"canary-prompt"}]}"#.into());
    request
}

/// An answer full of secrets, with a limit and an id that may be told.
fn secretive(status: u16) -> Reply {
    let mut reply = reply(status)
        .header("x-request-id", "req-0815")
        .header("x-ratelimit-remaining-requests", 17)
        .header("retry-after-ms", 1);
    for name in [
        "set-cookie",
        "x-custom",
        "location",
        "server",
        "via",
        "www-authenticate",
        "openai-organization",
    ] {
        reply = reply.header(name, format!("canary-{name}"));
    }
    reply.header("content-type", "application/json; note=canary-type").body(
        r#"{"error":{"message":"canary-message","type":"canary-type","code":"canary-code","param":"canary-param"}}"#,
    )
}

/// What a client and its observers tell of one call.
struct Stage {
    told: Told,
    retry: RetryMiddleware,
}

impl Stage {
    fn new(told: &Told, policy: RetryPolicy) -> Self {
        let (events, seen) = (told.clone(), told.clone());
        let retry = RetryMiddleware::builder()
            .policy(policy)
            .classifier(Classifier::default().rule(move |attempt: &Seen<'_>| {
                seen.debug(attempt);
                seen.debug(&ServerDelay::of(attempt));
                seen.debug(&Classifier::default().classify(attempt));
                Ruling::Pass
            }))
            .observer(move |event: &Event<'_>| events.debug(event));
        told.debug(&retry);
        let retry = retry.build();
        told.debug(&retry);
        told.debug(retry.policy());
        Self {
            told: told.clone(),
            retry,
        }
    }

    /// Makes the call, and has all told that there is to tell of its end.
    async fn call(&self, request: Request, below: Option<Broken>) -> StopReason {
        let mut client = ClientBuilder::new(recommended().build().unwrap()).with(self.retry.clone());
        if let Some(below) = below {
            client = client.with(below);
        }
        let mut extensions = Extensions::new();
        let call = client.build();
        let call = call.execute_with_extensions(request, &mut extensions);
        // the longest policy of these tests ends long before
        match timeout(Duration::from_secs(5), call).await.unwrap() {
            Ok(response) => {
                if let Some(outcome) = Outcome::of(&response) {
                    self.tell(outcome);
                }
            }
            Err(error) => {
                if let Some(ours) = RetryError::of(&error) {
                    self.tell_error(&error);
                    self.tell_error(ours);
                    self.tell(ours.outcome());
                }
            }
        }
        // a success at the first send leaves nothing to tell
        let Some(outcome) = extensions.remove::<Outcome>() else {
            return StopReason::Succeeded;
        };
        self.tell(&outcome);
        outcome.stop()
    }

    fn tell(&self, outcome: &Outcome) {
        self.told.debug(outcome);
        self.told.debug(&outcome.verdict());
        self.told.say(outcome.stop());
        self.told.say(outcome.user_message());
    }

    fn tell_error(&self, error: &(dyn std::error::Error + 'static)) {
        let chain = std::iter::successors(Some(error), |error| error.source());
        for error in chain {
            self.told.say(error);
            self.told.say(format!("{error:?} {error:#?}"));
        }
    }
}

/// A middleware below that fails with a secret in its error.
#[derive(Debug, thiserror::Error)]
#[error("canary-middleware")]
struct Broken;

#[async_trait::async_trait]
impl Middleware for Broken {
    async fn handle(
        &self,
        _: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        Err(Error::middleware(Self))
    }
}

/// Every way in which a call can go, with secrets in all places.
#[tokio::test]
async fn nothing_secret_is_told_whatever_happens() {
    let told = Told::default();
    #[cfg(feature = "tracing")]
    let _guard = told.trace();
    let short = quick().max_attempts(2);
    let calls = [
        (vec![secretive(200)], short.clone(), StopReason::Succeeded),
        (
            vec![secretive(429), secretive(200)],
            short.clone(),
            StopReason::Succeeded,
        ),
        (
            vec![secretive(200)],
            short.clone().inspect_success(4096),
            StopReason::Permanent,
        ),
        (vec![secretive(503)], short.clone(), StopReason::AttemptsSpent),
        (
            vec![secretive(503)],
            short.clone().give_up(GiveUp::Error),
            StopReason::AttemptsSpent,
        ),
        (
            vec![secretive(400)],
            short.clone().give_up(GiveUp::Error),
            StopReason::Permanent,
        ),
        (vec![secretive(401)], short.clone(), StopReason::Permanent),
        (vec![secretive(302)], short.clone(), StopReason::Permanent),
        (vec![rst()], short.clone(), StopReason::AttemptsSpent),
        (vec![fin()], short.clone(), StopReason::AttemptsSpent),
        (
            vec![secretive(200).cut(20)],
            short.clone().inspect_success(4096),
            StopReason::AttemptsSpent,
        ),
        (
            vec![hang()],
            short.clone().attempt_timeout(millis(30)),
            StopReason::AttemptsSpent,
        ),
        (
            vec![hang()],
            short.clone().total_deadline(millis(30)),
            StopReason::DeadlinePassed,
        ),
    ];
    for (script, policy, stop) in calls {
        let shown = format!("{script:?}");
        let server = Server::start(script).await;
        let ended = Stage::new(&told, policy)
            .call(request(Method::POST, &server.url(ORDERS)), None)
            .await;
        // the status 200 with an error inside, and the redirect that leads nowhere, end as the classification has it
        if ended != StopReason::Succeeded || server.sends() == 1 {
            assert!(ended == stop || !shown.contains("secretive(5"), "{shown}: {ended}");
        }
    }
    let refused = Refused::new().unwrap();
    let stage = Stage::new(&told, short.clone());
    assert_eq!(
        stage.call(request(Method::GET, &refused.url(ORDERS)), None).await,
        StopReason::AttemptsSpent
    );
    assert_eq!(
        stage.call(request(Method::GET, "ftp://127.0.0.1/"), None).await,
        StopReason::Permanent
    );
    assert_eq!(
        stage
            .call(request(Method::GET, &refused.url(ORDERS)), Some(Broken))
            .await,
        StopReason::Permanent
    );

    // a caller who does not wait
    let server = Server::start(secretive(503)).await;
    let patient = Stage::new(&told, short.backoff(Backoff::constant(Duration::from_secs(60))));
    let client = ClientBuilder::new(recommended().build().unwrap())
        .with(patient.retry.clone())
        .build();
    let url = server.url(ORDERS);
    let call = tokio::spawn(async move { client.execute(request(Method::GET, &url)).await.map(|_| ()) });
    server.wait_sends(1).await;
    server.wait_in_flight(0).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());

    // an attempt as it is seen without any network
    let (url, mut headers) = (
        request(Method::GET, "http://127.0.0.1/").url().clone(),
        HeaderMap::new(),
    );
    headers.insert("x-api-key", HeaderValue::from_static("canary-header"));
    let seen = Seen::response(
        &Method::GET,
        &url,
        StatusCode::TOO_MANY_REQUESTS,
        &headers,
        b"canary-body",
        SystemTime::UNIX_EPOCH,
    );
    told.debug(&seen);
    told.debug(&Classifier::default().classify(&seen));

    told.keeps_the_secrets();
    for sign in [
        "gave up after",
        "Recovered {",
        "stop: Cancelled",
        "AttemptStarted",
        "TimedOut",
        "GaveUp {",
        "Seen {",
    ] {
        assert!(told.count(sign) > 0, "{sign} is missing");
    }
}

/// A request id or a limit is short; what is longer is something else in its place, and is not shown.
#[tokio::test]
async fn overlong_ids_and_limits_are_not_told() {
    let told = Told::default();
    #[cfg(feature = "tracing")]
    let _guard = told.trace();
    let long = "canary".repeat(40);
    let server = Server::start(
        reply(503)
            .header("x-request-id", &long)
            .header("x-ratelimit-note", &long),
    )
    .await;
    let stage = Stage::new(&told, quick().max_attempts(1));
    stage.call(request(Method::GET, &server.url(ORDERS)), None).await;
    told.keeps_the_secrets();
}

/// One span per call, and one event per attempt, wait and end, with all that helps and nothing else.
#[cfg(feature = "tracing")]
#[tokio::test]
async fn calls_are_traced_with_all_that_helps() {
    let told = Told::default();
    let guard = told.trace();
    let server = Server::start([secretive(429), secretive(503), secretive(503)]).await;
    let retry = RetryMiddleware::new(quick().max_attempts(3));
    let client = ClientBuilder::new(recommended().build().unwrap()).with(retry).build();
    client.execute(request(Method::GET, &server.url(ORDERS))).await.unwrap();
    drop(guard);
    told.keeps_the_secrets();

    let text = told.text();
    let lines = |part: &str| -> Vec<String> {
        text.lines()
            .filter(|line| line.contains(part))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!((lines(": new").len(), lines(": close").len()), (1, 1), "{text}");
    assert_eq!(
        (lines("sending").len(), lines("attempt failed").len()),
        (3, 3),
        "{text}"
    );
    assert_eq!(
        (lines("waiting before").len(), lines("gave up").len()),
        (2, 1),
        "{text}"
    );
    // the span tells the call on every line
    for line in text.lines() {
        for part in ["ai_call{", "method=GET", "host=\"127.0.0.1\"", "path=\"/v1/orders\""] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
    let all_have = |lines: Vec<String>, parts: &[&str]| {
        for line in lines {
            for part in parts {
                assert!(line.contains(part), "{part}: {line}");
            }
        }
    };
    let told_of_an_answer = [
        "request_id=\"req-0815\"",
        "x-ratelimit-remaining-requests: 17",
        "retry-after-ms: 1",
    ];
    all_have(lines("attempt failed"), &told_of_an_answer);
    all_have(
        lines("attempt failed"),
        &[
            "class=\"Retryable\"",
            "cause=",
            "layer=",
            "elapsed_ms=",
            "server_delay_ms=1",
        ],
    );
    all_have(lines("status=429"), &["attempt=1", "cause=\"RateLimited\""]);
    assert_eq!(lines("status=503").len(), 2);
    all_have(lines("waiting before"), &["wait_ms=", "cause=", "attempt="]);
    all_have(
        lines("gave up"),
        &["WARN", "sends=3", "stop=all attempts are spent", "class=\"Retryable\""],
    );
}
