//! Rows that the server tells of itself, for SHOW and INFORMATION_SCHEMA: each is in the account
//! before the next one is made (MEM-1).
use super::row_bytes;
use crate::error::Result;
use crate::memory::Account;
use redolith_types::Value;

pub type Row = Box<[Value<'static>]>;

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
    /// Settings and counters, which are as many as the program has: not counted, so that they are
    /// told when there is no memory left.
    pub fn extend_uncounted(&mut self, rows: impl IntoIterator<Item = Vec<Value<'static>>>) {
        self.rows.extend(rows.into_iter().map(Vec::into_boxed_slice));
    }
    /// For what is made beside the rows.
    pub fn memory(&mut self) -> &mut Account {
        self.memory
    }
    /// They stay in the account.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}
