//! What is lent against what is started, with a store that is a few lines long.

use std::hash::RandomState;
use std::task::Waker;

use proptest::prelude::*;

use super::super::super::lane::{Asked, Keyed, LaneNames};
use super::super::super::store::{Circuit, Facts, Learnt, Version};
use super::*;

fn rules(limits: Limits) -> Rules {
    Rules {
        limits,
        models: Vec::new(),
        slow_start: false,
        breaker: true,
        max_pause: Duration::from_secs(300),
        longest_shared_hint: Duration::MAX,
        quota_hold: None,
        ramp: None,
        guesses: true,
        max_lanes: 16,
    }
}

fn at(seconds: f64) -> Tick {
    Tick::default().plus_seconds(seconds)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An account that is shared, and its only lane.
fn shared(limits: Limits, fewest: u32) -> (State, u32) {
    let mut state = State::new(rules(limits), Tick::default());
    state.share(fewest);
    let names = LaneNames {
        by_credential: false,
        by: None,
        limited: Vec::new(),
    };
    let asked = Asked::by_hand(None);
    let key = names.key(&asked, &Keyed::Here(RandomState::new()));
    let lane = state.lane(key, || names.name(&asked), Tick::default());
    (state, lane)
}

fn per_minute(requests: u32) -> Limits {
    Limits::new().requests_per_minute(requests)
}

fn wait(state: &mut State, lane: u32, now: Tick) -> Place {
    let asked = state.try_start(lane, Weights::default(), false, None, None, now);
    assert!(matches!(asked, Ask::Wait));
    state.join(lane, Weights::default(), false, None).unwrap()
}

fn poll(state: &mut State, place: Place, now: Tick) -> Polled {
    state.poll(place, Waker::noop(), now, &mut Vec::new())
}

/// The store's clock is the own one.
fn reply(now: Tick, slots: &[u64]) -> Reply {
    Reply {
        clock: now.nanos() / 1_000,
        live: 1,
        slots: slots.iter().map(|due| ms(*due)).collect(),
        ..Reply::default()
    }
}

#[test]
fn a_start_is_made_when_it_is_due_and_not_without_having_been_lent() {
    let (mut state, lane) = shared(per_minute(600), 1);
    let now = at(1.0);
    let (first, second) = (wait(&mut state, lane, now), wait(&mut state, lane, now));
    assert!(state.is_due());
    let order = state.next_order(now).unwrap();
    assert_eq!(order.wanted, 2);
    assert!(
        matches!(poll(&mut state, first, now), Polled::Wait),
        "nothing is lent yet"
    );
    state.receive(&order, reply(now, &[0, 100]), now, &mut Vec::new());
    assert!(matches!(poll(&mut state, first, now), Polled::Answered(Ok(_))));
    assert!(matches!(poll(&mut state, second, at(1.0999)), Polled::Wait));
    assert_eq!(state.next_look(at(1.0999)).0.at, Some(at(1.1)));
    assert!(matches!(poll(&mut state, second, at(1.1)), Polled::Answered(Ok(_))));
}

/// A question is asked when something is wanted or new, and else from time to time.
#[test]
fn the_store_is_left_in_peace_when_there_is_nothing_to_ask() {
    let (mut state, _) = shared(per_minute(600), 1);
    let order = state.next_order(at(1.0)).unwrap();
    assert_eq!(order.wanted, 0);
    state.receive(&order, reply(at(1.0), &[]), at(1.0), &mut Vec::new());
    let next = state.next_order(at(1.0)).unwrap_err();
    assert_eq!(next, at(1.0) + store::LISTEN);
    assert_eq!(state.next_order(at(30.0)).map(|order| order.wanted), Ok(0));
    assert_eq!(state.next_order(at(30.0)), Err(at(30.0) + store::LISTEN_IDLE));
}

#[test]
fn without_its_store_a_process_spends_what_was_lent_and_then_its_part() {
    let (mut state, lane) = shared(per_minute(600), 4);
    let now = at(1.0);
    let places = [0; 3].map(|_| wait(&mut state, lane, now));
    let order = state.next_order(now).unwrap();
    state.receive(&order, reply(now, &[0, 100]), now, &mut Vec::new());
    assert!(matches!(poll(&mut state, places[0], now), Polled::Answered(Ok(_))));
    let order = state.next_order(at(1.5));
    let order = order.unwrap_or_else(|at| state.next_order(at).unwrap());
    // it was due at 1.1, and is forfeited by now; the next is due a part of the own spacing, half a second, later
    assert!(state.lose(order, 0.5, at(1.5), &mut Vec::new()));
    assert!(matches!(poll(&mut state, places[1], at(1.5)), Polled::Wait));
    let until = state.next_look(at(1.5)).0.at.expect("it waits for its own turn");
    let after = until.seconds_since(at(1.5));
    assert!((0.2..=0.3).contains(&after), "{after}");
    assert!(matches!(poll(&mut state, places[1], until), Polled::Answered(Ok(_))));
    assert!(matches!(poll(&mut state, places[2], until), Polled::Wait));
    let next = state.next_look(until).0.at.expect("it waits for its own turn");
    let spacing = next.seconds_since(until);
    assert!((0.48..=0.52).contains(&spacing), "a fifth of ten a second: {spacing}");
}

#[test]
fn a_newer_fact_counts_and_an_older_one_does_not() {
    let (mut state, lane) = shared(per_minute(600), 1);
    let told = |version, scale| Facts {
        rate: (
            Version(version),
            Some(Learnt {
                base: 99.0,
                guard: 0.0,
                scale,
                growing: false,
            }),
        ),
        circuit: (Version(0), Circuit::default()),
        ..Facts::default()
    };
    let mut hear = |facts: Facts, seconds: f64| {
        let order = state.next_order(at(seconds)).unwrap();
        let answer = Reply {
            facts,
            ..reply(at(seconds), &[])
        };
        state.receive(&order, answer, at(seconds), &mut Vec::new());
        state.lanes[lane as usize].rate.learnt().unwrap()
    };
    // the own configured rate stays, whatever another process is configured to
    assert!((hear(told(5, 0.5), 1.0) - 5.0).abs() < 1e-9);
    assert!((hear(told(4, 0.1), 2.0) - 5.0).abs() < 1e-9);
    assert!((hear(told(6, 0.25), 3.0) - 2.5).abs() < 1e-9);
}

/// A pause that is told to and fro does not grow by the time that telling takes.
#[test]
fn a_pause_does_not_creep() {
    let (mut state, lane) = shared(per_minute(600), 1);
    for step in 0..50u32 {
        let seconds = 1.0 + f64::from(step);
        let order = match state.next_order(at(seconds)) {
            Ok(order) => order,
            Err(_) => continue,
        };
        let left = order
            .facts
            .pause
            .max(ms(100_000).saturating_sub(ms(u64::from(step) * 1_000)));
        let answer = Reply {
            facts: Facts {
                pause: left + ms(20),
                ..Facts::default()
            },
            ..reply(at(seconds), &[])
        };
        state.receive(&order, answer, at(seconds + 0.02), &mut Vec::new());
    }
    let until = state.lanes[lane as usize].pause.until(at(51.0)).unwrap();
    assert!(until <= at(101.1), "{until:?}");
}

proptest! {
    /// Whatever happens in whatever order, there are no more starts than were lent, none before its time, and none so late that
    /// those of a sleeper come at once.
    #[test]
    fn starts_are_those_that_were_lent(steps in proptest::collection::vec((0u8..5, 1u64..400), 1..200)) {
        let (mut state, lane) = shared(per_minute(6_000), 1);
        let (mut now, mut next) = (at(1.0), at(1.0));
        let (mut waiting, mut flying) = (Vec::new(), Vec::new());
        let (mut lent, mut started) = (Vec::new(), Vec::new());
        for (what, millis) in steps {
            match what {
                0 => waiting.push(wait_or_start(&mut state, lane, now, &mut started, &mut flying)),
                1 => now = now + ms(millis),
                2 => {
                    if let Ok(order) = state.next_order(now) {
                        let mut slots = Vec::new();
                        for _ in 0..order.wanted {
                            next = next.max(now);
                            if next.since(now) > Duration::from_secs(1) { break }
                            slots.push(next.since(now));
                            lent.push(next);
                            next = next + ms(10);
                        }
                        let answer = Reply { slots, ..reply(now, &[]) };
                        state.receive(&order, answer, now, &mut Vec::new());
                    }
                }
                3 => if let Some(place) = waiting.pop().flatten() {
                    state.cancel(place, now, &mut Vec::new());
                },
                _ => if let Some(grant) = flying.pop() {
                    state.finish(&grant, now, &mut Vec::new());
                },
            }
            waiting.retain(|place| {
                let Some(place) = place else { return false };
                match poll(&mut state, *place, now) {
                    Polled::Answered(Ok(grant)) => { started.push(now); flying.push(grant); false }
                    Polled::Answered(Err(_)) => false,
                    Polled::Wait => true,
                }
            });
        }
        prop_assert!(started.len() <= lent.len());
        for (start, due) in started.iter().zip(&lent) {
            prop_assert!(start >= due);
        }
        for from in &started {
            let soon = started.iter().filter(|at| *at >= from && at.since(*from) < ms(100)).count();
            prop_assert!(soon <= 14, "{} within a tenth of a second", soon);
        }
    }
}

fn wait_or_start(
    state: &mut State,
    lane: u32,
    now: Tick,
    started: &mut Vec<Tick>,
    flying: &mut Vec<Grant>,
) -> Option<Place> {
    let woken = &mut Vec::new();
    let blocked = state.settle(now, woken);
    match state.try_start(lane, Weights::default(), false, None, blocked, now) {
        Ask::Granted(grant) => {
            started.push(now);
            flying.push(grant);
            None
        }
        Ask::Refused(_) => None,
        Ask::Wait => state.join(lane, Weights::default(), false, None),
    }
}
