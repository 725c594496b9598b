//! A gateway that has been started as a process of its own. Knows its address and what it has written.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_reqwest-ai-retry-gateway");
/// How long to wait for a process to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A policy whose waits are too short to be noticed.
pub(crate) const QUICK: &str = r#"policy.backoff = { base = "1ms", min = "1ms", max = "5ms" }"#;

/// A running gateway; dropping it kills it.
pub(crate) struct Started {
    child: Child,
    address: SocketAddr,
    log: Arc<Mutex<String>>,
}

/// `[upstreams.<name>]` for this URL, with more lines of its table.
pub(crate) fn upstream(name: &str, url: impl std::fmt::Display, more: &str) -> String {
    format!("[upstreams.{name}]\nurl = \"{url}\"\n{more}\n")
}

/// A file with this text.
pub(crate) fn file(text: &str) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("gateway-{}-{number}.toml", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

/// The same, where the system has no roots.
pub(crate) fn run_without_roots(arguments: &[&str]) -> Output {
    let nowhere = [("SSL_CERT_FILE", "/nowhere"), ("SSL_CERT_DIR", "/nowhere")];
    Command::new(PROGRAM).args(arguments).envs(nowhere).output().unwrap()
}

impl Started {
    /// With this configuration, on a free port unless it names one.
    pub(crate) fn with(config: &str) -> Started {
        Started::trusting(None, config)
    }

    /// The same, where the system's roots are these.
    pub(crate) fn trusting(roots: Option<&Path>, config: &str) -> Started {
        let listen = if config.contains("listen = ") {
            ""
        } else {
            "listen = \"127.0.0.1:0\"\n"
        };
        let path = file(&format!("{listen}{config}"));
        let mut command = Command::new(PROGRAM);
        if let Some(roots) = roots {
            command.env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
        }
        let mut child = command
            .arg("--config")
            .arg(&path)
            .env_remove("RUST_LOG")
            // what the machine's own traffic goes through is not for loopback
            .env("NO_PROXY", "*")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (written, mut stderr) = (Arc::clone(&log), BufReader::new(child.stderr.take().unwrap()));
        std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
                written.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        let mut said = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut said).unwrap();
        std::fs::remove_file(&path).unwrap();
        let address = said
            .trim()
            .strip_prefix("listening on http://")
            .and_then(|at| at.parse().ok());
        let Some(address) = address else {
            let _ = stdout.read_to_string(&mut said);
            panic!("the gateway did not start: {said}{}", log.lock().unwrap());
        };
        Started { child, address, log }
    }

    /// With one upstream, `one`, and nothing to wait for.
    pub(crate) fn before(server: &testbed::Server, more: &str) -> Started {
        Started::with(&upstream("one", server.url(""), &format!("{QUICK}\n{more}")))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until the log has this in it.
    pub(crate) async fn wait_log(&self, part: &str) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !self.log().contains(part) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(waited.await.is_ok(), "no {part:?} in the log:\n{}", self.log());
    }

    /// Asks it to end, as a supervisor does.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Asks it to end, as a keyboard does.
    pub(crate) fn interrupt(&self) {
        self.signal("-INT");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        match waited.await {
            Ok(status) => status,
            Err(_) => panic!("the gateway goes on after {PATIENCE:?}:\n{}", self.log()),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A caller that follows nothing, repeats nothing and undoes nothing.
pub(crate) fn caller() -> reqwest::Client {
    // as it comes, even where a dependency of something else has unpacking built in
    reqwest::Client::builder()
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .build()
        .unwrap()
}

/// A call to a model, which may be repeated.
pub(crate) fn ask(gateway: &Started) -> reqwest::RequestBuilder {
    caller()
        .post(gateway.url("/one/v1/chat/completions"))
        .body(r#"{"model":"m","messages":[]}"#)
}
