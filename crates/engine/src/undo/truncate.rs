//! Undo spaces that shrink again (`innodb_undo_log_truncate`, `innodb_max_undo_log_size`).
//!
//! When a space is longer than it may be, and the other one is not being emptied, it is closed:
//! none of its pages is handed out, the other space grows. Rollback and purge empty it. Then an
//! empty file takes its place, and it is open again.
//!
//! - UCUT-1: the file goes only when no log in it is needed: all its transactions have ended, and
//!   every open view sees them (UNDO-3). Purge's horizon sees them too, so nobody follows a roll
//!   pointer into it. (One that was rolled back may go while a reader waits for its page: it looks
//!   again.)
//! - UCUT-2: it goes only when the checkpoint has passed the last change of its pages: so all of
//!   them are in the old file, no copy in the doublewrite file is younger than the checkpoint, and
//!   redo says nothing of the old file's pages.
//!   The last stamp of the file is a change of its header like any other, and none is given
//!   meanwhile (REGISTER-4).
//! - UCUT-3: a page of the new file is used only when the file has its name durably.
//!
//! A crash before the rename leaves the old file whole, one after it the new one: recovery needs
//! nothing to tell it which (UCUT-2). Logs of the old file that were purged are found and purged
//! again, as always.
use super::{Pages, space_of};
use crate::canary::{Canary, planted};
use crate::engine::Engine;
use crate::space::FIRST_PAGES;
use crate::{Error, Lsn, PAGE_SIZE, PageId, PageNo, Result, SpaceId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

/// How often it is looked whether a space is to be made shorter.
const LOOK: Duration = Duration::from_millis(20);
/// Until it is tried again after a failure.
const PAUSE: Duration = Duration::from_secs(10);

/// Settings, counts, and how far the present truncation is.
pub struct Truncation {
    enabled: AtomicBool,
    max_bytes: AtomicU64,
    pub count: AtomicU64,
    pub time_us: AtomicU64,
    /// How often a file was about to be replaced.
    begun: AtomicU64,
    step: Mutex<Step>,
}
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Nothing is closed. After a failure, not before this time.
    Open { not_before: Duration },
    /// A space is closed and has logs that are needed.
    Emptying(usize),
    /// It has none; the last change of its pages is below the LSN.
    Empty(usize, Lsn),
}
impl Default for Truncation {
    fn default() -> Truncation {
        Truncation {
            enabled: AtomicBool::new(true),
            max_bytes: AtomicU64::new(1 << 30),
            count: AtomicU64::new(0),
            time_us: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            step: Mutex::new(Step::Open { not_before: Duration::ZERO }),
        }
    }
}
impl Truncation {
    /// Off: files keep their length; a space that is closed for it is opened again.
    pub fn enable(&self, on: bool) {
        self.enabled.store(on, Relaxed);
    }
    /// Where the checkpoint has to come (UCUT-2).
    fn waits_for(&self) -> Option<Lsn> {
        if let Step::Empty(_, end) = *self.step.lock() { Some(end) } else { None }
    }
    /// A different number than before: in between an undo file was, or is about to be, replaced.
    pub fn begun(&self) -> u64 {
        self.begun.load(SeqCst)
    }
    /// The length from which on a space is made short.
    pub fn set_max_bytes(&self, bytes: u64) {
        self.max_bytes.store(bytes, Relaxed);
    }
}

impl Pages {
    fn close(&mut self, which: usize) {
        self.closed = Some(which);
        self.growing = 1 - which;
        self.available.retain(|no| space_of(*no) != which);
    }
    fn open(&mut self) {
        let Some(which) = self.closed.take() else { return };
        let free = |(no, p): (&PageNo, &super::PageState)| {
            (space_of(*no) == which && !p.owned && p.is_worth_it()).then_some(*no)
        };
        let mut free: Vec<PageNo> = self.all.iter().filter_map(free).collect();
        // In order, so that a simulation's run can be repeated.
        free.sort_unstable();
        self.available.splice(0..0, free);
    }
    /// Nothing in the closed space is needed, and nobody adds to it.
    fn is_empty(&self, which: usize) -> bool {
        self.spaces[which].live == 0 && self.spaces[which].adding == 0
    }
    fn forget(&mut self, which: usize) {
        assert!(self.closed == Some(which) && self.is_empty(which), "UCUT-1");
        self.all.retain(|no, _| space_of(*no) != which);
        self.unread.retain(|no| space_of(*no) != which);
        self.spaces[which].pages = 0;
    }
}

/// The background task.
pub(crate) async fn run(engine: Arc<Engine>) {
    while !engine.closing.load(Acquire) {
        engine.truncate_undo();
        if let Some(end) = engine.undo.truncation.waits_for()
            && engine.store.log.checkpoint_lsn() < end
        {
            // At the pace of io_capacity.
            let portion =
                engine.flush_settings.io_capacity.get() as u64 * LOOK.as_millis() as u64 / 1000;
            engine.flusher.toward(end, portion.max(1) as usize).await;
        }
        engine.nap(LOOK).await;
    }
}

impl Engine {
    /// One step, if one can be made now. The background task takes them by itself.
    pub fn truncate_undo(&self) {
        let t = &self.undo.truncation;
        let mut step = t.step.lock();
        let enabled = t.enabled.load(Relaxed);
        match *step {
            Step::Open { not_before } => {
                if enabled
                    && self.disk.now() >= not_before
                    && let Some(which) = self.too_long(t.max_bytes.load(Relaxed))
                {
                    self.undo.state.lock().close(which);
                    *step = Step::Emptying(which);
                }
            }
            Step::Emptying(_) | Step::Empty(..) if !enabled => {
                self.undo.state.lock().open();
                *step = Step::Open { not_before: Duration::ZERO };
            }
            Step::Emptying(which) => {
                let pages = self.undo.state.lock();
                if pages.is_empty(which) {
                    // Whoever changed a page of it has said so under this mutex after its
                    // mini-transaction.
                    *step = Step::Empty(which, self.store.log.tail());
                }
            }
            Step::Empty(which, end) => {
                let Some(_stamping) = self.store.spaces.try_stamping() else { return };
                let stamped =
                    self.store.spaces.get(SpaceId::UNDO[which]).map_or(Lsn(0), |s| s.stamp_end());
                let end = end.max(stamped);
                *step = Step::Empty(which, end);
                if self.store.log.checkpoint_lsn() < end && !planted(Canary::UndoCutEarly) {
                    return;
                }
                let begun = self.disk.now();
                let not_before = match self.cut_undo(which) {
                    Ok(()) => {
                        t.count.fetch_add(1, Relaxed);
                        t.time_us.fetch_add((self.disk.now() - begun).as_micros() as u64, Relaxed);
                        Duration::ZERO
                    }
                    Err(e) => {
                        tracing::warn!(
                            "an undo file could not be truncated, the server tries \
                             again later: {e}"
                        );
                        self.disk.now() + PAUSE
                    }
                };
                self.undo.state.lock().open();
                *step = Step::Open { not_before };
            }
        }
    }
    /// The undo space to shorten: one with more bytes than it may have, first the one that does not
    /// grow.
    fn too_long(&self, max_bytes: u64) -> Option<usize> {
        let pages = self.undo.state.lock();
        [1 - pages.growing, pages.growing].into_iter().find(|which| {
            let bytes = self
                .store
                .spaces
                .get(SpaceId::UNDO[*which])
                .map_or(0, |s| s.pages() as u64 * PAGE_SIZE as u64);
            // One that holds nothing is as short as it gets.
            bytes > max_bytes && pages.spaces[*which].pages > 0
        })
    }
    fn cut_undo(&self, which: usize) -> Result<()> {
        let id = SpaceId::UNDO[which];
        self.runtime.before_blocking();
        self.undo.truncation.begun.fetch_add(1, SeqCst);
        // All its pages are clean (UCUT-2).
        let _ = self.store.pool.drop_space(id, Lsn::MAX);
        // Nobody wants its pages, but for those who look at whatever is in the pool.
        if let Some(no) =
            (0..FIRST_PAGES).find(|no| self.store.pool.contains(PageId { space: id, no: *no }))
        {
            return Err(Error::Unsupported(format!("page {no} of space {} is in use", id.0)));
        }
        self.store.spaces.replace(id)?;
        self.undo.state.lock().forget(which);
        Ok(())
    }
    /// Bytes of each undo file; and how many of the spaces are in use, that is not closed.
    pub fn undo_files(&self) -> ([u64; 2], usize) {
        let bytes = SpaceId::UNDO
            .map(|id| self.store.spaces.get(id).map_or(0, |s| s.pages() as u64 * PAGE_SIZE as u64));
        (bytes, 2 - self.undo.state.lock().closed.is_some() as usize)
    }
    /// At start, when all logs are known: the shorter space grows.
    pub(crate) fn choose_undo(&self) {
        let ([a, b], _) = self.undo_files();
        self.undo.state.lock().growing = (b < a) as usize;
    }
}
