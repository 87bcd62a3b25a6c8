//! The files of the redo log: segments `log_<n>`. Each has a header of 4096 bytes and then `bytes`
//! bytes of the stream: segment n holds `[n * bytes, (n + 1) * bytes)`.
//!
//! | offset | bytes | what (little-endian) |
//! |---|---|---|
//! | 0 | 8 | `REDOSEG` and a zero |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC-32C of the other 28 bytes |
//! | 16 | 8 | log id |
//! | 24 | 8 | bytes of stream in a segment |
//! | 32 | 4064 | zeros |
//!
//! - FILES-1: a file bears the name `log_<n>` only when it has its whole length, written with zeros
//!   (not just allocated) and synced. A segment is written to only when its name is durable. So a
//!   log write changes no metadata, and a full disk is met here and not in a commit.
//! - FILES-2: a segment is reused, by giving it the next free number, only when all of it is below
//!   the checkpoint.
//! - FILES-3: opening a log changes nothing. Files to clear away or to make whole are remembered,
//!   and `begin_use` changes them when the start has been judged.
//! - FILES-4: a segment whose whole header names another log ends the opening. A damaged header is
//!   made whole, because its frames have checksums of their own; but with another directory's
//!   control file, no frame of this log would verify, and all of them would pass for old bytes.
//!
//! The number is in the name alone: old frames in a reused segment bear old LSNs (FRAME-1).
use crate::base::{Error, Result, poison};
use crate::bytes::u64_at;
use parking_lot::Mutex;
use redolith_disk::{AlignedBuf, Create, Disk, File, Io, Op, OpenHow};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Poll, Waker};

pub(in crate::log) const HEADER: u64 = 4096;
const MAGIC: &[u8; 8] = b"REDOSEG\0";
/// The format version of segments.
const FORMAT: u32 = 1;
const ZERO_CHUNK: usize = 1 << 20;
/// So many segments are renamed or removed before other tasks of the worker get a turn.
pub(crate) const AT_ONCE: usize = 16;

struct Segment {
    number: u64,
    file: Arc<dyn File>,
    /// Whether the header or the length differs from the original. Frames of a damaged segment are
    /// still read, because they carry checksums of their own.
    damaged: bool,
}

pub(in crate::log) struct Segments {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    log_id: u64,
    pub bytes: u64,
    /// The segments in use: consecutive numbers, oldest first, at least one. Only the segment
    /// allocator (or recovery) changes the list.
    open: Mutex<VecDeque<Segment>>,
    leftovers: Mutex<Leftovers>,
}
/// The files in the folder beside the segments in use, until [`Segments::begin_use`] removes them.
#[derive(Default)]
struct Leftovers {
    /// The names of files whose creation was interrupted.
    names: Vec<String>,
    /// The numbers of segments before those in use, and of segments behind a gap after them.
    older: Vec<u64>,
    later: Vec<u64>,
}

/// The log id and the bytes of stream in a segment, if `b` is an undamaged header.
pub(in crate::log) fn header_fields(b: &[u8]) -> Option<(u64, u64)> {
    let word = |at: usize| u64_at(b, at);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&b[..12]), &b[16..32]);
    (&b[..8] == MAGIC && b[12..16] == crc.to_le_bytes() && word(24) > 0)
        .then(|| (word(16), word(24)))
}

/// The number in a segment's name. Names that the engine would not write, as `log_07`, are
/// somebody else's.
fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("log_")?.parse().ok()?;
    (name == format!("log_{number}")).then_some(number)
}

impl Segments {
    /// Creates the first segment of a new log, which holds `first`.
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        log_id: u64,
        bytes: u64,
        first: u64,
    ) -> Result<Segments> {
        let s = Segments {
            disk,
            dir,
            log_id,
            bytes,
            open: Mutex::default(),
            leftovers: Mutex::default(),
        };
        s.add_now(first / bytes)?;
        Ok(s)
    }
    /// Makes durable the contents of the files, and their names: an ended process may have renamed
    /// a segment without syncing the folder.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.disk.sync_dir(&self.dir).map_err(|e| Error::io(self.dir.display(), &e))?;
        let files: Vec<Arc<dyn File>> = self.open.lock().iter().map(|s| s.file.clone()).collect();
        files.iter().try_for_each(|f| f.sync()).map_err(|e| Error::io("syncing the redo log", &e))
    }
    /// Opens the segments that hold the stream from `keep` on, which the checkpoint needs. Segments
    /// up to `needed_end` must exist.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        log_id: u64,
        bytes: u64,
        keep: u64,
        needed_end: u64,
    ) -> Result<Segments> {
        let s = Segments {
            disk,
            dir,
            log_id,
            bytes,
            open: Mutex::default(),
            leftovers: Mutex::default(),
        };
        let mut found = BTreeSet::new();
        let mut leftovers = Leftovers::default();
        for name in s.disk.list(&s.dir).map_err(|e| Error::io(s.dir.display(), &e))? {
            match segment_number(&name) {
                Some(n) => drop(found.insert(n)),
                None if name.ends_with(".new") => leftovers.names.push(name),
                None => {}
            }
        }
        // Older segments that directly precede are kept for reuse, if they are not damaged.
        let mut first = s.keep_number(keep);
        let mut open = VecDeque::new();
        while found.contains(&first) && first.checked_sub(1).is_some_and(|n| found.contains(&n)) {
            let older = s.open_file(first - 1)?;
            if older.damaged {
                break;
            }
            first -= 1;
            found.remove(&first);
            open.push_front(older);
        }
        let mut next = first + open.len() as u64;
        while found.remove(&next) {
            open.push_back(s.open_file(next)?);
            next += 1;
        }
        if next * bytes < needed_end || next <= s.keep_number(keep) {
            let why = format!(
                "segment {next} of the redo log is missing, and the log went on in it: restore the \
                    segment or a backup"
            );
            return Err(Error::Io { what: s.path(next).display().to_string(), why, full: false });
        }
        (leftovers.later, leftovers.older) = found.into_iter().partition(|n| *n > next);
        s.check_removable(&leftovers)?;
        *s.open.lock() = open;
        *s.leftovers.lock() = leftovers;
        Ok(s)
    }
    /// FILES-3: what `begin_use` could not remove is met before the start changes anything.
    fn check_removable(&self, leftovers: &Leftovers) -> Result<()> {
        let numbered = leftovers.older.iter().chain(&leftovers.later).map(|n| self.path(*n));
        for path in numbered.chain(leftovers.names.iter().map(|name| self.dir.join(name))) {
            let advice = "The name is one of the redo log's own: move away what bears it";
            self.disk
                .open(&path, OpenHow::existing(true))
                .map_err(|e| Error::io_advised(path.display(), &e, advice))?;
        }
        Ok(())
    }
    /// The segments behind a gap, oldest first. A crash can leave renamed files there, which hold
    /// nothing of the stream.
    pub(crate) fn behind_the_gap(&self) -> Result<Vec<(u64, Arc<dyn File>)>> {
        self.leftovers
            .lock()
            .later
            .iter()
            .map(|n| self.open_file(*n).map(|s| (*n, s.file)))
            .collect()
    }
    /// The end of the segments that will remain in use. A damaged segment that the stream up to
    /// `tail` does not need is removed, together with the segments that follow it, and they are
    /// made anew when they are needed.
    pub(crate) fn end_of_whole(&self, tail: u64) -> u64 {
        let open = self.open.lock();
        let from = open
            .iter()
            .position(|s| s.damaged && s.number * self.bytes >= tail)
            .unwrap_or(open.len())
            .max(1);
        (open[from - 1].number + 1) * self.bytes
    }
    /// The first file, from that which holds `lsn` on, that ends before its segment ends. A crash
    /// does not leave such a file (FILES-1). The log may go on in a later one, where a frame that
    /// begins before it ends in what was cut off.
    pub(crate) fn cut_from(&self, lsn: u64) -> Result<Option<PathBuf>> {
        for segment in self.open.lock().iter().filter(|s| s.number >= lsn / self.bytes) {
            let path = self.path(segment.number);
            let len = segment.file.len().map_err(|e| Error::io(path.display(), &e))?;
            if len < HEADER + self.bytes {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
    /// FILES-3: prepares the folder for use of the log, with segments up to `end`.
    pub(crate) fn begin_use(&self, end: u64) -> Result<()> {
        let leftovers = std::mem::take(&mut *self.leftovers.lock());
        let mut open = self.open.lock();
        let mut removed: Vec<String> =
            leftovers.older.iter().chain(&leftovers.later).map(|n| format!("log_{n}")).collect();
        removed.extend(leftovers.names);
        while open.back().is_some_and(|s| s.number * self.bytes >= end) {
            removed.extend(open.pop_back().map(|s| format!("log_{}", s.number)));
        }
        for name in &removed {
            self.disk
                .remove(&self.dir.join(name))
                .map_err(|e| Error::io(self.dir.join(name).display(), &e))?;
        }
        if !removed.is_empty() {
            self.disk.sync_dir(&self.dir).map_err(|e| Error::io(self.dir.display(), &e))?;
        }
        for s in open.iter_mut().filter(|s| s.damaged) {
            self.make_whole(s).map_err(|e| {
                Error::io(format_args!("repairing {}", self.path(s.number).display()), &e)
            })?;
        }
        Ok(())
    }
    /// Restores the header and the length of a segment.
    fn make_whole(&self, s: &mut Segment) -> io::Result<()> {
        let len = s.file.len()? / HEADER * HEADER;
        s.file.set_len(HEADER + self.bytes)?;
        let zeros = AlignedBuf::new(ZERO_CHUNK);
        for at in (len.max(HEADER)..HEADER + self.bytes).step_by(ZERO_CHUNK) {
            s.file.write_at(&zeros[..zeros.len().min((HEADER + self.bytes - at) as usize)], at)?;
        }
        s.file.write_at(&self.header(), 0)?;
        s.file.sync()?;
        s.damaged = false;
        Ok(())
    }
    /// The number of the oldest segment that a log with its checkpoint at `lsn` needs. The byte
    /// before the checkpoint counts, so that a segment is kept even if the next segment would begin
    /// at the checkpoint.
    fn keep_number(&self, lsn: u64) -> u64 {
        lsn.saturating_sub(1) / self.bytes
    }
    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("log_{number}"))
    }
    /// The file and the offset of an LSN, for messages.
    pub(crate) fn place(&self, lsn: u64) -> String {
        format!("{}, offset {}", self.path(lsn / self.bytes).display(), HEADER + lsn % self.bytes)
    }
    fn header(&self) -> AlignedBuf {
        let mut b = AlignedBuf::new(HEADER as usize);
        b[..8].copy_from_slice(MAGIC);
        b[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        b[16..24].copy_from_slice(&self.log_id.to_le_bytes());
        b[24..32].copy_from_slice(&self.bytes.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&b[..12]), &b[16..32]);
        b[12..16].copy_from_slice(&crc.to_le_bytes());
        b
    }
    fn open_file(&self, number: u64) -> Result<Segment> {
        let path = self.path(number);
        let advice = "Restore the file or a backup";
        let fail = |e: io::Error| Error::io_advised(path.display(), &e, advice);
        let file = self
            .disk
            .open(&path, OpenHow { create: Create::Existing, direct: true })
            .map_err(fail)?;
        let mut b = AlignedBuf::new(HEADER as usize);
        let whole = match file.read_at(&mut b, 0) {
            Ok(()) => {
                // FILES-4
                if let Some((id, _)) = header_fields(&b).filter(|(id, _)| *id != self.log_id) {
                    return Err(Error::Damaged(format!(
                        "{} belongs to redo log {id:016x}, and {} to redo log {:016x}: one of them \
                         comes from another data directory. Nothing has been changed: restore the \
                         file that belongs here or a backup, or start with \
                         innodb_force_recovery=6 to read the tables as their files have them",
                        path.display(),
                        self.dir.join("control").display(),
                        self.log_id
                    )));
                }
                b[..32] == self.header()[..32] && file.len().map_err(fail)? == HEADER + self.bytes
            }
            // Nor does a header that cannot be read keep the frames behind it from being read.
            Err(_) => false,
        };
        Ok(Segment { number, file, damaged: !whole })
    }

    /// The file that holds `lsn`, and the offset in it. `None` beyond the last segment.
    pub(crate) fn at(&self, lsn: u64) -> Option<(Arc<dyn File>, u64)> {
        let open = self.open.lock();
        let i = (lsn / self.bytes).checked_sub(open.front()?.number)?;
        Some((open.get(i as usize)?.file.clone(), HEADER + lsn % self.bytes))
    }
    /// Reads the stream from `lsn` on, where a block begins, within one segment: see
    /// [`read_some`].
    pub(crate) fn read(&self, lsn: u64, buf: &mut AlignedBuf) -> Result<bool> {
        match self.at(lsn) {
            Some((file, offset)) => read_some(&*file, offset, buf)
                .map_err(|e| Error::io(format_args!("reading {}", self.place(lsn)), &e)),
            None => Ok(false),
        }
    }
    /// The answer of [`File::reports_apart`] for the newest segment.
    pub(crate) fn reports_apart(&self) -> bool {
        self.open.lock().back().is_some_and(|s| s.file.reports_apart())
    }
    /// The first LSN that has no segment yet.
    pub(crate) fn end(&self) -> u64 {
        self.open.lock().back().map_or(0, |s| (s.number + 1) * self.bytes)
    }
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    fn making(&self, number: u64) -> PathBuf {
        self.dir.join(format!("log_{number}.new"))
    }
    fn begin(&self, number: u64) -> io::Result<Arc<dyn File>> {
        let file = self
            .disk
            .open(&self.making(number), OpenHow { create: Create::Create, direct: true })?;
        file.set_len(HEADER + self.bytes)?;
        file.write_at(&self.header(), 0)?;
        Ok(file)
    }
    /// Gives the finished file its name, and adds it to the segments in use.
    fn adopt(&self, number: u64, file: Arc<dyn File>) -> io::Result<()> {
        self.disk.rename(&self.making(number), &self.path(number))?;
        self.sync_dir();
        let mut open = self.open.lock();
        assert!(open.back().is_none_or(|s| s.number + 1 == number));
        open.push_back(Segment { number, file, damaged: false });
        Ok(())
    }
    /// A failed sync of the folder ends the process: the names in the folder are then unknown.
    fn sync_dir(&self) {
        if let Err(e) = self.disk.sync_dir(&self.dir) {
            poison(&format!("syncing {}: {e}", self.dir.display()));
        }
    }
    fn failed(&self, number: u64, e: &io::Error) -> Error {
        let _ = self.disk.remove(&self.making(number));
        Error::io(
            format!("creating {} ({} bytes)", self.path(number).display(), HEADER + self.bytes),
            e,
        )
    }
    /// Creates segment `number`, which is the next one, and blocks the thread.
    pub(crate) fn add_now(&self, number: u64) -> Result<()> {
        let make = || {
            let file = self.begin(number)?;
            let zeros = AlignedBuf::new(ZERO_CHUNK.min(self.bytes as usize));
            for at in (0..self.bytes).step_by(ZERO_CHUNK) {
                file.write_at(&zeros[..zeros.len().min((self.bytes - at) as usize)], HEADER + at)?;
            }
            file.sync()?;
            self.adopt(number, file)
        };
        make().map_err(|e| self.failed(number, &e))
    }
    /// Creates the next segment without blocking the thread while the disk writes.
    pub(crate) async fn add(&self) -> Result<()> {
        let number = self.end() / self.bytes;
        let make = async {
            let file = self.begin(number)?;
            let mut at = 0;
            while at < self.bytes {
                let len = ZERO_CHUNK.min((self.bytes - at) as usize);
                submitted(&*file, Op::Write(AlignedBuf::new(len)), HEADER + at).await?;
                at += len as u64;
            }
            submitted(&*file, Op::Sync, 0).await?;
            self.adopt(number, file)
        };
        make.await.map_err(|e| self.failed(number, &e))
    }
    /// Gives new numbers, up to that of `last`, to segments below the checkpoint, and removes the
    /// segments that are too many, [`AT_ONCE`] at most. Returns how many segments got a new number,
    /// and how many left their place.
    pub(crate) fn recycle(&self, checkpoint: u64, last: u64) -> Result<(usize, usize)> {
        let (keep, last) = (self.keep_number(checkpoint), last / self.bytes);
        let free = self.end() / self.bytes..;
        let old: Vec<u64> = {
            let open = self.open.lock();
            open.iter().map(|s| s.number).take_while(|n| *n < keep).take(AT_ONCE).collect()
        };
        let (mut moved, mut failed) = (Vec::new(), Ok(()));
        for (number, next) in old.iter().zip(free) {
            let from = self.path(*number);
            let done = if next <= last {
                self.disk.rename(&from, &self.path(next))
            } else {
                self.disk.remove(&from)
            };
            if let Err(e) = done {
                failed = Err(Error::io(format!("reusing {}", from.display()), &e));
                break;
            }
            moved.push((next <= last).then_some(next));
        }
        if !moved.is_empty() {
            self.sync_dir();
        }
        // The last close of a removed file may take long, and writers want the mutex.
        let mut gone = Vec::new();
        let mut open = self.open.lock();
        for to in &moved {
            // FILES-2: one segment always stays, which holds the byte before the checkpoint.
            let s = open.pop_front().expect("listed above");
            match *to {
                Some(number) => open.push_back(Segment { number, ..s }),
                None => gone.push(s),
            }
        }
        assert!(!open.is_empty());
        drop(open);
        failed.map(|()| (moved.iter().flatten().count(), moved.len()))
    }
}

impl Segments {
    /// Removes the segments from `end` on, which is a multiple of a segment, and to which no thread
    /// will write; [`AT_ONCE`] at most. Returns how many. The latest segment goes first: after a
    /// crash the rest is consecutive, or is cleared away when the log is opened.
    pub(crate) fn cut(&self, end: u64) -> Result<usize> {
        let keep = end / self.bytes;
        let mut removed = 0;
        while removed < AT_ONCE {
            let number = self.open.lock().back().map_or(0, |s| s.number);
            if number < keep || self.count() == 1 {
                break;
            }
            let path = self.path(number);
            if let Err(e) = self.disk.remove(&path) {
                return Err(Error::io(format!("removing {}", path.display()), &e));
            }
            // The last close of the file may take long, and writers want the mutex.
            let gone = self.open.lock().pop_back();
            drop(gone);
            removed += 1;
        }
        if removed > 0 {
            self.sync_dir();
        }
        Ok(removed)
    }
}

/// Fills the buffer from `offset` on. If the file ends before, the buffer's length becomes the
/// number of bytes in whole blocks. Returns false if there are none.
pub(in crate::log) fn read_some(
    file: &dyn File,
    offset: u64,
    buf: &mut AlignedBuf,
) -> io::Result<bool> {
    match file.read_at(buf, offset) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => Err(e),
        Err(_) => {
            let left = (file.len()?.saturating_sub(offset) / HEADER * HEADER) as usize;
            if left == 0 {
                return Ok(false);
            }
            buf.set_len(left.min(buf.len()));
            file.read_at(buf, offset).map(|()| true)
        }
    }
}

/// Submits an operation, and resolves to its result.
pub(in crate::log) async fn submitted(file: &dyn File, op: Op, offset: u64) -> io::Result<()> {
    #[derive(Default)]
    struct Shared {
        result: Option<io::Result<()>>,
        waker: Option<Waker>,
    }
    let shared = Arc::new(Mutex::new(Shared::default()));
    let theirs = shared.clone();
    let done = Box::new(move |result, _| {
        let waker = {
            let mut s = theirs.lock();
            s.result = Some(result);
            s.waker.take()
        };
        if let Some(w) = waker {
            w.wake();
        }
    });
    file.submit(Io { op, offset, done });
    std::future::poll_fn(|cx| {
        let mut s = shared.lock();
        match s.result.take() {
            Some(r) => Poll::Ready(r),
            None => {
                s.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}
