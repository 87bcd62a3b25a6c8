#![forbid(unsafe_code)]
pub mod processes;
pub mod settings;
pub mod status;
