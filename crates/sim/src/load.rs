//! The load of a run, and the model of its expected contents.
//!
//! Each client works on keys of its own. So the rows that it must find after a crash follow from
//! its own transactions: all acknowledged ones, and the unacknowledged one whole or not at all.
//! Every transaction also adds one to the client's marker and to one of a few shared counters, so
//! in any view, at any moment, the markers and the counters have the same sum. Statements may fail
//! as the life's [`FaultPlan`] explains. A failed transaction leaves nothing.
use crate::binlog::{self, Visible};
use crate::executor::Rng;
use crate::fault_plan::FaultPlan;
use crate::prepared::{self, Doubt};
use crate::run::Seen;
use crate::scan::{self, is_conflict};
use crate::stages::{self, Stages};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::{KillFlag, Mode};
use redolith_engine::row::batch::RowBatch;
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::testing::undo;
use redolith_engine::{DEFAULT_COLLATION, Engine, Error, Isolation, Result, Trx};
use redolith_engine::{PolicySettings, WriterMode};
use redolith_replication::Binlog;
use redolith_types::sql_type::{IntSize, Sign};
use redolith_types::{Collation, Column, IndexDef, LobSize, SqlType, TableDef, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const CLIENTS: usize = 4;
const COUNTERS: i64 = 3;
pub const KEYS: u64 = 60;

/// A row: k, u, the length of the text, and the byte of which the text consists.
pub type Row = (i64, i64, usize, u8);
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Rows {
    pub rows: BTreeMap<i64, Row>,
    pub marker: i64,
}
/// The rows that one client expects.
#[derive(Clone, Default, Debug)]
pub struct Known {
    pub acked: Rows,
    /// The rows after the transaction whose commit was sent and not acknowledged.
    pub pending: Option<Rows>,
    /// The tokens of its transactions that are there, and of the pending one.
    pub tokens: Vec<u64>,
    pub pending_token: u64,
    /// How many tokens it has drawn.
    pub drawn: u64,
    /// Its transaction that is prepared, or may be.
    pub prepared: Option<Doubt>,
}
pub type Knowledge = Arc<Mutex<Vec<Known>>>;

pub struct Tables {
    pub rows: Arc<Table>,
    pub sums: Arc<Table>,
}
pub fn int() -> SqlType {
    SqlType::Int { size: IntSize::Int, sign: Sign::SIGNED, display: None }
}
pub fn table(name: &str, columns: Vec<Column>, indexes: Vec<IndexDef>) -> TableDef {
    TableDef {
        schema: "sim".into(),
        name: name.into(),
        columns,
        indexes,
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    }
}
/// Returns the tables if they exist.
async fn find(e: &Arc<Engine>) -> Result<Option<Tables>> {
    let (rows, sums) = (e.table("sim", "rows").await?, e.table("sim", "sums").await?);
    Ok(rows.zip(sums).map(|(rows, sums)| Tables { rows, sums }))
}
/// Finds the tables, or creates them with the initial rows of every run.
pub async fn tables(e: &Arc<Engine>) -> Result<Tables> {
    if e.dict.schema("sim").is_none() {
        e.create_schema("sim", DEFAULT_COLLATION, None).await?;
    }
    let text = SqlType::Text { size: LobSize::Long, collation: Collation::Latin1SwedishCi };
    let rows = vec![
        Column::new("id", int()).not_null(),
        Column::new("k", int()),
        Column::new("u", int()),
        Column::new("v", text),
    ];
    let by = vec![
        IndexDef::primary([0]),
        IndexDef::secondary("k", false, [1]),
        IndexDef::secondary("u", true, [2]),
    ];
    let sums = vec![Column::new("id", int()).not_null(), Column::new("n", int()).not_null()];
    let rows = match e.table("sim", "rows").await? {
        Some(t) => t,
        None => e.create_table(table("rows", rows, by), 1, None).await?,
    };
    let sums = match e.table("sim", "sums").await? {
        Some(t) => t,
        None => e.create_table(table("sums", sums, vec![IndexDef::primary([0])]), 1, None).await?,
    };
    let t = Tables { rows, sums };
    let mut trx = e.begin(KillFlag::new());
    if sum(&mut trx, &t).await?.is_none() {
        for id in (0..CLIENTS as i64).chain(100..100 + COUNTERS) {
            trx.insert(&t.sums, &encode(&t.sums, &[Value::Int(id), Value::Int(0)])).await?;
        }
    }
    trx.commit().await?.durable().await;
    Ok(t)
}
pub fn encode(t: &Table, values: &[Value<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    t.layout.encode(values, &mut out);
    out
}
pub fn key(t: &Table, id: i64) -> Vec<u8> {
    let mut k = Vec::new();
    t.clustered().key.encode_values(&[Value::Int(id)], &mut k);
    k
}
pub fn number(t: &Table, payload: &[u8], column: usize) -> i64 {
    match t.layout.get(payload, column) {
        Value::Int(n) => n,
        other => panic!("an INT column holds {other:?}"),
    }
}
pub const LOCK: Read = Read::Locking { mode: Mode::X, conflict: OnConflict::Wait };

/// The sums of the markers and of the counters in one view. `None` while there are no rows.
pub async fn sum(trx: &mut Trx, t: &Tables) -> Result<Option<(i64, i64)>> {
    let mut c = Cursor::new(t.sums.clone(), 0, Vec::new(), None, false, Read::Consistent);
    let (mut markers, mut counters, mut any) = (0, 0, false);
    while c.next(trx).await? {
        any = true;
        let (id, n) = (number(&t.sums, c.row().stored, 0), number(&t.sums, c.row().stored, 1));
        if id < 100 { markers += n } else { counters += n }
    }
    Ok(any.then_some((markers, counters)))
}
async fn add_one(trx: &mut Trx, t: &Table, table: &Arc<Table>, id: i64) -> Result<()> {
    let mut c = Cursor::point(table.clone(), key(t, id), LOCK);
    assert!(c.next(trx).await?, "a counter is missing");
    let n = number(t, c.row().stored, 1);
    let mut new = Vec::new();
    t.layout.update(c.row().stored, &[(1, Value::Int(n + 1))], &mut new);
    trx.update(table, c.row(), &new).await
}

fn random_row(rng: &mut Rng, n: usize, shared: &Shared) -> Row {
    // Some texts need overflow pages.
    let len = if shared.bulk && rng.chance(6) {
        100_000 + rng.below(300_000)
    } else if rng.chance(if shared.wide { 10 } else { 40 }) {
        20_000 + rng.below(20_000)
    } else if rng.chance(6) {
        rng.below(3000)
    } else {
        rng.below(120)
    };
    (
        rng.below(8) as i64,
        (rng.below(200) * CLIENTS as u64) as i64 + n as i64,
        len as usize,
        b'a' + rng.below(26) as u8,
    )
}
pub fn values(id: i64, r: &Row) -> [Value<'static>; 4] {
    [Value::Int(id), Value::Int(r.0), Value::Int(r.1), Value::Bytes(Cow::Owned(vec![r.3; r.2]))]
}
/// Inserts some of a client's rows in one batch. The model follows up to the row that fails.
async fn insert_batch(
    trx: &mut Trx,
    t: &Tables,
    n: usize,
    rng: &mut Rng,
    model: &mut Rows,
    shared: &Shared,
) -> Result<()> {
    let (mut batch, mut made) = (RowBatch::default(), Vec::new());
    let first = rng.below(KEYS);
    for key in first..KEYS.min(first + 2 + rng.below(6)) {
        let (id, row) = ((key * CLIENTS as u64) as i64 + n as i64, random_row(rng, n, shared));
        batch.push(&encode(&t.rows, &values(id, &row)));
        made.push((id, row));
    }
    let done = trx.insert_batch(&t.rows, &mut batch).await;
    let inserted = done.as_ref().map_or_else(|(n, _)| *n, |()| made.len());
    for (id, row) in &made[..inserted] {
        assert!(model.rows.insert(*id, *row).is_none(), "row {id} was inserted over another");
    }
    shared.seen.lock().expect("one thread").batched_rows += inserted as u64;
    match done {
        Ok(()) => Ok(()),
        Err((n, Error::DuplicateKey { index_no, .. })) => {
            let id = made[n].0;
            assert!(index_no != 0 || model.rows.contains_key(&id), "row {id} is said to be there");
            Ok(())
        }
        Err((_, e)) => Err(e),
    }
}
/// Makes one change of a client's rows. The model follows if the change succeeded.
async fn change(
    trx: &mut Trx,
    t: &Tables,
    n: usize,
    rng: &mut Rng,
    model: &mut Rows,
    shared: &Shared,
) -> Result<()> {
    if rng.chance(8) {
        return insert_batch(trx, t, n, rng, model, shared).await;
    }
    let id = (rng.below(KEYS) * CLIENTS as u64) as i64 + n as i64;
    let row = random_row(rng, n, shared);
    let table = &t.rows;
    let there = model.rows.contains_key(&id);
    match rng.below(4) {
        0 | 1 => match trx.insert(table, &encode(table, &values(id, &row))).await {
            Ok(()) => {
                assert!(!there, "row {id} was inserted over one that is there");
                model.rows.insert(id, row);
            }
            Err(Error::DuplicateKey { index_no: 0, .. }) => {
                assert!(there, "row {id} is said to be there")
            }
            Err(Error::DuplicateKey { .. }) => {}
            Err(e) => return Err(e),
        },
        2 => {
            let mut c = Cursor::point(table.clone(), key(table, id), LOCK);
            assert_eq!(c.next(trx).await?, there, "row {id}");
            if there {
                trx.delete(table, c.row()).await?;
                model.rows.remove(&id);
            }
        }
        _ => {
            let mut c = Cursor::point(table.clone(), key(table, id), LOCK);
            assert_eq!(c.next(trx).await?, there, "row {id}");
            if there {
                let [_, k, u, v] = values(id, &row);
                let mut new = Vec::new();
                let old = model.rows[&id];
                let after = if rng.chance(2) {
                    table.layout.update(c.row().stored, &[(1, k)], &mut new);
                    (row.0, old.1, old.2, old.3)
                } else {
                    table.layout.update(c.row().stored, &[(1, k), (2, u), (3, v)], &mut new);
                    row
                };
                match trx.update(table, c.row(), &new).await {
                    Ok(()) => {
                        model.rows.insert(id, after);
                    }
                    Err(Error::DuplicateKey { .. }) => {}
                    Err(e) => return Err(e),
                }
            }
        }
    }
    Ok(())
}

/// The state that the clients of a life share.
#[derive(Clone)]
pub struct Shared {
    pub known: Knowledge,
    pub plan: FaultPlan,
    pub seen: Arc<Mutex<Seen>>,
    /// Texts have hundreds of kilobytes.
    pub bulk: bool,
    /// More texts need pages of their own.
    pub wide: bool,
    /// The binary log, if the run has one, and what readers have seen of it.
    pub binlog: Option<Arc<Binlog>>,
    pub visible: Visible,
    /// The stages that commits may go through.
    pub stages: Option<Arc<Stages>>,
    /// Some transactions are prepared before they commit.
    pub prepares: bool,
}
impl Shared {
    /// Counts the error, and returns whether a statement may fail with it.
    pub fn forgives(&self, e: &Error) -> bool {
        let seen = &mut self.seen.lock().expect("one thread");
        match e {
            e if is_conflict(e) => seen.conflicts += 1,
            Error::DiskFull(_) => seen.failed_full += 1,
            _ => seen.failed_io += 1,
        }
        is_conflict(e) || self.plan.explains(e)
    }
}

/// Runs `count` transactions of a client.
pub async fn client(
    e: Arc<Engine>,
    t: Arc<Tables>,
    n: usize,
    mut rng: Rng,
    count: u64,
    shared: Shared,
) -> Result<()> {
    let known = &shared.known;
    let mut trx = e.begin(KillFlag::new());
    trx.lock_wait_timeout = Duration::from_millis(200);
    if known.lock().expect("one thread")[n].prepared.is_some() {
        // The transaction in doubt has locked the client's rows.
        return Ok(());
    }
    for _ in 0..count {
        if rng.chance(12) {
            let log = &trx.engine().store.log;
            let policy = write_policy(&mut rng);
            log.set_policy(|settings| *settings = policy);
        }
        // The background task pauses for longer than a life, so the client truncates undo itself.
        undo::truncate(trx.engine());
        if rng.chance(12) {
            settings(trx.engine(), &mut rng);
        }
        if rng.chance(8) {
            match look(&mut trx, &t, &mut rng).await {
                Ok(()) => {}
                Err(e) if shared.forgives(&e) => {}
                Err(e) => return Err(e),
            }
            trx.rollback().await?;
        }
        if let Some(binlog) = shared.binlog.as_ref().filter(|_| rng.chance(60)) {
            let options = binlog::changed(binlog.options(), &mut rng);
            let mut changed = binlog.change(&e, options).await;
            if changed.is_ok() && rng.chance(4) {
                changed = binlog::reset(&e, binlog, known, &shared.visible, &mut rng).await;
                shared.seen.lock().expect("one thread").binlog_resets += 1;
            }
            match changed {
                Err(e) if !shared.forgives(&e) => return Err(e),
                _ => {}
            }
        }
        let mut model = known.lock().expect("one thread")[n].acked.clone();
        let levels = [
            Isolation::ReadUncommitted,
            Isolation::ReadCommitted,
            Isolation::RepeatableRead,
            Isolation::Serializable,
        ];
        trx.isolation = levels[rng.below(4) as usize];
        let ended = match transaction(&mut trx, &t, n, &mut rng, &mut model, &shared).await {
            Ok(true) if shared.prepares && rng.chance(3) => {
                match prepared::run(&mut trx, &t, n, model, &mut rng, &shared).await {
                    Ok(false) => Ok(()),
                    Ok(true) => return Ok(()),
                    Err(e) if trx.is_prepared() && shared.forgives(&e) => {
                        drop(trx.detach());
                        return Ok(());
                    }
                    Err(e) => Err(e),
                }
            }
            Ok(true) => {
                let token = {
                    let k = &mut known.lock().expect("one thread")[n];
                    k.pending = Some(model.clone());
                    k.drawn += 1;
                    k.pending_token = k.drawn * CLIENTS as u64 + n as u64;
                    k.pending_token
                };
                let (mut record, mut spill) = (None, None);
                if let Some(binlog) = &shared.binlog {
                    binlog.admit().await;
                    let (made, spilled) = binlog::record(binlog, token, &mut rng);
                    shared.seen.lock().expect("one thread").binlog_spills +=
                        spilled.is_some() as u64;
                    (record, spill) = (Some(made), spilled);
                }
                match stages::commit(&mut trx, token, record, spill, &mut rng, &shared).await {
                    Ok(ticket) => {
                        let lsn = ticket.lsn();
                        ticket.durable().await;
                        if let (Some(binlog), Some(lsn)) = (&shared.binlog, lsn)
                            && rng.chance(8)
                        {
                            binlog.catch_up(lsn).await;
                            if let Some(stages) = &shared.stages {
                                stages.look(binlog, &mut rng);
                            }
                            binlog::look(&*e.disk, binlog, &shared.visible, &shared.seen);
                        }
                        let k = &mut known.lock().expect("one thread")[n];
                        (k.acked, k.pending) = (model, None);
                        k.tokens.push(token);
                        Ok(())
                    }
                    Err(e) => {
                        // An error means that the transaction is rolled back.
                        known.lock().expect("one thread")[n].pending = None;
                        Err(e)
                    }
                }
            }
            Ok(false) => trx.rollback().await,
            Err(e) => Err(e),
        };
        match ended {
            Ok(()) => {}
            Err(e) if shared.forgives(&e) => {
                trx.rollback().await?;
                shared.seen.lock().expect("one thread").rolled_back_later +=
                    undo::background_rollbacks(trx.engine()) as u64;
                if !is_conflict(&e) {
                    trx.engine().runtime.sleep(Duration::from_millis(20)).await;
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
/// Changes settings that an administrator may change under load.
fn settings(e: &Engine, rng: &mut Rng) {
    match rng.below(8) {
        0 => e.history.stop(),
        1..=4 => e.history.resume(),
        5 => e.store.log.set_capacity(512 << (10 + rng.below(3))),
        6 => e.store.log.set_buffer(256 << (10 + rng.below(3))),
        _ => e.undo.truncation.enable(!rng.chance(4)),
    }
}
/// Draws a write policy for the redo log. The policy changes under load.
fn write_policy(rng: &mut Rng) -> PolicySettings {
    let mode = match rng.below(4) {
        0 => None,
        1 => Some(WriterMode::Session),
        2 => Some(WriterMode::Leader),
        _ => Some(WriterMode::Dedicated),
    };
    let hold = match rng.below(3) {
        0 => None,
        1 => Some(Duration::ZERO),
        _ => Some(Duration::from_micros(rng.below(5000))),
    };
    PolicySettings { mode, hold, depth: some_depth(rng) }
}
/// Draws one to four writes in flight, or `None`: chosen by measurement.
pub fn some_depth(rng: &mut Rng) -> Option<usize> {
    Some(rng.below(5) as usize).filter(|depth| *depth > 0)
}
async fn look(trx: &mut Trx, t: &Tables, rng: &mut Rng) -> Result<()> {
    trx.isolation = Isolation::Serializable;
    if rng.chance(3) {
        let (a, b) = scan::locked_sum(trx, t).await?;
        assert_eq!(a, b, "locked rows with half of a transaction");
    } else if let Some((a, b)) = sum(trx, t).await? {
        assert_eq!(a, b, "a view with half of a transaction");
    }
    Ok(())
}
async fn transaction(
    trx: &mut Trx,
    t: &Tables,
    n: usize,
    rng: &mut Rng,
    model: &mut Rows,
    shared: &Shared,
) -> Result<bool> {
    let early = rng.chance(2);
    if early {
        add_one(trx, &t.sums, &t.sums, 100 + rng.below(COUNTERS as u64) as i64).await?;
    }
    for _ in 0..1 + rng.below(8) {
        change(trx, t, n, rng, model, shared).await?;
        if rng.chance(8) {
            scan::twice(trx, t, n, rng, model).await?;
        }
    }
    if rng.chance(5) {
        let (place, before) = (trx.savepoint(), model.clone());
        for _ in 0..rng.below(5) {
            change(trx, t, n, rng, model, shared).await?;
        }
        trx.rollback_to(place).await?;
        *model = before;
    }
    if !early {
        add_one(trx, &t.sums, &t.sums, 100 + rng.below(COUNTERS as u64) as i64).await?;
    }
    add_one(trx, &t.sums, &t.sums, n as i64).await?;
    model.marker += 1;
    Ok(!rng.chance(6))
}

/// Reads all rows of a client through one index.
async fn read(trx: &mut Trx, t: &Tables, index: usize) -> Result<Vec<Rows>> {
    let mut found = vec![Rows::default(); CLIENTS];
    let mut c = Cursor::new(t.rows.clone(), index, Vec::new(), None, index == 1, Read::Consistent);
    while c.next(trx).await? {
        let p = c.payload(trx).await?;
        let (id, k, u) = (number(&t.rows, p, 0), number(&t.rows, p, 1), number(&t.rows, p, 2));
        let Value::Bytes(v) = t.rows.layout.get(p, 3) else { panic!("the text of row {id}") };
        let byte = v.first().copied();
        assert!(v.iter().all(|b| Some(*b) == byte), "a mixed text in row {id}");
        found[id as usize % CLIENTS].rows.insert(id, (k, u, v.len(), byte.unwrap_or(0)));
    }
    let mut c = Cursor::new(t.sums.clone(), 0, Vec::new(), None, false, Read::Consistent);
    while c.next(trx).await? {
        let id = number(&t.sums, c.row().stored, 0);
        if id < 100 {
            found[id as usize].marker = number(&t.sums, c.row().stored, 1);
        }
    }
    Ok(found)
}
/// Normalizes rows: the text's byte does not matter if the text is empty.
fn plain(r: &Rows) -> Rows {
    let mut r = r.clone();
    r.rows.values_mut().filter(|x| x.2 == 0).for_each(|x| x.3 = 0);
    r
}
/// Checks the rows after a start: everything acknowledged is there, and the unacknowledged
/// transaction is whole or absent. The rows found become the expected ones.
async fn compare_rows(e: &Arc<Engine>, t: &Tables, known: &Knowledge) -> Result<()> {
    let mut trx = e.begin(KillFlag::new());
    let found = read(&mut trx, t, 0).await?;
    for index in 1..3 {
        assert_eq!(
            read(&mut trx, t, index).await?,
            found,
            "index {index} tells another story than the rows"
        );
    }
    if let Some((a, b)) = sum(&mut trx, t).await? {
        assert_eq!(a, b, "markers and counters");
    }
    trx.commit().await?.durable().await;
    for (n, k) in known.lock().expect("one thread").iter_mut().enumerate() {
        let pending = k.pending.take();
        let here = &found[n];
        if pending.as_ref().is_some_and(|p| plain(p) == *here) {
            k.acked = pending.expect("just looked at");
            k.tokens.push(k.pending_token);
        } else {
            assert_eq!(
                plain(&k.acked),
                *here,
                "client {n}: an acknowledged commit is lost or half a transaction survived; \
                    pending: {pending:?}"
            );
        }
    }
    Ok(())
}
/// As `compare_rows`, where the tables may not exist yet, or not any more.
pub async fn compare(e: &Arc<Engine>, known: &Knowledge) -> Result<()> {
    match find(e).await? {
        Some(t) => compare_rows(e, &t, known).await,
        None => {
            let empty =
                known.lock().expect("one thread").iter().all(|k| k.acked == Rows::default());
            assert!(empty, "a table of the clients is not there, and has rows");
            Ok(())
        }
    }
}
/// As [`compare_rows`], and checks that the structure is sound.
pub async fn verify(e: &Arc<Engine>, t: &Tables, known: &Knowledge) -> Result<()> {
    compare_rows(e, t, known).await?;
    for table in [&t.rows, &t.sums] {
        let c = e.check_table(table).await?;
        assert!(c.errors.is_empty(), "{}: {:?}", table.full_name(), c.errors);
    }
    Ok(())
}
/// Checks that a transaction succeeds once the disk works.
pub async fn serves(e: &Arc<Engine>, t: &Tables) -> Result<()> {
    let mut trx = e.begin(KillFlag::new());
    trx.insert(&t.sums, &encode(&t.sums, &[Value::Int(1000), Value::Int(1)])).await?;
    let mut c = Cursor::point(t.sums.clone(), key(&t.sums, 1000), LOCK);
    assert!(c.next(&mut trx).await?, "a row just inserted");
    trx.delete(&t.sums, c.row()).await?;
    trx.commit().await?.durable().await;
    Ok(())
}
