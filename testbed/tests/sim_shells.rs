//! A simulated provider works under a paused clock, in the place of a network and on a socket.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use testbed::sim::{
    Call, Case, Charge, Fault, Headers, Hint, Latency, Law, Model, Outcome, Provider, Refusal, Shape, Simulation,
    Tokens, Transport, serve,
};
use tokio::time::{Instant, sleep, timeout};

const MINUTE: Duration = Duration::from_secs(60);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn simulation(model: Model) -> Simulation {
    Simulation::new(Provider::new(model, 7))
}

/// A client of the provider, without a network.
fn client(simulation: &Simulation) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new())
        .with(Transport::new(simulation.clone()))
        .build()
}

fn chat(client: &ClientWithMiddleware, body: &'static str) -> reqwest_middleware::RequestBuilder {
    client.post("http://provider.test/v1/chat/completions").body(body)
}

/// Fifty workers who wait as they are told; the arrivals, and the time that it took.
async fn crowd(seed: u64) -> (Vec<(Duration, Outcome)>, Duration, u64) {
    let model = Case::Bucket10.model(120).headers(Headers::Off).jitter(ms(20));
    let provider = Simulation::new(Provider::new(model, seed));
    let worker = async || {
        for _ in 0..4 {
            loop {
                let reply = provider.call(&Call::new(100)).await;
                match reply.header("retry-after-ms") {
                    Some(wait) => sleep(ms(wait.parse().unwrap())).await,
                    None => break,
                }
            }
        }
    };
    join_all((0..50).map(|_| worker())).await;
    let tally = provider.tally();
    assert_eq!((tally.admitted, tally.finished, tally.in_flight), (200, 200, 0));
    assert_eq!(tally.sends, tally.admitted + tally.refused());
    let arrivals = tally.arrivals.iter().map(|arrival| (arrival.at, arrival.outcome));
    (arrivals.collect(), provider.elapsed(), tally.refused())
}

#[tokio::test(start_paused = true)]
async fn a_run_is_reproducible_by_its_seed_and_never_beats_the_bound() {
    let (arrivals, took, refused) = crowd(3).await;
    assert_eq!((&arrivals, took), (&crowd(3).await.0, crowd(3).await.1));
    assert_ne!(arrivals, crowd(4).await.0);
    let bound = Provider::new(Case::Bucket10.model(120), 3).bound(200, ms(2000));
    assert!(took >= bound && took < bound.mul_f64(1.05), "{took:?} {bound:?}");
    assert!(
        refused > 1000,
        "a crowd without a common plan wastes most of what it sends: {refused}"
    );
    assert!(arrivals.is_sorted_by_key(|(at, _)| *at));
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_its_jitter_and_its_latency() {
    let provider = simulation(
        Model::new(Shape::OpenAi)
            .latency(Latency::Fixed(ms(1500)))
            .jitter(ms(400)),
    );
    let start = Instant::now();
    assert_eq!(provider.call(&Call::new(1)).await.status, 200);
    let tally = provider.tally();
    let arrived = tally.admissions().next().unwrap();
    assert!(arrived > Duration::ZERO && arrived <= ms(400));
    assert_eq!(start.elapsed(), arrived + ms(1500));
}

#[tokio::test(start_paused = true)]
async fn a_call_given_up_is_counted_where_it_was() {
    let provider = simulation(Model::new(Shape::OpenAi).concurrency(1).jitter(ms(100)).outage(
        ms(10_000),
        ms(11_000),
        Fault::Hang,
    ));
    let call = Call::new(1);
    assert!(timeout(ms(0), provider.send(&call)).await.is_err());
    assert_eq!((provider.tally().sends, provider.tally().arrivals.len()), (1, 0));
    assert!(timeout(ms(500), provider.send(&call)).await.is_err());
    let tally = provider.tally();
    assert_eq!((tally.admitted, tally.abandoned, tally.in_flight), (1, 1, 0));
    assert_eq!(provider.call(&call).await.status, 200);
    sleep(ms(10_000) - provider.elapsed()).await;
    assert!(timeout(ms(60_000), provider.send(&call)).await.is_err(), "it hangs");
    assert_eq!(provider.tally().failed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_comes_piece_by_piece_and_holds_its_slot_to_the_end() {
    let provider = simulation(Model::new(Shape::Anthropic).latency(Latency::Fixed(ms(2200))));
    let call = Call {
        stream: true,
        ..Call::new(1)
    };
    let mut answer = provider.send(&call).await;
    assert_eq!(provider.elapsed(), ms(200));
    let mut times = Vec::new();
    while !answer.reply.pieces.is_empty() {
        assert_eq!(provider.tally().in_flight, 1);
        // Waiting for a piece can be given up and taken up again.
        let _ = timeout(ms(100), answer.next()).await;
        times.push(provider.elapsed());
    }
    assert!(answer.next().await.is_none());
    assert_eq!(*times.last().unwrap(), ms(2200));
    assert_eq!((provider.tally().in_flight, provider.tally().finished), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn the_transport_reads_the_request_and_frees_the_slot_with_the_body() {
    let tokens = Law::bucket(1000, MINUTE, 1000);
    let model = Model::new(Shape::OpenAi)
        .concurrency(1)
        .tokens(Tokens::Total, tokens, Charge::UpfrontFinal);
    let provider = simulation(model);
    let client = client(&provider);
    // 38 bytes are ten tokens.
    let body = r#"{"max_completion_tokens":90,"a":"bcd"}"#;
    let response = chat(&client, body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-ratelimit-remaining-tokens"], "900");
    assert_eq!(response.url().path(), "/v1/chat/completions");
    let refused = chat(&client, body).send().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert!(refused.text().await.unwrap().contains("concurrency_limit_exceeded"));
    let text = response.text().await.unwrap();
    assert!(text.contains(r#""prompt_tokens":10,"#), "{text}");
    // One dropped unread, one streamed to its end.
    drop(chat(&client, body).send().await.unwrap());
    assert_eq!(provider.tally().in_flight, 0);
    let stream = r#"{"stream": true, "max_tokens": 80}"#;
    let response = chat(&client, stream).send().await.unwrap();
    let (head, length) = (provider.elapsed(), response.content_length());
    assert_eq!((provider.tally().in_flight, length), (1, None));
    assert!(response.text().await.unwrap().ends_with("data: [DONE]\n\n"));
    assert_eq!(provider.elapsed() - head, ms(1800));
    let tally = provider.tally();
    assert_eq!((tally.finished, tally.abandoned, tally.in_flight), (3, 0, 0));
    assert_eq!(tally.refused_for(Refusal::Concurrency), 1);
}

#[tokio::test(start_paused = true)]
async fn credentials_and_if_wanted_models_have_limits_of_their_own() {
    for (per_model, expected) in [(false, [200, 429, 429, 200]), (true, [200, 429, 200, 200])] {
        let model = Model::new(Shape::OpenAi).requests(Law::window(1, MINUTE));
        let model = if per_model { model.per_model() } else { model };
        let client = client(&simulation(model));
        let mut seen = Vec::new();
        for (key, body) in [("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")] {
            let body = if body == "x" {
                r#"{"model":"x"}"#
            } else {
                r#"{"model":"y"}"#
            };
            let request = chat(&client, body).bearer_auth(key);
            seen.push(request.send().await.unwrap().status().as_u16());
        }
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn it_answers_on_a_socket() {
    let model = Model::new(Shape::Gemini)
        .requests(Law::bucket(1, MINUTE, 2))
        .hint(Hint::Exact)
        .latency(Latency::Fixed(ms(40)))
        .first_token(ms(10));
    let server = serve(Provider::new(model, 1)).await;
    let client = reqwest::Client::new();
    let post = |path| client.post(server.url(path)).body("{}").send();
    let whole = post("/v1beta/models/sim:generateContent").await.unwrap();
    assert_eq!(whole.status(), 200);
    assert!(whole.text().await.unwrap().contains("usageMetadata"));
    let stream = post("/v1beta/models/sim:streamGenerateContent?alt=sse").await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream; charset=utf-8");
    assert!(stream.text().await.unwrap().contains("usageMetadata"));
    let refused = post("/v1beta/models/sim:generateContent").await.unwrap();
    assert_eq!(refused.status(), 429);
    let length = refused.content_length().unwrap();
    let text = refused.text().await.unwrap();
    assert_eq!(u64::try_from(text.len()).unwrap(), length);
    assert!(text.contains("RetryInfo"));
    assert_eq!(
        (server.ledger().connections(), server.simulation().tally().finished),
        (1, 2)
    );
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_slot() {
    let model = Model::new(Shape::OpenAi).concurrency(1).latency(Latency::Fixed(MINUTE));
    let server = serve(Provider::new(model, 1)).await;
    let client = reqwest::Client::new();
    let post = || client.post(server.url("/v1/chat/completions")).body("{}").send();
    assert!(timeout(ms(300), post()).await.is_err());
    let stream = client.post(server.url("/")).body(r#"{"stream":true}"#).send();
    server.ledger().wait_open(0).await;
    let stream = stream.await.unwrap();
    assert_eq!(
        (stream.status().as_u16(), server.simulation().tally().in_flight),
        (200, 1)
    );
    drop(stream);
    server.ledger().wait_open(0).await;
    let tally = server.simulation().tally();
    assert_eq!((tally.in_flight, tally.abandoned), (0, 2));
}
