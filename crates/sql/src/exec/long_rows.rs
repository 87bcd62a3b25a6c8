//! Charges the memory account before a row that is longer than its place in a page is made, and
//! before the engine reads or writes it (MEM-1).
use crate::error::{Result, SqlError};
use crate::memory::Account;
use redolith_engine::Trx;
use redolith_engine::row::cursor::Cursor;
use redolith_types::{MAX_VARIABLE, RowLayout, Value};

/// Shorter rows are not charged: the buffers of every connection have about this size.
pub const LONG_ROW: usize = 8 << 10;

/// Appends the payload of a row, if the account has room for it.
#[inline]
pub fn encode(
    layout: &RowLayout,
    values: &[Value<'_>],
    out: &mut Vec<u8>,
    memory: &mut Account,
) -> Result<()> {
    layout.encode_if(values, out, |bytes| has_room(bytes, memory))
}
/// Appends the payload of a row with changes, if the account has room for it.
#[inline]
pub fn update(
    layout: &RowLayout,
    old: &[u8],
    changes: &[(usize, Value<'_>)],
    out: &mut Vec<u8>,
    memory: &mut Account,
) -> Result<()> {
    layout.update_if(old, changes, out, |bytes| has_room(bytes, memory))
}
#[inline]
fn has_room(bytes: usize, memory: &mut Account) -> Result<()> {
    if bytes <= LONG_ROW { Ok(()) } else { has_room_for_long(bytes, memory) }
}
/// A statement may name one long value in many columns, so that the row has many times the bytes of
/// everything that the statement was charged for. The values that it has made are charged already.
#[cold]
fn has_room_for_long(bytes: usize, memory: &mut Account) -> Result<()> {
    if bytes > MAX_VARIABLE {
        return Err(SqlError::row_too_long(MAX_VARIABLE));
    }
    memory.has_room(bytes.saturating_sub(memory.used()))
}

/// Reads the long columns of the cursor's current row. Afterwards `Cursor::whole` is the whole row.
/// `counted` has the bytes charged for the cursor's previous whole row.
pub async fn fetch(
    cursor: &mut Cursor,
    trx: &Trx,
    memory: &mut Account,
    counted: &mut usize,
) -> Result<()> {
    let bytes = whole_len(&cursor.table().layout, cursor.row().stored);
    memory.recount(counted, bytes)?;
    cursor.payload(trx).await?;
    Ok(())
}
/// True if one of the row's long columns is among `columns`, which are ascending.
pub fn needs_long(layout: &RowLayout, stored: &[u8], columns: &[u16]) -> bool {
    layout.externals(stored).any(|(column, ..)| columns.binary_search(&(column as u16)).is_ok())
}
/// The length of a stored row including its long columns.
fn whole_len(layout: &RowLayout, stored: &[u8]) -> usize {
    let long = layout.externals(stored).map(|(.., len)| usize::try_from(len).unwrap_or(usize::MAX));
    long.fold(stored.len(), usize::saturating_add)
}

/// Charges for the memory of a row while the engine writes it; the write may wait for a lock. If
/// `moves`, the row's place in the table changes, so the engine needs the whole row.
#[inline]
pub fn charge_write(
    layout: &RowLayout,
    row: &Vec<u8>,
    moves: impl FnOnce() -> bool,
    memory: &mut Account,
) -> Result<()> {
    if row.len() <= LONG_ROW && !layout.has_externals(row) {
        Ok(())
    } else {
        charge_long_write(layout, row, moves(), memory)
    }
}
#[cold]
fn charge_long_write(
    layout: &RowLayout,
    row: &Vec<u8>,
    moves: bool,
    memory: &mut Account,
) -> Result<()> {
    let mut longest = [0, 0];
    for (_, len) in layout.inline_lens(row) {
        longest = [longest[0].max(len), longest[1].max(len.min(longest[0]))];
    }
    // The long columns go to their pages one after the other, the longest first. Each step copies
    // the row without the column, so at most two copies exist: the row without its longest column,
    // and the row without its two longest columns.
    let first = row.len() - longest[0];
    let whole = if moves { whole_len(layout, row) } else { 0 };
    memory.charge((row.capacity() + first + (first - longest[1])).saturating_add(whole))
}
