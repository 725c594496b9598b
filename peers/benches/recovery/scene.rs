//! The providers of the comparison, and the workers that meet them. Knows no contender and no bar.

use std::time::Duration;

use testbed::sim::{Case, Headers, Latency, Law, Model, Shape, cases};

pub(crate) const REQUESTS: u64 = 600;
pub(crate) const WORKERS: usize = 50;

/// A provider and a batch for it.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// Which of the usual ones it is.
    pub(crate) case: Option<Case>,
    pub(crate) headers: bool,
    pub(crate) model: Model,
    /// What a user would configure, a minute.
    pub(crate) allowance: u32,
    pub(crate) requests: u64,
    pub(crate) workers: usize,
    pub(crate) latency: Duration,
}

impl Scene {
    pub(crate) fn title(&self) -> String {
        let headers = if self.headers { "limit headers" } else { "no headers" };
        format!("{}, {headers}", self.name)
    }
}

/// Those of the bars.
pub(crate) fn known() -> Vec<Scene> {
    let scenes = cases().into_iter().flat_map(|case| {
        [true, false].map(|headers| {
            let shown = if headers { Headers::PerMinute } else { Headers::Off };
            let latency = Duration::from_secs(2);
            Scene {
                name: case.name(),
                case: Some(case),
                headers,
                model: case
                    .model(120)
                    .headers(shown)
                    .latency(Latency::Fixed(latency))
                    .refusal_after(Duration::from_millis(50))
                    .jitter(Duration::from_millis(20)),
                allowance: 120,
                requests: REQUESTS,
                workers: WORKERS,
                latency,
            }
        })
    });
    scenes.collect()
}

/// Those that no constant was chosen by: other allowances, latencies, jitters, numbers of workers, and shapes.
pub(crate) fn unseen() -> Vec<Scene> {
    let minute = Duration::from_secs(60);
    let of = |name, model: Model, allowance, workers, latency, jitter| {
        [true, false].map(|headers| {
            let shown = if headers { Headers::PerMinute } else { Headers::Off };
            let latency = Duration::from_secs(latency);
            Scene {
                name,
                case: None,
                headers,
                model: model
                    .clone()
                    .headers(shown)
                    .latency(Latency::Fixed(latency))
                    .jitter(Duration::from_millis(jitter))
                    .seeded_phase(),
                allowance,
                requests: REQUESTS,
                workers,
                latency,
            }
        })
    };
    let bucket = Model::new(Shape::OpenAi).requests(Law::bucket(300, minute, 5));
    let window = Model::new(Shape::Anthropic).requests(Law::window(5, Duration::from_secs(2)));
    let shared = Model::new(Shape::Anthropic)
        .requests(Law::bucket(240, minute, 20))
        .somebody_else(90, minute);
    let slow = Model::new(Shape::Anthropic).requests(Law::bucket(80, minute, 3));
    let odd = Model::new(Shape::OpenAi).requests(Law::window(12, Duration::from_secs(5)));
    let half_minute = Model::new(Shape::OpenAi).requests(Law::window(50, Duration::from_secs(30)));
    let third = Model::new(Shape::OpenAi).requests(Law::window(40, Duration::from_secs(20)));
    // the same, but the headers tell a limit of 40, and not of 120 a minute
    let mut raw = of("40_per_20s_raw", third.clone(), 120, 32, 2, 20).to_vec();
    raw.retain(|scene| scene.headers);
    for scene in &mut raw {
        scene.model = scene.model.clone().headers(Headers::AsEnforced);
    }
    let others = [
        of("300_burst_5", bucket, 300, 80, 1, 20),
        of("5_per_2s", window, 150, 30, 3, 20),
        of("240_shared_90", shared, 240, 64, 5, 60),
        of("80_burst_3", slow, 80, 25, 4, 40),
        of("12_per_5s", odd, 144, 40, 1, 10),
        of("50_per_30s", half_minute, 100, 45, 3, 30),
        of("40_per_20s", third, 120, 32, 2, 20),
    ];
    others.into_iter().flatten().chain(raw).collect()
}
