//! MySQL 8's binary log: events, rows, sets of GTIDs, and files. The crate needs no server and no
//! engine: it turns what happened into bytes, and bytes into what happened.
//!
//! - [`TransactionBuilder`] encodes the events of a transaction while it runs; [`Placement`] is
//!   what the transaction draws when it commits, and the two together are the bytes in the file.
//! - [`Event`] is one event; [`append`] writes events that belong to no transaction, and
//!   [`Event::decode`] reads any event.
//! - [`Table`] describes a table for TABLE_MAP and ROWS events, whose rows [`Rows::rows`] reads.
//! - [`Reader`] walks a file and checks all of it; [`Index`] is the list of files.
//! - [`GtidSet`] is a set of names of transactions.
//!
//! `docs/binlog.md` tells what of MySQL's format is here, and what is not.
#![forbid(unsafe_code)]
#![deny(missing_docs, unreachable_pub)]
mod bytes;
mod checksum;
mod column;
mod column_set;
pub mod dump;
mod error;
mod event;
pub mod file;
mod gtid;
mod placement;
pub mod rows;
mod table;
mod transaction;

pub use checksum::{CRC_LEN, Checksum, crc32};
pub use column::{Column, Kind};
pub use column_set::{ColumnSet, RowImage};
pub use error::{DecodeError, EventTooLong};
pub use event::{
    Event, EventType, FormatDescription, GtidEvent, Header, Incident, MAX_UPDATED_DATABASES,
    MariadbGroup, MariadbGtidEvent, Query, Rotate, Rows, RowsKind, STMT_END, Stamp, StatusVars,
    XaName, XaPrepare, append, append_artificial, append_translated, flags,
};
pub use file::{Damage, Index, RawEvent, ReadError, Reader};
pub use gtid::{Gtid, GtidParseError, GtidSet, MAX_NUMBER as MAX_GTID_NUMBER, MariadbGtid, Uuid};
pub use placement::{BinlogPosition, LogicalClock, Placement};
pub use table::{KeyPart, RowMetadata, Table, TableId};
pub use transaction::{
    Change, EncodeOptions, GtidTemplate, Image, PlacedEvents, Placer, Savepoint,
    TransactionBuilder, TransactionEvents, count_events, encoded_checksum, recode, recode_events,
    recode_first,
};

/// The longest event: a replica takes no longer one. (MySQL, the most that
/// `slave_max_allowed_packet` can be)
pub const MAX_EVENT_BYTES: usize = 1 << 30;
