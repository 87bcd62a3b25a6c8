//! Waiting until an LSN is durable, and the choice of the waiter that writes.
pub(in crate::log) mod dedicated;
pub(in crate::log) mod idle_leader;
pub(in crate::log) mod leader;
mod leadership;
pub(in crate::log) mod lsn_waiters;
