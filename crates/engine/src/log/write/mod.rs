//! The way of the bytes from the buffer into the segments: the choice of the next write, the write,
//! the sync, and the files.
pub(in crate::log) mod overlapped_writes;
pub(in crate::log) mod segment_allocator;
pub(in crate::log) mod segments;
pub(in crate::log) mod write_cursor;
pub(in crate::log) mod write_sync;
