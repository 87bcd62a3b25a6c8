//! Events of large transactions, which wait for their commit in a file of their own.
//!
//! A transaction whose events outgrow memory writes them to a spill file beside the binary log. The
//! file is durable before the commit, whose record names it ([`crate::record::Record::Spilled`]).
//! The task copies the events into the binary log from there.
//!
//! SPILL-1: a spill file is removed when its transaction is not going to commit, or when a
//! checkpoint has passed the commit: until then a start may have to copy the events again. A start
//! removes the spill files that no record behind the checkpoint names.
//! SPILL-2: no event of a spill file is placed before the whole file has the length and the
//! checksum that the record names: placing gives an event a new checksum, also a damaged one.
use crate::files::{Place, sync_dir};
use redolith_binlog::{Header, MAX_EVENT_BYTES};
use redolith_disk::{Disk, File, OpenHow};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The bytes that are read at a time. A longer event is read as a whole.
const READ_BYTES: usize = 1 << 20;

/// What a record says of a spill file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spilled {
    /// The number in the file's name.
    pub number: u64,
    /// Its length.
    pub len: u64,
    /// The CRC-32C of its bytes.
    pub crc: u32,
}

impl Place {
    pub(crate) fn spill(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{}.spill.{number:016x}", self.base))
    }
}

/// A spill file of a transaction that runs. Dropping it removes the file.
pub struct Spill {
    disk: Arc<dyn Disk>,
    place: Place,
    number: u64,
    file: Arc<dyn File>,
    len: u64,
    kept: bool,
}
impl Spill {
    /// Makes a spill file.
    pub(crate) fn create(disk: Arc<dyn Disk>, place: Place) -> io::Result<Spill> {
        let number = disk.random();
        let file = disk.open(&place.spill(number), OpenHow::create_new(false))?;
        Ok(Spill { disk, place, number, file, len: 0, kept: false })
    }
    /// Appends whole events.
    pub fn append(&mut self, events: &[u8]) -> io::Result<()> {
        self.file.write_at(events, self.len)?;
        self.len += events.len() as u64;
        Ok(())
    }
    /// Removes all bytes from `len` on: a rollback to a savepoint. Fails if there are fewer.
    pub fn cut(&mut self, len: u64) -> io::Result<()> {
        if len > self.len {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "events are missing"));
        }
        if len < self.len {
            self.file.set_len(len)?;
            self.len = len;
        }
        Ok(())
    }
    /// Makes the file durable, for the commit's record.
    pub fn seal(&self) -> io::Result<Spilled> {
        self.file.sync()?;
        sync_dir(&*self.disk, &self.place.dir)?;
        let crc = checksum(&*self.file, self.len)?;
        Ok(Spilled { number: self.number, len: self.len, crc })
    }
    /// The transaction has committed: the file belongs to the binary log now.
    pub fn keep(mut self) {
        self.kept = true;
    }
}
impl Drop for Spill {
    fn drop(&mut self) {
        if !self.kept {
            // The next start removes a file that cannot be removed now.
            let _ = self.disk.remove(&self.place.spill(self.number));
        }
    }
}

/// The CRC-32C of the first `len` bytes of a file.
fn checksum(file: &dyn File, len: u64) -> io::Result<u32> {
    let (mut crc, mut at, mut bytes) = (0, 0, Vec::new());
    while at < len {
        bytes.resize((len - at).min(READ_BYTES as u64) as usize, 0);
        file.read_at(&mut bytes, at)?;
        crc = crc32c::crc32c_append(crc, &bytes);
        at += bytes.len() as u64;
    }
    Ok(crc)
}

/// Reads the events of a spill file in pieces of whole events.
pub(crate) struct SpillReader {
    path: PathBuf,
    file: Arc<dyn File>,
    spilled: Spilled,
    at: u64,
    crc: u32,
}
impl SpillReader {
    /// Opens a spill file that is as the record says (SPILL-2). An error names the file; one of the
    /// kind `InvalidData` says that the file is damaged.
    pub(crate) fn open(
        disk: &dyn Disk,
        place: &Place,
        spilled: Spilled,
    ) -> io::Result<SpillReader> {
        let path = place.spill(spilled.number);
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let file = disk.open(&path, OpenHow::existing(false))?;
        let reader = SpillReader { path: path.clone(), file, spilled, at: 0, crc: 0 };
        let len = reader.file.len().map_err(named)?;
        // A write that failed may have left more.
        if len < spilled.len {
            return Err(reader.wrong(&format!("it has {len} bytes, and had {}", spilled.len)));
        }
        match checksum(&*reader.file, spilled.len).map_err(named)? == spilled.crc {
            true => Ok(reader),
            false => Err(reader.wrong("its checksum is wrong")),
        }
    }
    fn wrong(&self, why: &str) -> io::Error {
        let why = format!("{}: {why}", self.path.display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    }
    /// The next events, until [`SpillReader::taken`] says that they were used; `None` at the end.
    /// An error of the kind `InvalidData` says that the file is damaged.
    pub(crate) fn next(&self) -> io::Result<Option<Vec<u8>>> {
        let left = self.spilled.len - self.at;
        if left == 0 {
            let whole = self.crc == self.spilled.crc;
            return if whole { Ok(None) } else { Err(self.wrong("its checksum is wrong")) };
        }
        let mut bytes = vec![0; READ_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX))];
        self.file.read_at(&mut bytes, self.at)?;
        let mut end = 0;
        loop {
            let rest = &bytes[end..];
            let Ok(header) = Header::decode(rest) else { break };
            let len = header.len as usize;
            let may_be = (Header::LEN..=MAX_EVENT_BYTES).contains(&len);
            if !may_be || len as u64 > left - end as u64 {
                return Err(self
                    .wrong(&format!("the event at {} claims {len} bytes", self.at + end as u64)));
            }
            if len > rest.len() {
                if end == 0 {
                    bytes.resize(len, 0);
                    self.file.read_at(&mut bytes, self.at)?;
                    end = len;
                }
                break;
            }
            end += len;
        }
        if end == 0 {
            return Err(self.wrong("it ends inside an event"));
        }
        bytes.truncate(end);
        Ok(Some(bytes))
    }
    /// The events were used, and those behind them are next.
    pub(crate) fn taken(&mut self, events: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, events);
        self.at += events.len() as u64;
    }
}

/// How many events a spill file has.
pub(crate) fn count(disk: &dyn Disk, place: &Place, spilled: Spilled) -> io::Result<u64> {
    let (mut reader, mut count) = (SpillReader::open(disk, place, spilled)?, 0);
    while let Some(events) = reader.next()? {
        count += redolith_binlog::count_events(&events).map_err(io::Error::other)?;
        reader.taken(&events);
    }
    Ok(count)
}

/// Removes a spill file.
pub(crate) fn remove(disk: &dyn Disk, place: &Place, number: u64) {
    // The next start removes a file that cannot be removed now.
    let _ = disk.remove(&place.spill(number));
}
/// Removes all spill files but those with these numbers.
pub(crate) fn remove_others(disk: &dyn Disk, place: &Place, kept: &[u64]) -> io::Result<()> {
    let prefix = format!("{}.spill.", place.base);
    if !disk.exists(&place.dir) {
        return Ok(());
    }
    for name in disk.list(&place.dir)? {
        let number = name.strip_prefix(&prefix).and_then(|n| u64::from_str_radix(n, 16).ok());
        if number.is_some_and(|n| !kept.contains(&n) && place.spill(n).ends_with(&name)) {
            disk.remove(&place.dir.join(name))?;
        }
    }
    Ok(())
}
