//! SHOW ENGINE INNODB STATUS: the sections that people and tools look for, with what this engine has to say in each.
use crate::status::{Counter, Status};
use redolith_engine::lock::WaitInfo;
use redolith_engine::{Engine, Lsn, PAGE_SIZE, TrxId};
use redolith_types::DateTime;
use std::collections::HashMap;
use std::fmt::Write;

/// Transactions that are listed one by one.
const MAX_TRANSACTIONS: usize = 100;

pub(super) fn report(engine: &Engine, status: &Status) -> String {
    let mut out = String::with_capacity(4096);
    // Writing to a String does not fail.
    let _ = write_report(engine, status, &mut out);
    out
}

fn write_report(engine: &Engine, status: &Status, out: &mut String) -> std::fmt::Result {
    let mut counted = HashMap::new();
    engine.store.log.counters(|name, n| {
        counted.insert(name, n);
    });
    let log = |name: &str| counted.get(name).copied().unwrap_or(0);
    writeln!(out, "\n{0}\n{1} INNODB MONITOR OUTPUT\n{0}", "=".repeat(37), time(engine.disk.wall_us()))?;
    background(engine, out)?;
    semaphores(&log, out)?;
    deadlock(engine, out)?;
    transactions(engine, out)?;
    file_io(engine, &log, out)?;
    redo(engine, &log, out)?;
    pool(engine, out)?;
    row_operations(status, out)?;
    writeln!(out, "----------------------------\nEND OF INNODB MONITOR OUTPUT\n============================")
}

fn time(wall_us: i64) -> String {
    let mut text = Vec::new();
    DateTime::from_unix_us(wall_us, 0).unwrap_or_default().write_text(0, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn section(out: &mut String, name: &str) -> std::fmt::Result {
    let line = "-".repeat(name.len());
    writeln!(out, "{line}\n{name}\n{line}")
}

fn background(engine: &Engine, out: &mut String) -> std::fmt::Result {
    section(out, "BACKGROUND THREAD")?;
    let c = &engine.store.pool.counters;
    writeln!(out, "page cleaners: {} pages written, {} of them to free their frames", c.pages_written.get(), c.pages_written_lru.get())?;
    let purged = engine.history.purged.load(std::sync::atomic::Ordering::Relaxed);
    writeln!(out, "purge: {purged} undo logs purged, {} to go", engine.history.len())
}

/// There are no rounds of spinning to tell of; what sessions wait for instead.
fn semaphores(log: &impl Fn(&str) -> u64, out: &mut String) -> std::fmt::Result {
    section(out, "SEMAPHORES")?;
    writeln!(out, "waits for a durable log: {}, without wait: {}", log("log_on_flush_waits"), log("log_on_flush_no_waits"))?;
    writeln!(
        out,
        "waits for room in the log buffer: {}, in the log files: {}",
        log("log_on_buffer_space_waits"),
        log("log_on_file_space_waits")
    )
}

fn deadlock(engine: &Engine, out: &mut String) -> std::fmt::Result {
    let Some(report) = engine.locks.latest_deadlock() else { return Ok(()) };
    section(out, "LATEST DETECTED DEADLOCK")?;
    let age_us = engine.disk.now().saturating_sub(report.at).as_micros() as i64;
    writeln!(out, "{}", time(engine.disk.wall_us() - age_us))?;
    let mut shown: Vec<u64> = Vec::new();
    for wait in report.trxs.iter().filter_map(|t| t.waits_for.as_ref()) {
        let index = index_of(wait);
        if !shown.contains(&index) {
            shown.push(index);
            writeln!(out, "index {index} is {}", index_name(engine, index))?;
        }
    }
    write!(out, "{report}")
}

fn index_of(wait: &WaitInfo) -> u64 {
    match wait {
        WaitInfo::Row { key, .. } => key.index,
        WaitInfo::Insert { index, .. } => *index,
    }
}
fn index_name(engine: &Engine, id: u64) -> String {
    for table in engine.dict.all_tables() {
        if let Some(index) = table.indexes.iter().find(|i| i.id == id) {
            let name = if index.def.name.is_empty() { "GEN_CLUST_INDEX" } else { &index.def.name };
            return format!("{name} of table `{}`.`{}`", table.def.schema, table.def.name);
        }
    }
    "of a table that has been dropped".into()
}

fn transactions(engine: &Engine, out: &mut String) -> std::fmt::Result {
    section(out, "TRANSACTIONS")?;
    let (pages, in_use) = engine.undo.counts();
    writeln!(out, "Trx id counter {}", engine.sys.next_id().0)?;
    writeln!(out, "Purge done for trx's n:o < {} undo n:o < 0 state: running", engine.sys.oldest_view_no().0)?;
    writeln!(out, "History list length {}", engine.history.len())?;
    writeln!(out, "Undo pages {pages}, {in_use} of them with undo logs that are needed; {} read views open", engine.sys.open_views())?;
    let active = engine.sys.active_ids();
    writeln!(out, "LIST OF TRANSACTIONS FOR EACH SESSION: ({} active)", active.len())?;
    for id in active.iter().take(MAX_TRANSACTIONS) {
        transaction(engine, *id, out)?;
    }
    Ok(())
}

fn transaction(engine: &Engine, id: TrxId, out: &mut String) -> std::fmt::Result {
    // It may have ended since the list was made.
    let Some(trx) = engine.sys.find(id) else { return Ok(()) };
    writeln!(out, "---TRANSACTION {}, ACTIVE", id.0)?;
    if let Some(wait) = trx.waits_for() {
        writeln!(out, "LOCK WAIT for {wait}: {}", index_name(engine, index_of(&wait)))?;
    }
    writeln!(out, "{} row lock(s)", trx.locks_held())
}

fn file_io(engine: &Engine, log: &impl Fn(&str) -> u64, out: &mut String) -> std::fmt::Result {
    section(out, "FILE I/O")?;
    let c = &engine.store.pool.counters;
    writeln!(
        out,
        "Pending normal page reads: {}, writes: {}, fsyncs: {}",
        c.pending_reads.get(),
        c.pending_writes.get(),
        c.pending_fsyncs.get()
    )?;
    writeln!(
        out,
        "{} OS file reads, {} OS file writes, {} OS fsyncs",
        c.data_reads.get(),
        c.data_writes.get() + log("log_writes"),
        c.data_fsyncs.get() + log("os_log_fsyncs")
    )
}

fn redo(engine: &Engine, counted: &impl Fn(&str) -> u64, out: &mut String) -> std::fmt::Result {
    section(out, "LOG")?;
    let log = &engine.store.log;
    let (tail, dirty) = (log.tail(), log.dirty_low());
    let pages_flushed = match engine.store.pool.oldest_dirty() {
        Lsn::MAX => dirty,
        oldest => oldest,
    };
    for (name, lsn) in [
        ("Log sequence number", tail),
        ("Log buffer assigned up to", tail),
        ("Log written up to", log.written()),
        ("Log flushed up to", log.durable()),
        ("Added dirty pages up to", dirty),
        ("Pages flushed up to", pages_flushed),
        ("Last checkpoint at", log.checkpoint_lsn()),
    ] {
        writeln!(out, "{name:<28} {lsn}")?;
    }
    let age = tail.0.saturating_sub(log.checkpoint_lsn().0);
    writeln!(out, "Checkpoint age {age} of {} bytes; {} segment files", log.capacity_bytes(), counted("log_segments"))?;
    writeln!(
        out,
        "{} log i/o's done, {} flushes, {} us each",
        counted("log_writes"),
        counted("log_flushes"),
        counted("log_flush_avg_time_us")
    )
}

fn pool(engine: &Engine, out: &mut String) -> std::fmt::Result {
    section(out, "BUFFER POOL AND MEMORY")?;
    let (c, pages) = (&engine.store.pool.counters, engine.store.pool.pages());
    writeln!(out, "Total large memory allocated {}", pages.total * PAGE_SIZE)?;
    for (name, n) in [
        ("Buffer pool size", pages.total),
        ("Free buffers", pages.free),
        ("Database pages", pages.data),
        ("Old database pages", pages.old),
        ("Modified db pages", pages.dirty),
    ] {
        writeln!(out, "{name:<18} {n}")?;
    }
    writeln!(out, "Pages made young {}, evicted {}", pages.made_young, c.pages_evicted.get())?;
    writeln!(out, "Pages read {}, created {}, written {}", c.pages_read.get(), c.pages_created.get(), c.pages_written.get())?;
    let (requests, reads) = (c.read_requests.get(), c.reads.get());
    let hits = 1000 - (reads * 1000).checked_div(requests).unwrap_or(0).min(1000);
    writeln!(out, "Buffer pool hit rate {hits} / 1000 (since the start)")
}

fn row_operations(status: &Status, out: &mut String) -> std::fmt::Result {
    section(out, "ROW OPERATIONS")?;
    use Counter::*;
    let of = |counters: &[Counter]| counters.iter().map(|c| status.counters.get(*c)).sum::<u64>();
    let read =
        of(&[HandlerReadFirst, HandlerReadKey, HandlerReadLast, HandlerReadNext, HandlerReadPrev, HandlerReadRnd, HandlerReadRndNext]);
    writeln!(
        out,
        "Number of rows inserted {}, updated {}, deleted {}, read {read}",
        of(&[HandlerWrite]),
        of(&[HandlerUpdate]),
        of(&[HandlerDelete])
    )
}
