//! The files that a start reads and that are written for the next start: the checkpoint and the
//! frames behind it; and the decision whether the log ends there or is damaged.
pub(in crate::log) mod checkpoint_file;
pub(crate) mod inspect;
pub(in crate::log) mod log_reader;
pub(in crate::log) mod tail;
pub(in crate::log) mod witness;
