//! The mark of a reset: a file beside the index with the LSN of the reset's record, and the CRC-32C
//! of its digits.
use super::{Files, Place};
use redolith_disk::{Disk, OpenHow};
use redolith_engine::Lsn;
use std::io;
use std::path::PathBuf;

/// The most bytes of a mark: 20 digits, a space, 8 digits, a line feed.
const MOST_BYTES: u64 = 30;

impl Place {
    /// The path of the mark.
    pub(crate) fn reset_mark(&self) -> PathBuf {
        self.dir.join(format!("{}.reset", self.base))
    }
}

fn text(lsn: Lsn) -> String {
    format!("{} {:08x}\n", lsn.0, crc32c::crc32c(lsn.0.to_string().as_bytes()))
}

/// The LSN in the mark; None if there is no mark.
pub(super) fn read(disk: &dyn Disk, place: &Place) -> io::Result<Option<Lsn>> {
    let path = place.reset_mark();
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let file = match disk.open(&path, OpenHow::existing(false)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let len = file.len().map_err(named)?.min(MOST_BYTES + 1);
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0).map_err(named)?;
    let found = std::str::from_utf8(&bytes).ok().and_then(|found| {
        let lsn = Lsn(found.split(' ').next()?.parse().ok()?);
        (text(lsn) == found).then_some(lsn)
    });
    match found {
        Some(lsn) => Ok(Some(lsn)),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "{} is damaged: restore it, or remove it and {} to begin a new binary log; then \
                 replicas have to be set up again",
                path.display(),
                place.index().display()
            ),
        )),
    }
}

impl Files {
    /// The record of the last reset, if no checkpoint has passed it.
    pub fn reset_mark(&self) -> Option<Lsn> {
        self.reset_mark
    }

    /// Removes all files, for a reset whose record begins at `at`. What was to be written is
    /// forgotten.
    pub fn reset(&mut self, at: Lsn) -> io::Result<()> {
        self.open = None;
        self.parts.clear();
        self.tail.begin_anew();
        self.closed.lock().clear();
        self.write_mark(at)?;
        // The files go before the index, so that a reset that is done again finds all of them.
        for number in self.numbers() {
            self.remove(&self.place.path(number))?;
        }
        self.sync_dir()?;
        self.index.replace(&*self.disk, Vec::new())?;
        self.sync_dir()
    }
    fn write_mark(&mut self, at: Lsn) -> io::Result<()> {
        if self.reset_mark == Some(at) {
            return Ok(());
        }
        let path = self.place.reset_mark();
        let made = path.with_extension("reset.new");
        let file = self.disk.open(&made, OpenHow::create(false))?;
        file.set_len(0)?;
        file.write_at(text(at).as_bytes(), 0)?;
        file.sync()?;
        self.disk.rename(&made, &path)?;
        self.sync_dir()?;
        self.reset_mark = Some(at);
        Ok(())
    }
    /// Removes the mark, which no start needs any more.
    pub fn forget_reset(&mut self) -> io::Result<()> {
        if self.reset_mark.is_some() {
            self.remove(&self.place.reset_mark())?;
            self.sync_dir()?;
            self.reset_mark = None;
        }
        Ok(())
    }
}
