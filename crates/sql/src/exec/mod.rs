//! Runs plans against the engine.
pub mod catalog;
pub mod ddl;
pub mod locks;
