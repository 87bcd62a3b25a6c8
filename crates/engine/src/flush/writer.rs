//! Writes batches of pages to disk, and syncs them.
use super::batch::Batch;
use super::doublewrite::{Copies, Doublewrite, Segment};
use super::group::{Submission, Syncs, submit};
use super::{DoublewriteMode, LogView};
use crate::buf::BufferPool;
use crate::canary::{Canary, planted};
use crate::runtime::Runtime;
use crate::sync::event::Event;
use crate::{Lsn, PAGE_SIZE, PageId, SpaceId, poison};
use parking_lot::Mutex;
use redolith_disk::{AlignedBuf, File, Op};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// The most neighbouring pages that one operation writes.
const MAX_RUN: usize = 32;
/// This many batches make a sync due where no doublewrite ring sets the limit.
const MAX_TICKETS: usize = 8;

/// A batch whose writes have ended and whose files are not synced yet.
struct Ticket {
    spaces: Vec<SpaceId>,
    /// Start LSNs under which the dirty index counts the batch's pages.
    starts: Vec<Lsn>,
    segment: Option<Segment>,
}

/// State that all cleaners share.
pub(crate) struct Writer {
    pub(super) pool: Arc<BufferPool>,
    pub(super) log: Arc<dyn LogView>,
    pub(super) runtime: Arc<dyn Runtime>,
    dblwr: Arc<Doublewrite>,
    pub(super) buffers: Mutex<Vec<AlignedBuf>>,
    tickets: Mutex<Vec<Ticket>>,
    /// A batch or a sync has ended.
    pub(crate) progress: Event,
    /// The syncs of data files.
    syncs: Arc<Syncs>,
    /// Whether it has been said that a file has no atomic writes.
    told: AtomicBool,
}
/// How pages are written in place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    /// Neighbouring pages in one operation.
    Runs,
    /// Each page in an operation of its own that a crash leaves done or not done.
    Atomic,
}

impl Writer {
    pub(crate) fn new(
        pool: Arc<BufferPool>,
        log: Arc<dyn LogView>,
        runtime: Arc<dyn Runtime>,
        dblwr: Arc<Doublewrite>,
    ) -> Writer {
        let (buffers, tickets) = Default::default();
        let syncs = pool.io.syncs();
        Writer {
            pool,
            log,
            runtime,
            dblwr,
            buffers,
            tickets,
            progress: Event::default(),
            syncs,
            told: AtomicBool::new(false),
        }
    }

    /// Writes pages claimed in the dirty index (at most a segment's worth) and returns how many
    /// were written. With `wait` false, pages whose latch was taken stay dirty.
    pub(crate) async fn write(&self, claimed: Vec<u32>, wait: bool) -> usize {
        if claimed.is_empty() {
            return 0;
        }
        let _progress = Progress(self);
        let batch = self.copy(claimed, wait).await;
        let count = batch.frames.len();
        if count == 0 {
            self.give_buffer(batch.copies.into_buf());
            return 0;
        }
        let max_lsn = batch.copies.max_lsn;
        if self.log.durable() < max_lsn && !planted(Canary::PageBeforeLog) {
            self.log.flush_to(max_lsn).await;
        }
        assert!(self.log.durable() >= max_lsn || planted(Canary::PageBeforeLog), "FLUSH-1");
        let Batch { copies, frames, starts } = batch;
        let counters = &self.pool.counters;
        counters.pending_writes.add(1);
        let (segment, copies, spaces) = self.protected(copies).await;
        counters.pending_writes.sub(1);
        counters.pages_written.add(count as u64);
        self.give_buffer(copies.into_buf());
        let legacy = segment.is_some() && self.dblwr.mode() == DoublewriteMode::Legacy;
        self.tickets.lock().push(Ticket { spaces, starts, segment });
        for index in frames {
            let was = self.pool.frames.get(index).writing.swap(false, Release);
            assert!(was, "FLUSH-4");
        }
        if legacy {
            self.sync().await;
        }
        count
    }
    #[cfg(all(test, not(model)))]
    pub(super) fn syncs(&self) -> Arc<Syncs> {
        self.syncs.clone()
    }
    pub(super) fn doublewrite(&self) -> &Doublewrite {
        &self.dblwr
    }
    /// The most pages of a batch.
    pub(super) fn batch_pages(&self) -> usize {
        self.dblwr.batch_pages
    }
    /// Writes the pages to their files, protected as the mode says. Returns the segment with their
    /// copies, if there are any, and the spaces written to.
    async fn protected(&self, copies: Copies) -> (Option<Segment>, Copies, Vec<SpaceId>) {
        let mode = self.dblwr.mode();
        if mode.writes_plainly() {
            let spaces = self.in_place(&copies).await;
            return (None, copies, spaces);
        }
        if mode == DoublewriteMode::Atomic && self.all_atomic(&copies) {
            match self.write_in_place(&copies, Write::Atomic).await {
                Ok(spaces) => {
                    self.pool.counters.pages_written_atomically.add(copies.ids.len() as u64);
                    return (None, copies, spaces);
                }
                Err((page, e)) if e.kind() == io::ErrorKind::Unsupported => {
                    // The refused pages are as they were, and the others are as they should be: all
                    // are written again, and now with copies.
                    self.tell_fallback(page.space, &format!("a write was refused: {e}"));
                }
                Err((page, e)) => self.cannot_write(page, &e),
            }
        }
        let (segment, copies) = self.double(copies).await;
        let spaces = self.in_place(&copies).await;
        (Some(segment), copies, spaces)
    }
    /// Whether the files of all pages write a page as a whole or not at all.
    fn all_atomic(&self, copies: &Copies) -> bool {
        copies.ids.chunk_by(|a, b| a.space == b.space).all(|pages| {
            let Some(file) = self.file(pages[0].space) else { return true };
            let atomic = file.writes_atomically(PAGE_SIZE);
            if !atomic {
                self.tell_fallback(pages[0].space, "its file system offers none");
            }
            atomic
        })
    }
    /// Says once that files have no atomic writes of a page.
    fn tell_fallback(&self, space: SpaceId, why: &str) {
        if !self.told.swap(true, AcqRel) {
            tracing::warn!(
                "{} has no atomic writes of a page ({why}): pages of such files are copied to the \
                 doublewrite file first",
                self.pool.io.describe(space).0
            );
        }
    }
    fn cannot_write(&self, page: PageId, e: &io::Error) -> ! {
        let (file, table) = self.pool.io.describe(page.space);
        poison(&format!("writing page {page} of {file} (table {table}) failed: {e}"))
    }
    /// Makes the copies durable in a segment of the doublewrite files (FLUSH-2).
    async fn double(&self, copies: Copies) -> (Segment, Copies) {
        let segment = loop {
            let (freed, progress) = (self.dblwr.freed.seen(), self.progress.seen());
            if let Some(segment) = self.dblwr.acquire() {
                break segment;
            }
            // FLUSH-3: no segment becomes free before a sync.
            if !self.sync().await {
                crate::sync::event::either(
                    self.dblwr.freed.after(freed),
                    self.progress.after(progress),
                )
                .await;
            }
        };
        let counters = &self.pool.counters;
        counters.dblwr_writes.add(1);
        counters.dblwr_pages_written.add(copies.ids.len() as u64);
        counters.data_written_bytes.add((copies.ids.len() * PAGE_SIZE) as u64);
        counters.data_fsyncs.add(1);
        match self.dblwr.write(&segment, copies).await {
            Ok(copies) => (segment, copies),
            Err(e) => poison(&format!("writing page copies to the doublewrite file failed: {e}")),
        }
    }
    /// The file of a space, or `None` if the space has been dropped.
    fn file(&self, space: SpaceId) -> Option<Arc<dyn File>> {
        self.pool.io.file(space).unwrap_or_else(|e| {
            poison(&format!("pages of space {} cannot be written: {e}", space.0))
        })
    }
    /// Writes the pages to their files, except pages of dropped spaces. Returns the spaces written
    /// to.
    async fn in_place(&self, copies: &Copies) -> Vec<SpaceId> {
        match self.write_in_place(copies, Write::Runs).await {
            Ok(spaces) => spaces,
            Err((page, e)) => self.cannot_write(page, &e),
        }
    }
    /// Fails with the first page that could not be written, after all operations have ended.
    async fn write_in_place(
        &self,
        copies: &Copies,
        how: Write,
    ) -> std::result::Result<Vec<SpaceId>, (PageId, io::Error)> {
        let most = if how == Write::Atomic { 1 } else { MAX_RUN };
        let (mut spaces, mut ops, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let mut first = 0;
        while first < copies.ids.len() {
            let id = copies.ids[first];
            let follows = |n: &usize| {
                copies
                    .ids
                    .get(first + n)
                    .is_some_and(|next| next.space == id.space && next.no == id.no + *n as u32)
            };
            let run = 1 + (1..most).take_while(follows).count();
            if let Some(file) = self.file(id.space) {
                // The last page, as a run may begin with the header, which does not count.
                self.pool.io.written(copies.ids[first + run - 1]);
                let mut buf = if run == 1 { self.pool.spare.lock().pop() } else { None }
                    .unwrap_or_else(|| AlignedBuf::new(run * PAGE_SIZE));
                (0..run).for_each(|n| {
                    buf[n * PAGE_SIZE..][..PAGE_SIZE].copy_from_slice(copies.page(first + n))
                });
                ops.push(Submission {
                    file,
                    op: if how == Write::Atomic { Op::WriteAtomic(buf) } else { Op::Write(buf) },
                    offset: u64::from(id.no) * PAGE_SIZE as u64,
                });
                starts.push(id);
                if spaces.last() != Some(&id.space) {
                    spaces.push(id.space);
                }
                self.pool.counters.data_writes.add(1);
                self.pool.counters.data_written_bytes.add((run * PAGE_SIZE) as u64);
            }
            first += run;
        }
        match submit(ops).await {
            Ok(bufs) => {
                let mut spare = self.pool.spare.lock();
                let room = 128usize.saturating_sub(spare.len());
                spare.extend(bufs.into_iter().filter(|b| b.len() == PAGE_SIZE).take(room));
                Ok(spaces)
            }
            Err((op, e)) => Err((starts[op], e)),
        }
    }

    /// The number of batches that wait for a sync.
    pub(crate) fn unsynced(&self) -> usize {
        self.tickets.lock().len()
    }
    /// Whether enough batches wait for a sync.
    pub(crate) fn sync_due(&self) -> bool {
        self.unsynced()
            >= match self.dblwr.mode().writes_plainly() {
                true => MAX_TICKETS,
                false => self.dblwr.quarter(),
            }
    }
    /// Syncs the data files of all batches written so far, each file once, and finishes the
    /// batches. Returns false if there was nothing to do.
    pub(crate) async fn sync(&self) -> bool {
        let tickets = std::mem::take(&mut *self.tickets.lock());
        if tickets.is_empty() {
            return false;
        }
        let _progress = Progress(self);
        let mut spaces: Vec<SpaceId> = tickets.iter().flat_map(|t| &t.spaces).copied().collect();
        spaces.sort_unstable();
        spaces.dedup();
        self.sync_files(spaces).await;
        for ticket in tickets {
            self.pool.dirty.written(ticket.starts);
            if let Some(segment) = ticket.segment {
                self.dblwr.release(segment);
            }
        }
        true
    }
    /// Makes the writes to the files of these spaces durable.
    pub(crate) async fn sync_files(&self, spaces: Vec<SpaceId>) {
        let files: Vec<_> =
            spaces.into_iter().filter_map(|space| Some((space, self.file(space)?))).collect();
        let counters = &self.pool.counters;
        counters.data_fsyncs.add(files.len() as u64);
        counters.pending_fsyncs.add(1);
        let synced = self.syncs.sync(files.iter().map(|(_, file)| file.clone())).await;
        if let Err((op, e)) = synced {
            poison(&format!("fsync of {} failed: {e}", self.pool.io.describe(files[op].0).0));
        }
        counters.pending_fsyncs.sub(1);
    }
}

/// Wakes the tasks that wait for progress when a batch or a sync ends, in whatever way.
struct Progress<'a>(&'a Writer);
impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.0.progress.notify();
    }
}
