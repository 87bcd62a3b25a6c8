//! Inserts many rows in one call: as many as one leaf takes go in under one latch, in one
//! mini-transaction.
//!
//! A run is the next rows of a batch whose keys ascend, that belong between two neighbouring
//! records of one leaf, and that the leaf and the undo page have room for. A row that begins no
//! run (its key is taken, its leaf is full, it has long columns, a range lock may block it or an
//! entry of it) goes in as a row of its own, and so does every row while changes are held up
//! because the redo log is nearly full or the history is long. Long statements so take the latch of
//! a leaf once for hundreds of rows, which matters most where several sessions append to one index.
//!
//! - BATCH-1: the effect of a batch is that of its rows, one after the other. The first row that
//!   fails ends the batch, and the rows behind it have left no trace.
//! - BATCH-2: a run and the undo records of all of its rows are in one mini-transaction
//!   (UNDO-2), so a crash keeps all of a run or nothing of it, and a rollback to any row's
//!   beginning finds the row's own undo record. The entries in secondary indexes follow, each by
//!   itself.
//! - BATCH-3: no row of a run is checked against a range lock, since a run begins only while no
//!   index of the table has range locks, under the leaf's latch. If a secondary index has got range
//!   locks before the entry of a row goes in, the rows behind that row are taken back first, so
//!   that a row that waits has no rows behind it.
use super::{overflow, value};
use crate::btree::Appended;
use crate::canary::{Canary, planted};
use crate::dict::table::Table;
use crate::lock::{LockTable, Mode};
use crate::mtr::Mtr;
use crate::page::index::run::{self, Run, RunRoom};
use crate::page::index::{self, MAX_KEY};
use crate::trx::{Savepoint, Trx};
use crate::undo::record;
use crate::{Error, Try};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Payloads of rows (`RowLayout::encode`), and their keys while they are inserted.
#[derive(Default)]
pub struct RowBatch {
    payloads: Pieces,
    keys: Pieces,
}
/// Byte strings, one behind the other.
#[derive(Default)]
struct Pieces {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}
impl Pieces {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
    fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
    fn get(&self, n: usize) -> &[u8] {
        let from = if n == 0 { 0 } else { self.ends[n - 1] };
        &self.bytes[from..self.ends[n]]
    }
}
impl RowBatch {
    /// Adds a row behind the others.
    pub fn push(&mut self, payload: &[u8]) {
        self.payloads.bytes.extend_from_slice(payload);
        self.payloads.ends.push(self.payloads.bytes.len());
    }
    /// Forgets the rows, and keeps the memory.
    pub fn clear(&mut self) {
        self.payloads.clear();
        self.keys.clear();
    }
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.payloads.ends.len()
    }
    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.payloads.ends.is_empty()
    }
    /// The bytes of all payloads.
    pub fn bytes(&self) -> usize {
        self.payloads.bytes.len()
    }
    /// The memory that the batch holds.
    pub fn memory(&self) -> usize {
        self.payloads.memory() + self.keys.memory()
    }
    /// Row `n`.
    pub fn payload(&self, n: usize) -> &[u8] {
        self.payloads.get(n)
    }
}

/// Whether no index of the table has range locks.
fn blocks_nothing(table: &Table) -> bool {
    table.indexes.iter().all(|ix| LockTable::blocks_no_insert(&ix.ranges))
}

/// Whether a row gets entries when it goes in.
fn has_entries(table: &Table) -> bool {
    table.secondary().next().is_some() && !table.entries_later.load(Relaxed)
}

impl Trx {
    /// Whether a batch of rows meets other sessions as the rows would one after the other. With a
    /// unique secondary index, a row may wait for another session's key, and the rows behind it in
    /// its run would be there already, where that session may meet them.
    pub fn takes_batches(table: &Table) -> bool {
        table.entries_later.load(Relaxed) || table.secondary().all(|(_, ix)| !ix.def.unique)
    }
    /// Inserts the rows in their order. After an error, its number says which row failed: the rows
    /// before it are inserted, and the others are not (BATCH-1).
    pub async fn insert_batch(
        &mut self,
        table: &Arc<Table>,
        rows: &mut RowBatch,
    ) -> std::result::Result<(), (usize, Error)> {
        self.ensure_id().await.map_err(|e| (0, e))?;
        let count = rows.len();
        let mut key = std::mem::take(&mut self.scratch.key);
        let keys = &mut rows.keys;
        keys.clear();
        let mut row_id = table.hidden_key.then(|| table.row_id.fetch_add(count as u64, Relaxed));
        for n in 0..count {
            match &mut row_id {
                Some(id) => {
                    keys.bytes.extend_from_slice(&id.to_be_bytes());
                    *id += 1;
                }
                None => {
                    table.new_key(rows.payloads.get(n), &mut key);
                    keys.bytes.extend_from_slice(&key);
                }
            }
            keys.ends.push(keys.bytes.len());
        }
        self.scratch.key = key;
        let mut next = 0;
        while next < count {
            self.pace().await;
            let run = if self.is_slowed() { Ok(0) } else { self.try_run(table, rows, next) };
            match run {
                Ok(0) => {
                    let start = self.savepoint();
                    let (key, payload) = (rows.keys.get(next), rows.payloads.get(next));
                    if let Err(e) = self.insert_at(table, key, payload, Mode::S).await {
                        let back = self.rollback_to(start).await;
                        return Err((next, back.err().unwrap_or(e)));
                    }
                    next += 1;
                }
                Ok(done) => {
                    table.rows.fetch_add(done as i64, Relaxed);
                    self.turn.count_more(done - 1);
                    next += self.entries_of_run(table, rows, next..next + done).await?;
                }
                Err(blocked) => self.unblocked(blocked).await.map_err(|e| (next, e))?,
            }
        }
        // A connection that rests does not keep the memory of its last batch.
        (self.scratch.run, self.scratch.starts) = (Run::default(), Vec::new());
        self.scratch.undo.shrink_to(MAX_KEY);
        Ok(())
    }
    /// Inserts the entries of a run's rows. A row that fails goes, and the rows behind it with it.
    /// Returns the number of rows that are done (BATCH-3).
    async fn entries_of_run(
        &mut self,
        table: &Arc<Table>,
        rows: &RowBatch,
        run: Range<usize>,
    ) -> std::result::Result<usize, (usize, Error)> {
        if !has_entries(table) {
            return Ok(run.len());
        }
        // Entries write no undo records, so the row's own record is still the place to go back to.
        let starts = std::mem::take(&mut self.scratch.starts);
        let mut done = Ok(run.len());
        for n in run.clone() {
            self.give_way().await;
            let next = n + 1 - run.start;
            let alone = next < run.len() && !blocks_nothing(table);
            if alone && let Err(e) = self.rollback_to(Savepoint(starts[next])).await {
                done = Err((n, e));
                break;
            }
            let (key, payload) = (rows.keys.get(n), rows.payloads.get(n));
            if let Err(e) = self.insert_entries(table, key, payload, payload).await {
                let back = self.rollback_to(Savepoint(starts[n - run.start])).await;
                done = Err((n, back.err().unwrap_or(e)));
                break;
            }
            if alone {
                done = Ok(next);
                break;
            }
        }
        self.scratch.starts = starts;
        done
    }
    /// Inserts the longest run from row `from` on, and returns its length: 0 if that row has to go
    /// in by itself.
    fn try_run(&mut self, table: &Arc<Table>, rows: &RowBatch, from: usize) -> Try<usize> {
        let engine = self.engine.clone();
        let ix = table.clustered();
        let first = rows.keys.get(from);
        let Some(undo_room) = self.undo.room_from(record::insert_len(first.len())) else {
            return Ok(0);
        };
        let mut m = Mtr::begin(&engine.store)?;
        let (leaf, pos) = self.leaf_for_insert(&mut m, ix, first)?;
        if pos.found.is_some() || !blocks_nothing(table) {
            return Ok(0);
        }
        let page = m.page(leaf);
        let end = index::next_rec(page, pos.prev).map(|r| index::key(page, r));
        let end = end.or_else(|| index::high_key(page));
        let (mut room, mut undo_len, mut until) = (RunRoom::at(page, pos), 0, from);
        while until < rows.len() {
            let (key, payload) = (rows.keys.get(until), rows.payloads.get(until));
            let ascends = until == from || rows.keys.get(until - 1) < key;
            undo_len += record::insert_len(key.len());
            if key.len() > MAX_KEY
                || !ascends
                || end.is_some_and(|end| key >= end)
                || undo_len > undo_room
                || !overflow::is_inline(key.len(), payload)
                || !room.take(key.len(), value::HEAD + payload.len())
            {
                undo_len -= record::insert_len(key.len());
                break;
            }
            until += 1;
        }
        if until == from {
            return Ok(0);
        }
        let mut raise = None;
        for n in from..until {
            let more = table.latch_counter(&mut m, rows.payloads.get(n))?;
            raise = crate::dict::counters::Raise::further(raise, more);
        }
        let slot = self.undo.reserve(&mut m, self.id, undo_len)?;
        // From here on nothing can fail (MTR-1).
        table.raise_counter(&mut m, &raise);
        let (mut run, mut undo) =
            (std::mem::take(&mut self.scratch.run), std::mem::take(&mut self.scratch.undo));
        run.clear();
        undo.clear();
        self.scratch.starts.clear();
        let has_entries = has_entries(table);
        let mut head = self.undo.head(table.id);
        let before_run = head.before;
        for n in from..until {
            let (key, payload) = (rows.keys.get(n), rows.payloads.get(n));
            if has_entries {
                self.scratch.starts.push(head.before);
            }
            if planted(Canary::RunForgetsUndo) {
                head.before = before_run;
            }
            let roll = slot.roll_behind(undo.len());
            record::append_insert(&mut undo, head, key);
            run.push(key, &[&value::head(self.id, roll), payload]);
            head = record::Head { undo_no: head.undo_no + 1, before: roll, ..head };
        }
        assert_eq!(undo.len(), undo_len, "the records are as long as their room");
        let rec = run::insert_run(&mut m.patch(leaf), pos, &mut run);
        let at_end = index::next_rec(m.page(leaf), rec).is_none();
        let page = m.page_no(leaf);
        let done = until - from;
        self.undo.write_some(&mut m, &engine.undo, slot, &undo, head.before, done as u32);
        self.locks.set_undo_records(self.undo.count.into());
        (self.scratch.run, self.scratch.undo) = (run, undo);
        let end = m.commit();
        self.scratch.appended = at_end.then_some(Appended { index: ix.id, page, lsn: end.0, rec });
        table.counter_raised(raise, end);
        if table.is_counter_pending(engine.store.log.durable()) {
            self.counter_raised = Some(end);
        }
        Ok(done)
    }
}
