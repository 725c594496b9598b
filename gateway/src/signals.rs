//! The signals that ask the program to end. Knows nothing of what it does.

use std::io;

use tokio::sync::oneshot;

/// Listens from now on; the first future ends at the first signal, the second at the second.
pub(crate) fn heard() -> io::Result<(impl Future<Output = ()>, impl Future<Output = ()>)> {
    let mut signals = Signals::new()?;
    let (once, first) = oneshot::channel();
    let (twice, second) = oneshot::channel();
    tokio::spawn(async move {
        for told in [once, twice] {
            signals.recv().await;
            // nobody may be waiting any more
            let _ = told.send(());
        }
    });
    Ok((ended(first), ended(second)))
}

async fn ended(told: oneshot::Receiver<()>) {
    if told.await.is_err() {
        // the runtime is going, and whoever waits with it
        std::future::pending::<()>().await;
    }
}

/// What asks a program to end: an interrupt from the keyboard, or the word of a supervisor.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// What asks a program to end: an interrupt from the keyboard.
#[cfg(windows)]
struct Signals {
    interrupt: tokio::signal::windows::CtrlC,
}

#[cfg(windows)]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: tokio::signal::windows::ctrl_c()?,
        })
    }

    async fn recv(&mut self) {
        let _ = self.interrupt.recv().await;
    }
}
