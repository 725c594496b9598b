//! Local reverse proxy that retries calls to AI APIs rightly, for SDKs that take no HTTP client and for other languages.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod access;
mod config;
mod failure;
mod headers;
mod relay;
mod route;
mod serve;
mod signals;
mod status;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tokio::net::TcpListener;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use config::{Config, Plan};
use relay::Gateway;

/// Relays calls to AI APIs and retries them: waits as long as the provider asks, never multiplies attempts, keeps all callers
/// of an upstream inside one allowance. Point an SDK's base URL at `http://LISTEN/UPSTREAM`.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The configuration, in TOML.
    #[arg(short, long, value_name = "FILE", default_value = "gateway.toml")]
    config: PathBuf,
    /// Print what the configuration comes to and end: with 0 if it can be served, with 2 if not.
    #[arg(long)]
    check: bool,
}

/// A configuration or a command line that cannot work.
const MISCONFIGURED: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (config, plan) = match read(&arguments.config) {
        Ok(read) => read,
        Err(why) => {
            complain(&format!("{}: {why}", arguments.config.display()));
            return ExitCode::from(MISCONFIGURED);
        }
    };
    let done = if arguments.check {
        check(&config, &plan)
    } else {
        run(&config, plan)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            complain(&with_causes(&*why));
            ExitCode::FAILURE
        }
    }
}

fn read(path: &Path) -> Result<(Config, Plan), Box<dyn std::error::Error>> {
    let config: Config = std::fs::read_to_string(path)?.parse()?;
    let plan = config.plan()?;
    Ok((config, plan))
}

/// Prints the configuration in force as a file that says the same, and the routes that follow from it.
fn check(config: &Config, plan: &Plan) -> Result<(), Box<dyn std::error::Error>> {
    let mut out = io::stdout().lock();
    writeln!(out, "# valid; in force, defaults included:\n\n{}", config.in_force()?)?;
    for upstream in &plan.upstreams {
        let base = upstream.base.as_str().trim_end_matches('/');
        writeln!(out, "# http://{}/{}/… -> {base}/…", config.listen, upstream.name)?;
    }
    if let Some(default) = plan.default_upstream.and_then(|number| plan.upstreams.get(number)) {
        writeln!(out, "# http://{}/… -> {}", config.listen, default.name)?;
    }
    for warning in &plan.warnings {
        writeln!(out, "# warning: {warning}")?;
    }
    Ok(())
}

#[tokio::main]
async fn run(config: &Config, plan: Plan) -> Result<(), Box<dyn std::error::Error>> {
    log(&plan.log);
    for warning in &plan.warnings {
        tracing::warn!("{warning}");
    }
    let gateway = Arc::new(Gateway::new(plan, config.connect_timeout.0, config.access_log)?);
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", config.listen))?;
    // heard from here on, so that no signal is missed
    let (stop, stop_now) = signals::heard()?;
    writeln!(io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    serve::serve(listener, gateway, config.shutdown_grace.0, stop, stop_now).await;
    Ok(())
}

/// To standard error; `RUST_LOG` goes before the file.
fn log(configured: &Targets) {
    let asked = std::env::var("RUST_LOG").ok().and_then(|filter| filter.parse().ok());
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    tracing_subscriber::registry()
        .with(layer)
        .with(asked.unwrap_or_else(|| configured.clone()))
        .init();
}

/// An error that is only the last link of its chain seldom tells what to do.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}

fn complain(what: &str) {
    // nobody is left to tell if this fails
    let _ = writeln!(io::stderr(), "reqwest-ai-retry-gateway: {what}");
}
