//! Prepare: the first half of a commit in two phases. A prepared transaction has promised that it
//! can commit and can be rolled back, whatever happens in between: another party decides.
//!
//! - PREPARE-1: a prepared transaction survives a crash with all its changes and all its locks, of
//!   rows, of ranges, and of tables. Its undo log is in the state PREPARED, and ends with records
//!   (HELD) that list the locks. Implicit locks need no list: they come back with the changes.
//! - PREPARE-2: the rollback of a prepared transaction begins with the mark that it is active
//!   again. So a crash in the middle of the rollback never leaves a prepared transaction that
//!   lacks a part of its changes.
//!
//! What the HELD records have, one behind the other (little-endian):
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version: 1 |
//! | 2, n | the name that the caller has given |
//! | 4, then each 9 | tables: id u64, whether rows of it are written u8 |
//! | 4, then each 17 | row locks: index u64, hash u64, mode u8 (0: shared, 1: exclusive) |
//! | 4, then each | range locks: index u64; low bound: length u16, bytes; whether there is a high bound u8; high bound: length u16, bytes |
use super::Trx;
use super::commit::CommitTicket;
use super::rollback::Numbers;
use crate::canary::{Canary, planted};
use crate::commit_stream::StreamRecord;
use crate::engine::Engine;
use crate::lock::{KeyRange, LockKey, Mode};
use crate::mtr::Mtr;
use crate::undo::record::{self, Entry, Head, RollPtr};
use crate::{Error, Result, Try, undo};
use hashbrown::HashMap;
use std::sync::Arc;
use std::time::Duration;

const VERSION: u8 = 1;
/// The longest name of a prepared transaction.
pub(crate) const NAME_MAX: usize = 1024;

/// A table that a prepared transaction uses. Until the transaction ends, its definition must not
/// change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsedTable {
    /// The table's id.
    pub id: u64,
    /// Whether the transaction has written rows of it.
    pub written: bool,
}

/// A prepared transaction that a start has found.
pub struct Prepared {
    /// The name that it was prepared under.
    pub name: Vec<u8>,
    /// The tables that it uses.
    pub tables: Vec<UsedTable>,
    /// The transaction, to be ended by [`Trx::commit`] or by [`Trx::take_promise_back`] and
    /// [`Trx::rollback`].
    pub trx: Trx,
}

/// What a prepared transaction holds.
#[derive(Default, PartialEq, Eq, Debug)]
struct Holdings {
    name: Vec<u8>,
    tables: Vec<UsedTable>,
    rows: Vec<(LockKey, Mode)>,
    ranges: Vec<(u64, KeyRange)>,
}

impl Trx {
    /// Prepares the transaction under a name: when the ticket resolves, no crash can take it back
    /// any more, and only [`Trx::commit`] or [`Trx::take_promise_back`] may follow. `tables` are
    /// all tables that it has used. `record` is for the engine's stream, as in
    /// [`Trx::commit_with`]. If this fails, the transaction can only be rolled back.
    ///
    /// A transaction that neither writes nor holds locks, or must not write, is prepared in memory
    /// alone.
    ///
    /// # Errors
    /// As [`Trx::commit_with`].
    ///
    /// # Panics
    /// If the transaction is prepared already, or the name is longer than 1024 bytes.
    pub async fn prepare(
        &mut self,
        name: &[u8],
        tables: &[UsedTable],
        record: Option<&[u8]>,
    ) -> Result<CommitTicket> {
        assert!(!self.prepared && name.len() <= NAME_MAX, "a name of {} bytes", name.len());
        if let Some(e) = &self.broken {
            return Err(e.clone());
        }
        self.view.close();
        let engine = self.engine.clone();
        let locks = self.locks.locks_held() + self.locks.ranges_held();
        if self.undo.is_empty() && (locks == 0 || self.read_only) {
            self.prepared = true;
            return Ok(CommitTicket { engine, lsn: None, at: Duration::ZERO });
        }
        self.ensure_id().await?;
        if locks >= super::commit::MANY {
            engine.runtime.leave_worker();
        }
        let held = self.holdings(name, tables).encode();
        for part in held.chunks(record::HELD_MAX) {
            self.give_way().await;
            loop {
                match self.append_held(part) {
                    Ok(()) => break,
                    Err(s) => self.unblocked(s).await?,
                }
            }
        }
        let lsn = self.mark(record::PREPARED, record.map(StreamRecord::new)).await?;
        self.prepared = true;
        Ok(CommitTicket { engine, lsn, at: Duration::ZERO })
    }
    /// Whether the transaction is prepared.
    pub fn is_prepared(&self) -> bool {
        self.prepared
    }
    /// Makes a prepared transaction an active one, which [`Trx::rollback`] may roll back
    /// (PREPARE-2). The rollback is certain when the ticket resolves.
    ///
    /// # Errors
    /// As [`Trx::commit_with`]; the transaction then stays prepared.
    pub async fn take_promise_back(&mut self, record: Option<&[u8]>) -> Result<CommitTicket> {
        assert!(self.prepared, "only a prepared transaction has promised something");
        let engine = self.engine.clone();
        let lsn = if planted(Canary::RollbackKeepsPromise) {
            None
        } else {
            self.mark(record::ACTIVE, record.map(StreamRecord::new)).await?
        };
        self.prepared = false;
        Ok(CommitTicket { engine, lsn, at: Duration::ZERO })
    }
    /// Takes the transaction out of its session, which goes on with a new one.
    pub fn detach(&mut self) -> Trx {
        let fresh = Trx::new(self.engine.clone(), self.locks.kill());
        let mut detached = std::mem::replace(self, fresh);
        detached.locks.seen().detach(self.locks.seen());
        detached.view.close();
        detached
    }

    fn append_held(&mut self, part: &[u8]) -> Try<()> {
        let engine = self.engine.clone();
        let mut bytes = std::mem::take(&mut self.scratch.undo);
        record::held(&mut bytes, self.undo.head(0), part);
        let written =
            self.undo.make_room(&engine.store, &engine.undo, bytes.len()).and_then(|()| {
                let mut m = Mtr::begin(&engine.store)?;
                let slot = self.undo.reserve(&mut m, self.id, bytes.len())?;
                let roll = slot.roll(false);
                self.undo.write(&mut m, &engine.undo, slot, &bytes, roll);
                m.commit();
                Ok(())
            });
        self.scratch.undo = bytes;
        written
    }

    /// What the transaction holds now.
    fn holdings(&self, name: &[u8], tables: &[UsedTable]) -> Holdings {
        let (keys, in_ranges) = self.locks.held_locks();
        let rows = self.engine.locks.modes_of(&self.locks, keys);
        let mut ranges = Vec::new();
        for of in in_ranges {
            of.each_range(&self.locks, |range| ranges.push((of.index(), range)));
        }
        if planted(Canary::PrepareForgetsLocks) {
            return Holdings {
                name: name.to_vec(),
                tables: tables.to_vec(),
                ..Holdings::default()
            };
        }
        Holdings { name: name.to_vec(), tables: tables.to_vec(), rows, ranges }
    }
}

impl Engine {
    /// The prepared transactions that the start has found, which nobody has taken yet. Those that
    /// are not taken, or dropped without an end, keep their locks, and the next start finds them
    /// again.
    pub fn take_prepared(&self) -> Vec<Prepared> {
        std::mem::take(&mut *self.prepared.lock())
    }

    /// Gives a prepared transaction that a start has found its locks back (PREPARE-1). The
    /// dictionary has been read, and no session is there yet.
    pub(crate) async fn restore_prepared(self: &Arc<Engine>, mut trx: Trx) -> Result<Prepared> {
        let mut parts = Vec::new();
        let (mut at, mut numbers) = (trx.undo.last, Numbers::default());
        while at != RollPtr::NONE {
            let part = self.retry(|| read_held(self, at)).await?;
            let Some((head, part)) = part else { break };
            numbers.go_back_to(self, at, head.undo_no)?;
            parts.push(part);
            at = head.before;
        }
        parts.reverse();
        let held = Holdings::decode(&parts.concat()).map_err(|why| {
            Error::Damaged(format!("the undo log of the prepared transaction {}: {why}", trx.id.0))
        })?;
        let mut indexes = HashMap::new();
        for table in self.dict.all_tables() {
            indexes.extend(table.indexes.iter().map(|index| (index.id, index.ranges.clone())));
        }
        for (key, mode) in held.rows {
            self.locks.restore_row(&trx.locks, key, mode);
        }
        for (index, range) in held.ranges {
            // An index that is gone has no rows to guard: DDL waits for prepared transactions, but
            // not a forced one.
            if let Some(ranges) = indexes.get(&index) {
                ranges.lock_range(&trx.locks, range);
            }
        }
        (trx.prepared, trx.abandoned) = (true, false);
        Ok(Prepared { name: held.name, tables: held.tables, trx })
    }
}

/// The head and the part of a HELD record; None if the record is of another kind.
fn read_held(engine: &Engine, at: RollPtr) -> Try<Option<(Head, Vec<u8>)>> {
    undo::read(&engine.store, at, |e| match e {
        Some(Entry::Held { head, part }) => Some((head, part.to_vec())),
        _ => None,
    })
}

impl Holdings {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let put_bytes = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        put_bytes(&mut out, &self.name);
        out.extend_from_slice(&(self.tables.len() as u32).to_le_bytes());
        for table in &self.tables {
            out.extend_from_slice(&table.id.to_le_bytes());
            out.push(table.written.into());
        }
        out.extend_from_slice(&(self.rows.len() as u32).to_le_bytes());
        for (key, mode) in &self.rows {
            out.extend_from_slice(&key.index.to_le_bytes());
            out.extend_from_slice(&key.hash.to_le_bytes());
            out.push((*mode == Mode::X).into());
        }
        out.extend_from_slice(&(self.ranges.len() as u32).to_le_bytes());
        for (index, range) in &self.ranges {
            let (low, high) = range.bounds();
            out.extend_from_slice(&index.to_le_bytes());
            put_bytes(&mut out, low);
            out.push(high.is_some().into());
            put_bytes(&mut out, high.unwrap_or_default());
        }
        out
    }
    fn decode(bytes: &[u8]) -> std::result::Result<Holdings, &'static str> {
        let mut input = Input(bytes);
        if input.take::<1>()? != [VERSION] {
            return Err("the list of what it holds has an unknown version");
        }
        let name = input.bytes()?.to_vec();
        let mut held = Holdings { name, ..Holdings::default() };
        for _ in 0..input.u32()? {
            let (id, [written]) = (input.u64()?, input.take()?);
            held.tables.push(UsedTable { id, written: written != 0 });
        }
        for _ in 0..input.u32()? {
            let key = LockKey { index: input.u64()?, hash: input.u64()? };
            let mode = if input.take::<1>()? == [0] { Mode::S } else { Mode::X };
            held.rows.push((key, mode));
        }
        for _ in 0..input.u32()? {
            let (index, low) = (input.u64()?, input.bytes()?);
            let has_high = input.take::<1>()? != [0];
            let high = Some(input.bytes()?).filter(|_| has_high);
            held.ranges.push((index, KeyRange::half_open(low, high)));
        }
        if input.0.is_empty() { Ok(held) } else { Err("the list of what it holds is too long") }
    }
}

/// Reads fields from bytes that may be damaged.
struct Input<'b>(&'b [u8]);
impl<'b> Input<'b> {
    fn slice(&mut self, len: usize) -> std::result::Result<&'b [u8], &'static str> {
        let (taken, rest) =
            self.0.split_at_checked(len).ok_or("the list of what it holds is cut short")?;
        self.0 = rest;
        Ok(taken)
    }
    fn take<const N: usize>(&mut self) -> std::result::Result<[u8; N], &'static str> {
        Ok(self.slice(N)?.try_into().expect("N bytes"))
    }
    fn u32(&mut self) -> std::result::Result<u32, &'static str> {
        Ok(u32::from_le_bytes(self.take()?))
    }
    fn u64(&mut self) -> std::result::Result<u64, &'static str> {
        Ok(u64::from_le_bytes(self.take()?))
    }
    fn bytes(&mut self) -> std::result::Result<&'b [u8], &'static str> {
        let len = u16::from_le_bytes(self.take()?);
        self.slice(len.into())
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_read_back_and_damage_is_refused() {
        let key = |index, hash| LockKey { index, hash };
        let held = Holdings {
            name: b"a name".to_vec(),
            tables: vec![UsedTable { id: 7, written: true }, UsedTable { id: 9, written: false }],
            rows: vec![(key(1, u64::MAX), Mode::X), (key(2, 0), Mode::S)],
            ranges: vec![(3, KeyRange::all()), (4, KeyRange::point(b"key")), (5, KeyRange::none())],
        };
        let bytes = held.encode();
        assert_eq!(Holdings::decode(&bytes).unwrap(), held);
        for len in 0..bytes.len() {
            Holdings::decode(&bytes[..len]).unwrap_err();
        }
        let mut longer = bytes.clone();
        longer.push(0);
        Holdings::decode(&longer).unwrap_err();
        // A count that lies takes no memory.
        let mut lies = vec![VERSION, 0, 0];
        lies.extend_from_slice(&u32::MAX.to_le_bytes());
        Holdings::decode(&lies).unwrap_err();
    }
}
