//! What the simulated providers answer is read as what it was decided to be, so that a test or a bench against them
//! measures the limits and not a misreading.

use std::time::{Duration, SystemTime};

use http::{Method, StatusCode};
use reqwest::Url;
use reqwest_ai_retry::{Class, Classifier, Scope, Seen, Verdict};
use testbed::sim::{Call, Charge, Fault, Headers, Hint, Law, Model, Provider, Reply, Shape, Tokens};

const MINUTE: Duration = Duration::from_secs(60);

fn read(shape: Shape, reply: &Reply) -> Verdict {
    let url: Url = match shape {
        Shape::OpenAi => "https://api.openai.com/v1/chat/completions",
        Shape::Anthropic => "https://api.anthropic.com/v1/messages",
        Shape::Gemini => "https://generativelanguage.googleapis.com/v1beta/models/sim:generateContent",
    }
    .parse()
    .unwrap();
    let status = StatusCode::from_u16(reply.status).unwrap();
    let body = reply.text();
    let seen = Seen::response(
        &Method::POST,
        &url,
        status,
        &reply.headers,
        body.as_bytes(),
        SystemTime::now(),
    );
    Classifier::default().classify(&seen).unwrap()
}

/// What a second call gets 250 ms after the first.
fn second(model: Model) -> Reply {
    let mut provider = Provider::new(model, 1);
    let call = Call {
        max_tokens: Some(100),
        ..Call::new(100)
    };
    let _held = provider.arrive(Duration::ZERO, &call);
    provider.arrive(Duration::from_millis(250), &call)
}

#[test]
fn refusals_are_read_as_what_they_are() {
    let minute = |amount| Law::bucket(amount, MINUTE, amount);
    let mut wrong = Vec::new();
    for shape in [Shape::OpenAi, Shape::Anthropic, Shape::Gemini] {
        let model = || Model::new(shape);
        let tokens = |of, amount| model().tokens(of, minute(amount), Charge::UpfrontFinal);
        let (again, spent) = (Class::Retryable, Class::QuotaExhausted);
        let cases = [
            (model().requests(minute(1)), again, Scope::Requests),
            (tokens(Tokens::Input, 150), again, Scope::InputTokens),
            (tokens(Tokens::Output, 150), again, Scope::OutputTokens),
            (tokens(Tokens::Total, 300), again, Scope::Tokens),
            (model().concurrency(1), again, Scope::Concurrency),
            (model().growth(1, 100, MINUTE), again, Scope::Growth),
            (model().daily(1), spent, Scope::Day),
        ];
        for (model, class, scope) in cases {
            for headers in [Headers::PerMinute, Headers::Off] {
                let reply = second(model.clone().headers(headers));
                let verdict = read(shape, &reply);
                let read = match verdict.scope() {
                    // a quota need not say of what it is
                    _ if class == spent => scope,
                    read => read,
                };
                if verdict.class() != class || read != scope {
                    wrong.push(format!(
                        "{shape:?} {scope:?} {headers:?}: {verdict:?}\n  {}",
                        reply.text()
                    ));
                }
            }
        }
        for status in [500, 503, 529] {
            let fault = model().outage(Duration::ZERO, MINUTE, Fault::Status(status));
            assert_eq!(read(shape, &second(fault)).class(), Class::Retryable);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let large = Model::new(Shape::OpenAi).tokens(Tokens::Total, minute(150), Charge::UpfrontFinal);
    assert_eq!(read(Shape::OpenAi, &second(large)).class(), Class::Permanent);
}

#[test]
fn hints_are_read_to_the_millisecond_or_the_second() {
    // 59.75 s are left of the minute.
    let law = Law::window(1, MINUTE);
    for (shape, hint, millis) in [
        (Shape::OpenAi, Hint::Exact, Some(59_750)),
        (Shape::OpenAi, Hint::Seconds, Some(60_000)),
        (Shape::OpenAi, Hint::Body, Some(59_750)),
        (Shape::OpenAi, Hint::None, None),
        (Shape::Anthropic, Hint::Exact, Some(59_750)),
        (Shape::Anthropic, Hint::Seconds, Some(60_000)),
        (Shape::Anthropic, Hint::None, None),
        (Shape::Gemini, Hint::Exact, Some(59_750)),
        (Shape::Gemini, Hint::Seconds, Some(60_000)),
        (Shape::Gemini, Hint::None, None),
    ] {
        let model = Model::new(shape).requests(law).hint(hint).headers(Headers::Off);
        let delay = read(shape, &second(model)).server_delay().map(|delay| delay.duration());
        assert_eq!(delay, millis.map(Duration::from_millis), "{shape:?} {hint:?}");
    }
}
