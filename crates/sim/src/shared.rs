//! Clients that work on the same rows. They meet conflicts between inserts, values of a unique key
//! that are taken, deadlocks, and all four isolation levels.
//!
//! The four tables differ only in how a row is found: by a primary key, by a long primary key (few
//! rows fit a page, so the trees are high), by an AUTO_INCREMENT key, and without a primary key.
//! Transactions change rows in all of them.
use crate::executor::Rng;
use crate::ledger::{Key, Ledger, Row, Rows, Writer};
use crate::load::{LOCK, Shared, encode, int, number, table};
use crate::scan::is_conflict;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::{KillFlag, Mode};
use redolith_engine::row::batch::RowBatch;
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::{Engine, Error, Isolation, PageId, Result, Trx};
use redolith_types::{Column, IndexDef, SqlType, TableDef, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const CLIENTS: usize = 5;
const DEEP: usize = 1;
const AUTO: usize = 2;
const HEAP: usize = 3;
const NAMES: [&str; 4] = ["plain", "deep", "auto", "heap"];
/// The position of the unique index on u in the table's definition.
const BY_U: usize = 1;
/// The bytes of a long key. Four keys fit a page.
const LONG: usize = 3000;
const ISOLATIONS: [Isolation; 4] = [
    Isolation::ReadUncommitted,
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Serializable,
];

pub type SharedLedger = Arc<Mutex<Ledger>>;

/// The tables, and the number of ids in each of the first two.
pub struct Tables {
    tables: Vec<Arc<Table>>,
    ids: [i64; 2],
}

fn definition(no: usize) -> TableDef {
    let id = match no {
        DEEP => Column::new("id", SqlType::VarBinary { len: LONG as u32 }).not_null(),
        AUTO => Column { auto_increment: true, ..Column::new("id", int()).not_null() },
        _ => Column::new("id", int()).not_null(),
    };
    let by_id =
        if no == HEAP { IndexDef::secondary("id", false, [0]) } else { IndexDef::primary([0]) };
    let indexes =
        vec![by_id, IndexDef::secondary("u", true, [1]), IndexDef::secondary("k", false, [2])];
    table(
        NAMES[no],
        vec![id, Column::new("u", int()), Column::new("k", int()), Column::new("token", int())],
        indexes,
    )
}
/// Finds the tables, or creates them. With `deep` there are so many long keys that their tree has
/// four levels.
pub async fn tables(e: &Arc<Engine>, deep: bool) -> Result<Tables> {
    let mut tables = Vec::new();
    for (no, name) in NAMES.iter().enumerate() {
        tables.push(match e.table("sim", name).await? {
            Some(t) => t,
            None => e.create_table(definition(no), 1, None).await?,
        });
    }
    Ok(Tables::new(tables, deep))
}
impl Tables {
    fn new(tables: Vec<Arc<Table>>, deep: bool) -> Tables {
        Tables { tables, ids: [40, if deep { 400 } else { 30 }] }
    }
    fn id_value(&self, (no, id): Key) -> Value<'static> {
        if no == DEEP {
            // The keys differ only at their end, so that the separators in the parent pages are as
            // long as the keys.
            return Value::Bytes(Cow::Owned(format!("{id:0LONG$}").into_bytes()));
        }
        Value::Int(id)
    }
    fn encode(&self, key: Key, r: &Row) -> Vec<u8> {
        encode(
            &self.tables[key.0],
            &[self.id_value(key), Value::Int(r.u), Value::Int(r.k), Value::Int(r.token)],
        )
    }
    fn decode(&self, no: usize, stored: &[u8]) -> (i64, Row) {
        let t = &self.tables[no];
        let id = match t.layout.get(stored, 0) {
            Value::Int(n) => n,
            Value::Bytes(b) => std::str::from_utf8(&b)
                .ok()
                .and_then(|s| s.parse().ok())
                .unwrap_or_else(|| panic!("a key of {} bytes", b.len())),
            other => panic!("an id is {other:?}"),
        };
        (id, Row { u: number(t, stored, 1), k: number(t, stored, 2), token: number(t, stored, 3) })
    }
    /// The encoded key of the index by id: one bound of a scan by id.
    fn bound(&self, no: usize, id: i64) -> Vec<u8> {
        let mut out = Vec::new();
        self.tables[no].indexes[self.by_id(no)]
            .key
            .encode_values(&[self.id_value((no, id))], &mut out);
        out
    }
    fn by_id(&self, no: usize) -> usize {
        if no == HEAP { 1 } else { 0 }
    }
    fn cursor(&self, (no, id): Key, read: Read) -> Cursor {
        let t = self.tables[no].clone();
        if no == HEAP {
            return Cursor::new(
                t,
                1,
                self.bound(no, id),
                Some(self.bound(no, id + 1)),
                false,
                read,
            );
        }
        Cursor::point(t, self.bound(no, id), read)
    }
    /// The number of levels of the tree of long keys.
    pub async fn levels(&self, e: &Arc<Engine>) -> Result<u64> {
        let t = &self.tables[DEEP];
        let root = PageId { space: t.space, no: t.clustered().tree.root };
        e.store.pool.load(root).await?;
        let page = e.store.pool.fix(root, redolith_engine::testing::buf::Latch::S);
        Ok(page.map_or(0, |p| 1 + redolith_engine::testing::page::index::level(&p) as u64))
    }
}

/// Reads all rows through one index of each table: as the rows are stored (0), by id, u or k.
async fn contents(trx: &mut Trx, t: &Tables, index: usize) -> Result<Rows> {
    let mut all = Rows::new();
    for (no, table) in t.tables.iter().enumerate() {
        let index = index.min(table.indexes.len() - 1);
        let mut c =
            Cursor::new(table.clone(), index, Vec::new(), None, index == 1, Read::Consistent);
        while c.next(trx).await? {
            let (id, row) = t.decode(no, c.row().stored);
            assert!(
                all.insert((no, id), row).is_none(),
                "row {id} of {} is there twice",
                table.def.name
            );
        }
    }
    Ok(all)
}
/// Reads all rows, and checks that the indexes agree and that the unique index has each value once.
pub async fn look(e: &Arc<Engine>, t: &Tables) -> Result<Rows> {
    let mut trx = e.begin(KillFlag::new());
    let found = contents(&mut trx, t, 0).await?;
    for index in 1..=3 {
        assert_eq!(
            contents(&mut trx, t, index).await?,
            found,
            "index {index} of the shared tables tells another story than the rows"
        );
    }
    trx.commit().await?.durable().await;
    let values: std::collections::BTreeSet<(usize, i64)> =
        found.iter().map(|(key, r)| (key.0, r.u)).collect();
    assert_eq!(values.len(), found.len(), "a unique index has a value twice");
    Ok(found)
}
/// Compares the result of [`look`] with the ledger. The tables may not exist yet, or not any more.
pub async fn compare(e: &Arc<Engine>, ledger: &SharedLedger, deep: bool) -> Result<()> {
    let mut tables = Vec::new();
    for name in NAMES {
        tables.extend(e.table("sim", name).await?);
    }
    let mut ledger = ledger.lock().expect("one thread").clone();
    if tables.len() < NAMES.len() {
        assert!(ledger.is_empty(), "a shared table is not there, and has rows");
        return Ok(());
    }
    let found = look(e, &Tables::new(tables, deep)).await?;
    ledger.verify(&found).unwrap_or_else(|why| panic!("{why}"));
    Ok(())
}
pub async fn verify(e: &Arc<Engine>, t: &Tables, ledger: &SharedLedger) -> Result<()> {
    let found = look(e, t).await?;
    if let Err(why) = ledger.lock().expect("one thread").verify(&found) {
        panic!("{why}");
    }
    for table in &t.tables {
        let c = e.check_table(table).await?;
        assert!(c.errors.is_empty(), "{}: {:?}; rows: {found:?}", table.full_name(), c.errors);
    }
    // COUNTER-1
    let top = found.keys().filter(|key| key.0 == AUTO).map(|key| key.1).max().unwrap_or(0);
    let top = top.max(ledger.lock().expect("one thread").greatest_id(AUTO));
    let next = t.tables[AUTO].auto_increment.load(std::sync::atomic::Ordering::Relaxed) as i64;
    assert!(next > top, "the next AUTO_INCREMENT value is {next}, and there was a row {top}");
    Ok(())
}

/// One client during one transaction.
struct Work<'a> {
    t: &'a Tables,
    me: Writer,
    ledger: &'a SharedLedger,
    shared: &'a Shared,
}
impl Work<'_> {
    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("one thread")
    }
    fn draw_key(&self, rng: &mut Rng) -> Key {
        let no = rng.below(4) as usize;
        if no <= DEEP {
            return (no, rng.below(self.t.ids[no] as u64) as i64);
        }
        let ids = self.ledger().ids(no);
        (no, ids.get(rng.below(ids.len() as u64) as usize).copied().unwrap_or(1))
    }
    fn draw_row(&self, no: usize, rng: &mut Rng) -> Row {
        let values = if no == DEEP { 2000 } else { 60 };
        Row {
            u: rng.below(values) as i64,
            k: rng.below(6) as i64,
            token: self.ledger().new_token(),
        }
    }
    /// Checks with the ledger that another row may have a value which the engine reports as taken.
    fn taken(&self, key: Key, u: i64) {
        let taken = self.ledger().may_have(self.me, key, u);
        assert!(
            taken.is_ok(),
            "u = {u} is said to be taken in {}; {}",
            NAMES[key.0],
            taken.unwrap_err()
        );
        self.shared.seen.lock().expect("one thread").unique_conflicts += 1;
    }

    async fn insert(&self, trx: &mut Trx, rng: &mut Rng) -> Result<()> {
        let no = rng.below(4) as usize;
        let id = match no {
            AUTO => self.t.tables[AUTO].take_auto_increment(1) as i64,
            HEAP => self.ledger().new_id(),
            _ => rng.below(self.t.ids[no] as u64) as i64,
        };
        let (key, row, t) = ((no, id), self.draw_row(no, rng), &self.t.tables[no]);
        self.ledger().announce(self.me, key, row);
        let seen = || self.shared.seen.lock().expect("one thread");
        match trx.insert(t, &self.t.encode(key, &row)).await {
            Ok(()) => {
                let possible = self.ledger().possible(self.me, key);
                assert!(possible.contains(&None), "row {key:?} was inserted over {possible:?}");
                self.ledger().wrote(self.me, key, Some(row));
                seen().auto_increments += (no == AUTO) as u64;
                seen().hidden_keys += (no == HEAP) as u64;
                Ok(())
            }
            Err(Error::DuplicateKey { index_no, .. }) if index_no == t.index_no(BY_U) => {
                self.taken(key, row.u);
                Ok(())
            }
            Err(Error::DuplicateKey { .. }) => {
                let possible = self.ledger().possible(self.me, key);
                assert!(
                    no <= DEEP && possible.iter().any(Option::is_some),
                    "row {key:?} is said to be there"
                );
                seen().inserts_met += 1;
                Ok(())
            }
            Err(e) => Err(e),
        }
    }
    /// Inserts rows without keys of their choice in one batch, up to the first whose `u` is taken
    /// (BATCH-1). A crash may come at any moment of the batch (BATCH-2).
    async fn insert_batch(&self, trx: &mut Trx, rng: &mut Rng) -> Result<()> {
        let no = if rng.chance(2) { AUTO } else { HEAP };
        let (t, count) = (&self.t.tables[no], 2 + rng.below(30));
        let first = self.t.tables[AUTO].take_auto_increment(count) as i64;
        let (mut batch, mut made) = (RowBatch::default(), Vec::new());
        for n in 0..count as i64 {
            let id = if no == AUTO { first + n } else { self.ledger().new_id() };
            let mut row = self.draw_row(no, rng);
            // Few batches would get far with the values that single rows fight for.
            row.u += 1000 * rng.below(1000) as i64;
            self.ledger().announce(self.me, (no, id), row);
            batch.push(&self.t.encode((no, id), &row));
            made.push(((no, id), row));
        }
        let done = trx.insert_batch(t, &mut batch).await;
        let inserted = done.as_ref().map_or_else(|(n, _)| *n, |()| made.len());
        for (key, row) in &made[..inserted] {
            self.ledger().wrote(self.me, *key, Some(*row));
        }
        self.shared.seen.lock().expect("one thread").batched_rows += inserted as u64;
        match done {
            Ok(()) => Ok(()),
            Err((n, Error::DuplicateKey { index_no, .. })) if index_no == t.index_no(BY_U) => {
                self.taken(made[n].0, made[n].1.u);
                Ok(())
            }
            Err((_, e)) => Err(e),
        }
    }
    /// Locks a row, and then changes it, deletes it, or does nothing.
    async fn change(&self, trx: &mut Trx, rng: &mut Rng) -> Result<()> {
        let key = self.draw_key(rng);
        let no = key.0;
        // A transaction that only reads may take a shared lock.
        let looks = rng.chance(4);
        let mode = if looks && rng.chance(2) { Mode::S } else { Mode::X };
        let read = Read::Locking { mode, conflict: OnConflict::Wait };
        let mut c = self.t.cursor(key, read);
        let found = c.next(trx).await?;
        let old = found.then(|| self.t.decode(no, c.row().stored).1);
        let possible = self.ledger().possible(self.me, key);
        assert!(
            possible.contains(&old),
            "row {key:?}, locked, is {old:?}, and not one of {possible:?}"
        );
        if !found || looks {
            return Ok(());
        }
        let t = &self.t.tables[no];
        if rng.chance(3) {
            trx.delete(t, c.row()).await?;
            self.ledger().wrote(self.me, key, None);
            return Ok(());
        }
        let (old, mut row) = (old.expect("found"), self.draw_row(no, rng));
        if rng.chance(2) {
            row.u = old.u;
        }
        self.ledger().announce(self.me, key, row);
        let mut new = Vec::new();
        t.layout.update(
            c.row().stored,
            &[(1, Value::Int(row.u)), (2, Value::Int(row.k)), (3, Value::Int(row.token))],
            &mut new,
        );
        match trx.update(t, c.row(), &new).await {
            Ok(()) => self.ledger().wrote(self.me, key, Some(row)),
            Err(Error::DuplicateKey { .. }) => self.taken(key, row.u),
            Err(e) => return Err(e),
        }
        Ok(())
    }
    /// Reads a row twice without locks, and checks: only written rows, no dirty read, and a stable
    /// view.
    async fn read(&self, trx: &mut Trx, rng: &mut Rng) -> Result<()> {
        let key = self.draw_key(rng);
        let mut before: Option<Option<Row>> = None;
        for _ in 0..2 {
            let mut c = self.t.cursor(key, Read::Consistent);
            let row = if c.next(trx).await? {
                Some(self.t.decode(key.0, c.row().stored).1)
            } else {
                None
            };
            if let Some(row) = row {
                self.ledger().check_seen(
                    self.me,
                    key,
                    row,
                    trx.isolation == Isolation::ReadUncommitted,
                );
            }
            if trx.isolation >= Isolation::RepeatableRead {
                assert!(
                    before.is_none_or(|b| b == row),
                    "row {key:?} was {before:?} in the same view, and is {row:?}"
                );
            }
            before = Some(row);
            let runtime = trx.engine().runtime.clone();
            if rng.chance(2) {
                runtime.yield_now().await
            } else {
                runtime.sleep(Duration::from_millis(rng.below(3))).await
            }
        }
        Ok(())
    }
    /// Reads a table in the order of k, once from the rows and once from the entries alone, where
    /// the page allows that, and checks that both are the same (CURSOR-3).
    async fn entries(&self, trx: &mut Trx, rng: &mut Rng) -> Result<()> {
        let t = &self.t.tables[rng.below(NAMES.len() as u64) as usize];
        let (index, reverse) = (t.indexes.len() - 1, rng.chance(2));
        let runtime = trx.engine().runtime.clone();
        let mut seen = [Vec::new(), Vec::new()];
        let first = rng.chance(2);
        for covered in [first, !first] {
            let mut c = Cursor::new(t.clone(), index, Vec::new(), None, reverse, Read::Consistent);
            if covered {
                c.cover(&[2]);
            }
            while c.next(trx).await? {
                seen[usize::from(covered)]
                    .push((c.row().key.to_vec(), number(t, c.row().stored, 2)));
            }
            runtime.yield_now().await;
        }
        // Without a view that lasts, rows may have changed in between.
        assert!(
            seen[0] == seen[1] || trx.isolation == Isolation::ReadUncommitted,
            "entries tell another story than their rows: {seen:?}"
        );
        Ok(())
    }
    /// Locks a range, and checks: where ranges are locked, the scan finds every row of the range
    /// and no other.
    async fn range(&self, trx: &mut Trx, rng: &mut Rng) -> Result<()> {
        let no = rng.below(2) as usize;
        let low = rng.below(self.t.ids[no] as u64) as i64;
        let high = low + 1 + rng.below(8) as i64;
        let mut c = Cursor::new(
            self.t.tables[no].clone(),
            0,
            self.t.bound(no, low),
            Some(self.t.bound(no, high)),
            rng.chance(2),
            LOCK,
        );
        let mut found = BTreeMap::new();
        while c.next(trx).await? {
            let (id, row) = self.t.decode(no, c.row().stored);
            assert!(
                (low..high).contains(&id) && found.insert(id, row).is_none(),
                "row {id} in {low}..{high}"
            );
        }
        let all = trx.isolation >= Isolation::RepeatableRead;
        for id in low..high {
            let (row, possible) =
                (found.get(&id).copied(), self.ledger().possible(self.me, (no, id)));
            // Without range locks, a row may have been inserted since.
            assert!(
                possible.contains(&row) || !all && row.is_none(),
                "row {id} in {low}..{high}, locked, is {row:?}, and not one of {possible:?}"
            );
        }
        Ok(())
    }
    async fn step(&self, trx: &mut Trx, rng: &mut Rng) -> Result<()> {
        match rng.below(10) {
            0 if rng.chance(2) => self.insert_batch(trx, rng).await,
            0..=3 => self.insert(trx, rng).await,
            4..=6 => self.change(trx, rng).await,
            7 if rng.chance(4) => self.entries(trx, rng).await,
            7 | 8 => self.read(trx, rng).await,
            _ => self.range(trx, rng).await,
        }
    }
    async fn steps(&self, trx: &mut Trx, rng: &mut Rng) -> Result<()> {
        for _ in 0..1 + rng.below(7) {
            self.step(trx, rng).await?;
        }
        if rng.chance(5) {
            let (place, before) = (trx.savepoint(), self.ledger().counts(self.me));
            for _ in 0..rng.below(4) {
                self.step(trx, rng).await?;
            }
            trx.rollback_to(place).await?;
            self.ledger().back_to(self.me, &before);
        }
        Ok(())
    }
    async fn transaction(&self, trx: &mut Trx, rng: &mut Rng) -> Result<()> {
        let done = self.steps(trx, rng).await;
        if done.is_err() || rng.chance(6) {
            // The ledger is told before the engine rolls back, because the rollback releases the
            // locks.
            self.ledger().rolled_back(self.me);
            let taken_back = trx.rollback().await;
            return done.and(taken_back);
        }
        self.ledger().commits(self.me);
        match trx.commit().await {
            Ok(ticket) => {
                self.ledger().committed(self.me);
                ticket.durable().await;
                self.ledger().answered(self.me);
                Ok(())
            }
            Err(e) => {
                self.ledger().rolled_back(self.me);
                Err(e)
            }
        }
    }
}

/// Runs `count` transactions of a client.
pub async fn client(
    e: Arc<Engine>,
    t: Arc<Tables>,
    mut rng: Rng,
    count: u64,
    shared: Shared,
    ledger: SharedLedger,
) -> Result<()> {
    let mut trx = e.begin(KillFlag::new());
    trx.lock_wait_timeout = Duration::from_millis(200);
    for _ in 0..count {
        trx.isolation = ISOLATIONS[rng.below(4) as usize];
        let me = ledger.lock().expect("one thread").begin();
        let work = Work { t: &t, me, ledger: &ledger, shared: &shared };
        let done = work.transaction(&mut trx, &mut rng).await;
        let seen = || shared.seen.lock().expect("one thread");
        match done {
            Ok(()) => {
                let s = &mut seen();
                match trx.isolation {
                    Isolation::ReadUncommitted => s.read_uncommitted += 1,
                    Isolation::ReadCommitted => s.read_committed += 1,
                    Isolation::RepeatableRead => s.repeatable_read += 1,
                    Isolation::Serializable => s.serializable += 1,
                }
            }
            Err(e) if shared.forgives(&e) => {
                seen().deadlocks += matches!(e, Error::Deadlock) as u64;
                trx.rollback().await?;
                if !is_conflict(&e) {
                    trx.engine().runtime.sleep(Duration::from_millis(20)).await;
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
/// Fills the table of long keys, with some rows per transaction.
pub async fn fill(
    e: &Arc<Engine>,
    t: &Tables,
    shared: &Shared,
    ledger: &SharedLedger,
) -> Result<()> {
    let mut trx = e.begin(KillFlag::new());
    for first in (0..t.ids[DEEP]).step_by(20) {
        let me = ledger.lock().expect("one thread").begin();
        let work = Work { t, me, ledger, shared };
        for id in (first..first + 20).filter(|id| id % 2 == 0) {
            let key = (DEEP, id);
            // These values differ from all that the clients draw.
            let row = Row { u: 10_000 + id, k: 0, token: work.ledger().new_token() };
            work.ledger().announce(me, key, row);
            match trx.insert(&t.tables[DEEP], &t.encode(key, &row)).await {
                Ok(()) => work.ledger().wrote(me, key, Some(row)),
                Err(Error::DuplicateKey { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        work.ledger().commits(me);
        let ticket = trx.commit().await?;
        work.ledger().committed(me);
        ticket.durable().await;
        work.ledger().answered(me);
    }
    Ok(())
}
