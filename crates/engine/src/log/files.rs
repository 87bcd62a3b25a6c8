//! The files of the log: segments `log_<n>`, each a header of 4096 bytes and then `bytes` bytes of the stream: segment n holds `[n * bytes, (n + 1) * bytes)`.
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
//! FILES-1: a file bears the name `log_<n>` only when it has its whole length, written with zeros (not just allocated) and synced, and it is written to
//! only when its name is durable. So a log write changes no metadata, and a full disk is met here and not in a commit.
//! FILES-2: a segment is reused, by giving it the next free number, only when all of it is below the checkpoint.
//! The number is in the name alone: old frames in a reused segment bear old LSNs (FRAME-1).
use crate::base::{Error, Result, poison};
use parking_lot::Mutex;
use redolith_disk::{AlignedBuf, Create, Disk, File, Io, Op, OpenHow};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Poll, Waker};

const HEADER: u64 = 4096;
const MAGIC: &[u8; 8] = b"REDOSEG\0";
/// Of segments.
const FORMAT: u32 = 1;
const ZERO_CHUNK: usize = 1 << 20;

struct Segment {
    number: u64,
    file: Arc<dyn File>,
}

pub(super) struct Segments {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    log_id: u64,
    pub bytes: u64,
    /// Consecutive numbers, oldest first, at least one. Only the keeper (or recovery) changes it.
    open: Mutex<VecDeque<Segment>>,
}

impl Segments {
    /// The first segment of a new log, the one that holds `first`.
    pub fn create(disk: Arc<dyn Disk>, dir: PathBuf, log_id: u64, bytes: u64, first: u64) -> Result<Segments> {
        let s = Segments { disk, dir, log_id, bytes, open: Mutex::default() };
        s.add_now(first / bytes)?;
        Ok(s)
    }
    /// Makes durable what the files hold.
    pub fn sync_all(&self) -> Result<()> {
        let files: Vec<Arc<dyn File>> = self.open.lock().iter().map(|s| s.file.clone()).collect();
        files.iter().try_for_each(|f| f.sync()).map_err(|e| Error::io("syncing the redo log", &e))
    }
    /// The segments that hold the stream from `keep` on. What a crash left besides them is cleared away.
    pub fn open(disk: Arc<dyn Disk>, dir: PathBuf, log_id: u64, bytes: u64, keep: u64) -> Result<Segments> {
        let s = Segments { disk, dir, log_id, bytes, open: Mutex::default() };
        let mut found = BTreeMap::new();
        for name in s.disk.list(&s.dir).map_err(|e| Error::io(s.dir.display(), &e))? {
            match name.strip_prefix("log_").and_then(|n| n.parse::<u64>().ok()) {
                Some(n) => drop(found.insert(n, name)),
                None if name.ends_with(".new") => s.remove(&name)?,
                None => {}
            }
        }
        // Older ones that follow on are kept, to be reused.
        let mut first = s.keep_number(keep);
        while found.contains_key(&first) && found.contains_key(&first.wrapping_sub(1)) {
            first -= 1;
        }
        let mut open = VecDeque::new();
        while found.remove(&(first + open.len() as u64)).is_some() {
            let number = first + open.len() as u64;
            open.push_back(Segment { number, file: s.open_file(number)? });
        }
        if open.is_empty() {
            let why = format!("segment {first} of the redo log, which the checkpoint needs, is missing: restore it or a backup");
            return Err(Error::Io { what: s.path(first).display().to_string(), why, full: false });
        }
        for name in found.values() {
            s.remove(name)?;
        }
        if !found.is_empty() {
            s.disk.sync_dir(&s.dir).map_err(|e| Error::io(s.dir.display(), &e))?;
        }
        *s.open.lock() = open;
        Ok(s)
    }
    /// The number of the oldest segment that a log with its checkpoint at `lsn` needs. The byte before the checkpoint counts, so that there is one
    /// even if the checkpoint is where the next segment would begin.
    fn keep_number(&self, lsn: u64) -> u64 {
        lsn.saturating_sub(1) / self.bytes
    }
    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("log_{number}"))
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.disk.remove(&self.dir.join(name)).map_err(|e| Error::io(self.dir.join(name).display(), &e))
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
    fn open_file(&self, number: u64) -> Result<Arc<dyn File>> {
        let path = self.path(number);
        let fail = |e: io::Error| Error::io(path.display(), &e);
        let file = self.disk.open(&path, OpenHow { create: Create::Existing, direct: true }).map_err(fail)?;
        let mut b = AlignedBuf::new(HEADER as usize);
        file.read_at(&mut b, 0).map_err(fail)?;
        if b[..32] != self.header()[..32] || file.len().map_err(fail)? != HEADER + self.bytes {
            return Err(Error::Incompatible(format!("{} is not a segment of this redo log, or is damaged", path.display())));
        }
        Ok(file)
    }

    /// The file that holds `lsn`, and the offset there. `None` beyond the last segment.
    pub fn at(&self, lsn: u64) -> Option<(Arc<dyn File>, u64)> {
        let open = self.open.lock();
        let i = (lsn / self.bytes).checked_sub(open.front()?.number)?;
        Some((open.get(i as usize)?.file.clone(), HEADER + lsn % self.bytes))
    }
    /// [`File::reports_apart`], of the newest one.
    pub fn reports_apart(&self) -> bool {
        self.open.lock().back().is_some_and(|s| s.file.reports_apart())
    }
    /// The first LSN that has no segment yet.
    pub fn end(&self) -> u64 {
        self.open.lock().back().map_or(0, |s| (s.number + 1) * self.bytes)
    }
    pub fn count(&self) -> usize {
        self.open.lock().len()
    }

    fn making(&self, number: u64) -> PathBuf {
        self.dir.join(format!("log_{number}.new"))
    }
    fn begin(&self, number: u64) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(&self.making(number), OpenHow { create: Create::Create, direct: true })?;
        file.set_len(HEADER + self.bytes)?;
        file.write_at(&self.header(), 0)?;
        Ok(file)
    }
    /// Gives the finished file its name and the log its segment.
    fn adopt(&self, number: u64, file: Arc<dyn File>) -> io::Result<()> {
        self.disk.rename(&self.making(number), &self.path(number))?;
        self.sync_dir();
        let mut open = self.open.lock();
        assert!(open.back().is_none_or(|s| s.number + 1 == number));
        open.push_back(Segment { number, file });
        Ok(())
    }
    /// After a failed sync nobody knows which names the folder holds.
    fn sync_dir(&self) {
        if let Err(e) = self.disk.sync_dir(&self.dir) {
            poison(&format!("syncing {}: {e}", self.dir.display()));
        }
    }
    fn failed(&self, number: u64, e: &io::Error) -> Error {
        let _ = self.disk.remove(&self.making(number));
        Error::io(format!("creating {} ({} bytes)", self.path(number).display(), HEADER + self.bytes), e)
    }
    /// Creates segment `number`, the next one, while nobody else needs the thread.
    pub fn add_now(&self, number: u64) -> Result<()> {
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
    /// Creates the next segment, without holding up the thread while the disk writes.
    pub async fn add(&self) -> Result<()> {
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
    /// Gives segments below the checkpoint new numbers, up to that of `last`; removes those that are too many. Returns how many got one.
    pub fn recycle(&self, checkpoint: u64, last: u64) -> Result<u64> {
        let (keep, last) = (self.keep_number(checkpoint), last / self.bytes);
        let free = self.end() / self.bytes..;
        let old: Vec<u64> = self.open.lock().iter().map(|s| s.number).take_while(|n| *n < keep).collect();
        let (mut moved, mut failed) = (Vec::new(), Ok(()));
        for (number, next) in old.iter().zip(free) {
            let from = self.path(*number);
            let done = if next <= last { self.disk.rename(&from, &self.path(next)) } else { self.disk.remove(&from) };
            if let Err(e) = done {
                failed = Err(Error::io(format!("reusing {}", from.display()), &e));
                break;
            }
            moved.push((next <= last).then_some(next));
        }
        if !moved.is_empty() {
            self.sync_dir();
        }
        let mut open = self.open.lock();
        for to in &moved {
            // FILES-2: one segment stays, that of the byte before the checkpoint.
            let s = open.pop_front().expect("listed above");
            if let Some(number) = *to {
                open.push_back(Segment { number, ..s });
            }
        }
        assert!(!open.is_empty());
        failed.map(|()| moved.iter().flatten().count() as u64)
    }
}

impl Segments {
    /// Removes the segments from `end` on, a multiple of a segment, into which nobody will write. The latest goes first: what a crash leaves is consecutive, or
    /// cleared away when the log is opened.
    pub fn cut(&self, end: u64) -> Result<u64> {
        let keep = end / self.bytes;
        let mut removed = 0;
        loop {
            let number = self.open.lock().back().map_or(0, |s| s.number);
            if number < keep || self.count() == 1 {
                break;
            }
            let path = self.path(number);
            if let Err(e) = self.disk.remove(&path) {
                return Err(Error::io(format!("removing {}", path.display()), &e));
            }
            self.open.lock().pop_back();
            removed += 1;
        }
        if removed > 0 {
            self.sync_dir();
        }
        Ok(removed)
    }
}

/// One submitted operation as a future.
async fn submitted(file: &dyn File, op: Op, offset: u64) -> io::Result<()> {
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
