//! Calculates generated columns.
//!
//! A row's generated columns are calculated when the row has its other values as they will be
//! stored, and before CHECK constraints look at it. A column stands behind the columns that it
//! reads (GENCOL-2), so one pass gives each of them its value.
use super::column_conversion;
use super::env::Env;
use super::eval::{Eval, Row, Scope};
use super::long_rows::{self, LONG_ROW};
use super::update::Changes;
use crate::error::{Result, SqlError};
use crate::plan::{GeneratedColumn, GeneratedColumns};
use crate::table_info::TableInfo;
use redolith_types::{RowLayout, Value};

/// Gives a new row, whose payload has other values in their place, its generated columns. If
/// `refuses_null`, NULL for a NOT NULL column is an error in every SQL mode.
pub(super) fn fill(
    generated: &GeneratedColumns,
    info: &TableInfo,
    payload: &mut Vec<u8>,
    refuses_null: bool,
    env: &mut Env<'_>,
) -> Result<()> {
    let layout = &info.engine().layout;
    let (mut changes, mut with) = (Changes::new(), Vec::new());
    let mut apply = |row: &mut Vec<u8>, changes: &mut Changes<'_>, env: &mut Env<'_>| {
        with.clear();
        update(layout, row, changes, &mut with, env)?;
        changes.clear();
        std::mem::swap(row, &mut with);
        Ok::<(), SqlError>(())
    };
    for column in &generated.list {
        if reads_changed(column, &changes) {
            apply(payload, &mut changes, env)?;
        }
        let value = value(column, info, payload, refuses_null, env)?;
        changes.push((usize::from(column.column), value));
    }
    apply(payload, &mut changes, env)
}

/// Adds to the changes of a row those of the generated columns that read a changed column.
/// `payload` is the row before, with the long columns that the expressions read.
pub(super) fn recalculate(
    generated: &GeneratedColumns,
    info: &TableInfo,
    payload: &[u8],
    changes: &mut Changes<'_>,
    refuses_null: bool,
    env: &mut Env<'_>,
) -> Result<()> {
    let layout = &info.engine().layout;
    let (mut row, mut applied) = (Vec::new(), 0);
    for column in &generated.list {
        if !reads_changed(column, changes) {
            continue;
        }
        if applied < changes.len() {
            row.clear();
            update(layout, payload, changes, &mut row, env)?;
            applied = changes.len();
        }
        let value = value(column, info, &row, refuses_null, env)?;
        let n = usize::from(column.column);
        if layout.external(payload, n).is_some() || layout.get(payload, n) != value {
            changes.push((n, value));
        }
    }
    Ok(())
}

fn reads_changed(column: &GeneratedColumn, changes: &Changes<'_>) -> bool {
    changes.iter().any(|(n, _)| column.reads.iter().any(|read| usize::from(*read) == *n))
}

/// Appends a row with changes. Its memory is charged to the statement until the caller releases it.
fn update(
    layout: &RowLayout,
    old: &[u8],
    changes: &Changes<'_>,
    out: &mut Vec<u8>,
    env: &mut Env<'_>,
) -> Result<()> {
    long_rows::update(layout, old, changes, out, &mut env.session.memory.statement)?;
    if out.len() > LONG_ROW { env.charge(out.len()) } else { Ok(()) }
}

/// The value of a generated column of the row `payload`, as the column stores it.
fn value(
    generated: &GeneratedColumn,
    info: &TableInfo,
    payload: &[u8],
    refuses_null: bool,
    env: &mut Env<'_>,
) -> Result<Value<'static>> {
    let (def, e) = (&info.def, &generated.value);
    let column = &def.columns[usize::from(generated.column)];
    let sources = [Row::Stored { def, layout: &info.engine().layout, payload }];
    let at = Scope { sources: &sources, ..Scope::new(&[]) };
    let value = Eval::new(at, env).stored(e, &column.ty)?;
    if refuses_null && !column.nullable && value.is_null() {
        return Err(SqlError::column_cannot_be_null(&column.name));
    }
    let stored = column_conversion::convert_given(value, e, column, env);
    let stored = stored.map_err(|e| e.in_table(&def.name))?.into_owned();
    if let Value::Bytes(bytes) | Value::Json(bytes) = &stored {
        env.charge(bytes.len())?;
    }
    Ok(stored)
}
