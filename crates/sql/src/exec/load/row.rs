//! Makes the row of a table from the row of a file.
use super::super::column_conversion::{convert, convert_given, zero};
use super::super::env::Env;
use super::super::eval::{Eval, Row, Scope};
use super::super::insert::{Given, Work};
use super::super::long_rows;
use super::super::update::now_for;
use super::FileRow;
use crate::error::{Result, SqlError};
use crate::plan::{DefaultFill, Expr, Fill, InsertPlan, LoadTarget};
use crate::session_state::UserVariable;
use redolith_types::{Charset, Column, SqlType, Value};
use smallvec::SmallVec;

impl<'v> FileRow<'v> {
    /// Field `n`: `None` if the row is too short, `Some(None)` if the field is NULL.
    #[inline]
    fn field(&self, n: usize) -> Option<Option<&'v [u8]>> {
        let field = *self.row.get(n)?;
        Some(self.fields.get(field, self.bytes))
    }
}

/// Evaluates a row of the file into the payload of the table's row.
pub fn make<'v, 'p: 'v>(
    work: &mut Work<'p>,
    row: FileRow<'v>,
    at: Scope<'v>,
    env: &mut Env<'_>,
    payload: &mut Vec<u8>,
) -> Result<()> {
    if !row.load.in_order {
        return make_by_steps(work, row, at, env, payload);
    }
    let plan: &'v InsertPlan = work.plan;
    let mut values: SmallVec<[Value<'v>; 16]> = SmallVec::with_capacity(plan.fill.len());
    for n in 0..plan.fill.len() {
        values.push(match plan.fill[n] {
            Fill::Given(place) => field(work, n, row.field(usize::from(place)), row, env)?,
            Fill::Default | Fill::Kept(_) => work.value(n, Given::Fields(row), at, env, false)?,
        });
    }
    if let Some((n, number)) = work.number(env)? {
        values[n] = number;
    }
    let memory = &mut env.session.memory.statement;
    long_rows::encode(&plan.table.engine().layout, &values, payload, memory)
}

/// Like [`make`], for fields that go into user variables, and for SET. The fields are set first, in
/// their order, then SET's columns; a column that is set twice has the later value.
fn make_by_steps<'v, 'p: 'v>(
    work: &mut Work<'p>,
    row: FileRow<'v>,
    at: Scope<'v>,
    env: &mut Env<'_>,
    payload: &mut Vec<u8>,
) -> Result<()> {
    let plan: &'v InsertPlan = work.plan;
    let load = row.load;
    let (def, layout) = (&plan.table.def, &plan.table.engine().layout);
    let mut values: Vec<Value<'v>> = Vec::with_capacity(plan.fill.len());
    for (n, column) in def.columns.iter().enumerate() {
        values.push(match (plan.fill[n], &plan.defaults[n]) {
            (Fill::Default | Fill::Kept(_), _) => {
                work.value(n, Given::Fields(row), at, env, false)?
            }
            // What SET sees of a column before the column is set.
            (Fill::Given(_), DefaultFill::Literal(default)) => default.borrow(),
            (Fill::Given(_), _) if column.nullable => Value::Null,
            (Fill::Given(_), _) => zero(&column.ty),
        });
    }
    for (place, target) in load.targets.iter().enumerate() {
        let given = row.field(place);
        match target {
            LoadTarget::Column(column) => {
                let n = usize::from(*column);
                values[n] = field(work, n, given, row, env)?;
            }
            LoadTarget::Variable(name) => {
                let value = given.flatten().map_or(Value::Null, |b| Value::owned(b.to_vec()));
                let variable = UserVariable { value, collation: load.collation };
                let session = &mut *env.session;
                session.user_variables.set(name, variable, &mut session.memory)?;
            }
        }
    }
    for assignment in &load.set {
        let (n, e) = (usize::from(assignment.column), &assignment.value);
        let column = &def.columns[n];
        let mark = env.held();
        let value = if load.names_columns {
            payload.clear();
            long_rows::encode(layout, &values, payload, &mut env.session.memory.statement)?;
            let so_far = [Row::Stored { def, layout, payload: &payload[..] }];
            let at = Scope { sources: &so_far, ..at };
            let value = Eval::new(at, env).stored(e, &column.ty)?;
            set(work, n, (value, e), column, env)?.into_owned()
        } else {
            let value = Eval::new(at, env).stored(e, &column.ty)?;
            set(work, n, (value, e), column, env)?
        };
        if let Value::Bytes(bytes) | Value::Json(bytes) = &value {
            env.charge(bytes.len())?;
        } else {
            env.release_to(mark);
        }
        values[n] = value;
    }
    if let Some((n, number)) = work.number(env)? {
        values[n] = number;
    }
    payload.clear();
    long_rows::encode(layout, &values, payload, &mut env.session.memory.statement)
}

/// A value of SET, converted for its column.
fn set<'v>(
    work: &mut Work<'_>,
    n: usize,
    (value, e): (Value<'v>, &Expr),
    column: &Column,
    env: &mut Env<'_>,
) -> Result<Value<'v>> {
    if column.auto_increment {
        work.auto_value(n, value, column, env.charset_of(e), env)
    } else {
        let stored = convert_given(value, e, column, env);
        stored.map_err(|e| e.in_table(&work.plan.table.def.name))
    }
}

/// The value of column `n` from a field.
#[inline]
fn field<'v>(
    work: &mut Work<'_>,
    n: usize,
    given: Option<Option<&'v [u8]>>,
    row: FileRow<'v>,
    env: &mut Env<'_>,
) -> Result<Value<'v>> {
    let column = &work.plan.table.def.columns[n];
    let Some(Some(bytes)) = given else {
        return without_text(work, n, given.is_none(), row, env);
    };
    if let Some(number) = integer(bytes, &column.ty)
        && !column.auto_increment
    {
        return Ok(number);
    }
    let from = row.load.collation.charset();
    if from.is_utf8() && !bytes.is_ascii() {
        check_characters(bytes, from)?;
    }
    env.bytes(bytes.len())?;
    let value = Value::bytes(bytes);
    if column.auto_increment {
        work.auto_value(n, value, column, from, env)
    } else {
        let stored = convert(value, column, from, env.row, env);
        stored.map_err(|e| e.in_table(&work.plan.table.def.name))
    }
}

/// A plain decimal number that its column holds.
#[inline]
fn integer(bytes: &[u8], ty: &SqlType) -> Option<Value<'static>> {
    /// So many digits are always less than `i64::MAX`.
    const DIGITS: usize = 18;
    let SqlType::Int { size, sign, .. } = ty else { return None };
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > DIGITS {
        return None;
    }
    let mut number = 0i64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + i64::from(digit);
    }
    if sign.unsigned {
        let number = number as u64;
        return (!negative && number <= size.max_unsigned()).then_some(Value::UInt(number));
    }
    let number = if negative { -number } else { number };
    (size.min_signed()..=size.max_signed()).contains(&number).then_some(Value::Int(number))
}

/// The value of a column whose field is missing or NULL.
#[cold]
fn without_text(
    work: &mut Work<'_>,
    n: usize,
    is_missing: bool,
    row: FileRow<'_>,
    env: &mut Env<'_>,
) -> Result<Value<'static>> {
    let column = &work.plan.table.def.columns[n];
    if is_missing {
        env.warn(SqlError::too_few_fields(env.row))?;
    }
    // A file of fixed widths has no NULL, so what is missing there is a zero.
    let is_zero = is_missing && row.load.format.is_fixed();
    if column.auto_increment {
        let value = if is_zero { Value::Int(0) } else { Value::Null };
        return work.auto_value(n, value, column, Charset::Binary, env);
    }
    if column.nullable && !is_zero && (!is_missing || defaults_to_null(work, n)) {
        return Ok(Value::Null);
    }
    if matches!(column.ty, SqlType::Timestamp { .. }) && !column.nullable {
        return Ok(now_for(&column.ty, env));
    }
    if !is_missing {
        env.warn(SqlError::null_to_not_null(&column.name, env.row))?;
    }
    Ok(match column.ty {
        // Not its first name, which INSERT takes.
        SqlType::Enum { .. } => Value::UInt(0),
        _ => zero(&column.ty),
    })
}

/// Whether a column that the statement does not name is NULL.
fn defaults_to_null(work: &Work<'_>, n: usize) -> bool {
    matches!(&work.plan.defaults[n], DefaultFill::Literal(Value::Null))
}

/// Error 1300 for a byte that can begin no character. MySQL meets it while it looks for the end of
/// the field, in every SQL mode. Bytes that only seem to begin a character are left to the column.
#[cold]
fn check_characters(bytes: &[u8], charset: Charset) -> Result<()> {
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        let (character, len) = charset.decode(rest);
        let begins = match first {
            0..=0x7f | 0xc2..=0xef => true,
            0xf0..=0xf7 => charset == Charset::Utf8mb4,
            _ => false,
        };
        if character.is_none() && !begins {
            let hex: String = rest.iter().take(6).map(|b| format!("\\x{b:02X}")).collect();
            return Err(SqlError::invalid_string(charset.name(), hex));
        }
        rest = &rest[len..];
    }
    Ok(())
}
