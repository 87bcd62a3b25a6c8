//! MySQL's client/server protocol 4.1: bytes in, bytes out; no sockets and no waiting here.
pub mod auth;
pub mod capabilities;
pub mod column;
pub mod handshake;
pub mod lenenc;
pub mod output;
pub mod packet;
pub mod parameters;
pub mod row;
pub mod temporal;
