//! Shows the engine's counters in SHOW STATUS: some under the names that dashboards read
//! (`Innodb_*`), and all of them under their own names (`Redolith_*`).
use redolith_engine::metrics::Metric;
use redolith_engine::{Engine, PoolListState, PoolResizeStage, PoolResizeState};
use redolith_sql::status::{Status, StatusValue, log_writer_mode};
use redolith_types::DateTime;
use std::collections::HashMap;
use std::sync::Arc;

/// Adds the engine's counters to SHOW STATUS.
pub fn register(status: &Status, engine: &Arc<Engine>) {
    let engine = engine.clone();
    status.register(Box::new(move |put| {
        put_all(&engine.metrics(), put);
        put("Redolith_log_writer_reason", StatusValue::Text(engine.store.log.writer_reason()));
        put_pool_resize(&engine.pool_resize_state(), put);
        let (dump, load) = engine.pool_lists();
        put(
            "Innodb_buffer_pool_dump_status",
            StatusValue::Text(pool_list_state(&dump, "dump", "Dumping")),
        );
        put(
            "Innodb_buffer_pool_load_status",
            StatusValue::Text(pool_list_state(&load, "load", "Loading")),
        );
    }));
}

/// A time in UTC.
fn at(unix_us: i64) -> String {
    let mut text = Vec::new();
    if let Some(at) = DateTime::from_unix_us(unix_us, 0) {
        at.write_text(0, &mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// How far the change of the pool's size is: MySQL's numbers of the stages, and its words where it
/// has the same stage.
fn put_pool_resize(state: &PoolResizeState, put: &mut dyn FnMut(&str, StatusValue)) {
    let (text, code, progress) = match state {
        PoolResizeState::NotBegun => (String::new(), 0, 0),
        PoolResizeState::Running { stage, from, to, percent } => {
            let (doing, code) = match stage {
                PoolResizeStage::Withdraw => ("Withdrawing blocks", 3),
                PoolResizeStage::Grow => ("Adding blocks", 5),
                PoolResizeStage::PageTable => ("Resizing hash tables", 6),
            };
            (format!("Resizing buffer pool from {from} to {to}: {doing}"), code, *percent)
        }
        PoolResizeState::Done { bytes, at_us } => {
            (format!("Completed resizing buffer pool to {bytes} at {}", at(*at_us)), 0, 100)
        }
        PoolResizeState::Failed(why) => (format!("Resizing buffer pool failed: {why}"), 7, 0),
    };
    put("Innodb_buffer_pool_resize_status", StatusValue::Text(text));
    put("Innodb_buffer_pool_resize_status_code", StatusValue::Int(code));
    put("Innodb_buffer_pool_resize_status_progress", StatusValue::Int(progress.into()));
}

/// The state of the list of the pool's pages, in InnoDB's words.
fn pool_list_state(state: &PoolListState, verb: &str, doing: &str) -> String {
    match state {
        PoolListState::NotBegun => format!("{doing} of buffer pool not started"),
        PoolListState::Running { done, of } => {
            format!("{doing} of buffer pool: {done} of {of} pages")
        }
        PoolListState::Done { pages, at_us } => {
            format!("Buffer pool(s) {verb} completed at {}: {pages} pages", at(*at_us))
        }
        PoolListState::Stopped { at_us } => {
            format!("Buffer pool(s) {verb} aborted on request at {}", at(*at_us))
        }
        PoolListState::Failed(why) => format!("Buffer pool(s) {verb} failed: {why}"),
    }
}

/// Pairs of MySQL's name and the engine's name.
const NAMES: &[(&str, &str)] = &[
    ("Handler_commit", "trx_rw_commits"),
    ("Handler_delete", "dml_deletes"),
    ("Handler_rollback", "trx_rollbacks"),
    ("Handler_update", "dml_updates"),
    ("Handler_write", "dml_inserts"),
    ("Innodb_buffer_pool_bytes_data", "buffer_pool_bytes_data"),
    ("Innodb_buffer_pool_bytes_dirty", "buffer_pool_bytes_dirty"),
    ("Innodb_buffer_pool_pages_data", "buffer_pool_pages_data"),
    ("Innodb_buffer_pool_pages_dirty", "buffer_pool_pages_dirty"),
    ("Innodb_buffer_pool_pages_flushed", "buffer_pages_written"),
    ("Innodb_buffer_pool_pages_free", "buffer_pool_pages_free"),
    ("Innodb_buffer_pool_pages_made_young", "buffer_pages_made_young"),
    ("Innodb_buffer_pool_pages_misc", "buffer_pool_pages_misc"),
    ("Innodb_buffer_pool_pages_total", "buffer_pool_pages_total"),
    ("Innodb_buffer_pool_read_ahead", "buffer_pool_read_ahead"),
    ("Innodb_buffer_pool_read_ahead_evicted", "buffer_pool_read_ahead_evicted"),
    ("Innodb_buffer_pool_read_requests", "buffer_pool_read_requests"),
    ("Innodb_buffer_pool_reads", "buffer_pool_reads"),
    ("Innodb_buffer_pool_wait_free", "buffer_pool_wait_free"),
    ("Innodb_buffer_pool_write_requests", "buffer_pool_write_requests"),
    ("Innodb_checkpoint_age", "log_lsn_checkpoint_age"),
    ("Innodb_checkpoint_max_age", "log_max_modified_age_sync"),
    ("Innodb_data_fsyncs", "os_data_fsyncs"),
    ("Innodb_data_pending_fsyncs", "os_pending_fsyncs"),
    ("Innodb_data_pending_reads", "os_pending_reads"),
    ("Innodb_data_pending_writes", "os_pending_writes"),
    ("Innodb_data_read", "buffer_data_reads"),
    ("Innodb_data_reads", "os_data_reads"),
    ("Innodb_data_writes", "os_data_writes"),
    ("Innodb_data_written", "buffer_data_written"),
    ("Innodb_dblwr_pages_written", "innodb_dblwr_pages_written"),
    ("Innodb_dblwr_writes", "innodb_dblwr_writes"),
    ("Innodb_deadlocks", "lock_deadlocks"),
    ("Innodb_history_list_length", "trx_rseg_history_len"),
    ("Innodb_lock_wait_timeouts", "lock_timeouts"),
    ("Innodb_log_waits", "log_waits"),
    ("Innodb_log_write_requests", "log_write_requests"),
    ("Innodb_log_writes", "log_writes"),
    ("Innodb_lsn_current", "log_lsn_current"),
    ("Innodb_lsn_flushed", "log_lsn_last_flush"),
    ("Innodb_lsn_last_checkpoint", "log_lsn_last_checkpoint"),
    ("Innodb_num_open_files", "file_num_open_files"),
    ("Innodb_os_log_fsyncs", "os_log_fsyncs"),
    ("Innodb_os_log_pending_fsyncs", "os_log_pending_fsyncs"),
    ("Innodb_os_log_pending_writes", "os_log_pending_writes"),
    ("Innodb_os_log_written", "os_log_written"),
    ("Innodb_page_size", "innodb_page_size"),
    ("Innodb_pages_created", "buffer_pages_created"),
    ("Innodb_pages_read", "buffer_pages_read"),
    ("Innodb_pages_written", "buffer_pages_written"),
    ("Innodb_redo_log_capacity_resized", "log_capacity"),
    ("Innodb_redo_log_checkpoint_lsn", "log_lsn_last_checkpoint"),
    ("Innodb_redo_log_current_lsn", "log_lsn_current"),
    ("Innodb_redo_log_flushed_to_disk_lsn", "log_lsn_last_flush"),
    ("Innodb_redo_log_logical_size", "log_lsn_checkpoint_age"),
    ("Innodb_row_lock_current_waits", "lock_row_lock_current_waits"),
    ("Innodb_row_lock_time", "lock_row_lock_time"),
    ("Innodb_row_lock_time_avg", "lock_row_lock_time_avg"),
    ("Innodb_row_lock_time_max", "lock_row_lock_time_max"),
    ("Innodb_row_lock_waits", "lock_row_lock_waits"),
    ("Innodb_rows_deleted", "dml_deletes"),
    ("Innodb_rows_inserted", "dml_inserts"),
    ("Innodb_rows_read", "dml_reads"),
    ("Innodb_rows_updated", "dml_updates"),
    ("Innodb_system_rows_deleted", "dml_system_deletes"),
    ("Innodb_system_rows_inserted", "dml_system_inserts"),
    ("Innodb_system_rows_read", "dml_system_reads"),
    ("Innodb_system_rows_updated", "dml_system_updates"),
];

fn put_all(metrics: &[(Metric, u64)], put: &mut dyn FnMut(&str, StatusValue)) {
    let by_name: HashMap<&str, u64> = metrics.iter().map(|(m, n)| (m.name, *n)).collect();
    for (name, of) in NAMES {
        put(name, StatusValue::Int(by_name[of]));
    }
    for (name, n) in
        [("total", 2), ("implicit", 2), ("explicit", 0), ("active", by_name["undo_spaces_active"])]
    {
        put(&format!("Innodb_undo_tablespaces_{name}"), StatusValue::Int(n));
    }
    let resizing = by_name["log_capacity"] != by_name["log_capacity_set"];
    put(
        "Innodb_redo_log_resize_status",
        StatusValue::Text(if resizing { "Resizing down" } else { "OK" }.into()),
    );
    put("Innodb_redo_log_enabled", StatusValue::Text("ON".into()));
    put("Innodb_redo_log_read_only", StatusValue::Text("OFF".into()));
    put(
        "Redolith_log_writer_mode",
        StatusValue::Text(log_writer_mode(by_name["log_writer_mode"]).into()),
    );
    for (metric, n) in metrics.iter().filter(|(m, _)| m.name != "log_writer_mode") {
        put(&format!("Redolith_{}", metric.name), StatusValue::Int(*n));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_engine::metrics;

    #[test]
    fn names_are_sorted_and_mean_counters_that_there_are() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0));
        let there: Vec<&str> = metrics::all().iter().map(|m| m.name).collect();
        for (name, of) in NAMES {
            assert!(there.contains(of), "{name} = {of}");
        }
    }

    #[test]
    fn a_resize_shows_its_stage_and_how_far_it_is() {
        let shown = |state| {
            let mut all = Vec::new();
            put_pool_resize(&state, &mut |_, value| all.push(value));
            all
        };
        let is = |text: &str, code, progress| {
            vec![StatusValue::Text(text.into()), StatusValue::Int(code), StatusValue::Int(progress)]
        };
        assert_eq!(shown(PoolResizeState::NotBegun), is("", 0, 0));
        let stage = PoolResizeStage::Withdraw;
        assert_eq!(
            shown(PoolResizeState::Running { stage, from: 8, to: 4, percent: 50 }),
            is("Resizing buffer pool from 8 to 4: Withdrawing blocks", 3, 50)
        );
        assert_eq!(
            shown(PoolResizeState::Done { bytes: 4, at_us: 0 }),
            is("Completed resizing buffer pool to 4 at 1970-01-01 00:00:00", 0, 100)
        );
        assert_eq!(
            shown(PoolResizeState::Failed("no memory".into())),
            is("Resizing buffer pool failed: no memory", 7, 0)
        );
    }

    #[test]
    fn every_counter_has_a_status_variable() {
        let all: Vec<(Metric, u64)> = metrics::all().iter().map(|m| (*m, 1)).collect();
        let mut put = HashMap::new();
        put_all(&all, &mut |name, value| {
            assert!(put.insert(name.to_string(), value).is_none(), "{name}");
        });
        assert_eq!(put["Innodb_rows_read"], StatusValue::Int(1));
        assert_eq!(put["Redolith_log_writer_mode"], StatusValue::Text("leader".into()));
        assert!(all.iter().all(|(m, _)| put.contains_key(&format!("Redolith_{}", m.name))));
    }
}
