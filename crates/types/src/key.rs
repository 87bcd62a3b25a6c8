//! Index keys: bytes whose memcmp order is the order of the index.
//!
//! KEY-1: memcmp orders two keys of one layout as their columns' values: in collation, NULL first,
//! DESC columns reversed.
//! KEY-2: no column's bytes are a proper prefix of another value's bytes of that column, so columns
//! can simply follow each other.
//! KEY-3: the bytes of a column of `whole_columns` are those of one value only.
//!
//! | column | bytes |
//! |---|---|
//! | nullable | one byte before: 0 NULL (nothing follows), 1 value; NOT NULL columns have none |
//! | integers | big-endian, native width, sign bit flipped |
//! | FLOAT, DOUBLE | big-endian bits; sign flipped if positive, all flipped if negative; -0 as 0 |
//! | DECIMAL | packed, as in the row |
//! | DATE u32, DATETIME u64, YEAR u8, BIT u64, ENUM u16, SET u64 | big-endian |
//! | TIME, TIMESTAMP | i64 us, big-endian, sign flipped |
//! | strings, PAD SPACE | weight bytes in chunks of 8, the last padded with spaces, each followed by how the rest of the string compares with |
//! | | spaces: 1 less, 2 equal (the last chunk), 3 greater |
//! | strings, NO PAD | weight bytes in chunks of 8, the last padded with zeros, each followed by 9 (more follows) or how many bytes of it are valid, 0..=8 |
//! | DESC | the column's bytes, the NULL byte included, inverted |
use std::cmp::Ordering;

use crate::decimal::packed_len;
use crate::row::timestamp_us;
use crate::{Collation, Column, IndexDef, IntSize, RowLayout, SqlType, Value};

const CHUNK: usize = 8;
const SPACES: u64 = u64::from_be_bytes([b' '; CHUNK]);
const LESS_THAN_SPACES: u8 = 1;
const EQUAL_TO_SPACES: u8 = 2;
const GREATER_THAN_SPACES: u8 = 3;
const MORE_FOLLOWS: u8 = 9;

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
    Enum,
    /// BIT and SET
    Bits,
    /// `chars`: the number of characters that are indexed if this is a prefix, else the most that a
    /// value has.
    String {
        collation: Collation,
        chars: u32,
        is_prefix: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct Part {
    column: u32,
    kind: Kind,
    nullable: bool,
    desc: bool,
}

/// The encoding of an index's columns into keys.
#[derive(Clone, Debug)]
pub struct KeyLayout {
    parts: Box<[Part]>,
}

impl Kind {
    fn of(ty: &SqlType, prefix: Option<u32>) -> Kind {
        match ty {
            SqlType::Int { size, sign, .. } if sign.unsigned => Kind::UInt(*size),
            SqlType::Int { size, .. } => Kind::Int(*size),
            SqlType::Decimal { precision, scale, .. } => {
                Kind::Decimal { precision: *precision, scale: *scale }
            }
            SqlType::Float { .. } => Kind::Float,
            SqlType::Double { .. } => Kind::Double,
            SqlType::Date => Kind::Date,
            SqlType::Time { .. } => Kind::Time,
            SqlType::DateTime { .. } => Kind::DateTime,
            SqlType::Timestamp { .. } => Kind::Timestamp,
            SqlType::Year => Kind::Year,
            SqlType::Enum { .. } => Kind::Enum,
            SqlType::Bit { .. } | SqlType::Set { .. } => Kind::Bits,
            ty => Kind::String {
                collation: ty.compare_collation(),
                chars: prefix.or(ty.max_chars()).unwrap_or(u32::MAX),
                is_prefix: prefix.is_some(),
            },
        }
    }

    /// The width in bytes. `None` for a string.
    fn width(self) -> Option<usize> {
        Some(match self {
            Kind::Int(size) | Kind::UInt(size) => size.bytes(),
            Kind::Float | Kind::Date => 4,
            Kind::Double | Kind::Time | Kind::DateTime | Kind::Timestamp | Kind::Bits => 8,
            Kind::Decimal { precision, scale } => packed_len(precision, scale),
            Kind::Year => 1,
            Kind::Enum => 2,
            Kind::String { .. } => return None,
        })
    }

    fn encode(self, value: &Value<'_>, out: &mut Vec<u8>) {
        match (self, value) {
            (Kind::Int(size), Value::Int(v)) => {
                // After the shift, the flipped bit is the sign bit of the native width.
                let n = size.bytes();
                let flipped = (*v as u64) ^ 1 << (8 * n - 1);
                out.extend_from_slice(&flipped.to_be_bytes()[8 - n..]);
            }
            (Kind::UInt(size), Value::UInt(v)) => {
                out.extend_from_slice(&v.to_be_bytes()[8 - size.bytes()..])
            }
            (Kind::Float, Value::Float(v)) => {
                let bits = (v + 0.0).to_bits();
                let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
                out.extend_from_slice(&(bits ^ flip).to_be_bytes());
            }
            (Kind::Double, Value::Double(v)) => {
                let bits = (v + 0.0).to_bits();
                let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
                out.extend_from_slice(&(bits ^ flip).to_be_bytes());
            }
            (Kind::Decimal { precision, scale }, Value::Decimal(v)) => {
                let start = out.len();
                out.resize(start + packed_len(precision, scale), 0);
                v.pack(precision, scale, &mut out[start..]);
            }
            (Kind::Date, Value::Date(v)) => out.extend_from_slice(&v.packed().to_be_bytes()),
            (Kind::Time, Value::Time(v)) => {
                out.extend_from_slice(&(v.us() as u64 ^ 1 << 63).to_be_bytes())
            }
            (Kind::DateTime, Value::DateTime(v)) => {
                out.extend_from_slice(&v.packed().to_be_bytes())
            }
            (Kind::Timestamp, Value::DateTime(v)) => {
                out.extend_from_slice(&(timestamp_us(*v) as u64 ^ 1 << 63).to_be_bytes())
            }
            (Kind::Year, Value::UInt(v)) => out.push(v.saturating_sub(1900) as u8),
            (Kind::Enum, Value::UInt(v)) => out.extend_from_slice(&(*v as u16).to_be_bytes()),
            (Kind::Bits, Value::UInt(v)) => out.extend_from_slice(&v.to_be_bytes()),
            (Kind::String { collation, chars, is_prefix }, Value::Bytes(bytes)) => {
                let start = out.len();
                if is_prefix {
                    collation.append_prefix_weights(bytes, chars as usize, out);
                } else {
                    collation.append_weights_beside(bytes, chars as usize, out);
                }
                spread(collation, start, out);
            }
            (kind, value) => panic!("KEY: the column is {kind:?}, the value {value:?}"),
        }
    }

    /// Decodes the number at the start of `key`. `None` if the column's type cannot be
    /// AUTO_INCREMENT.
    fn number(self, key: &[u8], desc: bool) -> Option<Value<'static>> {
        let flip = if desc { 0xff } else { 0 };
        let width = self.width()?;
        let bits =
            |key: &[u8]| key[..width].iter().fold(0u64, |n, byte| n << 8 | u64::from(byte ^ flip));
        Some(match self {
            Kind::UInt(_) => Value::UInt(bits(key)),
            Kind::Int(_) => {
                let unused = 64 - 8 * width as u32;
                Value::Int(((bits(key) << unused ^ 1 << 63) as i64) >> unused)
            }
            Kind::Float => {
                let bits = bits(key) as u32;
                Value::Float(f32::from_bits(if bits >> 31 == 1 { bits ^ 1 << 31 } else { !bits }))
            }
            Kind::Double => {
                let bits = bits(key);
                Value::Double(f64::from_bits(if bits >> 63 == 1 { bits ^ 1 << 63 } else { !bits }))
            }
            _ => return None,
        })
    }

    /// Whether a value can be made from its bytes in a key. Strings are there by their weights, and
    /// of FLOAT and DOUBLE -0 is there as 0.
    fn is_whole(self) -> bool {
        !matches!(self, Kind::Float | Kind::Double | Kind::String { .. })
    }
    /// Makes a value's bytes in a row from its bytes in a key, which are as many.
    #[inline]
    fn restore(self, key: &[u8], desc: bool, row: &mut [u8]) {
        let flip = if desc { u64::MAX } else { 0 };
        if let Kind::Decimal { .. } = self {
            row.iter_mut().zip(key).for_each(|(to, byte)| *to = byte ^ flip as u8);
            return;
        }
        // A number: the highest byte is first in a key, and last in a row.
        let sign = u8::from(matches!(self, Kind::Int(_) | Kind::Time | Kind::Timestamp)) << 7;
        if let (Ok(row), Some(key)) = (<&mut [u8; 8]>::try_from(&mut *row), key.first_chunk()) {
            let flip = flip ^ u64::from(sign) << 56;
            *row = (u64::from_be_bytes(*key) ^ flip).to_le_bytes();
        } else if let (Ok(row), Some(key)) =
            (<&mut [u8; 4]>::try_from(&mut *row), key.first_chunk())
        {
            let flip = flip as u32 ^ u32::from(sign) << 24;
            *row = (u32::from_be_bytes(*key) ^ flip).to_le_bytes();
        } else {
            row.iter_mut().rev().zip(key).for_each(|(to, byte)| *to = byte ^ flip as u8);
            row[row.len() - 1] ^= sign;
        }
    }

    /// The number of bytes of this column at the start of `key`, and more than `key` has if it ends
    /// within the column. The value is not NULL.
    fn skip(self, key: &[u8], desc: bool) -> usize {
        let Kind::String { collation, .. } = self else {
            return self.width().expect("not a string");
        };
        let flip = if desc { 0xff } else { 0 };
        let more = |flag: u8| {
            if collation.pads() { flag != EQUAL_TO_SPACES } else { flag == MORE_FOLLOWS }
        };
        let mut len = CHUNK + 1;
        while key.get(len - 1).is_some_and(|flag| more(flag ^ flip)) {
            len += CHUNK + 1;
        }
        len
    }
}

/// Appends a string in the memcomparable form of keys, for sorting and grouping elsewhere.
pub fn encode_string(collation: Collation, bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    collation.append_weights(bytes, out);
    spread(collation, start, out);
}

/// Spreads the weight bytes from `start` into chunks, from the last to the first, so that no second
/// buffer is needed.
fn spread(collation: Collation, start: usize, out: &mut Vec<u8>) {
    let len = out.len() - start;
    let before_last = len.div_ceil(CHUNK).max(1) - 1;
    out.resize(start + (before_last + 1) * (CHUNK + 1), 0);
    let (key, pads) = (&mut out[start..], collation.pads());
    let mut chunk = [if pads { b' ' } else { 0 }; CHUNK];
    let in_last = len - before_last * CHUNK;
    chunk[..in_last].copy_from_slice(&key[before_last * CHUNK..len]);
    let mut flag = if pads { EQUAL_TO_SPACES } else { in_last as u8 };
    for n in (0..=before_last).rev() {
        if n < before_last {
            // The flag of the previous chunk says how the rest compares with spaces. If this chunk
            // is all spaces, its own flag is passed on.
            flag = match u64::from_be_bytes(chunk).cmp(&SPACES) {
                _ if !pads => MORE_FOLLOWS,
                Ordering::Less => LESS_THAN_SPACES,
                Ordering::Greater => GREATER_THAN_SPACES,
                Ordering::Equal => flag,
            };
            chunk.copy_from_slice(&key[n * CHUNK..][..CHUNK]);
        }
        let to = &mut key[n * (CHUNK + 1)..][..CHUNK + 1];
        to[..CHUNK].copy_from_slice(&chunk);
        to[CHUNK] = flag;
    }
}

impl Part {
    fn encode(&self, value: &Value<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        if self.nullable {
            out.push(u8::from(!value.is_null()));
        }
        if !(self.nullable && value.is_null()) {
            self.kind.encode(value, out);
        }
        if self.desc {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// The value's bytes at the start of `key`, after the NULL byte. `None` if the value is NULL.
    fn value_in<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let null = if self.desc { 0xff } else { 0 };
        match key {
            value if !self.nullable => Some(value),
            [flag, value @ ..] if *flag != null => Some(value),
            _ => None,
        }
    }

    fn skip(&self, key: &[u8]) -> usize {
        self.value_in(key).map_or(0, |value| self.kind.skip(value, self.desc))
            + usize::from(self.nullable)
    }
}

impl KeyLayout {
    pub fn new(columns: &[Column], index: &IndexDef) -> KeyLayout {
        let part = |c: &crate::IndexColumn| {
            let column = &columns[c.column];
            Part {
                column: c.column as u32,
                kind: Kind::of(&column.ty, c.prefix),
                nullable: column.nullable,
                desc: c.desc,
            }
        };
        KeyLayout { parts: index.columns.iter().map(part).collect() }
    }

    /// Number of key columns.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Table columns, in key order.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.parts.iter().map(|part| part.column as usize)
    }

    /// Appends the key of a row. None of the key columns may be external (`external_column`).
    pub fn encode_row(&self, rows: &RowLayout, payload: &[u8], out: &mut Vec<u8>) {
        for part in &self.parts {
            part.encode(&rows.get(payload, part.column as usize), out);
        }
    }

    /// Appends the key bytes of the first `values.len()` key columns. A string may be longer than
    /// its column's values: its bytes are as few as theirs, and in order beside theirs (COLL-2).
    pub fn encode_values(&self, values: &[Value<'_>], out: &mut Vec<u8>) {
        assert!(values.len() <= self.parts.len(), "KEY: more values than columns");
        for (part, value) in self.parts.iter().zip(values) {
            part.encode(value, out);
        }
    }

    /// Whether a key column is NULL. A unique index does not compare such rows.
    pub fn has_null(&self, rows: &RowLayout, payload: &[u8]) -> bool {
        self.parts.iter().any(|part| part.nullable && rows.is_null(payload, part.column as usize))
    }

    /// The first key column whose value is stored outside the row.
    pub fn external_column(&self, rows: &RowLayout, payload: &[u8]) -> Option<usize> {
        let external = |col: &usize| rows.external(payload, *col).is_some();
        if rows.has_externals(payload) { self.columns().find(external) } else { None }
    }

    /// The value of a key's first column, if that is an integer, FLOAT or DOUBLE and not NULL.
    pub fn leading_number(&self, key: &[u8]) -> Option<Value<'static>> {
        let part = self.parts.first()?;
        part.kind.number(part.value_in(key)?, part.desc)
    }

    /// The table columns whose values `restore` makes.
    pub fn whole_columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.parts.iter().filter(|part| part.kind.is_whole()).map(|part| part.column as usize)
    }
    /// Writes the values that `key` has into a row's payload, in which these columns are NULL.
    /// Returns what follows the key.
    pub fn restore<'k>(&self, mut key: &'k [u8], rows: &RowLayout, payload: &mut [u8]) -> &'k [u8] {
        for part in &self.parts {
            match part.value_in(key).filter(|_| part.kind.is_whole()) {
                Some(value) => {
                    let row = rows.not_null(payload, part.column as usize);
                    part.kind.restore(value, part.desc, row);
                    key = &value[row.len()..];
                }
                None => key = &key[part.skip(key)..],
            }
        }
        key
    }

    /// Length in bytes of the first `n` columns' bytes of a key.
    pub fn skip_columns(&self, key: &[u8], n: usize) -> usize {
        self.parts[..n].iter().fold(0, |at, part| at + part.skip(&key[at..]))
    }

    /// [`KeyLayout::skip_columns`] for bytes that may be no key: None if they end too early.
    pub fn checked_skip(&self, key: &[u8], n: usize) -> Option<usize> {
        self.parts[..n].iter().try_fold(0usize, |at, part| {
            let end = at + part.skip(key.get(at..)?);
            (end <= key.len()).then_some(end)
        })
    }

    /// Turns a prefix of keys into the least key after all keys with the prefix. Returns false,
    /// with an empty prefix, if there is no such key.
    pub fn successor(prefix: &mut Vec<u8>) -> bool {
        while prefix.pop_if(|byte| *byte == 0xff).is_some() {}
        match prefix.last_mut() {
            Some(byte) => *byte += 1,
            None => return false,
        }
        true
    }

    /// Appends bytes with which all keys begin whose first columns are `values` and whose next
    /// column, a string, starts with `start` (LIKE 'start%'). Other keys may begin with these
    /// bytes, too.
    pub fn encode_start(&self, values: &[Value<'_>], start: &[u8], out: &mut Vec<u8>) {
        let part = self.parts[values.len()];
        let Kind::String { collation, chars, is_prefix } = part.kind else {
            panic!("KEY: the start of {:?}", part.kind)
        };
        self.encode_values(values, out);
        let part_start = out.len();
        if part.nullable {
            out.push(1);
        }
        let chunks_start = out.len();
        let chars = is_prefix.then_some(chars as usize);
        collation.append_common_weights(start, chars, out);
        let weights = out.len() - chunks_start;
        spread(collation, chunks_start, out);
        // The bytes after the start are not known. So the last chunk's padding and flag are not
        // known either, nor the flags before trailing spaces, which are removed. Keep only the
        // bytes that every such key has.
        let known = weights / CHUNK * (CHUNK + 1) + weights % CHUNK;
        out.truncate(
            chunks_start
                + if weights.is_multiple_of(CHUNK) { known.saturating_sub(1) } else { known },
        );
        if part.desc {
            out[part_start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// The maximum length in bytes of a key of these columns. `None` if it contains a string
    /// without a limit.
    pub fn max_len(&self, columns: &[Column]) -> Option<usize> {
        let part_len = |part: &Part| {
            let Kind::String { collation, chars, is_prefix } = part.kind else {
                return part.kind.width();
            };
            let charset = collation.charset();
            // No weight takes more bytes than the longest character of its set. A whole string in
            // which characters have several weights may have a longer key; its row is refused.
            let of_chars = |chars: u64| chars * u64::from(charset.max_len());
            let ty = &columns[part.column as usize].ty;
            let bytes = if !is_prefix {
                ty.max_bytes().filter(|_| !ty.is_lob())?
            } else {
                of_chars(u64::from(chars))
            };
            Some((bytes as usize).div_ceil(CHUNK).max(1) * (CHUNK + 1))
        };
        self.parts.iter().map(|part| Some(part_len(part)? + usize::from(part.nullable))).sum()
    }
}
