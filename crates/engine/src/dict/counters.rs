//! A table's counters: where AUTO_INCREMENT, hidden row ids and the row estimate stand when it is
//! opened, and how the first of them is saved.
//!
//! - COUNTER-2: a row with a value that the counter on page 0 of its space has not passed raises
//!   that counter in its own mini-transaction, as in MySQL 8 (WL#6204): so no value is given again
//!   after a crash, whether its row was deleted or rolled back. A rollback is acknowledged like a
//!   commit where its rows had raised a counter
//!   ([`Trx::take_counter_raised`](crate::Trx::take_counter_raised)).
//! - COUNTER-1: the next AUTO_INCREMENT value is above every one in the table. What is saved may be
//!   older than the newest rows, so the greatest entry of an index that the column leads is asked
//!   too, delete-marked or not.
use super::table::{Index, Table};
use crate::btree::{Path, Seek, Tree};
use crate::buf::{Latch, PageGuard};
use crate::bytes::u64_at;
use crate::canary::{Canary, planted};
use crate::engine::Engine;
use crate::mtr::{At, Mtr, Store};
use crate::page::Patch;
use crate::page::index::{self, Rec};
use crate::{Lsn, PageId, Result, Try};
use redolith_types::Value;
use redolith_types::convert::to_integer;
use std::sync::atomic::Ordering::*;

/// Where page 0 of a table's space keeps the AUTO_INCREMENT counter.
const COUNTER: usize = 40;

impl Engine {
    /// Finds where the counters stand.
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
        t.auto_increment.fetch_max(saved, AcqRel);
        if t.hidden_key
            && let Some(key) = self.retry(|| greatest_key(&self.store, t.clustered())).await?
        {
            let id = u64::from_be_bytes(key[..8].try_into().expect("a row id"));
            t.row_id.fetch_max(id + 1, AcqRel);
        }
        if let Some(ix) = counting_index(t)
            && !planted(Canary::CounterForgets)
            && let Some(key) = self.retry(|| greatest_key(&self.store, ix)).await?
        {
            let greatest = ix.key.leading_number(&key).map_or(0, |v| to_integer(&v).value);
            let next = u64::try_from(greatest.max(0)).unwrap_or(u64::MAX).saturating_add(1);
            t.auto_increment.fetch_max(next, AcqRel);
        }
        t.rows.store(
            self.retry(|| estimate_rows(&self.store, &t.clustered().tree)).await? as i64,
            Relaxed,
        );
        t.counters_ready.store(true, Release);
        Ok(())
    }
    /// Saves the counter where it has moved up; with `exactly` also down.
    pub(crate) async fn save_counter(&self, t: &Table, exactly: bool) -> Result<()> {
        self.retry(|| {
            let mut m = Mtr::begin_reserved(&self.store)?;
            let p = m.x(PageId { space: t.space, no: 0 })?;
            let (saved, value) = (u64_at(m.page(p), COUNTER), t.auto_increment.load(Acquire));
            if saved < value || exactly && saved != value {
                m.patch(p).write_u64(COUNTER, value);
                m.commit();
            }
            Ok(())
        })
        .await
    }
}

/// The counter of a table that is to be raised in a mini-transaction.
pub(crate) struct Raise {
    page: At,
    to: u64,
}
impl Table {
    /// Before the first change of a mini-transaction that gives the table a row with this payload:
    /// latches what COUNTER-2 asks for.
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
        // Those that were taken with it, for other rows, are coming.
        let to = next.max(self.auto_increment.load(Relaxed));
        Ok(Some(Raise { page: m.x(PageId { space: self.space, no: 0 })?, to }))
    }
    /// A change.
    pub(crate) fn raise_counter(&self, m: &mut Mtr<'_>, raise: &Option<Raise>) {
        if let Some(Raise { page, to }) = *raise
            && u64_at(m.page(page), COUNTER) < to
        {
            m.patch(page).write_u64(COUNTER, to);
        }
    }
    /// The mini-transaction ends at `end`. Others rely on what is raised from now on: it is in the
    /// log before what they do.
    pub(crate) fn counter_raised(&self, raise: Option<Raise>, end: Lsn) {
        if let Some(Raise { to, .. }) = raise {
            self.counter_end.fetch_max(end.0, AcqRel);
            self.counter_logged.fetch_max(to, AcqRel);
        }
    }
    /// Whether the last raise may be lost in a crash.
    pub(crate) fn is_counter_pending(&self, durable: Lsn) -> bool {
        self.counter_end.load(Acquire) > durable.0
    }
}

/// An index that the AUTO_INCREMENT column leads. A definition with such a column has one.
fn counting_index(t: &Table) -> Option<&Index> {
    let column = t.def.auto_increment_column()?;
    t.indexes.iter().find(|ix| ix.key.columns().next() == Some(column))
}

/// The key of the entry with the greatest value of the index's first column, delete-marked or not.
/// None: the tree is empty.
fn greatest_key(store: &Store, ix: &Index) -> Try<Option<Vec<u8>>> {
    let descending = ix.def.columns.first().is_some_and(|c| c.desc);
    let (leaf, entry) =
        if descending { first_entry(store, &ix.tree)? } else { last_entry(store, &ix.tree)? };
    Ok(entry.map(|r| index::key(&leaf, r).to_vec()))
}
/// Leaves at the start may be empty: one behind them has the least key.
fn first_entry(store: &Store, tree: &Tree) -> Try<(PageGuard, Option<Rec>)> {
    let mut leaf = tree.leaf(store, Seek::Key(b""))?;
    while index::first_rec(&leaf).is_none() {
        let Some(next) = tree.right_of(store, &leaf)? else { return Ok((leaf, None)) };
        leaf = next;
    }
    let first = index::first_rec(&leaf);
    Ok((leaf, first))
}
/// Leaves at the end may be empty: one before them has the greatest key.
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

/// Rows of a tree, roughly: the records of some leaves times the pages that the levels above tell
/// of.
fn estimate_rows(store: &Store, tree: &Tree) -> Try<u64> {
    let leaf = tree.leaf(store, Seek::Key(b""))?;
    let per_leaf = index::n_recs(&leaf) as u64;
    drop(leaf);
    let g = store.pool.fix(PageId { space: tree.space, no: tree.root }, Latch::S)?;
    match index::level(&g) {
        0 => Ok(per_leaf),
        1 => Ok(per_leaf * index::n_recs(&g) as u64),
        level => {
            let below = index::n_recs(&g) as u64;
            Ok(per_leaf.max(1) * below * 300u64.saturating_pow(level as u32 - 1))
        }
    }
}
