//! The rows that INTERSECT and EXCEPT leave.
//!
//! **SETOP-1** The operands are taken from left to right. For each different row the operation
//! keeps the first that came, and how often it counts: UNION ALL adds the counts, EXCEPT ALL
//! subtracts them, INTERSECT ALL takes the smaller one. An operator without ALL counts each row
//! once on both sides. Rows are equal if their sort keys are: by the collations of the columns, and
//! NULLs too.
//! **SETOP-2** The different rows of all operands up to the last INTERSECT or EXCEPT are in memory,
//! charged to the statement. The rows of one operand are kept beside them, and may go to a file.
use super::eval::Scope;
use super::row_buffer::{KeySet, read_row, retain_parts, write};
use super::rows::kept_rows;
use super::scan::check_killed;
use super::{Env, ExecContext, sortkey};
use crate::error::Result;
use crate::plan::{SelectPlan, SetKind, SetOperator};
use redolith_types::Value;

/// Different rows with their counts, and the place of a reader.
#[derive(Default)]
pub struct Counted {
    keys: KeySet,
    /// The packed values of the rows; `ends` has the end of each row.
    rows: Vec<u8>,
    ends: Vec<usize>,
    counts: Vec<u64>,
    /// For INTERSECT: how often each row has come in the operand that is taken.
    met: Vec<u64>,
    key: Vec<u8>,
    /// The number of the row that the reader comes to next, and how often the current row still
    /// comes.
    next: usize,
    left: u64,
    current: Vec<Value<'static>>,
}

impl Counted {
    /// Makes the rows. Their memory stays charged to the statement.
    pub async fn make(
        cx: &mut ExecContext<'_>,
        parts: &[(SetOperator, SelectPlan)],
        at: Scope<'_>,
    ) -> Result<Counted> {
        let (mut all, mut charged) = (Counted::default(), 0);
        for (operator, part) in parts {
            let mut rows = kept_rows(cx, part, at).await?;
            let mut charged_rows = 0;
            cx.env.keep(&mut charged_rows, rows.memory())?;
            all.begin(*operator, &mut cx.env)?;
            cx.env.keep(&mut charged, all.memory())?;
            while rows.advance()? {
                cx.trx.give_way().await;
                cx.env.step()?;
                check_killed(&cx.env)?;
                all.take(*operator, part, rows.current(), &mut cx.env);
                cx.env.keep(&mut charged, all.memory())?;
            }
            all.end(*operator);
            rows.free(&mut cx.env);
            cx.env.keeps_no_more(charged_rows);
        }
        Ok(all)
    }
    pub fn memory(&self) -> usize {
        let numbers = self.ends.capacity() + self.counts.capacity() + self.met.capacity();
        self.keys.memory() + self.rows.capacity() + numbers * size_of::<u64>()
    }

    /// Prepares for the rows of the operand behind `operator`.
    fn begin(&mut self, operator: SetOperator, env: &mut Env<'_>) -> Result<()> {
        if !operator.all {
            self.counts.iter_mut().for_each(|count| *count = (*count).min(1));
        }
        match operator.kind {
            SetKind::Union => self.drop_uncounted(env)?,
            SetKind::Intersect => {
                self.met.clear();
                self.met.resize(self.counts.len(), 0);
            }
            SetKind::Except => {}
        }
        Ok(())
    }
    fn take(
        &mut self,
        operator: SetOperator,
        part: &SelectPlan,
        row: &[Value<'_>],
        env: &mut Env<'_>,
    ) {
        self.key.clear();
        for (value, column) in row.iter().zip(&part.columns) {
            sortkey::push(value, &column.ty, column.ty.collation, env, &mut self.key);
        }
        match operator.kind {
            SetKind::Union => {
                let (n, new) = self.keys.insert(&self.key);
                if new {
                    row.iter().for_each(|value| write(value, &mut self.rows));
                    self.ends.push(self.rows.len());
                    self.counts.push(1);
                } else if operator.all {
                    self.counts[n] += 1;
                }
            }
            SetKind::Intersect => {
                if let Some(n) = self.keys.find(&self.key) {
                    self.met[n] += 1;
                }
            }
            SetKind::Except => {
                if let Some(n) = self.keys.find(&self.key) {
                    let taken = if operator.all { 1 } else { u64::MAX };
                    self.counts[n] = self.counts[n].saturating_sub(taken);
                }
            }
        }
    }
    /// Ends the operand behind `operator`.
    fn end(&mut self, operator: SetOperator) {
        if operator.kind == SetKind::Intersect {
            for (count, met) in self.counts.iter_mut().zip(&self.met) {
                *count = (*count).min(*met);
            }
            self.met = Vec::new();
        }
    }
    fn row(&self, n: usize) -> &[u8] {
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        &self.rows[start..self.ends[n]]
    }
    /// Forgets the rows that do not count any more: an equal row that a UNION adds is another. This
    /// is done in place, because the rows may fill the statement's memory.
    fn drop_uncounted(&mut self, env: &mut Env<'_>) -> Result<()> {
        let Counted { keys, rows, ends, counts, .. } = self;
        if !counts.contains(&0) {
            return Ok(());
        }
        keys.retain(|n| env.step().map(|()| counts[n] > 0))?;
        retain_parts(rows, ends, |n, _, row| env.bytes(row.len()).map(|()| counts[n] > 0))?;
        counts.retain(|count| *count > 0);
        Ok(())
    }

    /// Goes to the next row. Returns false after the last.
    pub fn advance(&mut self) -> bool {
        while self.left == 0 {
            let Some(count) = self.counts.get(self.next) else { return false };
            self.left = *count;
            if self.left > 0 {
                let row = read_row(self.row(self.next));
                let values: Vec<_> = row.into_iter().map(Value::into_owned).collect();
                self.current = values;
            }
            self.next += 1;
        }
        self.left -= 1;
        true
    }
    pub fn current(&self) -> &[Value<'static>] {
        &self.current
    }
    /// Frees the rows, beside the workers if that takes long.
    pub fn free(self, env: &mut Env<'_>) {
        env.keeps(self.memory());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::env::{NoVariables, StatementSettings};
    use crate::exec::fixture::Server;
    use crate::processes::Kill;

    /// Before a UNION the rows that do not count are left out in the memory that they have, and
    /// KILL ends that.
    #[test]
    fn rows_are_dropped_in_place() {
        let server = Server::new();
        let mut session = server.session();
        let process = session.state.process.clone();
        let settings = StatementSettings::default();
        let mut env = Env::new(&mut session.state, &NoVariables, &*server.engine.disk, settings);
        let mut all = Counted::default();
        for n in 0..10_000u64 {
            all.keys.insert(&n.to_be_bytes());
            write(&Value::UInt(n), &mut all.rows);
            all.ends.push(all.rows.len());
            all.counts.push(n % 3);
        }
        let memory = all.memory();
        let union = SetOperator { kind: SetKind::Union, all: true };
        all.begin(union, &mut env).unwrap();
        assert_eq!((all.counts.len(), all.memory()), (6666, memory));
        assert!(all.advance());
        assert_eq!(all.current(), [Value::UInt(1)]);

        all.counts[0] = 0;
        process.kill(Kill::Query);
        assert_eq!(all.begin(union, &mut env).unwrap_err().code, 1317);
    }
}
