//! What threads and tasks of the engine meet at.
//!
//! [`event`] is for many tasks that wait for something to happen, [`notify`] for one background
//! task. The other modules are the atomics, mutexes and latches that the log, the buffer pool and
//! the lock table are written with: the real ones, or those of loom and shuttle, which try
//! interleavings.
pub(crate) mod buf;
pub(crate) mod event;
pub(crate) mod lock;
pub(crate) mod log;
#[cfg(loom)]
pub(crate) mod loom_model;
pub(crate) mod notify;
