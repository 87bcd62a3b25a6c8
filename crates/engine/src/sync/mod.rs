//! The tools with which threads and tasks of the engine synchronise.
//!
//! [`event`] is for many tasks that wait for an event, [`notify`] is for one background task. The
//! other modules are the atomics, mutexes and latches of the redo log, the buffer pool and the lock
//! table: the real ones, or those of loom and shuttle, which try interleavings.
pub(crate) mod buf;
pub(crate) mod event;
pub(crate) mod lock;
pub(crate) mod log;
#[cfg(loom)]
pub(crate) mod loom_model;
pub(crate) mod notify;
