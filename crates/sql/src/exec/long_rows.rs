//! Rows that are longer than their place in a page: what it takes to read one whole or to write it
//! is in the account before (MEM-1).
use crate::error::Result;
use crate::memory::Account;
use redolith_engine::Trx;
use redolith_engine::row::cursor::Cursor;
use redolith_types::RowLayout;

/// A row that is shorter is not counted: the buffers that every connection has are of this order.
pub const LONG_ROW: usize = 8 << 10;

/// Reads the long columns of the row that the cursor is at: from then on `Cursor::whole` is the
/// row. `counted` is what the account knows of the cursor's whole row, which is another's until
/// now.
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
/// Whether a row has a long column that is one of `columns`, ascending.
pub fn needs_long(layout: &RowLayout, stored: &[u8], columns: &[u16]) -> bool {
    layout.externals(stored).any(|(column, ..)| columns.binary_search(&(column as u16)).is_ok())
}
/// The length of a stored row with its long columns inside.
fn whole_len(layout: &RowLayout, stored: &[u8]) -> usize {
    let long = layout.externals(stored).map(|(.., len)| usize::try_from(len).unwrap_or(usize::MAX));
    long.fold(stored.len(), usize::saturating_add)
}

/// Charges what a row takes while the engine writes it, which may have to wait for a lock. `moves`:
/// its place in the table changes, for which it is made whole.
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
    // The long columns go to their pages one after the other, the longest first. The row is copied
    // without the first, that copy without the second: these two are there at a time.
    let first = row.len() - longest[0];
    let whole = if moves { whole_len(layout, row) } else { 0 };
    memory.charge((row.capacity() + first + (first - longest[1])).saturating_add(whole))
}
