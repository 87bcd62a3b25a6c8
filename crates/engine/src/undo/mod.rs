//! Undo: the information to take a change back, for rollback and for readers of older versions.
//!
//! An undo page belongs to one transaction at a time. When this transaction has ended, the next may
//! write its undo log behind the first log in the same page. The records of one transaction are
//! linked backwards, and each row points to the record that made its newest version. A page starts
//! over when all its logs have been purged.
//!
//! The history (the undo logs of committed transactions that purge still has to process) is in the
//! pages themselves, and nowhere else: a page's logs lie in the order in which their owners
//! released the page. Memory only has, for each page, how far purge has read it
//! ([`UndoPages::next_to_read`]), so memory grows with the number of pages and not with the number
//! of transactions. A log that continues in another page is long: purge skips it in the pages, and
//! has an entry for it in memory. A start reads the undo spaces once.
//!
//! There are two undo spaces, so that one of them can be emptied and shortened while the other one
//! serves ([`truncate`]). The page numbers of this module have the space in the highest bit, so
//! that roll pointers, lists and links need not name the space.
//!
//! - UNDO-1: only its owner writes to a page; readers latch it S.
//! - UNDO-2: an undo record and the row change that it undoes are in the same mini-transaction.
//! - UNDO-3: a page starts over only when every undo log in it has ended and been purged.
//! - UNDO-4: undo pages are latched after index and bitmap pages.
//! - UNDO-5: up to the place where its last owner released it, a page holds only undo logs that
//!   have ended, and long logs. If purge has not read all of this part, the page is listed.
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub mod record;
pub(crate) mod truncate;

use crate::buf::Latch;
use crate::commit_stream::StreamRecord;
use crate::mtr::{At, Mtr, Store};
use crate::page::{Patch, kind};
use crate::{Error, Lsn, PageId, PageNo, SpaceId, TrxId, Try, space};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use record::RollPtr;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// The bit of a page's number that is set for pages of the second space.
const SECOND: PageNo = 1 << 31;
/// The undo space of a page: 0 or 1.
fn space_of(no: PageNo) -> usize {
    (no / SECOND) as usize
}
/// The number of page `no` of undo space `which` in this module.
pub(crate) fn number(which: usize, no: PageNo) -> PageNo {
    assert!(no < SECOND);
    which as PageNo * SECOND + no
}
pub(crate) fn page_id(no: PageNo) -> PageId {
    PageId { space: SpaceId::UNDO[space_of(no)], no: no % SECOND }
}

struct PageState {
    /// The first free byte at the time when the last owner released the page.
    used: u16,
    /// Purge has read the page up to here.
    read: u16,
    /// The number of undo logs, or parts of logs, in the page that have not been purged; plus one
    /// while purge reads the page.
    live: u32,
    owned: bool,
    /// Whether a transaction may take the page: it is in [`Pages::available`].
    offered: bool,
    /// Whether the page is in [`Pages::empty`].
    noted_empty: bool,
    /// Whether the page is in the list of pages to read, or purge is reading it (UNDO-5).
    listed: bool,
    /// The offsets at which long undo logs begin, in the part that purge has not read.
    long: SmallVec<[u16; 4]>,
}
/// A part of a page for purge to read.
pub struct Unread {
    pub no: PageNo,
    pub from: u16,
    pub to: u16,
    /// The offsets at which long undo logs begin in this part.
    pub long: SmallVec<[u16; 4]>,
}
/// A page with less room than this is not given to a new transaction.
const WORTH: u16 = 2048;
/// The most records of a transaction: the records of one more page have numbers, too.
const MOST_RECORDS: u32 = u32::MAX - crate::PAGE_SIZE as u32;
/// How many pages are tried that may have room for a record. The next one is an empty page: among
/// thousands of pages with some room, none may have enough.
const TRIES: usize = 4;
impl PageState {
    /// Whether a transaction may take the page when it has no owner.
    fn is_worth_it(&self) -> bool {
        self.live == 0 || self.used as usize + WORTH as usize <= crate::PAGE_SIZE
    }
}

/// The undo pages of the instance, and the state of each.
#[derive(Default)]
pub struct UndoPages {
    state: Mutex<Pages>,
    pub truncation: std::sync::Arc<truncate::Truncation>,
}
#[derive(Default)]
struct Pages {
    all: HashMap<PageNo, PageState>,
    /// The pages that a transaction may take, the most recently used last. Some entries are left of
    /// pages that were taken as empty pages.
    available: VecDeque<PageNo>,
    /// Pages that had no undo log that is needed when they were noted here, each once.
    empty: Vec<PageNo>,
    /// The pages that purge has not read to their end, the longest waiting first.
    unread: VecDeque<PageNo>,
    /// The usage of each space.
    spaces: [Used; 2],
    /// The space that grows when no page is available.
    growing: usize,
    /// The space whose pages are not handed out.
    closed: Option<usize>,
}
#[derive(Clone, Copy, Default)]
struct Used {
    pages: usize,
    /// The number of pages with undo logs that are needed.
    live: usize,
    /// The number of mini-transactions under way that add a page.
    adding: usize,
}
impl Pages {
    fn page(&mut self, no: PageNo) -> &mut PageState {
        self.all.get_mut(&no).expect("an undo page in use is known")
    }
    /// Counts one more undo log in page `no`.
    fn need(&mut self, no: PageNo) {
        let p = self.page(no);
        p.live += 1;
        if p.live == 1 {
            self.spaces[space_of(no)].live += 1;
        }
    }
    /// Counts one undo log less in page `no`, and returns the number of logs left.
    fn forgo(&mut self, no: PageNo) -> u32 {
        let p = self.page(no);
        let Some(left) = p.live.checked_sub(1) else {
            crate::poison(&format!(
                "the undo files are damaged: more undo logs end in page {} than begin, because a \
                 page is older than the others. Start with innodb_force_recovery=5 to read the \
                 tables",
                page_id(no)
            ))
        };
        p.live = left;
        if left == 0 {
            self.spaces[space_of(no)].live -= 1;
        }
        left
    }
    fn is_open(&self, no: PageNo) -> bool {
        self.closed != Some(space_of(no))
    }
    /// Offers the page to transactions, before all other pages unless `last`.
    fn offer(&mut self, no: PageNo, last: bool) {
        let p = self.page(no);
        p.offered = true;
        let is_empty = p.live == 0;
        if last {
            self.available.push_front(no);
        } else {
            self.available.push_back(no);
        }
        if is_empty {
            self.note_empty(no);
        }
        if self.available.len() > 2 * self.all.len() {
            self.forget_left_entries();
        }
    }
    fn note_empty(&mut self, no: PageNo) {
        if !std::mem::replace(&mut self.page(no).noted_empty, true) {
            self.empty.push(no);
        }
    }
    #[cold]
    fn forget_left_entries(&mut self) {
        let mut seen = HashSet::new();
        let is_offered = |no: &PageNo| self.all.get(no).is_some_and(|p| p.offered);
        // The last entry of a page is the one that counts.
        let kept = self.available.iter().rev().filter(|no| is_offered(no) && seen.insert(**no));
        let mut kept: VecDeque<PageNo> = kept.copied().collect();
        kept.make_contiguous().reverse();
        self.available = kept;
    }
    /// Gives an offered page an owner.
    fn own(&mut self, no: PageNo) -> Current {
        let p = self.page(no);
        assert!(!p.owned, "UNDO-1: page {no} has an owner");
        let fresh = p.live == 0;
        if fresh {
            // No undo log in the page is needed, and purge is not reading it, which would count as
            // a log.
            (p.used, p.read) = (record::FIRST as u16, record::FIRST as u16);
            p.long.clear();
        }
        (p.owned, p.offered) = (true, false);
        let used = p.used;
        self.need(no);
        Current { no, used, fresh }
    }
    /// Lists the page if it has a part for purge to read (UNDO-5).
    fn list(&mut self, no: PageNo) {
        let p = self.page(no);
        if !p.listed && p.read < p.used {
            p.listed = true;
            self.unread.push_back(no);
        }
    }
    /// Counts `logs` of a page's undo logs as no longer needed.
    fn forgo_some(&mut self, no: PageNo, logs: u32) {
        let left = (0..logs).map(|_| self.forgo(no)).last();
        let open = self.is_open(no);
        let p = self.page(no);
        if left != Some(0) || p.owned || !open {
            return;
        }
        // A page that was too full to be offered is offered again.
        if p.offered { self.note_empty(no) } else { self.offer(no, false) }
    }
}
/// A page to which a transaction writes.
#[derive(Clone, Copy, Debug)]
struct Current {
    no: PageNo,
    used: u16,
    /// Whether the page's old contents are obsolete, so that the first write initialises it.
    fresh: bool,
}
impl UndoPages {
    fn take(&self) -> Option<Current> {
        let mut s = self.state.lock();
        loop {
            let no = s.available.pop_back()?;
            if s.all.get(&no).is_some_and(|p| p.offered) {
                return Some(s.own(no));
            }
        }
    }
    /// Takes a page in which no undo log is needed.
    fn take_empty(&self) -> Option<Current> {
        let mut s = self.state.lock();
        loop {
            let no = s.empty.pop()?;
            let Some(p) = s.all.get_mut(&no) else { continue };
            p.noted_empty = false;
            if p.offered && p.live == 0 {
                return Some(s.own(no));
            }
        }
    }
    /// Releases a page to which its owner has written nothing.
    fn return_unused(&self, c: Current) {
        let mut s = self.state.lock();
        s.forgo(c.no);
        s.page(c.no).owned = false;
        if s.is_open(c.no) {
            s.offer(c.no, true);
        }
    }
    /// Releases a page that a transaction has written up to `used`. `long` is the offset in the
    /// page at which the transaction's undo log begins, if the log continues in another page.
    fn give_back(&self, no: PageNo, used: u16, long: Option<u16>) {
        let mut s = self.state.lock();
        let p = s.page(no);
        p.used = used;
        p.owned = false;
        p.long.extend(long);
        if p.is_worth_it() && s.is_open(no) {
            s.offer(no, false);
        }
        s.list(no);
    }
    /// An undo log's part in page `no` is no longer needed.
    pub fn purged(&self, no: PageNo) {
        self.state.lock().forgo_some(no, 1);
    }
    /// The number of pages that purge has not read to their end.
    pub fn unread(&self) -> usize {
        self.state.lock().unread.len()
    }
    /// The next part for purge to read. The part does not change until [`UndoPages::have_read`].
    pub fn next_to_read(&self) -> Option<Unread> {
        let mut s = self.state.lock();
        loop {
            let no = s.unread.pop_front()?;
            let p = s.page(no);
            if p.live == 0 || p.read == p.used {
                // Either no undo log in the page is needed, and a transaction may take the page at
                // any time. Or the page has started over, and no owner has released it since.
                (p.read, p.listed) = (p.used, false);
                continue;
            }
            let unread = Unread { no, from: p.read, to: p.used, long: p.long.clone() };
            s.need(no);
            return Some(unread);
        }
    }
    /// Records that purge has read page `no` up to `to`, and that `purged` of the undo logs before
    /// are no longer needed. The rest is read later; with `at_once` the page comes before all other
    /// pages.
    pub fn have_read(&self, no: PageNo, to: u16, purged: u32, at_once: bool) {
        let mut s = self.state.lock();
        let p = s.page(no);
        p.read = to;
        p.long.retain(|at| *at >= to);
        p.listed = false;
        s.list(no);
        if at_once && s.unread.back() == Some(&no) {
            s.unread.rotate_right(1);
        }
        s.forgo_some(no, purged + 1);
    }
    /// Enters a page found at start. `live` undo logs in it have to be purged or rolled back.
    /// `long` has the offsets of the long logs, which a reader of the page skips.
    pub fn enter(&self, no: PageNo, used: u16, live: u32, long: SmallVec<[u16; 4]>) {
        let mut s = self.state.lock();
        let read = if live > 0 { record::FIRST as u16 } else { used };
        let (owned, offered, noted_empty, listed) = (false, false, false, false);
        let p = PageState { used, read, live, owned, offered, noted_empty, listed, long };
        let offer = p.is_worth_it() && s.is_open(no);
        s.all.insert(no, p);
        let space = &mut s.spaces[space_of(no)];
        space.pages += 1;
        space.live += (live > 0) as usize;
        if offer {
            s.offer(no, false);
        }
        s.list(no);
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
        self.enter(no, record::FIRST as u16, 0, SmallVec::new());
        Ok(())
    }
    /// The number of known pages, and of pages with live logs.
    pub fn counts(&self) -> (usize, usize) {
        let s = self.state.lock();
        (s.all.len(), s.all.values().filter(|p| p.live > 0).count())
    }
}

/// Takes a page that has enough room: one of the few that were used last, or an empty one. The
/// pages that were `tried` come last afterwards.
fn take_fitting(
    pages: &UndoPages,
    fits: impl Fn(&Current) -> bool,
    mut tried: impl FnMut(PageNo),
) -> Option<Current> {
    let mut unfit: SmallVec<[Current; TRIES]> = SmallVec::new();
    let found = loop {
        let taken = if unfit.len() < TRIES { pages.take() } else { pages.take_empty() };
        match taken {
            Some(c) if !fits(&c) => unfit.push(c),
            found => break found,
        }
    };
    for c in unfit {
        tried(c.no);
        pages.return_unused(c);
    }
    found
}

/// The undo log of one transaction.
#[derive(Default)]
pub(crate) struct UndoLog {
    current: Option<Current>,
    /// The page and offset of the LOG entry.
    first: Option<(PageNo, u16)>,
    /// All pages of the undo log, in order.
    pub pages: SmallVec<[PageNo; 2]>,
    /// The latest record that has not been rolled back.
    pub last: RollPtr,
    pub count: u32,
    /// A page that is ready for a record that does not fit in the current page.
    next: Option<Current>,
    /// Whether a start has found the log: then purge passes over it in its page, as over a long
    /// log ([`Unread::long`]).
    pub found: bool,
}
/// Room for one undo record, whose page is latched in the mini-transaction.
pub(crate) struct Slot {
    at: At,
    no: PageNo,
    /// The offset of the record.
    offset: usize,
    entry: SmallVec<[u8; 20]>,
    fresh: bool,
}
impl Slot {
    /// The roll pointer for the row.
    pub(crate) fn roll(&self, insert: bool) -> RollPtr {
        RollPtr::new(self.no, self.offset, insert)
    }
    /// The roll pointer for the row of an insert whose record lies `behind` bytes behind the first.
    pub(crate) fn roll_behind(&self, behind: usize) -> RollPtr {
        RollPtr::new(self.no, self.offset + behind, true)
    }
}

impl UndoLog {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
    pub(crate) fn head(&self, table: u64) -> record::Head {
        record::Head { undo_no: self.count, before: self.last, table }
    }
    /// Whether a record of `len` bytes can be written without [`UndoLog::make_room`].
    pub(crate) fn has_room(&self, len: usize) -> bool {
        let fits =
            |c: &Current, begin: usize| c.used as usize + begin + len + 2 <= crate::PAGE_SIZE;
        self.current.as_ref().is_some_and(|c| fits(c, 0))
            || self.next.as_ref().is_some_and(|c| fits(c, record::LOG_LEN))
    }
    /// The bytes for records in the page that gets a record of `len` bytes; `None` if
    /// [`UndoLog::make_room`] has to come first.
    pub(crate) fn room_from(&self, len: usize) -> Option<usize> {
        let room = |c: &Current, begin: usize| {
            crate::PAGE_SIZE.checked_sub(c.used as usize + begin + 2).filter(|room| *room >= len)
        };
        let here = self.current.as_ref().and_then(|c| room(c, 0));
        here.or_else(|| self.next.as_ref().and_then(|c| room(c, record::LOG_LEN)))
    }
    /// Gets a page for a record of `len` bytes, if necessary: takes a page or adds one. The caller
    /// has not begun the mini-transaction yet.
    pub(crate) fn make_room(&mut self, store: &Store, pages: &UndoPages, len: usize) -> Try<()> {
        assert!(len <= record::MAX, "an undo record fits a page");
        if self.has_room(len) {
            return Ok(());
        }
        let fits = |c: &Current| c.used as usize + record::LOG_LEN + len + 2 <= crate::PAGE_SIZE;
        if let Some(c) = self.next.take() {
            // The page is too full for this record, so other transactions may have it.
            pages.return_unused(c);
        }
        let found = loop {
            match take_fitting(pages, fits, |_| {}) {
                Some(c) => break c,
                None => pages.grow(store)?,
            }
        };
        self.next = Some(found);
        Ok(())
    }
    /// Latches the page for a record of `len` bytes, for which [`UndoLog::make_room`] has been
    /// called.
    ///
    /// # Errors
    /// [`Error::TooManyChanges`] if no page's records can be numbered.
    pub(crate) fn reserve(&self, m: &mut Mtr<'_>, trx: TrxId, len: usize) -> Try<Slot> {
        if self.count > MOST_RECORDS {
            return Err(Error::TooManyChanges { max: MOST_RECORDS }.into());
        }
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
    /// Writes the record. From here on the mini-transaction has changes.
    pub(crate) fn write(
        &mut self,
        m: &mut Mtr<'_>,
        pages: &UndoPages,
        slot: Slot,
        bytes: &[u8],
        roll: RollPtr,
    ) {
        self.write_some(m, pages, slot, bytes, roll, 1);
    }
    /// Writes `count` records, one behind the other, the last of which `roll` names.
    pub(crate) fn write_some(
        &mut self,
        m: &mut Mtr<'_>,
        pages: &UndoPages,
        slot: Slot,
        bytes: &[u8],
        roll: RollPtr,
        count: u32,
    ) {
        if slot.fresh {
            m.init(slot.at);
            m.patch(slot.at).write_u16(12, kind::UNDO);
        }
        let start = slot.offset - slot.entry.len();
        // Behind the record, a page that starts over has zeros, but another page may not: so the
        // end mark is written with the record.
        m.patch(slot.at).write_parts(start, &[&slot.entry, bytes, &[0, 0]]);
        if !slot.entry.is_empty() {
            if let Some(old) = self.current.take() {
                let long = self.first.filter(|(no, _)| *no == old.no && self.pages.len() == 1);
                pages.give_back(old.no, old.used, long.map(|(_, at)| at));
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
        self.count += count;
    }
    /// Writes the end of the log: committed, with its number, or rolled back. Returns the position
    /// that makes the end durable.
    pub(crate) fn finish(&self, store: &Store, state: u8, no: u64) -> Try<Option<Lsn>> {
        self.finish_with(store, state, no, None)
    }
    /// As `finish`, with a record that travels with the commit.
    pub(crate) fn finish_with(
        &self,
        store: &Store,
        state: u8,
        no: u64,
        record: Option<StreamRecord<'_>>,
    ) -> Try<Option<Lsn>> {
        let Some((page, at)) = self.first else { return Ok(None) };
        let mut m = match record {
            Some(record) => Mtr::begin_commit(store, record.bytes.len())?,
            None => Mtr::begin_reserved(store)?,
        };
        let p = m.x(page_id(page))?;
        let mut b = [state; 9];
        b[1..].copy_from_slice(&no.to_le_bytes());
        m.patch(p).write(at as usize + record::STATE_AT, &b);
        Ok(Some(m.commit_with(record)))
    }
    /// Releases the pages. The undo log's parts in them stay live until [`UndoPages::purged`].
    pub(crate) fn release(&mut self, pages: &UndoPages) {
        if let Some(c) = self.current.take() {
            pages.give_back(c.no, c.used, None);
        }
        if let Some(c) = self.next.take() {
            pages.return_unused(c);
        }
    }
    /// An undo log found at start, which has to be rolled back.
    pub(crate) fn recovered(
        first: (PageNo, u16),
        pages: SmallVec<[PageNo; 2]>,
        last: RollPtr,
        count: u32,
    ) -> UndoLog {
        UndoLog { current: None, first: Some(first), pages, last, count, next: None, found: true }
    }
    pub(crate) fn first(&self) -> Option<(PageNo, u16)> {
        self.first
    }
}

/// Reads the undo record to which `roll` points.
pub(crate) fn read<R>(
    store: &Store,
    roll: RollPtr,
    f: impl FnOnce(Option<record::Entry<'_>>) -> R,
) -> Try<R> {
    let g = store.pool.fix(page_id(roll.page()), Latch::S)?;
    Ok(f(record::parse(&g[..], roll.at())))
}

#[cfg(all(test, not(model)))]
mod tests;
