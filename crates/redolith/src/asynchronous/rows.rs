//! A range of rows, read from both ends.
use super::transaction::{Reader, State};
use crate::definition::Table;
use crate::error::{Error, Result};
use crate::value::{Key, Value};
use redolith_engine::row::cursor::{Cursor, Read};
use std::ops::{Bound, RangeBounds};

/// The rows of a range that have not been read yet: [`Rows::next`] reads the first of them,
/// [`Rows::next_back`] the last. Both are given the transaction whose range it is, so that it can
/// be used for other calls in between.
pub struct Rows<K, V> {
    table: Table<K, V>,
    /// The number of the transaction.
    transaction: u64,
    forward: End,
    backward: End,
}
/// One end of a range.
struct End {
    cursor: Cursor,
    /// The cursor is at a row that has not been given: reading it failed, or the future that read
    /// it was dropped. The next call reads this row.
    is_due: bool,
    /// The key of the row that was read last.
    last: Option<Vec<u8>>,
}

impl<K, V> std::fmt::Debug for Rows<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rows({})", self.table.name())
    }
}
impl<K: Key, V: Value> Rows<K, V> {
    pub(crate) fn new<'k>(
        state: &mut State,
        table: &Table<K, V>,
        range: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<Rows<K, V>> {
        state.check(table)?;
        // The key that follows another one directly is that one with a zero byte.
        let behind = |key| {
            let mut bytes = table.bound(key);
            bytes.push(0);
            bytes
        };
        let low = match range.start_bound() {
            Bound::Included(key) => table.bound(key),
            Bound::Excluded(key) => behind(key),
            Bound::Unbounded => Vec::new(),
        };
        let high = match range.end_bound() {
            Bound::Included(key) => Some(behind(key)),
            Bound::Excluded(key) => Some(table.bound(key)),
            Bound::Unbounded => None,
        };
        let end = |reverse| {
            let (table, low, high) = (table.table.clone(), low.clone(), high.clone());
            let cursor = Cursor::new(table, 0, low, high, reverse, Read::Consistent);
            End { cursor, is_due: false, last: None }
        };
        let (forward, backward) = (end(false), end(true));
        Ok(Rows { table: table.clone(), transaction: state.number(), forward, backward })
    }
    /// The first row that has not been read; None if all have been.
    pub async fn next(&mut self, of: &mut (impl Reader + ?Sized)) -> Result<Option<(K, V)>> {
        let state = of.state();
        self.check(state)?;
        read(&self.table, state, &mut self.forward, |key| {
            self.backward.last.as_deref().is_some_and(|last| key >= last)
        })
        .await
    }
    /// The last row that has not been read; None if all have been.
    pub async fn next_back(&mut self, of: &mut (impl Reader + ?Sized)) -> Result<Option<(K, V)>> {
        let state = of.state();
        self.check(state)?;
        read(&self.table, state, &mut self.backward, |key| {
            self.forward.last.as_deref().is_some_and(|last| key <= last)
        })
        .await
    }
    fn check(&self, state: &State) -> Result<()> {
        if state.number() == self.transaction { Ok(()) } else { Err(Error::OtherTransaction) }
    }
}

/// Reads one row more at this end, unless the other end has read it.
async fn read<K: Key, V: Value>(
    table: &Table<K, V>,
    state: &mut State,
    end: &mut End,
    is_read: impl Fn(&[u8]) -> bool + Send,
) -> Result<Option<(K, V)>> {
    let trx = state.on(table).await?;
    let before = trx.savepoint();
    let (cursor, is_due) = (&mut end.cursor, &mut end.is_due);
    let found = async {
        let moved = *is_due || cursor.next_at_hand(trx) || cursor.next(trx).await?;
        *is_due = moved && !is_read(cursor.row().key);
        if !*is_due {
            return Ok(false);
        }
        cursor.payload(trx).await?;
        *is_due = false;
        Ok(true)
    };
    match found.await {
        Ok(false) => return Ok(None),
        Ok(true) => {}
        Err(e) => return Err(state.failed(e, table, before).await),
    }
    let row = cursor.row();
    let last = end.last.get_or_insert_default();
    last.clear();
    last.extend_from_slice(row.key);
    let long = table.table.layout.has_externals(row.stored);
    table.row_of(if long { cursor.whole() } else { row.stored }).map(Some)
}
