//! Tuning harness (not kept).
#![allow(missing_docs, clippy::all)]
use reqwest_ai_retry::*;
use reqwest_middleware::ClientBuilder;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testbed::sim::{Case, Headers, Provider, Simulation, Transport, cases};

type Row = (f64, f64, f64, usize);
fn run(
    case: Case,
    headers: Headers,
    who: &str,
    seed: u64,
    n: usize,
    workers: usize,
    allowance: u64,
    lat: u64,
    trace: bool,
) -> Row {
    let rt = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let who = who.to_owned();
    rt.block_on(async move {
        let model = case
            .model(allowance)
            .headers(headers)
            .jitter(Duration::from_millis(20))
            .latency(testbed::sim::Latency::Fixed(Duration::from_secs(lat)));
        let sim = Simulation::new(Provider::new(model, seed));
        let bound = sim.with(|p| p.bound(n as u64, Duration::from_secs(lat)));
        let account = match who.as_str() {
            "configured" => Account::builder()
                .requests_per_minute(allowance as u32)
                .build()
                .unwrap(),
            "adaptive" => Account::adaptive(),
            _ => Account::default(),
        };
        let policy = RetryPolicy::default()
            .max_attempts(1000)
            .max_retry_time(Duration::from_secs(1_000_000));
        let client = ClientBuilder::new(RetryMiddleware::client_builder().build().unwrap())
            .with(
                RetryMiddleware::builder()
                    .policy(policy)
                    .account(account.clone())
                    .seed(seed)
                    .build(),
            )
            .with(Transport::new(sim.clone()))
            .build();
        let left = Arc::new(AtomicUsize::new(n));
        let mut tasks = Vec::new();
        for _ in 0..workers {
            let (client, left) = (client.clone(), left.clone());
            tasks.push(tokio::spawn(async move {
                let mut times = Vec::new();
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |l| l.checked_sub(1))
                    .is_ok()
                {
                    let start = tokio::time::Instant::now();
                    let r = client
                        .post("http://sim.example/v1/chat/completions")
                        .body(r#"{"model":"m","messages":[]}"#)
                        .send()
                        .await;
                    match r {
                        Ok(r) if r.status().is_success() => {
                            let _ = r.bytes().await;
                            times.push(start.elapsed().as_secs_f64());
                        }
                        Ok(r) => eprintln!("lost {}", r.status()),
                        Err(e) => eprintln!("lost {e}"),
                    }
                }
                times
            }));
        }
        let watch = trace.then(|| {
            let (account, sim) = (account.clone(), sim.clone());
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    let s = account.status();
                    let l = s.lanes.first();
                    eprintln!(
                        "t={:.0} rate={:?} waiting={:?} inflight={:?} refused={} sends={}",
                        sim.elapsed().as_secs_f64(),
                        l.and_then(|l| l.starts_per_minute),
                        l.map(|l| l.waiting),
                        l.map(|l| l.in_flight),
                        sim.with(|p| p.tally().refused()),
                        sim.with(|p| p.tally().sends)
                    );
                }
            })
        });
        let mut times = Vec::new();
        for t in tasks {
            times.extend(t.await.unwrap());
        }
        if let Some(w) = watch {
            w.abort();
        }
        times.sort_by(f64::total_cmp);
        let total = sim.elapsed().as_secs_f64();
        (
            total / bound.as_secs_f64(),
            sim.with(|p| p.tally().refused()) as f64 / n as f64 * 100.0,
            times.last().unwrap_or(&0.0) / times.get(times.len() / 2).unwrap_or(&1.0),
            times.len(),
        )
    })
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let seeds: u64 = args.get(1).and_then(|s| s.parse().ok()).unwrap_or(5);
    let only = args.get(2).cloned().unwrap_or_default();
    let whos = args.get(3).cloned().unwrap_or_default();
    let hdr = args.get(4).cloned().unwrap_or_default();
    let trace = args.get(5).is_some();
    for case in cases() {
        if !only.is_empty() && only != "all" && case.name() != only {
            continue;
        }
        for (headers, name) in [(Headers::PerMinute, "hdr"), (Headers::Off, "off")] {
            if !hdr.is_empty() && hdr != "all" && hdr != name {
                continue;
            }
            for who in ["configured", "adaptive", "default"] {
                if !whos.is_empty() && whos != "all" && who != whos {
                    continue;
                }
                let mut rs: Vec<Row> = Vec::new();
                let base: u64 = std::env::var("SEED0").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
                let all: Vec<u64> = (base..base + seeds).collect();
                for chunk in all.chunks(2) {
                    std::thread::scope(|s| {
                        let hs: Vec<_> = chunk
                            .iter()
                            .map(|seed| {
                                let seed = *seed;
                                s.spawn(move || run(case, headers, who, seed, 600, 50, 120, 2, trace))
                            })
                            .collect();
                        for h in hs {
                            rs.push(h.join().unwrap())
                        }
                    });
                }
                let mean = |f: fn(&Row) -> f64| rs.iter().map(f).sum::<f64>() / rs.len() as f64;
                let worst = |f: fn(&Row) -> f64| rs.iter().map(f).fold(0.0, f64::max);
                println!(
                    "{:15} {:4} {:10} mk {:.3} ({:.3})  refused {:.1}% ({:.1})  slow/med {:.2} ({:.2}) done {}",
                    case.name(),
                    name,
                    who,
                    mean(|r| r.0),
                    worst(|r| r.0),
                    mean(|r| r.1),
                    worst(|r| r.1),
                    mean(|r| r.2),
                    worst(|r| r.2),
                    rs.iter().map(|r| r.3).min().unwrap()
                );
            }
        }
    }
}
