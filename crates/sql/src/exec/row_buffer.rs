//! Keeps rows and keys in memory: in one buffer for all their bytes, without an allocation per row.
use super::pace::MUCH;
use crate::error::{Result, SqlError};
use hashbrown::HashTable;
use redolith_engine::runtime::{Runtime, give_way};
use redolith_types::decimal::{MAX_PRECISION, packed_len};
use redolith_types::{Date, DateTime, Decimal, Time, Value};
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

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
        6 => {
            let len = u32::from_le_bytes(take(bytes)) as usize;
            let (text, rest) = bytes.split_at(len);
            *bytes = rest;
            Value::bytes(text)
        }
        7 => Value::Date(Date::from_packed(u32::from_le_bytes(take(bytes)))),
        8 => Value::Time(Time::from_us(i64::from_le_bytes(take(bytes))).unwrap_or_default()),
        _ => Value::DateTime(DateTime::from_packed(u64::from_le_bytes(take(bytes)))),
    }
}
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (front, rest) = bytes.split_first_chunk().expect("written whole");
    *bytes = rest;
    *front
}

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
    pub fn memory(&self) -> usize {
        // Each key takes its end in `ends`, and its number and a byte in the table.
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.table.capacity() * 5
    }
}

/// Sorts rows by their keys. With a limit, only the first rows are kept.
#[derive(Default)]
pub struct Sorter {
    bytes: Vec<u8>,
    rows: Vec<Sorted>,
    /// The number of rows that are wanted.
    limit: Option<usize>,
    /// A row whose key is not below this key cannot be among the first `limit` rows.
    threshold: Vec<u8>,
    /// With a limit: the greatest rows are dropped when the rows have this many bytes.
    cut_at: usize,
}
#[derive(Clone)]
struct Sorted {
    /// The first eight bytes of the key, which decide most comparisons.
    head: u64,
    /// The place of the key; the row follows the key.
    start: usize,
    key_len: u32,
    row_len: u32,
}
impl Sorted {
    fn key(&self) -> Range<usize> {
        self.start..self.start + self.key_len as usize
    }
    fn row(&self) -> Range<usize> {
        self.key().end..self.key().end + self.row_len as usize
    }
}

/// With a limit, this many rows beyond the limit are collected before the greatest are dropped.
const SLACK_ROWS: usize = 1024;
/// If rows are long, about this many bytes are collected before the greatest rows are dropped.
const SLACK_BYTES: usize = 256 << 10;

/// The room reserved for the first rows.
const FIRST_BYTES: usize = 8 << 10;
const FIRST_ROWS: usize = 32;

/// The number of rows sorted at a time: about a millisecond's work.
const RUN: usize = 16 << 10;

impl Sorter {
    pub fn new(limit: Option<usize>) -> Sorter {
        Sorter { limit, ..Sorter::default() }
    }
    fn head(key: &[u8]) -> u64 {
        let mut head = [0; 8];
        let n = key.len().min(8);
        head[..n].copy_from_slice(&key[..n]);
        u64::from_be_bytes(head)
    }
    /// True if a row with this key may be among the wanted rows.
    pub fn wants(&self, key: &[u8]) -> bool {
        self.threshold.is_empty() || key < &self.threshold[..]
    }
    pub fn push(&mut self, key: &[u8], values: &[Value<'_>]) -> Result<()> {
        if self.rows.is_empty() {
            // Most sorts have many rows. Reserved room saves copies while the buffer is small.
            self.bytes.reserve(FIRST_BYTES);
            self.rows.reserve(FIRST_ROWS);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let row = self.bytes.len();
        values.iter().for_each(|v| write(v, &mut self.bytes));
        let (Ok(key_len), Ok(row_len)) =
            (u32::try_from(key.len()), u32::try_from(self.bytes.len() - row))
        else {
            return Err(SqlError::new(
                1038,
                "Out of sort memory: a row is longer than 4294967295 bytes",
            ));
        };
        self.rows.push(Sorted { head: Sorter::head(key), start, key_len, row_len });
        if let Some(limit) = self.limit
            && (self.rows.len() >= limit.saturating_mul(2).max(limit.saturating_add(SLACK_ROWS))
                || self.rows.len() > limit && self.bytes.len() >= self.cut_at.max(SLACK_BYTES))
        {
            self.cut(limit);
            self.cut_at = 2 * self.bytes.len();
        }
        Ok(())
    }
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.rows.capacity() * size_of::<Sorted>()
    }
    /// The memory that [`Self::sort`] needs while it runs.
    pub fn memory_to_sort(&self) -> usize {
        if self.rows.len() > RUN { self.rows.len() * size_of::<Sorted>() } else { 0 }
    }
    /// Drops the rows beyond the limit, when no more rows come.
    pub fn cut_to_limit(&mut self) {
        if let Some(limit) = self.limit.filter(|limit| *limit < self.rows.len()) {
            self.cut(limit);
        }
    }
    fn compare(bytes: &[u8], a: &Sorted, b: &Sorted) -> std::cmp::Ordering {
        // Rows with equal keys stay in the order in which they came.
        a.head
            .cmp(&b.head)
            .then_with(|| bytes[a.key()].cmp(&bytes[b.key()]))
            .then(a.start.cmp(&b.start))
    }
    fn cut(&mut self, limit: usize) {
        if limit == 0 {
            self.rows.clear();
            self.bytes.clear();
            return;
        }
        let bytes = &self.bytes;
        self.rows.select_nth_unstable_by(limit - 1, |a, b| Sorter::compare(bytes, a, b));
        self.rows.truncate(limit);
        self.threshold = self.bytes[self.rows[limit - 1].key()].to_vec();
        self.rows.sort_unstable_by_key(|r| r.start);
        let mut kept = Vec::with_capacity(self.bytes.len() / 2);
        for r in &mut self.rows {
            let start = kept.len();
            kept.extend_from_slice(&self.bytes[r.start..r.row().end]);
            r.start = start;
        }
        self.bytes = kept;
    }
    /// Sorts runs of rows and merges them. After each run it gives way to other tasks and calls
    /// `stop`, whose error ends the sort. A sort of many bytes runs beside the workers, because
    /// comparisons of long, similar keys take long.
    pub async fn sort(
        &mut self,
        runtime: &dyn Runtime,
        stop: impl Fn() -> Result<()>,
    ) -> Result<()> {
        if self.memory() >= MUCH {
            runtime.leave_worker();
        }
        let bytes = &self.bytes;
        for run in self.rows.chunks_mut(RUN) {
            run.sort_unstable_by(|a, b| Sorter::compare(bytes, a, b));
            if run.len() == RUN {
                give_way(runtime).await;
                stop()?;
            }
        }
        let mut width = RUN;
        while width < self.rows.len() {
            let mut merged = Vec::with_capacity(self.rows.len());
            for pair in self.rows.chunks(2 * width) {
                let (mut left, mut right) = pair.split_at(width.min(pair.len()));
                while let (Some(a), Some(b)) = (left.first(), right.first()) {
                    let from =
                        if Sorter::compare(bytes, a, b).is_lt() { &mut left } else { &mut right };
                    merged.extend(from.split_off_first().cloned());
                    if merged.len().is_multiple_of(RUN) {
                        give_way(runtime).await;
                        stop()?;
                    }
                }
                merged.extend_from_slice(left);
                merged.extend_from_slice(right);
            }
            self.rows = merged;
            width *= 2;
        }
        Ok(())
    }
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// The values of a row.
    pub fn row(&self, n: usize) -> SmallVec<[Value<'_>; 8]> {
        let mut bytes = &self.bytes[self.rows[n].row()];
        let mut values = SmallVec::new();
        while !bytes.is_empty() {
            values.push(read(&mut bytes));
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_disk::RealDisk;
    use redolith_engine::runtime::{Threads, block_on};
    use std::sync::Arc;

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
    fn a_sorter_with_a_limit_keeps_the_least() {
        let runtime = Threads::new(Arc::new(RealDisk::new()));
        for limit in [None, Some(0), Some(1), Some(7), Some(5000)] {
            let mut s = Sorter::new(limit);
            let mut x = 1u32;
            let mut all = Vec::new();
            for _ in 0..100_000 {
                x = x.wrapping_mul(1664525).wrapping_add(1013904223);
                let key = (x >> 8).to_be_bytes();
                all.push(x >> 8);
                if s.wants(&key) {
                    s.push(&key, &[Value::UInt((x >> 8) as u64)]).unwrap();
                }
            }
            block_on(s.sort(&*runtime, || Ok(()))).unwrap();
            all.sort_unstable();
            let n = limit.unwrap_or(all.len()).min(s.len());
            assert!(n >= limit.unwrap_or(100_000).min(100_000));
            for (i, wanted) in all[..n].iter().enumerate() {
                assert_eq!(s.row(i)[0], Value::UInt(*wanted as u64));
            }
        }
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
}
