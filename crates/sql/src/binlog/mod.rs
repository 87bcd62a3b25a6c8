//! The binary log as sessions write it: the rows that a transaction changes, and the text of
//! definitions, become events while they happen, and travel with the commit.
//!
//! - [`Capture`] collects the events of a session's transaction. A change is captured after the
//!   engine has made it.
//! - [`Definition`] makes the record of a definition, which the engine writes with its change.
//! - [`keys`] says which rows a transaction has changed, for the logical clock.
//! - [`Filter`] says which databases are logged.
//! - [`LogSettings`] is what of the session's variables the events depend on.
//!
//! BINLOG-1: what a statement, a savepoint or a transaction takes back is not in the events.
//! BINLOG-2: the events of a transaction are bounded while they grow, so that a commit never finds
//! them too long: error 1197, and the transaction is rolled back. Events that outgrow memory go to
//! a spill file (SPILL-1).
mod capture;
mod definition;
mod filter;
mod images;
mod keys;
mod register;
pub(crate) mod semi_sync;
mod settings;
mod stages;
mod wait;
mod xa;

pub use capture::{Capture, Point, Sealed};
pub use definition::{Definition, StatementText};
pub use filter::Filter;
pub use register::register;
pub use settings::{LogSettings, checksum};
pub use wait::killable;
pub use xa::xa_end;

use crate::error::SqlError;
use redolith_binlog::EventTooLong;

impl From<EventTooLong> for SqlError {
    fn from(_: EventTooLong) -> SqlError {
        SqlError::row_not_logged()
    }
}
