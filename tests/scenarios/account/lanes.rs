//! Whom an account tells apart.

use std::time::Duration;

use reqwest_ai_retry::{Account, Limits};
use reqwest_middleware::ClientWithMiddleware;

use crate::stub::{CHAT, PROMPT, Stub, chat, exact, millis, prompt, reply, secs, spawned};

/// An account that asks from the first call on, but holds nobody up.
fn asking() -> Account {
    Account::builder().requests_per_minute(6_000_000).build().unwrap()
}

/// `default()`, to which a provider has spoken.
async fn spoken_to() -> Account {
    let account = Account::default();
    let client = Stub::new([reply(200)
        .header("x-ratelimit-limit-requests", 1_000_000)
        .header("x-ratelimit-remaining-requests", 999_999)])
    .sharing(&account, exact());
    client.get("http://127.0.0.1:9/first").send().await.unwrap();
    account
}

fn names(account: &Account) -> Vec<(String, String)> {
    let lanes = account.status().lanes;
    lanes.into_iter().map(|lane| (lane.host, lane.model)).collect()
}

fn models(account: &Account) -> Vec<String> {
    names(account).into_iter().map(|(_, model)| model).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_configured_is_shared_by_all_lanes() {
    let server = Stub::new([reply(200)]);
    let account = Account::builder().requests_per_minute(60).build().unwrap();
    let client = server.sharing(&account, exact());
    let calls: Vec<_> = (0..10)
        .map(|call| spawned(&client, ["a", "b", "c"][call % 3]))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let times = server.times();
    assert!(
        times.windows(2).all(|pair| pair[1] - pair[0] >= millis(995)),
        "{times:?}"
    );
    assert!(times[9] < secs(10), "{times:?}");
    let order: Vec<_> = server.sent().into_iter().map(|sent| sent.body).collect();
    let expected: Vec<_> = (0..10)
        .map(|call| prompt(["a", "b", "c"][call % 3]).into_bytes())
        .collect();
    assert_eq!(order, expected, "first come, first served, whatever the lane");
}

#[tokio::test(start_paused = true)]
async fn a_model_keeps_to_its_own_limits_besides() {
    let server = Stub::new([reply(200)]);
    let account = Account::builder()
        .requests_per_minute(120)
        .model_limits("big", Limits::new().requests_per_minute(30).max_concurrency(1))
        .build()
        .unwrap();
    let client = server.sharing(&account, exact());
    let calls: Vec<_> = (0..16)
        .map(|call| spawned(&client, if call < 6 { "big" } else { "small" }))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let of = |model: &str| -> Vec<Duration> {
        let sent = server
            .sent()
            .into_iter()
            .filter(|sent| sent.body == prompt(model).into_bytes());
        sent.map(|sent| sent.at).collect()
    };
    let (big, small) = (of("big"), of("small"));
    assert!(big.windows(2).all(|pair| pair[1] - pair[0] >= millis(1_990)), "{big:?}");
    assert!(
        small.windows(2).all(|pair| pair[1] - pair[0] >= millis(495)),
        "{small:?}"
    );
    assert!(
        *small.last().unwrap() < secs(8),
        "the big one's turn delays nobody: {small:?}"
    );
}

/// A lane is origin and model in a built account, and origin, credential and model in `default()`; the path where no model is
/// named.
#[tokio::test(start_paused = true)]
async fn lanes_are_told_apart_by_origin_model_and_credential() {
    let server = Stub::new([reply(200)]);
    let keyed = async |client: &ClientWithMiddleware| {
        for (name, value) in [
            ("authorization", "Bearer one"),
            ("authorization", "Bearer two"),
            ("x-api-key", "three"),
            ("api-key", "four"),
            ("x-goog-api-key", "five"),
        ] {
            client.post(CHAT).header(name, value).body(PROMPT).send().await.unwrap();
        }
        for key in ["one", "two"] {
            client
                .post(format!("{CHAT}?key={key}"))
                .body(PROMPT)
                .send()
                .await
                .unwrap();
        }
        client.post(CHAT).body(PROMPT).send().await.unwrap();
    };
    let account = asking();
    let client = server.sharing(&account, exact());
    keyed(&client).await;
    assert_eq!(models(&account), ["m"]);
    for url in [
        "http://127.0.0.2:9/v1/chat/completions",
        "http://127.0.0.1:8/v1/chat/completions",
    ] {
        client.post(url).body(PROMPT).send().await.unwrap();
    }
    chat(&client, "other").await.unwrap();
    client.get("http://127.0.0.1:9/v1/models?page=2").send().await.unwrap();
    client
        .post("http://127.0.0.1:9/v1beta/models/gemini-x:generateContent")
        .body("{}")
        .send()
        .await
        .unwrap();
    client
        .post("http://127.0.0.1:9/model/claude-x/invoke")
        .body("{}")
        .send()
        .await
        .unwrap();
    client
        .post("http://127.0.0.1:9/openai/deployments/mine/chat/completions")
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(
        models(&account),
        ["m", "m", "m", "other", "/v1/models", "gemini-x", "claude-x", "mine"]
    );

    let account = spoken_to().await;
    let client = server.sharing(&account, exact());
    keyed(&client).await;
    keyed(&client).await;
    assert_eq!(models(&account).len(), 1 + 8);
}

#[tokio::test(start_paused = true)]
async fn only_the_top_level_of_the_body_names_the_model() {
    let server = Stub::new([reply(200)]);
    let account = asking();
    let client = server.sharing(&account, exact());
    for body in [
        r#"{"messages":[{"model":"inner"}],"tools":{"model":"inner"},"model":"outer"}"#,
        r#"{"model":"outer","messages":[{"role":"user","content":"\"model\":\"quoted\""}]}"#,
    ] {
        client.post(CHAT).body(body).send().await.unwrap();
    }
    assert_eq!(models(&account), ["outer"]);
    for body in [
        r#"{"input":{"model":"inner"}}"#,
        r#"[{"model":"m"}]"#,
        r#"{"model":7}"#,
        "model=m",
    ] {
        client.post(CHAT).body(body).send().await.unwrap();
    }
    assert_eq!(models(&account), ["outer", "/v1/chat/completions"]);
}

/// The signature is another one each time, and the access key's id is not.
#[tokio::test(start_paused = true)]
async fn a_signed_request_is_known_by_its_access_key() {
    let account = spoken_to().await;
    let client = Stub::new([reply(200)]).sharing(&account, exact());
    let signed = async |id: &str, signature: u32| {
        let value = format!(
            "AWS4-HMAC-SHA256 Credential={id}/20260101/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature={signature:x}"
        );
        let request = client
            .post("http://127.0.0.1:9/model/claude/invoke")
            .header("authorization", value);
        request.body("{}").send().await.unwrap();
    };
    for signature in 0..5 {
        signed("AKIDFIRST", signature).await;
    }
    assert_eq!(account.status().lanes.len(), 2);
    signed("AKIDSECOND", 0).await;
    assert_eq!(account.status().lanes.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_caller_may_say_what_is_told_apart() {
    let server = Stub::new([reply(429).ra(5), reply(200)]);
    let account = Account::builder()
        .lane_by(|url, headers| format!("{:?}{:?}", url.host_str(), headers.get("x-team")))
        .model_limits("big", Limits::new().requests_per_minute(60))
        .build()
        .unwrap();
    let client = server.sharing(&account, exact().max_attempts(1));
    let ask = async |team: &str, model: &str| {
        client
            .post(CHAT)
            .header("x-team", team)
            .body(prompt(model))
            .send()
            .await
            .unwrap();
        server.times().last().copied().unwrap()
    };
    assert_eq!(ask("red", "a").await, secs(0));
    assert!(ask("blue", "a").await < millis(10));
    assert!(ask("red", "b").await >= secs(5), "one lane, whatever the model");
    // but for one that has limits of its own
    let (first, second) = (ask("blue", "big").await, ask("blue", "big").await);
    assert!(second - first >= millis(995));
    assert!(models(&account).iter().all(|model| model.is_empty() || model == "big"));
}

/// What is not used is forgotten, and what is in use is not.
#[tokio::test(start_paused = true)]
async fn the_number_of_lanes_is_bounded() {
    let server = Stub::by(|sent| {
        if sent.path == "/paused" {
            reply(429).ra(100)
        } else {
            reply(200)
        }
    });
    let account = asking();
    let client = server.sharing(&account, exact().max_attempts(1));
    client.get("http://127.0.0.1:9/paused").send().await.unwrap();
    for id in 0..3_000 {
        client
            .get(format!("http://127.0.0.1:9/v1/jobs/{id}"))
            .send()
            .await
            .unwrap();
    }
    let lanes = models(&account);
    assert!(lanes.len() <= 1024, "{}", lanes.len());
    assert!(lanes.contains(&"/paused".to_owned()) && lanes.contains(&"/v1/jobs/2999".to_owned()));
}

/// A model's name is whatever a request says, and is not kept whatever its length.
#[tokio::test(start_paused = true)]
async fn a_long_name_is_kept_short() {
    let account = asking();
    let client = Stub::new([reply(200)]).sharing(&account, exact());
    let (long, other) = ("ü".repeat(100_000), "ü".repeat(100_001));
    chat(&client, &long).await.unwrap();
    chat(&client, &other).await.unwrap();
    let lanes = models(&account);
    assert!(lanes.len() == 2 && lanes.iter().all(|model| model.len() <= 200));
}

/// Neither a credential nor a query shows in what is told.
#[tokio::test(start_paused = true)]
async fn nothing_secret_is_told() {
    use std::sync::{Arc, Mutex};

    use reqwest_ai_retry::{Event, RetryMiddleware};

    let told = Arc::new(Mutex::new(String::new()));
    let seen = Arc::clone(&told);
    let account = Account::builder().max_concurrency(5).build().unwrap();
    let retry = RetryMiddleware::builder()
        .account(account.clone())
        .policy(exact().max_attempts(2))
        .observer(move |event: &Event<'_>| seen.lock().unwrap().push_str(&format!("{event:?}\n")));
    let quota = r#"{"error":{"message":"my-secret is broke","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let mut script = vec![reply(429).ra(1)];
    script.extend(vec![reply(503); 10]);
    script.push(reply(429).json(quota));
    let client = Stub::new(script).under([retry.build()]);
    for _ in 0..8 {
        for header in ["authorization", "x-api-key", "api-key", "x-goog-api-key"] {
            let request = client.post(format!("{CHAT}?key=my-secret")).header(header, "my-secret");
            let error = request
                .body(PROMPT)
                .send()
                .await
                .err()
                .map(|error| format!("{error:?} {error}"));
            told.lock().unwrap().push_str(&error.unwrap_or_default());
        }
        tokio::time::sleep(secs(10)).await;
    }
    let told = format!("{}{account:?}{:?}", told.lock().unwrap(), account.status());
    for happened in ["Paused", "QuotaHeld", "BreakerOpened", "BreakerHalfOpen", "GaveUp"] {
        assert!(told.contains(happened), "{happened}");
    }
    assert!(!told.contains("my-secret"), "{told}");
    #[cfg(feature = "serde")]
    assert!(!serde_json::to_string(&account.status()).unwrap().contains("my-secret"));
}

/// The one timer is set for whoever is next, in whatever lane.
#[tokio::test(start_paused = true)]
async fn a_lane_is_woken_in_time_though_another_waits_longer() {
    let server = Stub::by(|sent| {
        if sent.at < millis(1) && sent.body == prompt("slow").into_bytes() {
            reply(429).ra(60)
        } else {
            reply(200)
        }
    });
    let account = Account::builder()
        .model_limits("quick", Limits::new().requests_per_minute(60))
        .build()
        .unwrap();
    let client = server.sharing(&account, exact());
    let slow = spawned(&client, "slow");
    tokio::time::sleep(millis(10)).await;
    // it waits a minute, and holds the timer
    let waits = spawned(&client, "slow");
    tokio::time::sleep(millis(10)).await;
    for _ in 0..5 {
        // alone each time: nothing else happens that would set the timer anew
        chat(&client, "quick").await.unwrap();
    }
    assert!(server.start.elapsed() < millis(4_200), "{:?}", server.times());
    slow.await.unwrap().unwrap();
    waits.await.unwrap().unwrap();
}
