//! The gateway as a process of its own, as users run it, before the servers that are asked through it. Knows no SDK.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::arrangement::MAX_ATTEMPTS;

const PACKAGE: &str = "reqwest-ai-retry-gateway";

/// A running gateway; dropping it ends it.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    address: String,
    // what it writes to must stay open
    _stdout: BufReader<ChildStdout>,
}

impl Gateway {
    /// Builds it if need be and starts it, with one upstream for each of these addresses, the first being its default.
    ///
    /// # Errors
    ///
    /// If it cannot be built, or does not come up.
    pub fn before<'a>(upstreams: impl Iterator<Item = &'a str>) -> io::Result<Self> {
        let mut config = String::from("listen = \"127.0.0.1:0\"\naccess_log = false\nlog = \"error\"\n");
        let _ = writeln!(config, "default_upstream = \"{}\"", name(0));
        for (number, url) in upstreams.enumerate() {
            let name = name(number);
            let _ = write!(
                config,
                "[upstreams.{name}]\n\
                 url = \"{url}\"\n\
                 outer_retry_guard = \"1m\"\n\
                 policy.give_up = \"error\"\n\
                 policy.max_attempts = {MAX_ATTEMPTS}\n\
                 policy.backoff = {{ growth = \"constant\", base = \"10ms\", min = \"10ms\", max = \"10ms\" }}\n"
            );
        }
        let file = env::temp_dir().join(format!("sdks-{}.toml", std::process::id()));
        fs::write(&file, config)?;
        let started = program().and_then(|program| Self::start(&program, &file));
        fs::remove_file(&file)?;
        started
    }

    fn start(program: &Path, config: &Path) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg("--config")
            .arg(config)
            // what the machine's own traffic goes through is not for loopback
            .env("NO_PROXY", "*")
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let mut stdout = BufReader::new(stdout);
        let mut said = String::new();
        stdout.read_line(&mut said)?;
        match said.trim().strip_prefix("listening on ") {
            Some(address) => Ok(Self {
                child,
                address: address.to_owned(),
                _stdout: stdout,
            }),
            None => Err(io::Error::other(format!("the gateway did not come up: {said}"))),
        }
    }

    /// Where the first upstream is asked through it by an SDK that keeps no path.
    pub fn origin(&self) -> String {
        self.address.clone()
    }

    /// Where the upstream with this number, from 0, is asked through it.
    pub fn url(&self, number: usize) -> String {
        format!("{}/{}", self.address, name(number))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn name(number: usize) -> String {
    format!("case-{number}")
}

/// The program, built where this one was.
fn program() -> io::Result<PathBuf> {
    let here = env::current_exe()?;
    let target = here
        .ancestors()
        .nth(2)
        .ok_or_else(|| io::Error::other("no target directory"))?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked", "--quiet", "--package", PACKAGE, "--target-dir"]);
    cargo.arg(target);
    if here.parent().is_some_and(|folder| folder.ends_with("release")) {
        cargo.arg("--release");
    }
    match cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status()?.success() {
        true => Ok(here.with_file_name(PACKAGE).with_extension(env::consts::EXE_EXTENSION)),
        false => Err(io::Error::other("the gateway cannot be built")),
    }
}
