//! Getting a frame into the buffer: room for it, its place, its bytes, and the news that it is
//! there.
pub(in crate::log) mod buffer;
pub(in crate::log) mod credit;
pub(in crate::log) mod credit_wait;
pub(in crate::log) mod frame;
pub(in crate::log) mod slots;
