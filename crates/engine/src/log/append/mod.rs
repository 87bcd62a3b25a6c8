//! The way of a frame into the log buffer: its room, its place, its bytes, and the announcement
//! that they are there.
pub(in crate::log) mod buffer;
pub(in crate::log) mod credit;
pub(in crate::log) mod credit_wait;
mod credit_waiters;
pub(in crate::log) mod frame;
pub(in crate::log) mod slots;
