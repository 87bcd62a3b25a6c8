//! The `redolith` server: listener, protocol, sessions, settings from the command line.
#![forbid(unsafe_code)]
pub mod protocol;
pub mod standin;
