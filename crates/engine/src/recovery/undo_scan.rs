//! Reads the undo spaces at start: which logs are there, and how their transactions ended.
use crate::buf::Latch;
use crate::dict::DICT_TABLE;
use crate::engine::Engine;
use crate::page::{kind, u16_at};
use crate::space::bitmap;
use crate::undo::record::{Entry, RollPtr};
use crate::undo::{self, UndoLog, page_id, record};
use crate::{PageId, PageNo, Result, SpaceId, TrxId};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// A log as its entries tell it.
pub struct Found {
    pub trx: TrxId,
    pub first: (PageNo, u16),
    pub state: u8,
    pub pages: SmallVec<[PageNo; 2]>,
    last: RollPtr,
    count: u32,
    /// It changed the dictionary.
    pub dictionary: bool,
}
impl Found {
    pub fn log(&self) -> UndoLog {
        UndoLog::recovered(self.first, self.pages.clone(), self.last, self.count)
    }
}

/// All logs; pages are entered in the engine's undo pages, each log's parts live.
pub async fn scan(engine: &Engine) -> Result<Vec<Found>> {
    let mut logs: HashMap<TrxId, Found> = HashMap::new();
    // Parts of logs whose beginning is in a later page.
    let mut parts: Vec<(TrxId, PageNo, RollPtr, u32, bool)> = Vec::new();
    let mut used: Vec<(PageNo, u16)> = Vec::new();
    for (which, no) in all_pages(engine) {
        if bitmap::is_bitmap(no) || !engine.settled(|| is_used(engine, PageId { space: SpaceId::UNDO[which], no })).await? {
            continue;
        }
        let no = undo::number(which, no);
        let page = engine.settled(|| Ok(Box::new(*engine.store.pool.fix(page_id(no), Latch::S)?))).await?;
        if u16_at(&page[..], 12) != kind::UNDO {
            continue;
        }
        let mut at = record::FIRST;
        let mut owner = TrxId::NONE;
        while let Some(e) = record::parse(&page[..], at) {
            match e {
                Entry::Log { trx, state, .. } => {
                    owner = trx;
                    let pages = SmallVec::from_slice(&[no]);
                    logs.insert(trx, Found { trx, first: (no, at as u16), state, pages, last: RollPtr::NONE, count: 0, dictionary: false });
                }
                Entry::More { trx } => {
                    owner = trx;
                    parts.push((trx, no, RollPtr::NONE, 0, false));
                }
                Entry::Insert { head, .. } | Entry::Change { head, .. } | Entry::Overflow { head, .. } | Entry::Undone { head } => {
                    let roll = RollPtr::new(no, at, matches!(e, Entry::Insert { .. }));
                    let of_dictionary = head.table == DICT_TABLE;
                    match parts.last_mut().filter(|p| p.0 == owner && p.1 == no) {
                        Some(p) => *p = (owner, no, roll, head.undo_no + 1, p.4 || of_dictionary),
                        None => {
                            if let Some(l) = logs.get_mut(&owner) {
                                (l.last, l.count, l.dictionary) = (roll, head.undo_no + 1, l.dictionary || of_dictionary);
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
    let mut live: HashMap<PageNo, u32> = HashMap::new();
    for l in &logs {
        l.pages.iter().for_each(|p| *live.entry(*p).or_default() += 1);
    }
    for (no, end) in used {
        engine.undo.enter(no, end, live.get(&no).copied().unwrap_or(0));
    }
    Ok(logs)
}
/// Which of the undo spaces, and the page there.
fn all_pages(engine: &Engine) -> Vec<(usize, PageNo)> {
    let pages = SpaceId::UNDO.map(|id| engine.store.spaces.get(id).expect("the undo spaces are open").pages());
    (0..2).flat_map(|which| (2..pages[which]).map(move |no| (which, no))).collect()
}
fn is_used(engine: &Engine, id: PageId) -> crate::Try<bool> {
    let g = engine.store.pool.fix(PageId { no: bitmap::page_of(id.no), ..id }, Latch::S)?;
    Ok(bitmap::is_used(&g, id.no))
}
