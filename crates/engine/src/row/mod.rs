//! Rows: insert, update, delete and read of a row of a table. From here upwards the code is
//! `async`: it waits when a call below returns a [`crate::WouldBlock`], and repeats the call.
pub mod batch;
pub mod cursor;
pub(crate) mod entry;
pub(crate) mod insert;
pub(crate) mod older;
pub(crate) mod overflow;
mod read_ahead;
pub mod update;
pub(crate) mod value;
pub(crate) mod version;
