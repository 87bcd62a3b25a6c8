//! Temporary files: rows that outgrow the memory of their statement.
//!
//! **TEMP-1** A file loses its name before the first byte is written to it, so the system frees it
//! whatever ends the statement or the process.
//! **TEMP-2** All files together have at most `redolith_temporary_space` bytes: an append beyond
//! that fails with error 1114 and adds nothing. Without a bound, one statement could fill the disk
//! that the data and the redo log are on.
//! **TEMP-3** A read gives the bytes that were appended, or an error: a block of the file ends with
//! a sum over the file's number, the block's number and the block's data, and is written once. What
//! is not a whole block yet waits in memory.
use crate::{Error, Result};
use redolith_disk::{Disk, File, OpenHow};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The space of all temporary files.
#[derive(Debug)]
pub struct TemporarySpace {
    dir: PathBuf,
    used: AtomicU64,
    limit: AtomicU64,
    files: AtomicU64,
    merge_passes: AtomicU64,
}

impl TemporarySpace {
    /// A space of files in a folder, which have at most `limit` bytes together.
    pub fn new(dir: &Path, limit: u64) -> Arc<TemporarySpace> {
        Arc::new(TemporarySpace {
            dir: dir.to_path_buf(),
            used: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            files: AtomicU64::new(0),
            merge_passes: AtomicU64::new(0),
        })
    }
    /// Sets how many bytes all files together may have.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }
    /// The number of files made since the start or [`Self::reset_counts`].
    pub fn files(&self) -> u64 {
        self.files.load(Relaxed)
    }
    /// The number of merges since the start or [`Self::reset_counts`].
    pub fn merge_passes(&self) -> u64 {
        self.merge_passes.load(Relaxed)
    }
    /// FLUSH STATUS.
    pub fn reset_counts(&self) {
        self.files.store(0, Relaxed);
        self.merge_passes.store(0, Relaxed);
    }
    /// Whether there may be temporary files.
    pub fn is_on(&self) -> bool {
        self.limit.load(Relaxed) > 0
    }
    /// The bytes of all files, with their sums.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }
    /// Counts a merge of the sorted parts of a file.
    pub(crate) fn count_merge(&self) {
        self.merge_passes.fetch_add(1, Relaxed);
    }

    /// Makes an empty file.
    pub fn create(self: &Arc<Self>, disk: &dyn Disk) -> Result<TemporaryFile> {
        let path = self.dir.join(format!("redolith-{:016x}", disk.random()));
        let made = disk.open(&path, OpenHow::create_new(false)).and_then(|file| {
            disk.remove(&path)?; // TEMP-1
            Ok(file)
        });
        let file = made.map_err(|e| failed(FileCall::Create, &path, &e))?;
        self.files.fetch_add(1, Relaxed);
        let (space, number) = (self.clone(), disk.random());
        Ok(TemporaryFile { space, path, file, number, len: 0, tail: Vec::new() })
    }
}

/// The bytes of a block in the file, and of the sum at its end.
const BLOCK: usize = 4096;
const SUM: usize = 4;
/// The bytes of data in a block.
const DATA: usize = BLOCK - SUM;
/// The most blocks that are written, or read, at a time.
const MOST_BLOCKS: usize = 16;

/// The bytes that the disk needs for so many bytes of data.
fn on_disk(len: u64) -> u64 {
    len + len.div_ceil(DATA as u64) * SUM as u64
}

/// A temporary file. Dropping it frees its space.
pub struct TemporaryFile {
    space: Arc<TemporarySpace>,
    path: PathBuf,
    file: Arc<dyn File>,
    /// The sums of no other file begin with this number.
    number: u64,
    len: u64,
    /// The bytes behind the last whole block.
    tail: Vec<u8>,
}

impl TemporaryFile {
    /// The number of bytes that were appended.
    pub fn size(&self) -> u64 {
        self.len
    }
    /// The space of which the file is a part.
    pub fn space(&self) -> &Arc<TemporarySpace> {
        &self.space
    }
    /// Appends bytes, all or none of them.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let (space, len) = (&self.space, self.len + bytes.len() as u64);
        let more = on_disk(len) - on_disk(self.len);
        let limit = space.limit.load(Relaxed);
        let fits = |used: u64| used.checked_add(more).filter(|sum| *sum <= limit);
        if space.used.fetch_update(Relaxed, Relaxed, fits).is_err() {
            return Err(Error::TemporarySpaceFull { limit });
        }
        match self.write_blocks(bytes) {
            Ok(written) if written > 0 => {
                self.tail.clear();
                self.tail.extend_from_slice(&bytes[written..]);
            }
            Ok(_) => self.tail.extend_from_slice(bytes),
            Err(e) => {
                space.used.fetch_sub(more, Relaxed);
                return Err(failed(FileCall::Write, &self.path, &e));
            }
        }
        self.len = len;
        Ok(())
    }
    /// Writes the whole blocks that the tail and these bytes fill. Returns the number of these
    /// bytes that are in them.
    fn write_blocks(&self, bytes: &[u8]) -> io::Result<usize> {
        let (first, mut tail, mut rest) = (self.len / DATA as u64, &self.tail[..], bytes);
        let blocks = (tail.len() + bytes.len()) / DATA;
        let mut out = Vec::with_capacity(blocks.min(MOST_BLOCKS) * BLOCK);
        for n in 0..blocks {
            let start = out.len();
            let of_rest = rest.split_off(..DATA - tail.len()).expect("the block is filled");
            out.extend_from_slice(std::mem::take(&mut tail));
            out.extend_from_slice(of_rest);
            let sum = self.sum(first + n as u64, &out[start..]);
            out.extend_from_slice(&sum);
            if out.len() == MOST_BLOCKS * BLOCK || n + 1 == blocks {
                let written = n + 1 - out.len() / BLOCK;
                self.file.write_at(&out, (first + written as u64) * BLOCK as u64)?;
                out.clear();
            }
        }
        Ok(bytes.len() - rest.len())
    }
    fn sum(&self, block: u64, data: &[u8]) -> [u8; SUM] {
        let numbers = (u128::from(self.number) << 64 | u128::from(block)).to_le_bytes();
        crc32c::crc32c_append(crc32c::crc32c(&numbers), data).to_le_bytes()
    }
    /// Changes a byte of the file, as a bad disk does.
    #[cfg(test)]
    pub(crate) fn spoil(&self, at: u64) {
        let mut byte = [0];
        self.file.read_at(&mut byte, at).unwrap();
        self.file.write_at(&[byte[0] ^ 0x10], at).unwrap();
    }
    /// Reads bytes that were appended.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let tail_at = self.len - self.tail.len() as u64;
        let in_blocks = tail_at.saturating_sub(at).min(bytes.len() as u64);
        let (of_blocks, of_tail) = bytes.split_at_mut(in_blocks as usize);
        if !of_tail.is_empty() {
            let skip = (at + in_blocks - tail_at) as usize;
            let tail = self.tail.get(skip..).and_then(|tail| tail.get(..of_tail.len()));
            of_tail.copy_from_slice(tail.ok_or_else(|| self.is_damaged())?);
        }
        self.read_blocks(at, of_blocks)
    }
    fn read_blocks(&self, at: u64, mut to: &mut [u8]) -> Result<()> {
        let (mut block_no, mut skip) = (at / DATA as u64, (at % DATA as u64) as usize);
        // To read one row needs no allocation.
        let (mut one, mut many) = ([0; BLOCK], Vec::new());
        while !to.is_empty() {
            let stored = match (skip + to.len()).div_ceil(DATA).min(MOST_BLOCKS) {
                1 => &mut one[..],
                blocks => {
                    many.resize(blocks * BLOCK, 0);
                    &mut many[..]
                }
            };
            let read = self.file.read_at(stored, block_no * BLOCK as u64);
            read.map_err(|e| failed(FileCall::Read, &self.path, &e))?;
            for block in stored.as_chunks::<BLOCK>().0 {
                let (data, sum) = block.split_at(DATA);
                if sum != self.sum(block_no, data) {
                    return Err(self.is_damaged());
                }
                let wanted = &data[skip..];
                let wanted = &wanted[..wanted.len().min(to.len())];
                let (now, later) = to.split_at_mut(wanted.len());
                now.copy_from_slice(wanted);
                (to, skip, block_no) = (later, 0, block_no + 1);
            }
        }
        Ok(())
    }
    fn is_damaged(&self) -> Error {
        let e = io::Error::other("it does not hold what was written");
        failed(FileCall::Read, &self.path, &e)
    }
}
impl Drop for TemporaryFile {
    fn drop(&mut self) {
        self.space.used.fetch_sub(on_disk(self.len), Relaxed);
    }
}

/// A call to the system for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCall {
    /// The file is made.
    Create,
    /// Bytes are appended.
    Write,
    /// Bytes are read.
    Read,
}
impl std::fmt::Display for FileCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FileCall::Create => "making",
            FileCall::Write => "writing",
            FileCall::Read => "reading",
        })
    }
}

fn failed(call: FileCall, path: &Path, e: &io::Error) -> Error {
    Error::TemporaryFile { call, file: path.display().to_string(), why: e.to_string() }
}

/// Reads the records of a part of a temporary file, one after the other. A record is its length, as
/// a u32, and its bytes.
pub struct Records {
    at: u64,
    end: u64,
    /// Bytes of the file, of which those before `used` were given out.
    bytes: Vec<u8>,
    used: usize,
    /// The bytes that are read at a time.
    step: usize,
}

/// The bytes of a record's length.
const LEN: usize = 4;

/// Begins a record at the end of `to`. Returns the place for [`end_record`].
pub fn begin_record(to: &mut Vec<u8>) -> usize {
    to.extend_from_slice(&[0; LEN]);
    to.len()
}
/// Ends the record whose bytes begin at `start`. Returns false, and takes the record away, if it is
/// longer than a u32 tells.
pub fn end_record(to: &mut Vec<u8>, start: usize) -> bool {
    let Ok(len) = u32::try_from(to.len() - start) else {
        to.truncate(start - LEN);
        return false;
    };
    to[start - LEN..start].copy_from_slice(&len.to_le_bytes());
    true
}
/// Takes the record at the front of `bytes`, unless its end is missing.
pub fn take_record<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (len, rest) = bytes.split_first_chunk::<LEN>()?;
    let (record, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *bytes = rest;
    Some(record)
}

impl Records {
    /// Reads the records between two places, about `step` bytes at a time.
    pub fn new(from: u64, end: u64, step: usize) -> Records {
        Records { at: from, end, bytes: Vec::new(), used: 0, step }
    }
    /// The bytes that wait in memory.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
    }
    /// Brings the next record to memory, for [`Records::current`]. Returns false after the last.
    pub fn advance(&mut self, file: &TemporaryFile) -> Result<bool> {
        self.used += self.current().map_or(0, |record| LEN + record.len());
        while self.current().is_none() {
            let left = self.end - self.at;
            if left == 0 {
                return Ok(false);
            }
            self.bytes.drain(..self.used);
            self.used = 0;
            let (len, before) = (self.bytes.first_chunk::<LEN>(), self.bytes.len());
            // A record that is longer than a step is read whole.
            let record = len.map_or(0, |len| LEN + u32::from_le_bytes(*len) as usize);
            let more = self.step.max(record.saturating_sub(before)).min(left as usize);
            self.bytes.reserve_exact(more);
            self.bytes.resize(before + more, 0);
            file.read(self.at, &mut self.bytes[before..])?;
            self.at += more as u64;
        }
        Ok(true)
    }
    /// Whether the next [`Records::advance`] reads from the file.
    pub(crate) fn reads_next(&self) -> bool {
        let mut rest = &self.bytes[self.used..];
        _ = take_record(&mut rest);
        self.at < self.end && take_record(&mut rest).is_none()
    }
    /// The record that the last [`Records::advance`] has brought.
    pub fn current(&self) -> Option<&[u8]> {
        take_record(&mut &self.bytes[self.used..])
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use redolith_disk::SimDisk;

    fn space(limit: u64) -> Arc<TemporarySpace> {
        TemporarySpace::new(Path::new("/tmp"), limit)
    }

    /// Tests TEMP-1 and TEMP-2.
    #[test]
    fn files_are_bounded_and_nameless() {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/tmp")).unwrap();
        let space = space(1008);
        assert!(space.is_on());
        let mut a = space.create(&disk).unwrap();
        assert_eq!(disk.list(Path::new("/tmp")).unwrap(), Vec::<String>::new());
        a.append(&[7; 600]).unwrap();
        let mut b = space.create(&disk).unwrap();
        let full = b.append(&[8; 401]).unwrap_err();
        assert!(matches!(full, Error::TemporarySpaceFull { limit: 1008 }), "{full}");
        b.append(&[8; 400]).unwrap();
        assert_eq!((space.used(), b.size()), (1008, 400));
        let mut bytes = [0; 100];
        a.read(500, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 100]);
        drop(a);
        assert_eq!(space.used(), 404);
        b.append(&[8; 600]).unwrap();
        drop(b);
        assert_eq!(space.used(), 0);
    }

    /// The bytes of a file whose pieces end at all distances from the ends of blocks.
    fn numbered(file: &mut TemporaryFile) -> Vec<u8> {
        let mut all = Vec::new();
        for len in [1, DATA - 2, 1, 1, DATA, 0, 3 * DATA - 1, 5, 40 * DATA + 7, 100] {
            let piece: Vec<u8> = (0..len).map(|n| ((all.len() + n) % 251) as u8).collect();
            file.append(&piece).unwrap();
            all.extend(piece);
        }
        all
    }

    /// Tests TEMP-3: what was appended comes back, from any place and in any length.
    #[test]
    fn bytes_come_back() {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/tmp")).unwrap();
        let mut file = space(1 << 30).create(&disk).unwrap();
        let all = numbered(&mut file);
        assert_eq!(file.size(), all.len() as u64);
        for at in [0, 1, DATA - 1, DATA, DATA + 1, 5 * DATA, all.len() - 101, all.len()] {
            for len in [0, 1, 2, DATA - 1, DATA, DATA + 1, 20 * DATA, all.len()] {
                let mut bytes = vec![0; len];
                match (file.read(at as u64, &mut bytes), all.get(at..at + len)) {
                    (Ok(()), wanted) => assert_eq!(wanted, Some(&bytes[..]), "{at} {len}"),
                    (Err(e), wanted) => assert!(wanted.is_none(), "{at} {len}: {e}"),
                }
            }
        }
    }

    /// Tests TEMP-3: a block that changed, that is another file's, or that is another block of the
    /// same file is an error, and the others are read.
    #[test]
    fn damage_is_told() {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/tmp")).unwrap();
        let space = space(1 << 30);
        let (mut file, mut other) = (space.create(&disk).unwrap(), space.create(&disk).unwrap());
        let all = numbered(&mut file);
        assert_eq!(numbered(&mut other), all);
        let check = |wrong: usize| {
            for block in 0..all.len() / DATA {
                let mut bytes = [0; DATA];
                let read = file.read((block * DATA) as u64, &mut bytes);
                assert_eq!(read.is_err(), block == wrong, "block {block}, wrong is {wrong}");
            }
        };
        for at in (0..BLOCK).step_by(61).chain(DATA..BLOCK) {
            file.spoil((2 * BLOCK + at) as u64);
            check(2);
            file.spoil((2 * BLOCK + at) as u64);
        }
        check(usize::MAX);
        let mut block = [0; BLOCK];
        other.file.read_at(&mut block, 3 * BLOCK as u64).unwrap();
        file.file.write_at(&block, 3 * BLOCK as u64).unwrap();
        check(3);
        file.file.read_at(&mut block, 2 * BLOCK as u64).unwrap();
        file.file.write_at(&block, 3 * BLOCK as u64).unwrap();
        check(3);
        file.file.set_len(3 * BLOCK as u64).unwrap();
        let mut bytes = [0; 1];
        assert!(file.read(3 * DATA as u64, &mut bytes).is_err(), "the rest is lost");
        file.read(3 * DATA as u64 - 1, &mut bytes).unwrap();
    }

    #[test]
    fn records_come_back() {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/tmp")).unwrap();
        let mut file = space(1 << 30).create(&disk).unwrap();
        let lengths = [0, 1, 3, 4, 5, 99, 100, 101, 5000, 0, 0, 250];
        let mut bytes = vec![9; 17];
        for (n, len) in lengths.iter().enumerate() {
            let start = begin_record(&mut bytes);
            bytes.resize(start + len, n as u8);
            assert!(end_record(&mut bytes, start));
        }
        file.append(&bytes).unwrap();
        for step in [1, 4, 7, 100, 1 << 20] {
            let mut records = Records::new(17, file.size(), step);
            for (n, len) in lengths.iter().enumerate() {
                assert!(records.advance(&file).unwrap(), "{step} {n}");
                assert_eq!(records.current().unwrap(), vec![n as u8; *len], "{step} {n}");
            }
            assert!(!records.advance(&file).unwrap() && !records.advance(&file).unwrap());
            assert!(records.memory() < 6000 + 2 * step);
        }
    }
}
