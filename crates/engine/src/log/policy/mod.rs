//! Which of the ways to write is taken, and how often a flush is begun: by what is measured.
pub(in crate::log) mod ab_test;
pub(in crate::log) mod flush_pacing;
pub(in crate::log) mod sampler;
pub(in crate::log) mod tuner;
pub(in crate::log) mod writer_mode;
