//! WRITE_ROWS (30), UPDATE_ROWS (31) and DELETE_ROWS (32), version 2.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 6 | table id |
//! | 6 | 2 | flags: 1, the last of its statement ([`STMT_END`]) |
//! | 8 | 2 | 2 + the bytes of extra data that follow: 2 |
//! | 10 | 1.. | c, the number of columns, length-encoded |
//! | | (c + 7) / 8 | columns of the first image |
//! | | (c + 7) / 8 | UPDATE: columns of the image after the change |
//! | | rest | rows: an image (WRITE: after, DELETE: before), or two (UPDATE: before, after) |
//!
//! An image is a bit per column that it has (set: NULL), filled up to bytes, and the values that
//! are not NULL ([`crate::rows`]).
use super::EventType;
use crate::bytes::{Input, put_lenenc, put_low, put_u16};
use crate::column_set::ColumnSet;
use crate::rows::RowIter;
use crate::table::TABLE_ID_LEN;
use crate::{DecodeError, Table, TableId};

/// The place of the flags in the body.
pub(crate) const FLAGS_AT: usize = TABLE_ID_LEN;
/// The event is the last of its statement: a replica forgets the tables that were mapped.
pub const STMT_END: u16 = 1;
/// The length of extra data counts itself.
const NO_EXTRA_DATA: u16 = 2;

/// What happened to the rows of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsKind {
    /// INSERT.
    Write,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

impl RowsKind {
    /// The type of the events.
    pub fn event_type(self) -> EventType {
        match self {
            RowsKind::Write => EventType::WRITE_ROWS,
            RowsKind::Update => EventType::UPDATE_ROWS,
            RowsKind::Delete => EventType::DELETE_ROWS,
        }
    }

    /// Whether a row has an image before the change.
    pub fn has_before(self) -> bool {
        self != RowsKind::Write
    }

    /// Whether a row has an image after the change.
    pub fn has_after(self) -> bool {
        self != RowsKind::Delete
    }
}

/// The body of a ROWS event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<'a> {
    /// What happened to the rows.
    pub kind: RowsKind,
    /// The table of the TABLE_MAP event with this number.
    pub table_id: TableId,
    /// [`STMT_END`], and flags of other writers.
    pub flags: u16,
    /// The columns of images before the change. Empty for WRITE.
    pub before: ColumnSet,
    /// The columns of images after the change. Empty for DELETE.
    pub after: ColumnSet,
    /// The rows, encoded.
    pub images: &'a [u8],
}

/// Appends the body up to the rows.
pub(crate) fn put_head(
    out: &mut Vec<u8>,
    kind: RowsKind,
    table_id: TableId,
    flags: u16,
    before: &ColumnSet,
    after: &ColumnSet,
) {
    put_low::<TABLE_ID_LEN>(out, table_id.0);
    put_u16(out, flags);
    put_u16(out, NO_EXTRA_DATA);
    put_lenenc(out, before.columns() as u64);
    if kind.has_before() {
        out.extend_from_slice(before.as_bytes());
    }
    if kind.has_after() {
        out.extend_from_slice(after.as_bytes());
    }
}

impl<'a> Rows<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_head(out, self.kind, self.table_id, self.flags, &self.before, &self.after);
        out.extend_from_slice(self.images);
    }

    pub(super) fn decode(kind: RowsKind, body: &'a [u8]) -> Result<Rows<'a>, DecodeError> {
        let mut input = Input::new(body, "a ROWS event");
        let table_id = TableId(input.le(TABLE_ID_LEN)?);
        let flags = input.u16()?;
        let extra = input.u16()?.checked_sub(NO_EXTRA_DATA);
        input.bytes(usize::from(extra.ok_or(input.wrong("the extra data has no length"))?))?;
        let columns = input.count()?;
        let mut set = |is_there: bool| match is_there {
            true => Ok(ColumnSet::from_bytes(input.bytes(columns.div_ceil(8))?, columns)),
            false => Ok(ColumnSet::none(columns)),
        };
        let (before, after) = (set(kind.has_before())?, set(kind.has_after())?);
        Ok(Rows { kind, table_id, flags, before, after, images: input.rest() })
    }

    /// Whether the event is the last of its statement.
    pub fn is_end_of_statement(&self) -> bool {
        self.flags & STMT_END != 0
    }

    /// The rows, of the table whose TABLE_MAP event has this event's table id.
    pub fn rows<'t>(&self, table: &'t Table) -> Result<RowIter<'a, 't>, DecodeError> {
        RowIter::new(self, table)
    }
}
