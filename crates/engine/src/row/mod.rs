//! Rows: what happens to a table when one is inserted, changed, deleted or read. From here on up
//! the code is `async`: a [`crate::WouldBlock`] from below is waited for and the call made again.
pub mod cursor;
pub mod entry;
pub mod insert;
pub mod overflow;
pub mod update;
pub mod value;
pub mod version;
