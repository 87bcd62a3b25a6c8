//! The `redolith` server: listener, protocol, sessions, settings from the command line.
#![deny(unsafe_code)] // allowed in send_batch/ring.rs and idle_memory.rs alone
pub mod backend;
mod binlog_dump;
mod client_file;
mod commands;
pub mod connection;
pub mod dump;
mod engine_status;
mod error;
pub mod error_log;
mod idle_memory;
pub mod listener;
mod login;
pub mod login_seats;
mod long_work;
mod metrics;
pub mod options;
pub mod protocol;
mod result_writer;
mod runtime;
mod send_batch;
pub mod server;
mod socket;
pub mod sql_backend;
pub mod start;
mod statements;
pub mod top;
mod worker_affinity;
