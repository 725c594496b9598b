//! Every limiter of a simulated provider admits what its law allows, all of it and nothing more.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use testbed::sim::{
    Call, Case, Charge, Fault, Headers, Hint, Latency, Law, Model, Outcome, Output, Provider, Refusal, Reply, Shape,
    Slot, Tokens, cases,
};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn provider(model: Model) -> Provider {
    Provider::new(model, 1)
}

fn openai() -> Model {
    Model::new(Shape::OpenAi)
}

/// The exact wait that a refusal states, in milliseconds.
fn wait(reply: &Reply) -> Option<u64> {
    reply.header("retry-after-ms").map(|wait| wait.parse().unwrap())
}

fn refused(reply: &Reply) -> Option<Refusal> {
    match reply.outcome {
        Outcome::Admitted => None,
        Outcome::Refused(refusal) => Some(refusal),
        other => panic!("{other:?}"),
    }
}

/// What the law says of a call at `now`, from the whole history of admitted ones, all in milliseconds.
fn allows(law: Law, phase: u64, admitted: &[u64], now: u64) -> bool {
    let millis = |per: Duration| u64::try_from(per.as_millis()).unwrap();
    match law {
        Law::Bucket { amount, per, burst } => {
            // A bucket is a law for every stretch that ends now: no more than the burst and what flowed back in it.
            let (per, count) = (millis(per), admitted.len());
            (0..count).all(|first| {
                let inside = u64::try_from(count - first).unwrap() + 1;
                inside * per <= burst * per + amount * (now - admitted[first])
            }) && burst > 0
        }
        Law::Window { amount, per } => {
            let window = |at: u64| (at + phase) / millis(per);
            let inside = admitted.iter().filter(|at| window(**at) == window(now)).count();
            u64::try_from(inside).unwrap() < amount
        }
        Law::Sliding { amount, per } => {
            let inside = admitted.iter().filter(|at| **at + millis(per) > now).count();
            u64::try_from(inside).unwrap() < amount
        }
    }
}

#[test]
fn decisions_are_those_of_the_law_and_hints_are_tight() {
    let laws = [
        Law::bucket(120, MINUTE, 1),
        Law::bucket(120, MINUTE, 10),
        Law::bucket(120, MINUTE, 60),
        Law::bucket(7, ms(1000), 3),
        Law::window(2, SECOND),
        Law::window(20, 10 * SECOND),
        Law::window(120, MINUTE),
        Law::sliding(20, 10 * SECOND),
        Law::sliding(3, SECOND),
    ];
    for (law, seed) in laws.into_iter().flat_map(|law| (0..8).map(move |seed| (law, seed))) {
        let mut rng = StdRng::seed_from_u64(seed);
        let phase = rng.random_range(0..60_000);
        let mut provider = provider(openai().requests(law).phase(ms(phase)));
        let (mut now, mut admitted, mut hint) = (0, Vec::new(), None);
        for _ in 0..400 {
            // Crowds and pauses, and often the very moment that the hint named, or the one before it.
            now += match (rng.random_range(0..10), hint) {
                (0..3, Some(hint)) => hint,
                (3, Some(hint)) => hint - 1,
                (0..8, _) => rng.random_range(0..60),
                _ => rng.random_range(0..4000),
            };
            let reply = provider.arrive(ms(now), &Call::new(1));
            let allowed = allows(law, phase, &admitted, now);
            assert_eq!(
                refused(&reply).is_none(),
                allowed,
                "{law:?}, seed {seed}, at {now}, {admitted:?}"
            );
            hint = wait(&reply);
            match hint {
                None => admitted.push(now),
                Some(hint) => {
                    assert!(allows(law, phase, &admitted, now + hint), "{law:?}: too early");
                    assert!(!allows(law, phase, &admitted, now + hint - 1), "{law:?}: too late");
                }
            }
        }
        assert_eq!(
            provider.tally().refused_for(Refusal::Requests),
            provider.tally().refused()
        );
        assert_eq!(provider.tally().admitted, u64::try_from(admitted.len()).unwrap());
    }
}

/// Sends each of so many calls at the first moment that the provider itself names; when the last one is answered.
fn ideal(provider: &mut Provider, calls: u64, latency: Duration) -> Duration {
    let (mut now, mut under_way) = (0, std::collections::VecDeque::<(u64, Slot)>::new());
    let latency = u64::try_from(latency.as_millis()).unwrap();
    for _ in 0..calls {
        loop {
            while under_way.front().is_some_and(|(end, _)| *end <= now) {
                let (end, slot) = under_way.pop_front().unwrap();
                provider.finish(ms(end), slot);
            }
            let mut reply = provider.arrive(ms(now), &Call::new(1));
            match reply.outcome {
                Outcome::Admitted => {
                    under_way.push_back((now + latency, reply.slot.take().unwrap()));
                    break;
                }
                Outcome::Refused(Refusal::Concurrency) => now = under_way.front().unwrap().0,
                Outcome::Refused(_) => now += wait(&reply).unwrap(),
                _ => now += 1,
            }
        }
    }
    ms(now + latency)
}

#[test]
fn the_bound_is_the_closed_form_and_an_ideal_client_attains_it() {
    let latency = 2 * SECOND;
    let bounds = cases().map(|case| {
        let bound = provider(case.model(120)).bound(600, latency);
        assert_eq!(
            ideal(&mut provider(case.model(120)), 600, latency),
            bound,
            "{}",
            case.name()
        );
        (case.name(), bound.as_secs_f64())
    });
    let expected = [
        ("bucket_1", 301.5),
        ("bucket_10", 297.0),
        ("bucket_60", 272.0),
        ("per_1s", 301.0),
        ("per_10s", 292.0),
        ("fixed_minute", 242.0),
        ("sliding_minute", 242.0),
        // Somebody else's call comes half a second after each token but one: (600 - 10) calls at one a second.
        ("half", 592.0),
    ];
    assert_eq!(bounds, expected);
    let fixed = |phase| provider(Case::FixedMinute.model(120).phase(phase));
    assert_eq!(fixed(45 * SECOND).bound(600, latency), 242 * SECOND - 45 * SECOND);
    assert_eq!(fixed(45 * SECOND).bound(120, latency), latency);
    assert_eq!(fixed(45 * SECOND).bound(0, latency), Duration::ZERO);
}

#[test]
fn the_bound_holds_for_limits_together() {
    let latency = 2 * SECOND;
    let models = [
        openai()
            .requests(Law::bucket(120, MINUTE, 10))
            .requests(Law::window(1, SECOND)),
        openai().requests(Law::bucket(120, MINUTE, 10)).concurrency(3),
        openai()
            .requests(Law::window(20, 10 * SECOND))
            .outage(5 * SECOND, 25 * SECOND, Fault::Status(529)),
        openai().growth(5, 150, 10 * SECOND),
        openai()
            .requests(Law::sliding(20, 10 * SECOND))
            .somebody_else(1, SECOND),
        openai()
            .requests(Law::window(20, 10 * SECOND))
            .somebody_else(7, 10 * SECOND),
    ];
    for model in models {
        let model = model.latency(Latency::Fixed(latency));
        let bound = provider(model.clone()).bound(200, latency);
        assert_eq!(ideal(&mut provider(model.clone()), 200, latency), bound, "{model:?}");
    }
    assert_eq!(provider(openai().daily(10)).bound(10, latency), latency);
    assert_eq!(
        provider(openai().daily(10)).bound(11, latency),
        24 * 60 * MINUTE + latency
    );
    let none = openai().requests(Law::bucket(1, SECOND, 1)).somebody_else(2, SECOND);
    assert_eq!(provider(none).bound(9, latency), Duration::MAX);
}

#[test]
fn a_seeded_phase_is_anywhere_in_the_window_and_counts_in_the_bound() {
    let of = |seed| Provider::new(Case::FixedMinute.model(120).seeded_phase(), seed);
    let phases: Vec<_> = (0..20).map(|seed| of(seed).phase()).collect();
    assert!(phases.iter().all(|phase| *phase < MINUTE));
    assert!(phases.iter().any(|phase| *phase < MINUTE / 3) && phases.iter().any(|phase| *phase > MINUTE * 2 / 3));
    assert_eq!(of(3).phase(), of(3).phase());
    assert_eq!(of(3).bound(240, SECOND), MINUTE - of(3).phase() + SECOND);
}

#[test]
fn somebody_else_keeps_their_share_however_hard_one_tries() {
    let mut provider = provider(Case::Half.model(120));
    let (mut admitted, seconds) = (0, 300);
    for now in 0..seconds * 100 {
        admitted += u64::from(refused(&provider.arrive(ms(now * 10), &Call::new(1))).is_none());
    }
    assert!((seconds..=seconds + 10).contains(&admitted), "{admitted}");
}

#[test]
fn a_refusal_that_counts_takes_what_has_come_back() {
    for law in [Law::bucket(120, MINUTE, 2), Law::sliding(2, SECOND)] {
        let mut provider = provider(openai().requests(law).counting_refusals());
        // A client that does not stop is never let in again.
        let admitted = (0..1000).filter(|n| refused(&provider.arrive(ms(n * 100), &Call::new(1))).is_none());
        assert_eq!(admitted.count(), 2, "{law:?}");
        // One that waits is, at the moment it was told.
        let last = provider.arrive(ms(100_000), &Call::new(1));
        let wait = wait(&last).unwrap();
        assert!(wait <= 1000);
        assert_eq!(refused(&provider.arrive(ms(100_000 + wait), &Call::new(1))), None);
    }
}

#[test]
fn limits_charge_all_or_none() {
    let tokens = Law::bucket(60_000, MINUTE, 1000);
    let model = openai()
        .requests(Law::bucket(120, MINUTE, 5))
        .tokens(Tokens::Input, tokens, Charge::OnProduce);
    let mut provider = provider(model);
    assert_eq!(refused(&provider.arrive(ms(0), &Call::new(800))), None);
    for _ in 0..10 {
        let reply = provider.arrive(ms(0), &Call::new(400));
        assert_eq!((refused(&reply), wait(&reply)), (Some(Refusal::InputTokens), Some(200)));
        assert_eq!(reply.header("x-ratelimit-remaining-requests"), Some("4"));
    }
    let large = provider.arrive(ms(0), &Call::new(1001));
    assert_eq!((refused(&large), wait(&large)), (Some(Refusal::TooLarge), None));
    assert!(large.text().contains("Limit 1000, Requested 1001"), "{}", large.text());
    assert_eq!(refused(&provider.arrive(ms(200), &Call::new(400))), None);
}

#[test]
fn tokens_of_answers_are_charged_by_the_rule() {
    let minute = Law::bucket(60_000, MINUTE, 10_000);
    let call = Call {
        max_tokens: Some(4000),
        output_tokens: Some(1000),
        ..Call::new(10)
    };
    let run = |charge| {
        let model = openai()
            .tokens(Tokens::Output, minute, charge)
            .latency(Latency::Fixed(ms(2000)));
        let mut provider = provider(model);
        let mut replies: Vec<_> = (0..3).map(|_| provider.arrive(ms(0), &call)).collect();
        let admitted = replies.iter().filter(|reply| refused(reply).is_none()).count();
        let hint = wait(&replies[2]);
        for slot in replies.iter_mut().filter_map(|reply| reply.slot.take()) {
            provider.finish(ms(2000), slot);
        }
        let at_end = provider.arrive(ms(2000), &call);
        let remaining: u64 = at_end.header("x-ratelimit-remaining-tokens").unwrap().parse().unwrap();
        (admitted, hint, remaining)
    };
    // 1000 tokens a second come back. Upfront the third call has to wait for 2000 tokens.
    assert_eq!(run(Charge::UpfrontFinal), (2, Some(2000), 0));
    // 2000 left, 2000 back, 2 · 3000 given back, 4000 charged for the last.
    assert_eq!(run(Charge::UpfrontSettled), (2, Some(2000), 6000));
    // 3 · 1000 produced while 2000 came back.
    assert_eq!(run(Charge::OnProduce), (3, None, 9000));
}

#[test]
fn a_limit_charged_as_tokens_appear_can_be_driven_into_debt() {
    let model = openai()
        .tokens(Tokens::Output, Law::bucket(60_000, MINUTE, 1000), Charge::OnProduce)
        .latency(Latency::Fixed(ms(1000)));
    let call = Call {
        output_tokens: Some(500),
        ..Call::new(1)
    };
    let mut provider = provider(model);
    let mut slots: Vec<_> = (0..10).filter_map(|_| provider.arrive(ms(0), &call).slot).collect();
    assert_eq!(slots.len(), 10);
    // 5 · 500 produced so far, 500 back.
    assert_eq!(wait(&provider.arrive(ms(500), &call)), Some(1001));
    // A call that is given up produces no more: nine produce 250 each until the end.
    provider.finish(ms(500), slots.pop().unwrap());
    assert_eq!(wait(&provider.arrive(ms(1000), &call)), Some(2751));
    assert_eq!((provider.tally().abandoned, provider.tally().output_tokens), (1, 250));
}

#[test]
fn concurrency_is_looked_at_first_and_freed_at_the_end() {
    let model = openai().requests(Law::bucket(60, MINUTE, 10)).concurrency(2);
    let mut provider = provider(model.headers(Headers::PerMinute));
    let mut slots: Vec<_> = (0..2)
        .filter_map(|_| provider.arrive(ms(0), &Call::new(1)).slot)
        .collect();
    for _ in 0..20 {
        let reply = provider.arrive(ms(1), &Call::new(1));
        assert_eq!((refused(&reply), wait(&reply)), (Some(Refusal::Concurrency), None));
        assert_eq!(reply.header("x-ratelimit-remaining-requests"), Some("8"));
    }
    provider.finish(ms(2), slots.pop().unwrap());
    assert_eq!(refused(&provider.arrive(ms(2), &Call::new(1))), None);
    assert_eq!(
        refused(&provider.arrive(ms(2), &Call::new(1))),
        Some(Refusal::Concurrency)
    );
    let tally = provider.tally();
    assert_eq!((tally.refused_for(Refusal::Concurrency), tally.refused()), (21, 21));
    assert_eq!((tally.in_flight, tally.peak_in_flight, tally.abandoned), (2, 2, 1));
    // Another key has slots of its own.
    let other = Call { key: 5, ..Call::new(1) };
    assert_eq!(refused(&provider.arrive(ms(2), &other)), None);
}

#[test]
fn a_day_is_a_quota_and_growth_is_not_a_level() {
    let mut day = provider(openai().daily(3).hint(Hint::Exact));
    let replies: Vec<_> = (0..4).map(|_| day.arrive(ms(0), &Call::new(1))).collect();
    assert_eq!(replies.iter().filter_map(refused).collect::<Vec<_>>(), [Refusal::Quota]);
    assert!(replies[3].text().contains("insufficient_quota") && wait(&replies[3]).is_none());
    assert_eq!(refused(&day.arrive(24 * 60 * MINUTE, &Call::new(1))), None);

    let mut growth = provider(openai().growth(10, 200, SECOND));
    let per_second = |from: u64| {
        let replies: Vec<_> = (0..100).map(|n| growth.arrive(ms(from + n), &Call::new(1))).collect();
        let slow_down = replies
            .iter()
            .filter(|reply| reply.text().contains("slow_down"))
            .count();
        (100 - slow_down, replies.iter().find_map(wait))
    };
    let seen = [0, 1000, 2000, 3000, 4000, 7000].map(per_second);
    let admitted = seen.map(|(admitted, _)| admitted);
    assert_eq!(admitted, [10, 20, 40, 80, 100, 10]);
    assert_eq!(seen[0].1, Some(990));
}

#[test]
fn outages_come_and_go_and_charge_nothing() {
    let model = openai()
        .requests(Law::window(3, MINUTE))
        .outage(ms(1000), ms(2000), Fault::Status(500))
        .outage(ms(2000), ms(3000), Fault::Hang);
    let mut provider = provider(model);
    let outcomes =
        [0, 999, 1000, 1999, 2000, 2999, 3000, 3001].map(|now| provider.arrive(ms(now), &Call::new(1)).outcome);
    let (ok, failed, hung) = (Outcome::Admitted, Outcome::Failed(500), Outcome::Hung);
    let refused = Outcome::Refused(Refusal::Requests);
    assert_eq!(outcomes, [ok, ok, failed, failed, hung, hung, ok, refused]);
    assert_eq!((provider.tally().failed, provider.tally().refused()), (4, 1));
}

#[test]
fn cases_keep_their_allowance() {
    for (allowance, calls) in [(90, 900), (50, 500), (120, 1200), (7, 70)] {
        for case in cases() {
            let bound = provider(case.model(allowance)).bound(calls, Duration::ZERO);
            // Ten minutes, less what can be had at once; twice that for half.
            let expected = if case == Case::Half { 1200.0 } else { 600.0 };
            let slack = bound.as_secs_f64() - expected;
            assert!(
                slack <= 0.0 && slack > -f64::from(60 + 3600 / u32::try_from(allowance).unwrap()),
                "{case:?} {bound:?}"
            );
        }
    }
}

#[test]
fn answers_have_the_length_that_the_seed_draws() {
    let lengths = |seed, output| {
        let mut provider = Provider::new(openai().output(output), seed);
        let call = Call {
            max_tokens: Some(100_000),
            ..Call::new(1)
        };
        let mut length = || {
            let text = provider.arrive(ms(0), &call).text();
            let tokens = text.split("\"completion_tokens\":").nth(1).unwrap();
            tokens.split(',').next().unwrap().parse::<u64>().unwrap()
        };
        (0..2001).map(|_| length()).collect::<Vec<_>>()
    };
    let mut drawn = lengths(4, Output::usual());
    assert_eq!(drawn, lengths(4, Output::usual()));
    assert_ne!(drawn, lengths(5, Output::usual()));
    drawn.sort_unstable();
    let mean = drawn.iter().sum::<u64>() / 2001;
    assert!(
        (280..=320).contains(&drawn[1000]) && (385..=440).contains(&mean),
        "{} {mean}",
        drawn[1000]
    );
    assert!(lengths(4, Output::Fixed(12)).iter().all(|length| *length == 12));
}

#[test]
fn tokens_that_are_settled_are_free_again_in_every_law() {
    let laws = [
        Law::bucket(1000, 10 * SECOND, 1000),
        Law::window(1000, 10 * SECOND),
        Law::sliding(1000, 10 * SECOND),
    ];
    for (law, seed) in laws.into_iter().flat_map(|law| (0..8).map(move |seed| (law, seed))) {
        let mut rng = StdRng::seed_from_u64(seed);
        let model = openai().tokens(Tokens::Total, law, Charge::UpfrontSettled);
        let mut provider = provider(model.latency(Latency::Fixed(Duration::ZERO)));
        // When each call came, and what it costs by now.
        let (mut now, mut charged, mut open) = (0, Vec::<(u64, u64)>::new(), Vec::new());
        for _ in 0..400 {
            now += rng.random_range(0..800);
            if rng.random::<bool>() && !open.is_empty() {
                let (index, slot, cost): (usize, Slot, u64) = open.swap_remove(rng.random_range(0..open.len()));
                provider.finish(ms(now), slot);
                charged[index].1 = cost;
            }
            let (input, max, output) = (
                rng.random_range(1..150),
                rng.random_range(1..300),
                rng.random_range(0..300),
            );
            let call = Call {
                max_tokens: Some(max),
                output_tokens: Some(output),
                ..Call::new(input)
            };
            let before = charged.iter();
            let used: u64 = match law {
                Law::Window { .. } => before
                    .filter(|(at, _)| at / 10_000 == now / 10_000)
                    .map(|(_, cost)| cost)
                    .sum(),
                _ => before.filter(|(at, _)| at + 10_000 > now).map(|(_, cost)| cost).sum(),
            };
            let mut reply = provider.arrive(ms(now), &call);
            let admitted = refused(&reply).is_none();
            match law {
                // What a bucket takes back may overflow, so that only one side is sure.
                Law::Bucket { .. } => assert!(admitted || used + input + max > 1000, "seed {seed} at {now}"),
                _ => assert_eq!(admitted, used + input + max <= 1000, "{law:?}, seed {seed}, at {now}"),
            }
            if let Some(slot) = reply.slot.take() {
                open.push((charged.len(), slot, input + output.min(max)));
                charged.push((now, input + max));
            }
        }
    }
}
