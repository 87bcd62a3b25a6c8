//! The doublewrite files: a copy of every page that is being written, so that a page torn by a
//! crash can be repaired.
//!
//! The files together are a ring of segments, which go round the files in turn. The first file is
//! `doublewrite.rdl`, the others are `doublewrite-2.rdl` and so on. Each segment holds one batch of
//! up to [`SEGMENT_PAGES`] pages:
//!
//! | offset in segment | bytes | what |
//! |---|---|---|
//! | 0 | 4 | CRC-32C of bytes 4..4096 |
//! | 4 | 4 | number of pages |
//! | 8 | 8 | magic `RDLDBLW1` |
//! | 16 | 8 | batch number, rising |
//! | 24 | 8 | log id of the data directory; 0 in files of programs that did not write it |
//! | 32 | 16 each | page number u32, space u32, checksum of the page u32, 0 u32 |
//! | 4096 | 16384 each | the pages, as they will be in their files |
//!
//! DBLWR-1: segments are used in the order of the ring, so that the older of two copies of a page
//! is overwritten first.
//! DBLWR-2 (FLUSH-3): a segment is free from its release, after the sync of its pages' files, until
//! its next use.
//! DBLWR-3: a page torn by a crash has a whole copy in a segment with a whole header, since the
//! page's file was not synced after the copy was written.
use super::group::{Submission, Syncs, submit};
use super::{DoublewriteConfig, DoublewriteMode};
use crate::bytes::{u32_at, u64_at};
use crate::page::header;
use crate::sync::event::Event;
use crate::{Error, Lsn, PAGE_SIZE, PageId, Result, SpaceId};
use parking_lot::Mutex;
use redolith_disk::{ALIGN, AlignedBuf, Disk, File, Op, OpenHow, in_turn};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The number of pages of a segment, and the largest batch.
pub(crate) const SEGMENT_PAGES: usize = 128;
pub(crate) const HEADER: usize = ALIGN;
pub(crate) const SEGMENT_BYTES: u64 = (HEADER + SEGMENT_PAGES * PAGE_SIZE) as u64;
const MAGIC: u64 = u64::from_le_bytes(*b"RDLDBLW1");
const ENTRIES: usize = 32;
const ENTRY: usize = 16;
const _: () = assert!(ENTRIES + SEGMENT_PAGES * ENTRY <= HEADER && HEADER.is_multiple_of(ALIGN));

/// The number of segments of all files together, and so the most files.
pub(crate) const SEGMENTS: usize = 8;
/// The name of the first file.
pub(crate) const FILE: &str = "doublewrite.rdl";

/// The name of the file `n`, counted from 0.
pub(crate) fn file_name(n: usize) -> String {
    if n == 0 { FILE.into() } else { format!("doublewrite-{}.rdl", n + 1) }
}

/// Copies of pages on their way to disk: space for the segment header, then the pages.
pub(super) struct Copies {
    buf: AlignedBuf,
    pub ids: Vec<PageId>,
    pub max_lsn: Lsn,
}
impl Copies {
    pub(super) fn bytes(capacity: usize) -> usize {
        HEADER + capacity * PAGE_SIZE
    }
    /// Makes an empty batch over a buffer of [`Copies::bytes`].
    pub(super) fn new(buf: AlignedBuf) -> Copies {
        Copies { buf, ids: Vec::with_capacity(SEGMENT_PAGES), max_lsn: Lsn(0) }
    }
    pub(super) fn push(&mut self, id: PageId, page: &header::Page) {
        // The assertion mirrors the check in `load`: a page that `load` would refuse must not reach
        // the disk.
        assert_eq!(header::id(page), id, "a page in memory has its own id");
        let at = self.ids.len();
        self.ids.push(id);
        self.page_mut(at).copy_from_slice(page);
        self.max_lsn = self.max_lsn.max(header::lsn(page));
    }
    pub(super) fn page(&self, n: usize) -> &header::Page {
        self.buf[HEADER + n * PAGE_SIZE..].first_chunk().expect("inside the buffer")
    }
    pub(super) fn page_mut(&mut self, n: usize) -> &mut header::Page {
        self.buf[HEADER + n * PAGE_SIZE..].first_chunk_mut().expect("inside the buffer")
    }
    pub(super) fn into_buf(self) -> AlignedBuf {
        self.buf
    }
    /// Fills in the header. The pages already have their checksums.
    fn seal(&mut self, batch: u64, log_id: u64) {
        let count = self.ids.len();
        assert!(count <= SEGMENT_PAGES);
        let sums: Vec<u32> = (0..count).map(|n| header::checksum(self.page(n))).collect();
        let head = &mut self.buf[..HEADER];
        head.fill(0);
        head[4..8].copy_from_slice(&(count as u32).to_le_bytes());
        head[8..16].copy_from_slice(&MAGIC.to_le_bytes());
        head[16..24].copy_from_slice(&batch.to_le_bytes());
        head[24..32].copy_from_slice(&log_id.to_le_bytes());
        for ((id, sum), entry) in
            self.ids.iter().zip(sums).zip(head[ENTRIES..].chunks_exact_mut(ENTRY))
        {
            entry[..4].copy_from_slice(&id.no.to_le_bytes());
            entry[4..8].copy_from_slice(&id.space.0.to_le_bytes());
            entry[8..12].copy_from_slice(&sum.to_le_bytes());
        }
        let crc = crc32c::crc32c(&head[4..]);
        head[..4].copy_from_slice(&crc.to_le_bytes());
    }
}
/// A segment's header.
pub(crate) struct Header {
    /// The data directory that the pages belong to, by the id of its redo log; 0 if the header does
    /// not say.
    pub log_id: u64,
    /// The pages of the batch, with their checksums.
    pub pages: Vec<(PageId, u32)>,
}
/// Reads a segment's header. `None` if the header is torn or was never written.
pub(crate) fn read_header(head: &[u8]) -> Option<Header> {
    let u32_at = |at: usize| u32_at(head, at);
    let count = u32_at(4) as usize;
    if u32_at(0) != crc32c::crc32c(&head[4..HEADER])
        || head[8..16] != MAGIC.to_le_bytes()
        || count > SEGMENT_PAGES
    {
        return None;
    }
    let page = |n: usize| {
        let at = ENTRIES + n * ENTRY;
        (PageId { no: u32_at(at), space: SpaceId(u32_at(at + 4)) }, u32_at(at + 8))
    };
    Some(Header { log_id: u64_at(head, 24), pages: (0..count).map(page).collect() })
}

/// The doublewrite files, and the mode, which says whether they are used.
pub(crate) struct Doublewrite {
    mode: AtomicU8,
    /// No files in a mode that never makes copies.
    files: Vec<Arc<dyn File>>,
    log_id: u64,
    /// The most pages of a batch.
    pub(super) batch_pages: usize,
    ring: Mutex<Ring>,
    /// A segment has become free.
    pub(super) freed: Event,
    /// The syncs of the files.
    syncs: Syncs,
}
struct Ring {
    busy: Vec<bool>,
    next: usize,
    batch: u64,
}
/// A segment in use, until [`Doublewrite::release`].
#[derive(Debug)]
pub(super) struct Segment(usize);

impl Doublewrite {
    /// Opens or creates the files in `dir`. Their content is ignored here; [`super::Copies`] reads
    /// it before. Files that an earlier start had beyond `files` are removed.
    pub(crate) fn open(
        disk: &dyn Disk,
        dir: &Path,
        config: &DoublewriteConfig,
        segments: usize,
        log_id: u64,
    ) -> Result<Arc<Doublewrite>> {
        let mode = config.mode;
        let segments = if mode == DoublewriteMode::Legacy { 1 } else { segments };
        let count = config.files.clamp(1, segments);
        let mut open = Vec::new();
        for n in (0..count).filter(|_| mode.has_files()) {
            let path = dir.join(file_name(n));
            let bytes = segments.div_ceil(count) as u64 * SEGMENT_BYTES;
            let opened = || {
                // FLUSH-6
                let file = in_turn(disk.open(&path, OpenHow::create(true))?);
                if file.len()? < bytes {
                    file.set_len(bytes)?;
                    file.sync()?;
                }
                // A process that made the file may have ended before its name was durable.
                disk.sync_dir(dir)?;
                Ok(file)
            };
            open.push(opened().map_err(|e: io::Error| {
                let what = format_args!("opening the doublewrite file {}", path.display());
                Error::io_advised(what, &e, "innodb_doublewrite_dir says where it belongs")
            })?);
        }
        for n in count..SEGMENTS {
            let path = dir.join(file_name(n));
            if mode.has_files() && disk.exists(&path) {
                disk.remove(&path).map_err(|e| Error::io(path.display(), &e))?;
            }
        }
        let ring =
            Mutex::new(Ring { busy: vec![false; segments], next: 0, batch: disk.wall_us() as u64 });
        Ok(Arc::new(Doublewrite {
            mode: AtomicU8::new(mode as u8),
            files: open,
            log_id,
            batch_pages: config.pages.clamp(1, SEGMENT_PAGES),
            ring,
            freed: Event::default(),
            syncs: Syncs::default(),
        }))
    }
    pub(crate) fn mode(&self) -> DoublewriteMode {
        DoublewriteMode::from_number(self.mode.load(Relaxed))
    }
    /// Changes the mode for the next batches, as far as the mode may change while the engine runs.
    /// Returns whether it may.
    pub(crate) fn set_mode(&self, to: DoublewriteMode) -> bool {
        let may = self.mode().may_become(to);
        if may {
            self.mode.store(to as u8, Relaxed);
        }
        may
    }
    /// The number of segments that may wait for a sync before a sync is due.
    pub(super) fn quarter(&self) -> usize {
        (self.ring.lock().busy.len() / 4).max(1)
    }
    /// DBLWR-1: the next segment of the ring, if it is free.
    pub(super) fn acquire(&self) -> Option<Segment> {
        let mut ring = self.ring.lock();
        let next = ring.next;
        if ring.busy[next] {
            return None;
        }
        ring.busy[next] = true;
        ring.next = (next + 1) % ring.busy.len();
        Some(Segment(next))
    }
    /// Frees a segment (DBLWR-2).
    pub(super) fn release(&self, segment: Segment) {
        assert!(std::mem::replace(&mut self.ring.lock().busy[segment.0], false), "DBLWR-2");
        self.freed.notify();
    }
    /// Makes the copies durable in `segment`.
    pub(super) async fn write(&self, segment: &Segment, mut copies: Copies) -> io::Result<Copies> {
        let file = &self.files[segment.0 % self.files.len()];
        let offset = (segment.0 / self.files.len()) as u64 * SEGMENT_BYTES;
        let batch = {
            let mut ring = self.ring.lock();
            ring.batch += 1;
            ring.batch
        };
        copies.seal(batch, self.log_id);
        let Copies { buf, ids, max_lsn } = copies;
        let write = Submission { file: file.clone(), op: Op::Write(buf), offset };
        let buf = submit(vec![write])
            .await
            .map_err(|(_, e)| e)?
            .pop()
            .expect("a write gives its buffer back");
        self.syncs.sync(std::iter::once(file.clone())).await.map_err(|(_, e)| e)?;
        Ok(Copies { buf, ids, max_lsn })
    }
}
