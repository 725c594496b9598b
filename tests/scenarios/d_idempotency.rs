//! Nothing is done twice: what may have had an effect is sent again only where a repeat is safe.

use http::HeaderName;
use reqwest::Method;
use reqwest_ai_retry::{IdempotencyKey, Operation, Outcome, Replay, RetryPolicy, StopReason, Why};

use crate::stub::{CHAT, Item, ORDERS, PROMPT, Stub, exact, hang, reply, secs};

async fn post(policy: RetryPolicy, url: &str, key: Option<&str>, script: [Item; 2]) -> (usize, Option<StopReason>) {
    let server = Stub::new(script);
    let mut request = server.with(policy).post(url).body(PROMPT);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    match request.send().await {
        Ok(response) => (server.n(), Outcome::of(&response).map(Outcome::stop)),
        Err(error) => (server.n(), Outcome::of_error(&error).map(Outcome::stop)),
    }
}

const REFUSED_TWICE: Option<StopReason> = Some(StopReason::NotReplayable(Why::NonIdempotent));

/// D1, D4, D6, D7: a POST that failed with 5xx may have been done; the outcome says why it was not repeated.
#[tokio::test(start_paused = true)]
async fn post_is_not_repeated_after_an_ambiguous_failure() {
    for status in [500, 502, 504, 408, 520] {
        assert_eq!(
            post(exact(), ORDERS, None, [reply(status), reply(200)]).await,
            (1, REFUSED_TWICE),
            "{status}"
        );
        assert_eq!(
            post(exact(), ORDERS, Some("k"), [reply(status), reply(200)]).await,
            (2, Some(StopReason::Succeeded))
        );
    }
}

/// D1: what the server refused had no effect, whatever the method.
#[tokio::test(start_paused = true)]
async fn post_is_repeated_after_a_refusal() {
    for refusal in [reply(429), reply(529), reply(409), reply(425), reply(503).ra(1)] {
        assert_eq!(
            post(exact(), ORDERS, None, [refusal, reply(200)]).await,
            (2, Some(StopReason::Succeeded))
        );
    }
    assert_eq!(
        post(exact(), ORDERS, None, [reply(503), reply(200)]).await,
        (1, REFUSED_TWICE),
        "a bare 503 does not tell"
    );
}

/// D2, D5: sent and no answer is not the same as not sent.
#[tokio::test(start_paused = true)]
async fn post_is_not_repeated_after_a_timeout() {
    let policy = exact().attempt_timeout(secs(10));
    assert_eq!(
        post(policy.clone(), ORDERS, None, [hang(), reply(200)]).await,
        (1, REFUSED_TWICE)
    );
    assert_eq!(
        post(policy.clone(), ORDERS, Some("k"), [hang(), reply(200)]).await,
        (2, Some(StopReason::Succeeded))
    );
    let always = policy.replay(Replay::Always);
    assert_eq!(
        post(always, ORDERS, None, [hang(), reply(200)]).await,
        (2, Some(StopReason::Succeeded))
    );
}

/// An inference call has no effect to repeat, only a cost; the default repeats it, `Idempotent` does not.
#[tokio::test(start_paused = true)]
async fn inference_is_repeated_by_default() {
    assert_eq!(
        post(exact(), CHAT, None, [reply(500), reply(200)]).await,
        (2, Some(StopReason::Succeeded))
    );
    let strict = exact().replay(Replay::Idempotent);
    assert_eq!(
        post(strict, CHAT, None, [reply(500), reply(200)]).await,
        (1, REFUSED_TWICE)
    );
}

#[tokio::test(start_paused = true)]
async fn idempotent_methods_are_repeated() {
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let server = Stub::new([reply(500), reply(200)]);
        server
            .with(exact().replay(Replay::Idempotent))
            .request(method, ORDERS)
            .send()
            .await
            .unwrap();
        assert_eq!(server.n(), 2);
    }
    let server = Stub::new([reply(500), reply(200)]);
    server.with(exact()).patch(ORDERS).send().await.unwrap();
    assert_eq!(server.n(), 1);
}

/// D3: one key per call, the same bytes on every attempt.
#[tokio::test(start_paused = true)]
async fn a_generated_key_is_one_per_call() {
    let policy = exact().idempotency_key(IdempotencyKey::Generate);
    let keys = async |url: &str| {
        let server = Stub::new([reply(503), reply(503), reply(200)]);
        server.with(policy.clone()).post(url).body(PROMPT).send().await.unwrap();
        let keys: Vec<_> = server
            .sent()
            .iter()
            .map(|sent| sent.headers["idempotency-key"].clone())
            .collect();
        assert!(
            keys.len() == 3 && keys.windows(2).all(|pair| pair[0] == pair[1]),
            "{keys:?}"
        );
        keys[0].clone()
    };
    let (one, other) = (keys(ORDERS).await, keys(ORDERS).await);
    assert_ne!(one, other);
    assert_eq!(
        uuid::Uuid::try_parse(one.to_str().unwrap()).unwrap().get_version_num(),
        4
    );
}

/// D3, D8: a given key is kept byte for byte, none is invented, and `Generate` does not replace one.
#[tokio::test(start_paused = true)]
async fn a_given_key_is_kept_and_none_is_invented() {
    for (policy, expected) in [
        (exact(), None),
        (exact().idempotency_key(IdempotencyKey::Generate), Some("Key 1")),
    ] {
        let server = Stub::new([reply(429), reply(200)]);
        let mut request = server.with(policy).post(ORDERS);
        if let Some(key) = expected {
            request = request.header("idempotency-key", key);
        }
        request.send().await.unwrap();
        for sent in server.sent() {
            let keys: Vec<_> = sent
                .headers
                .get_all("idempotency-key")
                .iter()
                .map(|key| key.to_str().unwrap())
                .collect();
            assert_eq!(keys, expected.into_iter().collect::<Vec<_>>());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_key_may_stand_in_another_header() {
    let name = HeaderName::from_static("x-request-token");
    let policy = exact().idempotency_key(IdempotencyKey::Generate.header(name.clone()));
    let server = Stub::new([reply(500), reply(200)]);
    server.with(policy).post(ORDERS).send().await.unwrap();
    let sent = server.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].headers[&name], sent[1].headers[&name]);
    assert!(!sent[0].headers.contains_key("idempotency-key"));

    // an idempotent method needs no key
    let server = Stub::new([reply(200)]);
    server
        .with(exact().idempotency_key(IdempotencyKey::Generate))
        .get(ORDERS)
        .send()
        .await
        .unwrap();
    assert!(!server.sent()[0].headers.contains_key("idempotency-key"));
}

/// E6: the same bytes and headers on every attempt.
#[tokio::test(start_paused = true)]
async fn requests_are_byte_identical_on_every_attempt() {
    let server = Stub::new([reply(429), reply(503).ra(1), reply(500), reply(200)]);
    let body: Vec<u8> = (0..10_000u32).map(|n| n.to_le_bytes()[0]).collect();
    server
        .with(exact())
        .post(ORDERS)
        .header("idempotency-key", "k")
        .body(body.clone())
        .send()
        .await
        .unwrap();
    let sent = server.sent();
    assert_eq!(sent.len(), 4);
    assert!(
        sent.iter()
            .all(|one| one.body == body && one.headers == sent[0].headers && one.method == Method::POST)
    );
}

/// D4: a blank key tells a server nothing, and makes no repeat safe; where keys are generated it is replaced.
#[tokio::test(start_paused = true)]
async fn a_blank_key_is_none() {
    for blank in ["", "  "] {
        let server = Stub::new([reply(500)]);
        let client = server.with(exact());
        let brings = client.post(ORDERS).body("{}").header("idempotency-key", blank);
        brings.send().await.unwrap();
        assert_eq!(server.n(), 1);
        let op = Operation::new().idempotency_key(blank);
        op.scope(client.post(ORDERS).body("{}").send()).await.unwrap();
        assert_eq!(server.n(), 2);
        assert!(!server.sent()[1].headers.contains_key("idempotency-key"));

        let client = server.with(exact().idempotency_key(IdempotencyKey::Generate).max_attempts(2));
        let brings = client.post(ORDERS).body("{}").header("idempotency-key", blank);
        brings.send().await.unwrap();
        assert_eq!(server.n(), 4);
        assert!(!server.sent()[3].headers["idempotency-key"].is_empty());
    }
}
