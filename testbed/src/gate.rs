//! A gate knows whether it has been opened, and lets others wait for that. It does not know who waits or why.
//!
//! A test that must be sure that two things overlap holds one of them at a gate; a pause of some milliseconds only makes
//! it likely.

use tokio::sync::watch;

/// Holds replies back until the test opens it. Clones are the same gate; once open it stays open.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Gate {
        Gate(watch::Sender::new(false))
    }

    /// Lets everything through, now and later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Ends when the gate is open.
    pub(crate) async fn passed(&self) {
        // The sender lives as long as `self`, so the wait cannot fail for want of one.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Gate {
        Gate::new()
    }
}
