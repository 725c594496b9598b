//! Counts what SDKs send for one call, as they come and with this crate, at a server that fails.
//!
//! `cargo run -p sdks` prints the README's table; with `-- --check README.md` it compares it with what stands there, with
//! `-- --write README.md` it puts it there. Either way it fails if a set-up of ours sent more or less often than it was
//! configured to.

pub mod adapter;
pub mod arrangement;
#[cfg(any(doctest, test))]
mod cookbook;
pub mod dialect;
pub mod fault;
pub mod gateway;
pub mod measure;
pub mod sdk;
pub mod table;
pub mod version;
