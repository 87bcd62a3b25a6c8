//! The structural check behind CHECK TABLE: every page of every tree of a table, the match of rows
//! and entries in both directions, and the pages of the space.
//!
//! The caller holds the table's metadata lock in a mode that keeps writers out. The check itself
//! holds purge off.
use crate::btree::{Seek, Tree};
use crate::buf::Latch;
use crate::bytes::{u16_at, u32_at};
use crate::dict::table::Table;
use crate::engine::Engine;
use crate::page::{index, kind};
use crate::row::value;
use crate::space::bitmap;
use crate::trx::Turn;
use crate::{Error, PageId, PageNo, Result};
use hashbrown::HashSet;
use std::sync::Arc;

/// The findings of a check.
#[derive(Debug, Default)]
pub struct Check {
    /// Violations of the structure: the table is damaged.
    pub errors: Vec<String>,
    /// Findings that are worth knowing, but harmless.
    pub notes: Vec<String>,
    pub rows: u64,
    pub pages: u64,
    turn: Turn,
}
const MAX_ERRORS: usize = 20;
impl Check {
    fn error(&mut self, e: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(e.into());
        }
    }
}

/// A page of a level, as the level above names it.
struct Expected {
    no: PageNo,
    low: Vec<u8>,
}
type Entries = Vec<(Vec<u8>, bool)>;

impl Engine {
    /// Checks a whole table. The future may be dropped.
    pub async fn check_table(&self, t: &Arc<Table>) -> Result<Check> {
        let held = self.hold_purge().await;
        // A check reads the whole table, so it works beside the workers from its first page.
        self.runtime.leave_worker();
        let mut c = Check::default();
        let done = self.check_all(t, &mut c).await;
        drop(held);
        match done {
            // A page that cannot be read is a finding, not a failure of the check.
            Err(e @ Error::Corrupt { .. }) => c.error(e.to_string()),
            other => other?,
        }
        Ok(c)
    }
    async fn check_all(&self, t: &Table, c: &mut Check) -> Result<()> {
        let mut reached: HashSet<PageNo> = HashSet::new();
        for (no, ix) in t.indexes.iter().enumerate() {
            let name = if no == 0 { "PRIMARY" } else { &ix.def.name };
            self.check_tree(t, no, name, &ix.tree, &mut reached, c).await?;
        }
        self.check_pages(t, &reached, c).await
    }

    /// Walks a tree level by level.
    async fn check_tree(
        &self,
        t: &Table,
        no: usize,
        name: &str,
        tree: &Tree,
        reached: &mut HashSet<PageNo>,
        c: &mut Check,
    ) -> Result<()> {
        let mut level = vec![Expected { no: tree.root, low: Vec::new() }];
        let mut height = None;
        while !level.is_empty() {
            let mut below = Vec::new();
            let mut carry: Option<(PageNo, Vec<u8>)> = None;
            let mut queue: std::collections::VecDeque<Expected> = level.into();
            while let Some(x) = queue.pop_front() {
                // After an incomplete split there is a page that the level above does not know yet.
                let x = match carry.take() {
                    Some((next, high)) if next != x.no => {
                        queue.push_front(x);
                        Expected { no: next, low: high }
                    }
                    _ => x,
                };
                if !reached.insert(x.no) {
                    c.error(format!("index '{name}': page {} is reached twice", x.no));
                    return Ok(());
                }
                c.pages += 1;
                c.turn.count(self).await;
                let id = PageId { space: t.space, no: x.no };
                let page = self.retry(|| Ok(Box::new(*self.store.pool.fix(id, Latch::S)?))).await?;
                let at = |what: &str| format!("index '{name}', page {}: {what}", x.no);
                if !index::is_index(&page)
                    || index::index_id(&page) != tree.index
                    || height.is_some_and(|h| h != index::level(&page))
                {
                    c.error(at("not a page of this index and level"));
                    continue;
                }
                height = Some(index::level(&page));
                if let Err(e) = index::check(&page) {
                    c.error(at(&e));
                    continue;
                }
                let first = index::first_rec(&page).map(|r| index::key(&page, r));
                if first.is_some_and(|k| k < &x.low[..]) {
                    c.error(at("its first key is below its low key"));
                }
                let next = index::next_page(&page);
                let high = index::high_key(&page).map(<[u8]>::to_vec);
                match (queue.front(), &high) {
                    (Some(n), Some(h)) if n.no == next && n.low != *h => {
                        c.error(at("its high key is not the low key of the next page"))
                    }
                    (Some(n), Some(_)) if n.no != next && !index::is_incomplete(&page) => {
                        c.error(at("its right neighbour is not the parent's next child"))
                    }
                    (_, None) if next != 0 => {
                        c.error(at("it has a right neighbour but no high key"))
                    }
                    (None, Some(_)) if !index::is_incomplete(&page) => {
                        c.error(at("the last page of its level has a high key"))
                    }
                    _ => {}
                }
                if index::is_incomplete(&page)
                    && let Some(h) = high
                {
                    carry = Some((next, h));
                    if queue.is_empty() {
                        queue.extend(carry.take().map(|(no, low)| Expected { no, low }));
                    }
                }
                if index::level(&page) > 0 {
                    if index::first_rec(&page).is_none() {
                        c.error(at("a node without children"));
                    }
                    let children = index::records(&page).map(|r| Expected {
                        no: index::child(&page, r),
                        low: index::key(&page, r).to_vec(),
                    });
                    below.extend(children);
                } else if no == 0 {
                    self.check_rows(t, &page, reached, c).await?;
                } else {
                    let entries = index::records(&page)
                        .map(|r| (index::key(&page, r).to_vec(), index::is_marked(&page, r)))
                        .collect();
                    self.check_entries(t, no, name, entries, c).await?;
                }
            }
            level = below;
            height = height.and_then(|h| h.checked_sub(1));
        }
        Ok(())
    }
    /// Checks that every live row has its entry in every secondary index, and its overflow pages.
    async fn check_rows(
        &self,
        t: &Table,
        page: &index::Page,
        reached: &mut HashSet<PageNo>,
        c: &mut Check,
    ) -> Result<()> {
        let mut e = Vec::new();
        for r in index::records(page) {
            let (key, payload) = (index::key(page, r), value::payload(index::value(page, r)));
            if !t.layout.is_well_formed(payload) {
                c.error(format!("a row of page {} is malformed", u32_at(page, 4)));
                continue;
            }
            for (_, first, _) in t.layout.externals(payload) {
                self.check_chain(t, first, reached, c).await?;
            }
            if index::is_marked(page, r) {
                continue;
            }
            c.rows += 1;
            for (no, ix) in t.secondary() {
                c.turn.count(self).await;
                t.entry_key(no, payload, key, &mut e);
                let there = self
                    .retry(|| {
                        let g = ix.tree.leaf(&self.store, Seek::Key(&e))?;
                        Ok(index::search(&g, &e).found.is_some_and(|r| !index::is_marked(&g, r)))
                    })
                    .await?;
                if !there {
                    c.error(format!(
                        "index '{}' lacks the entry of a row of page {}",
                        ix.def.name,
                        u32_at(page, 4)
                    ));
                }
            }
        }
        Ok(())
    }
    /// Checks that every live entry has its row, with the entry's key.
    async fn check_entries(
        &self,
        t: &Table,
        no: usize,
        name: &str,
        entries: Entries,
        c: &mut Check,
    ) -> Result<()> {
        let ix = &t.indexes[no];
        let mut made = Vec::new();
        for (entry, _) in entries.iter().filter(|(_, marked)| !marked) {
            c.turn.count(self).await;
            let clustered = &entry[ix.key.skip_columns(entry, ix.columns)..];
            let right = self
                .retry(|| {
                    let g = t.clustered().tree.leaf(&self.store, Seek::Key(clustered))?;
                    Ok(index::search(&g, clustered).found.is_some_and(|r| {
                        t.entry_key(no, value::payload(index::value(&g, r)), clustered, &mut made);
                        !index::is_marked(&g, r) && made == *entry
                    }))
                })
                .await?;
            if !right {
                c.error(format!("index '{name}' has an entry without a row"));
            }
        }
        Ok(())
    }
    async fn check_chain(
        &self,
        t: &Table,
        first: PageNo,
        reached: &mut HashSet<PageNo>,
        c: &mut Check,
    ) -> Result<()> {
        let mut no = first;
        while no != 0 {
            // Two versions of a row may share a chain, so a chain may be reached more than once.
            if !reached.insert(no) {
                return Ok(());
            }
            c.pages += 1;
            c.turn.count(self).await;
            let id = PageId { space: t.space, no };
            let (ty, next) = self
                .retry(|| {
                    self.store
                        .pool
                        .fix(id, Latch::S)
                        .map(|g| (u16_at(&g[..], 12), u32_at(&g[..], 24)))
                })
                .await?;
            if ty != kind::OVERFLOW {
                c.error(format!("page {no} of a long column is not an overflow page"));
                return Ok(());
            }
            no = next;
        }
        Ok(())
    }
    /// Checks that every reached page is marked as used, and notes the used pages that were not
    /// reached.
    async fn check_pages(&self, t: &Table, reached: &HashSet<PageNo>, c: &mut Check) -> Result<()> {
        let Some(space) = self.store.spaces.get(t.space) else { return Ok(()) };
        let (mut lost, mut word) = (0, None);
        for no in 2..space.pages() {
            c.turn.count(self).await;
            let map = bitmap::page_of(no);
            if word.as_ref().is_none_or(|(m, _)| *m != map) {
                let id = PageId { space: t.space, no: map };
                word = Some((
                    map,
                    self.retry(|| Ok(Box::new(*self.store.pool.fix(id, Latch::S)?))).await?,
                ));
            }
            let used = word.as_ref().is_some_and(|(_, p)| bitmap::is_used(p, no));
            match (used, reached.contains(&no)) {
                (false, true) => c.error(format!("page {no} is in use but marked free")),
                (true, false) if !bitmap::is_bitmap(no) => lost += 1,
                _ => {}
            }
        }
        if lost > 0 {
            c.notes.push(format!(
                "{lost} pages belong to no index (long columns that wait for \
                purge, or were left by a crash)"
            ));
        }
        Ok(())
    }
}
