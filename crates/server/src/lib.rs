//! The `redolith` server: listener, protocol, sessions, settings from the command line.
#![deny(unsafe_code)] // allowed in outbox/ring.rs and give_back.rs alone
pub mod backend;
mod beside;
mod commands;
pub mod connection;
pub mod dump;
mod engine_status;
mod error;
mod give_back;
mod host;
pub mod listener;
mod login;
pub mod login_seats;
mod metrics;
pub mod options;
mod outbox;
pub mod protocol;
pub mod server;
mod socket;
pub mod sql_backend;
pub mod start;
mod statements;
pub mod top;
mod wire;
mod workers;
