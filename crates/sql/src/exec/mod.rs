//! Runs plans against the engine.
pub mod catalog;
pub mod ddl;
#[cfg(test)]
mod fixture;
pub mod locks;
