//! The engine's counters under the names that dashboards read (`Innodb_*`).
use redolith_engine::{Engine, PAGE_SIZE};
use redolith_sql::status::{Status, StatusValue};
use std::collections::HashMap;
use std::sync::Arc;

/// Adds the engine's names to SHOW STATUS.
pub fn register(status: &Status, engine: &Arc<Engine>) {
    let engine = engine.clone();
    status.register(Box::new(move |put| {
        let mut put = |name: &str, n: u64| put(name, StatusValue::Int(n));
        pool(&engine, &mut put);
        log(&engine, &mut put);
        locks(&engine, &mut put);
        put("Innodb_history_list_length", engine.history.len());
        put("Innodb_page_size", PAGE_SIZE as u64);
    }));
}

fn pool(engine: &Engine, put: &mut impl FnMut(&str, u64)) {
    let (c, pages) = (&engine.store.pool.counters, engine.store.pool.pages());
    let bytes = |pages: usize| (pages * PAGE_SIZE) as u64;
    put("Innodb_buffer_pool_read_requests", c.read_requests.get());
    put("Innodb_buffer_pool_write_requests", c.write_requests.get());
    put("Innodb_buffer_pool_reads", c.reads.get());
    put("Innodb_buffer_pool_read_ahead", c.read_ahead.get());
    put("Innodb_buffer_pool_read_ahead_evicted", c.read_ahead_evicted.get());
    put("Innodb_buffer_pool_wait_free", c.wait_free.get());
    put("Innodb_buffer_pool_pages_total", pages.total as u64);
    put("Innodb_buffer_pool_pages_data", pages.data as u64);
    put("Innodb_buffer_pool_pages_dirty", pages.dirty as u64);
    put("Innodb_buffer_pool_pages_free", pages.free as u64);
    put("Innodb_buffer_pool_pages_misc", (pages.total - pages.data - pages.free) as u64);
    put("Innodb_buffer_pool_pages_flushed", c.pages_written.get());
    put("Innodb_buffer_pool_pages_made_young", pages.made_young);
    put("Innodb_buffer_pool_bytes_data", bytes(pages.data));
    put("Innodb_buffer_pool_bytes_dirty", bytes(pages.dirty));
    put("Innodb_pages_created", c.pages_created.get());
    put("Innodb_pages_read", c.pages_read.get());
    put("Innodb_pages_written", c.pages_written.get());
    put("Innodb_dblwr_writes", c.dblwr_writes.get());
    put("Innodb_dblwr_pages_written", c.dblwr_pages_written.get());
    put("Innodb_data_reads", c.data_reads.get());
    put("Innodb_data_writes", c.data_writes.get());
    put("Innodb_data_fsyncs", c.data_fsyncs.get());
    put("Innodb_data_read", c.data_read_bytes.get());
    put("Innodb_data_written", c.data_written_bytes.get());
    put("Innodb_data_pending_reads", c.pending_reads.get());
    put("Innodb_data_pending_writes", c.pending_writes.get());
    put("Innodb_data_pending_fsyncs", c.pending_fsyncs.get());
}

fn log(engine: &Engine, put: &mut impl FnMut(&str, u64)) {
    let log = &engine.store.log;
    let mut counted: HashMap<&'static str, u64> = HashMap::new();
    log.counters(|name, n| {
        // The study's own names are there too, as `Redolith_log_...`.
        put(&format!("Redolith_{name}"), n);
        counted.insert(name, n);
    });
    let of = |name| counted.get(name).copied().unwrap_or(0);
    let (tail, checkpoint) = (log.tail().0, log.checkpoint_lsn().0);
    put("Innodb_log_waits", of("log_waits"));
    put("Innodb_log_writes", of("log_writes"));
    put("Innodb_os_log_written", of("os_log_written"));
    put("Innodb_os_log_fsyncs", of("os_log_fsyncs"));
    put("Innodb_lsn_current", tail);
    put("Innodb_lsn_flushed", log.durable().0);
    put("Innodb_lsn_last_checkpoint", checkpoint);
    put("Innodb_checkpoint_age", tail.saturating_sub(checkpoint));
    put("Innodb_checkpoint_max_age", log.capacity_bytes());
    put("Innodb_redo_log_current_lsn", tail);
    put("Innodb_redo_log_flushed_to_disk_lsn", log.durable().0);
    put("Innodb_redo_log_checkpoint_lsn", checkpoint);
    put("Innodb_redo_log_logical_size", tail.saturating_sub(checkpoint));
    put("Innodb_redo_log_capacity_resized", log.capacity_bytes());
}

fn locks(engine: &Engine, put: &mut impl FnMut(&str, u64)) {
    let s = engine.locks.stats();
    put("Innodb_row_lock_waits", s.waits);
    put("Innodb_row_lock_current_waits", s.current_waits);
    put("Innodb_row_lock_time", s.time_us / 1000);
    put("Innodb_row_lock_time_avg", s.time_avg_us() / 1000);
    put("Innodb_row_lock_time_max", s.time_max_us / 1000);
    put("Innodb_lock_wait_timeouts", s.timeouts);
    put("Innodb_deadlocks", s.deadlocks);
}
