//! Tests of the server over sockets and as a process.
mod binlog_dump;
mod cli;
mod common;
mod cursors;
mod power_loss;
mod process;
mod protocol;
