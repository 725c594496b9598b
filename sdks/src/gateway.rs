//! `reqwest-ai-retry-gateway` as its users run it: a process of its own that an SDK's base URL leads to. Knows no SDK and
//! counts nothing.

use std::env;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::arrangement::MAX_ATTEMPTS;

/// The workspace that the program is built in.
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");

/// The program, built.
#[derive(Debug)]
pub struct Program(PathBuf);

/// Whether the gateway answers repeats after a give-up from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// It does not, which is the default.
    Off,
    /// For a minute.
    On,
}

/// A gateway before one server; dropping it ends it.
#[derive(Debug)]
pub struct Running {
    address: String,
    _child: Child,
}

impl Program {
    /// Builds it with the cargo that runs this, or else with the one of the path. A library of the gateway would do without,
    /// but it has none, since nobody but this would use it.
    ///
    /// # Errors
    ///
    /// If cargo fails.
    pub fn build() -> Result<Self, String> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = std::process::Command::new(cargo)
            .args(["build", "--quiet", "--locked", "--manifest-path", MANIFEST])
            .args(["--package", "reqwest-ai-retry-gateway"])
            .arg("--message-format=json-render-diagnostics")
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cargo: {error}"))?;
        if !built.status.success() {
            return Err("the gateway could not be built".to_owned());
        }
        let messages = built.stdout.split(|&byte| byte == b'\n');
        let messages = messages.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let mut programs = messages.filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from));
        let program = programs.next_back();
        program
            .map(Self)
            .ok_or_else(|| "cargo names no program of the gateway".to_owned())
    }

    /// Starts one that relays to the server at `url`, on a port of its own and with an account of its own.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub async fn before(&self, url: &str, guard: Guard) -> Result<Running, String> {
        let complaint = |error: std::io::Error| format!("{}: {error}", self.0.display());
        let mut configuration = tempfile::NamedTempFile::new().map_err(complaint)?;
        configuration
            .write_all(toml(url, guard).as_bytes())
            .map_err(complaint)?;
        let mut child = Command::new(&self.0)
            .arg("--config")
            .arg(configuration.path())
            .env_remove("RUST_LOG")
            // what the machine's own traffic goes through is not for loopback
            .env("NO_PROXY", "*")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(complaint)?;
        let mut said = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut said).await.map_err(complaint)?;
        }
        match said.trim().strip_prefix("listening on ") {
            Some(address) => Ok(Running {
                address: address.to_owned(),
                _child: child,
            }),
            None => Err("the gateway did not start; what it said is above".to_owned()),
        }
    }
}

/// Waits are shortened, counts are not.
fn toml(url: &str, guard: Guard) -> String {
    let guard = match guard {
        Guard::Off => "",
        Guard::On => "outer_retry_guard = \"60s\"\n",
    };
    format!(
        "listen = \"127.0.0.1:0\"\n\
         access_log = false\n\
         log = \"error\"\n\
         [upstreams.one]\n\
         url = \"{url}\"\n\
         {guard}\
         policy.max_attempts = {MAX_ATTEMPTS}\n\
         policy.backoff = {{ growth = \"constant\", base = \"10ms\" }}\n"
    )
}

impl Running {
    /// Where the SDK finds the server's paths.
    pub fn url(&self) -> String {
        format!("{}/one", self.address)
    }
}
