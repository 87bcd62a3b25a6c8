//! (being built)
pub mod mdl;
