//! MySQL's binary form of a JSON value, as its manual and its binary log describe it.
//!
//! | what | bytes |
//! |---|---|
//! | document | type, value |
//! | object (0 small, 1 large) | count, size, a key entry for each member, a value entry for each member, the names, the values |
//! | array (2 small, 3 large) | count, size, a value entry for each element, the values |
//! | key entry | offset of the name, u16 length |
//! | value entry | type, offset of the value; or the value itself if it is a literal or a 16-bit number, in large containers a 32-bit number too |
//! | literal (4) | 0 null, 1 true, 2 false |
//! | numbers (5 to 11) | i16, u16, i32, u32, i64, u64, f64, little-endian |
//! | string (12) | length in groups of 7 bits, the lowest first; UTF-8 |
//! | opaque (15) | the protocol's number of the type, length as above, bytes |
//!
//! Counts, sizes and offsets take 2 bytes in small and 4 in large containers. Offsets count from
//! the container's count. A decimal is opaque: precision, scale, the packed number. Moments are
//! opaque: 8 bytes of MySQL's packed form (see [`pack_date_time`]).
use super::{Json, JsonError, Object, Result, key_order};
use crate::decimal::{is_packed, packed_len};
use crate::{Date, DateTime, Decimal, Time, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

pub(super) mod code {
    pub const SMALL_OBJECT: u8 = 0;
    pub const LARGE_OBJECT: u8 = 1;
    pub const SMALL_ARRAY: u8 = 2;
    pub const LARGE_ARRAY: u8 = 3;
    pub const LITERAL: u8 = 4;
    pub const INT16: u8 = 5;
    pub const UINT16: u8 = 6;
    pub const INT32: u8 = 7;
    pub const UINT32: u8 = 8;
    pub const INT64: u8 = 9;
    pub const UINT64: u8 = 10;
    pub const DOUBLE: u8 = 11;
    pub const STRING: u8 = 12;
    pub const OPAQUE: u8 = 15;
    pub const NULL: u8 = 0;
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
}

/// The protocol's numbers of the types that a JSON value may have beside JSON's own.
pub mod field {
    pub const TIMESTAMP: u8 = 7;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const DECIMAL: u8 = 246;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
}

/// A value in the binary form: its type and exactly its bytes.
#[derive(Clone, Copy, Debug)]
pub struct JsonRef<'a> {
    pub(super) kind: u8,
    pub(super) bytes: &'a [u8],
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum View<'a> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    Decimal(Decimal),
    String(&'a str),
    Date(Date),
    Time(Time),
    DateTime(DateTime),
    Opaque(u8, &'a [u8]),
    Array(Container<'a>),
    Object(Container<'a>),
}

/// An array or an object.
#[derive(Clone, Copy, Debug)]
pub struct Container<'a> {
    large: bool,
    object: bool,
    count: usize,
    bytes: &'a [u8],
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    let end = at.checked_add(N).ok_or(JsonError::Damaged)?;
    bytes.get(at..end).and_then(|b| b.try_into().ok()).ok_or(JsonError::Damaged)
}

fn number(bytes: &[u8], at: usize, large: bool) -> Result<usize> {
    Ok(if large {
        u32::from_le_bytes(take(bytes, at)?) as usize
    } else {
        usize::from(u16::from_le_bytes(take(bytes, at)?))
    })
}

/// The length at the start of `bytes`, and the bytes that it takes.
fn length(bytes: &[u8]) -> Result<(usize, usize)> {
    let mut value = 0u64;
    for (n, byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            return match u32::try_from(value) {
                Ok(value) => Ok((value as usize, n + 1)),
                Err(_) => Err(JsonError::Damaged),
            };
        }
    }
    Err(JsonError::Damaged)
}

/// The end of the bytes that start with a length.
fn counted_end(bytes: &[u8]) -> Result<usize> {
    let (len, used) = length(bytes)?;
    len.checked_add(used).ok_or(JsonError::Damaged)
}

impl<'a> JsonRef<'a> {
    pub const NULL: JsonRef<'static> = JsonRef { kind: code::LITERAL, bytes: &[code::NULL] };

    /// The value of a document. No bytes are null, as in MySQL. The value is believed: bytes from
    /// outside go through [`super::check`] (JSON-2).
    pub fn new(document: &'a [u8]) -> Result<JsonRef<'a>> {
        match document.split_first() {
            None => Ok(JsonRef::NULL),
            Some((kind, bytes)) => JsonRef::at_start(*kind, bytes),
        }
    }

    /// The value of this type at the start of `bytes`.
    pub(super) fn at_start(kind: u8, bytes: &'a [u8]) -> Result<JsonRef<'a>> {
        let len = match kind {
            code::SMALL_OBJECT | code::SMALL_ARRAY => number(bytes, 2, false)?,
            code::LARGE_OBJECT | code::LARGE_ARRAY => number(bytes, 4, true)?,
            code::LITERAL => 1,
            code::INT16 | code::UINT16 => 2,
            code::INT32 | code::UINT32 => 4,
            code::INT64 | code::UINT64 | code::DOUBLE => 8,
            code::STRING => counted_end(bytes)?,
            code::OPAQUE => 1 + counted_end(bytes.get(1..).ok_or(JsonError::Damaged)?)?,
            _ => return Err(JsonError::Damaged),
        };
        let bytes = bytes.get(..len).ok_or(JsonError::Damaged)?;
        Ok(JsonRef { kind, bytes })
    }

    pub fn is_array(self) -> bool {
        matches!(self.kind, code::SMALL_ARRAY | code::LARGE_ARRAY)
    }
    pub fn is_object(self) -> bool {
        matches!(self.kind, code::SMALL_OBJECT | code::LARGE_OBJECT)
    }
    pub fn is_null(self) -> bool {
        self.kind == code::LITERAL && self.bytes == [code::NULL]
    }
    /// Where the value stands, to tell a value that was found twice from equal values.
    pub fn address(self) -> (usize, usize) {
        (self.bytes.as_ptr() as usize, self.bytes.len())
    }
    /// The bytes of the value as a document.
    pub fn document_len(self) -> usize {
        1 + self.bytes.len()
    }
    /// Appends the value as a document.
    pub fn write(self, out: &mut Vec<u8>) {
        out.reserve(self.document_len());
        out.push(self.kind);
        out.extend_from_slice(self.bytes);
    }
    pub fn to_vec(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    pub fn container(self) -> Result<Option<Container<'a>>> {
        if !self.is_array() && !self.is_object() {
            return Ok(None);
        }
        let large = matches!(self.kind, code::LARGE_ARRAY | code::LARGE_OBJECT);
        let object = self.is_object();
        let count = number(self.bytes, 0, large)?;
        let container = Container { large, object, count, bytes: self.bytes };
        if container.entries_end()? > self.bytes.len() {
            return Err(JsonError::Damaged);
        }
        Ok(Some(container))
    }

    pub fn view(self) -> Result<View<'a>> {
        if let Some(container) = self.container()? {
            return Ok(if container.object {
                View::Object(container)
            } else {
                View::Array(container)
            });
        }
        let bytes = self.bytes;
        Ok(match self.kind {
            code::LITERAL => match bytes {
                [code::NULL] => View::Null,
                [code::TRUE] => View::Bool(true),
                [code::FALSE] => View::Bool(false),
                _ => return Err(JsonError::Damaged),
            },
            code::INT16 => View::Int(i16::from_le_bytes(take(bytes, 0)?).into()),
            code::UINT16 => View::UInt(u16::from_le_bytes(take(bytes, 0)?).into()),
            code::INT32 => View::Int(i32::from_le_bytes(take(bytes, 0)?).into()),
            code::UINT32 => View::UInt(u32::from_le_bytes(take(bytes, 0)?).into()),
            code::INT64 => View::Int(i64::from_le_bytes(take(bytes, 0)?)),
            code::UINT64 => View::UInt(u64::from_le_bytes(take(bytes, 0)?)),
            code::DOUBLE => View::Double(f64::from_le_bytes(take(bytes, 0)?)),
            code::STRING => {
                let (_, used) = length(bytes)?;
                let text = bytes.get(used..).ok_or(JsonError::Damaged)?;
                View::String(std::str::from_utf8(text).map_err(|_| JsonError::Damaged)?)
            }
            code::OPAQUE => {
                let (kind, rest) = bytes.split_first().ok_or(JsonError::Damaged)?;
                let (_, used) = length(rest)?;
                opaque(*kind, rest.get(used..).ok_or(JsonError::Damaged)?)?
            }
            _ => return Err(JsonError::Damaged),
        })
    }

    /// The value as a tree of one level.
    pub fn open(self) -> Result<Json<'a>> {
        Ok(match self.view()? {
            View::Null => Json::Null,
            View::Bool(v) => Json::Bool(v),
            View::Int(v) => Json::Int(v),
            View::UInt(v) => Json::UInt(v),
            View::Double(v) => Json::Double(v),
            View::Decimal(v) => Json::Decimal(v),
            View::String(v) => Json::text(v),
            View::Date(v) => Json::Date(v),
            View::Time(v) => Json::Time(v),
            View::DateTime(v) => Json::DateTime(v),
            View::Opaque(kind, bytes) => Json::Opaque(kind, Cow::Borrowed(bytes)),
            View::Array(c) => {
                let elements = (0..c.len()).map(|n| Ok(Json::Raw(c.value(n)?)));
                Json::Array(elements.collect::<Result<_>>()?)
            }
            View::Object(c) => {
                let member = |n| Ok((Cow::Borrowed(c.key(n)?), Json::Raw(c.value(n)?)));
                let members = (0..c.len()).map(member).collect::<Result<_>>()?;
                Json::Object(Object { members })
            }
        })
    }

    /// The number of values in this one, itself included.
    pub fn nodes(self) -> Result<usize> {
        self.nodes_within(super::MAX_DEPTH + 1)
    }
    fn nodes_within(self, limit: usize) -> Result<usize> {
        let Some(container) = self.container()? else { return Ok(1) };
        let limit = limit.checked_sub(1).ok_or(JsonError::TooDeep)?;
        let mut nodes = 1;
        for value in container.values() {
            nodes += value?.nodes_within(limit)?;
        }
        Ok(nodes)
    }

    /// The number of values on the longest way from here to a scalar or an empty container.
    pub fn depth(self) -> Result<usize> {
        self.depth_within(super::MAX_DEPTH + 1)
    }
    fn depth_within(self, limit: usize) -> Result<usize> {
        let Some(container) = self.container()? else { return Ok(1) };
        let mut most = 0;
        let limit = limit.checked_sub(1).ok_or(JsonError::TooDeep)?;
        for n in 0..container.len() {
            most = most.max(container.value(n)?.depth_within(limit)?);
        }
        Ok(1 + most)
    }
}

impl<'a> Container<'a> {
    pub fn len(&self) -> usize {
        self.count
    }
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    pub fn is_object(&self) -> bool {
        self.object
    }
    /// Bytes of a count, a size or an offset.
    fn width(&self) -> usize {
        if self.large { 4 } else { 2 }
    }
    fn key_entries(&self) -> usize {
        2 * self.width()
    }
    fn value_entries(&self) -> Result<usize> {
        let keys = if self.object { self.count.checked_mul(self.width() + 2) } else { Some(0) };
        keys.and_then(|keys| keys.checked_add(self.key_entries())).ok_or(JsonError::Damaged)
    }
    /// Where the entries end and names and values begin.
    pub(super) fn entries_end(&self) -> Result<usize> {
        let values = self.count.checked_mul(self.width() + 1).ok_or(JsonError::Damaged)?;
        self.value_entries()?.checked_add(values).ok_or(JsonError::Damaged)
    }
    /// Where the name of member `n` stands.
    pub(super) fn key_range(&self, n: usize) -> Result<(usize, usize)> {
        if n >= self.count || !self.object {
            return Err(JsonError::Damaged);
        }
        let entry = self.key_entries() + n * (self.width() + 2);
        let at = number(self.bytes, entry, self.large)?;
        Ok((at, at + number(self.bytes, entry + self.width(), false)?))
    }
    pub(super) fn key_bytes(&self, n: usize) -> Result<&'a [u8]> {
        let (from, to) = self.key_range(n)?;
        self.bytes.get(from..to).ok_or(JsonError::Damaged)
    }
    /// The name of member `n`.
    pub fn key(&self, n: usize) -> Result<&'a str> {
        std::str::from_utf8(self.key_bytes(n)?).map_err(|_| JsonError::Damaged)
    }
    /// The value of member or element `n`, and where it stands unless it is in its entry.
    pub(super) fn value_at(&self, n: usize) -> Result<(JsonRef<'a>, Option<usize>)> {
        if n >= self.count {
            return Err(JsonError::Damaged);
        }
        let entry = self.value_entries()? + n * (self.width() + 1);
        let kind = *self.bytes.get(entry).ok_or(JsonError::Damaged)?;
        let inline = match kind {
            code::LITERAL | code::INT16 | code::UINT16 => true,
            code::INT32 | code::UINT32 => self.large,
            _ => false,
        };
        let rest = self.bytes.get(entry + 1..).ok_or(JsonError::Damaged)?;
        if inline {
            return Ok((JsonRef::at_start(kind, rest)?, None));
        }
        let at = number(rest, 0, self.large)?;
        if at < self.entries_end()? {
            return Err(JsonError::Damaged);
        }
        let value = self.bytes.get(at..).ok_or(JsonError::Damaged)?;
        Ok((JsonRef::at_start(kind, value)?, Some(at)))
    }
    /// The value of member or element `n`.
    pub fn value(&self, n: usize) -> Result<JsonRef<'a>> {
        Ok(self.value_at(n)?.0)
    }
    /// The values in their order.
    pub fn values(self) -> impl Iterator<Item = Result<JsonRef<'a>>> {
        (0..self.count).map(move |n| self.value(n))
    }
    /// The member of this name.
    pub fn find(&self, name: &str) -> Result<Option<JsonRef<'a>>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match key_order(self.key_bytes(middle)?, name.as_bytes()) {
                Ordering::Equal => return Ok(Some(self.value(middle)?)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }
}

fn opaque(kind: u8, bytes: &[u8]) -> Result<View<'_>> {
    let packed = || Ok(i64::from_le_bytes(bytes.try_into().map_err(|_| JsonError::Damaged)?));
    Ok(match kind {
        field::DECIMAL => View::Decimal(decimal(bytes)?),
        field::DATE => View::Date(unpack_date_time(packed()?)?.date()),
        field::DATETIME | field::TIMESTAMP => View::DateTime(unpack_date_time(packed()?)?),
        field::TIME => View::Time(unpack_time(packed()?)?),
        _ => View::Opaque(kind, bytes),
    })
}

fn decimal(bytes: &[u8]) -> Result<Decimal> {
    let [precision, scale, packed @ ..] = bytes else { return Err(JsonError::Damaged) };
    let fits = (1..=crate::decimal::MAX_PRECISION).contains(precision)
        && *scale <= crate::decimal::MAX_SCALE.min(*precision)
        && packed.len() == packed_len(*precision, *scale)
        && is_packed(*precision, *scale, packed);
    if !fits {
        return Err(JsonError::Damaged);
    }
    Ok(Decimal::unpack(*precision, *scale, packed))
}

/// MySQL's packed DATETIME: year * 13 + month, day (5 bits), hour (5), minute (6), second (6),
/// microseconds (24). A DATE is midnight.
pub fn pack_date_time(at: DateTime) -> i64 {
    let date = at.date();
    let day = (i64::from(date.year()) * 13 + i64::from(date.month())) << 5 | i64::from(date.day());
    let clock = i64::from(at.hour()) << 12 | i64::from(at.minute()) << 6 | i64::from(at.second());
    (day << 17 | clock) << 24 | i64::from(at.microsecond())
}

fn unpack_date_time(packed: i64) -> Result<DateTime> {
    let us = (packed & 0xff_ffff) as u32;
    let clock = packed >> 24 & 0x1_ffff;
    let day = packed >> 41;
    let month = day >> 5;
    let part = |n: i64| u8::try_from(n).map_err(|_| JsonError::Damaged);
    let year = u16::try_from(month / 13).map_err(|_| JsonError::Damaged)?;
    let date = Date::new(year, part(month % 13)?, part(day & 31)?).ok_or(JsonError::Damaged)?;
    let (hour, minute, second) = (part(clock >> 12)?, part(clock >> 6 & 63)?, part(clock & 63)?);
    DateTime::new(date, hour, minute, second, us).ok_or(JsonError::Damaged)
}

/// MySQL's packed TIME: hours, minutes (6 bits), seconds (6), microseconds (24). A negative time is
/// negated as a whole.
pub fn pack_time(time: Time) -> i64 {
    let clock =
        i64::from(time.hours()) << 12 | i64::from(time.minutes()) << 6 | i64::from(time.seconds());
    let packed = clock << 24 | i64::from(time.microseconds());
    if time.is_negative() { -packed } else { packed }
}

fn unpack_time(packed: i64) -> Result<Time> {
    let size = packed.checked_abs().ok_or(JsonError::Damaged)?;
    let (clock, us) = (size >> 24, (size & 0xff_ffff) as u32);
    let hours = u32::try_from(clock >> 12).map_err(|_| JsonError::Damaged)?;
    let (minutes, seconds) = ((clock >> 6 & 63) as u32, (clock & 63) as u32);
    if hours > 838 || minutes > 59 || seconds > 59 || us > 999_999 {
        return Err(JsonError::Damaged);
    }
    Time::new(packed < 0, hours, minutes, seconds, us).ok_or(JsonError::Damaged)
}

/// The SQL value of a scalar; `None` for arrays, objects, null and opaque values.
pub fn scalar<'a>(view: &View<'a>) -> Option<Value<'a>> {
    Some(match view {
        View::Bool(v) => Value::Int(i64::from(*v)),
        View::Int(v) => Value::Int(*v),
        View::UInt(v) => Value::UInt(*v),
        View::Double(v) => Value::Double(*v),
        View::Decimal(v) => Value::Decimal(*v),
        View::String(v) => Value::text(v),
        View::Date(v) => Value::Date(*v),
        View::Time(v) => Value::Time(*v),
        View::DateTime(v) => Value::DateTime(*v),
        View::Null | View::Opaque(..) | View::Array(_) | View::Object(_) => return None,
    })
}
