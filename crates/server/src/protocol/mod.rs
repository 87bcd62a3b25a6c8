//! MySQL's client/server protocol 4.1. This module turns bytes into values and values into bytes;
//! it has no sockets and never waits.
pub mod auth;
pub mod capabilities;
pub mod client_collation;
pub mod column;
pub mod handshake;
pub mod lenenc;
pub mod long_text;
pub mod output;
pub mod packet;
pub mod parameters;
pub mod replication;
pub mod row;
pub mod temporal;
