//! Waiting until an LSN is durable, and who of those that wait writes.
pub(in crate::log) mod dedicated;
pub(in crate::log) mod leader;
pub(in crate::log) mod lsn_waiters;
