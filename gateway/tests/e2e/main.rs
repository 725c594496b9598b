//! The program as it is installed, between callers and a scripted upstream on loopback.

#![cfg(unix)]

mod lifecycle;
mod readme;
mod refusals;
mod relaying;
mod started;
mod streams;
mod tls;
