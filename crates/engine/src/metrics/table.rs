//! The description of each counter. A counter has its name from INNODB_METRICS if the same event
//! exists here; other counters have names of our own.
//!
//! A counter that cannot move here is listed all the same, so that a query by its name finds it;
//! its comment says why it stays 0.
use super::{Kind, Kind::*, Metric};

type Row = (&'static str, Kind, &'static str);
/// The module, the subsystem, and the rows of a group.
type Group = (&'static str, &'static str, &'static [Row]);

pub(super) fn all() -> impl Iterator<Item = Metric> {
    GROUPS.iter().flat_map(|(module, subsystem, rows)| {
        rows.iter().map(move |(name, kind, comment)| Metric {
            name,
            subsystem,
            module,
            kind: *kind,
            comment,
        })
    })
}

const GROUPS: &[Group] = &[
    ("module_log", "log", LOG),
    ("module_log", "log", COMMIT_WAIT),
    ("module_log", "log", FLUSH_TIME),
    ("module_buffer", "buffer", BUFFER),
    ("module_os", "os", OS),
    ("module_dblwr", "dblwr", DBLWR),
    ("module_lock", "lock", LOCK),
    ("module_trx", "transaction", TRX),
    ("module_undo", "undo", UNDO),
    ("module_purge", "purge", PURGE),
    ("module_dml", "dml", DML),
    ("module_index", "index", INDEX),
    ("module_file", "file_system", FILE),
    ("module_metadata", "metadata", METADATA),
    ("module_adaptive_hash", "adaptive_hash_index", ADAPTIVE_HASH),
    ("module_ibuf_system", "change_buffer", CHANGE_BUFFER),
    ("module_icp", "icp", ICP),
    ("module_srv", "server", SERVER),
];

const LOG: &[Row] = &[
    ("log_lsn_current", Value, "Place in the log where the next mini-transaction begins"),
    ("log_lsn_last_flush", Value, "Everything below this place is durable"),
    ("log_lsn_last_checkpoint", Value, "Where recovery would begin"),
    ("log_lsn_checkpoint_age", Value, "Bytes of log between the last checkpoint and the end"),
    ("log_lsn_archived", Value, "0: there is no log archiver"),
    (
        "log_lsn_buf_dirty_pages_added",
        Value,
        "Every page changed below this place is known to be dirty",
    ),
    (
        "log_lsn_buf_pool_oldest_approx",
        Value,
        "Oldest change that is not in the data files, to a bucket of the dirty index",
    ),
    (
        "log_lsn_buf_pool_oldest_lwm",
        Value,
        "The same: the dirty index needs no allowance for late entries",
    ),
    (
        "log_max_modified_age_async",
        Value,
        "Checkpoint age from which the writers of rows are slowed",
    ),
    ("log_max_modified_age_sync", Value, "Checkpoint age at which they wait"),
    (
        "log_free_space",
        Value,
        "Bytes of log that may be written before writers wait for a checkpoint",
    ),
    (
        "log_concurrency_margin",
        Value,
        "0: each mini-transaction takes credit for its bytes before it begins, so no margin is \
            needed",
    ),
    (
        "log_capacity",
        Value,
        "Bytes that the log may hold now: more than the setting while the log shrinks",
    ),
    ("log_capacity_set", Value, "Bytes that it is to hold (innodb_redo_log_capacity)"),
    ("log_buffer_bytes", Value, "Size of the log buffer"),
    (
        "log_throttle_waits",
        Counter,
        "Changes of rows that were held up because the log was nearly full",
    ),
    ("log_throttle_time_us", Counter, "Microseconds that they were held up"),
    ("log_waits", StatusCounter, "Mini-transactions that waited for room in the log buffer"),
    ("log_write_requests", StatusCounter, "Mini-transactions put into the log buffer"),
    ("log_write_request_bytes", Counter, "Their bytes"),
    ("log_writes", StatusCounter, "Writes to the log files"),
    ("log_flush_total_time", Counter, "Milliseconds spent on making the log durable"),
    ("log_flush_total_time_us", Counter, "The same in microseconds"),
    ("log_flush_max_time", Value, "Longest time that one flush took, in microseconds"),
    ("log_flush_max_time_us", Value, "The same"),
    ("log_flush_avg_time", Value, "Microseconds that a flush takes on average"),
    ("log_flush_avg_time_us", Value, "The same"),
    ("log_flush_lsn_avg_rate", Value, "Bytes of log that a flush makes durable on average"),
    ("log_flush_total_bytes", Counter, "Bytes of log made durable"),
    ("log_flushes", Counter, "Times that the durable place in the log moved"),
    (
        "log_flush_waiters",
        Counter,
        "Waits that a flush by another session, or by the dedicated writer, ended",
    ),
    ("log_flush_group_max", Value, "Most waits that one flush ended"),
    ("log_waiters_per_flush", Value, "Waits ended by one flush, on average, in hundredths"),
    (
        "log_groups",
        Counter,
        "Flushes by a session, for itself and all that waited with it; the rest are the dedicated \
            writer's",
    ),
    ("log_writer_mode", Value, "Who writes the log now: 0 session, 1 leader, 2 dedicated"),
    (
        "log_flush_depth",
        Value,
        "Durable writes of the log that may be in flight at one time; dedicated threads overlap by \
            themselves, at any depth",
    ),
    (
        "log_writes_submitted",
        Counter,
        "Writes that a leader submitted and then waited for like the sessions of its group",
    ),
    ("log_writes_overlapped", Counter, "Those that began while another one was in flight"),
    (
        "log_flush_pace_us",
        Value,
        "Microseconds that lie at least between the beginnings of two flushes; 0: none is held \
            back",
    ),
    ("log_flush_holds", Counter, "Flushes held back for that"),
    ("log_flush_hold_time_us", Counter, "Microseconds of that"),
    (
        "log_flush_cpu_avg_ns",
        Value,
        "CPU time of a flush in the thread that does it, in nanoseconds: a moving average of \
            samples",
    ),
    (
        "log_session_cycle_us",
        Value,
        "Microseconds from one commit of a session to its next: a moving average of samples",
    ),
    (
        "log_cpus_usable_milli",
        Value,
        "Thousandths of a CPU that this process may use: affinity and quota",
    ),
    (
        "log_cpus_idle_milli",
        Value,
        "Thousandths of these CPUs that stood idle in the last fifth of a second in which commits \
            became durable",
    ),
    (
        "log_idle_leaders",
        Counter,
        "Commits that were to flush for all, and that the program neither polled nor dropped for \
            half a second: another task did it",
    ),
    (
        "log_auto_windows",
        Counter,
        "Windows of time in which redolith_log_writer=auto had a candidate mode or depth write, to \
            compare it with the configuration in use",
    ),
    (
        "log_auto_window_time_us",
        Counter,
        "Microseconds of those windows; more where the candidate has been nearly as good",
    ),
    (
        "log_auto_switches",
        Counter,
        "Times redolith_log_writer=auto changed to the candidate's mode or depth",
    ),
    ("log_full_block_writes", Counter, "Writes that ended at the end of a block"),
    ("log_partial_block_writes", Counter, "Writes whose last block was filled up with zeros"),
    (
        "log_padded",
        Counter,
        "Those zeros, in bytes, and frames that fill a block, so that the next write can begin \
            while this one is in flight",
    ),
    ("log_next_file", Counter, "Segment files made ready: made new, or used again"),
    ("log_segments", Value, "Segment files that there are"),
    ("log_segments_created", Counter, "Segment files written with zeros"),
    ("log_segments_recycled", Counter, "Segment files used again under a new number"),
    ("log_checkpoints", Counter, "Checkpoints written"),
    ("os_log_written", StatusCounter, "Bytes written to the log files"),
    ("os_log_fsyncs", StatusCounter, "Writes and calls that made log files durable"),
    (
        "log_writer_no_waits",
        Counter,
        "Times the dedicated writer found somebody to write for at once; 0 in the other \
            modes, which have no writer",
    ),
    ("log_writer_waits", Counter, "Times the dedicated writer slept until a session waited"),
    ("log_writer_wait_loops", Counter, "Times it woke up for that and looked again"),
    (
        "log_writer_on_file_space_waits",
        Counter,
        "0: space is taken before a mini-transaction begins (log_on_file_space_waits), the writer \
            never lacks it",
    ),
    ("log_writer_on_archiver_waits", Counter, "0: there is no log archiver"),
    ("log_writer_on_tracker_waits", Counter, "0: there is no page tracking"),
    (
        "log_write_notifier_no_waits",
        Counter,
        "0: the thread that writes also wakes the waiting sessions; there is no notifier",
    ),
    ("log_write_notifier_waits", Counter, "0: see log_write_notifier_no_waits"),
    ("log_write_notifier_wait_loops", Counter, "0: see log_write_notifier_no_waits"),
    (
        "log_flusher_no_waits",
        Counter,
        "Times the flusher of the dedicated writer found something to sync at once; 0 in the \
            other modes",
    ),
    ("log_flusher_waits", Counter, "Times that flusher slept until there was something to sync"),
    ("log_flusher_wait_loops", Counter, "Times it woke up for that and looked again"),
    (
        "log_flush_notifier_no_waits",
        Counter,
        "0: the thread that flushes also wakes the waiting sessions; there is no notifier",
    ),
    ("log_flush_notifier_waits", Counter, "0: see log_flush_notifier_no_waits"),
    ("log_flush_notifier_wait_loops", Counter, "0: see log_flush_notifier_no_waits"),
    (
        "log_write_to_file_requests_interval",
        Value,
        "0: writers are chosen by the waiting sessions, not by the time between requests",
    ),
    ("log_on_write_no_waits", Counter, "Waits for a written log that had nothing to wait for"),
    (
        "log_on_write_waits",
        Counter,
        "Waits until the log was written up to a place (innodb_flush_log_at_trx_commit=2)",
    ),
    ("log_on_write_wait_loops", Counter, "Times those waits were woken and looked again"),
    ("log_on_flush_no_waits", Counter, "Waits for a durable log that had nothing to wait for"),
    ("log_on_flush_waits", Counter, "Waits of commits until the log was durable up to their place"),
    ("log_on_flush_wait_loops", Counter, "Times those waits were woken and looked again"),
    (
        "log_on_buffer_space_no_waits",
        Counter,
        "Requests for log credit that found room in the buffer on their second look",
    ),
    (
        "log_on_buffer_space_waits",
        Counter,
        "Requests for log credit that waited for room in the log buffer",
    ),
    ("log_on_buffer_space_wait_loops", Counter, "Times those waits looked and found no room"),
    (
        "log_on_file_space_no_waits",
        Counter,
        "Requests for log credit that found room in the files on their second look",
    ),
    ("log_on_file_space_waits", Counter, "Requests for log credit that waited for a checkpoint"),
    ("log_on_file_space_wait_loops", Counter, "Times those waits looked and found no room"),
    (
        "log_on_recent_written_wait_loops",
        Counter,
        "Times a writer looked again because a frame before the end was not copied yet (the slots' \
            copy_low)",
    ),
    (
        "log_on_recent_closed_wait_loops",
        Counter,
        "0: dirty pages enter an index in any order, so no session waits for their order",
    ),
];

/// The group that `innodb_monitor_enable = 'commit_wait_us%'` enables.
const COMMIT_WAIT: &[Row] = &[
    ("commit_wait_us_count", SetOwner, "Commits that were waited for until they were durable"),
    ("commit_wait_us_sum", SetMember, "Microseconds of these waits"),
    ("commit_wait_us_le_10", SetMember, "Waits of 10 microseconds or less"),
    ("commit_wait_us_le_20", SetMember, "Waits of 20 microseconds or less"),
    ("commit_wait_us_le_50", SetMember, "Waits of 50 microseconds or less"),
    ("commit_wait_us_le_100", SetMember, "Waits of 100 microseconds or less"),
    ("commit_wait_us_le_200", SetMember, "Waits of 200 microseconds or less"),
    ("commit_wait_us_le_500", SetMember, "Waits of 500 microseconds or less"),
    ("commit_wait_us_le_1000", SetMember, "Waits of 1 millisecond or less"),
    ("commit_wait_us_le_2000", SetMember, "Waits of 2 milliseconds or less"),
    ("commit_wait_us_le_5000", SetMember, "Waits of 5 milliseconds or less"),
    ("commit_wait_us_le_10000", SetMember, "Waits of 10 milliseconds or less"),
    ("commit_wait_us_le_20000", SetMember, "Waits of 20 milliseconds or less"),
    ("commit_wait_us_le_50000", SetMember, "Waits of 50 milliseconds or less"),
    ("commit_wait_us_le_100000", SetMember, "Waits of 100 milliseconds or less"),
    ("commit_wait_us_le_200000", SetMember, "Waits of 200 milliseconds or less"),
    ("commit_wait_us_le_500000", SetMember, "Waits of half a second or less"),
    ("commit_wait_us_le_1000000", SetMember, "Waits of a second or less"),
    ("commit_wait_us_le_5000000", SetMember, "Waits of 5 seconds or less"),
    ("commit_wait_us_le_inf", SetMember, "All waits"),
];

const FLUSH_TIME: &[Row] = &[
    ("log_flush_time_us_count", SetOwner, "Flushes of the log whose time was taken"),
    ("log_flush_time_us_sum", SetMember, "Microseconds that they took"),
    ("log_flush_time_us_le_10", SetMember, "Flushes of 10 microseconds or less"),
    ("log_flush_time_us_le_20", SetMember, "Flushes of 20 microseconds or less"),
    ("log_flush_time_us_le_50", SetMember, "Flushes of 50 microseconds or less"),
    ("log_flush_time_us_le_100", SetMember, "Flushes of 100 microseconds or less"),
    ("log_flush_time_us_le_200", SetMember, "Flushes of 200 microseconds or less"),
    ("log_flush_time_us_le_500", SetMember, "Flushes of 500 microseconds or less"),
    ("log_flush_time_us_le_1000", SetMember, "Flushes of 1 millisecond or less"),
    ("log_flush_time_us_le_2000", SetMember, "Flushes of 2 milliseconds or less"),
    ("log_flush_time_us_le_5000", SetMember, "Flushes of 5 milliseconds or less"),
    ("log_flush_time_us_le_10000", SetMember, "Flushes of 10 milliseconds or less"),
    ("log_flush_time_us_le_20000", SetMember, "Flushes of 20 milliseconds or less"),
    ("log_flush_time_us_le_50000", SetMember, "Flushes of 50 milliseconds or less"),
    ("log_flush_time_us_le_100000", SetMember, "Flushes of 100 milliseconds or less"),
    ("log_flush_time_us_le_200000", SetMember, "Flushes of 200 milliseconds or less"),
    ("log_flush_time_us_le_500000", SetMember, "Flushes of half a second or less"),
    ("log_flush_time_us_le_1000000", SetMember, "Flushes of a second or less"),
    ("log_flush_time_us_le_5000000", SetMember, "Flushes of 5 seconds or less"),
    ("log_flush_time_us_le_inf", SetMember, "All flushes"),
];

const BUFFER: &[Row] = &[
    ("buffer_pool_size", Value, "Bytes of the buffer pool"),
    ("buffer_pool_reads", StatusCounter, "Pages that a session waited for until they were read"),
    ("buffer_pool_read_requests", StatusCounter, "Pages asked for"),
    ("buffer_pool_write_requests", StatusCounter, "Pages changed by mini-transactions"),
    ("buffer_pool_wait_free", StatusCounter, "Times no frame was free and no clean page at hand"),
    ("buffer_page_latch_waits", StatusCounter, "Times a page in memory was latched by another"),
    ("buffer_pool_read_ahead", StatusCounter, "Pages read before they were asked for"),
    (
        "buffer_pool_read_ahead_evicted",
        StatusCounter,
        "Of the pages read ahead, pages that were evicted without having been asked for",
    ),
    ("buffer_pool_pages_total", Value, "Frames of the pool"),
    ("buffer_pool_pages_misc", Value, "Frames that are neither free nor hold a page"),
    ("buffer_pool_pages_data", Value, "Frames that hold a page"),
    ("buffer_pool_bytes_data", Value, "Their bytes"),
    ("buffer_pool_pages_dirty", Value, "Pages changed and not written yet"),
    ("buffer_pool_bytes_dirty", Value, "Their bytes"),
    ("buffer_pool_pages_free", Value, "Free frames"),
    ("buffer_pages_created", StatusCounter, "Pages made new"),
    ("buffer_pages_written", StatusCounter, "Pages written to their files"),
    ("buffer_pages_read", StatusCounter, "Pages read from their files"),
    ("buffer_pages_evicted", StatusCounter, "Pages that left the pool"),
    (
        "buffer_pages_moved",
        StatusCounter,
        "Pages moved to another frame, because the pool became smaller",
    ),
    ("buffer_pages_made_young", StatusCounter, "Pages moved to the young part of the pool's list"),
    ("buffer_pages_old", Value, "Pages in the old part of the pool's list"),
    ("buffer_data_reads", StatusCounter, "Bytes read from data files"),
    ("buffer_data_written", StatusCounter, "Bytes written to data files"),
    ("buffer_LRU_batch_flush_total_pages", Counter, "Pages written to free their frames"),
    (
        "buffer_flush_adaptive_total_pages",
        Counter,
        "Pages written for the log's sake and the share of dirty ones",
    ),
    ("buffer_LRU_single_flush_scanned", SetOwner, "0: a session never writes a page itself"),
];

const OS: &[Row] = &[
    ("os_data_reads", StatusCounter, "Reads of data files"),
    ("os_data_writes", StatusCounter, "Writes to data files"),
    ("os_data_fsyncs", StatusCounter, "Calls that made data files durable"),
    ("os_pending_reads", Value, "Page reads under way"),
    ("os_pending_writes", Value, "Page writes under way"),
    ("os_pending_fsyncs", Value, "Calls under way that make data files durable"),
    ("os_log_bytes_written", StatusCounter, "Bytes written to the log files"),
    (
        "os_log_pending_fsyncs",
        Value,
        "0: whether a flush of the log is under way is known to its writer alone",
    ),
    ("os_log_pending_writes", Value, "0: see os_log_pending_fsyncs"),
];

const DBLWR: &[Row] = &[
    ("dblwr_async_requests", Counter, "Pages copied to the doublewrite file"),
    ("dblwr_flush_requests", Counter, "Batches of copies made durable"),
    ("dblwr_atomic_pages", Counter, "Pages written by atomic writes, which need no copy"),
    ("dblwr_sync_requests", Counter, "0: a session never writes a page itself"),
    (
        "dblwr_flush_wait_events",
        Counter,
        "0: cleaners wait for the segment's write, there is no queue in front of it",
    ),
];

const LOCK: &[Row] = &[
    ("lock_deadlocks", Counter, "Deadlocks"),
    (
        "lock_deadlock_false_positives",
        Counter,
        "0: cycles are searched for under the locks that make them, each one found is there",
    ),
    (
        "lock_deadlock_rounds",
        Counter,
        "0: there are no rounds, a request that waits searches for its own cycle",
    ),
    (
        "lock_timeouts",
        Counter,
        "Waits for row locks that took longer than innodb_lock_wait_timeout",
    ),
    ("lock_rec_lock_waits", Counter, "Waits for row locks"),
    ("lock_row_lock_current_waits", Value, "Row locks waited for now"),
    ("lock_row_lock_time", StatusCounter, "Milliseconds waited for row locks"),
    ("lock_row_lock_time_max", Value, "Longest such wait, in milliseconds"),
    ("lock_row_lock_waits", StatusCounter, "Waits for row locks"),
    ("lock_row_lock_time_avg", Value, "Milliseconds that such a wait takes on average"),
    ("lock_rec_locks", Value, "Keys that are locked now"),
    ("lock_table_lock_waits", Counter, "0: rows need no lock on their table but the metadata lock"),
    ("lock_threads_waiting", Value, "Row locks waited for now"),
];

const TRX: &[Row] = &[
    ("trx_rw_commits", Counter, "Transactions committed that had changed rows"),
    ("trx_ro_commits", Counter, "Transactions committed that had only read"),
    ("trx_nl_ro_commits", Counter, "Of single statements that read without locks"),
    ("trx_commits_insert_update", Counter, "The same as trx_rw_commits: one undo log serves both"),
    ("trx_rollbacks", Counter, "Transactions rolled back"),
    ("trx_rollbacks_savepoint", Counter, "Rollbacks to a savepoint, and of single statements"),
    (
        "trx_rollback_active",
        Value,
        "Transactions that are being rolled back in the background, their sessions being gone",
    ),
    ("trx_active_transactions", Value, "Transactions that have changed rows and not ended"),
    ("trx_read_views", Value, "Read views that are open"),
    ("trx_rseg_history_len", Value, "Committed transactions whose undo is not purged yet"),
];

const UNDO: &[Row] = &[
    ("trx_undo_slots_used", Value, "Undo pages with undo logs that are needed"),
    ("trx_undo_slots_cached", Value, "Undo pages that are free to be used again"),
    ("undo_bytes", Value, "Bytes of the two undo files"),
    (
        "undo_spaces_active",
        Value,
        "Undo spaces that are in use; the other undo space is being emptied and truncated",
    ),
    ("undo_truncate_count", Counter, "Undo files made short again"),
    ("undo_truncate_usec", Counter, "Microseconds that replacing them took"),
];

const PURGE: &[Row] = &[
    ("purge_del_mark_records", Counter, "Deleted rows removed from their clustered index"),
    ("purge_upd_exist_or_extern_records", Counter, "Undo records of updates and deletes purged"),
    ("purge_invoked", Counter, "Times purge took up work from the history list"),
    ("purge_undo_log_pages", Counter, "Undo pages that it read for that"),
    ("purge_undo_logs", Counter, "Committed transactions whose undo was purged"),
    (
        "purge_dml_delay_usec",
        Value,
        "How long each change of a row waits for purge now (innodb_max_purge_lag)",
    ),
    (
        "purge_retries",
        Counter,
        "Times purge put a transaction's undo back to try again later: the disk was full",
    ),
    ("purge_resume_count", Counter, "Times purge was told to go on (innodb_purge_run_now)"),
    ("purge_stop_count", Counter, "Times purge was stopped (innodb_purge_stop_now)"),
];

const DML: &[Row] = &[
    ("dml_reads", StatusCounter, "Rows read by statements"),
    ("dml_inserts", StatusCounter, "Rows inserted by statements"),
    ("dml_deletes", StatusCounter, "Rows deleted by statements"),
    ("dml_updates", StatusCounter, "Rows changed by statements"),
    ("dml_system_reads", StatusCounter, "0: there are no tables in a system schema"),
    ("dml_system_inserts", StatusCounter, "0: see dml_system_reads"),
    ("dml_system_deletes", StatusCounter, "0: see dml_system_reads"),
    ("dml_system_updates", StatusCounter, "0: see dml_system_reads"),
];

const INDEX: &[Row] = &[
    ("index_page_splits", Counter, "Index pages split"),
    ("index_page_merge_successful", Counter, "Index pages merged with a neighbour"),
    ("index_page_merge_attempts", Counter, "The same: a merge is begun only where it succeeds"),
];

const FILE: &[Row] = &[("file_num_open_files", Value, "Data files that are open")];

const METADATA: &[Row] = &[
    (
        "metadata_table_handles_opened",
        Value,
        "Tables that there are: each is opened once for all sessions",
    ),
    ("metadata_mem_pool_size", Value, "0: definitions live in the common memory"),
];

const ADAPTIVE_HASH: &[Row] = &[
    ("adaptive_hash_searches", StatusCounter, "0: there is no adaptive hash index"),
    ("adaptive_hash_searches_btree", StatusCounter, "0: see adaptive_hash_searches"),
];

const CHANGE_BUFFER: &[Row] = &[
    ("ibuf_merges", StatusCounter, "0: there is no change buffer"),
    ("ibuf_size", StatusCounter, "0: see ibuf_merges"),
];

const ICP: &[Row] =
    &[("icp_attempts", Counter, "0: conditions are checked on the row, not on the index entry")];

const SERVER: &[Row] = &[
    ("innodb_page_size", Value, "Bytes of a page"),
    ("innodb_dblwr_writes", StatusCounter, "Batches of pages copied to the doublewrite file"),
    ("innodb_dblwr_pages_written", StatusCounter, "Pages copied to the doublewrite file"),
    ("innodb_master_thread_sleeps", Counter, "0: there is no master thread"),
    ("innodb_activity_count", Counter, "Mini-transactions that changed pages"),
    (
        "innodb_rwlock_s_spin_waits",
        StatusCounter,
        "0: page latches park, they do not count rounds of spinning",
    ),
    ("innodb_rwlock_x_spin_waits", StatusCounter, "0: see innodb_rwlock_s_spin_waits"),
];
