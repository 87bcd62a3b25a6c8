//! Rows that a statement keeps in their order: in memory, and in a temporary file if they are many.
use super::ExecContext;
use super::row_buffer::{RowValues, read_row, write};
use super::scan::go_on;
use super::select::RowTarget;
use crate::error::{Result, SqlError};
use redolith_engine::temporary::{Records, TemporaryFile, begin_record, end_record, take_record};
use redolith_types::Value;

/// The most bytes that are written to a file, or read, at a time.
const PIECE: usize = 1 << 20;
/// The bytes of rows between two looks at the memory.
const LOOK: usize = 64 << 10;

#[derive(Default)]
pub struct Spool {
    /// The rows behind those in the file, as records.
    bytes: Vec<u8>,
    rows: u64,
    file: Option<TemporaryFile>,
    /// The bytes that are written to the file, and read, at a time.
    piece: usize,
    /// The reader of the file, and the place of the next row in memory.
    records: Option<Records>,
    next: usize,
    failed: Option<SqlError>,
}

impl Spool {
    /// No rows yet, whose file is there already.
    pub fn in_file(cx: &mut ExecContext<'_>) -> Result<Spool> {
        cx.env.be_heavy();
        let file = cx.env.temporary().map(|space| space.create(cx.env.disk)).transpose()?;
        Ok(Spool { file, piece: Spool::piece(cx), ..Spool::default() })
    }
    /// Whether a part of the rows is in a file.
    pub fn is_in_file(&self) -> bool {
        self.file.is_some()
    }
    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }
    pub fn memory(&self) -> usize {
        // A reader takes its memory when it reads the first row.
        self.bytes.capacity()
            + self.records.as_ref().map_or(0, |records| records.memory().max(self.piece))
    }
    /// The bytes of the rows in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
    pub fn push(&mut self, values: &[Value<'_>]) -> Result<()> {
        let start = begin_record(&mut self.bytes);
        values.iter().for_each(|v| write(v, &mut self.bytes));
        if !end_record(&mut self.bytes, start) {
            return Err(SqlError::new(
                1038,
                "Out of memory: a row is longer than 4294967295 bytes",
            ));
        }
        self.rows += 1;
        Ok(())
    }
    /// Fails if a row was too long to be kept.
    pub fn check(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }
    /// Forgets all rows, and keeps the memory for others.
    pub fn clear(&mut self) {
        *self = Spool { bytes: std::mem::take(&mut self.bytes), ..Spool::default() };
        self.bytes.clear();
    }

    fn piece(cx: &ExecContext<'_>) -> usize {
        PIECE.min(cx.env.spill_at() / 2)
    }
    /// Writes the rows in memory to the file if they have become many.
    async fn spill(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        let Some(space) = cx.env.temporary() else { return Ok(()) };
        let most = if self.file.is_some() { self.piece } else { cx.env.spill_at() };
        if self.bytes.len() < most {
            return Ok(());
        }
        cx.env.be_heavy();
        self.piece = Spool::piece(cx);
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(space.create(cx.env.disk)?),
        };
        for piece in self.bytes.chunks(self.piece) {
            file.append(piece)?;
            cx.trx.give_way().await;
            go_on(&cx.env.session.process)?;
        }
        if self.bytes.capacity() > 2 * self.piece {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        Ok(())
    }

    /// The rows as records, if all of them are in memory.
    pub fn records_in_memory(&self) -> Option<&[u8]> {
        self.file.is_none().then_some(&self.bytes[..])
    }
    /// The next row is the first one again.
    pub fn rewind(&mut self) {
        self.records = self.file.as_ref().map(|file| Records::new(0, file.size(), self.piece));
        self.next = 0;
    }
    /// The next row, after [`Spool::rewind`]; `None` after the last.
    pub fn next(&mut self) -> Result<Option<RowValues<'_>>> {
        let in_file = match (&mut self.records, &self.file) {
            (Some(records), Some(file)) => records.advance(file)?,
            _ => false,
        };
        if in_file {
            let record = self.records.as_ref().and_then(Records::current);
            return Ok(record.map(read_row));
        }
        let mut rest = &self.bytes[self.next..];
        let record = take_record(&mut rest);
        self.next = self.bytes.len() - rest.len();
        Ok(record.map(read_row))
    }
}

/// All rows of a SELECT, for a reader that comes when the SELECT has ended.
impl RowTarget for Spool {
    fn row(&mut self, values: &[Value<'_>]) {
        if let Err(e) = self.push(values) {
            self.failed.get_or_insert(e);
        }
    }
    fn expect(&mut self, _: usize) {}
    fn held(&self) -> usize {
        self.memory()
    }
    fn wants_drain(&self) -> bool {
        self.bytes.len() >= self.next + LOOK || self.failed.is_some()
    }
    async fn drain(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        self.check()?;
        self.spill(cx).await?;
        // Before the first `rewind`, this is what has been counted.
        self.next = self.bytes.len();
        Ok(())
    }
}
