//! (being built)
pub mod sys;
pub mod view;
