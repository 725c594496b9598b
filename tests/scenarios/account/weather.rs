//! What an incident does to the calls of others: nobody is worse off for the account.

use std::time::Duration;

use reqwest_ai_retry::{Account, Operation, Outcome, RetryPolicy, StopReason};
use reqwest_middleware::ClientWithMiddleware;
use tokio::time::{Instant, sleep, timeout};

use crate::stub::{CHAT, Item, Sent, Stub, chat, crowd, exact, hang, millis, prompt, reply, secs, spawned};

/// Those whose pace an incident must not harm.
fn accounts() -> [(&'static str, Account); 3] {
    [
        ("default", Account::default()),
        ("built", Account::builder().build().unwrap()),
        ("adaptive", Account::adaptive()),
    ]
}

/// So many callers, each of which asks again as soon as it is answered, until then. Ends them all.
async fn callers(client: &ClientWithMiddleware, number: usize, until: Duration) {
    let loops: Vec<_> = (0..number)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                loop {
                    drop(chat(&client, "m").await);
                }
            })
        })
        .collect();
    sleep(until).await;
    loops.iter().for_each(|each| each.abort());
}

/// Sends from then on, for so many seconds, a second.
fn pace(server: &Stub, from: Duration, seconds: u64) -> f64 {
    let times = server.times();
    let sends = times.iter().filter(|at| (from..from + secs(seconds)).contains(at));
    sends.count() as f64 / seconds as f64
}

const BEGINS: Duration = secs(40);

/// M3: everything is refused for a while, and then nothing is.
async fn comes_back(refused: Item, hint: Duration, length: Duration) {
    for (name, account) in accounts() {
        let refused = refused.clone();
        let during = move |at: Duration| (BEGINS..BEGINS + length).contains(&at);
        let server = Stub::by(move |sent| {
            if during(sent.at) {
                refused.clone()
            } else {
                reply(200).after(secs(1))
            }
        });
        let client = server.sharing(&account, RetryPolicy::default());
        callers(&client, 20, BEGINS + length + hint + secs(40)).await;
        let before = pace(&server, BEGINS - secs(20), 20);
        assert!(before >= 19.0, "{name}: {before}");
        // within ten seconds of its end, or five of the last delay that was told
        let stated = server.times().into_iter().filter(|at| during(*at)).max().unwrap() + hint;
        let from = if hint.is_zero() {
            BEGINS + length + secs(10)
        } else {
            stated + secs(5)
        };
        let after = pace(&server, from, 10);
        assert!(after >= 0.9 * before, "{name}, {length:?}, {hint:?}: {before} {after}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_pace_is_back_after_refusals_that_state_nothing() {
    for length in [10, 30, 60] {
        comes_back(reply(429).after(millis(30)), Duration::ZERO, secs(length)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_pace_is_back_after_refusals_that_state_a_delay() {
    for (hint, length) in [(1, 10), (5, 10), (20, 60)] {
        comes_back(reply(429).ra(hint).after(millis(30)), secs(hint), secs(length)).await;
    }
}

/// Sends a call of such a policy, and says when it reached the server.
async fn is_sent_at_once(server: &Stub, client: &ClientWithMiddleware, what: &str) {
    let (sends, start) = (server.n(), server.start.elapsed());
    let call = spawned(client, "m");
    sleep(millis(1)).await;
    let times = server.times();
    assert_eq!(times.get(sends), Some(&start), "{what}");
    call.abort();
    drop(call.await);
}

/// M4: what callers cut by their own limits is no evidence against the provider for those who wait longer.
#[tokio::test(start_paused = true)]
async fn impatient_calls_do_not_hold_a_patient_one() {
    let once = || exact().max_attempts(1);
    let policies = [
        ("attempt_timeout", once().attempt_timeout(millis(20))),
        ("attempt_timeout, retried", exact().attempt_timeout(millis(20))),
        ("total_deadline", once().total_deadline(millis(20))),
        ("dropped", once()),
    ];
    for (what, impatient) in policies {
        for (calls, at_once) in [(5, true), (5, false), (30, true), (30, false)] {
            for (name, account) in accounts().into_iter().take(2) {
                let server = Stub::new([reply(200).after(secs(5))]);
                let client = server.sharing(&account, impatient.clone());
                let one = async || drop(timeout(millis(20), chat(&client, "m")).await);
                match (at_once, what) {
                    (true, "dropped") => {
                        futures_util::future::join_all((0..calls).map(|_| one())).await;
                    }
                    (true, _) => drop(crowd(&client, calls).await),
                    (false, _) => {
                        for _ in 0..calls {
                            match what {
                                "dropped" => one().await,
                                _ => drop(chat(&client, "m").await),
                            }
                        }
                    }
                }
                assert!(server.n() >= calls);
                let what = format!("{what}, {calls}, {name}");
                is_sent_at_once(&server, &server.sharing(&account, exact()), &what).await;
                let patient = exact().attempt_timeout(secs(30)).total_deadline(secs(100));
                is_sent_at_once(&server, &server.sharing(&account, patient), &what).await;
            }
        }
    }
}

/// M4: where nothing comes back for anybody, those who wait no longer than others did in vain are held, and nobody else; all
/// are answered once answers come.
#[tokio::test(start_paused = true)]
async fn hangs_hold_only_those_that_wait_no_longer() {
    let server = Stub::by(|sent| if sent.at < secs(30) { hang() } else { reply(200) });
    let account = Account::builder().build().unwrap();
    let hasty = server.sharing(&account, exact().attempt_timeout(secs(1)).max_attempts(20));
    let patient = server.sharing(&account, exact().attempt_timeout(secs(10)));
    let impatient: Vec<_> = (0..20).map(|_| spawned(&hasty, "m")).collect();
    sleep(secs(8)).await;
    let sends = server.n();
    assert!(sends < 60, "{sends}");
    let calls: Vec<_> = (0..5).map(|_| spawned(&patient, "m")).collect();
    sleep(millis(1)).await;
    let patient_sends = server.times().iter().filter(|at| **at == secs(8)).count();
    assert!(patient_sends >= 5, "{:?}", server.times());
    for call in impatient.into_iter().chain(calls) {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    assert!(server.start.elapsed() < secs(43), "{:?}", server.start.elapsed());
}

/// M4: a model that takes longer than some callers wait serves the others as if those were not there, also if one send in
/// twenty fails.
#[tokio::test(start_paused = true)]
async fn slow_answers_to_the_patient_come_beside_the_impatient() {
    for (name, account, fails) in accounts()
        .into_iter()
        .take(2)
        .flat_map(|(name, account)| [(name, account.clone(), false), (name, account, true)])
    {
        let mut sends = 0;
        let server = Stub::by(move |sent| {
            sends += 1;
            let is_hasty = sent.body.windows(5).any(|part| part == b"hello");
            if fails && is_hasty && sends % 20 == 0 {
                reply(500)
            } else {
                reply(200).after(secs(3))
            }
        });
        let hasty = server.sharing(&account, exact().attempt_timeout(secs(1)));
        let patient = server.sharing(&account, exact());
        let impatient = tokio::spawn({
            let hasty = hasty.clone();
            async move { callers(&hasty, 10, secs(300)).await }
        });
        for call in 0..20 {
            let start = Instant::now();
            let body = prompt("m").replace("hello", "take your time");
            assert_eq!(patient.post(CHAT).body(body).send().await.unwrap().status(), 200);
            let most = if fails { secs(8) } else { secs(3) };
            assert!(start.elapsed() <= most, "{name} {call} {fails}: {:?}", start.elapsed());
        }
        impatient.abort();
    }
}

fn is_poison(sent: &Sent) -> bool {
    sent.body.windows(6).any(|part| part == b"poison")
}

/// The server fails at one prompt, and at no other.
fn poisoned() -> Stub {
    Stub::by(|sent| {
        if is_poison(sent) {
            reply(500).after(millis(30))
        } else {
            reply(200).after(millis(300))
        }
    })
}

async fn poison(client: &ClientWithMiddleware) -> reqwest_middleware::Result<reqwest::Response> {
    let body = prompt("m").replace("hello", "poison");
    client.post(CHAT).body(body).send().await
}

/// M5: one call that always fails is one piece of evidence, however often it is sent and whoever repeats it.
#[tokio::test(start_paused = true)]
async fn a_call_that_always_fails_holds_no_other() {
    for kind in 0..2 {
        let account = || accounts()[kind].1.clone();
        let name = accounts()[kind].0;
        for attempts in [1, 5, 20] {
            let (server, account) = (poisoned(), account());
            let client = server.sharing(&account, exact().max_attempts(attempts).max_retry_time(secs(1_000)));
            let failed = poison(&client).await.unwrap();
            let outcome = Outcome::of(&failed).unwrap();
            assert_eq!((outcome.stop(), outcome.sends()), (StopReason::AttemptsSpent, attempts));
            is_sent_at_once(&server, &client, name).await;
        }
        let (server, account) = (poisoned(), account());
        let client = server.sharing(&account, exact().max_attempts(20).max_retry_time(secs(1_000)));
        let operation = Operation::new();
        operation
            .scope(async {
                for _ in 0..5 {
                    drop(poison(&client).await);
                }
            })
            .await;
        assert_eq!(server.n(), 20);
        is_sent_at_once(&server, &client, name).await;
    }
}

/// How long four workers take for two hundred prompts beside callers of the poisonous one.
async fn batch_beside(poisonous: usize, account: Account) -> Duration {
    let server = poisoned();
    let client = server.sharing(&account, RetryPolicy::default());
    let poisonous = tokio::spawn({
        let client = client.clone();
        async move {
            let again = || async {
                loop {
                    drop(poison(&client).await);
                }
            };
            futures_util::future::join_all((0..poisonous).map(|_| again())).await;
        }
    });
    let workers = (0..4).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..50 {
                assert_eq!(chat(&client, "m").await.unwrap().status(), 200);
            }
        })
    });
    for worker in futures_util::future::join_all(workers).await {
        worker.unwrap();
    }
    poisonous.abort();
    server.start.elapsed()
}

/// M5: a poisonous prompt costs the others nothing.
#[tokio::test(start_paused = true)]
async fn a_poisonous_prompt_costs_the_others_nothing() {
    for (name, account) in accounts() {
        let alone = batch_beside(0, account).await;
        let (_, account) = accounts().into_iter().find(|(other, _)| *other == name).unwrap();
        let beside = batch_beside(1, account).await;
        assert!(beside <= alone.mul_f64(1.05), "{name}: {alone:?} {beside:?}");
    }
}

/// A refusal among very many says little of how much is allowed.
#[tokio::test(start_paused = true)]
async fn one_stray_refusal_costs_its_pause_and_no_more() {
    for (name, account) in accounts().into_iter().take(2) {
        let mut refused = false;
        let server = Stub::by(move |sent| {
            if sent.at >= BEGINS && !std::mem::replace(&mut refused, true) {
                reply(429).ra(5)
            } else {
                refused &= sent.at >= BEGINS;
                reply(200).after(secs(1))
            }
        });
        let client = server.sharing(&account, RetryPolicy::default());
        callers(&client, 50, secs(200)).await;
        assert_eq!(pace(&server, secs(20), 20), 50.0);
        // from the end of the pause on
        for from in (45..185).step_by(10) {
            let sends = 10.0 * pace(&server, secs(from), 10);
            assert!(sends >= 450.0, "{name}: {sends} from {from}");
        }
    }
}

/// The slowest minute until the tenth, in sends a second, where three sends in ten are refused at random.
async fn slowest_beside_refusals_at_random(account: Account, since: u64) -> f64 {
    let mut state = 7u64;
    let server = Stub::by(move |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        if (state >> 33) % 100 < 30 {
            reply(429).after(millis(30))
        } else {
            reply(200).after(secs(1))
        }
    });
    let client = server.sharing(&account, RetryPolicy::default());
    callers(&client, 20, secs(600)).await;
    let paces = (since..600).step_by(60).map(|from| pace(&server, secs(from), 60));
    paces.fold(f64::INFINITY, f64::min)
}

/// Refusals at random have nothing to do with the pace, and lowering it is of no use. By their own waits alone 20 callers make
/// some 20 sends a second; an account that meets each refusal with a guess waits half a second for each.
#[tokio::test(start_paused = true)]
async fn refusals_at_random_do_not_make_the_pace_crawl() {
    for ((name, account), least) in accounts().into_iter().zip([18.0, 1.5]) {
        let slowest = slowest_beside_refusals_at_random(account, 60).await;
        assert!(slowest >= least, "{name}: {slowest}");
    }
}

/// The same of slow start, which takes longer to find that out: its pace has been low from the start.
#[tokio::test(start_paused = true)]
async fn refusals_at_random_do_not_make_a_slow_start_crawl() {
    let slowest = slowest_beside_refusals_at_random(Account::adaptive(), 180).await;
    assert!(slowest >= 1.5, "{slowest}");
}

/// Without learning, what is configured is kept, whatever headers and refusals say; a stated delay is obeyed.
#[tokio::test(start_paused = true)]
async fn learning_can_be_switched_off() {
    let paces = async |learning: bool| {
        let mut sends = 0;
        let server = Stub::by(move |_| {
            sends += 1;
            let told = |item: Item| {
                item.header("x-ratelimit-limit-requests", 60)
                    .header("x-ratelimit-remaining-requests", 0)
                    .header("x-ratelimit-reset-requests", "60s")
            };
            told(if sends % 20 == 0 { reply(429).ra(1) } else { reply(200) })
        });
        let account = Account::builder()
            .requests_per_minute(600)
            .learning(learning)
            .build()
            .unwrap();
        let client = server.sharing(&account, RetryPolicy::default());
        callers(&client, 20, secs(120)).await;
        (
            account.status().lanes[0].starts_per_minute.unwrap(),
            pace(&server, secs(60), 60),
        )
    };
    let (configured, sends) = paces(false).await;
    // a second in each three is a pause
    assert!(configured > 590.0 && sends > 6.0, "{configured} {sends}");
    let (learnt, slower) = paces(true).await;
    assert!(learnt < 500.0 && slower < sends / 2.0, "{learnt} {slower}");

    // and no concurrency limit is learnt
    for learning in [false, true] {
        let body = r#"{"error":{"message":"Too many concurrent requests.","type":"rate_limit_error"}}"#;
        let server = Stub::by(move |_| reply(429).json(body).after(secs(1)));
        let account = Account::builder()
            .requests_per_minute(600)
            .learning(learning)
            .build()
            .unwrap();
        drop(crowd(&server.sharing(&account, exact().max_attempts(1)), 10).await);
        let limit = account.status().lanes[0].learnt_max_in_flight;
        assert_eq!(limit.is_some(), learning, "{limit:?}");
    }
}
