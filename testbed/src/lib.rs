//! Servers on loopback to test an HTTP client against.
