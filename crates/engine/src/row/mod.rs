//! Rows: what happens to a table when one is inserted, changed, deleted or read. From here on up
//! the code is `async`: a [`crate::WouldBlock`] from below is waited for and the call made again.
pub mod cursor;
pub(crate) mod entry;
pub(crate) mod insert;
pub(crate) mod overflow;
pub mod update;
pub(crate) mod value;
pub(crate) mod version;
