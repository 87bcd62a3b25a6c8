//! The structural check behind CHECK TABLE: every page of every tree of a table, the match of rows
//! and entries in both directions, and the pages of the space.
//!
//! The caller holds the table's metadata lock in a mode that keeps writers out. The check itself
//! holds purge off. Besides what [`walk`] needs, it has two bits in memory for each page of the
//! space.
mod walk;

use crate::btree::{Seek, Tree};
use crate::buf::Latch;
use crate::bytes::u32_at;
use crate::dict::table::Table;
use crate::engine::Engine;
use crate::page::index;
use crate::row::{overflow, value};
use crate::space::bitmap;
use crate::trx::Turn;
use crate::{Error, PageId, PageNo, Result};
use std::sync::Arc;
use walk::{PageSet, Walk};

/// The findings of a check.
#[derive(Debug, Default)]
pub struct Check {
    /// Violations of the structure: the table is damaged.
    pub errors: Vec<String>,
    /// Findings that are worth knowing, but harmless.
    pub notes: Vec<String>,
    pub rows: u64,
    pub pages: u64,
    /// Pages of long columns of rows that are marked as deleted. Purge may have freed them.
    deleted: PageSet,
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

type Entries = Vec<(Vec<u8>, bool)>;

/// The payload of a clustered record's value, if it is the payload of a row.
fn well_formed<'v>(t: &Table, v: &'v [u8]) -> Option<&'v [u8]> {
    v.get(value::HEAD..).filter(|payload| t.layout.is_well_formed(payload))
}

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
        let pages = self.store.spaces.find(t.space)?.map_or(0, |space| space.pages());
        let mut reached = PageSet::new(pages);
        c.deleted = PageSet::new(pages);
        for (no, ix) in t.indexes.iter().enumerate() {
            let name = if no == 0 { "PRIMARY" } else { &ix.def.name };
            self.check_tree(t, no, name, &ix.tree, &mut reached, c).await?;
        }
        self.check_pages(t, &reached, c).await
    }

    /// Walks a tree.
    async fn check_tree(
        &self,
        t: &Table,
        no: usize,
        name: &str,
        tree: &Tree,
        reached: &mut PageSet,
        c: &mut Check,
    ) -> Result<()> {
        let at = |no: PageNo, what: &str| format!("index '{name}', page {no}: {what}");
        let root = self.page_of(t, tree.root).await?;
        let height = if index::is_index(&root) { index::level(&root) } else { 0 };
        let mut walk = Walk::new(tree.root, height);
        while let Some((level, x)) = walk.next(|no, why| c.error(at(no, why))) {
            if !reached.insert(x.no) {
                c.error(format!("index '{name}': page {} is reached twice", x.no));
                return Ok(());
            }
            c.pages += 1;
            c.turn.count(self).await;
            let page = self.page_of(t, x.no).await?;
            if !index::is_index(&page)
                || index::index_id(&page) != tree.index
                || index::level(&page) != level
            {
                c.error(at(x.no, "not a page of this index and level"));
                walk.lost(level);
                continue;
            }
            if let Err(e) = index::check(&page) {
                c.error(at(x.no, &e));
                walk.lost(level);
                continue;
            }
            let first = index::first_rec(&page).map(|r| index::key(&page, r));
            if first.is_some_and(|k| k < &x.low[..]) {
                c.error(at(x.no, "its first key is below its low key"));
            }
            if level > 0 && index::first_rec(&page).is_none() {
                c.error(at(x.no, "a node without children"));
            }
            walk.visited(level, x.no, &page);
            if level > 0 {
                continue;
            }
            if no == 0 {
                self.check_rows(t, &page, reached, c).await?;
            } else {
                let entries = index::records(&page)
                    .map(|r| (index::key(&page, r).to_vec(), index::is_marked(&page, r)))
                    .collect();
                self.check_entries(t, no, name, entries, c).await?;
            }
        }
        Ok(())
    }
    /// A copy of a page of the table.
    async fn page_of(&self, t: &Table, no: PageNo) -> Result<Box<index::Page>> {
        let id = PageId { space: t.space, no };
        self.retry(|| Ok(Box::new(*self.store.pool.fix(id, Latch::S)?))).await
    }
    /// Checks that every live row has its entry in every secondary index, and its overflow pages.
    async fn check_rows(
        &self,
        t: &Table,
        page: &index::Page,
        reached: &mut PageSet,
        c: &mut Check,
    ) -> Result<()> {
        let mut e = Vec::new();
        for r in index::records(page) {
            let key = index::key(page, r);
            let Some(payload) = well_formed(t, index::value(page, r)) else {
                c.error(format!("a row of page {} is malformed", u32_at(page, 4)));
                continue;
            };
            if index::is_marked(page, r) {
                for (_, first, _) in t.layout.externals(payload) {
                    self.pass_chain(t, first, c).await?;
                }
                continue;
            }
            for (_, first, len) in t.layout.externals(payload) {
                self.check_chain(t, first, len, reached, c).await?;
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
            let Some(at) = ix.key.checked_skip(entry, ix.columns) else {
                c.error(format!("index '{name}' has a malformed entry"));
                continue;
            };
            let clustered = &entry[at..];
            let right = self
                .retry(|| {
                    let g = t.clustered().tree.leaf(&self.store, Seek::Key(clustered))?;
                    let live = |r: &index::Rec| !index::is_marked(&g, *r);
                    let row = index::search(&g, clustered).found.filter(live);
                    let payload = row.and_then(|r| well_formed(t, index::value(&g, r)));
                    Ok(payload.is_some_and(|payload| {
                        t.entry_key(no, payload, clustered, &mut made);
                        made == *entry
                    }))
                })
                .await?;
            if !right {
                c.error(format!("index '{name}' has an entry without a row"));
            }
        }
        Ok(())
    }
    /// Checks that a long column has its bytes, in pages that nothing else has.
    async fn check_chain(
        &self,
        t: &Table,
        first: PageNo,
        len: u64,
        reached: &mut PageSet,
        c: &mut Check,
    ) -> Result<()> {
        let (mut no, mut rest) = (first, Some(len));
        while no != 0 {
            if !reached.insert(no) {
                c.error(format!("page {no} of a long column belongs to something else too"));
                return Ok(());
            }
            c.pages += 1;
            let Some((bytes, next)) = self.part_of_chain(t, no, c).await? else {
                c.error(format!("page {no} of a long column is not an overflow page"));
                return Ok(());
            };
            rest = rest.and_then(|rest| rest.checked_sub(bytes));
            no = next;
        }
        if rest != Some(0) {
            c.error(format!(
                "the pages of a long column, from page {first} on, do not have its {len} bytes"
            ));
        }
        Ok(())
    }
    /// Notes the pages of a long column of a row that is marked as deleted.
    async fn pass_chain(&self, t: &Table, first: PageNo, c: &mut Check) -> Result<()> {
        let mut no = first;
        while no != 0 && c.deleted.insert(no) {
            match self.part_of_chain(t, no, c).await? {
                Some((_, next)) => no = next,
                None => break,
            }
        }
        Ok(())
    }
    /// The number of bytes in a page of a long column, and the next page.
    async fn part_of_chain(
        &self,
        t: &Table,
        no: PageNo,
        c: &mut Check,
    ) -> Result<Option<(u64, PageNo)>> {
        c.turn.count(self).await;
        let id = PageId { space: t.space, no };
        self.retry(|| {
            let g = self.store.pool.fix(id, Latch::S)?;
            Ok(overflow::part(&g).map(|(bytes, next)| (bytes.len() as u64, next)))
        })
        .await
    }
    /// Checks that every reached page is marked as used, and notes the used pages that were not
    /// reached.
    async fn check_pages(&self, t: &Table, reached: &PageSet, c: &mut Check) -> Result<()> {
        let Some(space) = self.store.spaces.get(t.space) else { return Ok(()) };
        let (mut lost, mut word) = (0, None);
        for no in 2..space.pages() {
            c.turn.count(self).await;
            let map = bitmap::page_of(no);
            if word.as_ref().is_none_or(|(m, _)| *m != map) {
                word = Some((map, self.page_of(t, map).await?));
            }
            let used = word.as_ref().is_some_and(|(_, p)| bitmap::is_used(p, no));
            match (used, reached.contains(no)) {
                (false, true) => c.error(format!("page {no} is in use but marked free")),
                (true, false) if !bitmap::is_bitmap(no) && !c.deleted.contains(no) => lost += 1,
                _ => {}
            }
        }
        if lost > 0 {
            c.notes.push(format!(
                "{lost} pages belong to no index (dropped indexes that are being freed, long \
                 columns that wait for purge, or pages that a crash has left)"
            ));
        }
        Ok(())
    }
}
