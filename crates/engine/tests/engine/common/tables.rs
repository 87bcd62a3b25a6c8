//! Engines and tables of the tests, and what they do to them.
use super::Dir;
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::Mode;
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::testing::log::{Credit, Log};
use redolith_engine::{Config, DEFAULT_COLLATION, Engine, Error, Report, Trx};
use redolith_types::{Collation, Column, IndexDef, IntSize, SqlType, TableDef, Value};
use std::sync::Arc;

pub fn open(dir: &Dir) -> (Arc<Engine>, Report) {
    open_with(dir, |_| ())
}
pub fn open_with(dir: &Dir, change: impl FnOnce(&mut Config)) -> (Arc<Engine>, Report) {
    try_open_with(dir, change).unwrap()
}
pub fn try_open(dir: &Dir) -> Result<(Arc<Engine>, Report), Error> {
    try_open_with(dir, |_| ())
}
pub fn try_open_with(
    dir: &Dir,
    change: impl FnOnce(&mut Config),
) -> Result<(Arc<Engine>, Report), Error> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut c = Config::new(&dir.0);
    c.pool_bytes = 8 << 20;
    c.log_segment_bytes = 1 << 20;
    c.log_capacity_bytes = 16 << 20;
    c.log_buffer_bytes = 1 << 20;
    change(&mut c);
    block_on(Engine::open(c, disk.clone(), Threads::new(disk)))
}
pub fn int() -> SqlType {
    SqlType::Int { size: IntSize::Int, sign: redolith_types::sql_type::Sign::SIGNED, display: None }
}
pub fn text(chars: u32) -> SqlType {
    SqlType::VarChar { chars, collation: Collation::Latin1SwedishCi }
}
/// test.`name` (id INT PRIMARY KEY, these columns, none of them NULL), in a schema that comes with
/// it.
pub async fn create(
    e: &Arc<Engine>,
    name: &str,
    columns: Vec<(&str, SqlType)>,
    indexes: Vec<IndexDef>,
) -> Arc<Table> {
    let columns = [("id", int())].into_iter().chain(columns);
    let def = TableDef {
        schema: "test".into(),
        name: name.into(),
        columns: columns.map(|(name, of)| Column::new(name, of).not_null()).collect(),
        indexes: [IndexDef::primary([0])].into_iter().chain(indexes).collect(),
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    // It may be there, with another table.
    let _ = e.create_schema("test", DEFAULT_COLLATION, None).await;
    e.create_table(def, 1, None).await.unwrap()
}
/// At a row that is there, locked.
pub async fn locked(trx: &mut Trx, t: &Arc<Table>, id: i64) -> Result<Cursor, Error> {
    let mut key = Vec::new();
    t.clustered().key.encode_values(&[Value::Int(id)], &mut key);
    let mut c =
        Cursor::point(t.clone(), key, Read::Locking { mode: Mode::X, conflict: OnConflict::Wait });
    assert!(c.next(trx).await?);
    Ok(c)
}
pub use redolith_engine::testing::within;
pub async fn purged(e: &Arc<Engine>) {
    within(e, "all is purged", || e.history.is_empty() && !e.frees_trees()).await;
}
pub async fn sound(e: &Arc<Engine>, t: &Arc<Table>, rows: u64) {
    let c = e.check_table(t).await.unwrap();
    assert!(c.errors.is_empty(), "{:?}", c.errors);
    assert_eq!(c.rows, rows);
}

/// The same, and nothing is left that belongs to no row.
pub async fn clean(e: &Arc<Engine>, t: &Arc<Table>, rows: u64) {
    purged(e).await;
    let c = e.check_table(t).await.unwrap();
    assert_eq!((c.errors, c.notes, c.rows), (vec![], vec![], rows));
}
/// A row's payload.
pub fn encoded(t: &Table, values: &[Value<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    t.layout.encode(values, &mut out);
    out
}
pub async fn commit(trx: &mut Trx) {
    trx.commit().await.unwrap().durable().await;
}

/// All the room there is in the log but for `spare` bytes, taken away for as long as this is held.
pub fn hold_room(log: &Log, reserve_too: bool, spare: usize) -> Vec<Credit<'_>> {
    let credit = |bytes| if reserve_too { log.credit_reserved(bytes) } else { log.credit(bytes) };
    let gap = credit(spare.max(1)).unwrap();
    let mut held = Vec::new();
    for bytes in [64 << 10, 1 << 10, 16, 1] {
        while let Ok(credit) = credit(bytes) {
            held.push(credit);
        }
    }
    drop(gap);
    held
}
/// All the room that the log can have: that of files that are still to be made, too.
pub async fn hold_all_room(e: &Engine, reserve_too: bool) -> Vec<Credit<'_>> {
    let (log, mut held) = (&e.store.log, Vec::new());
    loop {
        let lacks_files = log.lacks_files(reserve_too);
        held.extend(hold_room(log, reserve_too, 0));
        if !lacks_files {
            return held;
        }
        // Who waits makes the log make the next file. One byte is left free.
        match reserve_too {
            true => log.wait_space_reserved(2).await.unwrap(),
            false => log.wait_space(2).await.unwrap(),
        }
    }
}
