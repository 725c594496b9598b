//! Servers on loopback to test an HTTP client against.
//!
//! A [`Server`] speaks HTTP/1.1 and plays a script: one item per request in order of arrival, over all connections; the
//! last item repeats. [`h2::Server`] does the same per stream of HTTP/2. Both dereference to a [`Ledger`] of what they
//! have seen.
//!
//! ```
//! use testbed::{Server, hang, reply};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), reqwest::Error> {
//! let server = Server::start([reply(429).ra(3), reply(503).ms(250).times(2), hang(), reply(200).body("ok")]).await;
//! let response = reqwest::get(server.url("/v1/orders")).await?;
//! assert_eq!(response.status(), 429);
//! assert_eq!((server.sends(), server.connections()), (1, 1));
//! drop(response);
//! server.wait_open(0).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Notation
//!
//! | in words                         | in a script                                                         |
//! |----------------------------------|---------------------------------------------------------------------|
//! | `429`, `503+RA=3`, `503+MS=250`  | `reply(429)`, `reply(503).ra(3)`, `reply(503).ms(250)`              |
//! | statuses only                    | `Server::start([429, 503, 200])`                                    |
//! | mixed                            | `Server::start(script![429, hang(), 200])`                          |
//! | `hang`, `rst`, `fin`             | [`hang()`], [`rst()`], [`fin()`]                                    |
//! | `sse(x)`                         | `sse(["data"])`, `sse([event("error", "{}"), comment("hi")])`       |
//! | `body∞`                          | `reply(503).endless()`, `reply(503).json("{}").endless().every(10)` |
//! | slow headers, late body          | `reply(200).after(50)`, `reply(200).body("x").late(50)`             |
//! | trickled body                    | `reply(200).chunks(["a", "b"]).every(10)`                           |
//! | content-length 10, send 5, close | `reply(200).body("0123456789").cut(5)`                              |
//! | stream that dies, goes silent    | `sse(["a"]).broken()`, `sse(["a"]).stalled()`                       |
//! | close inside the head            | `reply(200).cut_head(10)`                                           |
//! | reset instead of close           | `….rst()` after any of these                                        |
//! | trailers, pieces of bytes        | `….trailer("x-sum", 1)`, `….split([10, 3])`, `….split_every(7)`     |
//! | 1xx before the reply             | `….interim(100)`, `….early_hints("</a>")`                           |
//! | not kept, closed when idle       | `….close()`, `….idle_close(5)`, `….idle_close_when(&gate)`           |
//! | by the request                   | `Server::respond(\|request\| reply(…))`                             |
//! | refused port                     | [`Refused::new()`]                                                  |
//! | refused stream, calm down        | [`h2::refused()`], [`h2::enhance_your_calm()`]                      |
//! | GOAWAY above, at the stream      | [`h2::goaway_above()`], [`h2::goaway_covering()`]                   |
//!
//! All times are in milliseconds. To be sure of an order instead of hoping for it, hold a reply at a [`Gate`].
//!
//! # What a server has seen
//!
//! | in words               | method                                                                              |
//! |------------------------|-------------------------------------------------------------------------------------|
//! | `n`                    | [`sends`](Ledger::sends)                                                            |
//! | `conns`, open sockets  | [`connections`](Ledger::connections), [`open`](Ledger::open)                        |
//! | `t`                    | [`offsets`](Ledger::offsets), [`gaps`](Ledger::gaps), [`arrivals`](Ledger::arrivals)|
//! | load                   | [`in_flight`](Ledger::in_flight), [`peak_in_flight`](Ledger::peak_in_flight)        |
//! | what was asked         | [`requests`](Ledger::requests), [`request`](Ledger::request), [`last_request`](Ledger::last_request) |
//! | until it has been seen | [`wait_sends`](Ledger::wait_sends), [`wait_open`](Ledger::wait_open), …, [`wait_until`](Ledger::wait_until) |
//!
//! # Time
//!
//! A server runs on the runtime and the clock of its test. With `#[tokio::test(start_paused = true)]` the pauses of
//! replies and the arrivals are virtual and exact, as long as client and server share the one thread; a client that
//! hands work to other threads (name resolution, say) lets the clock run ahead. `localhost` is such a name: use
//! [`Server::url`], which has the address.
//!
//! # Limits
//!
//! * A client that closes only its sending side counts as gone.
//! * [`open`](Ledger::open) falls when the server learns of the close, a moment after the client acts: wait for it.
//! * The answer is chosen once the request has come whole; over HTTP/2, when its head has come.
//! * HTTP/2: header blocks of requests are not decoded, and no window is kept for replies: bodies below 64 KiB.

mod connection;
mod event;
mod gate;
pub mod h2;
mod inbox;
mod ledger;
mod listener;
mod redis;
mod refused;
mod reply;
mod request;
mod script;
mod server;
pub mod sim;

pub use event::{Event, comment, event};
pub use gate::Gate;
pub use ledger::Ledger;
pub use redis::RedisServer;
pub use refused::Refused;
pub use reply::{Reply, fin, hang, reply, rst, sse};
pub use request::Request;
pub use script::Script;
pub use server::Server;
