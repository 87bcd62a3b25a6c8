//! Undo: how to take a change back, for rollback and for readers of older versions.
//!
//! An undo page belongs to one transaction at a time; when that has ended, the next may go on behind its log in the same page. Records of one
//! transaction are linked backwards, rows point at the record that made their newest version. A page whose logs have all been purged starts over.
//! There is no history list on disk: at start the undo space is read once and the logs found in it are put in order (`scan`).
//!
//! - UNDO-1: a page is written by its owner only; readers latch it S.
//! - UNDO-2: an undo record and the row change it undoes are in one mini-transaction.
//! - UNDO-3: a page starts over only when every log in it has ended and been purged.
//! - UNDO-4: undo pages are latched after index and bitmap pages.
pub mod record;

use crate::buf::Latch;
use crate::mtr::{At, Mtr, Store};
use crate::page::{Patch, kind};
use crate::{Lsn, PageId, PageNo, SpaceId, TrxId, Try, space};
use hashbrown::HashMap;
use parking_lot::Mutex;
use record::RollPtr;
use smallvec::SmallVec;

pub fn page_id(no: PageNo) -> PageId {
    PageId { space: SpaceId::UNDO, no }
}

struct PageState {
    /// First free byte.
    used: u16,
    /// Logs (or parts of logs) in the page that have not been purged.
    live: u32,
    owned: bool,
}
/// A page with less room than this is not given to a new transaction.
const WORTH: u16 = 2048;

/// The undo pages of the instance and who has them.
#[derive(Default)]
pub struct UndoPages {
    state: Mutex<Pages>,
}
#[derive(Default)]
struct Pages {
    all: HashMap<PageNo, PageState>,
    /// Pages that a transaction can take, most recently used last.
    available: Vec<PageNo>,
}
/// A page that a transaction writes to.
#[derive(Clone, Copy, Debug)]
struct Current {
    no: PageNo,
    used: u16,
    /// Its old contents are over: the first write initialises it.
    fresh: bool,
}
impl UndoPages {
    fn take(&self) -> Option<Current> {
        let mut s = self.state.lock();
        let no = s.available.pop()?;
        let p = s.all.get_mut(&no).expect("an available page is known");
        let fresh = p.live == 0;
        if fresh {
            p.used = record::FIRST as u16;
        }
        p.owned = true;
        p.live += 1;
        Some(Current { no, used: p.used, fresh })
    }
    /// A transaction lets go of a page it wrote up to `used`.
    fn give_back(&self, no: PageNo, used: u16) {
        let mut s = self.state.lock();
        let p = s.all.get_mut(&no).expect("an owned page is known");
        p.used = used;
        p.owned = false;
        if p.live == 0 || used as usize + WORTH as usize <= crate::PAGE_SIZE {
            s.available.push(no);
        }
    }
    /// A log's part in page `no` is not needed any more.
    pub fn purged(&self, no: PageNo) {
        let mut s = self.state.lock();
        let p = s.all.get_mut(&no).expect("a purged log's page is known");
        p.live -= 1;
        // A page that was too full to be available is so again; one that is available stays.
        if p.live == 0 && !p.owned && p.used as usize + WORTH as usize > crate::PAGE_SIZE {
            s.available.push(no);
        }
    }
    /// Enters a page found at start: `live` logs in it have to be purged or rolled back.
    pub fn enter(&self, no: PageNo, used: u16, live: u32) {
        let mut s = self.state.lock();
        s.all.insert(no, PageState { used, live, owned: false });
        if live == 0 || used as usize + WORTH as usize <= crate::PAGE_SIZE {
            s.available.push(no);
        }
    }
    /// Adds a page to the undo space, in a mini-transaction of its own.
    pub fn grow(&self, store: &Store) -> Try<()> {
        let mut m = Mtr::begin_reserved(store)?;
        let free = space::reserve(&mut m, SpaceId::UNDO, 1, 0)?;
        let no = free.pages[0];
        let at = m.create(page_id(no))?;
        free.take(&mut m);
        m.init(at);
        m.patch(at).write_u16(12, kind::UNDO);
        m.commit();
        self.enter(no, record::FIRST as u16, 0);
        Ok(())
    }
    /// Pages known, pages with live logs.
    pub fn counts(&self) -> (usize, usize) {
        let s = self.state.lock();
        (s.all.len(), s.all.values().filter(|p| p.live > 0).count())
    }
}

/// One transaction's undo log.
#[derive(Default)]
pub struct UndoLog {
    current: Option<Current>,
    /// Page and offset of the LOG entry.
    first: Option<(PageNo, u16)>,
    /// All its pages, in order.
    pub pages: SmallVec<[PageNo; 2]>,
    /// Its latest record that has not been rolled back.
    pub last: RollPtr,
    pub count: u32,
    /// An undo page that lies ready for a record that the current one has no room for.
    next: Option<Current>,
}
/// Room for one undo record, its page latched in the mini-transaction.
pub struct Slot {
    at: At,
    no: PageNo,
    /// Where the record goes.
    offset: usize,
    entry: SmallVec<[u8; 20]>,
    fresh: bool,
}
impl Slot {
    /// The roll pointer that the row will carry.
    pub fn roll(&self, insert: bool) -> RollPtr {
        RollPtr::new(self.no, self.offset, insert)
    }
}

impl UndoLog {
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
    pub fn head(&self, table: u64) -> record::Head {
        record::Head { undo_no: self.count, before: self.last, table }
    }
    /// Whether a record of `len` bytes can be written without [`UndoLog::make_room`].
    pub fn has_room(&self, len: usize) -> bool {
        let fits = |c: &Current, begin: usize| c.used as usize + begin + len + 2 <= crate::PAGE_SIZE;
        self.current.as_ref().is_some_and(|c| fits(c, 0)) || self.next.as_ref().is_some_and(|c| fits(c, record::LOG_LEN))
    }
    /// Sees to it that a record of `len` bytes has a page: call before the mini-transaction begins. May take or add a page.
    pub fn make_room(&mut self, store: &Store, pages: &UndoPages, len: usize) -> Try<()> {
        assert!(len <= record::MAX, "an undo record fits a page");
        if self.has_room(len) {
            return Ok(());
        }
        let fits = |c: &Current| c.used as usize + record::LOG_LEN + len + 2 <= crate::PAGE_SIZE;
        if let Some(c) = self.next.take() {
            // Too full for this record: somebody else's.
            self.return_unused(pages, c);
        }
        let mut unfit: SmallVec<[Current; 4]> = SmallVec::new();
        let found = loop {
            match pages.take() {
                Some(c) if fits(&c) => break Ok(c),
                Some(c) => unfit.push(c),
                None => {
                    if let Err(e) = pages.grow(store) {
                        break Err(e);
                    }
                }
            }
        };
        for c in unfit {
            self.return_unused(pages, c);
        }
        self.next = Some(found?);
        Ok(())
    }
    fn return_unused(&self, pages: &UndoPages, c: Current) {
        let mut s = pages.state.lock();
        let p = s.all.get_mut(&c.no).expect("an owned page is known");
        p.live -= 1;
        p.owned = false;
        s.available.insert(0, c.no);
    }
    /// Latches the page for a record of `len` bytes. [`UndoLog::make_room`] has been called for it.
    pub fn reserve(&self, m: &mut Mtr<'_>, trx: TrxId, len: usize) -> Try<Slot> {
        let here = self.current.filter(|c| c.used as usize + len + 2 <= crate::PAGE_SIZE);
        let c = here.or(self.next).expect("make_room comes before reserve");
        let at = if c.fresh { m.create(page_id(c.no))? } else { m.x(page_id(c.no))? };
        let entry: SmallVec<[u8; 20]> = match (here, self.first) {
            (Some(_), _) => SmallVec::new(),
            (None, None) => SmallVec::from_slice(&record::log_entry(trx)),
            (None, Some(_)) => SmallVec::from_slice(&record::more_entry(trx)),
        };
        Ok(Slot { at, no: c.no, offset: c.used as usize + entry.len(), entry, fresh: c.fresh })
    }
    /// Writes the record: a change.
    pub fn write(&mut self, m: &mut Mtr<'_>, pages: &UndoPages, slot: Slot, bytes: &[u8], roll: RollPtr) {
        if slot.fresh {
            m.init(slot.at);
            m.patch(slot.at).write_u16(12, kind::UNDO);
        }
        let start = slot.offset - slot.entry.len();
        // A page that starts over has zeros behind; one that goes on may not: the end mark is written with the record.
        m.patch(slot.at).write_parts(start, &[&slot.entry, bytes, &[0, 0]]);
        if !slot.entry.is_empty() {
            if let Some(old) = self.current.take() {
                pages.give_back(old.no, old.used);
            }
            self.current = self.next.take();
            self.pages.push(slot.no);
            if self.first.is_none() {
                self.first = Some((slot.no, start as u16));
            }
        }
        let c = self.current.as_mut().expect("a page is held");
        c.used = (slot.offset + bytes.len()) as u16;
        c.fresh = false;
        self.last = roll;
        self.count += 1;
    }
    /// Writes the log's end: committed with its number, or rolled back. Returns the position that makes it durable.
    pub fn finish(&self, store: &Store, state: u8, no: u64) -> Try<Option<Lsn>> {
        let Some((page, at)) = self.first else { return Ok(None) };
        let mut m = Mtr::begin_reserved(store)?;
        let p = m.x(page_id(page))?;
        let mut b = [state; 9];
        b[1..].copy_from_slice(&no.to_le_bytes());
        m.patch(p).write(at as usize + record::STATE_AT, &b);
        Ok(Some(m.commit()))
    }
    /// Lets go of the pages. The log's parts stay live in them until [`UndoPages::purged`].
    pub fn release(&mut self, pages: &UndoPages) {
        if let Some(c) = self.current.take() {
            pages.give_back(c.no, c.used);
        }
        if let Some(c) = self.next.take() {
            self.return_unused(pages, c);
        }
    }
    /// A log found at start, to be rolled back.
    pub fn recovered(first: (PageNo, u16), pages: SmallVec<[PageNo; 2]>, last: RollPtr, count: u32) -> UndoLog {
        UndoLog { current: None, first: Some(first), pages, last, count, next: None }
    }
    pub fn first(&self) -> Option<(PageNo, u16)> {
        self.first
    }
}

/// Reads the undo record that `roll` points at.
pub fn read<R>(store: &Store, roll: RollPtr, f: impl FnOnce(Option<record::Entry<'_>>) -> R) -> Try<R> {
    let g = store.pool.fix(page_id(roll.page()), Latch::S)?;
    Ok(f(record::parse(&g[..], roll.at())))
}
