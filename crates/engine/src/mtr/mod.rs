//! Mini-transactions: the unit in which pages change. A crash keeps all changes of a
//! mini-transaction or none.
//!
//! The order of a logged change:
//! 1. [`Mtr::begin`] takes log credit. [`Mtr::x`] latches every page that will change, and
//!    [`Mtr::create`] takes a buffer frame for each new page, in latch order. Each of these calls
//!    may return a `WouldBlock`; the caller then drops the mini-transaction, which releases
//!    everything, and nothing has changed.
//! 2. Changes go through [`Mtr::patch`]. They cannot fail, and go to the page and to the redo frame
//!    alike.
//! 3. [`Mtr::commit`] appends the redo frame to the redo log. The page LSNs are stamped and the
//!    pages enter the dirty index before the frame counts as closed. Then the latches are released.
//!
//! - MTR-1: after its first change a mini-transaction latches no further page and is committed,
//!   never dropped.
//! - MTR-2: a redo frame has at most [`MAX_FRAME`] bytes, or [`COMMIT_FRAME`] and a record's, for
//!   which credit was taken.
//! - MTR-3: a thread that takes credit holds none: otherwise its second request could wait for ever
//!   for the credit that the thread itself holds.
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub mod record;

use crate::buf::{BufferPool, Latch, PageGuard};
use crate::commit_stream::{CommitStream, StreamRecord};
use crate::log::{Credit, FRAME_HEADER, Log};
use crate::page::Patch;
use crate::page::index::Page;
use crate::space::Spaces;
use crate::{Lsn, PageId, PageNo, Try, WouldBlock};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The most bytes of redo of one mini-transaction: a split writes three whole pages and some more.
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub const MAX_FRAME: usize = 5 * crate::PAGE_SIZE;
/// The most bytes of a frame that marks a transaction as committed, without the record that travels
/// with the commit.
pub(crate) const COMMIT_FRAME: usize = 256;

/// The pages, and the redo log that protects them.
pub struct Store {
    pub log: Arc<Log>,
    pub pool: Arc<BufferPool>,
    pub spaces: Arc<Spaces>,
    pub shape: crate::btree::structure::Shape,
    /// The receiver of the records that travel with commits.
    pub stream: Arc<dyn CommitStream>,
}

struct Held {
    guard: PageGuard,
    dirty: bool,
}
/// A page that a mini-transaction holds X-latched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At(usize);

pub struct Mtr<'s> {
    store: &'s Store,
    credit: Option<Credit<'s>>,
    reserved: bool,
    pages: SmallVec<[Held; 6]>,
    frame: Vec<u8>,
    /// The page of the frame's last records.
    current: Option<At>,
}

thread_local! {
    /// Memory of finished frames, for use again.
    static FRAMES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    /// The credits that this thread holds, in debug builds (MTR-3).
    static CREDITS: Cell<i32> = const { Cell::new(0) };
}
fn note_credit(change: i32) {
    if cfg!(debug_assertions) {
        CREDITS.set(CREDITS.get() + change);
    }
}
fn assert_no_credit() {
    debug_assert_eq!(CREDITS.get(), 0, "MTR-3: a thread that takes credit holds none");
}

impl<'s> Mtr<'s> {
    pub fn begin(store: &'s Store) -> Try<Mtr<'s>> {
        let credit = Self::credit(store, false)?;
        Ok(Self::with_credit(store, credit, false))
    }
    /// Begins a mini-transaction for rollback, undo or the clean-up of DDL, which must go on when
    /// the redo log is full for other work.
    pub fn begin_reserved(store: &'s Store) -> Try<Mtr<'s>> {
        let credit = Self::credit(store, true)?;
        Ok(Self::with_credit(store, credit, true))
    }
    fn credit(store: &'s Store, reserved: bool) -> Try<Credit<'s>> {
        assert_no_credit();
        if !reserved {
            return store.log.credit(MAX_FRAME);
        }
        // Only a lack of redo log space becomes a wait for the reserve. A frame that is too large
        // for the buffer must fail, not wait.
        store.log.credit_reserved(MAX_FRAME).map_err(|blocked| match blocked {
            WouldBlock::LogSpace(bytes) => WouldBlock::LogReserve(bytes),
            other => other,
        })
    }
    /// Begins a mini-transaction whose frame is a commit with a record of `len` bytes.
    pub fn begin_commit(store: &'s Store, len: usize) -> Try<Mtr<'s>> {
        assert_no_credit();
        let credit = store.log.credit(COMMIT_FRAME + len)?;
        Ok(Self::with_credit(store, credit, false))
    }
    /// Appends a short record for which the checkpoint waits, if there is room now.
    pub fn append_last(store: &'s Store, record: &[u8]) -> Try<Lsn> {
        assert_no_credit();
        let credit = store.log.credit_last(COMMIT_FRAME + record.len())?;
        Ok(Self::with_credit(store, credit, true).commit_with(Some(StreamRecord::new(record))))
    }
    /// Appends a record that belongs to no transaction.
    pub fn append_record(store: &'s Store, record: &[u8]) -> Try<Lsn> {
        let m = Self::begin_commit(store, record.len())?;
        Ok(m.commit_with(Some(StreamRecord::new(record))))
    }
    fn with_credit(store: &'s Store, credit: Credit<'s>, reserved: bool) -> Mtr<'s> {
        note_credit(1);
        let mut frame = FRAMES.with_borrow_mut(|f| f.pop()).unwrap_or_default();
        frame.clear();
        frame.resize(FRAME_HEADER, 0);
        Mtr { store, credit: Some(credit), reserved, pages: SmallVec::new(), frame, current: None }
    }
    pub fn store(&self) -> &'s Store {
        self.store
    }
    /// Latches a page for change. For a page that is held already it returns the place of that
    /// page.
    pub fn x(&mut self, id: PageId) -> Try<At> {
        if let Some(i) = self.pages.iter().position(|h| h.guard.id() == id) {
            return Ok(At(i));
        }
        let guard = self.store.pool.fix(id, Latch::X)?;
        Ok(self.hold(guard))
    }
    pub fn holds(&self, id: PageId) -> bool {
        self.pages.iter().any(|h| h.guard.id() == id)
    }
    /// Takes over an X guard.
    pub fn hold(&mut self, guard: PageGuard) -> At {
        self.assert_unchanged();
        self.pages.push(Held { guard, dirty: false });
        At(self.pages.len() - 1)
    }
    /// Takes a buffer frame for a page whose contents on disk do not matter. [`Mtr::init`] must be
    /// its first change.
    pub fn create(&mut self, id: PageId) -> Try<At> {
        let guard = self.store.pool.create(id)?;
        Ok(self.hold(guard))
    }
    /// Releases everything, runs `other`, which uses mini-transactions of its own, and takes new
    /// credit (MTR-3). After an error the mini-transaction may only be dropped.
    pub fn step_aside(&mut self, other: impl FnOnce(&'s Store) -> Try<()>) -> Try<()> {
        self.release_all();
        self.credit = None;
        note_credit(-1);
        other(self.store)?;
        self.credit = Some(Self::credit(self.store, self.reserved)?);
        note_credit(1);
        Ok(())
    }
    /// Releases all latches. Nothing may have been changed.
    fn release_all(&mut self) {
        self.assert_unchanged();
        self.pages.clear();
    }
    fn assert_unchanged(&self) {
        assert!(self.frame.len() == FRAME_HEADER, "MTR-1: no latch after the first change");
    }
    pub fn id(&self, at: At) -> PageId {
        self.pages[at.0].guard.id()
    }
    pub fn page(&self, at: At) -> &Page {
        &self.pages[at.0].guard
    }
    pub fn page_no(&self, at: At) -> PageNo {
        self.pages[at.0].guard.id().no
    }
    pub fn patch(&mut self, at: At) -> PagePatch<'_, 's> {
        PagePatch { mtr: self, at }
    }
    /// Makes the page all zeros.
    pub fn init(&mut self, at: At) {
        self.enter(at);
        record::put_init(&mut self.frame);
        let id = self.id(at);
        record::init_page(self.pages[at.0].guard.bytes_mut(), id);
    }
    /// Records in the redo log that the file of `space` is being made or dropped. If a crash leaves
    /// a file with this number which no table owns, recovery may remove the file.
    pub fn note_file(&mut self, space: crate::SpaceId) {
        record::put_file(&mut self.frame, space);
    }
    fn enter(&mut self, at: At) {
        if self.current != Some(at) {
            let held = &mut self.pages[at.0];
            held.dirty = true;
            record::put_page(&mut self.frame, held.guard.id(), held.guard.lsn());
            self.current = Some(at);
        }
    }
    /// Appends the redo frame to the redo log. Returns the position behind the frame: the changes
    /// are durable when the redo log is durable up to there.
    pub fn commit(self) -> Lsn {
        self.commit_with(None)
    }
    /// As `commit`, with a record that travels with the commit.
    pub(crate) fn commit_with(mut self, record: Option<StreamRecord<'_>>) -> Lsn {
        let credit = self.credit.take().expect("committed once");
        note_credit(-1);
        if let Some(record) = record {
            record::put_commit(&mut self.frame, record.bytes);
        }
        if self.frame.len() == FRAME_HEADER {
            return self.store.log.tail();
        }
        let len = self.frame.len();
        assert!(len as u64 <= credit.bytes(), "MTR-2: {len} bytes of redo");
        let (pages, stream) = (&mut self.pages, &self.store.stream);
        let end = self.store.log.append(
            &mut self.frame,
            credit,
            |start, end| {
                if let Some(record) = record {
                    stream.appended(start, end, record.bytes, record.hidden);
                }
            },
            |start, end| {
                for h in pages.iter_mut().filter(|h| h.dirty) {
                    h.guard.mark_dirty(start, end);
                }
            },
        );
        self.current = None;
        end
    }
}
impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        if self.current.is_some() {
            // The latches go with this value, and others would read, log and write pages with half
            // a change, or wait for a frame whose bytes never come.
            crate::base::abort_if_panicking();
            if !std::thread::panicking() {
                crate::poison("MTR-1: a mini-transaction was dropped after its first change");
            }
        }
        if self.credit.is_some() {
            note_credit(-1);
        }
        let frame = std::mem::take(&mut self.frame);
        FRAMES.with_borrow_mut(|f| {
            if f.len() < 4 && frame.capacity() <= 2 * MAX_FRAME {
                f.push(frame);
            }
        });
    }
}

/// One held page, open for change.
pub struct PagePatch<'m, 's> {
    mtr: &'m mut Mtr<'s>,
    at: At,
}
impl Patch for PagePatch<'_, '_> {
    fn bytes(&self) -> &Page {
        self.mtr.page(self.at)
    }
    fn write(&mut self, at: usize, data: &[u8]) {
        self.write_parts(at, &[data]);
    }
    fn write_parts(&mut self, at: usize, parts: &[&[u8]]) {
        self.mtr.enter(self.at);
        record::put_write(&mut self.mtr.frame, at, parts);
        let page = self.mtr.pages[self.at.0].guard.bytes_mut();
        let mut to = at;
        for b in parts {
            page[to..to + b.len()].copy_from_slice(b);
            to += b.len();
        }
    }
}
