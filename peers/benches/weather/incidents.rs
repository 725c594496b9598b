//! The incidents of the bench. Knows what happens in each, and nothing of what is demanded.

use std::time::Duration;

use testbed::sim::{Fault, Headers, Hint, Law, Model};

use crate::incident::{GiveUp, Incident, Kind, Load, at};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);

fn batch(prompts: u64, workers: usize) -> Load {
    Load::Batch { prompts, workers }
}

fn endless(workers: usize, until: u64) -> Load {
    let until = Duration::from_secs(until);
    Load::Endless { workers, until }
}

fn arrivals(per_second: f64, until: u64) -> Load {
    Load::Arrivals {
        every: at(1.0 / per_second),
        until: Duration::from_secs(until),
    }
}

fn hinted(status: u16, retry_after: u64) -> Fault {
    Fault::Hinted { status, retry_after }
}

const FAIL: Fault = Fault::Status(500);
const DOWN: Fault = Fault::Status(503);
const BUSY: Fault = Fault::Status(529);
const BARE: Fault = Fault::Status(429);

/// Every one of them.
pub(crate) fn all() -> Vec<Incident> {
    let groups = [
        short(),
        at_full_pace(),
        long(),
        kinds(),
        crews(),
        models(),
        smaller(),
        steady(),
        interactive(),
        limited(),
        poisonous(),
    ];
    groups.into_iter().flatten().collect()
}

/// Three hundred prompts from twenty workers, as in the first table.
fn short() -> Vec<Incident> {
    let of = |name| Incident::new(name, batch(300, 20));
    vec![
        of("fair weather"),
        of("500 for 1 s").down(1.0, 1.0, FAIL),
        of("500 for 3 s").down(1.0, 3.0, FAIL),
        of("529 for 3 s").anthropic().down(1.0, 3.0, BUSY),
        Incident::new("503 for 12 s, 50 workers", batch(600, 50)).down(1.0, 12.0, DOWN),
        of("500, a tenth").share(0.1, FAIL),
        of("500, a third").share(1.0 / 3.0, FAIL),
        of("529, a half").anthropic().share(0.5, BUSY),
        of("bare 429 for 3 s").down(1.0, 3.0, BARE),
        of("429, hint 2 s, for 6 s").down(1.0, 6.0, hinted(429, 2)),
    ]
}

/// Twenty workers that ask without a pause, a minute of fair weather first, as in the second table.
fn at_full_pace() -> Vec<Incident> {
    let of = |name, until| Incident::new(name, endless(20, until)).healthy(1000);
    vec![
        of("full pace, bare 429 for 10 s", 210).down(60.0, 10.0, BARE),
        of("full pace, 429, hint 5 s, for 10 s", 210).down(60.0, 10.0, hinted(429, 5)),
        of("full pace, 429, hint 20 s, for 60 s", 270).down(60.0, 60.0, hinted(429, 20)),
        of("full pace, 529 for 20 s", 210).down(60.0, 20.0, BUSY),
        of("full pace, bare 429 for 60 s", 270).down(60.0, 60.0, BARE),
        of("full pace, 500 for 3 min", 360).down(60.0, 180.0, FAIL),
        of("full pace, 503, hint 1 s, for 5 s", 180).down(60.0, 5.0, hinted(503, 1)),
        of("full pace, 429, hint 40 s, for 60 s", 270).down(60.0, 60.0, hinted(429, 40)),
        of("full pace, resets for 20 s", 210).down(60.0, 20.0, Fault::ConnectionReset),
        of("full pace, 529, a half for 60 s", 210).share_for(0.5, 60.0, 60.0, BUSY),
    ]
}

fn long() -> Vec<Incident> {
    vec![
        Incident::new("500 for 40 s", batch(600, 20)).down(2.0, 40.0, FAIL),
        Incident::new("503 for 20 s, 200 workers", batch(4000, 200)).down(2.0, 20.0, DOWN),
        Incident::new("529 for 3 min", batch(3000, 20))
            .anthropic()
            .down(2.0, 180.0, BUSY),
        Incident::new("529 for 5 s, every 20 s, for 10 min", batch(8000, 20))
            .healthy(1000)
            .flaps(30, 10.0, 20.0, 5.0, BUSY),
        Incident::new("500 for 1 s, every 10 s", batch(2000, 20)).flaps(10, 2.0, 10.0, 1.0, FAIL),
        Incident::new("503 for 10 s, twice", batch(1000, 20)).flaps(2, 2.0, 20.0, 10.0, DOWN),
        Incident::new("503 for 15 s, then a half for 30 s", batch(1500, 20))
            .down(2.0, 15.0, DOWN)
            .share_for(0.5, 17.0, 30.0, DOWN),
        Incident::new("500, 70 %", batch(300, 20)).share(0.7, FAIL),
        Incident::new("503, 90 %", batch(300, 20)).share(0.9, DOWN),
        Incident::new("500, 95 %", batch(300, 20)).share(0.95, FAIL),
    ]
}

fn kinds() -> Vec<Incident> {
    let of = |name| Incident::new(name, batch(600, 20));
    vec![
        of("resets for 10 s").down(2.0, 10.0, Fault::ConnectionReset),
        of("refused connections for 15 s").down(2.0, 15.0, Fault::ConnectionRefused),
        of("resets, 30 %").share(0.3, Fault::ConnectionReset),
        of("refused connections, a half").share(0.5, Fault::ConnectionRefused),
        of("hangs for 15 s, cut after 5 s")
            .down(2.0, 15.0, Fault::Hang)
            .attempt_timeout(5),
        of("hangs for 60 s, cut after 10 s")
            .down(2.0, 60.0, Fault::Hang)
            .attempt_timeout(10),
        of("hangs, 30 %, cut after 3 s")
            .share(0.3, Fault::Hang)
            .attempt_timeout(3),
        of("429, hint 1 s, for 5 s").down(2.0, 5.0, hinted(429, 1)),
        of("429, hint 5 s, for 15 s")
            .anthropic()
            .down(2.0, 15.0, hinted(429, 5)),
        of("429, hint 20 s, for 30 s").down(2.0, 30.0, hinted(429, 20)),
        of("429, hint 40 s, for 60 s").down(2.0, 60.0, hinted(429, 40)),
        of("503, hint 2 s, for 10 s").down(2.0, 10.0, hinted(503, 2)),
        of("bare 429, 30 %").share(0.3, BARE),
        of("429, hint 1 s, a tenth").share(0.1, hinted(429, 1)),
        of("bare 429 for 20 s").down(2.0, 20.0, BARE),
    ]
}

fn crews() -> Vec<Incident> {
    vec![
        Incident::new("529 for 5 s, 1 worker", batch(60, 1)).down(2.0, 5.0, BUSY),
        Incident::new("500 for 30 s, 1 worker", batch(60, 1)).down(2.0, 30.0, FAIL),
        Incident::new("529 for 2 s, 200 workers", batch(4000, 200)).down(2.0, 2.0, BUSY),
        Incident::new("503 for 15 s, 4 workers", batch(200, 4)).down(2.0, 15.0, DOWN),
        Incident::new("503 for 10 s, 100 workers", batch(2000, 100)).down(2.0, 10.0, DOWN),
        Incident::new("529 for 60 s, 8 slow workers", batch(100, 8))
            .anthropic()
            .healthy(10_000)
            .down(20.0, 60.0, BUSY),
    ]
}

fn models() -> Vec<Incident> {
    let of = |name| Incident::new(name, batch(800, 20));
    vec![
        of("529 for 20 s, one model of two")
            .models(&["large", "small"])
            .down(2.0, 20.0, BUSY),
        of("bare 429 for 10 s, one model of three")
            .models(&["large", "small", "tiny"])
            .down(2.0, 10.0, BARE),
    ]
}

/// A provider that allowed 1,200 a minute and comes back with 400.
fn smaller() -> Vec<Incident> {
    let whole = Law::bucket(1200, MINUTE, 20);
    let third = Law::bucket(400, MINUTE, 7);
    let of = |name, shown: fn(Model) -> Model| {
        Incident::new(name, endless(20, 180))
            .healthy(900)
            .allows(1200)
            .down(30.0, 20.0, BUSY)
            .kind(Kind::Smaller(400.0 / 60.0))
            .provider(|model| shown(model.requests(whole).requests_from(50 * SECOND, third)))
    };
    let mut cut = of("a third from one moment to the next, exact hints", |model| {
        model.hint(Hint::Exact)
    });
    cut.outages.clear();
    vec![
        of("back at a third, headers, exact hints", |model| {
            model.headers(Headers::PerMinute).hint(Hint::Exact)
        }),
        of("back at a third, hints in whole seconds", |model| {
            model.hint(Hint::Seconds)
        }),
        of("back at a third, no hints", |model| model.hint(Hint::None)),
        cut,
    ]
}

/// Calls that arrive steadily, whatever becomes of those before.
fn steady() -> Vec<Incident> {
    vec![
        Incident::new("steady 20/s, 529 for 10 s", arrivals(20.0, 100)).down(20.0, 10.0, BUSY),
        Incident::new("steady 5/s, bare 429 for 20 s", arrivals(5.0, 120)).down(20.0, 20.0, BARE),
        Incident::new("steady 5/s, 503 for 3 min", arrivals(5.0, 300)).down(20.0, 180.0, DOWN),
        Incident::new("steady 10/s, 429, hint 5 s, for 20 s", arrivals(10.0, 120)).down(20.0, 20.0, hinted(429, 5)),
        Incident::new("steady 10/s, 500, a half", arrivals(10.0, 60)).share(0.5, FAIL),
        Incident::new("steady 1/s, 500 for 30 s", arrivals(1.0, 150)).down(20.0, 30.0, FAIL),
    ]
}

/// Callers that give up after ten seconds.
fn interactive() -> Vec<Incident> {
    let deadline = GiveUp::Deadline(PATIENCE);
    let overload = |name, gives_up, hint| {
        Incident::new(name, arrivals(8.0, 90))
            .allows(300)
            .kind(Kind::Overload)
            .provider(|model| model.requests(Law::bucket(300, MINUTE, 5)).hint(hint))
            .gives_up(gives_up)
    };
    vec![
        Incident::new("10 s deadlines, 529 for 3 s", arrivals(10.0, 60))
            .down(20.0, 3.0, BUSY)
            .gives_up(deadline),
        Incident::new("10 s deadlines, 503 for 12 s", arrivals(10.0, 70))
            .down(20.0, 12.0, DOWN)
            .gives_up(deadline),
        Incident::new("10 s deadlines, 500, a half", batch(600, 20))
            .share(0.5, FAIL)
            .gives_up(deadline),
        Incident::new("10 s until dropped, bare 429 for 5 s", arrivals(10.0, 60))
            .down(20.0, 5.0, BARE)
            .gives_up(GiveUp::Drop(PATIENCE)),
        overload("8/s where 5/s are served, 10 s deadlines", deadline, Hint::None),
        overload(
            "8/s where 5/s are served, dropped after 10 s",
            GiveUp::Drop(PATIENCE),
            Hint::Exact,
        ),
    ]
}

/// A provider that has a limit in fair weather too.
fn limited() -> Vec<Incident> {
    let of = |name, law: Law, shown: fn(Model) -> Model| {
        Incident::new(name, batch(900, 20))
            .allows(600)
            .provider(|model| shown(model.requests(law)))
    };
    vec![
        of(
            "600/min, exact hints, 529 for 10 s",
            Law::bucket(600, MINUTE, 10),
            |model| model.hint(Hint::Exact),
        )
        .down(20.0, 10.0, BUSY),
        of(
            "600/min, headers, bare 429 for 10 s",
            Law::bucket(600, MINUTE, 10),
            |model| model.headers(Headers::PerMinute).hint(Hint::Seconds),
        )
        .down(20.0, 10.0, BARE),
        of(
            "10 in each second, no hints, 503 for 20 s",
            Law::window(10, SECOND),
            |model| model.hint(Hint::None),
        )
        .down(20.0, 20.0, DOWN),
    ]
}

fn poisonous() -> Vec<Incident> {
    vec![
        Incident::new("one poisonous prompt, 500", batch(2000, 40)).poison(&[100], FAIL),
        Incident::new("one poisonous prompt, hangs, cut after 2 s", batch(2000, 40))
            .poison(&[100], Fault::Hang)
            .attempt_timeout(2),
        Incident::new("four poisonous prompts in a row, steady 2/s", arrivals(2.0, 90)).poison(&[60, 61, 62, 63], FAIL),
        Incident::new("three poisonous prompts, steady 20/s", arrivals(20.0, 60)).poison(&[50, 51, 400], FAIL),
    ]
}
