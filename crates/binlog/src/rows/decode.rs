//! A row image becomes values.
use super::encode::{len_bytes, padding};
use super::temporal;
use crate::bytes::Input;
use crate::column::{Column, Kind};
use crate::column_set::ColumnSet;
use crate::{DecodeError, Rows, Table};
use redolith_types::decimal::{is_packed, packed_len};
use redolith_types::{Collation, Date, Decimal, Value, json};

/// One value per column of the table. `None`: the image does not have the column.
pub type Row<'a> = Vec<Option<Value<'a>>>;

/// One row of a ROWS event.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChange<'a> {
    /// The row before the change: UPDATE and DELETE.
    pub before: Option<Row<'a>>,
    /// The row after the change: INSERT and UPDATE.
    pub after: Option<Row<'a>>,
}

/// The rows of a ROWS event. Nothing follows an error.
#[derive(Debug)]
pub struct RowIter<'a, 't> {
    before: Option<ColumnSet>,
    after: Option<ColumnSet>,
    table: &'t Table,
    rest: Input<'a>,
}

impl<'a, 't> RowIter<'a, 't> {
    pub(crate) fn new(rows: &Rows<'a>, table: &'t Table) -> Result<RowIter<'a, 't>, DecodeError> {
        let rest = Input::new(rows.images, "the rows of a ROWS event");
        if rows.before.columns() != table.columns.len() {
            return Err(rest.wrong("the table has another number of columns"));
        }
        let before = rows.kind.has_before().then(|| rows.before.clone());
        let after = rows.kind.has_after().then(|| rows.after.clone());
        // A row of no column takes no byte, so the rows would never end.
        if before.iter().chain(&after).all(ColumnSet::is_empty) && !rest.is_empty() {
            return Err(rest.wrong("rows without columns"));
        }
        Ok(RowIter { before, after, table, rest })
    }

    fn change(&mut self) -> Result<RowChange<'a>, DecodeError> {
        let (columns, rest) = (&self.table.columns, &mut self.rest);
        let mut read = |set: &Option<ColumnSet>| {
            set.as_ref().map(|present| image(rest, columns, present)).transpose()
        };
        Ok(RowChange { before: read(&self.before)?, after: read(&self.after)? })
    }
}

impl<'a> Iterator for RowIter<'a, '_> {
    type Item = Result<RowChange<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let change = self.change();
        if change.is_err() {
            self.rest.rest();
        }
        Some(change)
    }
}

fn image<'a>(
    input: &mut Input<'a>,
    columns: &[Column],
    present: &ColumnSet,
) -> Result<Row<'a>, DecodeError> {
    let nulls = input.bytes(present.len().div_ceil(8))?;
    let mut row = vec![None; columns.len()];
    for (i, column) in present.iter().enumerate() {
        row[column] = Some(match nulls[i / 8] >> (i % 8) & 1 {
            1 => Value::Null,
            _ => value(input, &columns[column])?,
        });
    }
    Ok(row)
}

fn value<'a>(input: &mut Input<'a>, column: &Column) -> Result<Value<'a>, DecodeError> {
    Ok(match column.kind {
        Kind::Int(size) if column.unsigned => Value::UInt(input.le(size.bytes())?),
        Kind::Int(size) => {
            let unused = 64 - 8 * size.bytes();
            Value::Int((input.le(size.bytes())? as i64) << unused >> unused)
        }
        Kind::Float => Value::Float(f32::from_le_bytes(input.array()?)),
        Kind::Double => Value::Double(f64::from_le_bytes(input.array()?)),
        Kind::Decimal { precision, scale } => {
            let packed = input.bytes(packed_len(precision, scale))?;
            if !is_packed(precision, scale, packed) {
                return Err(input.wrong("a DECIMAL has a group with too many digits"));
            }
            Value::Decimal(Decimal::unpack(precision, scale, packed))
        }
        Kind::Bit { bits } => Value::UInt(input.be(usize::from(bits).div_ceil(8))?),
        Kind::Year => Value::UInt(match input.u8()? {
            0 => 0,
            year => 1900 + u64::from(year),
        }),
        Kind::Date => {
            let packed = input.le(3)? as u32;
            let (year, month, day) = ((packed >> 9) as u16, (packed >> 5 & 15) as u8, packed & 31);
            let date = Date::new(year, month, day as u8);
            Value::Date(date.ok_or(input.wrong("a DATE that does not exist"))?)
        }
        Kind::Time { fsp } => Value::Time(temporal::time(input, fsp)?),
        Kind::DateTime { fsp } => Value::DateTime(temporal::datetime(input, fsp)?),
        Kind::Timestamp { fsp } => Value::DateTime(temporal::timestamp(input, fsp)?),
        Kind::Char { max_bytes } => {
            let bytes = string(input, len_bytes(max_bytes))?;
            padded(bytes, column, usize::from(max_bytes))
        }
        Kind::VarChar { max_bytes } => Value::bytes(string(input, len_bytes(max_bytes))?),
        Kind::Blob { len_bytes } => Value::bytes(string(input, usize::from(len_bytes))?),
        Kind::Json { len_bytes } => {
            let document = string(input, usize::from(len_bytes))?;
            json::check(document).map_err(|_| input.wrong("a JSON value is damaged"))?;
            Value::bytes_as_json(document)
        }
        Kind::Enum { bytes } | Kind::Set { bytes } => Value::UInt(input.le(usize::from(bytes))?),
    })
}

fn string<'a>(input: &mut Input<'a>, len_bytes: usize) -> Result<&'a [u8], DecodeError> {
    let len = input.le(len_bytes)?;
    input.bytes(len as usize)
}

/// A BINARY has its zeros again; a CHAR is without its spaces, as the engine keeps it.
fn padded<'a>(bytes: &'a [u8], column: &Column, len: usize) -> Value<'a> {
    if column.collation_id != Collation::Binary.id() || bytes.len() >= len {
        return Value::bytes(bytes);
    }
    let mut whole = bytes.to_vec();
    whole.resize(len, padding(column.collation_id));
    Value::owned(whole)
}
