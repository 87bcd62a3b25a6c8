//! A table's counters: how AUTO_INCREMENT, hidden row ids and the row estimate get their values
//! when the table is opened, and how the AUTO_INCREMENT counter is saved.
//!
//! - COUNTER-2: a row whose AUTO_INCREMENT value is not below the counter on page 0 of its space
//!   raises that counter in its own mini-transaction, as in MySQL 8 (WL#6204). So no value is given
//!   again after a crash, even if its row was deleted or rolled back. A rollback whose rows had
//!   raised a counter is acknowledged like a commit
//!   ([`Trx::take_counter_raised`](crate::Trx::take_counter_raised)).
//! - COUNTER-1: the next AUTO_INCREMENT value is above every value in the table. The saved counter
//!   is (COUNTER-2). Should it be damaged, the last rows of an index with this leading column count
//!   too, but none that is delete-marked: ALTER TABLE may have lowered the counter below that row
//!   (COUNTER-3).
//! - COUNTER-4: a value that was given back is not generated again if a row has brought it
//!   meanwhile. Who brings a value notes it and then looks at the counter; who gives values back
//!   moves the counter and then looks for the note. So one of the two sees the other.
//! - COUNTER-3: ALTER TABLE may lower the counter to the last row, and below rows whose deletion no
//!   rollback takes back: it waits for all other transactions that have changed the table. The
//!   table's new form has the lower counter, ready, before anybody finds it, and saves it after the
//!   old form is marked as dropped. A dropped form saves nothing, which it finds out under the
//!   latch of page 0: so it cannot save its greater counter over the lower one.
use super::table::{Index, Table};
use crate::btree::{Path, Seek, Tree};
use crate::buf::{Latch, PageGuard};
use crate::bytes::u64_at;
use crate::canary::{Canary, planted};
use crate::engine::Engine;
use crate::lock::KillFlag;
use crate::mtr::{At, Mtr, Store};
use crate::page::Patch;
use crate::page::index::{self, Page, Rec};
use crate::row::cursor::{Cursor, Read};
use crate::{Error, Lsn, PageId, Result, Try};
use redolith_types::Value;
use redolith_types::convert::to_integer;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// Offset of the AUTO_INCREMENT counter in page 0 of a table's space.
const COUNTER: usize = 40;

impl Engine {
    /// Sets the table's counters from the saved counter and the table's trees.
    pub(super) async fn ready_counters(&self, t: &Table) -> Result<()> {
        self.store.spaces.open(t.space, &t.full_name())?;
        let saved = self
            .retry(|| {
                Ok(u64_at(
                    &self.store.pool.fix(PageId { space: t.space, no: 0 }, Latch::S)?[..],
                    COUNTER,
                ))
            })
            .await?;
        let next = self.next_after_entries(t, greatest_row_key).await?;
        t.auto_increment.fetch_max(saved.max(next), AcqRel);
        if t.hidden_key
            && let Some(key) = self.retry(|| greatest_key(&self.store, t.clustered())).await?
        {
            let id = key.first_chunk().map(|id| u64::from_be_bytes(*id));
            // The greatest number is no row's: the next row gets a greater one.
            let Some(next) = id.and_then(|id| id.checked_add(1)) else {
                return Err(self.no_row_id(t, &key));
            };
            t.row_id.fetch_max(next, AcqRel);
        }
        let estimate = self.estimate_rows(&t.clustered().tree).await?;
        self.count_rows_at_start(t, estimate);
        t.counters_ready.store(true, Release);
        Ok(())
    }
    /// The error for a table without a primary key whose last entry is none of a row.
    fn no_row_id(&self, t: &Table, key: &[u8]) -> Error {
        let tree = &t.clustered().tree;
        let (file, _) = self.describe(t.space);
        Error::Corrupt {
            page: PageId { space: tree.space, no: tree.root },
            file,
            table: t.full_name(),
            why: format!("the last entry of its tree has the key {key:02x?}, which is no row id"),
        }
    }
    /// The least next AUTO_INCREMENT value that is above every value in the table's tree, also of
    /// rows that are deleted.
    pub(super) async fn least_next(&self, t: &Table) -> Result<u64> {
        self.next_after_entries(t, greatest_key).await
    }
    /// The AUTO_INCREMENT value behind that of an entry that `find` finds; 1 if there is none.
    async fn next_after_entries(
        &self,
        t: &Table,
        find: impl Fn(&Store, &Index) -> Try<Option<Vec<u8>>>,
    ) -> Result<u64> {
        let Some((_, ix)) = counting_index(t).filter(|_| !planted(Canary::CounterForgets)) else {
            return Ok(1);
        };
        let Some(key) = self.retry(|| find(&self.store, ix)).await? else { return Ok(1) };
        let greatest = ix.key.leading_number(&key).map_or(0, |v| to_integer(&v).value);
        Ok(next_after(greatest))
    }
    /// As `least_next`, for the rows that are not deleted. The caller holds the table's metadata
    /// lock exclusively.
    pub(super) async fn least_next_of_rows(
        self: &Arc<Self>,
        t: &Arc<Table>,
        kill: &Arc<KillFlag>,
    ) -> Result<u64> {
        if self.background_rollbacks() > 0 {
            // They hold no metadata lock, and may bring deleted rows back.
            return self.least_next(t).await;
        }
        let Some((no, ix)) = counting_index(t).filter(|_| !planted(Canary::CounterForgets)) else {
            return Ok(1);
        };
        let column = ix.key.columns().next().expect("the AUTO_INCREMENT column");
        let mut trx = self.begin(kill.clone());
        let from_the_end = !is_descending(ix);
        let mut rows = Cursor::new(t.clone(), no, Vec::new(), None, from_the_end, Read::Newest);
        rows.expect(1);
        let greatest = match rows.next(&mut trx).await? {
            true => to_integer(&t.layout.get(rows.row().stored, column)).value,
            false => 0,
        };
        trx.rollback().await?;
        Ok(next_after(greatest))
    }
    /// A rough number of rows, told by some paths from the root to a leaf: the product of the
    /// numbers of records on a path is what the tree would have if all its pages were as full.
    /// Paths with a damaged page are passed over: all that is not damaged can be read.
    async fn estimate_rows(&self, tree: &Tree) -> Result<u64> {
        let (children, level, starts) = self.retry(|| root_of(&self.store, tree)).await?;
        let (mut sum, mut paths) = (0u128, 0);
        for start in &starts {
            let product = self.retry(|| records_on_path(&self.store, tree, level, start)).await;
            match product {
                Ok(product) => (sum, paths) = (sum.saturating_add(product), paths + 1),
                Err(Error::Corrupt { .. } | Error::Io { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let rows_below = sum.checked_div(paths).unwrap_or(1);
        let rows = rows_below.saturating_mul(u128::from(children));
        Ok(rows.min(i64::MAX as u128) as u64)
    }
    /// Saves the counter if it has increased; with `exactly`, also if it has decreased. Returns
    /// where the change ends in the redo log. A table that DDL has dropped or replaced has no
    /// counter to save.
    pub(crate) async fn save_counter(&self, t: &Table, exactly: bool) -> Result<Option<Lsn>> {
        let saved = self.retry(|| {
            let mut m = Mtr::begin_reserved(&self.store)?;
            let p = m.x(PageId { space: t.space, no: 0 })?;
            // COUNTER-3: under the latch.
            if t.dropped.load(Acquire) {
                return Ok(None);
            }
            let (saved, value) = (u64_at(m.page(p), COUNTER), t.auto_increment.load(Acquire));
            if saved < value || exactly && saved != value {
                m.patch(p).write_u64(COUNTER, value);
                return Ok(Some(m.commit()));
            }
            Ok(None)
        });
        match saved.await {
            // The page may be gone with the file.
            Err(_) if t.dropped.load(Acquire) => Ok(None),
            saved => saved,
        }
    }
}

/// A raise of a table's counter that a mini-transaction is to make.
pub(crate) struct Raise {
    page: At,
    to: u64,
}
impl Raise {
    /// The raise that does what both do.
    pub(crate) fn further(one: Option<Raise>, other: Option<Raise>) -> Option<Raise> {
        match (one, other) {
            (Some(a), Some(b)) => Some(if a.to > b.to { a } else { b }),
            (a, b) => a.or(b),
        }
    }
}
impl Table {
    /// Latches page 0 if COUNTER-2 asks a row with this payload to raise the counter. The caller
    /// has not yet changed anything in the mini-transaction that adds the row.
    #[inline]
    pub(crate) fn latch_counter(&self, m: &mut Mtr<'_>, payload: &[u8]) -> Try<Option<Raise>> {
        let Some(column) = self.counter_column.filter(|_| !planted(Canary::CounterForgets)) else {
            return Ok(None);
        };
        let next = match self.layout.get(payload, column) {
            Value::Int(n) => u64::try_from(n).unwrap_or(0),
            Value::UInt(n) => n,
            other => u64::try_from(to_integer(&other).value).unwrap_or(0),
        }
        .saturating_add(1);
        if next <= self.counter_logged.load(Acquire) {
            return Ok(None);
        }
        // Values taken together with this one, for other rows, will follow, so the counter is
        // raised past them at once.
        let to = next.max(self.auto_increment.load(Relaxed));
        Ok(Some(Raise { page: m.x(PageId { space: self.space, no: 0 })?, to }))
    }
    /// Raises the counter, which is a change of the mini-transaction.
    pub(crate) fn raise_counter(&self, m: &mut Mtr<'_>, raise: &Option<Raise>) {
        if let Some(Raise { page, to }) = *raise
            && u64_at(m.page(page), COUNTER) < to
        {
            m.patch(page).write_u64(COUNTER, to);
        }
    }
    /// Notes a raise whose mini-transaction ends at `end`. From now on others rely on the raise,
    /// which is in the redo log before their changes.
    pub(crate) fn counter_raised(&self, raise: Option<Raise>, end: Lsn) {
        if let Some(Raise { to, .. }) = raise {
            self.counter_end.fetch_max(end.0, AcqRel);
            self.counter_logged.fetch_max(to, AcqRel);
        }
    }
    /// Whether a crash may lose the last raise.
    pub(crate) fn is_counter_pending(&self, durable: Lsn) -> bool {
        self.counter_end.load(Acquire) > durable.0
    }
}

/// An index whose first column is the AUTO_INCREMENT column. A definition with such a column has
/// such an index.
fn counting_index(t: &Table) -> Option<(usize, &Index)> {
    let column = t.def.auto_increment_column()?;
    t.indexes.iter().enumerate().find(|(_, ix)| ix.key.columns().next() == Some(column))
}
fn is_descending(ix: &Index) -> bool {
    ix.def.columns.first().is_some_and(|c| c.desc)
}
fn next_after(greatest: i128) -> u64 {
    u64::try_from(greatest.max(0)).unwrap_or(u64::MAX).saturating_add(1)
}

/// The key of the entry, delete-marked or not, with the greatest value of the index's first column;
/// `None` if the tree is empty.
fn greatest_key(store: &Store, ix: &Index) -> Try<Option<Vec<u8>>> {
    let (leaf, entry) = greatest_entry(store, ix)?;
    Ok(entry.map(|r| index::key(&leaf, r).to_vec()))
}
/// As `greatest_key`, for the entries of that entry's leaf that are not delete-marked: purge may
/// have left any number of leaves without such an entry.
fn greatest_row_key(store: &Store, ix: &Index) -> Try<Option<Vec<u8>>> {
    let (leaf, _) = greatest_entry(store, ix)?;
    let mut rows = index::records(&leaf).filter(|r| !index::is_marked(&leaf, *r));
    let row = if is_descending(ix) { rows.next() } else { rows.last() };
    Ok(row.map(|r| index::key(&leaf, r).to_vec()))
}
fn greatest_entry(store: &Store, ix: &Index) -> Try<(PageGuard, Option<Rec>)> {
    if is_descending(ix) { first_entry(store, &ix.tree) } else { last_entry(store, &ix.tree) }
}
/// The first entry of a tree. Leaves at the start may be empty; then a later leaf has the first
/// entry.
fn first_entry(store: &Store, tree: &Tree) -> Try<(PageGuard, Option<Rec>)> {
    let mut leaf = tree.leaf(store, Seek::Key(b""))?;
    while index::first_rec(&leaf).is_none() {
        let Some(next) = tree.right_of(store, &leaf)? else { return Ok((leaf, None)) };
        leaf = next;
    }
    let first = index::first_rec(&leaf);
    Ok((leaf, first))
}
/// The last entry of a tree. Leaves at the end may be empty; then an earlier leaf has the last
/// entry.
fn last_entry(store: &Store, tree: &Tree) -> Try<(PageGuard, Option<Rec>)> {
    let mut path = Path::default();
    let mut leaf = tree.descend(store, Seek::Last, 0, Latch::S, Some(&mut path))?;
    while index::first_rec(&leaf).is_none() && !path.low.is_empty() {
        let low = std::mem::take(&mut path.low);
        drop(leaf);
        leaf = tree.descend(store, Seek::Before(&low), 0, Latch::S, Some(&mut path))?;
    }
    let end = index::search_end(&leaf).prev;
    Ok((leaf, (end != index::INFIMUM).then_some(end)))
}

/// The number of paths from the root to a leaf that tell how many rows a table has.
const PATHS: usize = 8;
/// No tree has more levels above its leaves: a page of a node has two records at least.
const MOST_LEVELS: u16 = 32;

/// What the root of a tree tells: its number of records, its level, and the keys of some records.
fn root_of(store: &Store, tree: &Tree) -> Try<(u16, u16, Vec<Vec<u8>>)> {
    let root = store.pool.fix(PageId { space: tree.space, no: tree.root }, Latch::S)?;
    tree.expect(store, &root, None)?;
    let level = index::level(&root);
    // A root that is a leaf tells all by itself, and a level that no tree reaches tells nothing.
    let paths = if (1..=MOST_LEVELS).contains(&level) { PATHS } else { 0 };
    Ok((index::n_recs(&root), level, spread_keys(&root, paths)))
}
/// The product of the numbers of records on the path that begins below the root, whose level is
/// `level`, with the key `start`.
fn records_on_path(store: &Store, tree: &Tree, level: u16, start: &[u8]) -> Try<u128> {
    let (mut product, mut key) = (1u128, start.to_vec());
    for level in (0..level).rev() {
        let page = tree.descend(store, Seek::Key(&key), level, Latch::S, None)?;
        product = product.saturating_mul(index::n_recs(&page).into());
        // The path goes on in the middle of the page: what is at its ends is often not full.
        if let Some(middle) = spread_keys(&page, 2).pop() {
            key = middle;
        }
    }
    Ok(product)
}
/// The keys of at most `most` records of a page, evenly spread over it.
pub(super) fn spread_keys(page: &Page, most: usize) -> Vec<Vec<u8>> {
    let n = usize::from(index::n_recs(page));
    let mut keys = Vec::with_capacity(most.min(n));
    let mut at = index::first_rec(page);
    for i in 0..n {
        let Some(r) = at else { break };
        if i * most / n >= keys.len() || n <= most {
            keys.push(index::key(page, r).to_vec());
        }
        at = index::next_rec(page, r);
    }
    keys
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::dict::alter::Alteration;
    use crate::dict::index_build::Building;
    use crate::runtime::Threads;
    use crate::small_engine::*;
    use redolith_disk::{Disk, RealDisk};

    /// The task that saves counters may have found the old form of the table before ALTER TABLE
    /// replaced it. Tests COUNTER-3.
    #[test]
    fn a_replaced_table_does_not_save_its_counter() {
        with_engine("counters", async |e| {
            let old = table_with(&e, |def| def.columns[0].auto_increment = true).await;
            old.take_auto_increment(99);
            e.save_counter(&old, false).await.unwrap();
            let new = alter(&e, &old, 7).await;
            assert!(e.save_counter(&old, false).await.unwrap().is_none());
            // As after a start.
            e.ready_counters(&new).await.unwrap();
            assert_eq!(new.auto_increment.load(Acquire), 7);
        });
    }
    /// ALTER TABLE .. AUTO_INCREMENT = `to`.
    async fn alter(e: &Arc<Engine>, t: &Arc<Table>, to: u64) -> Arc<Table> {
        let to = Alteration {
            def: t.def.clone(),
            added: 0,
            dropped: Vec::new(),
            auto_increment: Some(to),
            record: None,
        };
        e.alter_table(t, to, &Building::in_memory(KillFlag::new())).await.unwrap()
    }

    /// A damaged key of the last row is an error that names the file.
    #[test]
    fn a_last_row_whose_key_is_no_row_id_is_damage() {
        with_engine("counters-row-id", async |e| {
            let t = table_with(&e, |def| def.indexes.clear()).await;
            let tree = &t.clustered().tree;
            for key in [&[1, 2, 3][..], &[0xff; 8], &[]] {
                let mut made = index::Builder::new(t.clustered().id, 0);
                made.push(0, key, &[0; 40]);
                let set = || {
                    let mut m = Mtr::begin(&e.store)?;
                    let root = m.x(PageId { space: tree.space, no: tree.root })?;
                    made.store(&mut m.patch(root));
                    m.commit();
                    Ok(())
                };
                e.retry(set).await.unwrap();
                let why = e.ready_counters(&t).await.unwrap_err().to_string();
                let file = format!("{}.rdl", t.space.0);
                assert!(why.contains(&file) && why.contains("is no row id"), "{why}");
            }
        });
    }

    /// Deleted rows that purge has not removed yet are no rows for ALTER TABLE, nor for a later
    /// start. Tests COUNTER-1 and COUNTER-3.
    #[test]
    fn a_counter_is_lowered_to_the_last_row_that_is_there() {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        for desc in [false, true] {
            let name = format!("counters-deleted-{desc}");
            let small = SmallEngine::open(&name, disk.clone(), Threads::new(disk.clone()));
            small.run(async |e| {
                let t = table_with(&e, |def| {
                    def.columns[0].auto_increment = true;
                    def.indexes[0].columns[0].desc = desc;
                })
                .await;
                let mut trx = begin(&e);
                for id in 1..=9 {
                    trx.insert(&t, &row(&t, id, 0)).await.unwrap();
                }
                commit(&mut trx).await;
                e.history.stop();
                for id in 6..=9 {
                    let at = locked(&mut trx, &t, id).await;
                    trx.delete(&t, at.row()).await.unwrap();
                }
                commit(&mut trx).await;
                assert_eq!(e.least_next(&t).await.unwrap(), 10);
                for (wanted, next) in [(8, 8), (1, 6)] {
                    let t = e.table("s", "t").await.unwrap().unwrap();
                    let new = alter(&e, &t, wanted).await;
                    assert_eq!(new.auto_increment.load(Acquire), next);
                }
            });
            let runtime = Holding::new("purge", &disk);
            let small = small.reopen(disk.clone(), runtime.clone());
            small.run(async |e| {
                let t = e.table("s", "t").await.unwrap().unwrap();
                assert_eq!(t.auto_increment.load(Acquire), 6, "descending: {desc}");
                // A saved counter that is damaged does not give the values of rows again.
                t.auto_increment.store(3, Release);
                e.save_counter(&t, true).await.unwrap();
                e.ready_counters(&t).await.unwrap();
                assert_eq!(t.auto_increment.load(Acquire), 6);
            });
            runtime.release();
            small.close();
        }
    }
    /// Tests COUNTER-4.
    #[test]
    fn a_value_that_a_row_has_brought_is_not_given_back() {
        with_engine("counters-back", async |e| {
            let t = table(&e).await;
            t.auto_increment.store(5, Release);
            for (brought, next) in [(0, 5), (4, 5), (5, 6), (0, 6), (8, 9)] {
                let first = t.take_auto_increment(1);
                t.saw_auto_increment(brought);
                t.give_auto_increment_back(first + 1, first);
                assert_eq!(t.auto_increment.load(Acquire), next, "{brought}");
            }
        });
    }
}
