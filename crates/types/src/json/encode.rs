//! Writes the binary form. A first walk measures the containers, because a container is small if it
//! has less than 64 KiB as a whole; a second walk writes.
use super::binary::{JsonRef, code, field, pack_date_time, pack_time};
use super::{Json, JsonError, MAX_DEPTH, MAX_KEY, Object, Result};
use crate::decimal::{MAX_PRECISION, packed_len};
use crate::{Date, Decimal};

/// The bytes of the document, without its type.
pub fn size(json: &Json<'_>) -> Result<usize> {
    Ok(Plan::default().measure(json, 0)?.bytes)
}

/// Appends the document.
pub fn encode(json: &Json<'_>, out: &mut Vec<u8>) -> Result<()> {
    let mut plan = Plan::default();
    let size = plan.measure(json, 0)?;
    out.reserve(size.bytes + 1);
    let at = out.len();
    out.push(0);
    let mut writer = Writer { large: &plan.large, next: 0 };
    out[at] = writer.write(json, out)?;
    Ok(())
}

/// The type of each container, in the order of the walk.
#[derive(Default)]
struct Plan {
    large: Vec<bool>,
}

#[derive(Clone, Copy)]
struct Size {
    /// The bytes of the value outside of its entry.
    bytes: usize,
    fits: Fits,
}

/// The containers in whose entries a value has place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fits {
    Any,
    Large,
    None,
}

fn varlen(mut len: usize) -> usize {
    let mut bytes = 1;
    while len >= 0x80 {
        len >>= 7;
        bytes += 1;
    }
    bytes
}

fn fits(kind: u8) -> Fits {
    match kind {
        code::LITERAL | code::INT16 | code::UINT16 => Fits::Any,
        code::INT32 | code::UINT32 => Fits::Large,
        _ => Fits::None,
    }
}

fn int_kind(v: i64) -> (u8, usize) {
    if i16::try_from(v).is_ok() {
        (code::INT16, 2)
    } else if i32::try_from(v).is_ok() {
        (code::INT32, 4)
    } else {
        (code::INT64, 8)
    }
}

fn uint_kind(v: u64) -> (u8, usize) {
    if u16::try_from(v).is_ok() {
        (code::UINT16, 2)
    } else if u32::try_from(v).is_ok() {
        (code::UINT32, 4)
    } else {
        (code::UINT64, 8)
    }
}

fn precision(decimal: &Decimal) -> u8 {
    (decimal.int_digits() + decimal.scale()).clamp(1, MAX_PRECISION)
}

impl Plan {
    fn measure(&mut self, json: &Json<'_>, depth: usize) -> Result<Size> {
        let of = |(kind, bytes)| Ok(Size { bytes, fits: fits(kind) });
        let counted = |len: usize, before| of((code::STRING, before + varlen(len) + len));
        match json {
            Json::Null | Json::Bool(_) => of((code::LITERAL, 1)),
            Json::Int(v) => of(int_kind(*v)),
            Json::UInt(v) => of(uint_kind(*v)),
            Json::Double(v) if !v.is_finite() => Err(JsonError::NotFinite),
            Json::Double(_) => of((code::DOUBLE, 8)),
            Json::Decimal(v) => counted(2 + packed_len(precision(v), v.scale()), 1),
            Json::String(text) => counted(text.len(), 0),
            Json::Date(_) | Json::Time(_) | Json::DateTime(_) => counted(8, 1),
            Json::Opaque(_, bytes) => counted(bytes.len(), 1),
            Json::Raw(raw) => {
                if raw.container()?.is_some() && depth + raw.depth()? > MAX_DEPTH {
                    check_depth(*raw, depth)?;
                }
                Ok(Size { bytes: raw.bytes.len(), fits: fits(raw.kind) })
            }
            Json::Array(elements) => self.container(elements.iter(), 0, 0, depth),
            Json::Object(object) => {
                let members = object.members();
                let mut names = 0usize;
                for (name, _) in members {
                    if name.len() > MAX_KEY {
                        return Err(JsonError::KeyTooLong);
                    }
                    names += name.len();
                }
                self.container(members.iter().map(|m| &m.1), members.len(), names, depth)
            }
        }
    }

    fn container<'j, 'a: 'j>(
        &mut self,
        values: impl Iterator<Item = &'j Json<'a>>,
        names: usize,
        name_bytes: usize,
        depth: usize,
    ) -> Result<Size> {
        if depth == MAX_DEPTH {
            return Err(JsonError::TooDeep);
        }
        let place = self.large.len();
        self.large.push(false);
        let (mut count, mut small, mut large) = (0usize, name_bytes, name_bytes);
        for value in values {
            let size = self.measure(value, depth + 1)?;
            count += 1;
            small += if size.fits == Fits::Any { 0 } else { size.bytes };
            large += if size.fits == Fits::None { size.bytes } else { 0 };
        }
        small += 4 + names * 4 + count * 3;
        large += 8 + names * 6 + count * 5;
        let is_large = small > 0xffff || count > 0xffff;
        self.large[place] = is_large;
        let bytes = if is_large { large } else { small };
        if bytes > u32::MAX as usize {
            return Err(JsonError::TooBig);
        }
        Ok(Size { bytes, fits: Fits::None })
    }
}

/// Refuses a value that goes deeper than the limit where `depth` containers are around it. (The
/// depth of a scalar in the innermost container does not count.)
fn check_depth(value: JsonRef<'_>, depth: usize) -> Result<()> {
    let Some(container) = value.container()? else { return Ok(()) };
    if depth == MAX_DEPTH {
        return Err(JsonError::TooDeep);
    }
    container.values().try_for_each(|value| check_depth(value?, depth + 1))
}

struct Writer<'p> {
    large: &'p [bool],
    next: usize,
}

fn put_len(mut len: usize, out: &mut Vec<u8>) {
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
}

fn put_opaque(kind: u8, bytes: &[u8], out: &mut Vec<u8>) -> u8 {
    out.push(kind);
    put_len(bytes.len(), out);
    out.extend_from_slice(bytes);
    code::OPAQUE
}

fn put_number(number: usize, large: bool, out: &mut [u8]) {
    if large {
        out[..4].copy_from_slice(&(number as u32).to_le_bytes());
    } else {
        out[..2].copy_from_slice(&(number as u16).to_le_bytes());
    }
}

fn put_date(date: Date, out: &mut Vec<u8>) -> u8 {
    put_opaque(field::DATE, &pack_date_time(date.at(0)).to_le_bytes(), out)
}

fn put_decimal(decimal: &Decimal, out: &mut Vec<u8>) -> u8 {
    let (precision, scale) = (precision(decimal), decimal.scale());
    let mut bytes = [0; 40];
    let len = packed_len(precision, scale);
    (bytes[0], bytes[1]) = (precision, scale);
    decimal.pack(precision, scale, &mut bytes[2..2 + len]);
    put_opaque(field::DECIMAL, &bytes[..2 + len], out)
}

impl Writer<'_> {
    /// Appends the value without its type, and returns the type.
    fn write(&mut self, json: &Json<'_>, out: &mut Vec<u8>) -> Result<u8> {
        let low = |kind: (u8, usize), bytes: [u8; 8], out: &mut Vec<u8>| {
            out.extend_from_slice(&bytes[..kind.1]);
            kind.0
        };
        Ok(match json {
            Json::Null => low((code::LITERAL, 1), [code::NULL; 8], out),
            Json::Bool(true) => low((code::LITERAL, 1), [code::TRUE; 8], out),
            Json::Bool(false) => low((code::LITERAL, 1), [code::FALSE; 8], out),
            Json::Int(v) => low(int_kind(*v), v.to_le_bytes(), out),
            Json::UInt(v) => low(uint_kind(*v), v.to_le_bytes(), out),
            Json::Double(v) => low((code::DOUBLE, 8), v.to_le_bytes(), out),
            Json::Decimal(v) => put_decimal(v, out),
            Json::String(text) => {
                put_len(text.len(), out);
                out.extend_from_slice(text.as_bytes());
                code::STRING
            }
            Json::Date(v) => put_date(*v, out),
            Json::Time(v) => put_opaque(field::TIME, &pack_time(*v).to_le_bytes(), out),
            Json::DateTime(v) => {
                put_opaque(field::DATETIME, &pack_date_time(*v).to_le_bytes(), out)
            }
            Json::Opaque(kind, bytes) => put_opaque(*kind, bytes, out),
            Json::Raw(raw) => {
                out.extend_from_slice(raw.bytes);
                raw.kind
            }
            Json::Array(elements) => {
                let large = self.opens()?;
                let start = header(elements.len(), 0, large, out);
                let entries = start + if large { 8 } else { 4 };
                self.values(elements.iter(), start, entries, large, out)?;
                if large { code::LARGE_ARRAY } else { code::SMALL_ARRAY }
            }
            Json::Object(object) => self.object(object, out)?,
        })
    }

    fn opens(&mut self) -> Result<bool> {
        let large = self.large.get(self.next).copied().ok_or(JsonError::Damaged)?;
        self.next += 1;
        Ok(large)
    }

    fn object(&mut self, object: &Object<'_>, out: &mut Vec<u8>) -> Result<u8> {
        let large = self.opens()?;
        let members = object.members();
        let width = if large { 4 } else { 2 };
        let start = header(members.len(), members.len(), large, out);
        let mut entry = start + 2 * width;
        for (name, _) in members {
            let at = out.len() - start;
            put_number(at, large, &mut out[entry..]);
            put_number(name.len(), false, &mut out[entry + width..]);
            entry += width + 2;
            out.extend_from_slice(name.as_bytes());
        }
        self.values(members.iter().map(|m| &m.1), start, entry, large, out)?;
        Ok(if large { code::LARGE_OBJECT } else { code::SMALL_OBJECT })
    }

    /// Appends the values of a container, fills in their entries, and at last the container's size.
    fn values<'j, 'a: 'j>(
        &mut self,
        values: impl Iterator<Item = &'j Json<'a>>,
        start: usize,
        mut entry: usize,
        large: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let width = if large { 4 } else { 2 };
        for value in values {
            let at = out.len();
            let kind = self.write(value, out)?;
            out[entry] = kind;
            match fits(kind) {
                Fits::None => put_number(at - start, large, &mut out[entry + 1..]),
                Fits::Large if !large => put_number(at - start, large, &mut out[entry + 1..]),
                _ => {
                    let mut bytes = [0; 4];
                    let len = out.len() - at;
                    bytes[..len].copy_from_slice(&out[at..]);
                    out.truncate(at);
                    out[entry + 1..entry + 1 + width].copy_from_slice(&bytes[..width]);
                }
            }
            entry += width + 1;
        }
        let size = out.len() - start;
        put_number(size, large, &mut out[start + width..]);
        Ok(())
    }
}

/// Appends the count and room for size and entries. Returns where the container starts.
fn header(count: usize, names: usize, large: bool, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    let width = if large { 4 } else { 2 };
    out.resize(start + 2 * width + names * (width + 2) + count * (width + 1), 0);
    put_number(count, large, &mut out[start..]);
    start
}
