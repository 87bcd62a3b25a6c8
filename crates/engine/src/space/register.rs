//! The register of files tells how old the file of each table space may be at most.
//!
//! A file that was replaced by an older copy of itself is whole: every page verifies, and nothing
//! in the file tells that commits are missing. So the file's header page bears a stamp that rises
//! while pages of the file are written, and the register tells which stamp each header has reached.
//! Stamps are LSNs.
//!
//! The register is `files.rdl`. It is written as a whole under another name and then renamed.
//! Little-endian:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `RDLFILES` |
//! | 8 | 4 | CRC-32C of all bytes from 12 on |
//! | 12 | 4 | format: 2, or 3 if the redo log protects pages against tearing (TORN-4) |
//! | 16 | 8 | log id |
//! | 24 | 8 | an LSN below which the log was durable |
//! | 32 | 8 | number of entries |
//! | 40 | 16 each | space u32, pages u32, stamp u64 |
//! | | | zeros to a multiple of 4096 bytes |
//!
//! - REGISTER-1: an entry is written only after the header with its stamp is durable in the file.
//!   So a header that has, as it lies in the file, a lower stamp than its entry comes from an older
//!   copy. A header after redo proves nothing, because the redo log may hold the stamp, too, and
//!   would make an old header look young. (In format 1 the stamp was durable in the redo log or in
//!   the header.)
//! - REGISTER-2: a stamp is taken after pages of the file were written, and stands for all writes
//!   until the next stamp. So a copy made since the last stamp (some seconds ago, and never before
//!   a clean stop) cannot be told from the file.
//! - REGISTER-3: no checkpoint passes changes of a file that was written in this run of the engine
//!   and has no stamp of this run in the register. Redo itself checks the changes after the
//!   checkpoint (RECORD-1). So a copy from before the run is always told from the file. Where the
//!   register cannot be written because the disk is full, where the disk cannot read a header
//!   (until it can, or finds it damaged), where a start finds the redo log full, and from the
//!   beginning of a stop until it has stamped all files, checkpoints do not wait for it: writers
//!   must not wait for a mere check for damage.
//! - REGISTER-4: while stamps are given, no file takes another file's place; nor does it before the
//!   checkpoint has passed the last stamp of the file that it replaces. A stamp is a change of the
//!   header page, and redo would otherwise look for that change in the new file.
//! - REGISTER-5: `pages` is a length that the file had when it was synced with the stamp; 0 if the
//!   length is not known. Files of tables never get shorter: a file with fewer pages was cut off.
//!   Otherwise a file that ends before one of its later bitmap pages would get a new bitmap there,
//!   and pages in use would be given again.
use crate::bytes::{u32_at, u64_at};
use crate::{Error, Lsn, Result, SpaceId};
use redolith_disk::{AlignedBuf, Disk, OpenHow};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

pub(crate) const FILE: &str = "files.rdl";
const MAGIC: &[u8; 8] = b"RDLFILES";
const FORMAT: u32 = 2;
/// As format 2, for a directory in which torn pages are rebuilt from the redo log. A program that
/// does not know format 3 cannot rebuild them, and must not start.
const TORN_PAGES_IN_REDO: u32 = 3;
/// The first format whose stamps are durable in the files themselves.
const IN_FILES: u32 = 2;
const HEAD: usize = 40;
const ENTRY: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Register {
    pub log_id: u64,
    pub durable: Lsn,
    pub entries: BTreeMap<SpaceId, Entry>,
    /// Whether the register was read from a file of format 1, whose stamps may be in the redo log
    /// alone (REGISTER-1).
    pub before_redo: bool,
    /// Whether pages may have been written, since the checkpoint, that only the redo log protects
    /// against tearing (TORN-4).
    pub redo_protects: bool,
    /// Why there is no register to read, where there has to be one.
    pub lost: Option<NoRegister>,
}
/// What the register says of a file: its header has at least this stamp, and it has at least so
/// many pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub stamp: u64,
    pub pages: u32,
}
/// Why there is no register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRegister {
    Missing,
    Damaged,
    /// The file belongs to another data directory.
    Foreign,
}
impl fmt::Display for NoRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoRegister::Missing => "is missing",
            NoRegister::Damaged => "is damaged",
            NoRegister::Foreign => "belongs to another data directory",
        })
    }
}

impl Register {
    fn encode(&self) -> AlignedBuf {
        let len = HEAD + self.entries.len() * ENTRY;
        let mut b = AlignedBuf::new(len.next_multiple_of(redolith_disk::ALIGN));
        b[..8].copy_from_slice(MAGIC);
        let format = if self.redo_protects { TORN_PAGES_IN_REDO } else { FORMAT };
        b[12..16].copy_from_slice(&format.to_le_bytes());
        b[16..24].copy_from_slice(&self.log_id.to_le_bytes());
        b[24..32].copy_from_slice(&self.durable.0.to_le_bytes());
        b[32..40].copy_from_slice(&(self.entries.len() as u64).to_le_bytes());
        for ((space, of), entry) in self.entries.iter().zip(b[HEAD..].chunks_exact_mut(ENTRY)) {
            entry[..4].copy_from_slice(&space.0.to_le_bytes());
            entry[4..8].copy_from_slice(&of.pages.to_le_bytes());
            entry[8..].copy_from_slice(&of.stamp.to_le_bytes());
        }
        let crc = crc32c::crc32c(&b[12..]);
        b[8..12].copy_from_slice(&crc.to_le_bytes());
        b
    }
    /// Returns `None` if these bytes are no register.
    fn decode(b: &[u8]) -> Result<Option<Register>> {
        if b.len() < HEAD || &b[..8] != MAGIC || u32_at(b, 8) != crc32c::crc32c(&b[12..]) {
            return Ok(None);
        }
        if !(1..=TORN_PAGES_IN_REDO).contains(&u32_at(b, 12)) {
            let why = format!(
                "{FILE} has format {}, this program reads formats 1 to {TORN_PAGES_IN_REDO}: open \
                    the data directory with the version that wrote it",
                u32_at(b, 12)
            );
            return Err(Error::Incompatible(why));
        }
        let count = u64_at(b, 32) as usize;
        let Some(entries) = count.checked_mul(ENTRY).and_then(|len| b[HEAD..].get(..len)) else {
            return Ok(None);
        };
        let entry =
            |e: &[u8]| (SpaceId(u32_at(e, 0)), Entry { pages: u32_at(e, 4), stamp: u64_at(e, 8) });
        Ok(Some(Register {
            log_id: u64_at(b, 16),
            durable: Lsn(u64_at(b, 24)),
            entries: entries.chunks_exact(ENTRY).map(entry).collect(),
            before_redo: u32_at(b, 12) < IN_FILES,
            redo_protects: u32_at(b, 12) == TORN_PAGES_IN_REDO,
            lost: None,
        }))
    }
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<std::result::Result<Register, NoRegister>> {
        let path = dir.join(FILE);
        if !disk.exists(&path) {
            return Ok(Err(NoRegister::Missing));
        }
        let read = || -> io::Result<AlignedBuf> {
            let file = disk.open(&path, OpenHow::existing(true))?;
            let len = file.len()? as usize / redolith_disk::ALIGN * redolith_disk::ALIGN;
            let mut b = AlignedBuf::new(redolith_disk::ALIGN);
            if len == 0 {
                return Ok(b);
            }
            file.read_at(&mut b, 0)?;
            // The register tells how long it is, so that no more is read of a file that is longer.
            let entries = usize::try_from(u64_at(&b, 32)).unwrap_or(usize::MAX);
            let whole = entries.saturating_mul(ENTRY).saturating_add(HEAD);
            if whole > redolith_disk::ALIGN && whole <= len {
                b = AlignedBuf::try_new(whole.next_multiple_of(redolith_disk::ALIGN))
                    .ok_or(io::ErrorKind::OutOfMemory)?;
                file.read_at(&mut b, 0)?;
            }
            Ok(b)
        };
        let advice = "Restore it; or move it away, and the start makes a new one, but cannot tell \
                      older copies of data files, nor rebuild torn pages from the redo log \
                      (innodb_doublewrite=REDO)";
        let bytes = read().map_err(|e| {
            Error::io_advised(format_args!("reading {}", path.display()), &e, advice)
        })?;
        Ok(Register::decode(&bytes)?.ok_or(NoRegister::Damaged))
    }
    /// Replaces the register on disk durably. After an error the old register is still there and
    /// still true.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let (path, making) = (dir.join(FILE), dir.join(format!("{FILE}.new")));
        let written = || -> io::Result<()> {
            let b = self.encode();
            let file = disk.open(&making, OpenHow::create(true))?;
            file.set_len(b.len() as u64)?;
            file.write_at(&b, 0)?;
            file.sync()?;
            disk.rename(&making, &path)?;
            disk.sync_dir(dir)
        };
        written().map_err(|e| Error::io(format_args!("writing {}", path.display()), &e))
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    fn sample(n: u32) -> Register {
        Register {
            log_id: 7,
            durable: Lsn(99),
            entries: (0..n)
                .map(|i| (SpaceId(i), Entry { stamp: 1000 + u64::from(i), pages: i / 2 }))
                .collect(),
            before_redo: false,
            redo_protects: n % 2 == 1,
            lost: None,
        }
    }

    /// No more is read than the register has.
    #[test]
    fn a_file_may_be_longer() {
        let (disk, dir) = (redolith_disk::SimDisk::new(1), Path::new("/d"));
        disk.create_dir_all(dir).unwrap();
        for n in [0, 3, 1000] {
            sample(n).write(&disk, dir).unwrap();
            let file = disk.open(&dir.join(FILE), OpenHow::existing(true)).unwrap();
            file.set_len(1 << 40).unwrap();
            assert_eq!(Register::read(&disk, dir).unwrap(), Ok(sample(n)));
            file.set_len(0).unwrap();
            assert_eq!(Register::read(&disk, dir).unwrap(), Err(NoRegister::Damaged));
        }
    }

    #[test]
    fn round_trip_and_damage() {
        for n in [0, 1, 253, 254, 1000] {
            let b = sample(n).encode();
            assert_eq!(Register::decode(&b).unwrap(), Some(sample(n)));
            for at in [0, 9, 13, 20, 33, 45, b.len() - 1] {
                let mut b = b.to_vec();
                b[at] ^= 1;
                assert_eq!(Register::decode(&b).unwrap(), None, "{n} {at}");
            }
            assert_eq!(Register::decode(&b[..b.len() - 4096]).unwrap(), None);
        }
    }

    #[test]
    fn a_lying_count_and_a_newer_format_are_refused() {
        let resealed = |at: usize, bytes: &[u8]| {
            let mut b = sample(3).encode().to_vec();
            b[at..at + bytes.len()].copy_from_slice(bytes);
            let crc = crc32c::crc32c(&b[12..]);
            b[8..12].copy_from_slice(&crc.to_le_bytes());
            Register::decode(&b)
        };
        assert_eq!(resealed(32, &u64::MAX.to_le_bytes()).unwrap(), None);
        assert!(resealed(12, &4u32.to_le_bytes()).unwrap_err().to_string().contains("format 4"));
        assert_eq!(
            resealed(12, &1u32.to_le_bytes()).unwrap(),
            Some(Register { before_redo: true, redo_protects: false, ..sample(3) })
        );
    }
}
