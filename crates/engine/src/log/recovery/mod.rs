//! What a start reads, and what is written for the next one: the checkpoint, the frames behind it,
//! and whether they end or are damaged.
pub(in crate::log) mod checkpoint_file;
pub(crate) mod inspect;
pub(in crate::log) mod log_reader;
pub(in crate::log) mod tail;
pub(in crate::log) mod witness;
