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
        learning: true,
        breaker: CircuitBreaker::new(),
        budget: RetryBudget::new(),
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
    let asked = state.try_start(lane, &StartRequest::default(), None, now);
    assert!(matches!(asked, Ask::Wait));
    state.join(lane, StartRequest::default(), now).unwrap()
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
    match state.try_start(lane, &StartRequest::default(), blocked, now) {
        Ask::Granted(grant) => {
            started.push(now);
            flying.push(grant);
            None
        }
        Ask::Refused(_) => None,
        Ask::Wait => state.join(lane, StartRequest::default(), now),
    }
}

/// Hears of a store's answer, to whatever is asked next.
fn hear(state: &mut State, seconds: f64, change: impl FnOnce(&Order, &mut Reply)) -> Order {
    let order = state.next_order(at(seconds)).expect("something is asked");
    let mut answer = Reply {
        facts: order.facts,
        ..reply(at(seconds), &[])
    };
    change(&order, &mut answer);
    state.receive(&order, answer, at(seconds), &mut Vec::new());
    order
}

fn open_for(left: u64) -> Circuit {
    Circuit {
        open: true,
        left: ms(left),
        lasted: ms(2_000),
        patience: ms(400),
        silent: false,
    }
}

fn start(state: &mut State, lane: u32, now: Tick) -> Option<Grant> {
    match state.try_start(lane, &StartRequest::default(), None, now) {
        Ask::Granted(grant) => Some(grant),
        Ask::Refused(_) | Ask::Wait => None,
    }
}

fn comes_back(state: &mut State, grant: &mut Grant, signal: Signal, call: u64, now: Tick) -> Changes {
    let heard = Heard {
        verdict: None,
        requests: None,
        answer: None,
        unasked: 0,
        signal,
        call,
        given_up: false,
    };
    state.hear(grant, heard, now, &mut Vec::new())
}

fn is_open(state: &State, lane: u32) -> bool {
    state.lanes[lane as usize].breaker.open_since().is_some()
}

/// Nobody limits anything here but the outage.
#[test]
fn in_an_outage_a_start_is_made_only_as_the_probe_that_is_lent() {
    let (mut state, lane) = shared(Limits::new(), 1);
    hear(&mut state, 1.0, |_, reply| {
        reply.facts.circuit = (Version(1), open_for(500))
    });
    let place = wait(&mut state, lane, at(1.1));
    // its time has come, but another process may have it
    assert!(matches!(poll(&mut state, place, at(1.6)), Polled::Wait));
    let order = hear(&mut state, 1.6, |_, reply| reply.again = Some(ms(900)));
    assert!(order.holds && order.wanted == 1);
    assert!(matches!(poll(&mut state, place, at(1.7)), Polled::Wait));
    let lent = |_: &Order, reply: &mut Reply| {
        (reply.probe, reply.slots) = (true, vec![Duration::ZERO]);
        reply.facts.circuit = (Version(2), open_for(1_400));
    };
    hear(&mut state, 2.6, lent);
    let behind = wait(&mut state, lane, at(2.6));
    // the newest goes, and a moment later too; the other waits for what comes of it
    assert!(matches!(poll(&mut state, behind, at(2.8)), Polled::Answered(Ok(grant)) if grant.token.is_probe()));
    assert!(matches!(poll(&mut state, place, at(2.9)), Polled::Wait));
}

#[test]
fn what_is_lent_is_given_back_once_nothing_gets_through() {
    let (mut state, lane) = shared(per_minute(6_000), 1);
    let places = [0; 3].map(|_| wait(&mut state, lane, at(1.0)));
    hear(&mut state, 1.0, |_, reply| {
        reply.slots = vec![ms(600), ms(610), ms(620)]
    });
    hear(&mut state, 1.5, |_, reply| {
        reply.facts.circuit = (Version(1), open_for(100))
    });
    for place in places {
        assert!(matches!(poll(&mut state, place, at(1.62)), Polled::Wait));
    }
    assert_eq!(hear(&mut state, 1.63, |_, _| {}).unused, 3);
}

/// The failures of several processes are one outage, if there is one here too.
#[test]
fn failures_of_all_processes_open_it() {
    let all = RowEvidence {
        failures: 20,
        calls: 12,
        lasted: ms(700),
    };
    let (mut state, lane) = shared(Limits::new(), 4);
    hear(&mut state, 1.0, |_, reply| reply.row = all);
    assert!(!is_open(&state, lane), "nothing has failed here");
    let mut grant = start(&mut state, lane, at(1.5)).unwrap();
    comes_back(&mut state, &mut grant, Signal::Failure, 1, at(1.55));
    let order = hear(&mut state, 1.6, |_, reply| {
        reply.row = RowEvidence { lasted: ms(300), ..all };
    });
    assert_eq!((order.row.failures, order.row.calls), (1, 1));
    assert!(
        !is_open(&state, lane),
        "the others may not have had the time to contradict"
    );
    let order = hear(&mut state, 1.7, |_, reply| reply.row = all);
    assert_eq!(order.row.failures, 0, "it is told once");
    assert!(is_open(&state, lane));
    let told = hear(&mut state, 1.8, |_, _| {}).facts.circuit;
    assert!(told.0 == Version(1) && told.1.open);
}

#[test]
fn a_process_whose_sends_get_through_does_not_hold() {
    let (mut state, lane) = shared(Limits::new(), 2);
    let mut grant = start(&mut state, lane, at(1.0)).unwrap();
    comes_back(&mut state, &mut grant, Signal::Success, 1, at(1.1));
    let open = |_: &Order, reply: &mut Reply| reply.facts.circuit = (Version(1), open_for(500));
    let order = hear(&mut state, 1.2, open);
    assert_eq!(order.succeeded, Some(ms(200)));
    assert!(!is_open(&state, lane));
    let mut grant = start(&mut state, lane, at(1.3)).unwrap();
    let order = hear(&mut state, 1.7, open);
    assert!(
        !order.holds && order.facts.circuit.0 == Version(1),
        "it has heard, and goes on"
    );
    // until it fails here too
    comes_back(&mut state, &mut grant, Signal::Failure, 2, at(1.8));
    hear(&mut state, 1.9, open);
    assert!(is_open(&state, lane));
}

/// Two have changed it at once: the one that came first to the store counts for both.
#[test]
fn of_two_changes_at_once_the_first_counts() {
    let (mut state, lane) = shared(Limits::new(), 2);
    hear(&mut state, 1.0, |_, reply| {
        reply.facts.circuit = (Version(1), open_for(0))
    });
    let _waits = wait(&mut state, lane, at(1.0));
    hear(&mut state, 1.1, |_, reply| {
        (reply.probe, reply.slots) = (true, vec![Duration::ZERO]);
        reply.facts.circuit = (Version(2), open_for(1_400));
    });
    let mut probe = match poll(&mut state, _waits, at(1.1)) {
        Polled::Answered(Ok(probe)) => probe,
        _ => panic!("it is lent"),
    };
    comes_back(&mut state, &mut probe, Signal::Failure, 1, at(1.2));
    assert!(is_open(&state, lane));
    let order = hear(&mut state, 1.3, |order, reply| {
        reply.facts.circuit = (order.facts.circuit.0, Circuit::default());
    });
    assert!(order.facts.circuit == (Version(3), order.facts.circuit.1) && order.facts.circuit.1.open);
    assert!(!is_open(&state, lane));
}

/// What came of the probe is told when it is known, and not again when its answer has been read to the end: by then another
/// may probe.
#[test]
fn the_end_of_a_probe_is_told_once() {
    for (signal, open) in [(Signal::Failure, true), (Signal::Success, false)] {
        let (mut state, lane) = shared(Limits::new(), 2);
        hear(&mut state, 1.0, |_, reply| {
            reply.facts.circuit = (Version(1), open_for(0))
        });
        let place = wait(&mut state, lane, at(1.0));
        hear(&mut state, 1.1, |_, reply| {
            (reply.probe, reply.slots) = (true, vec![Duration::ZERO]);
            reply.facts.circuit = (Version(2), open_for(1_400));
        });
        let Polled::Answered(Ok(mut probe)) = poll(&mut state, place, at(1.1)) else {
            panic!("it is lent");
        };
        state.is_due();
        comes_back(&mut state, &mut probe, signal, 1, at(1.2));
        assert!(state.is_due(), "at once");
        let told = hear(&mut state, 1.2, |_, _| {}).facts.circuit;
        assert_eq!((told.0, told.1.open), (Version(3), open));
        state.finish(&probe, at(1.3), &mut Vec::new());
        assert_eq!(hear(&mut state, 2.0, |_, _| {}).facts.circuit.0, Version(3));
    }
}

/// One that is dropped before anything is known of it is told, so that another can probe.
#[test]
fn a_probe_without_an_end_is_told() {
    let (mut state, lane) = shared(Limits::new(), 2);
    hear(&mut state, 1.0, |_, reply| {
        reply.facts.circuit = (Version(1), open_for(0))
    });
    let place = wait(&mut state, lane, at(1.0));
    hear(&mut state, 1.1, |_, reply| {
        (reply.probe, reply.slots) = (true, vec![Duration::ZERO]);
        reply.facts.circuit = (Version(2), open_for(1_400));
    });
    let Polled::Answered(Ok(probe)) = poll(&mut state, place, at(1.1)) else {
        panic!("it is lent");
    };
    // at once: nothing but that has changed
    state.finish(&probe, at(1.1), &mut Vec::new());
    let told = hear(&mut state, 1.2, |_, _| {}).facts.circuit;
    assert!(told.0 == Version(3) && told.1.left.is_zero());
}

/// One that is in flight for so long has got through, and the others need not wait for its end.
#[test]
fn a_probe_that_survives_is_told() {
    let (mut state, lane) = shared(Limits::new(), 2);
    hear(&mut state, 1.0, |_, reply| {
        reply.facts.circuit = (Version(1), open_for(0))
    });
    let place = wait(&mut state, lane, at(1.0));
    hear(&mut state, 1.1, |_, reply| {
        (reply.probe, reply.slots) = (true, vec![Duration::ZERO]);
        reply.facts.circuit = (Version(2), open_for(1_400));
    });
    let Polled::Answered(Ok(_probe)) = poll(&mut state, place, at(1.1)) else {
        panic!("it is lent");
    };
    let told = |state: &mut State, seconds| hear(state, seconds, |_, _| {}).facts.circuit;
    assert_eq!(
        told(&mut state, 1.4).0,
        Version(2),
        "others failed after a tenth of a second"
    );
    wait(&mut state, lane, at(1.45));
    let look = |state: &mut State, now| {
        state.is_due();
        state.settle(now, &mut Vec::new());
        state.is_due()
    };
    assert!(!look(&mut state, at(1.49)) && look(&mut state, at(1.51)), "at once");
    assert_eq!(told(&mut state, 1.6).0, Version(3));
    assert!(!is_open(&state, lane));
}

/// A silence is evidence for those who wait no longer, wherever it was met.
#[test]
fn a_silence_heard_of_holds_only_those_that_wait_no_longer() {
    let (mut state, lane) = shared(Limits::new(), 2);
    hear(&mut state, 1.0, |_, reply| {
        reply.facts.circuit = (
            Version(1),
            Circuit {
                patience: ms(3_000),
                silent: true,
                ..open_for(5_000)
            },
        );
    });
    let asks = |state: &mut State, timeout| {
        let request = StartRequest::default().answered_within(timeout);
        matches!(state.try_start(lane, &request, None, at(1.1)), Ask::Granted(_))
    };
    assert!(!asks(&mut state, Some(ms(3_000))));
    assert!(asks(&mut state, Some(ms(3_001))) && asks(&mut state, None));
}

/// A start that was lent to a call that need not wait is no probe for one that must.
#[test]
fn what_is_lent_in_a_silence_is_no_probe() {
    let (mut state, lane) = shared(per_minute(600), 2);
    let waits = |state: &mut State, timeout| {
        let request = StartRequest::default().answered_within(timeout);
        state.join(lane, request, at(1.0)).unwrap()
    };
    waits(&mut state, None);
    let held = waits(&mut state, Some(ms(1_000)));
    let silent = Circuit {
        patience: ms(3_000),
        silent: true,
        ..open_for(0)
    };
    let silence = |_: &Order, reply: &mut Reply| reply.facts.circuit = (Version(1), silent);
    hear(&mut state, 1.0, silence);
    let order = hear(&mut state, 1.2, |order, reply| {
        silence(order, reply);
        reply.slots = vec![Duration::ZERO];
    });
    assert!(!order.holds);
    assert!(matches!(poll(&mut state, held, at(1.2)), Polled::Wait));
}

/// Once another's probe got through, one call at a time starts here, and two after the first.
#[test]
fn each_process_resumes_with_one() {
    let (mut state, lane) = shared(Limits::new(), 4);
    hear(&mut state, 1.0, |_, reply| {
        reply.facts.circuit = (Version(1), open_for(500))
    });
    hear(&mut state, 1.5, |_, reply| {
        reply.facts.circuit = (Version(2), Circuit::default())
    });
    let mut first = start(&mut state, lane, at(1.5)).unwrap();
    assert!(start(&mut state, lane, at(1.5)).is_none());
    comes_back(&mut state, &mut first, Signal::Success, 1, at(1.6));
    let mut both = [0; 2].map(|_| start(&mut state, lane, at(1.6)).unwrap());
    assert!(start(&mut state, lane, at(1.6)).is_none());
    // it was luck: five failures in a row show that, wherever they are met
    let row = |failures| RowEvidence {
        failures,
        calls: failures,
        lasted: ms(150),
    };
    hear(&mut state, 1.64, |_, reply| reply.row = row(5));
    assert!(!is_open(&state, lane), "not here");
    for (grant, call) in both.iter_mut().zip(2..) {
        comes_back(&mut state, grant, Signal::Failure, call, at(1.65));
    }
    hear(&mut state, 1.75, |_, reply| reply.row = row(4));
    assert!(!is_open(&state, lane));
    hear(&mut state, 1.86, |_, reply| reply.row = row(5));
    assert!(is_open(&state, lane));
}
