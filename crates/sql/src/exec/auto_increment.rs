//! The AUTO_INCREMENT values that a statement takes from its table.
//!
//! **COUNT-1** `innodb_autoinc_lock_mode` says which statements take values under the table's
//! AUTO-INC lock ([`CounterLock`]). A statement that holds it to its end takes values that follow
//! each other. Without the lock, statements take values for many rows at a time, and the values of
//! two statements may alternate.
use super::ExecContext;
use super::env::Env;
use super::insert::{Given, Work};
use crate::error::{Result, SqlError};
use crate::plan::{ExprKind, Fill, InsertValue};
use redolith_engine::dict::table::Table;
use redolith_types::convert::to_integer;
use redolith_types::{SqlType, Value};
use std::sync::atomic::Ordering::Relaxed;

/// The meaning of `innodb_autoinc_lock_mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterLock {
    /// 0, traditional: every statement holds the lock to its end, and takes each value when the
    /// row needs it.
    Always,
    /// 1, consecutive: a statement whose number of rows is known holds the lock only while it takes
    /// its values, and others to their end.
    UnknownRows,
    /// 2, interleaved: no statement takes the lock.
    Never,
}
impl CounterLock {
    pub fn of_mode(mode: u64) -> CounterLock {
        match mode {
            0 => CounterLock::Always,
            1 => CounterLock::UnknownRows,
            _ => CounterLock::Never,
        }
    }
}

/// The AUTO_INCREMENT values of one statement.
#[derive(Default)]
pub(super) struct AutoIncrement {
    /// The number of rows from the present row on. Values are taken for all of them at once.
    pub(super) rows_left: u64,
    /// The number of rows of the statement, if it is known: its first values are as many, even if
    /// rows before have brought their own, as in MySQL.
    pub(super) all_rows: u64,
    pub(super) next: u64,
    pub(super) taken: u64,
    /// `next` and `taken` before the present row.
    pub(super) before: (u64, u64),
    /// The column of the present row that needs a generated value.
    pub(super) wanted: Option<usize>,
    /// The value of the present row, and whether the value was generated.
    pub(super) current: Option<(u64, bool)>,
    /// The statement holds the AUTO-INC lock to its end.
    pub(super) holds_on: bool,
    /// The first generated value among the inserted rows.
    pub(super) first: Option<u64>,
    /// The value given for the last inserted row. The client is told this value if no value was
    /// generated.
    pub(super) given: Option<u64>,
    /// The greatest given value of the rows that are made and not yet inserted, which the table's
    /// counter has not passed yet.
    pub(super) waiting: u64,
}

impl AutoIncrement {
    pub(super) fn generate(&mut self, table: &Table, env: &mut Env<'_>) -> u64 {
        let (step, offset) = AutoIncrement::step_and_offset(env);
        if self.taken == 0 {
            match env.settings.insert_id.take() {
                // The statement's values begin at `@@insert_id`, not at the table's counter.
                Some(wanted) => (self.next, self.taken) = (wanted, u64::MAX),
                None => self.take(table, step, offset, env),
            }
        }
        self.taken -= 1;
        let value = self.next;
        self.next = aligned(value.saturating_add(1), step, offset);
        value
    }

    /// Notes a given value. If a value was generated before, the values generated for later rows
    /// are greater than the given value.
    pub(super) fn pass(&mut self, given: u64, env: &Env<'_>) {
        if self.next == 0 || given < self.next {
            return;
        }
        let (step, offset) = AutoIncrement::step_and_offset(env);
        let next = aligned(given.saturating_add(1), step, offset);
        self.taken = self.taken.saturating_sub((next - self.next).div_ceil(step));
        self.next = next;
    }

    /// The present row was not inserted, so the next row may take its number.
    pub(super) fn put_back(&mut self) {
        (self.next, self.taken) = match self.current {
            Some((value, true)) => (value, self.taken.saturating_add(1)),
            _ => self.before,
        };
    }

    /// Gives the value back that the last row took in vain, as its statement ends under the lock.
    pub(super) fn give_back(&mut self, table: &Table, env: &Env<'_>) {
        if env.settings.auto_increment_lock == CounterLock::Always && self.taken == 1 {
            let (step, _) = AutoIncrement::step_and_offset(env);
            let end = self.next.saturating_add(step);
            table.give_auto_increment_back(end, self.next);
        }
    }

    fn step_and_offset(env: &Env<'_>) -> (u64, u64) {
        let step = env.settings.auto_increment_increment.max(1);
        (step, env.settings.auto_increment_offset.clamp(1, step))
    }

    /// Takes values from the table's counter for all rows that are left, or for one.
    fn take(&mut self, table: &Table, step: u64, offset: u64, env: &Env<'_>) {
        let one = env.settings.auto_increment_lock == CounterLock::Always;
        let all = std::mem::take(&mut self.all_rows);
        if self.waiting > 0 {
            table.saw_auto_increment(self.waiting);
        }
        self.taken = if one { 1 } else { self.rows_left.max(all).max(1) };
        if step == 1 {
            self.next = table.take_auto_increment(self.taken);
            return;
        }
        let align = |v| aligned(v, step, offset);
        self.next = table.take_auto_increment_of(self.taken, step, align);
    }
}

impl Work<'_> {
    /// Takes the AUTO-INC lock before a row is made, if the row may need it (COUNT-1).
    #[cold]
    pub(super) async fn lock_counter(
        &mut self,
        cx: &mut ExecContext<'_>,
        given: &Given<'_>,
        params: &[Value<'_>],
    ) -> Result<()> {
        let table = self.plan.table.engine();
        if table.def.auto_increment_column().is_none() {
            return Ok(());
        }
        self.auto.holds_on = cx.env.settings.auto_increment_lock == CounterLock::Always
            || !matches!(given, Given::Exprs(_));
        if self.auto.holds_on || self.auto.taken == 0 && !self.brings_value(given, params) {
            cx.trx.lock_counter(table).await?;
        }
        Ok(())
    }
    /// True if the row certainly brings a value of its own.
    fn brings_value(&self, given: &Given<'_>, params: &[Value<'_>]) -> bool {
        let column = self.plan.table.engine().def.auto_increment_column();
        let (Some(column), Given::Exprs(row)) = (column, given) else { return false };
        let Fill::Given(place) = self.plan.fill[column] else { return false };
        let InsertValue::Expr(e) = &row[usize::from(place)] else { return false };
        let value = match &e.kind {
            ExprKind::Param(n) => params.get(*n as usize),
            _ => e.as_literal(),
        };
        value.is_some_and(|value| !value.is_null() && to_integer(value).value != 0)
    }
    /// When a row is made, gives the lock back unless the statement holds it to its end. A row
    /// that brings a value above the counter keeps it, or takes it, until the counter is raised.
    pub(super) async fn settle_counter(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        let table = self.plan.table.engine();
        let raises = |(value, generated): (u64, bool)| {
            !generated && value >= table.auto_increment.load(Relaxed)
        };
        if self.auto.holds_on {
        } else if self.auto.current.is_some_and(raises) {
            cx.trx.lock_counter(table).await?;
        } else {
            cx.trx.release_counter();
        }
        Ok(())
    }
}

/// The least value of the sequence offset, offset + step, ... that is at least `v`.
fn aligned(v: u64, step: u64, offset: u64) -> u64 {
    if v <= offset {
        offset
    } else {
        (v - offset).div_ceil(step).saturating_mul(step).saturating_add(offset)
    }
}

/// Converts a generated value to the type of its column.
pub(super) fn generated(value: u64, ty: &SqlType) -> Result<Value<'static>> {
    let fits = match ty {
        SqlType::Int { size, sign, .. } if sign.unsigned => {
            value <= size.max_unsigned() && value != u64::MAX
        }
        SqlType::Int { size, .. } => value <= size.max_signed() as u64,
        _ => true,
    };
    match ty {
        // Beyond the column's greatest value, that value is repeated: the key is a duplicate.
        SqlType::Int { size, sign, .. } if !fits && !sign.unsigned => {
            Ok(Value::Int(size.max_signed()))
        }
        SqlType::Int { size, .. } if !fits && size.max_unsigned() != u64::MAX => {
            Ok(Value::UInt(size.max_unsigned()))
        }
        _ if !fits => Err(SqlError::auto_increment_failed()),
        SqlType::Int { sign, .. } if !sign.unsigned => Ok(Value::Int(value as i64)),
        SqlType::Float { .. } => Ok(Value::Float(value as f32)),
        SqlType::Double { .. } => Ok(Value::Double(value as f64)),
        _ => Ok(Value::UInt(value)),
    }
}
