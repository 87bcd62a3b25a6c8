//! (being built)
pub(crate) mod dirty;
