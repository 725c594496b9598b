//! What starts are charged in tokens, and how that is put right.

use reqwest_ai_retry::{Account, AccountBuilder, Charge, Cost, Usage};
use tokio::time::{Instant, sleep};

use crate::stub::{CHAT, Stub, exact, millis, prompt, reply, secs};

/// 60 tokens a second, 600 at once.
fn output(charge: Charge) -> Account {
    Account::builder()
        .output_tokens_per_minute(3_600)
        .output_charge(charge)
        .build()
        .unwrap()
}

fn usage(input: u64, output: u64) -> Usage {
    Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
    }
}

/// How long a start of this cost waits now, in tenths of a second.
async fn wait_for(account: &Account, cost: Cost) -> u128 {
    let start = Instant::now();
    drop(account.admit(cost, None).await.unwrap());
    start.elapsed().as_millis().div_ceil(100)
}

fn allowing(tokens: u64) -> Cost {
    Cost::new().max_output_tokens(tokens)
}

#[tokio::test(start_paused = true)]
async fn each_rule_charges_as_it_says() {
    // charged as they are produced: what nine in ten take, here what the first one took
    let account = output(Charge::OnProduce);
    account.admit(allowing(600), None).await.unwrap().settle(usage(10, 60));
    assert_eq!(
        wait_for(&account, allowing(600)).await,
        0,
        "60 of 600 are gone, and 60 are usual"
    );
    account.admit(allowing(480), None).await.unwrap().settle(usage(10, 60));

    // all at the start, and nothing comes back
    let account = output(Charge::UpfrontFinal);
    account.admit(allowing(600), None).await.unwrap().settle(usage(10, 60));
    assert_eq!(wait_for(&account, allowing(600)).await, 100);

    // all at the start, put right at the end
    let account = output(Charge::UpfrontSettled);
    account.admit(allowing(600), None).await.unwrap().settle(usage(10, 60));
    assert_eq!(wait_for(&account, allowing(600)).await, 10);
}

/// Nobody said what was used: that is not nothing.
#[tokio::test(start_paused = true)]
async fn what_is_unknown_stays_charged() {
    for charge in [Charge::OnProduce, Charge::UpfrontFinal, Charge::UpfrontSettled] {
        let account = output(charge);
        drop(account.admit(allowing(600), None).await.unwrap());
        assert_eq!(wait_for(&account, allowing(600)).await, 100, "{charge:?}");
        let account = output(charge);
        account
            .admit(allowing(600), None)
            .await
            .unwrap()
            .settle(Usage::default());
        assert_eq!(wait_for(&account, allowing(600)).await, 100, "{charge:?}");
    }
}

/// More than was reserved is charged too.
#[tokio::test(start_paused = true)]
async fn what_was_reserved_too_little_is_charged_after() {
    let account = output(Charge::OnProduce);
    account.admit(allowing(60), None).await.unwrap().settle(usage(0, 1_200));
    // 600 in debt, and 600 wanted: twenty seconds
    assert_eq!(wait_for(&account, allowing(600)).await, 200);
}

/// One that is heavier than all there is at once waits until it is full, and is then sent.
#[tokio::test(start_paused = true)]
async fn a_weight_above_the_capacity_is_possible() {
    for charge in [Charge::OnProduce, Charge::UpfrontFinal, Charge::UpfrontSettled] {
        let account = output(charge);
        assert_eq!(wait_for(&account, allowing(6_000)).await, 0);
        let account = Account::builder().input_tokens_per_minute(600).build().unwrap();
        assert_eq!(wait_for(&account, Cost::new().input_tokens(1_000)).await, 0);
        // 1,000 of 100 were taken
        assert_eq!(wait_for(&account, Cost::new().input_tokens(1_000)).await, 1_000);
    }
}

/// An estimate above all there is at once is no reason to wait for an hour.
#[tokio::test(start_paused = true)]
async fn an_estimate_does_not_exceed_the_capacity() {
    // ten tokens at once, and 1,024 are usual
    let account = Account::builder().output_tokens_per_minute(60).build().unwrap();
    drop(account.admit(Cost::new(), None).await.unwrap());
    assert_eq!(wait_for(&account, Cost::new()).await, 100);
}

/// All dimensions are charged or none.
#[tokio::test(start_paused = true)]
async fn nothing_is_charged_for_a_start_that_is_refused() {
    let account = Account::builder()
        .requests_per_minute(60)
        .input_tokens_per_minute(6_000)
        .output_tokens_per_minute(3_600)
        .output_charge(Charge::UpfrontFinal)
        .max_concurrency(1)
        .requests_per_day(2)
        .build()
        .unwrap();
    let cost = || Cost::new().input_tokens(1_000).max_output_tokens(600);
    let held = account.admit(cost(), None).await.unwrap();
    sleep(secs(20)).await;
    for _ in 0..100 {
        let deadline = Instant::now() + millis(10);
        assert!(account.admit(cost(), Some(deadline.into_std())).await.is_err());
        assert!(futures_util::poll!(Box::pin(account.admit(cost(), None))).is_pending());
    }
    drop(held);
    assert_eq!(wait_for(&account, cost()).await, 0);
}

/// The size of a request is known by its bytes, by what answers have taught, or by what the caller says.
#[tokio::test(start_paused = true)]
async fn input_is_estimated() {
    let estimates = |builder: AccountBuilder| builder.input_tokens_per_minute(6_000).build().unwrap();
    let body = |bytes: usize| format!(r#"{{"model":"m","x":"{}"}}"#, "x".repeat(bytes - 20));
    let second_waits = async |account: &Account, answer: &str, bytes: usize| {
        let server = Stub::new([reply(200).json(answer)]);
        let client = server.sharing(account, exact());
        for _ in 0..2 {
            let response = client.post(CHAT).body(body(bytes)).send().await.unwrap();
            drop(response.bytes().await.unwrap());
        }
        server.times()[1].as_millis().div_ceil(100)
    };
    // 1,000 at once, 100 a second: 4,000 bytes are all of it
    assert_eq!(second_waits(&estimates(Account::builder()), "{}", 4_000).await, 100);
    // the answer says that it took a tenth, and that more will be less
    let answer = r#"{"usage":{"prompt_tokens":100,"completion_tokens":5}}"#;
    assert_eq!(second_waits(&estimates(Account::builder()), answer, 4_000).await, 0);
    let account = estimates(Account::builder().estimate_input(|_| 500));
    assert_eq!(second_waits(&account, "{}", 4_000).await, 0);
    assert_eq!(second_waits(&account, "{}", 4_000).await, 100);
}

/// The usage is read as the body passes, in JSON and in streams; what has another shape is not nothing.
#[tokio::test(start_paused = true)]
async fn usage_is_read_from_the_body() {
    let stream = "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n\
                  event: message_delta\ndata: {\"delta\":{},\"usage\":{\"output_tokens\":60}}\n\nevent: message_stop\ndata: {}\n\n";
    let openai = "data: {\"choices\":[{}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":60}}\n\ndata: [DONE]\n\n";
    for (kind, body, tenths) in [
        (
            "application/json",
            r#"{"usage":{"prompt_tokens":9,"completion_tokens":60}}"#,
            10,
        ),
        ("text/event-stream", stream, 10),
        ("text/event-stream", openai, 10),
        (
            "application/json",
            r#"{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":20,"thoughtsTokenCount":40}}"#,
            10,
        ),
        ("application/json", r#"{"usage":{"credits":1}}"#, 100),
        ("application/json", r#"{"usage":null}"#, 100),
        ("application/json", "", 100),
    ] {
        let account = output(Charge::UpfrontSettled);
        let server = Stub::new([reply(200).body(body).header("content-type", kind)]);
        let client = server.sharing(&account, exact());
        for _ in 0..2 {
            let body = r#"{"model":"m","max_tokens":5,"max_completion_tokens":600}"#;
            drop(
                client
                    .post(CHAT)
                    .body(body)
                    .send()
                    .await
                    .unwrap()
                    .bytes()
                    .await
                    .unwrap(),
            );
        }
        assert_eq!(server.times()[1].as_millis().div_ceil(100), tenths, "{body}");
        assert_eq!(account.status().in_flight, 0);
    }
    // a body that is dropped has not said anything
    let account = output(Charge::UpfrontSettled);
    let server = Stub::new([reply(200).body(openai)]);
    let client = server.sharing(&account, exact());
    for _ in 0..2 {
        drop(
            client
                .post(CHAT)
                .body(r#"{"model":"m","max_tokens":600}"#)
                .send()
                .await
                .unwrap(),
        );
    }
    assert_eq!(server.times()[1].as_millis().div_ceil(100), 100);
    drop(client.post(CHAT).body(prompt("m")).send().await);
}
