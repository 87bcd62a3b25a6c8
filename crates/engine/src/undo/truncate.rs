//! Undo spaces that shrink again (`innodb_undo_log_truncate`, `innodb_max_undo_log_size`).
//!
//! A space that is longer than allowed is closed, if the other space is not being emptied: none of
//! its pages is handed out any more, and the other space grows. Rollback and purge empty the closed
//! space. Then an empty file takes the place of its file, and the space is opened again.
//!
//! - UCUT-1: the file is replaced only when no undo log in it is needed: all its transactions have
//!   ended, and every open view sees them (UNDO-3). Purge's horizon sees them too, so no walk
//!   follows a roll pointer into the file. (A transaction that was rolled back may go while a
//!   reader waits for its page; the reader looks again.)
//! - UCUT-2: the file is replaced only when the checkpoint has passed the last change of its pages.
//!   Then all these changes are in the old file, no copy in the doublewrite file is younger than
//!   the checkpoint, and the redo log from the checkpoint on has nothing about the old file's
//!   pages. The last stamp of the file is a change of its header like any other, and no stamp is
//!   given meanwhile (REGISTER-4).
//! - UCUT-3: a page of the new file is used only when the file has its name durably.
//!
//! A crash before the rename leaves the old file whole, and a crash after it leaves the new file:
//! recovery needs no record of which one it is (UCUT-2). Undo logs of the old file that were purged
//! already are found and purged again, as after every crash.
use super::{Pages, space_of};
use crate::canary::{Canary, planted};
use crate::engine::Engine;
use crate::space::FIRST_PAGES;
use crate::{Error, Lsn, PAGE_SIZE, PageId, PageNo, Result, SpaceId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

/// The time between two looks whether a space is to be shortened.
const LOOK: Duration = Duration::from_millis(20);
/// The time until the next attempt after a failure.
const PAUSE: Duration = Duration::from_secs(10);

/// The settings and counts of truncation, and the state of the present truncation.
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
    /// No space is closed. After a failure nothing begins before `not_before`.
    Open { not_before: Duration },
    /// A space is closed and still has undo logs that are needed.
    Emptying(usize),
    /// The closed space has no needed logs. The last change of its pages is below the LSN.
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
    /// Switches truncation on or off. When off, files keep their length, and a closed space is
    /// opened again.
    pub fn enable(&self, on: bool) {
        self.enabled.store(on, Relaxed);
    }
    /// The LSN that the checkpoint has to reach (UCUT-2).
    fn waits_for(&self) -> Option<Lsn> {
        if let Step::Empty(_, end) = *self.step.lock() { Some(end) } else { None }
    }
    /// A number that changes when an undo file is about to be replaced.
    pub fn begun(&self) -> u64 {
        self.begun.load(SeqCst)
    }
    /// Sets the length above which a space is shortened.
    pub fn set_max_bytes(&self, bytes: u64) {
        self.max_bytes.store(bytes, Relaxed);
    }
}

impl Pages {
    fn close(&mut self, which: usize) {
        self.closed = Some(which);
        self.growing = 1 - which;
        self.available.retain(|no| space_of(*no) != which);
        self.empty.retain(|no| space_of(*no) != which);
        let of_space = self.all.iter_mut().filter(|(no, _)| space_of(**no) == which);
        of_space.for_each(|(_, p)| (p.offered, p.noted_empty) = (false, false));
    }
    fn open(&mut self) {
        let Some(which) = self.closed.take() else { return };
        let free = |(no, p): (&PageNo, &super::PageState)| {
            (space_of(*no) == which && !p.owned && p.is_worth_it()).then_some(*no)
        };
        let mut free: Vec<PageNo> = self.all.iter().filter_map(free).collect();
        // The pages are offered in order, so that a run of the simulation can be repeated.
        free.sort_unstable();
        free.into_iter().rev().for_each(|no| self.offer(no, true));
    }
    /// Whether no undo log in the closed space is needed, and no thread is adding a page to it.
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

/// The background task of truncation.
pub(crate) async fn run(engine: Arc<Engine>) {
    while !engine.closing.load(Acquire) {
        engine.truncate_undo();
        if let Some(end) = engine.undo.truncation.waits_for()
            && engine.store.log.checkpoint_lsn() < end
        {
            // The checkpoint is moved at the pace of io_capacity.
            let portion =
                engine.flush_settings.io_capacity.get() as u64 * LOOK.as_millis() as u64 / 1000;
            engine.flusher.toward(end, portion.max(1) as usize).await;
        }
        engine.nap(LOOK).await;
    }
}

impl Engine {
    /// Makes one step of truncation, if possible. The background task calls this regularly.
    pub(crate) fn truncate_undo(&self) {
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
                    // A thread that changed a page of the space has said so under this mutex, after
                    // its mini-transaction. So all changes are below the tail.
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
                            "an undo file could not be truncated, and the server \
                             tries again later: {e}"
                        );
                        self.disk.now() + PAUSE
                    }
                };
                self.undo.state.lock().open();
                *step = Step::Open { not_before };
            }
        }
    }
    /// The undo space to shorten: a space with more bytes than allowed, and of two such spaces the
    /// one that does not grow.
    fn too_long(&self, max_bytes: u64) -> Option<usize> {
        let pages = self.undo.state.lock();
        [1 - pages.growing, pages.growing].into_iter().find(|which| {
            let bytes = self
                .store
                .spaces
                .get(SpaceId::UNDO[*which])
                .map_or(0, |s| s.pages() as u64 * PAGE_SIZE as u64);
            // A space without pages in use is as short as possible.
            bytes > max_bytes && pages.spaces[*which].pages > 0
        })
    }
    fn cut_undo(&self, which: usize) -> Result<()> {
        let id = SpaceId::UNDO[which];
        self.runtime.before_blocking();
        self.undo.truncation.begun.fetch_add(1, SeqCst);
        // All pages of the space are clean (UCUT-2).
        let _ = self.store.pool.drop_space(id, Lsn::MAX);
        // No other code wants the space's pages, except code that looks at any page in the pool.
        if let Some(no) =
            (0..FIRST_PAGES).find(|no| self.store.pool.contains(PageId { space: id, no: *no }))
        {
            return Err(Error::Unsupported(format!("page {no} of space {} is in use", id.0)));
        }
        self.store.spaces.replace(id)?;
        self.undo.state.lock().forget(which);
        Ok(())
    }
    /// The bytes of each undo file, and the number of spaces that are not closed.
    pub(crate) fn undo_files(&self) -> ([u64; 2], usize) {
        let bytes = SpaceId::UNDO
            .map(|id| self.store.spaces.get(id).map_or(0, |s| s.pages() as u64 * PAGE_SIZE as u64));
        (bytes, 2 - self.undo.state.lock().closed.is_some() as usize)
    }
    /// Makes the shorter space the growing one, at start, when all undo logs are known.
    pub(crate) fn choose_undo(&self) {
        let ([a, b], _) = self.undo_files();
        self.undo.state.lock().growing = (b < a) as usize;
    }
}
