//! Servers on loopback to test an HTTP client against.

mod connection;
mod event;
mod gate;
pub mod h2;
mod inbox;
mod ledger;
mod listener;
mod refused;
mod reply;
mod request;
mod script;
mod server;

pub use event::{Event, comment, event};
pub use gate::Gate;
pub use ledger::Ledger;
pub use refused::Refused;
pub use reply::{Reply, fin, hang, reply, rst, sse};
pub use request::Request;
pub use script::Script;
pub use server::Server;
