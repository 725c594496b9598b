//! A provider's temporary trouble reaches the caller as a delay and not as an error: the incidents of the weather bench
//! (`cargo bench -p peers --bench weather`), scaled down, against a client whose calls each retry alone.

mod alone;
mod run;

use std::time::Duration;

use reqwest_ai_retry::Account;
use testbed::sim::{Fault, Headers, Latency, Law, Model, Outage, Shape};

use run::{Layer, Run, run};

const SECOND: Duration = Duration::from_secs(1);
/// So few are luck.
const FEW: f64 = 10.0;
const LONG: Duration = Duration::from_secs(10);

/// A provider and the callers that it meets.
struct Incident {
    model: Model,
    prompts: u64,
    workers: usize,
    models: &'static [&'static str],
    attempt_timeout: Option<Duration>,
    poisonous: Option<u64>,
    /// How long nothing gets through.
    down: Duration,
}

fn incident(prompts: u64, workers: usize, outages: impl IntoIterator<Item = Outage>) -> Incident {
    let model = Model::new(Shape::OpenAi)
        .headers(Headers::Off)
        .latency(Latency::Fixed(Duration::from_millis(300)))
        .refusal_after(Duration::from_millis(30))
        .jitter(Duration::from_millis(5));
    Incident {
        model: outages.into_iter().fold(model, Model::failing),
        prompts,
        workers,
        models: &["large"],
        attempt_timeout: None,
        poisonous: None,
        down: Duration::ZERO,
    }
}

/// Nothing gets through for so many seconds, after one of fair weather.
fn down(prompts: u64, workers: usize, seconds: u64, fault: Fault) -> Incident {
    let down = Duration::from_secs(seconds);
    Incident {
        down,
        ..incident(prompts, workers, [Outage::new(SECOND, SECOND + down, fault)])
    }
}

/// Each kind of account answers at least what calls that retry alone get answered, with no more sends.
#[track_caller]
fn nobody_is_worse_off(incident: &Incident) {
    let alone = run(incident, Layer::Alone);
    let built = Account::builder().requests_per_minute(1800).build();
    let accounts = [
        ("default", Account::default()),
        ("built", built.expect("a rate above zero")),
        ("adaptive", Account::adaptive()),
    ];
    let missed: Vec<String> = accounts
        .into_iter()
        .flat_map(|(name, account)| {
            let ours = run(incident, Layer::Ours(account));
            misses(incident, &ours, &alone).map(move |miss| format!("{name}: {miss}"))
        })
        .collect();
    assert!(missed.is_empty(), "{missed:#?}, where those alone made {alone:?}");
}

fn misses(incident: &Incident, ours: &Run, alone: &Run) -> impl Iterator<Item = String> + use<> {
    let per_answer = |run: &Run| run.sends / run.answered;
    let most = (1.02 * per_answer(alone)).max(1.0 + FEW / ours.asked);
    let part = if incident.attempt_timeout.is_some() { 0.5 } else { 0.25 };
    let failed = part * alone.failed;
    let fewer = ours.answered < alone.answered;
    let more = per_answer(ours) > most;
    let harder = incident.down >= LONG && ours.failed > failed;
    let checks = [
        (fewer, format!("answered {} of {}", ours.answered, ours.asked)),
        (more, format!("{:.3} sends per answer > {most:.3}", per_answer(ours))),
        (harder, format!("{} failed sends > {failed}", ours.failed)),
    ];
    checks.into_iter().filter_map(|(missed, how)| missed.then_some(how))
}

#[test]
fn an_outage_of_seconds_is_waited_out() {
    nobody_is_worse_off(&down(300, 20, 3, Fault::Status(500)));
}

#[test]
fn an_overload_is_waited_out_by_many_workers() {
    nobody_is_worse_off(&down(400, 50, 12, Fault::Status(503)));
}

#[test]
fn a_long_outage_is_waited_out_by_few_workers() {
    nobody_is_worse_off(&down(160, 8, 40, Fault::Status(529)));
}

#[test]
fn a_half_that_fails_costs_nobody_a_call() {
    nobody_is_worse_off(&incident(150, 20, [Outage::endless(Fault::Status(529)).share(0.5)]));
}

#[test]
fn a_third_that_fails_costs_nobody_a_call() {
    nobody_is_worse_off(&incident(
        200,
        20,
        [Outage::endless(Fault::Status(500)).share(1.0 / 3.0)],
    ));
}

#[test]
fn nine_tenths_that_fail_leave_each_call_its_attempts() {
    nobody_is_worse_off(&incident(60, 20, [Outage::endless(Fault::Status(503)).share(0.9)]));
}

#[test]
fn refusals_without_a_hint_are_waited_out() {
    nobody_is_worse_off(&down(300, 20, 3, Fault::Status(429)));
}

#[test]
fn refusals_with_a_hint_are_waited_out() {
    let fault = Fault::Hinted {
        status: 429,
        retry_after: 2,
    };
    nobody_is_worse_off(&down(300, 20, 6, fault));
}

#[test]
fn resets_are_waited_out() {
    nobody_is_worse_off(&down(200, 20, 15, Fault::ConnectionReset));
}

#[test]
fn hangs_that_are_cut_are_waited_out() {
    nobody_is_worse_off(&Incident {
        attempt_timeout: Some(5 * SECOND),
        ..down(200, 20, 15, Fault::Hang)
    });
}

#[test]
fn one_model_of_two_is_waited_for() {
    let outage = Outage::new(SECOND, 16 * SECOND, Fault::Status(529)).model("large");
    nobody_is_worse_off(&Incident {
        models: &["large", "small"],
        down: 15 * SECOND,
        ..incident(200, 20, [outage])
    });
}

#[test]
fn a_provider_that_flaps_loses_no_call() {
    let outages = (0..5).map(|n| {
        let from = SECOND + 5 * n * SECOND;
        Outage::new(from, from + SECOND, Fault::Status(500))
    });
    nobody_is_worse_off(&incident(400, 20, outages));
}

#[test]
fn a_poisonous_prompt_harms_itself_alone() {
    let poison = Outage::endless(Fault::Status(500)).prompts([5]);
    nobody_is_worse_off(&Incident {
        poisonous: Some(5),
        ..incident(200, 4, [poison])
    });
}

#[test]
fn an_outage_under_a_limit_is_waited_out() {
    let mut limited = down(120, 20, 15, Fault::Status(529));
    limited.model = limited.model.requests(Law::bucket(600, 60 * SECOND, 10));
    nobody_is_worse_off(&limited);
}
