//! The rows that INTERSECT and EXCEPT leave.
//!
//! **SETOP-1** The operands are taken from left to right. For each different row the operation
//! keeps the first that came, and how often it counts: UNION ALL adds the counts, EXCEPT ALL
//! subtracts them, INTERSECT ALL takes the smaller one. An operator without ALL counts each row
//! once on both sides. Rows are equal if their sort keys are: by the collations of the columns, and
//! NULLs too.
//! **SETOP-2** The different rows of all operands up to the last INTERSECT or EXCEPT are in memory,
//! charged to the statement. Where one more would take the statement beyond three eighths of its
//! memory, the rows with their counts, and all rows that come, go to a sorter by their keys, and so
//! to a temporary file; the operations are calculated key by key as the rows are read. The rows of
//! one operand are kept beside them, and may go to a file.
use super::eval::Scope;
use super::late_sorter::{LateSorter, ROOM, turn};
use super::row_buffer::{KeySet, read_row, retain_parts, write};
use super::rows::kept_rows;
use super::scan::check_killed;
use super::{Env, ExecContext, sortkey};
use crate::error::{Result, SqlError};
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
    /// In the place of all these rows: those in a file.
    in_file: Option<Box<InFile>>,
}

/// What came of all keys, in the order of the keys.
struct InFile {
    sorter: LateSorter,
    operators: Vec<SetOperator>,
    /// The sorter is on a row of the next key.
    more: bool,
}
/// What the operations have left of the rows with one key so far.
#[derive(Default)]
struct OneKey {
    /// The packed values of the row that counts; None if no row counts.
    row: Option<Vec<u8>>,
    count: u64,
    met: u64,
}
impl OneKey {
    fn begin(&mut self, operator: SetOperator) {
        if !operator.all {
            self.count = self.count.min(1);
        }
        match operator.kind {
            SetKind::Union if self.count == 0 => self.row = None,
            SetKind::Intersect => self.met = 0,
            SetKind::Union | SetKind::Except => {}
        }
    }
    fn take(&mut self, operator: SetOperator, row: &[u8]) {
        match operator.kind {
            SetKind::Union if self.row.is_none() => {
                (self.row, self.count) = (Some(row.to_vec()), 1);
            }
            SetKind::Union => self.count += u64::from(operator.all),
            SetKind::Intersect => self.met += 1,
            SetKind::Except => {
                let taken = if operator.all { 1 } else { u64::MAX };
                self.count = self.count.saturating_sub(taken);
            }
        }
    }
    fn end(&mut self, operator: SetOperator) {
        if operator.kind == SetKind::Intersect {
            self.count = self.count.min(self.met);
        }
    }
}

/// The bytes by which a row may be longer than expected.
const LONGER: usize = 64;
/// The bytes before a row in a file: the number of its operand, whether it has counts, and these.
const ROW_HEAD: usize = 4 + 1 + 8 + 8;

impl InFile {
    /// Adds a row, with its counts if it stands for several.
    fn push(
        &mut self,
        operand: usize,
        counts: Option<(u64, u64)>,
        key: &[u8],
        row: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        self.sorter.push(key, |to| {
            let (count, met) = counts.unwrap_or_default();
            to.extend_from_slice(&(operand as u32).to_le_bytes());
            to.push(u8::from(counts.is_some()));
            to.extend_from_slice(&count.to_le_bytes());
            to.extend_from_slice(&met.to_le_bytes());
            row(to);
        })
    }
    async fn spill(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        self.sorter.charge(&mut cx.env)?;
        self.sorter.spill(cx).await
    }
    async fn sort(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        self.sorter.end(cx).await?;
        self.sorter.sort(cx).await?;
        self.more = self.sorter.rows.advance()?;
        Ok(())
    }
    /// What is left of the next key; None after the last.
    fn next(&mut self, env: &mut Env<'_>) -> Result<Option<OneKey>> {
        if !self.more {
            self.sorter.free(env)?;
            return Ok(None);
        }
        let (mut of, key) = (OneKey::default(), self.sorter.rows.key().to_vec());
        // The operand that is under way.
        let mut at = 0;
        while self.more && self.sorter.rows.key() == key {
            env.step()?;
            check_killed(env)?;
            let record = self.sorter.rows.row();
            let head = record.first_chunk::<ROW_HEAD>().ok_or_else(short)?;
            let row = &record[ROW_HEAD..];
            let operand = head.first_chunk().map_or(0, |n| u32::from_le_bytes(*n)) as usize;
            let number = |n: usize| head[n..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
            if head[4] != 0 {
                at = operand;
                (of.count, of.met) = (number(5), number(13));
                of.row = Some(row.to_vec());
            } else {
                while at < operand {
                    of.end(self.operators[at]);
                    at += 1;
                    of.begin(self.operators[at]);
                }
                // INTERSECT and EXCEPT look for a row that is there.
                let operator = self.operators[at];
                if operator.kind == SetKind::Union || of.row.is_some() {
                    of.take(operator, row);
                }
            }
            self.more = self.sorter.rows.advance()?;
        }
        while at + 1 < self.operators.len() {
            of.end(self.operators[at]);
            at += 1;
            of.begin(self.operators[at]);
        }
        of.end(self.operators[at]);
        Ok(Some(of))
    }
}
fn short() -> SqlError {
    SqlError::internal("a row in a file is too short")
}

impl Counted {
    /// Makes the rows. Their memory stays charged to the statement.
    pub async fn make(
        cx: &mut ExecContext<'_>,
        parts: &[(SetOperator, SelectPlan)],
        at: Scope<'_>,
    ) -> Result<Counted> {
        let (mut all, mut charged) = (Counted::default(), 0);
        for (n, (operator, part)) in parts.iter().enumerate() {
            let mut rows = kept_rows(cx, part, at).await?;
            let mut charged_rows = 0;
            cx.env.keep(&mut charged_rows, rows.memory())?;
            all.begin(*operator, &mut cx.env)?;
            cx.env.keep(&mut charged, all.memory())?;
            while rows.advance()? {
                turn(cx).await?;
                let grows = all.take(n, *operator, part, rows.current(), &mut cx.env)?;
                cx.env.keep(&mut charged, all.memory())?;
                if let Some(in_file) = &mut all.in_file {
                    in_file.spill(cx).await?;
                } else if grows && all.outgrows(&cx.env) {
                    Box::pin(all.move_to_file(n, parts, cx)).await?;
                    cx.env.keep(&mut charged, all.memory())?;
                }
            }
            all.end(*operator);
            rows.free(&mut cx.env);
            cx.env.keeps_no_more(charged_rows);
        }
        if let Some(in_file) = &mut all.in_file {
            in_file.sort(cx).await?;
        }
        Ok(all)
    }
    pub fn memory(&self) -> usize {
        let numbers = self.ends.capacity() + self.counts.capacity() + self.met.capacity();
        self.keys.memory() + self.rows.capacity() + numbers * size_of::<u64>()
    }

    /// Whether another row might take the statement beyond its share.
    fn outgrows(&self, env: &Env<'_>) -> bool {
        let next = 2 * self.rows.len() / self.ends.len().max(1) + LONGER;
        let rows = match self.rows.capacity() - self.rows.len() < next {
            true => self.rows.capacity().max(next),
            false => 0,
        };
        let numbers = match self.ends.len() == self.ends.capacity() {
            true => 2 * self.ends.capacity() * size_of::<u64>(),
            false => 0,
        };
        env.is_beyond(ROOM, self.keys.growth() + rows + numbers) && env.temporary().is_some()
    }
    /// Moves all rows to a file, while those of an operand are taken.
    async fn move_to_file(
        &mut self,
        operand: usize,
        parts: &[(SetOperator, SelectPlan)],
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let operators = parts.iter().map(|(operator, _)| *operator).collect();
        let mut in_file =
            Box::new(InFile { sorter: LateSorter::default(), operators, more: false });
        for n in 0..self.ends.len() {
            turn(cx).await?;
            let counts = (self.counts[n], self.met.get(n).copied().unwrap_or(0));
            let row = self.row(n);
            in_file.push(operand, Some(counts), self.keys.key(n), |to| to.extend(row))?;
            in_file.spill(cx).await?;
        }
        *self = Counted { in_file: Some(in_file), ..Counted::default() };
        Ok(())
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
    /// Takes a row of an operand. Returns whether there is a row more.
    fn take(
        &mut self,
        operand: usize,
        operator: SetOperator,
        part: &SelectPlan,
        row: &[Value<'_>],
        env: &mut Env<'_>,
    ) -> Result<bool> {
        self.key.clear();
        for (value, column) in row.iter().zip(&part.columns) {
            sortkey::push(value, &column.ty, column.ty.collation, env, &mut self.key)?;
        }
        if let Some(in_file) = &mut self.in_file {
            // Only a UNION adds the values.
            let values = if operator.kind == SetKind::Union { row } else { &[] };
            let write = |to: &mut Vec<u8>| values.iter().for_each(|value| write(value, to));
            in_file.push(operand, None, &self.key, write)?;
            return Ok(false);
        }
        let mut is_new = false;
        match operator.kind {
            SetKind::Union => {
                let (n, new) = self.keys.insert(&self.key);
                is_new = new;
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
        Ok(is_new)
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
    pub fn advance(&mut self, env: &mut Env<'_>) -> Result<bool> {
        while self.left == 0 {
            if let Some(in_file) = &mut self.in_file {
                let Some(of) = in_file.next(env)? else { return Ok(false) };
                if let Some(row) = of.row.filter(|_| of.count > 0) {
                    self.left = of.count;
                    self.current = read_row(&row).into_iter().map(Value::into_owned).collect();
                }
                continue;
            }
            let Some(count) = self.counts.get(self.next) else { return Ok(false) };
            self.left = *count;
            if self.left > 0 {
                let row = read_row(self.row(self.next));
                let values: Vec<_> = row.into_iter().map(Value::into_owned).collect();
                self.current = values;
            }
            self.next += 1;
        }
        self.left -= 1;
        Ok(true)
    }
    pub fn current(&self) -> &[Value<'static>] {
        &self.current
    }
    /// Frees the rows, beside the workers if that takes long.
    pub fn free(self, env: &mut Env<'_>) {
        env.keeps(self.memory());
        if self.in_file.is_some() {
            env.be_heavy();
        }
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
        assert!(all.advance(&mut env).unwrap());
        assert_eq!(all.current(), [Value::UInt(1)]);

        all.counts[0] = 0;
        process.kill(Kill::Query);
        assert_eq!(all.begin(union, &mut env).unwrap_err().code, 1317);
    }
}
