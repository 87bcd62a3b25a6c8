//! Temporary files: rows that outgrow the memory of their statement.
//!
//! **TEMP-1** A file loses its name before the first byte is written to it, so the system frees it
//! whatever ends the statement or the process.
//! **TEMP-2** All files together have at most `redolith_temporary_space` bytes: an append beyond
//! that fails with error 1114 and adds nothing. Without a bound, one statement could fill the disk
//! that the data and the redo log are on.
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
    /// The bytes of all files.
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
        Ok(TemporaryFile { space: self.clone(), path, file, len: 0 })
    }
}

/// A temporary file. Dropping it frees its space.
pub struct TemporaryFile {
    space: Arc<TemporarySpace>,
    path: PathBuf,
    file: Arc<dyn File>,
    len: u64,
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
        let (space, more) = (&self.space, bytes.len() as u64);
        let limit = space.limit.load(Relaxed);
        let fits = |used: u64| used.checked_add(more).filter(|sum| *sum <= limit);
        if space.used.fetch_update(Relaxed, Relaxed, fits).is_err() {
            return Err(Error::TemporarySpaceFull { limit });
        }
        if let Err(e) = self.file.write_at(bytes, self.len) {
            space.used.fetch_sub(more, Relaxed);
            return Err(failed(FileCall::Write, &self.path, &e));
        }
        self.len += more;
        Ok(())
    }
    /// Changes a byte, as a bad disk does.
    #[cfg(test)]
    pub(crate) fn spoil(&self, at: u64) {
        let mut byte = [0];
        self.read(at, &mut byte).unwrap();
        self.file.write_at(&[byte[0] ^ 0x10], at).unwrap();
    }
    /// The error for a file that does not give back what was appended.
    pub fn is_damaged(&self) -> Error {
        let e = io::Error::other("it does not hold what was written");
        failed(FileCall::Read, &self.path, &e)
    }
    /// Reads bytes that were appended.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_at(bytes, at).map_err(|e| failed(FileCall::Read, &self.path, &e))
    }
}
impl Drop for TemporaryFile {
    fn drop(&mut self) {
        self.space.used.fetch_sub(self.len, Relaxed);
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
        let space = space(1000);
        assert!(space.is_on());
        let mut a = space.create(&disk).unwrap();
        assert_eq!(disk.list(Path::new("/tmp")).unwrap(), Vec::<String>::new());
        a.append(&[7; 600]).unwrap();
        let mut b = space.create(&disk).unwrap();
        let full = b.append(&[8; 401]).unwrap_err();
        assert!(matches!(full, Error::TemporarySpaceFull { limit: 1000 }), "{full}");
        b.append(&[8; 400]).unwrap();
        assert_eq!((space.used(), b.size()), (1000, 400));
        let mut bytes = [0; 100];
        a.read(500, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 100]);
        drop(a);
        assert_eq!(space.used(), 400);
        b.append(&[8; 600]).unwrap();
        drop(b);
        assert_eq!(space.used(), 0);
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
