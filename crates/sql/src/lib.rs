#![forbid(unsafe_code)]
pub mod settings;
