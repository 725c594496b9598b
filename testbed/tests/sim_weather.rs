//! Outages meet the calls that they select, in the same way for every client.

use std::time::Duration;

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error};
use testbed::sim::{
    Call, Fault, Headers, Hint, Latency, Law, Model, Outage, Outcome, Provider, Shape, Simulation, Transport, serve,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn openai() -> Model {
    Model::new(Shape::OpenAi)
}

fn client(model: Model) -> (ClientWithMiddleware, Simulation) {
    let simulation = Simulation::new(Provider::new(model, 7));
    let client = ClientBuilder::new(reqwest::Client::new()).with(Transport::new(simulation.clone()));
    (client.build(), simulation)
}

fn prompt(number: u64) -> Call {
    Call {
        prompt: number,
        ..Call::new(1)
    }
}

/// Which of so many attempts of each of so many prompts fail, made in this order of times.
fn failures(seed: u64, prompts: u64, attempts: u64, at: impl Fn(u64, u64) -> u64) -> Vec<bool> {
    let half = Outage::endless(Fault::Status(500)).share(0.5);
    let mut provider = Provider::new(openai().failing(half), seed);
    let mut order: Vec<(u64, u64, u64)> = (0..prompts)
        .flat_map(|prompt| (0..attempts).map(move |attempt| (prompt, attempt)))
        .map(|(prompt, attempt)| (at(prompt, attempt), prompt, attempt))
        .collect();
    order.sort_unstable();
    let mut failed: Vec<(u64, u64, bool)> = order
        .into_iter()
        .map(|(at, number, attempt)| {
            let reply = provider.arrive(Duration::from_millis(at), &prompt(number));
            (number, attempt, reply.outcome == Outcome::Failed(500))
        })
        .collect();
    failed.sort_unstable();
    failed.into_iter().map(|(_, _, failed)| failed).collect()
}

#[test]
fn a_share_fails_by_prompt_and_attempt_and_not_by_the_order_of_arrival() {
    let one_by_one = failures(1, 500, 4, |prompt, attempt| 10 * prompt + attempt);
    let round_by_round = failures(1, 500, 4, |prompt, attempt| 10_000 * attempt + prompt);
    assert_eq!(one_by_one, round_by_round);
    assert_ne!(one_by_one, failures(2, 500, 4, |prompt, attempt| 10 * prompt + attempt));
    let failed = one_by_one.iter().filter(|failed| **failed).count();
    assert!((900..1100).contains(&failed), "{failed} of 2000");
}

#[test]
fn an_outage_can_be_of_one_model_or_of_some_prompts() {
    let model = openai()
        .failing(Outage::new(SECOND, 2 * SECOND, Fault::Status(529)).model("large"))
        .failing(Outage::endless(Fault::Status(500)).prompts([7, 9]));
    let mut provider = Provider::new(model, 1);
    let mut outcome = |at: Duration, number, model: &str| {
        let call = Call {
            model: Some(model.to_owned()),
            ..prompt(number)
        };
        provider.arrive(at, &call).outcome
    };
    assert_eq!(outcome(Duration::ZERO, 1, "large"), Outcome::Admitted);
    assert_eq!(outcome(Duration::ZERO, 7, "large"), Outcome::Failed(500));
    assert_eq!(outcome(SECOND, 1, "large"), Outcome::Failed(529));
    assert_eq!(outcome(SECOND, 1, "small"), Outcome::Admitted);
    assert_eq!(outcome(SECOND, 9, "small"), Outcome::Failed(500));
    assert_eq!(outcome(2 * SECOND, 1, "large"), Outcome::Admitted);
}

#[test]
fn a_fault_may_state_a_delay() {
    let hinted = Fault::Hinted {
        status: 429,
        retry_after: 20,
    };
    for shape in [Shape::OpenAi, Shape::Anthropic, Shape::Gemini] {
        for (fault, stated) in [(hinted, Some("20")), (Fault::Status(429), None)] {
            let model = Model::new(shape).outage(Duration::ZERO, MINUTE, fault);
            let reply = Provider::new(model, 1).arrive(SECOND, &Call::new(1));
            assert_eq!((reply.status, reply.outcome), (429, Outcome::Failed(429)));
            assert_eq!(reply.header("retry-after"), stated, "{shape:?}");
            assert!(!reply.text().contains("quota,"), "{}", reply.text());
        }
    }
}

#[test]
fn a_limit_that_changes_holds_from_its_time_and_is_in_the_bound() {
    let model = openai()
        .requests(Law::window(30, SECOND))
        .requests_from(10 * SECOND, Law::bucket(10, SECOND, 1))
        .hint(Hint::Exact)
        .headers(Headers::PerMinute)
        .outage(5 * SECOND, 10 * SECOND, Fault::Status(503));
    let mut provider = Provider::new(model.clone(), 1);
    let mut admitted = |second: u64| {
        let calls = (0..100).map(|n| Duration::from_millis(1000 * second + 10 * n));
        let replies = calls.map(|at| provider.arrive(at, &Call::new(1)));
        replies.filter(|reply| reply.outcome == Outcome::Admitted).count()
    };
    assert_eq!((admitted(1), admitted(6), admitted(10), admitted(11)), (30, 0, 10, 10));
    let reply = provider.arrive(12 * SECOND, &Call::new(1));
    assert_eq!(reply.header("x-ratelimit-limit-requests"), Some("600"));
    // five windows, then one every tenth of a second from the tenth second on
    let provider = Provider::new(model, 1);
    assert_eq!(provider.bound(150, SECOND), 5 * SECOND);
    assert_eq!(provider.bound(171, SECOND), 10 * SECOND + 2 * SECOND + SECOND);
}

#[tokio::test(start_paused = true)]
async fn broken_connections_are_errors_of_reqwest_and_take_no_virtual_time_of_their_own() {
    let model = openai()
        .refusal_after(Duration::from_millis(30))
        .outage(Duration::ZERO, SECOND, Fault::ConnectionReset)
        .outage(SECOND, 2 * SECOND, Fault::ConnectionRefused)
        .outage(2 * SECOND, 3 * SECOND, Fault::Hang);
    let (client, simulation) = client(model);
    let ask = async |timeout| {
        let request = client.post("https://provider.test/v1/chat/completions").body("{}");
        match request.timeout(timeout).send().await {
            Err(Error::Reqwest(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let reset = ask(MINUTE).await;
    assert!(
        reset.is_request() && !reset.is_connect() && !reset.is_timeout(),
        "{reset:?}"
    );
    assert!(format!("{reset:?}").contains("ConnectionReset"), "{reset:?}");
    assert_eq!(
        reset.url().map(|url| url.as_str()),
        Some("https://provider.test/v1/chat/completions")
    );
    assert_eq!(simulation.elapsed(), Duration::from_millis(30));
    tokio::time::sleep(SECOND).await;
    let refused = ask(MINUTE).await;
    assert!(refused.is_connect(), "{refused:?}");
    assert_eq!(simulation.elapsed(), SECOND + Duration::from_millis(60));
    tokio::time::sleep(SECOND).await;
    let cut = ask(5 * SECOND).await;
    assert!(cut.is_timeout(), "{cut:?}");
    assert_eq!(simulation.elapsed(), 7 * SECOND + Duration::from_millis(60));
    let tally = simulation.tally();
    let outcomes: Vec<_> = tally.arrivals.iter().map(|arrival| arrival.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::ConnectionReset, Outcome::ConnectionRefused, Outcome::Hung]
    );
    assert_eq!((tally.failed, tally.sends), (3, 3));
}

#[tokio::test]
async fn on_a_socket_a_broken_connection_is_reset() {
    let flaky = Outage::endless(Fault::ConnectionRefused).prompts([7]);
    let model = openai()
        .latency(Latency::Fixed(Duration::ZERO))
        .refusal_after(Duration::ZERO)
        .failing(flaky);
    let endpoint = serve(Provider::new(model, 1)).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = async |prompt: &str| {
        let request = client.post(endpoint.url("/v1/chat/completions"));
        request.header("x-prompt", prompt).body("{}").send().await
    };
    assert_eq!(ask("6").await.unwrap().status(), 200);
    let error = format!("{:?}", ask("7").await.unwrap_err());
    assert!(error.contains("ConnectionReset"), "{error}");
    assert_eq!(ask("8").await.unwrap().status(), 200);
    assert_eq!(endpoint.simulation().tally().failed, 1);
}
