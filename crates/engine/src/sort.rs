//! Sorts rows by their keys, in memory and, if the rows are many, in a temporary file.
//!
//! The rows are sorted in memory. If they outgrow their memory, they are written to a file as one
//! sorted part, and the memory takes the next rows. At the end the parts and the rows in memory are
//! merged. Rows with equal keys stay in the order in which they came.
//!
//! - SORT-2: parts are merged only with as many of their own level, which become one part of the
//!   next level. So a row is written as often as there are levels, a logarithm of the number of
//!   parts. The parts of a level came after those of the levels above it.
use crate::runtime::{Runtime, give_way};
use crate::temporary::{
    Records, TemporaryFile, TemporarySpace, begin_record, end_record, take_record,
};
use crate::{Error, Result};
use redolith_disk::Disk;
use std::ops::Range;
use std::sync::Arc;

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
    /// The place of the row that [`Sorter::advance`] brings next from memory.
    next: usize,
    /// The sorted parts that outgrew the memory.
    spilled: Option<Box<Spilled>>,
}
/// Rows in temporary files.
#[derive(Default)]
struct Spilled {
    /// The parts, in a file for each level (SORT-2). Level 0 has what was written from memory.
    levels: Vec<Level>,
    /// The most bytes that the rows in memory had when a part was written. The readers of the parts
    /// take about as many.
    memory: usize,
    /// The parts that are merged at present, those with the earliest rows first.
    parts: Vec<Reader>,
    /// A heap of the parts with a row at hand, the least first. The number behind the last part is
    /// that of the rows in memory.
    heap: Vec<Head>,
}
/// Sorted parts in one file, one behind the other, as records: the length of the key, the key, the
/// row.
#[derive(Default)]
struct Level {
    /// None before the first part.
    file: Option<TemporaryFile>,
    written: Vec<Part>,
}
/// Reads a part.
struct Reader {
    level: usize,
    records: Records,
}
/// A sorted part: where it ends, and the bytes of its longest record.
struct Part {
    end: u64,
    longest: usize,
}
/// The row that is next in a part.
#[derive(Clone, Copy)]
struct Head {
    head: u64,
    part: usize,
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

/// The most rows, and about the most bytes, that are sorted at a time: some milliseconds' work.
const RUN: usize = 16 << 10;
const RUN_BYTES: usize = 1 << 20;

/// The bytes that are written to a file at a time.
const WRITE_BYTES: usize = 64 << 10;
/// The fewest and the most bytes of each part that are read at a time.
const READ_BYTES: (usize, usize) = (4 << 10, 256 << 10);
/// So many parts of one level are merged at a time.
const MOST_PARTS: usize = 64;

/// So many bytes are sorted beside the workers: to sort them, or to enlarge their buffer, takes
/// long.
const MUCH: usize = 4 << 20;

impl Sorter {
    /// A sorter of no rows yet.
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
    /// Adds a row. `write` appends the row's bytes to the buffer that it gets.
    #[inline]
    pub fn push(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        if self.rows.is_empty() {
            // Most sorts have many rows. Reserved room saves copies while the buffer is small.
            self.bytes.reserve(FIRST_BYTES);
            self.rows.reserve(FIRST_ROWS);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let row = self.bytes.len();
        write(&mut self.bytes);
        let (Ok(key_len), Ok(row_len)) =
            (u32::try_from(key.len()), u32::try_from(self.bytes.len() - row))
        else {
            return Err(Error::SortedRowTooLong);
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
    /// The memory that the sorter holds.
    pub fn memory(&self) -> usize {
        let merged = self.spilled.iter().flat_map(|s| &s.parts).map(|p| p.records.memory());
        self.bytes.capacity() + self.rows.capacity() * size_of::<Sorted>() + merged.sum::<usize>()
    }
    /// The bytes of the rows in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.rows.len() * size_of::<Sorted>()
    }
    /// The memory that [`Self::sort`] needs while it runs.
    pub fn memory_to_sort(&self) -> usize {
        if self.rows.len() > RUN / 64 { self.rows.len() * size_of::<Sorted>() } else { 0 }
    }
    /// The memory that [`Self::spill`] needs while it runs.
    pub fn memory_to_spill(&self) -> usize {
        let merges = self.spilled.as_ref().filter(|s| s.levels[0].written.len() + 1 == MOST_PARTS);
        // The part that is written then has its longest row, too.
        let longest = |s| self.rows.iter().map(|r| r.row().end - r.start).max().unwrap_or(0) + s;
        let merged = merges.map_or(0, |s| longest(s.memory_to_merge() + READ_BYTES.1));
        self.memory_to_sort().max(merged) + WRITE_BYTES
    }
    /// The memory of the rows while [`Self::advance`] merges them.
    pub fn memory_to_merge(&self) -> usize {
        self.memory() + self.spilled.as_ref().map_or(0, |s| s.memory_to_merge())
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
    pub async fn sort<E: From<Error>>(
        &mut self,
        runtime: &dyn Runtime,
        stop: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        if self.memory() >= MUCH {
            runtime.leave_worker();
        }
        let bytes = &self.bytes;
        let of_a_row = bytes.len() / self.rows.len().max(1) + 1;
        let run = (RUN_BYTES / of_a_row).clamp(RUN / 64, RUN);
        for rows in self.rows.chunks_mut(run) {
            rows.sort_unstable_by(|a, b| Sorter::compare(bytes, a, b));
            if rows.len() == run {
                give_way(runtime).await;
                stop()?;
            }
        }
        let mut width = run;
        while width < self.rows.len() {
            let mut merged = Vec::with_capacity(self.rows.len());
            for pair in self.rows.chunks(2 * width) {
                let (mut left, mut right) = pair.split_at(width.min(pair.len()));
                while let (Some(a), Some(b)) = (left.first(), right.first()) {
                    let from =
                        if Sorter::compare(bytes, a, b).is_lt() { &mut left } else { &mut right };
                    merged.extend(from.split_off_first().cloned());
                    if merged.len().is_multiple_of(run) {
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
    /// Gives back the room that no row takes.
    pub fn shrink(&mut self) {
        if self.rows.is_empty() {
            (self.bytes, self.rows) = (Vec::new(), Vec::new());
        }
    }
    /// Whether a part of the rows is in a file.
    pub fn is_in_file(&self) -> bool {
        self.spilled.is_some()
    }
    /// Writes the rows in memory to a file, as a sorted part. `stop` as for [`Self::sort`].
    pub async fn spill<E: From<Error>>(
        &mut self,
        space: &Arc<TemporarySpace>,
        disk: &dyn Disk,
        runtime: &dyn Runtime,
        stop: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        self.cut_to_limit();
        self.sort(runtime, &stop).await?;
        runtime.leave_worker();
        let bytes = self.bytes();
        let spilled = self.spilled.get_or_insert_default();
        spilled.memory = spilled.memory.max(bytes);
        let to = spilled.level(0);
        let (file, mut part) = (to.file(space, disk)?, PartWriter::default());
        for row in &self.rows {
            let (key, row) = (&self.bytes[row.key()], &self.bytes[row.row()]);
            if part.push(key, row, file)? {
                give_way(runtime).await;
                stop()?;
            }
        }
        part.end(to)?;
        self.rows.clear();
        self.bytes.clear();
        let mut level = 0;
        while self.spilled.as_ref().is_some_and(|s| s.levels[level].written.len() == MOST_PARTS) {
            self.merge_level(level, space, disk, runtime, &stop).await?;
            level += 1;
        }
        Ok(())
    }
    /// Merges all parts of a level to one of the next level (SORT-2). No row is in memory.
    async fn merge_level<E: From<Error>>(
        &mut self,
        level: usize,
        space: &Arc<TemporarySpace>,
        disk: &dyn Disk,
        runtime: &dyn Runtime,
        stop: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let none = Memory { bytes: &[], rows: &[] };
        let mut left = self.limit.unwrap_or(usize::MAX);
        let spilled = self.spilled.as_mut().expect("there are parts");
        let mut to = std::mem::take(spilled.level(level + 1));
        let (file, mut part) = (to.file(space, disk)?, PartWriter::default());
        spilled.begin_merge(level..level + 1, &none)?;
        while let Some(top) = spilled.heap.first().copied().filter(|_| left > 0) {
            left -= 1;
            let (key, row) = spilled.row(top.part, 0, &none);
            if part.push(key, row, file)? {
                give_way(runtime).await;
                stop()?;
            }
            spilled.follow(top.part, &mut 0, &none)?;
        }
        part.end(&mut to)?;
        spilled.levels[level + 1] = to;
        (spilled.parts, spilled.heap) = Default::default();
        // To close a large file takes long.
        runtime.leave_worker();
        spilled.levels[level] = Level::default();
        Ok(())
    }
    /// Goes to the next row, the first at first, for [`Self::row`]. The rows are sorted, and no
    /// more are added. Returns false after the last.
    pub fn advance(&mut self) -> Result<bool> {
        let Sorter { bytes, rows, next, spilled, .. } = self;
        let Some(spilled) = spilled else {
            *next += 1;
            return Ok(*next <= rows.len());
        };
        let memory = Memory { bytes, rows };
        if spilled.parts.is_empty() {
            spilled.begin_merge(0..spilled.levels.len(), &memory)?;
        } else if let Some(top) = spilled.heap.first().copied() {
            spilled.follow(top.part, next, &memory)?;
        }
        Ok(!spilled.heap.is_empty())
    }
    /// Whether the next [`Sorter::advance`] reads from the file.
    pub(crate) fn reads_next(&self) -> bool {
        let Some(spilled) = &self.spilled else { return false };
        match spilled.heap.first() {
            Some(top) => spilled.parts.get(top.part).is_some_and(|p| p.records.reads_next()),
            None => spilled.parts.is_empty(),
        }
    }
    /// The key and the bytes of the row that [`Self::advance`] has gone to.
    fn current(&self) -> (&[u8], &[u8]) {
        let memory = Memory { bytes: &self.bytes, rows: &self.rows };
        match &self.spilled {
            None => memory.row(self.next - 1),
            Some(spilled) => spilled.row(spilled.heap[0].part, self.next, &memory),
        }
    }
    /// The key of the row that [`Self::advance`] has gone to.
    pub fn key(&self) -> &[u8] {
        self.current().0
    }
    /// The bytes of the row that [`Self::advance`] has gone to.
    pub fn row(&self) -> &[u8] {
        self.current().1
    }
}

/// The rows in memory.
struct Memory<'m> {
    bytes: &'m [u8],
    rows: &'m [Sorted],
}
impl<'m> Memory<'m> {
    fn row(&self, n: usize) -> (&'m [u8], &'m [u8]) {
        let row = &self.rows[n];
        (&self.bytes[row.key()], &self.bytes[row.row()])
    }
}

/// Writes one sorted part.
#[derive(Default)]
struct PartWriter {
    out: Vec<u8>,
    longest: usize,
}
impl PartWriter {
    /// Adds a row. Returns true if this has written to the file.
    fn push(&mut self, key: &[u8], row: &[u8], file: &mut TemporaryFile) -> Result<bool> {
        let start = begin_record(&mut self.out);
        self.out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.out.extend_from_slice(key);
        self.out.extend_from_slice(row);
        self.longest = self.longest.max(self.out.len() - start);
        if !end_record(&mut self.out, start) {
            return Err(Error::SortedRowTooLong);
        }
        let writes = self.out.len() >= WRITE_BYTES;
        if writes {
            file.append(&self.out)?;
            self.out.clear();
        }
        Ok(writes)
    }
    /// Ends the part, in the file of `to`.
    fn end(self, to: &mut Level) -> Result<()> {
        let file = to.file.as_mut().expect("the part is written to it");
        file.append(&self.out)?;
        to.written.push(Part { end: file.size(), longest: self.longest });
        Ok(())
    }
}

impl Level {
    fn file(&mut self, space: &Arc<TemporarySpace>, disk: &dyn Disk) -> Result<&mut TemporaryFile> {
        Ok(match &mut self.file {
            Some(file) => file,
            none => none.insert(space.create(disk)?),
        })
    }
}

impl Spilled {
    fn level(&mut self, level: usize) -> &mut Level {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Level::default);
        }
        &mut self.levels[level]
    }
    fn written(&self) -> impl Iterator<Item = &Part> {
        self.levels.iter().flat_map(|level| &level.written)
    }
    /// The row that is next in a part.
    fn row<'s>(&'s self, part: usize, next: usize, memory: &Memory<'s>) -> (&'s [u8], &'s [u8]) {
        let Some(part) = self.parts.get(part) else { return memory.row(next) };
        let mut row = part.records.current().expect("a part in the heap has a row");
        let key = take_record(&mut row).expect("the key is a record, too");
        (key, row)
    }
    /// The bytes of each part that are read at a time.
    fn step(&self) -> usize {
        (self.memory / self.written().count().max(1)).clamp(READ_BYTES.0, READ_BYTES.1)
    }
    /// The memory of the readers of all parts: each has a whole record, however long it is.
    fn memory_to_merge(&self) -> usize {
        let step = self.step();
        self.written().map(|part| step + part.longest).sum()
    }
    /// Begins to merge all parts of these levels.
    fn begin_merge(&mut self, levels: Range<usize>, memory: &Memory<'_>) -> Result<()> {
        let step = self.step();
        for (level, of) in
            self.levels.iter().enumerate().skip(levels.start).take(levels.len()).rev()
        {
            let mut from = 0;
            for part in &of.written {
                self.parts.push(Reader { level, records: Records::new(from, part.end, step) });
                from = part.end;
            }
        }
        if let Some(file) = self.levels.iter().find_map(|level| level.file.as_ref()) {
            file.space().count_merge();
        }
        for part in 0..self.parts.len() {
            if self.read_next(part)? {
                self.push(part, 0, memory);
            }
        }
        if !memory.rows.is_empty() {
            self.push(self.parts.len(), 0, memory);
        }
        Ok(())
    }
    /// Reads the next row of a part. Returns false after its last row.
    fn read_next(&mut self, part: usize) -> Result<bool> {
        let Reader { level, records } = &mut self.parts[part];
        records.advance(self.levels[*level].file.as_ref().expect("a part is in a file"))
    }
    /// Goes on to the next row of the part on top of the heap.
    fn follow(&mut self, part: usize, next: &mut usize, memory: &Memory<'_>) -> Result<()> {
        let more = if part < self.parts.len() {
            self.read_next(part)?
        } else {
            *next += 1;
            *next < memory.rows.len()
        };
        if more {
            self.heap[0].head = Sorter::head(self.row(part, *next, memory).0);
        } else {
            self.heap.swap_remove(0);
        }
        self.sink(*next, memory);
        Ok(())
    }
    fn push(&mut self, part: usize, next: usize, memory: &Memory<'_>) {
        let head = Sorter::head(self.row(part, next, memory).0);
        self.heap.push(Head { head, part });
        let mut n = self.heap.len() - 1;
        while n > 0 && self.is_before(n, (n - 1) / 2, next, memory) {
            self.heap.swap(n, (n - 1) / 2);
            n = (n - 1) / 2;
        }
    }
    /// Brings the top of the heap to its place.
    fn sink(&mut self, next: usize, memory: &Memory<'_>) {
        let mut n = 0;
        loop {
            let mut least = n;
            for child in [2 * n + 1, 2 * n + 2] {
                if child < self.heap.len() && self.is_before(child, least, next, memory) {
                    least = child;
                }
            }
            if least == n {
                return;
            }
            self.heap.swap(n, least);
            n = least;
        }
    }
    fn is_before(&self, a: usize, b: usize, next: usize, memory: &Memory<'_>) -> bool {
        let (a, b) = (self.heap[a], self.heap[b]);
        let key = |part| self.row(part, next, memory).0;
        a.head
            .cmp(&b.head)
            .then_with(|| key(a.part).cmp(key(b.part)))
            // Earlier parts have earlier rows.
            .then(a.part.cmp(&b.part))
            .is_lt()
    }
}

#[cfg(all(test, not(model)))]
mod tests;
