//! Rows that are there before the first of them is read: those of derived tables and subqueries.
use super::eval::Scope;
use super::select::{RowTarget, give_to_boxed};
use super::spool::Spool;
use super::{Env, ExecContext};
use crate::error::{Result, SqlError};
use crate::plan::SelectPlan;
use crate::sink::{ColumnMeta, OkInfo, ResultSink};
use redolith_types::Value;

/// Rows kept in memory: a derived table, or the result of a subquery.
#[derive(Default)]
pub struct Collected {
    pub rows: Vec<Box<[Value<'static>]>>,
    current: Vec<Value<'static>>,
    /// The bytes of the values now (`bytes`) and at the last count (`counted`).
    bytes: usize,
    counted: usize,
}
impl Collected {
    pub fn bytes(&self) -> usize {
        self.bytes + self.rows.capacity() * size_of::<Box<[Value<'_>]>>()
    }
}
/// The bytes of a row of values.
pub fn row_bytes(row: &[Value<'_>]) -> usize {
    row.iter().map(|v| size_of::<Value<'_>>() + crate::memory::bytes_of(v)).sum()
}
impl ResultSink for Collected {
    type Aside = ();
    async fn columns(&mut self, _: &[ColumnMeta]) -> Result<()> {
        Ok(())
    }
    fn begin_row(&mut self) {}
    fn value(&mut self, value: &Value<'_>) {
        self.bytes += size_of::<Value<'_>>() + crate::memory::bytes_of(value);
        self.current.push(value.borrow().into_owned());
    }
    fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.current).into_boxed_slice());
    }
    fn finish_rows(&mut self, _: &OkInfo) {}
    fn ok(&mut self, _: &OkInfo) {}
    fn error(&mut self, _: &SqlError) {}
    /// `Collected` sends nothing. It asks for `drain` so that the caller counts its rows.
    fn wants_drain(&self) -> bool {
        self.bytes - self.counted > COUNTED_BYTES
    }
    fn held(&self) -> usize {
        self.bytes()
    }
    async fn drain(&mut self) -> Result<()> {
        self.counted = self.bytes;
        Ok(())
    }
}
/// The number of bytes that are collected between two counts.
const COUNTED_BYTES: usize = 16 << 10;

/// To free this many rows takes long.
const MANY: usize = 10_000;

/// The rows of a derived table, which go to a file when they have outgrown their memory.
#[derive(Default)]
pub struct Derived {
    few: Collected,
    many: Option<Spool>,
}
impl RowTarget for Derived {
    fn row(&mut self, values: &[Value<'_>]) {
        match &mut self.many {
            Some(many) => many.row(values),
            None => RowTarget::row(&mut self.few, values),
        }
    }
    fn expect(&mut self, _: usize) {}
    fn held(&self) -> usize {
        self.few.bytes() + self.many.as_ref().map_or(0, Spool::memory)
    }
    fn wants_drain(&self) -> bool {
        match &self.many {
            Some(many) => many.wants_drain(),
            None => RowTarget::wants_drain(&self.few),
        }
    }
    async fn drain(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        if let Some(many) = &mut self.many {
            return many.drain(cx).await;
        }
        RowTarget::drain(&mut self.few, cx).await?;
        if self.few.bytes() >= cx.env.spill_at() && cx.env.temporary().is_some() {
            let many = self.many.insert(Spool::in_file(cx)?);
            for row in std::mem::take(&mut self.few).rows {
                many.row(&row);
                if many.wants_drain() {
                    many.drain(cx).await?;
                }
            }
        }
        Ok(())
    }
}

impl Derived {
    pub fn rows(&self) -> u64 {
        self.few.rows.len() as u64 + self.many.as_ref().map_or(0, Spool::rows)
    }
    /// Reads the rows, from the first on.
    pub fn kept(self) -> Kept {
        let bytes = self.few.bytes();
        let mut kept =
            Kept { few: self.few.rows, bytes, next: 0, many: self.many, current: Vec::new() };
        kept.rewind();
        kept
    }
}

/// Rows that are there before the first is read, and the current one.
pub struct Kept {
    few: Vec<Box<[Value<'static>]>>,
    /// The bytes of `few`, where they are this statement's.
    bytes: usize,
    next: usize,
    /// The rows, if they are in a file.
    many: Option<Spool>,
    current: Vec<Value<'static>>,
}
impl Kept {
    pub fn nothing() -> Kept {
        Kept::few(Vec::new())
    }
    pub fn few(rows: Vec<Box<[Value<'static>]>>) -> Kept {
        Kept { few: rows, bytes: 0, next: 0, many: None, current: Vec::new() }
    }
    /// Rows that were made for the statement, which may keep them.
    pub fn of_statement(rows: Vec<Box<[Value<'static>]>>) -> Kept {
        let bytes = size_of_val(&rows[..]) + rows.iter().map(|row| row_bytes(row)).sum::<usize>();
        Kept { bytes, ..Kept::few(rows) }
    }
    pub fn rewind(&mut self) {
        self.next = 0;
        self.many.iter_mut().for_each(Spool::rewind);
    }
    pub fn advance(&mut self) -> Result<bool> {
        let Some(many) = &mut self.many else {
            self.next += 1;
            return Ok(self.next <= self.few.len());
        };
        let Some(row) = many.next()? else { return Ok(false) };
        self.current.clear();
        self.current.extend(row.into_iter().map(Value::into_owned));
        Ok(true)
    }
    /// Whether the rows are in a file.
    pub fn is_in_file(&self) -> bool {
        self.many.is_some()
    }
    pub fn memory(&self) -> usize {
        self.bytes + self.many.as_ref().map_or(0, Spool::memory)
    }
    pub fn current(&self) -> &[Value<'static>] {
        if self.many.is_some() { &self.current } else { &self.few[self.next - 1] }
    }
    /// The number of columns, after a row was read.
    pub fn width(&self) -> usize {
        if self.is_in_file() {
            self.current.len()
        } else {
            self.few.first().map_or(0, |row| row.len())
        }
    }
    /// Row number `n`, if the rows are in memory.
    pub fn at(&self, n: usize) -> &[Value<'static>] {
        &self.few[n]
    }
    /// Frees the rows, beside the workers if that takes long.
    pub fn free(self, env: &mut Env<'_>) {
        if self.many.is_some() || self.few.len() >= MANY {
            env.be_heavy();
        }
    }
}

/// Makes the rows of a SELECT inside another. The caller charges for what they hold.
pub async fn kept_rows(cx: &mut ExecContext<'_>, plan: &SelectPlan, at: Scope<'_>) -> Result<Kept> {
    let mut made = Derived::default();
    give_to_boxed(cx, plan, at.given(), u64::MAX, &mut made).await?;
    Ok(made.kept())
}

/// Makes a derived table of a dependent subquery before the subquery is run.
pub async fn make_derived(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
) -> Result<()> {
    let (mut made, mark) = (Derived::default(), cx.env.held());
    give_to_boxed(cx, plan, at.given(), u64::MAX, &mut made).await?;
    cx.env.release_to(mark);
    cx.env.keep_made_before(plan, made.kept())
}
