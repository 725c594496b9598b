//! What only real sockets show: connections, bodies as they come, broken transports, HTTP/2, and what is told of all that.
//! The ids in the comments are those of the reported faults that the scenario tests are named after.

mod caller;
mod e_bodies;
mod given_back;
mod h_streams;
mod http2;
mod i_streams;
mod secrets;
mod transport;
mod unpolled;
