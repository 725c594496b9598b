//! What the loop does with a verdict, and with the newest one.

use reqwest_ai_retry::{Cause, Class, Classifier, Outcome, RetryMiddleware, Ruling, Seen, StopReason, Verdict};

use crate::stub::{CHAT, ORDERS, PROMPT, Stub, exact, hang, reply, secs};

/// I1, I9: what only a change can help is sent once.
#[tokio::test(start_paused = true)]
async fn permanent_answers_are_sent_once() {
    for status in [400, 401, 403, 404, 405, 413, 415, 422, 501, 505] {
        let server = Stub::new([reply(status), reply(200)]);
        let response = server.with(exact()).get(ORDERS).send().await.unwrap();
        assert_eq!((response.status().as_u16(), server.n()), (status, 1));
        assert_eq!(
            Outcome::of(&response).unwrap().stop(),
            StopReason::Permanent,
            "{status}"
        );
    }
}

/// I8: the statuses that are in nobody's table.
#[tokio::test(start_paused = true)]
async fn overload_and_edge_statuses_are_retried() {
    for status in [
        408, 409, 425, 429, 498, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529, 530,
    ] {
        let server = Stub::new([reply(status), reply(200)]);
        server.with(exact()).get(ORDERS).send().await.unwrap();
        assert_eq!(server.n(), 2, "{status}");
    }
}

/// I2, J4: each attempt is classified anew, and the newest answer is the result.
#[tokio::test(start_paused = true)]
async fn the_newest_answer_wins() {
    let server = Stub::new([reply(429), reply(400).json(r#"{"error":{"message":"bad"}}"#)]);
    let response = server.with(exact()).get(ORDERS).send().await.unwrap();
    assert_eq!((response.status().as_u16(), server.n()), (400, 2));
    let outcome = Outcome::of(&response).unwrap();
    assert_eq!(outcome.stop(), StopReason::Permanent);
    let statuses: Vec<_> = outcome
        .attempts()
        .iter()
        .map(|attempt| attempt.status().unwrap().as_u16())
        .collect();
    assert_eq!(statuses, [429, 400]);
}

/// I4: a timeout that is configured is also retried.
#[tokio::test(start_paused = true)]
async fn timeouts_are_retried() {
    let server = Stub::new([hang(), reply(200)]);
    let response = server
        .with(exact().attempt_timeout(secs(5)))
        .get(ORDERS)
        .send()
        .await
        .unwrap();
    assert_eq!((response.status().as_u16(), server.n()), (200, 2));
    let first = &Outcome::of(&response).unwrap().attempts()[0];
    assert_eq!(
        (first.status(), first.verdict().unwrap().cause()),
        (None, Cause::Timeout)
    );
}

/// A rule of the caller's is asked first, and may see a success as a failure or the reverse.
#[tokio::test(start_paused = true)]
async fn rules_come_before_the_built_in_ones() {
    let classifier = Classifier::default().rule(|seen: &Seen<'_>| match seen.status().map(|status| status.as_u16()) {
        Some(202) => Ruling::Failure(Verdict::new(Class::Retryable, Cause::ModelLoading)),
        Some(404) => Ruling::Success,
        _ => Ruling::Pass,
    });
    let retry = || {
        RetryMiddleware::builder()
            .policy(exact())
            .classifier(classifier.clone())
            .build()
    };
    let server = Stub::new([reply(202), reply(200)]);
    server.under([retry()]).get(ORDERS).send().await.unwrap();
    assert_eq!(server.n(), 2);
    let server = Stub::new([reply(404)]);
    let response = server.under([retry()]).get(ORDERS).send().await.unwrap();
    assert_eq!(server.n(), 1);
    assert!(Outcome::of(&response).is_none());
    let server = Stub::new([reply(503).ra(1), reply(200)]);
    server.under([retry()]).get(ORDERS).send().await.unwrap();
    assert_eq!(server.n(), 2);
}

/// An error under status 200 is found when the caller asks for it, and only then.
#[tokio::test(start_paused = true)]
async fn errors_under_a_200_are_found_when_asked_for() {
    let body = r#"{"id":"gen-1","error":{"message":"Provider returned error","code":429,"metadata":{"raw":"error code: 1015"}}}"#;
    let server = Stub::new([reply(200).json(body), reply(200)]);
    let response = server.with(exact()).post(CHAT).body(PROMPT).send().await.unwrap();
    assert_eq!((server.n(), response.text().await.unwrap().as_str()), (1, body));

    let server = Stub::new([reply(200).json(body), reply(200).json("{}")]);
    let response = server
        .with(exact().inspect_success(4096))
        .post(CHAT)
        .body(PROMPT)
        .send()
        .await
        .unwrap();
    assert_eq!((server.n(), response.text().await.unwrap().as_str()), (2, "{}"));

    let base = r#"{"choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}"#;
    let server = Stub::new([reply(200).json(base)]);
    let response = server
        .with(exact().inspect_success(4096))
        .post(CHAT)
        .body(PROMPT)
        .send()
        .await
        .unwrap();
    assert_eq!(Outcome::of(&response).unwrap().stop(), StopReason::QuotaExhausted);
    assert_eq!(response.text().await.unwrap(), base);
}
