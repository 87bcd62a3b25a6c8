//! Rows about the server itself, for SHOW and INFORMATION_SCHEMA. [`Gathered`] charges each row to
//! the memory account before the caller makes the next row (MEM-1).
use super::row_bytes;
use crate::error::Result;
use crate::memory::Account;
use redolith_types::Value;

pub type Row = Box<[Value<'static>]>;

/// The rows, or what rows are about, that `keep` returns true for, up to its first error.
pub fn filtered<T>(all: Vec<T>, mut keep: impl FnMut(&T) -> Result<bool>) -> Result<Vec<T>> {
    let kept = |one| keep(&one).map(|keeps| keeps.then_some(one)).transpose();
    all.into_iter().filter_map(kept).collect()
}

pub struct Gathered<'m> {
    rows: Vec<Row>,
    memory: &'m mut Account,
}
impl<'m> Gathered<'m> {
    pub fn new(memory: &'m mut Account) -> Gathered<'m> {
        Gathered { rows: Vec::new(), memory }
    }
    pub fn push(&mut self, row: Vec<Value<'static>>) -> Result<()> {
        self.memory.charge(size_of::<Row>() + row_bytes(&row))?;
        self.rows.push(row.into_boxed_slice());
        Ok(())
    }
    pub fn extend(&mut self, rows: impl IntoIterator<Item = Vec<Value<'static>>>) -> Result<()> {
        rows.into_iter().try_for_each(|row| self.push(row))
    }
    /// Adds rows without charging the account. It is for settings and counters: the program fixes
    /// their number, and a client must be able to read them when no memory is left.
    pub fn extend_uncounted(&mut self, rows: impl IntoIterator<Item = Vec<Value<'static>>>) {
        self.rows.extend(rows.into_iter().map(Vec::into_boxed_slice));
    }
    /// The account, so that the caller can charge memory other than the rows.
    pub fn memory(&mut self) -> &mut Account {
        self.memory
    }
    /// Returns the rows. Their bytes stay charged to the account.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}
