//! The `redolith` server: listener, protocol, sessions, settings from the command line.
#![forbid(unsafe_code)]
pub mod backend;
mod commands;
pub mod connection;
mod error;
pub mod listener;
mod login;
pub mod protocol;
pub mod server;
mod socket;
mod statements;
mod wire;
