//! Rows: insert, update, delete and read of a row of a table. From here upwards the code is
//! `async`: it waits when a call below returns a [`crate::WouldBlock`], and repeats the call.
pub mod cursor;
pub mod entry;
pub mod insert;
pub mod overflow;
pub mod update;
pub mod value;
pub mod version;
