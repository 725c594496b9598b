//! The processes of a measurement: this program, run again as workers. Knows how they are begun, heard and killed, not what
//! they do.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::worker;

pub(crate) const PROCESSES: usize = 4;

/// Workers that are ready, and what they say.
pub(crate) struct Crew {
    children: Vec<(Child, Option<ChildStdin>)>,
    lines: Receiver<(usize, String)>,
}

impl Crew {
    /// Begins them, each with what it shall do, and lets them go together.
    pub(crate) fn start(orders: &[String]) -> io::Result<Self> {
        let (told, lines) = mpsc::channel();
        let mut children = Vec::new();
        for order in 0..PROCESSES {
            let mut child = Command::new(std::env::current_exe()?)
                .arg(worker::WORD)
                .args(orders)
                .arg(order.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let stdin = child.stdin.take();
            let Some(stdout) = child.stdout.take() else {
                return Err(io::Error::other("a worker without a voice"));
            };
            let told = told.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if told.send((order, line)).is_err() {
                        return;
                    }
                }
            });
            children.push((child, stdin));
        }
        let mut crew = Self { children, lines };
        for _ in 0..PROCESSES {
            let ready = crew
                .lines
                .recv_timeout(Duration::from_secs(30))
                .map_err(io::Error::other)?;
            if ready.1 != "ready" {
                return Err(io::Error::other(format!("a worker says {}", ready.1)));
            }
        }
        for (_, stdin) in &mut crew.children {
            if let Some(mut stdin) = stdin.take() {
                stdin.write_all(b"go\n")?;
            }
        }
        Ok(crew)
    }

    /// Kills one of them, which does not hear of it.
    pub(crate) fn kill(&mut self, number: usize) {
        if let Some((child, _)) = self.children.get_mut(number) {
            child.kill().ok();
        }
    }

    /// All that they still say, to the end.
    pub(crate) fn listen(&mut self) -> Vec<(usize, String)> {
        self.lines_until_the_end()
    }

    fn lines_until_the_end(&mut self) -> Vec<(usize, String)> {
        for (child, _) in &mut self.children {
            child.wait().ok();
        }
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(500)) {
            lines.push(line);
        }
        lines
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for (child, _) in &mut self.children {
            child.kill().ok();
            child.wait().ok();
        }
    }
}
