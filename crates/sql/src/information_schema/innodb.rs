//! Makes the rows about the engine's transactions and its buffer pool. A pool may have millions of
//! frames, and there may be as many transactions as connections: both are looked at in parts,
//! between which other tasks have their turn.
use super::{Asked, int, text};
use crate::database::Database;
use crate::error::Result;
use crate::exec::server_rows::Gathered;
use crate::memory::{LOCK_BYTES, RANGE_BYTES};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::{Mode, WaitInfo};
use redolith_engine::{Isolation, Lsn, PageContent, PageKind, Phase, SeenPage, SeenTrx, TrxId};
use redolith_types::{DateTime, Value};
use std::collections::HashMap;
use std::sync::Arc;

type Row = Vec<Value<'static>>;

/// So many transactions, tables or frames are looked at in one turn.
const PART: usize = 256;

fn signed(on: bool) -> Value<'static> {
    Value::Int(on.into())
}
fn yes(on: bool) -> Value<'static> {
    text(if on { "YES" } else { "NO" })
}
fn time(us: i64) -> Value<'static> {
    let at = DateTime::from_unix_us(us, 0).unwrap_or_default();
    Value::DateTime(at.truncate(0))
}

/// The rows of INNODB_TRX.
pub(super) async fn transactions(
    db: &Database,
    asked: &Asked,
    out: &mut Gathered<'_>,
) -> Result<()> {
    let mut after = 0;
    while let Some((last, part)) = db.engine.transactions(after, PART) {
        for trx in &part {
            out.push(transaction(db, trx))?;
        }
        after = last;
        asked.pause(&db.engine).await?;
    }
    Ok(())
}

fn transaction(db: &Database, trx: &SeenTrx) -> Row {
    let state = match (trx.phase, &trx.waits) {
        (Phase::RollingBack, _) => "ROLLING BACK",
        (Phase::Committing, _) => "COMMITTING",
        (Phase::Running, Some(_)) => "LOCK WAIT",
        (Phase::Running, None) => "RUNNING",
    };
    let isolation = match trx.traits.isolation {
        Isolation::ReadUncommitted => "READ UNCOMMITTED",
        Isolation::ReadCommitted => "READ COMMITTED",
        Isolation::RepeatableRead => "REPEATABLE READ",
        Isolation::Serializable => "SERIALIZABLE",
    };
    // A transaction that has written nothing has a number above all ids, as in MySQL.
    let id = if trx.id == TrxId::NONE { TrxId::MAX.0 + 1 + trx.owner } else { trx.id.0 };
    let disk = &db.engine.disk;
    let waits_since = trx.waits.as_ref().map(|(_, since)| {
        let waited_us = disk.now().saturating_sub(*since).as_micros() as i64;
        time(disk.wall_us() - waited_us)
    });
    let requested = trx.waits.as_ref().map(|(wait, _)| text(lock_id(trx.owner, wait)));
    let statement = db.processes.get(trx.session).and_then(|process| process.row().info);
    let structs = trx.rows_locked + trx.ranges_locked;
    let bytes = trx.rows_locked * LOCK_BYTES + trx.ranges_locked * RANGE_BYTES;
    vec![
        int(id),
        text(state),
        time(trx.began_us),
        requested.unwrap_or_default(),
        waits_since.unwrap_or_default(),
        int(trx.undo_records + trx.rows_locked as u64),
        int(trx.session),
        statement.map(text).unwrap_or_default(),
        Value::Null, // what it does in detail
        int(trx.tables.0),
        int(trx.tables.1),
        int(structs),
        int(bytes),
        int(trx.rows_locked),
        int(trx.undo_records),
        int(0u64), // no tickets
        text(isolation),
        signed(trx.traits.unique_checks),
        signed(trx.traits.foreign_key_checks),
        Value::Null,   // no foreign keys
        signed(false), // no adaptive hash index
        int(0u64),
        signed(trx.traits.read_only),
        signed(trx.traits.single_read),
        Value::Null, // locks are granted in the order of the requests
    ]
}

/// The name of a requested lock: who asks, and for what.
fn lock_id(owner: u64, wait: &WaitInfo) -> String {
    match wait {
        WaitInfo::Row { key, mode } => {
            let mode = if *mode == Mode::S { "S" } else { "X" };
            format!("{owner}:{}:{:016x}:{mode}", key.index, key.hash)
        }
        WaitInfo::Insert { index, key_hash } => {
            format!("{owner}:{index}:{key_hash:016x}:INSERT_INTENTION")
        }
    }
}

/// The row of INNODB_BUFFER_POOL_STATS.
pub(super) fn pool_stats(db: &Database) -> Row {
    let s = db.engine.pool_stats();
    let per_thousand = |n: u64| (1000 * n).checked_div(s.gets).unwrap_or(0).min(1000);
    let hit_rate = if s.gets == 0 { 0 } else { 1000 - per_thousand(s.missed) };
    let (none, no_rate) = (|| int(0u64), || Value::Float(0.0));
    vec![
        none(), // the only pool
        int(s.frames),
        int(s.free),
        int(s.pages),
        int(s.old),
        int(s.dirty),
        none(),
        int(s.pending_reads),
        none(),
        int(s.pending_writes),
        int(s.made_young),
        none(),
        no_rate(),
        no_rate(),
        int(s.read),
        int(s.created),
        int(s.written),
        no_rate(),
        no_rate(),
        no_rate(),
        int(s.gets),
        int(hit_rate),
        int(per_thousand(s.made_young)),
        none(),
        int(s.read_ahead),
        int(s.read_ahead_evicted),
        no_rate(),
        no_rate(),
        none(),
        none(),
        none(),
        none(),
    ]
}

/// The names of the indexes, by their ids.
struct Names(HashMap<u64, (Arc<Table>, usize)>);
impl Names {
    async fn of(db: &Database, asked: &Asked, out: &mut Gathered<'_>) -> Result<Names> {
        out.memory().charge(db.engine.dict.len() * size_of::<Arc<Table>>())?;
        let tables = db.engine.dict.all_tables();
        let mut names = HashMap::new();
        for part in tables.chunks(PART) {
            let indexes: usize = part.iter().map(|table| table.indexes.len()).sum();
            out.memory().charge(2 * indexes * size_of::<(u64, Arc<Table>, usize)>())?;
            for table in part {
                let of = table.indexes.iter().enumerate();
                names.extend(of.map(|(no, index)| (index.id, (table.clone(), no))));
            }
            asked.pause(&db.engine).await?;
        }
        Ok(Names(names))
    }
    /// The names of an index's table and of the index.
    fn find(&self, index: u64) -> Option<(String, &str)> {
        let (table, no) = self.0.get(&index)?;
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        let name = &*table.indexes[*no].def.name;
        let name = if name.is_empty() { "GEN_CLUST_INDEX" } else { name };
        Some((format!("{}.{}", quoted(&table.def.schema), quoted(&table.def.name)), name))
    }
}

/// The rows of INNODB_BUFFER_PAGE: one for each frame.
pub(super) async fn pages(db: &Database, asked: &Asked, out: &mut Gathered<'_>) -> Result<()> {
    let names = Names::of(db, asked, out).await?;
    for (block, frame) in db.engine.pool_frames().into_iter().flatten().enumerate() {
        if block.is_multiple_of(PART) {
            asked.pause(&db.engine).await?;
        }
        let page = db.engine.pool_page(frame);
        let mut row = vec![int(0u64), int(block)];
        page_columns(page.as_ref(), &names, &mut row);
        row.extend([
            text(if page.is_some() { "FILE_PAGE" } else { "NOT_USED" }),
            text(io_fix(page.as_ref())),
            yes(page.is_some_and(|page| page.is_old)),
            int(0u64),
            yes(false),
        ]);
        out.push(row)?;
    }
    Ok(())
}

/// The rows of INNODB_BUFFER_PAGE_LRU: one for each page, the page that is evicted first at the
/// beginning.
pub(super) async fn pages_by_age(
    db: &Database,
    asked: &Asked,
    out: &mut Gathered<'_>,
) -> Result<()> {
    let names = Names::of(db, asked, out).await?;
    let mut order = Vec::new();
    let instances = db.engine.pool_frames();
    let parts = instances.into_iter().flat_map(|frames| {
        let end = frames.end;
        frames.step_by(PART).map(move |first| first..end.min(first + PART as u32))
    });
    for part in parts {
        asked.pause(&db.engine).await?;
        let before = order.len();
        order.extend(part.filter_map(|frame| Some((db.engine.pool_lru_order(frame)?, frame))));
        // A vector that grows has room for as many again.
        out.memory().charge(2 * (order.len() - before) * size_of::<(u64, u32)>())?;
    }
    db.engine.runtime.work_long(&mut || order.sort_unstable());
    let mut position = 0u64;
    for (n, (_, frame)) in order.into_iter().enumerate() {
        if n.is_multiple_of(PART) {
            asked.pause(&db.engine).await?;
        }
        // The page may be gone.
        let Some(page) = db.engine.pool_page(frame) else { continue };
        let mut row = vec![int(0u64), int(position)];
        page_columns(Some(&page), &names, &mut row);
        row.extend([yes(false), text(io_fix(Some(&page))), yes(page.is_old), int(0u64)]);
        out.push(row)?;
        position += 1;
    }
    Ok(())
}

fn io_fix(page: Option<&SeenPage>) -> &'static str {
    if page.is_some_and(|page| page.is_writing) { "IO_WRITE" } else { "IO_NONE" }
}

/// The columns that both tables of pages have, from SPACE to COMPRESSED_SIZE.
fn page_columns(page: Option<&SeenPage>, names: &Names, row: &mut Row) {
    let content = page.and_then(|page| page.content);
    let index = content.and_then(|content| content.index);
    let name = index.and_then(|(index, ..)| names.find(index));
    let (table, index_name) = match name {
        Some((table, index)) => (text(table), text(index)),
        None => (Value::Null, Value::Null),
    };
    let lsn = |at: Option<Lsn>| int(at.map_or(0, |lsn| lsn.0));
    row.extend([
        int(page.map_or(0, |page| page.id.space.0)),
        int(page.map_or(0, |page| page.id.no)),
        text(page_type(content)),
        int(0u64),
        int(u64::from(page.is_some_and(|page| page.is_held))),
        yes(false),
        lsn(content.map(|content| content.newest)),
        lsn(page.and_then(|page| page.oldest)),
        int(page.map_or(0, |page| page.first_access_ms)),
        table,
        index_name,
        int(index.map_or(0, |(_, records, _)| records)),
        int(index.map_or(0, |(.., bytes)| bytes)),
        int(0u64),
    ]);
}

/// MySQL's name for what a page is for.
fn page_type(content: Option<PageContent>) -> &'static str {
    match content.map(|content| content.kind) {
        Some(PageKind::Free) => "ALLOCATED",
        Some(PageKind::SpaceHeader) => "FILE_SPACE_HEADER",
        Some(PageKind::Bitmap) => "EXTENT_DESCRIPTOR",
        Some(PageKind::Index) => "INDEX",
        Some(PageKind::Undo) => "UNDO_LOG",
        Some(PageKind::Overflow) => "LOB_DATA",
        Some(PageKind::System) => "SYSTEM",
        Some(PageKind::Unknown) | None => "UNKNOWN",
    }
}
