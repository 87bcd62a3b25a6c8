//! Undo: how to take a change back, for rollback and for readers of older versions.
//!
//! An undo page belongs to one transaction at a time; when that has ended, the next may go on behind its log in the same page. Records of one
//! transaction are linked backwards, rows point at the record that made their newest version. A page whose logs have all been purged starts over.
//! There is no history list on disk: at start the undo spaces are read once and the logs found in them are put in order (`scan`).
//!
//! There are two undo spaces, so that one of them can be emptied and made short while the other one serves ([`truncate`]). A page's number here has
//! its space in the highest bit: so roll pointers, lists and links need not say it.
//!
//! - UNDO-1: a page is written by its owner only; readers latch it S.
//! - UNDO-2: an undo record and the row change it undoes are in one mini-transaction.
//! - UNDO-3: a page starts over only when every log in it has ended and been purged.
//! - UNDO-4: undo pages are latched after index and bitmap pages.
pub mod record;
pub mod truncate;

use crate::buf::Latch;
use crate::mtr::{At, Mtr, Store};
use crate::page::{Patch, kind};
use crate::{Lsn, PageId, PageNo, SpaceId, TrxId, Try, space};
use hashbrown::HashMap;
use parking_lot::Mutex;
use record::RollPtr;
use smallvec::SmallVec;

/// The bit of a page's number that says in which of the two spaces it is.
const SECOND: PageNo = 1 << 31;
/// Which of the undo spaces a page is in.
fn space_of(no: PageNo) -> usize {
    (no / SECOND) as usize
}
/// The number under which page `no` of undo space `which` is known.
pub fn number(which: usize, no: PageNo) -> PageNo {
    assert!(no < SECOND);
    which as PageNo * SECOND + no
}
pub fn page_id(no: PageNo) -> PageId {
    PageId { space: SpaceId::UNDO[space_of(no)], no: no % SECOND }
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
impl PageState {
    /// Whether a transaction can take it when nobody owns it.
    fn is_worth_it(&self) -> bool {
        self.live == 0 || self.used as usize + WORTH as usize <= crate::PAGE_SIZE
    }
}

/// The undo pages of the instance and who has them.
#[derive(Default)]
pub struct UndoPages {
    state: Mutex<Pages>,
    pub truncation: std::sync::Arc<truncate::Truncation>,
}
#[derive(Default)]
struct Pages {
    all: HashMap<PageNo, PageState>,
    /// Pages that a transaction can take, most recently used last.
    available: Vec<PageNo>,
    /// How much of each space is needed.
    spaces: [Used; 2],
    /// The space that grows when no page is available.
    growing: usize,
    /// The space of which no page is handed out.
    closed: Option<usize>,
}
#[derive(Clone, Copy, Default)]
struct Used {
    pages: usize,
    /// Pages with logs that are needed.
    live: usize,
    /// Mini-transactions under way that add a page.
    adding: usize,
}
impl Pages {
    fn page(&mut self, no: PageNo) -> &mut PageState {
        self.all.get_mut(&no).expect("an undo page in use is known")
    }
    /// Page `no` gets one log more.
    fn need(&mut self, no: PageNo) {
        let p = self.page(no);
        p.live += 1;
        if p.live == 1 {
            self.spaces[space_of(no)].live += 1;
        }
    }
    /// One less; how many it has now.
    fn forgo(&mut self, no: PageNo) -> u32 {
        let p = self.page(no);
        p.live -= 1;
        let left = p.live;
        if left == 0 {
            self.spaces[space_of(no)].live -= 1;
        }
        left
    }
    fn is_open(&self, no: PageNo) -> bool {
        self.closed != Some(space_of(no))
    }
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
        let p = s.page(no);
        let fresh = p.live == 0;
        if fresh {
            p.used = record::FIRST as u16;
        }
        p.owned = true;
        let used = p.used;
        s.need(no);
        Some(Current { no, used, fresh })
    }
    /// A transaction lets go of a page it wrote up to `used`.
    fn give_back(&self, no: PageNo, used: u16) {
        let mut s = self.state.lock();
        let p = s.page(no);
        p.used = used;
        p.owned = false;
        if p.is_worth_it() && s.is_open(no) {
            s.available.push(no);
        }
    }
    /// A log's part in page `no` is not needed any more.
    pub fn purged(&self, no: PageNo) {
        let mut s = self.state.lock();
        let left = s.forgo(no);
        let p = s.page(no);
        // A page that was too full to be available is so again; one that is available stays.
        if left == 0 && !p.owned && p.used as usize + WORTH as usize > crate::PAGE_SIZE && s.is_open(no) {
            s.available.push(no);
        }
    }
    /// Enters a page found at start: `live` logs in it have to be purged or rolled back.
    pub fn enter(&self, no: PageNo, used: u16, live: u32) {
        let mut s = self.state.lock();
        let p = PageState { used, live, owned: false };
        let offer = p.is_worth_it() && s.is_open(no);
        s.all.insert(no, p);
        let space = &mut s.spaces[space_of(no)];
        space.pages += 1;
        space.live += (live > 0) as usize;
        if offer {
            s.available.push(no);
        }
    }
    /// Adds a page to an undo space, in a mini-transaction of its own.
    pub fn grow(&self, store: &Store) -> Try<()> {
        let which = {
            let mut s = self.state.lock();
            let which = s.growing;
            s.spaces[which].adding += 1;
            which
        };
        let added = self.add(store, which);
        self.state.lock().spaces[which].adding -= 1;
        added
    }
    fn add(&self, store: &Store, which: usize) -> Try<()> {
        let mut m = Mtr::begin_reserved(store)?;
        let free = space::reserve(&mut m, SpaceId::UNDO[which], 1, 0)?;
        let no = number(which, free.pages[0]);
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
        s.forgo(c.no);
        s.page(c.no).owned = false;
        if s.is_open(c.no) {
            s.available.insert(0, c.no);
        }
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
