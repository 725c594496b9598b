//! A client that knows when an outage ends: it sends nothing meanwhile, resumes at its end, and keeps a pace if it is given
//! one. Knows nothing of retries.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};
use testbed::sim::Simulation;

use crate::incident::Incident;

pub(crate) struct Oracle {
    incident: Incident,
    simulation: Simulation,
    interval: Option<Duration>,
    next: Mutex<Duration>,
}

impl Oracle {
    pub(crate) fn new(incident: &Incident, simulation: &Simulation, per_minute: Option<u32>) -> Self {
        Self {
            incident: incident.clone(),
            simulation: simulation.clone(),
            interval: per_minute.map(|rate| Duration::from_secs(60) / rate),
            next: Mutex::default(),
        }
    }

    /// Waits for the end of an outage, and for the turn of this call.
    async fn wait(&self, model: &str) {
        loop {
            self.wait_out(model).await;
            let Some(interval) = self.interval else { return };
            let now = self.simulation.elapsed();
            let turn = self.next.lock().map_or(now, |mut next| {
                let turn = now.max(*next);
                *next = turn + interval;
                turn
            });
            tokio::time::sleep(turn - now).await;
            if self.incident.down_until(turn, model).is_none() {
                return;
            }
        }
    }

    async fn wait_out(&self, model: &str) {
        let now = self.simulation.elapsed();
        if let Some(end) = self.incident.down_until(now, model) {
            tokio::time::sleep(end - now).await;
        }
    }
}

#[async_trait]
impl Middleware for Oracle {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
        let body = String::from_utf8_lossy(body);
        let named = |model: &&&str| body.contains(&format!("\"{model}\""));
        let model = self.incident.models.iter().find(named).copied().unwrap_or_default();
        drop(body);
        loop {
            self.wait(model).await;
            let copy = request
                .try_clone()
                .ok_or_else(|| Error::middleware(std::io::Error::other("the request cannot be repeated")))?;
            let result = next.clone().run(copy, extensions).await;
            let failed = result.as_ref().map_or(true, |response| !response.status().is_success());
            // on its way when the outage began
            if failed && self.incident.down_until(self.simulation.elapsed(), model).is_some() {
                continue;
            }
            return result;
        }
    }
}
