//! Rows and keys as bytes, so that many of them are kept without an allocation for each.
use crate::error::Result;
use hashbrown::HashTable;
use redolith_types::decimal::{MAX_PRECISION, packed_len};
use redolith_types::{Date, DateTime, Decimal, Time, Value};
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hasher};

/// Appends a tag byte and a value, for [`read`].
pub fn write(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0),
        Value::Int(v) => put(1, &v.to_le_bytes(), out),
        Value::UInt(v) => put(2, &v.to_le_bytes(), out),
        Value::Float(v) => put(3, &v.to_le_bytes(), out),
        Value::Double(v) => put(4, &v.to_le_bytes(), out),
        Value::Decimal(v) => {
            put(5, &[v.scale()], out);
            let start = out.len();
            out.resize(start + packed_len(MAX_PRECISION, v.scale()), 0);
            v.pack(MAX_PRECISION, v.scale(), &mut out[start..]);
        }
        Value::Bytes(v) => {
            put(6, &(v.len() as u32).to_le_bytes(), out);
            out.extend_from_slice(v);
        }
        Value::Date(v) => put(7, &v.packed().to_le_bytes(), out),
        Value::Time(v) => put(8, &v.us().to_le_bytes(), out),
        Value::DateTime(v) => put(9, &v.packed().to_le_bytes(), out),
        Value::Json(v) => {
            put(10, &(v.len() as u32).to_le_bytes(), out);
            out.extend_from_slice(v);
        }
    }
}
fn put(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

/// Takes the value at the front of `bytes`, which [`write`] has written.
pub fn read<'b>(bytes: &mut &'b [u8]) -> Value<'b> {
    let tag = take::<1>(bytes)[0];
    match tag {
        0 => Value::Null,
        1 => Value::Int(i64::from_le_bytes(take(bytes))),
        2 => Value::UInt(u64::from_le_bytes(take(bytes))),
        3 => Value::Float(f32::from_le_bytes(take(bytes))),
        4 => Value::Double(f64::from_le_bytes(take(bytes))),
        5 => {
            let scale = take::<1>(bytes)[0];
            let (packed, rest) = bytes.split_at(packed_len(MAX_PRECISION, scale));
            *bytes = rest;
            Value::Decimal(Decimal::unpack(MAX_PRECISION, scale, packed))
        }
        6 => Value::bytes(take_counted(bytes)),
        7 => Value::Date(Date::from_packed(u32::from_le_bytes(take(bytes)))),
        8 => Value::Time(Time::from_us(i64::from_le_bytes(take(bytes))).unwrap_or_default()),
        9 => Value::DateTime(DateTime::from_packed(u64::from_le_bytes(take(bytes)))),
        _ => Value::bytes_as_json(take_counted(bytes)),
    }
}
fn take_counted<'b>(bytes: &mut &'b [u8]) -> &'b [u8] {
    let len = u32::from_le_bytes(take(bytes)) as usize;
    let (front, rest) = bytes.split_at(len);
    *bytes = rest;
    front
}
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (front, rest) = bytes.split_first_chunk().expect("written whole");
    *bytes = rest;
    *front
}

/// The values of a row, in their order.
pub type RowValues<'b> = SmallVec<[Value<'b>; 8]>;

/// All values of `bytes`, which [`write`] has written.
pub fn read_row(mut bytes: &[u8]) -> RowValues<'_> {
    let mut values = RowValues::new();
    while !bytes.is_empty() {
        values.push(read(&mut bytes));
    }
    values
}
/// As [`read_row`], in the place of the values that are there.
pub fn read_row_into<'b>(mut bytes: &'b [u8], values: &mut Vec<Value<'b>>) {
    values.clear();
    while !bytes.is_empty() {
        values.push(read(&mut bytes));
    }
}

/// Leaves out the parts of `bytes` that `keeps` refuses, in place. It gets the number of a part,
/// the number that the part would get, and the part.
pub fn retain_parts(
    bytes: &mut Vec<u8>,
    ends: &mut Vec<usize>,
    mut keeps: impl FnMut(usize, usize, &[u8]) -> Result<bool>,
) -> Result<()> {
    let (mut start, mut kept, mut kept_bytes) = (0, 0, 0);
    for n in 0..ends.len() {
        let end = ends[n];
        if keeps(n, kept, &bytes[start..end])? {
            bytes.copy_within(start..end, kept_bytes);
            kept_bytes += end - start;
            ends[kept] = kept_bytes;
            kept += 1;
        }
        start = end;
    }
    bytes.truncate(kept_bytes);
    ends.truncate(kept);
    Ok(())
}

/// The bytes by which a key may be longer than expected.
const LONGER: usize = 64;

/// Distinct byte strings, numbered in the order in which they came.
#[derive(Default)]
pub struct KeySet {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    table: HashTable<u32>,
    hasher: hashbrown::DefaultHashBuilder,
}

impl KeySet {
    fn hash(hasher: &hashbrown::DefaultHashBuilder, key: &[u8]) -> u64 {
        let mut h = hasher.build_hasher();
        h.write(key);
        h.finish()
    }
    pub fn key(&self, n: usize) -> &[u8] {
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        &self.bytes[start..self.ends[n]]
    }
    /// The key's number, if the key is in the set.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        let hash = KeySet::hash(&self.hasher, key);
        self.table.find(hash, |n| self.key(*n as usize) == key).map(|n| *n as usize)
    }
    pub fn contains(&self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }
    /// Returns the key's number, and whether the key is new.
    pub fn insert(&mut self, key: &[u8]) -> (usize, bool) {
        let hash = KeySet::hash(&self.hasher, key);
        if let Some(n) = self.table.find(hash, |n| self.key(*n as usize) == key) {
            return (*n as usize, false);
        }
        let n = self.ends.len() as u32;
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        let KeySet { bytes, ends, table, hasher } = self;
        table.insert_unique(hash, n, |n| {
            let n = *n as usize;
            let start = if n == 0 { 0 } else { ends[n - 1] };
            KeySet::hash(hasher, &bytes[start..ends[n]])
        });
        (n as usize, true)
    }
    /// Leaves out the keys whose numbers `keeps` refuses, in place: no memory is taken or given
    /// back. The others stay in their order and get new numbers. After an error the set is of no
    /// use.
    pub fn retain(&mut self, mut keeps: impl FnMut(usize) -> Result<bool>) -> Result<()> {
        let KeySet { bytes, ends, table, hasher } = self;
        table.clear();
        retain_parts(bytes, ends, |n, new, part| {
            let kept = keeps(n)?;
            if kept {
                let hash = KeySet::hash(hasher, part);
                table.insert_unique(hash, new as u32, |_| unreachable!("the table had more keys"));
            }
            Ok(kept)
        })
    }
    /// How much more memory the next key may take at once, if it is no longer than twice the
    /// others.
    pub fn growth(&self) -> usize {
        let KeySet { bytes, ends, table, .. } = self;
        let next = 2 * bytes.len() / ends.len().max(1) + LONGER;
        let grows = |more: usize, left: usize, bytes: usize| if left < more { bytes } else { 0 };
        grows(next, bytes.capacity() - bytes.len(), bytes.capacity().max(next))
            + grows(1, ends.capacity() - ends.len(), ends.capacity() * size_of::<usize>())
            + grows(1, table.capacity() - table.len(), table.capacity() * 5)
    }
    pub fn memory(&self) -> usize {
        // Each key takes its end in `ends`, and its number and a byte in the table.
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.table.capacity() * 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back() {
        let values = [
            Value::Null,
            Value::Int(-5),
            Value::UInt(u64::MAX),
            Value::Float(1.5),
            Value::Double(-0.25),
            Value::Decimal(Decimal::parse(b"-123456789012345678901234567890.123").unwrap()),
            Value::text("héllo"),
            Value::Date(Date::new(2024, 2, 29).unwrap()),
            Value::Time(Time::from_us(-5_000_001).unwrap()),
            Value::DateTime(Date::new(2024, 2, 29).unwrap().at(1)),
            Value::bytes_as_json(&[4, 1]),
        ];
        let mut bytes = Vec::new();
        values.iter().for_each(|v| write(v, &mut bytes));
        let mut rest = &bytes[..];
        for v in &values {
            assert_eq!(&read(&mut rest), v);
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn a_key_set_numbers_different_keys() {
        let mut set = KeySet::default();
        assert_eq!(set.insert(b"a"), (0, true));
        assert_eq!(set.insert(b""), (1, true));
        assert_eq!(set.insert(b"a"), (0, false));
        for i in 0..1000u32 {
            assert_eq!(set.insert(&i.to_be_bytes()), (2 + i as usize, true));
        }
        assert_eq!((set.ends.len(), set.key(1)), (1002, &b""[..]));
    }

    #[test]
    fn a_key_set_leaves_out_keys_in_place() {
        let mut set = KeySet::default();
        for i in 0..1000u32 {
            set.insert(&i.to_be_bytes());
        }
        let memory = set.memory();
        set.retain(|n| Ok(n % 10 == 3)).unwrap();
        assert_eq!((set.ends.len(), set.memory()), (100, memory));
        for i in 0..1000u32 {
            let number = (i % 10 == 3).then_some(i as usize / 10);
            assert_eq!(set.find(&i.to_be_bytes()), number, "{i}");
        }
        assert_eq!(set.insert(&3u32.to_be_bytes()), (0, false));
        assert_eq!(set.insert(&4u32.to_be_bytes()), (100, true));
        assert!(set.retain(|_| Err(crate::error::SqlError::internal("stop"))).is_err());
    }
}
