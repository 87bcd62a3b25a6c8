//! The AUTO_INCREMENT values that a statement takes from its table.
use super::env::Env;
use crate::error::{Result, SqlError};
use redolith_engine::dict::table::Table;
use redolith_types::{SqlType, Value};
use std::sync::atomic::Ordering::Relaxed;

/// The AUTO_INCREMENT values of one statement.
#[derive(Default)]
pub(super) struct AutoIncrement {
    /// The number of rows from the present row on. Values are taken for all of them at once.
    pub(super) rows_left: u64,
    pub(super) next: u64,
    pub(super) taken: u64,
    /// `next` and `taken` before the present row.
    pub(super) before: (u64, u64),
    /// The column of the present row that needs a generated value.
    pub(super) wanted: Option<usize>,
    /// The value of the present row, and whether the value was generated.
    pub(super) current: Option<(u64, bool)>,
    /// The first generated value among the inserted rows.
    pub(super) first: Option<u64>,
    /// The value given for the last inserted row. The client is told this value if no value was
    /// generated.
    pub(super) given: Option<u64>,
}

impl AutoIncrement {
    pub(super) fn generate(&mut self, table: &Table, env: &mut Env<'_>) -> u64 {
        let (step, offset) = AutoIncrement::step_and_offset(env);
        if self.taken == 0 {
            match env.settings.insert_id.take() {
                // The statement's values begin at `@@insert_id`, not at the table's counter.
                Some(wanted) => (self.next, self.taken) = (wanted, u64::MAX),
                None => self.take(table, step, offset),
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

    fn step_and_offset(env: &Env<'_>) -> (u64, u64) {
        let step = env.settings.auto_increment_increment.max(1);
        (step, env.settings.auto_increment_offset.clamp(1, step))
    }

    /// Takes values from the table's counter for all rows that are left.
    fn take(&mut self, table: &Table, step: u64, offset: u64) {
        self.taken = self.rows_left.max(1);
        if step == 1 {
            self.next = table.take_auto_increment(self.taken);
            return;
        }
        let taken = self.taken;
        let before = table
            .auto_increment
            .fetch_update(Relaxed, Relaxed, |v| {
                Some(aligned(v, step, offset).saturating_add(taken.saturating_mul(step)))
            })
            .unwrap_or_else(|v| v);
        self.next = aligned(before, step, offset);
        table.saw_auto_increment(table.auto_increment.load(Relaxed).saturating_sub(1));
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
