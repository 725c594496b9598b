//! What a simulated provider answers reads as the provider's own answers do.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::Value;
use testbed::sim::{
    Call, Charge, Fault, Headers, Hint, Latency, Law, Model, Outcome, Provider, Refusal, Reply, Shape, Tokens,
};

const MINUTE: Duration = Duration::from_secs(60);
const SHAPES: [Shape; 3] = [Shape::OpenAi, Shape::Anthropic, Shape::Gemini];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn json(reply: &Reply) -> Value {
    serde_json::from_str(&reply.text()).unwrap_or_else(|error| panic!("{error}: {}", reply.text()))
}

fn call() -> Call {
    Call {
        output_tokens: Some(40),
        max_tokens: Some(100),
        ..Call::new(25)
    }
}

/// A Go duration in milliseconds.
fn go(text: &str) -> f64 {
    let (mut total, mut number) = (0.0, String::new());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if char.is_ascii_digit() || char == '.' {
            number.push(char);
            continue;
        }
        let unit = match (char, chars.peek()) {
            ('m', Some('s')) => {
                chars.next();
                1.0
            }
            ('s', _) => 1000.0,
            ('m', _) => 60_000.0,
            ('h', _) => 3_600_000.0,
            other => panic!("{other:?} in {text}"),
        };
        total += number.parse::<f64>().unwrap() * unit;
        number.clear();
    }
    assert!(number.is_empty(), "{text}");
    total
}

/// The second call of two, which is refused for 1,250.5 ms more.
fn refusal(shape: Shape, hint: Hint) -> Reply {
    let model = Model::new(shape).requests(Law::bucket(30, MINUTE, 1)).hint(hint);
    let mut provider = Provider::new(model, 1);
    provider.arrive(ms(0), &call());
    let reply = provider.arrive(Duration::from_micros(749_500), &call());
    assert_eq!(reply.outcome, Outcome::Refused(Refusal::Requests));
    reply
}

#[test]
fn hints_are_exact_rounded_up_in_the_body_or_absent() {
    let hints = |shape, hint| {
        let reply = refusal(shape, hint);
        let header = |name| reply.header(name).map(|value| value.parse::<u64>().unwrap());
        let text = reply.text();
        let body = text
            .split("Please try again in ")
            .nth(1)
            .or(text.split("\"retryDelay\":\"").nth(1));
        let body = body.map(|rest| rest.split(['"', ' ']).next().unwrap().trim_end_matches('.').to_owned());
        (header("retry-after-ms"), header("retry-after"), body)
    };
    let body = |text: &str| Some(text.to_owned());
    assert_eq!(hints(Shape::OpenAi, Hint::Exact), (Some(1251), Some(2), body("1.251s")));
    assert_eq!(hints(Shape::OpenAi, Hint::Seconds), (None, Some(2), body("2s")));
    assert_eq!(hints(Shape::OpenAi, Hint::Body), (None, None, body("1.251s")));
    assert_eq!(hints(Shape::Anthropic, Hint::Exact), (Some(1251), Some(2), None));
    assert_eq!(hints(Shape::Anthropic, Hint::Seconds), (None, Some(2), None));
    assert_eq!(hints(Shape::Gemini, Hint::Exact), (None, None, body("1.251s")));
    assert_eq!(hints(Shape::Gemini, Hint::Seconds), (None, None, body("2s")));
    for shape in SHAPES {
        assert_eq!(hints(shape, Hint::None), (None, None, None));
    }
}

#[test]
fn limits_are_stated_on_every_answer_and_fall_due_when_they_say() {
    let model = |headers| {
        Model::new(Shape::OpenAi)
            .headers(headers)
            .requests(Law::window(20, ms(10_000)))
            .tokens(Tokens::Total, Law::bucket(60_000, MINUTE, 60_000), Charge::UpfrontFinal)
    };
    let stated = |headers, calls| {
        let mut provider = Provider::new(model(headers), 1);
        let mut last = provider.arrive(ms(4000), &call());
        for _ in 1..calls {
            last = provider.arrive(ms(4000), &call());
        }
        let of = |quantity: &str| {
            ["limit", "remaining", "reset"].map(|what| {
                let name = format!("x-ratelimit-{what}-{quantity}");
                last.header(&name).unwrap_or("none").to_owned()
            })
        };
        (last.status, of("requests"), of("tokens"))
    };
    let strings = |values: [&str; 3]| values.map(str::to_owned);
    assert_eq!(
        stated(Headers::PerMinute, 2),
        (200, strings(["120", "18", "6s"]), strings(["60000", "59750", "250ms"]))
    );
    assert_eq!(
        stated(Headers::AsEnforced, 21),
        (429, strings(["20", "0", "6s"]), strings(["60000", "57500", "2.5s"]))
    );
    let unknown = strings(["-1", "-1", "0"]);
    assert_eq!(stated(Headers::Sentinels, 1), (200, unknown.clone(), unknown));
    let none = strings(["none"; 3]);
    assert_eq!(stated(Headers::Off, 1), (200, none.clone(), none));
}

#[test]
fn a_reset_parses_back_to_the_time_at_which_the_limit_is_full() {
    let law = Law::bucket(100, 100 * MINUTE, 100);
    let mut provider = Provider::new(Model::new(Shape::OpenAi).requests(law), 1);
    for used in 1..=100 {
        let reply = provider.arrive(ms(0), &call());
        assert_eq!(
            go(reply.header("x-ratelimit-reset-requests").unwrap()),
            f64::from(used) * 60_000.0
        );
    }
    let refused = provider.arrive(Duration::from_micros(12_300_400), &call());
    // 100 minutes less 12.3004 s, rounded up.
    assert_eq!(refused.header("x-ratelimit-reset-requests"), Some("1h39m47.7s"));
}

#[test]
fn anthropic_states_moments_of_its_own_clock() {
    let epoch: Timestamp = "2025-06-02T15:14:45Z".parse().unwrap();
    let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(epoch.as_second()).unwrap());
    let minute = |amount| Law::bucket(amount, MINUTE, amount);
    let model = Model::new(Shape::Anthropic)
        .epoch(epoch)
        .requests(minute(60))
        .tokens(Tokens::Input, minute(6000), Charge::OnProduce)
        .tokens(Tokens::Output, minute(600), Charge::UpfrontSettled);
    let reply = Provider::new(model, 1).arrive(ms(1300), &call());
    assert_eq!(reply.header("date"), Some("Mon, 02 Jun 2025 15:14:46 GMT"));
    let of = |quantity: &str| {
        ["limit", "remaining", "reset"].map(|what| {
            let name = format!("anthropic-ratelimit-{quantity}-{what}");
            reply.header(&name).unwrap().to_owned()
        })
    };
    // 46.3 s and one second; a quarter of a second; ten seconds.
    assert_eq!(of("requests"), ["60", "59", "2025-06-02T15:14:48Z"]);
    assert_eq!(of("input-tokens"), ["6000", "5975", "2025-06-02T15:14:47Z"]);
    assert_eq!(of("output-tokens"), ["600", "500", "2025-06-02T15:14:57Z"]);
    assert!(reply.headers.get("anthropic-ratelimit-tokens-limit").is_none());
}

#[test]
fn gemini_has_no_limit_headers_but_names_the_quota() {
    let reply = refusal(Shape::Gemini, Hint::Exact);
    assert_eq!(reply.headers.len(), 1);
    let body = json(&reply);
    assert_eq!(body["error"]["status"], "RESOURCE_EXHAUSTED");
    let quota = &body["error"]["details"][0]["violations"][0];
    assert_eq!(quota["quotaId"], "GenerateRequestsPerMinutePerProjectPerModel");
    let mut day = Provider::new(Model::new(Shape::Gemini).daily(0), 1);
    let body = json(&day.arrive(ms(0), &call()));
    let quota = &body["error"]["details"][0]["violations"][0];
    assert!(quota["quotaId"].as_str().unwrap().contains("PerDay"));
}

#[test]
fn every_refusal_and_failure_is_json_in_every_shape() {
    let minute = |amount| Law::bucket(amount, MINUTE, amount);
    for (shape, hint) in SHAPES
        .into_iter()
        .flat_map(|shape| [Hint::Exact, Hint::None].map(|hint| (shape, hint)))
    {
        let model = || Model::new(shape).hint(hint);
        let output = |of, amount| model().tokens(of, minute(amount), Charge::UpfrontFinal);
        let cases = [
            (model().requests(minute(1)), Refusal::Requests),
            (output(Tokens::Input, 30), Refusal::InputTokens),
            (output(Tokens::Output, 120), Refusal::OutputTokens),
            (output(Tokens::Total, 150), Refusal::TotalTokens),
            (output(Tokens::Output, 99), Refusal::TooLarge),
            (model().concurrency(1), Refusal::Concurrency),
            (model().daily(1), Refusal::Quota),
            (model().growth(1, 100, MINUTE), Refusal::Growth),
        ];
        for (model, refusal) in cases {
            let mut provider = Provider::new(model, 1);
            let _held = provider.arrive(ms(0), &call());
            let reply = provider.arrive(ms(0), &call());
            assert_eq!(
                (reply.status, reply.outcome),
                (429, Outcome::Refused(refusal)),
                "{shape:?}"
            );
            assert!(json(&reply)["error"].is_object());
            assert_eq!(reply.head_after, Some(ms(50)));
        }
        for status in [500, 503, 529] {
            let model = model().outage(ms(0), ms(1), Fault::Status(status));
            let reply = Provider::new(model, 1).arrive(ms(0), &call());
            assert_eq!(reply.status, status);
            assert!(json(&reply)["error"].is_object());
        }
    }
}

#[test]
fn successes_state_their_usage_whole_or_in_the_last_event() {
    for shape in SHAPES {
        let model = Model::new(shape)
            .latency(Latency::TokensPerSecond(20))
            .first_token(ms(300));
        let mut provider = Provider::new(model, 1);
        let usage = |body: &Value| match shape {
            Shape::OpenAi => (
                &body["usage"]["prompt_tokens"] == 25,
                &body["usage"]["completion_tokens"] == 40,
            ),
            Shape::Anthropic => (
                &body["usage"]["input_tokens"] == 25,
                &body["usage"]["output_tokens"] == 40,
            ),
            Shape::Gemini => {
                let usage = &body["usageMetadata"];
                (&usage["promptTokenCount"] == 25, &usage["candidatesTokenCount"] == 40)
            }
        };
        let whole = provider.arrive(ms(0), &call());
        assert_eq!(usage(&json(&whole)), (true, true));
        assert_eq!((whole.head_after, whole.ends_after()), (Some(ms(2000)), Some(ms(2000))));

        let stream = Call { stream: true, ..call() };
        let stream = provider.arrive(ms(0), &stream);
        assert_eq!(stream.header("content-type"), Some("text/event-stream; charset=utf-8"));
        assert_eq!(
            (stream.head_after, stream.ends_after()),
            (Some(ms(300)), Some(ms(2000)))
        );
        let text = stream.text();
        assert!(text.ends_with("\n\n"));
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let events = data
            .filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str::<Value>(data).unwrap());
        let events: Vec<_> = events.collect();
        assert!(events.len() > 8);
        let last = events.iter().rev().find(|event| usage(event).1).unwrap();
        // Anthropic states the prompt at the beginning.
        let first = &events[0]["message"];
        assert!(usage(last).0 || usage(first).0, "{shape:?}: {text}");
    }
}
