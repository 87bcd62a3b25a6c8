//! Row payloads: all columns of a row as the engine stores them.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | flags: 1 `WIDE` (ends take 4 bytes), 2 `HAS_EXTERNAL` |
//! | ceil(columns / 8) | null bitmap, bit `c % 8` of byte `c / 8` set: NULL |
//! | fixed | fixed-width columns in column order, zeros when NULL, little-endian: integers in native width, FLOAT, DOUBLE; DECIMAL packed; DATE u32, |
//! | | TIME i64 us, DATETIME u64 packed, TIMESTAMP i64 us since 1970 UTC (0: the zero date), YEAR u8 (year - 1900, 0: 0000), BIT u64, ENUM u16, SET u64 |
//! | 2 or 4 each | ends of the variable columns, counted from the first variable byte; top bit: external |
//! | rest | variable bytes: CHAR (without trailing spaces), VARCHAR, TEXT, BINARY (full length), VARBINARY, BLOB, JSON (binary form); NULL takes none; an external one is |
//! | | {page_no u32, len u64}, 12 bytes |
//!
//! ROW-1: a payload has exactly the bytes that its last end says. ROW-2: `WIDE` is set only if the
//! variable bytes are over 0x7fff. ROW-3: a NULL column's fixed bytes are zero, so equal rows have
//! equal payloads. Values must be of the column's kind (`convert_for_column` ensures it): any other
//! value is a bug and panics.
use crate::collation::trim_spaces;
use crate::decimal::{packed_len, unpack_digits};
use crate::{Column, Date, DateTime, Decimal, IntSize, SqlType, Time, Value};
use std::convert::Infallible;
use std::ops::Range;

const WIDE: u8 = 1;
const HAS_EXTERNAL: u8 = 2;
/// Bytes of a reference to an external column.
pub const EXTERNAL_LEN: usize = 12;
/// The most bytes of the variable columns of a payload: the ends have 31 bits.
pub const MAX_VARIABLE: usize = (1 << 31) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int(IntSize),
    UInt(IntSize),
    Float,
    Double,
    Decimal {
        precision: u8,
        scale: u8,
    },
    Date,
    Time,
    DateTime,
    Timestamp,
    Year,
    Bit,
    Enum,
    Set,
    Variable,
    /// CHAR: trailing spaces are removed.
    Char,
    /// JSON in its binary form.
    Json,
}

impl Kind {
    fn of(ty: &SqlType) -> Kind {
        match ty {
            SqlType::Int { size, sign, .. } if sign.unsigned => Kind::UInt(*size),
            SqlType::Int { size, .. } => Kind::Int(*size),
            SqlType::Decimal { precision, scale, .. } => {
                Kind::Decimal { precision: *precision, scale: *scale }
            }
            SqlType::Float { .. } => Kind::Float,
            SqlType::Double { .. } => Kind::Double,
            SqlType::Char { .. } => Kind::Char,
            SqlType::VarChar { .. }
            | SqlType::Text { .. }
            | SqlType::Binary { .. }
            | SqlType::VarBinary { .. }
            | SqlType::Blob { .. } => Kind::Variable,
            SqlType::Date => Kind::Date,
            SqlType::Time { .. } => Kind::Time,
            SqlType::DateTime { .. } => Kind::DateTime,
            SqlType::Timestamp { .. } => Kind::Timestamp,
            SqlType::Year => Kind::Year,
            SqlType::Bit { .. } => Kind::Bit,
            SqlType::Enum { .. } => Kind::Enum,
            SqlType::Set { .. } => Kind::Set,
            SqlType::Json => Kind::Json,
        }
    }

    /// The width in bytes. `None` for a variable column.
    fn width(self) -> Option<usize> {
        Some(match self {
            Kind::Int(size) | Kind::UInt(size) => size.bytes(),
            Kind::Float | Kind::Date => 4,
            Kind::Decimal { precision, scale } => packed_len(precision, scale),
            Kind::Double
            | Kind::Time
            | Kind::DateTime
            | Kind::Timestamp
            | Kind::Bit
            | Kind::Set => 8,
            Kind::Year => 1,
            Kind::Enum => 2,
            Kind::Variable | Kind::Char | Kind::Json => return None,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    kind: Kind,
    /// For a fixed column, its offset in the payload. For a variable column, its number among the
    /// variable columns.
    at: u32,
}

/// The positions of a table's columns in its payloads.
#[derive(Clone, Debug)]
pub struct RowLayout {
    slots: Box<[Slot]>,
    /// The column of each variable number.
    variable: Box<[u32]>,
    /// The offset of the ends in the payload.
    ends: usize,
}

/// The new contents of one variable column when a payload is rebuilt.
#[derive(Clone, Copy)]
struct Piece<'a> {
    bytes: &'a [u8],
    external: bool,
    /// The number of zeros that follow the bytes.
    room: usize,
}

/// The bytes of a column's end, if the variable columns have so many bytes.
fn end_width(variable_bytes: usize) -> usize {
    if variable_bytes > 0x7fff { 4 } else { 2 }
}
fn short_enough(_: usize) -> Result<(), Infallible> {
    Ok(())
}
fn le<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}

/// Writes as many of the low bytes as there is room for. The usual widths are constants here, which
/// makes a store of what would be a call.
fn put_low_bytes(to: &mut [u8], bytes: [u8; 8]) {
    match to.len() {
        1 => to[0] = bytes[0],
        2 => to.copy_from_slice(&bytes[..2]),
        4 => to.copy_from_slice(&bytes[..4]),
        8 => to.copy_from_slice(&bytes),
        width => to.copy_from_slice(&bytes[..width]),
    }
}

impl RowLayout {
    pub fn new(columns: &[Column]) -> RowLayout {
        let mut at = 1 + columns.len().div_ceil(8);
        let mut variable = Vec::new();
        let mut slot = |(i, column): (usize, &Column)| {
            let kind = Kind::of(&column.ty);
            match kind.width() {
                Some(width) => {
                    at += width;
                    Slot { kind, at: (at - width) as u32 }
                }
                None => {
                    variable.push(i as u32);
                    Slot { kind, at: variable.len() as u32 - 1 }
                }
            }
        };
        let slots = columns.iter().enumerate().map(&mut slot).collect();
        RowLayout { slots, variable: variable.into(), ends: at }
    }

    pub fn columns(&self) -> usize {
        self.slots.len()
    }

    /// Whether the column's value is in the variable part.
    pub fn is_variable(&self, col: usize) -> bool {
        self.slots[col].kind.width().is_none()
    }

    #[inline]
    pub fn is_null(&self, payload: &[u8], col: usize) -> bool {
        payload[1 + col / 8] >> (col % 8) & 1 == 1
    }

    /// Appends the payload of a row. `values`: one per column. Together they must have less than
    /// 2 GiB.
    pub fn encode(&self, values: &[Value<'_>], out: &mut Vec<u8>) {
        let Ok(()) = self.encode_if(values, out, short_enough);
    }
    /// Does the same if `may` agrees, which is asked before the variable columns are copied and is
    /// given the number of their bytes. It must refuse more than [`MAX_VARIABLE`].
    #[inline]
    pub fn encode_if<E>(
        &self,
        values: &[Value<'_>],
        out: &mut Vec<u8>,
        may: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        assert_eq!(values.len(), self.slots.len(), "ROW: values and columns");
        let start = out.len();
        out.resize(start + self.ends, 0);
        for (col, value) in values.iter().enumerate() {
            match value {
                Value::Null => out[start + 1 + col / 8] |= 1 << (col % 8),
                value if !self.is_variable(col) => self.write_fixed(&mut out[start..], col, value),
                _ => {}
            }
        }
        let piece = |variable: usize| {
            let col = self.variable[variable] as usize;
            Piece { bytes: self.variable_bytes(col, &values[col]), external: false, room: 0 }
        };
        self.write_variable_if(out, start, piece, may)
    }

    /// Appends the payload of a row whose columns are all NULL.
    pub fn encode_nulls(&self, out: &mut Vec<u8>) {
        let (start, columns) = (out.len(), self.slots.len());
        out.resize(start + self.ends + 2 * self.variable.len(), 0);
        let bits = &mut out[start + 1..][..columns.div_ceil(8)];
        bits.fill(0xff);
        if let Some(last) = bits.last_mut().filter(|_| columns % 8 != 0) {
            *last = (1 << (columns % 8)) - 1;
        }
    }

    /// The coefficient and the scale of an exact number of up to 18 digits that is not NULL, in a
    /// payload that has some bytes behind it. None tells nothing about the column.
    #[inline]
    pub fn short_coefficient(&self, payload: &[u8], col: usize) -> Option<(i64, u8)> {
        let Kind::Decimal { precision, scale } = self.slots[col].kind else { return None };
        if self.is_null(payload, col) {
            return None;
        }
        let at = self.slots[col].at as usize;
        Some((unpack_digits(precision, scale, &payload[at..])?, scale))
    }

    /// The value of a column, borrowing strings from the payload. The column must not be external.
    #[inline]
    pub fn get<'p>(&self, payload: &'p [u8], col: usize) -> Value<'p> {
        if self.is_null(payload, col) {
            return Value::Null;
        }
        let slot = self.slots[col];
        let at = slot.at as usize;
        match slot.kind {
            Kind::Int(size) => Value::Int(match size {
                IntSize::Tiny => i64::from(payload[at] as i8),
                IntSize::Small => i64::from(i16::from_le_bytes(le(payload, at))),
                IntSize::Medium => i64::from(
                    i32::from_le_bytes([0, payload[at], payload[at + 1], payload[at + 2]]) >> 8,
                ),
                IntSize::Int => i64::from(i32::from_le_bytes(le(payload, at))),
                IntSize::Big => i64::from_le_bytes(le(payload, at)),
            }),
            Kind::UInt(size) => Value::UInt(match size {
                IntSize::Tiny => u64::from(payload[at]),
                IntSize::Small => u64::from(u16::from_le_bytes(le(payload, at))),
                IntSize::Medium => u64::from(u32::from_le_bytes([
                    payload[at],
                    payload[at + 1],
                    payload[at + 2],
                    0,
                ])),
                IntSize::Int => u64::from(u32::from_le_bytes(le(payload, at))),
                IntSize::Big => u64::from_le_bytes(le(payload, at)),
            }),
            Kind::Float => Value::Float(f32::from_le_bytes(le(payload, at))),
            Kind::Double => Value::Double(f64::from_le_bytes(le(payload, at))),
            Kind::Decimal { precision, scale } => {
                Value::Decimal(Decimal::unpack(precision, scale, &payload[at..]))
            }
            Kind::Date => Value::Date(Date::from_packed(u32::from_le_bytes(le(payload, at)))),
            Kind::Time => {
                Value::Time(Time::from_us(i64::from_le_bytes(le(payload, at))).unwrap_or_default())
            }
            Kind::DateTime => {
                Value::DateTime(DateTime::from_packed(u64::from_le_bytes(le(payload, at))))
            }
            Kind::Timestamp => Value::DateTime(match i64::from_le_bytes(le(payload, at)) {
                0 => DateTime::ZERO,
                us => DateTime::from_unix_us(us, 0).unwrap_or_default(),
            }),
            Kind::Year => Value::UInt(match payload[at] {
                0 => 0,
                year => 1900 + u64::from(year),
            }),
            Kind::Enum => Value::UInt(u64::from(u16::from_le_bytes(le(payload, at)))),
            Kind::Bit | Kind::Set => Value::UInt(u64::from_le_bytes(le(payload, at))),
            Kind::Variable | Kind::Char => {
                let piece = self.piece(payload, at);
                assert!(!piece.external, "ROW: column {col} is external");
                Value::bytes(piece.bytes)
            }
            Kind::Json => {
                let piece = self.piece(payload, at);
                assert!(!piece.external, "ROW: column {col} is external");
                Value::bytes_as_json(piece.bytes)
            }
        }
    }

    /// The bytes of a fixed-width column, which is not NULL from now on.
    pub(crate) fn not_null<'p>(&self, payload: &'p mut [u8], col: usize) -> &'p mut [u8] {
        let slot = self.slots[col];
        let width = slot.kind.width().expect("ROW: a column of a fixed width");
        payload[1 + col / 8] &= !(1 << (col % 8));
        &mut payload[slot.at as usize..][..width]
    }
    /// Writes a fixed-width column in place.
    pub fn set_fixed(&self, payload: &mut [u8], col: usize, value: &Value<'_>) {
        if value.is_null() {
            payload[1 + col / 8] |= 1 << (col % 8);
            let (at, width) = self.fixed_range(col);
            payload[at..at + width].fill(0);
        } else {
            payload[1 + col / 8] &= !(1 << (col % 8));
            self.write_fixed(payload, col, value);
        }
    }

    /// Appends the payload of the row with some columns changed. External columns that are not
    /// changed stay external. The columns in the row must have less than 2 GiB.
    pub fn update(&self, old: &[u8], changes: &[(usize, Value<'_>)], out: &mut Vec<u8>) {
        let Ok(()) = self.update_if(old, changes, out, short_enough);
    }
    /// Does the same if `may` agrees, as in [`RowLayout::encode_if`]. It is not asked if no
    /// variable column changes.
    #[inline]
    pub fn update_if<E>(
        &self,
        old: &[u8],
        changes: &[(usize, Value<'_>)],
        out: &mut Vec<u8>,
        may: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = out.len();
        if changes.iter().all(|(col, _)| !self.is_variable(*col)) {
            out.extend_from_slice(old);
        } else {
            out.extend_from_slice(&old[..self.ends]);
            out[start] = 0;
            for (col, value) in changes.iter().filter(|(col, _)| self.is_variable(*col)) {
                let (byte, bit) = (start + 1 + col / 8, 1 << (col % 8));
                out[byte] = if value.is_null() { out[byte] | bit } else { out[byte] & !bit };
            }
            let piece = |variable: usize| {
                let col = self.variable[variable] as usize;
                match changes.iter().rev().find(|(changed, _)| *changed == col) {
                    Some((_, value)) => {
                        Piece { bytes: self.variable_bytes(col, value), external: false, room: 0 }
                    }
                    None => self.piece(old, variable),
                }
            };
            self.write_variable_if(out, start, piece, may)?;
        }
        for (col, value) in changes.iter().filter(|(col, _)| !self.is_variable(*col)) {
            self.set_fixed(&mut out[start..], *col, value);
        }
        Ok(())
    }

    pub fn has_externals(&self, payload: &[u8]) -> bool {
        payload[0] & HAS_EXTERNAL != 0
    }

    /// (first page, length) of a column stored outside the row.
    pub fn external(&self, payload: &[u8], col: usize) -> Option<(u32, u64)> {
        if !self.has_externals(payload) || !self.is_variable(col) {
            return None;
        }
        let piece = self.piece(payload, self.slots[col].at as usize);
        piece.external.then(|| {
            (u32::from_le_bytes(le(piece.bytes, 0)), u64::from_le_bytes(le(piece.bytes, 4)))
        })
    }

    /// External columns: (column, first page, length).
    pub fn externals<'a>(
        &'a self,
        payload: &'a [u8],
    ) -> impl Iterator<Item = (usize, u32, u64)> + 'a {
        let columns = if self.has_externals(payload) { &self.variable[..] } else { &[] };
        columns.iter().filter_map(move |col| {
            self.external(payload, *col as usize).map(|(page, len)| (*col as usize, page, len))
        })
    }

    /// (column, bytes in the row) of the variable columns that are in the row and not NULL. They
    /// may be moved out of the row.
    pub fn inline_lens<'a>(
        &'a self,
        payload: &'a [u8],
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        self.variable.iter().enumerate().filter_map(move |(i, col)| {
            let piece = self.piece(payload, i);
            (!piece.external && !self.is_null(payload, *col as usize))
                .then_some((*col as usize, piece.bytes.len()))
        })
    }

    /// The length of a payload whose variable columns have so many bytes in the row.
    pub fn payload_len(&self, variable_bytes: usize) -> usize {
        self.ends + self.variable.len() * end_width(variable_bytes) + variable_bytes
    }
    /// The bytes of the variable columns that are in the row, references among them.
    pub fn variable_len(&self, payload: &[u8]) -> usize {
        (0..self.variable.len()).map(|i| self.piece(payload, i).bytes.len()).sum()
    }
    /// Appends the payload with columns replaced by references to where they are stored: (column,
    /// first page, bytes).
    pub fn externalize(
        &self,
        payload: &[u8],
        columns: impl IntoIterator<Item = (usize, u32, u64)>,
        out: &mut Vec<u8>,
    ) {
        let mut references = vec![None; self.variable.len()];
        for (col, page_no, len) in columns {
            assert!(
                self.is_variable(col) && !self.is_null(payload, col),
                "ROW: column {col} has no variable bytes"
            );
            let mut reference = [0; EXTERNAL_LEN];
            reference[..4].copy_from_slice(&page_no.to_le_bytes());
            reference[4..].copy_from_slice(&len.to_le_bytes());
            references[self.slots[col].at as usize] = Some(reference);
        }
        let start = out.len();
        out.extend_from_slice(&payload[..self.ends]);
        out[start] = 0;
        self.write_variable(out, start, |variable| match &references[variable] {
            Some(bytes) => Piece { bytes, external: true, room: 0 },
            None => self.piece(payload, variable),
        });
    }

    /// Appends the payload with an external column's bytes back in the row.
    pub fn internalize(&self, payload: &[u8], col: usize, bytes: &[u8], out: &mut Vec<u8>) {
        self.replace(payload, col, Piece { bytes, external: false, room: 0 }, out);
    }

    /// Appends the payload with room for the external columns, whose bytes are zeros for now.
    /// Returns for each external column the range of its bytes in `out`, and its first page.
    /// Together they must have less than 2 GiB.
    pub fn make_room(&self, payload: &[u8], out: &mut Vec<u8>) -> Vec<(Range<usize>, u32)> {
        let start = out.len();
        out.extend_from_slice(&payload[..self.ends]);
        out[start] = 0;
        self.write_variable(out, start, |variable| {
            match self.external(payload, self.variable[variable] as usize) {
                Some((_, len)) => Piece { bytes: &[], external: false, room: len as usize },
                None => self.piece(payload, variable),
            }
        });
        let row = &out[start..];
        let place = |(col, page, _): (usize, u32, u64)| {
            (self.variable_range(row, self.slots[col].at as usize), page)
        };
        let moved = |(r, page): (Range<usize>, u32)| (start + r.start..start + r.end, page);
        self.externals(payload).map(place).map(moved).collect()
    }

    fn replace(&self, payload: &[u8], col: usize, new: Piece<'_>, out: &mut Vec<u8>) {
        assert!(
            self.is_variable(col) && !self.is_null(payload, col),
            "ROW: column {col} has no variable bytes"
        );
        let (start, wanted) = (out.len(), self.slots[col].at as usize);
        out.extend_from_slice(&payload[..self.ends]);
        out[start] = 0;
        self.write_variable(out, start, |variable| {
            if variable == wanted { new } else { self.piece(payload, variable) }
        });
    }

    /// Whether the bytes can be a payload of this layout (ROW-1 and ends in order), for CHECK TABLE
    /// and recovery.
    pub fn is_well_formed(&self, payload: &[u8]) -> bool {
        let width = if payload.first().is_some_and(|flags| flags & WIDE != 0) { 4 } else { 2 };
        let Some(variable_len) = payload.len().checked_sub(self.ends + self.variable.len() * width)
        else {
            return false;
        };
        let mut before = 0;
        for i in 0..self.variable.len() {
            let (end, external) = self.end(payload, i);
            if end < before || end > variable_len || (external && end - before != EXTERNAL_LEN) {
                return false;
            }
            before = end;
        }
        before == variable_len
    }

    fn fixed_range(&self, col: usize) -> (usize, usize) {
        let slot = self.slots[col];
        let width = slot.kind.width().unwrap_or_else(|| panic!("ROW: column {col} is variable"));
        (slot.at as usize, width)
    }

    fn write_fixed(&self, payload: &mut [u8], col: usize, value: &Value<'_>) {
        let (at, width) = self.fixed_range(col);
        let to = &mut payload[at..at + width];
        match (self.slots[col].kind, value) {
            (Kind::Int(_), Value::Int(v)) => put_low_bytes(to, v.to_le_bytes()),
            (Kind::UInt(_) | Kind::Bit | Kind::Enum | Kind::Set, Value::UInt(v)) => {
                put_low_bytes(to, v.to_le_bytes())
            }
            (Kind::Float, Value::Float(v)) => to.copy_from_slice(&v.to_le_bytes()),
            (Kind::Double, Value::Double(v)) => to.copy_from_slice(&v.to_le_bytes()),
            (Kind::Decimal { precision, scale }, Value::Decimal(v)) => v.pack(precision, scale, to),
            (Kind::Date, Value::Date(v)) => to.copy_from_slice(&v.packed().to_le_bytes()),
            (Kind::Time, Value::Time(v)) => to.copy_from_slice(&v.us().to_le_bytes()),
            (Kind::DateTime, Value::DateTime(v)) => to.copy_from_slice(&v.packed().to_le_bytes()),
            (Kind::Timestamp, Value::DateTime(v)) => {
                to.copy_from_slice(&timestamp_us(*v).to_le_bytes())
            }
            (Kind::Year, Value::UInt(v)) => to[0] = v.saturating_sub(1900) as u8,
            (kind, value) => panic!("ROW: column {col} is {kind:?}, the value {value:?}"),
        }
    }

    fn variable_bytes<'v>(&self, col: usize, value: &'v Value<'_>) -> &'v [u8] {
        match (self.slots[col].kind, value) {
            (_, Value::Null) => &[],
            (Kind::Char, Value::Bytes(bytes)) => trim_spaces(bytes),
            (Kind::Variable, Value::Bytes(bytes)) | (Kind::Json, Value::Json(bytes)) => bytes,
            (kind, value) => panic!("ROW: column {col} is {kind:?}, the value {value:?}"),
        }
    }

    fn write_variable<'a>(
        &self,
        out: &mut Vec<u8>,
        start: usize,
        piece: impl Fn(usize) -> Piece<'a>,
    ) {
        let Ok(()) = self.write_variable_if(out, start, piece, short_enough);
    }
    /// Appends ends and variable bytes after the fixed part, which is at `out[start..]`, and sets
    /// the flags. If `may` refuses so many variable bytes, `out` ends before the fixed part.
    #[inline]
    fn write_variable_if<'a, E>(
        &self,
        out: &mut Vec<u8>,
        start: usize,
        piece: impl Fn(usize) -> Piece<'a>,
        may: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let n = self.variable.len();
        let total: usize = (0..n).map(&piece).map(|p| p.bytes.len() + p.room).sum();
        if let Err(e) = may(total) {
            out.truncate(start);
            return Err(e);
        }
        assert!(total <= MAX_VARIABLE, "ROW: variable bytes");
        let (wide, ends) = (end_width(total) == 4, out.len());
        out.resize(ends + n * end_width(total), 0);
        let variable = out.len();
        let mut flags = if wide { WIDE } else { 0 };
        for i in 0..n {
            let piece = piece(i);
            out.extend_from_slice(piece.bytes);
            out.resize(out.len() + piece.room, 0);
            let end = (out.len() - variable) as u32;
            flags |= if piece.external { HAS_EXTERNAL } else { 0 };
            if wide {
                let end = end | u32::from(piece.external) << 31;
                out[ends + i * 4..][..4].copy_from_slice(&end.to_le_bytes());
            } else {
                let end = end as u16 | u16::from(piece.external) << 15;
                out[ends + i * 2..][..2].copy_from_slice(&end.to_le_bytes());
            }
        }
        out[start] = flags;
        Ok(())
    }

    #[inline]
    fn end(&self, payload: &[u8], variable: usize) -> (usize, bool) {
        if payload[0] & WIDE != 0 {
            let end = u32::from_le_bytes(le(payload, self.ends + variable * 4));
            ((end & 0x7fff_ffff) as usize, end >> 31 == 1)
        } else {
            let end = u16::from_le_bytes(le(payload, self.ends + variable * 2));
            (usize::from(end & 0x7fff), end >> 15 == 1)
        }
    }

    fn variable_range(&self, payload: &[u8], variable: usize) -> Range<usize> {
        let base = self.ends + self.variable.len() * if payload[0] & WIDE != 0 { 4 } else { 2 };
        let begin = if variable == 0 { 0 } else { self.end(payload, variable - 1).0 };
        base + begin..base + self.end(payload, variable).0
    }

    #[inline]
    fn piece<'p>(&self, payload: &'p [u8], variable: usize) -> Piece<'p> {
        let base = self.ends + self.variable.len() * if payload[0] & WIDE != 0 { 4 } else { 2 };
        let begin = if variable == 0 { 0 } else { self.end(payload, variable - 1).0 };
        let (end, external) = self.end(payload, variable);
        Piece { bytes: &payload[base + begin..base + end], external, room: 0 }
    }
}

/// The stored form of a TIMESTAMP: microseconds since 1970 UTC, 0 for the zero date.
pub(crate) fn timestamp_us(value: DateTime) -> i64 {
    value.to_unix_us(0).unwrap_or(0)
}
