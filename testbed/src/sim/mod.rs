//! Simulated providers of AI models: their limits, answers and outages, to test and to measure clients against.
//!
//! A [`Model`] says how a provider is set up, a [`Provider`] decides call by call without a clock, and a [`Simulation`]
//! lets it work on tokio's clock. [`Transport`] puts it in the place of a network under `reqwest-middleware`, and
//! [`serve`] on a socket. [`Provider::bound`] is the best time that any client can reach.
//!
//! ```
//! use std::time::Duration;
//! use testbed::sim::{Call, Case, Headers, Outcome, Provider, Simulation};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let model = Case::Bucket10.model(120).headers(Headers::Off).jitter(Duration::from_millis(20));
//! let provider = Simulation::new(Provider::new(model, 7));
//! let reply = provider.call(&Call::new(250)).await;
//! assert_eq!((reply.status, reply.outcome), (200, Outcome::Admitted));
//! assert_eq!(provider.tally().refused(), 0);
//! let bound = provider.with(|provider| provider.bound(600, Duration::from_secs(2)));
//! assert_eq!(bound, Duration::from_secs(297));
//! # }
//! ```
//!
//! # Limits, all of which can be combined
//!
//! | in words                                | in a model                                                        |
//! |-----------------------------------------|-------------------------------------------------------------------|
//! | 120 a minute, burst 10                  | `.requests(Law::bucket(120, minute, 10))`                         |
//! | 2 in each second, a minute of the clock | `.requests(Law::window(2, second))`, `Law::window(120, minute)`   |
//! | 120 in any minute                       | `.requests(Law::sliding(120, minute))`                            |
//! | tokens                                  | `.tokens(Tokens::Output, law, Charge::UpfrontSettled)`            |
//! | calls at a time, calls in a day         | `.concurrency(4)`, `.daily(1000)`                                 |
//! | traffic that grows too fast             | `.growth(100, 150, quarter_of_an_hour)`                           |
//! | refusals count, somebody else           | `.counting_refusals()`, `.somebody_else(60, minute)`              |
//! | a limit that changes                    | `.requests_from(at, law)`                                         |
//! | outage                                  | `.outage(from, to, Fault::Status(529))`, `Fault::Hang`            |
//! | refused with a stated delay             | `Fault::Hinted { status: 429, retry_after: 5 }`                   |
//! | broken connections                      | `Fault::ConnectionReset`, `Fault::ConnectionRefused`              |
//! | a half, one model, one prompt fails     | `.failing(Outage::new(…).share(0.5))`, `.model("m")`, `.prompts([7])` |
//!
//! A call is charged against all limits or none. Concurrency is looked at first. A refusal that counts takes what has
//! come back since the last one, and never drives a limit into debt.

mod account;
mod background;
mod bucket;
mod call;
mod cases;
mod draw;
mod endpoint;
mod growth;
mod law;
mod meter;
mod model;
mod outage;
mod provider;
mod reply;
mod shape;
mod simulation;
mod sliding;
mod tally;
mod tokens;
mod transport;
mod under_way;
mod window;
mod wire_error;

pub use call::Call;
pub use cases::{Case, cases};
pub use endpoint::{Endpoint, serve};
pub use law::Law;
pub use model::{Headers, Hint, Latency, Model, Output};
pub use outage::{Fault, Outage};
pub use provider::Provider;
pub use reply::{Outcome, Piece, Refusal, Reply, Slot};
pub use shape::Shape;
pub use simulation::{Answer, Simulation};
pub use tally::{Arrival, Tally};
pub use tokens::{Charge, Tokens};
pub use transport::Transport;
