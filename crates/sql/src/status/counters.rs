//! The counters that statements increase.
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of threads with a copy of the counters of their own. Such a thread adds with a load
/// and a store. All other threads share one more copy.
const OWNED: usize = 64;

macro_rules! counters {
    ($($name:ident $spelt:literal,)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Counter { $($name),* }
        const NAMES: &[&str] = &[$($spelt),*];
    };
}

counters! {
    AbortedClients "Aborted_clients",
    AbortedConnects "Aborted_connects",
    BinlogCacheDiskUse "Binlog_cache_disk_use",
    BinlogCacheUse "Binlog_cache_use",
    BinlogStmtCacheDiskUse "Binlog_stmt_cache_disk_use",
    BinlogStmtCacheUse "Binlog_stmt_cache_use",
    BytesReceived "Bytes_received",
    BytesSent "Bytes_sent",
    ComAdminCommands "Com_admin_commands",
    ComAlterTable "Com_alter_table",
    ComAnalyze "Com_analyze",
    ComBegin "Com_begin",
    ComChangeDb "Com_change_db",
    ComCheck "Com_check",
    ComChecksum "Com_checksum",
    ComCommit "Com_commit",
    ComCreateDb "Com_create_db",
    ComCreateIndex "Com_create_index",
    ComCreateTable "Com_create_table",
    ComCreateView "Com_create_view",
    ComDeallocateSql "Com_dealloc_sql",
    ComDelete "Com_delete",
    ComDeleteMulti "Com_delete_multi",
    ComDo "Com_do",
    ComDropDb "Com_drop_db",
    ComDropIndex "Com_drop_index",
    ComDropTable "Com_drop_table",
    ComDropView "Com_drop_view",
    ComExecuteSql "Com_execute_sql",
    ComExplain "Com_explain_other",
    ComFlush "Com_flush",
    ComInsert "Com_insert",
    ComInsertSelect "Com_insert_select",
    ComKill "Com_kill",
    ComLoad "Com_load",
    ComLockTables "Com_lock_tables",
    ComOptimize "Com_optimize",
    ComPrepareSql "Com_prepare_sql",
    ComReleaseSavepoint "Com_release_savepoint",
    ComRenameTable "Com_rename_table",
    ComRepair "Com_repair",
    ComReplace "Com_replace",
    ComReplaceSelect "Com_replace_select",
    ComRollback "Com_rollback",
    ComRollbackToSavepoint "Com_rollback_to_savepoint",
    ComSavepoint "Com_savepoint",
    ComSelect "Com_select",
    ComSetOption "Com_set_option",
    ComShowCreateTable "Com_show_create_table",
    ComShowDatabases "Com_show_databases",
    ComShowEngineStatus "Com_show_engine_status",
    ComShowFields "Com_show_fields",
    ComShowKeys "Com_show_keys",
    ComShowProcesslist "Com_show_processlist",
    ComShowStatus "Com_show_status",
    ComShowTables "Com_show_tables",
    ComShowTableStatus "Com_show_table_status",
    ComShowVariables "Com_show_variables",
    ComShowWarnings "Com_show_warnings",
    ComStmtClose "Com_stmt_close",
    ComStmtExecute "Com_stmt_execute",
    ComStmtFetch "Com_stmt_fetch",
    ComStmtPrepare "Com_stmt_prepare",
    ComStmtReprepare "Com_stmt_reprepare",
    ComStmtReset "Com_stmt_reset",
    ComStmtSendLongData "Com_stmt_send_long_data",
    ComTruncate "Com_truncate",
    ComUnlockTables "Com_unlock_tables",
    ComUpdate "Com_update",
    ComUpdateMulti "Com_update_multi",
    ComXaCommit "Com_xa_commit",
    ComXaEnd "Com_xa_end",
    ComXaPrepare "Com_xa_prepare",
    ComXaRecover "Com_xa_recover",
    ComXaRollback "Com_xa_rollback",
    ComXaStart "Com_xa_start",
    ConnectionErrorsAccept "Connection_errors_accept",
    ConnectionErrorsMaxConnections "Connection_errors_max_connections",
    Connections "Connections",
    CreatedTmpTables "Created_tmp_tables",
    HandlerCommit "Handler_commit",
    HandlerDelete "Handler_delete",
    HandlerReadFirst "Handler_read_first",
    HandlerReadKey "Handler_read_key",
    HandlerReadLast "Handler_read_last",
    HandlerReadNext "Handler_read_next",
    HandlerReadPrev "Handler_read_prev",
    HandlerReadRnd "Handler_read_rnd",
    HandlerReadRndNext "Handler_read_rnd_next",
    HandlerRollback "Handler_rollback",
    HandlerSavepoint "Handler_savepoint",
    HandlerSavepointRollback "Handler_savepoint_rollback",
    HandlerUpdate "Handler_update",
    HandlerWrite "Handler_write",
    MaxExecutionTimeExceeded "Max_execution_time_exceeded",
    MaxExecutionTimeSet "Max_execution_time_set",
    MaxExecutionTimeSetFailed "Max_execution_time_set_failed",
    OpenedTables "Opened_tables",
    Queries "Queries",
    Questions "Questions",
    SelectScan "Select_scan",
    SelectRange "Select_range",
    SlowQueries "Slow_queries",
    SortRows "Sort_rows",
    SortScan "Sort_scan",
}

#[repr(align(64))]
#[derive(Debug)]
struct PerThread([AtomicU64; NAMES.len()]);

#[derive(Debug)]
pub struct Counters {
    copies: Box<[PerThread]>,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            copies: (0..=OWNED)
                .map(|_| PerThread([const { AtomicU64::new(0) }; NAMES.len()]))
                .collect(),
        }
    }
}

/// The number of the next new copy, and the copies that were given back.
static FREE: Mutex<(usize, Vec<usize>)> = Mutex::new((0, Vec::new()));
/// A thread's copy. The thread gives the copy back when it ends, because threads for long
/// statements beside the workers come and go.
struct Copy(usize);
impl Copy {
    fn take() -> Copy {
        let (next, given_back) = &mut *FREE.lock();
        Copy(given_back.pop().unwrap_or_else(|| {
            *next = (*next + 1).min(OWNED + 1);
            *next - 1
        }))
    }
}
impl Drop for Copy {
    fn drop(&mut self) {
        if self.0 < OWNED {
            FREE.lock().1.push(self.0);
        }
    }
}
thread_local!(static MY_COPY: Copy = Copy::take());

impl Counter {
    /// The name in SHOW STATUS.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

impl Counters {
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        // A thread that is ending has given its copy back and uses the shared copy.
        let copy = MY_COPY.try_with(|copy| copy.0).unwrap_or(OWNED);
        let sum = &self.copies[copy].0[counter as usize];
        if copy < OWNED {
            sum.store(sum.load(Relaxed) + n, Relaxed);
        } else {
            sum.fetch_add(n, Relaxed);
        }
    }
    pub fn get(&self, counter: Counter) -> u64 {
        self.copies.iter().map(|c| c.0[counter as usize].load(Relaxed)).sum()
    }
    pub fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES
            .iter()
            .enumerate()
            .map(|(i, name)| (*name, self.copies.iter().map(|c| c.0[i].load(Relaxed)).sum()))
    }
    pub(super) fn reset(&self) {
        self.copies.iter().flat_map(|c| &c.0).for_each(|n| n.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests STAT-1.
    #[test]
    fn counts_of_many_threads_add_up() {
        let c = Counters::default();
        std::thread::scope(|s| {
            for _ in 0..100 {
                s.spawn(|| (0..1000).for_each(|_| c.add(Counter::Questions, 1)));
            }
        });
        assert_eq!(c.get(Counter::Questions), 100_000);
        assert!(c.list().any(|x| x == ("Questions", 100_000)));
    }
}
