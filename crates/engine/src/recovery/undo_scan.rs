//! Reads the undo spaces at start: which undo logs exist, and how their transactions ended.
//!
//! UNDOSCAN-1: a page in use consists of whole entries of known kinds up to its end mark, and each
//! undo log has a known state. Anything else is an error: an undo log mistaken for a committed one
//! would keep changes that must be rolled back.
use crate::bytes::u16_at;
use crate::dict::DICT_TABLE;
use crate::page::{header::Page, kind};
use crate::undo::record::{Entry, RollPtr};
use crate::undo::{self, UndoLog, UndoPages, record};
use crate::{Error, PageId, PageNo, Result, SpaceId, TrxId};
use hashbrown::HashMap;
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
    /// Whether purge passes over the log in the page where it begins ([`undo::Unread::long`]),
    /// because the log goes on in other pages or its transaction has not ended.
    pub(crate) fn is_long(&self) -> bool {
        self.pages.len() > 1 || matches!(self.state, record::ACTIVE | record::PREPARED)
    }
    pub(crate) fn log(&self) -> UndoLog {
        UndoLog::recovered(self.first, self.pages.clone(), self.last, self.count)
    }
}

/// The content of the undo spaces.
#[derive(Default)]
pub(crate) struct Image {
    /// The undo logs that have not been rolled back to their end, by transaction.
    pub logs: Vec<Found>,
    /// Each page with the offset of its first free byte.
    used: Vec<(PageNo, u16)>,
}
impl Image {
    /// Enters the pages in the engine's undo pages, with the parts of each log counted as live.
    pub(crate) fn enter(&self, pages: &UndoPages) {
        let mut live: HashMap<PageNo, (u32, SmallVec<[u16; 4]>)> = HashMap::new();
        for l in &self.logs {
            l.pages.iter().for_each(|p| live.entry(*p).or_default().0 += 1);
            if l.is_long() {
                live.entry(l.first.0).or_default().1.push(l.first.1);
            }
        }
        for (no, end) in &self.used {
            let (live, long) = live.remove(no).unwrap_or_default();
            pages.enter(*no, *end, live, long);
        }
    }
}

/// Reads the given pages of the undo spaces.
pub(crate) fn read(pages: impl IntoIterator<Item = Result<(PageId, Page)>>) -> Result<Image> {
    let mut logs: HashMap<TrxId, Found> = HashMap::new();
    // Further parts of logs, each in another page than the log's beginning, which may come later.
    let mut parts: Vec<(TrxId, PageNo, RollPtr, u32, bool)> = Vec::new();
    let mut used: Vec<(PageNo, u16)> = Vec::new();
    for page in pages {
        let (id, page) = page?;
        if u16_at(&page[..], 12) != kind::UNDO {
            continue;
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
            match e {
                Entry::Log { trx, state, .. } => {
                    if !(record::ACTIVE..=record::PREPARED).contains(&state) {
                        return Err(wrong(
                            id,
                            format!(
                                "the log of transaction {} has state {state}, which this program \
                                    does not know",
                                trx.0
                            ),
                        ));
                    }
                    owner = trx;
                    let pages = SmallVec::from_slice(&[no]);
                    logs.insert(
                        trx,
                        Found {
                            trx,
                            first: (no, at as u16),
                            state,
                            pages,
                            last: RollPtr::NONE,
                            count: 0,
                            dictionary: false,
                        },
                    );
                }
                Entry::More { trx } => {
                    owner = trx;
                    parts.push((trx, no, RollPtr::NONE, 0, false));
                }
                Entry::Insert { head, .. }
                | Entry::Change { head, .. }
                | Entry::Overflow { head, .. }
                | Entry::Undone { head }
                | Entry::Held { head, .. } => {
                    let roll = RollPtr::new(no, at, matches!(e, Entry::Insert { .. }));
                    let of_dictionary = head.table == DICT_TABLE;
                    match parts.last_mut().filter(|p| p.0 == owner && p.1 == no) {
                        Some(p) => *p = (owner, no, roll, head.undo_no + 1, p.4 || of_dictionary),
                        None => {
                            if let Some(l) = logs.get_mut(&owner) {
                                (l.last, l.count, l.dictionary) =
                                    (roll, head.undo_no + 1, l.dictionary || of_dictionary);
                            }
                        }
                    }
                }
            }
            at += record::entry_len(&page[..], at);
        }
        used.push((no, at as u16));
    }
    for (trx, no, last, count, dictionary) in parts {
        if let Some(l) = logs.get_mut(&trx) {
            l.pages.push(no);
            l.dictionary |= dictionary;
            if count > l.count {
                (l.last, l.count) = (last, count);
            }
        }
    }
    let mut logs: Vec<Found> = logs.into_values().filter(|l| l.state != record::ENDED).collect();
    logs.sort_by_key(|l| l.trx);
    Ok(Image { logs, used })
}
fn wrong(id: PageId, why: String) -> Error {
    Error::Damaged(format!("undo page {id}: {why}"))
}
