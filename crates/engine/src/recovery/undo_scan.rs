//! Reads the undo spaces at start: which undo logs exist, and how their transactions ended.
//!
//! UNDOSCAN-1: a page in use consists of whole entries of known kinds up to its end mark, and each
//! undo log has a known state. Anything else is an error: an undo log mistaken for a committed one
//! would keep changes that must be rolled back.
//! UNDOSCAN-2: of a log that purge finds by reading its page, only a count stays: a server that
//! crashed may have a history of thousands of millions of logs. Until all pages are read it takes
//! 16 bytes, because a later page may show that the log goes on there. There is a bound for these
//! bytes. Where they come to it they are given up, and the pages are read once more: then it is
//! known which logs go on.
use crate::bytes::u16_at;
use crate::dict::DICT_TABLE;
use crate::page::{header::Page, kind};
use crate::undo::record::{Entry, RollPtr};
use crate::undo::{self, UndoLog, UndoPages, record};
use crate::{Error, PageId, PageNo, Result, SpaceId, TrxId};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

/// An undo log, as its entries describe it.
pub(crate) struct Found {
    pub trx: TrxId,
    pub first: (PageNo, u16),
    pub state: u8,
    pub pages: SmallVec<[PageNo; 2]>,
    last: RollPtr,
    count: u32,
    /// Whether the transaction changed the dictionary.
    pub dictionary: bool,
}
impl Found {
    fn begin(trx: TrxId, first: (PageNo, u16), state: u8) -> Found {
        let (pages, last) = (SmallVec::from_slice(&[first.0]), RollPtr::NONE);
        Found { trx, first, state, pages, last, count: 0, dictionary: false }
    }
    pub(crate) fn log(&self) -> UndoLog {
        UndoLog::recovered(self.first, self.pages.clone(), self.last, self.count)
    }
}

/// The log of a committed transaction, which may go on in a page that has not been read yet.
struct Committed {
    trx: TrxId,
    first: (PageNo, u16),
}
// UNDOSCAN-2
const _: () = assert!(size_of::<Committed>() == 16);
/// The most logs of committed transactions that are kept until all pages are read, 16 MiB.
pub(super) const MOST_COMMITTED: usize = 1 << 20;

/// The content of the undo spaces.
#[derive(Default)]
pub(crate) struct Image {
    /// The undo logs that have not ended, and those that are in several pages, by transaction. Logs
    /// that have been rolled back to their end are left out. Purge passes over all these logs in
    /// the pages where they begin ([`undo::Unread::long`]).
    pub logs: Vec<Found>,
    /// The number of the other logs, which are of committed transactions.
    pub short: u64,
    /// The number of these logs in each page that has any.
    short_in: HashMap<PageNo, u32>,
    /// The newest transaction that has a log.
    pub newest: TrxId,
    /// Each page with the offset of its first free byte.
    used: Vec<(PageNo, u16)>,
}
impl Image {
    /// Enters the pages in the engine's undo pages, with the parts of each log counted as live.
    pub(crate) fn enter(&self, pages: &UndoPages) {
        let mut live: HashMap<PageNo, (u32, SmallVec<[u16; 4]>)> = HashMap::new();
        for l in &self.logs {
            l.pages.iter().for_each(|p| live.entry(*p).or_default().0 += 1);
            live.entry(l.first.0).or_default().1.push(l.first.1);
        }
        for (no, end) in &self.used {
            let (live, long) = live.remove(no).unwrap_or_default();
            let short = self.short_in.get(no).copied().unwrap_or(0);
            pages.enter(*no, *end, live + short, long);
        }
    }
}

/// A reading of the undo spaces.
pub(super) struct Scan {
    /// The logs of which more than a count stays.
    logs: HashMap<TrxId, Found>,
    committed: Vec<Committed>,
    /// The most of them that are kept.
    most_committed: usize,
    reading: Reading,
    newest: TrxId,
    /// Further parts of logs, each in another page than the log's beginning, which may come later.
    parts: Vec<Part>,
    used: Vec<(PageNo, u16)>,
    short: u64,
    short_in: HashMap<PageNo, u32>,
}
enum Reading {
    /// The first reading, with all that it finds in memory.
    Once,
    /// The first reading, which has given the committed logs up.
    First,
    /// The second reading, which knows the transactions whose logs go on.
    Second(HashSet<TrxId>),
}
/// A further part of a log.
struct Part {
    trx: TrxId,
    no: PageNo,
    last: RollPtr,
    count: u32,
    dictionary: bool,
}

impl Scan {
    /// Begins. `most_committed` is the bound of UNDOSCAN-2.
    pub(super) fn new(most_committed: usize) -> Scan {
        Scan {
            logs: HashMap::new(),
            committed: Vec::new(),
            most_committed,
            reading: Reading::Once,
            newest: TrxId::NONE,
            parts: Vec::new(),
            used: Vec::new(),
            short: 0,
            short_in: HashMap::new(),
        }
    }
    /// Reads a page of the undo spaces. The pages may come in any order.
    pub(super) fn page(&mut self, id: PageId, page: &Page) -> Result<()> {
        if u16_at(&page[..], 12) != kind::UNDO {
            return Ok(());
        }
        let which =
            SpaceId::UNDO.iter().position(|s| *s == id.space).expect("a page of an undo space");
        let no = undo::number(which, id.no);
        let mut at = record::FIRST;
        let mut owner = TrxId::NONE;
        // UNDOSCAN-1
        while record::entry_len(&page[..], at) != 0 {
            let e = record::parse(&page[..], at)
                .ok_or_else(|| wrong(id, format!("no undo record is at offset {at}")))?;
            if matches!(&e, Entry::Change { rest, .. } if !rest.is_whole()) {
                return Err(wrong(id, format!("the undo record at offset {at} is not whole")));
            }
            if let Entry::Log { trx, state, .. } = e
                && !(record::ACTIVE..=record::PREPARED).contains(&state)
            {
                return Err(wrong(
                    id,
                    format!(
                        "the log of transaction {} has state {state}, which this program does not \
                         know",
                        trx.0
                    ),
                ));
            }
            match &self.reading {
                Reading::Second(_) => {
                    if let Entry::Log { trx, state: record::COMMITTED, .. } = e {
                        self.committed(trx, (no, at as u16));
                    }
                }
                Reading::Once | Reading::First => self.entry(&e, &mut owner, no, at),
            }
            at += record::entry_len(&page[..], at);
        }
        if !matches!(self.reading, Reading::Second(_)) {
            self.used.push((no, at as u16));
        }
        Ok(())
    }
    fn entry(&mut self, e: &Entry<'_>, owner: &mut TrxId, no: PageNo, at: usize) {
        match e {
            Entry::Log { trx, state, .. } => {
                *owner = *trx;
                let first = (no, at as u16);
                if *state != record::ENDED {
                    self.newest = self.newest.max(*trx);
                }
                match *state {
                    record::ENDED => {}
                    record::COMMITTED => self.committed(*trx, first),
                    state => _ = self.logs.insert(*trx, Found::begin(*trx, first, state)),
                }
            }
            Entry::More { trx } => {
                *owner = *trx;
                let (last, count, dictionary) = (RollPtr::NONE, 0, false);
                self.parts.push(Part { trx: *trx, no, last, count, dictionary });
            }
            Entry::Insert { head, .. }
            | Entry::Change { head, .. }
            | Entry::Overflow { head, .. }
            | Entry::Undone { head }
            | Entry::Held { head, .. } => {
                let roll = RollPtr::new(no, at, matches!(e, Entry::Insert { .. }));
                let (count, of_dictionary) = (head.undo_no + 1, head.table == DICT_TABLE);
                match self.parts.last_mut().filter(|p| p.trx == *owner && p.no == no) {
                    Some(p) => {
                        (p.last, p.count, p.dictionary) =
                            (roll, count, p.dictionary || of_dictionary);
                    }
                    None => {
                        if let Some(l) = self.logs.get_mut(owner) {
                            (l.last, l.count, l.dictionary) =
                                (roll, count, l.dictionary || of_dictionary);
                        }
                    }
                }
            }
        }
    }
    /// Takes the log of a committed transaction (UNDOSCAN-2).
    fn committed(&mut self, trx: TrxId, first: (PageNo, u16)) {
        match &self.reading {
            Reading::Once if self.committed.len() < self.most_committed => {
                self.committed.push(Committed { trx, first });
            }
            Reading::Once => (self.committed, self.reading) = (Vec::new(), Reading::First),
            Reading::First => {}
            Reading::Second(of_parts) if of_parts.contains(&trx) => {
                self.logs.insert(trx, Found::begin(trx, first, record::COMMITTED));
            }
            Reading::Second(_) => {
                self.short += 1;
                *self.short_in.entry(first.0).or_default() += 1;
            }
        }
    }
    /// Called when all pages have been read. Returns whether all of them are to be read once more.
    pub(super) fn reads_again(&mut self) -> bool {
        let is_second = matches!(self.reading, Reading::Second(_));
        let again = matches!(self.reading, Reading::First);
        if !is_second {
            self.reading = Reading::Second(self.parts.iter().map(|part| part.trx).collect());
            for Committed { trx, first } in std::mem::take(&mut self.committed) {
                self.committed(trx, first);
            }
        }
        again
    }
    /// What was read.
    pub(super) fn end(mut self) -> Image {
        for Part { trx, no, last, count, dictionary } in self.parts {
            if let Some(l) = self.logs.get_mut(&trx) {
                l.pages.push(no);
                l.dictionary |= dictionary;
                if count > l.count {
                    (l.last, l.count) = (last, count);
                }
            }
        }
        let mut logs: Vec<Found> = self.logs.into_values().collect();
        logs.sort_by_key(|l| l.trx);
        let Scan { short, short_in, newest, mut used, .. } = self;
        used.sort_unstable_by_key(|(no, _)| undo::page_id(*no));
        Image { logs, short, short_in, newest, used }
    }
}
fn wrong(id: PageId, why: String) -> Error {
    Error::Damaged(format!("undo page {id}: {why}"))
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::PAGE_SIZE;

    fn page(no: PageNo, entries: &[Vec<u8>]) -> (PageId, Page) {
        let mut page = [0; PAGE_SIZE];
        page[12..14].copy_from_slice(&kind::UNDO.to_le_bytes());
        let bytes = entries.concat();
        page[record::FIRST..][..bytes.len()].copy_from_slice(&bytes);
        (undo::page_id(no), page)
    }
    /// Reads the pages, and says how often.
    fn read(most_committed: usize, pages: &[(PageId, Page)]) -> (Image, usize) {
        let (mut scan, mut readings) = (Scan::new(most_committed), 0);
        loop {
            readings += 1;
            pages.iter().for_each(|(id, page)| scan.page(*id, page).unwrap());
            if !scan.reads_again() {
                return (scan.end(), readings);
            }
        }
    }
    fn log(trx: u64, state: u8) -> Vec<u8> {
        let mut log = record::log_entry(TrxId(trx)).to_vec();
        log[record::STATE_AT] = state;
        log
    }
    fn more(trx: u64) -> Vec<u8> {
        record::more_entry(TrxId(trx)).to_vec()
    }

    /// Tests UNDOSCAN-2: the pages of a log may come in any order, and logs of a page that are
    /// counted are those that purge does not pass over in it.
    #[test]
    fn short_logs_are_counted_and_long_ones_are_found() {
        use record::{ACTIVE, COMMITTED, ENDED, PREPARED};
        let pages = [
            page(3, &[more(10), log(20, COMMITTED), more(40)]),
            page(5, &[log(10, COMMITTED), log(11, COMMITTED), log(12, ACTIVE)]),
            page(7, &[log(30, PREPARED), log(40, ENDED), log(13, COMMITTED), log(14, COMMITTED)]),
        ];
        // The second reading says the same as the first one with more memory.
        for (most, readings) in [(MOST_COMMITTED, 1), (5, 1), (4, 2), (1, 2), (0, 2)] {
            let (image, read) = read(most, &pages);
            assert_eq!(read, readings, "{most}");
            told(&image);
        }
        let (mut scan, all) = (Scan::new(2), pages.len());
        pages.iter().for_each(|(id, page)| scan.page(*id, page).unwrap());
        assert!(scan.committed.capacity() == 0 && scan.used.len() == all, "given up");
    }
    fn told(image: &Image) {
        use record::LOG_LEN;
        let found: Vec<_> = image.logs.iter().map(|l| (l.trx.0, l.pages.to_vec())).collect();
        assert_eq!(found, [(10, vec![5, 3]), (12, vec![5]), (30, vec![7])]);
        assert_eq!((image.short, image.newest), (4, TrxId(30)));
        let pages = UndoPages::default();
        image.enter(&pages);
        let first = record::FIRST as u16;
        let long = [(3, vec![]), (5, vec![first, first + 2 * LOG_LEN as u16]), (7, vec![first])];
        for (no, long) in long {
            let unread = pages.next_to_read().unwrap();
            assert_eq!((unread.no, unread.long.to_vec()), (no, long));
            // Purge counts the other logs down; the parts of long logs still need their pages.
            let short = [(3, 1), (5, 1), (7, 2)].iter().find(|s| s.0 == no).unwrap().1;
            pages.have_read(no, unread.to, short, false);
        }
        assert_eq!(pages.counts(), (3, 3));
        [3, 5, 5, 7].iter().for_each(|no| pages.purged(*no));
        assert_eq!(pages.counts(), (3, 0));
    }
}
