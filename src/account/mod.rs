//! Whether and when a send may start. Knows no request and no answer; the loop asks it before every send.

/// Admits every send at once.
#[derive(Debug, Default)]
pub(crate) struct Account;

/// The right to one send. Whatever it holds is given back by dropping it.
#[derive(Debug)]
pub(crate) struct Permit;

impl Account {
    /// Waits for the right to send.
    #[allow(
        clippy::unused_async,
        reason = "admission waits for its turn wherever there is a limit"
    )]
    pub(crate) async fn admit(&self) -> Permit {
        Permit
    }
}
