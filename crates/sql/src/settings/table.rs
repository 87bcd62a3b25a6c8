//! The table of all system variables, sorted by name. A test checks the order.
use super::variable::{Access::*, Kind, Kind::*, Scope::*, Variable};
use crate::LEAST_STACK_BYTES;
use crate::explain::Format;
use std::sync::LazyLock;

macro_rules! variables {
    ($($var:ident $name:literal $kind:expr, $scope:ident $access:ident $default:expr
        $(, only $only:literal)? $(, inert $inert:literal)?;)*) => {
        /// A variable, by its place in the table.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum Var { $($var),* }

        const TABLE: &[Variable] = &[$(Variable {
            name: $name,
            kind: $kind,
            scope: $scope,
            access: $access,
            default: $default,
            only: first(&[$($only)?]),
            inert: first(&[$($inert)?]),
        }),*];
        const ALL: &[Var] = &[$(Var::$var),*];
    };
}
const fn first(list: &[&'static str]) -> Option<&'static str> {
    if let [text] = list { Some(text) } else { None }
}

pub const COUNT: usize = TABLE.len();

const fn int(min: u64, max: u64) -> Kind {
    Int { min, max, step: 1 }
}
const fn steps(min: u64, max: u64, step: u64) -> Kind {
    Int { min, max, step }
}
const fn exact(min: i64, max: i64) -> Kind {
    Exact { min, max }
}
const fn percent(min: f64, max: f64) -> Kind {
    Real { min, max }
}
const TEXT: Kind = Text { nullable: false };
const NULLABLE: Kind = Text { nullable: true };
const ON: Option<&str> = Some("ON");
const OFF: Option<&str> = Some("OFF");
const YEAR_S: u64 = 31_536_000;
const MAX: u64 = u64::MAX;
/// The greatest multiple of 4,096.
const MAX_CACHE: u64 = u64::MAX - 4095;
const fn is(text: &'static str) -> Option<&'static str> {
    Some(text)
}

const ISOLATION: Kind =
    Enum(&["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"]);
const WAIT_POINT: Kind = Enum(&["AFTER_SYNC", "AFTER_COMMIT"]);
const SQL_MODE: &str = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,\
    NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";

variables! {
    AutoIncrementIncrement "auto_increment_increment" int(1, 65535), Both Dynamic is("1");
    AutoIncrementOffset "auto_increment_offset" int(1, 65535), Both Dynamic is("1");
    Autocommit "autocommit" Bool, Both Dynamic ON;
    BackLog "back_log" int(1, 65535), Global AtStart is("1024");
    BindAddress "bind_address" TEXT, Global AtStart is("127.0.0.1");
    BinlogChecksum "binlog_checksum" Enum(&["NONE", "CRC32"]), Global Dynamic is("CRC32");
    BinlogDoDb "binlog_do_db" TEXT, Global AtStart is("");
    BinlogErrorAction "binlog_error_action" Enum(&["IGNORE_ERROR", "ABORT_SERVER"]),
        Global Dynamic is("ABORT_SERVER"), only "no commit goes without its events: while the \
        disk is full, commits wait and can be killed, and a failed sync ends the server";
    BinlogExpireLogsAutoPurge "binlog_expire_logs_auto_purge" Bool, Global Dynamic ON;
    BinlogExpireLogsSeconds "binlog_expire_logs_seconds" int(0, u32::MAX as u64),
        Global Dynamic is("2592000");
    BinlogFormat "binlog_format" Enum(&["MIXED", "STATEMENT", "ROW"]), Both Dynamic is("ROW"),
        only "the binary log has rows";
    BinlogGroupCommitSyncDelay "binlog_group_commit_sync_delay" int(0, 1_000_000),
        Global Dynamic is("0");
    BinlogGroupCommitSyncNoDelayCount "binlog_group_commit_sync_no_delay_count" int(0, 1_000_000),
        Global Dynamic is("0");
    BinlogIgnoreDb "binlog_ignore_db" TEXT, Global AtStart is("");
    BinlogMaxFlushQueueTime "binlog_max_flush_queue_time" int(0, 100_000),
        Global Dynamic is("0");
    BinlogOrderCommits "binlog_order_commits" Bool, Global Dynamic ON;
    BinlogRowEventMaxSize "binlog_row_event_max_size" steps(256, u32::MAX as u64, 256),
        Global AtStart is("8192");
    BinlogRowImage "binlog_row_image" Enum(&["MINIMAL", "NOBLOB", "FULL"]), Both Dynamic is("FULL");
    BinlogRowMetadata "binlog_row_metadata" Enum(&["MINIMAL", "FULL"]),
        Global Dynamic is("MINIMAL");
    BinlogRowsQueryLogEvents "binlog_rows_query_log_events" Bool, Both Dynamic OFF;
    BlockEncryptionMode "block_encryption_mode"
        Enum(&["aes-128-ecb", "aes-192-ecb", "aes-256-ecb", "aes-128-cbc", "aes-192-cbc",
            "aes-256-cbc", "aes-128-cfb1", "aes-192-cfb1", "aes-256-cfb1", "aes-128-cfb8",
            "aes-192-cfb8", "aes-256-cfb8", "aes-128-cfb128", "aes-192-cfb128",
            "aes-256-cfb128", "aes-128-ofb", "aes-192-ofb", "aes-256-ofb"]),
        Both Dynamic is("aes-128-ecb");
    CharacterSetClient "character_set_client" Charset { nullable: false },
        Both Dynamic is("utf8mb4");
    CharacterSetConnection "character_set_connection" Charset { nullable: false },
        Both Dynamic is("utf8mb4");
    CharacterSetDatabase "character_set_database" Charset { nullable: false },
        Both Dynamic is("utf8mb4");
    CharacterSetFilesystem "character_set_filesystem" Charset { nullable: false },
        Both Dynamic is("binary"), only "file names are bytes";
    CharacterSetResults "character_set_results" Charset { nullable: true },
        Both Dynamic is("utf8mb4");
    CharacterSetServer "character_set_server" Charset { nullable: false },
        Both Dynamic is("utf8mb4");
    CharacterSetSystem "character_set_system" Charset { nullable: false },
        Global ReadOnly is("utf8mb3");
    CollationConnection "collation_connection" Collation, Both Dynamic is("utf8mb4_general_ci");
    CollationDatabase "collation_database" Collation, Both Dynamic is("utf8mb4_general_ci");
    CollationServer "collation_server" Collation, Both Dynamic is("utf8mb4_general_ci");
    CompletionType "completion_type" Enum(&["NO_CHAIN", "CHAIN", "RELEASE"]),
        Both Dynamic is("NO_CHAIN"),
        only "chaining is written in the statement: COMMIT AND CHAIN, COMMIT RELEASE";
    ConnectTimeout "connect_timeout" int(2, YEAR_S), Global Dynamic is("10");
    CteMaxRecursionDepth "cte_max_recursion_depth" int(0, u32::MAX as u64), Both Dynamic is("1000");
    Datadir "datadir" TEXT, Global AtStart is("./redolith-data");
    DefaultAuthenticationPlugin "default_authentication_plugin"
        Enum(&["mysql_native_password", "caching_sha2_password", "sha256_password"]),
        Global AtStart is("mysql_native_password"),
        only "the server has no other authentication method yet";
    DefaultCollationForUtf8mb4 "default_collation_for_utf8mb4" Collation,
        Both Dynamic is("utf8mb4_general_ci");
    DefaultStorageEngine "default_storage_engine" Engine, Both Dynamic is("InnoDB");
    DefaultTmpStorageEngine "default_tmp_storage_engine" Engine, Both Dynamic is("InnoDB");
    DefaultWeekFormat "default_week_format" int(0, 7), Both Dynamic is("0");
    DivPrecisionIncrement "div_precision_increment" int(0, 30), Both Dynamic is("4");
    EnforceGtidConsistency "enforce_gtid_consistency" Enum(&["OFF", "ON", "WARN"]),
        Global AtStart OFF, inert "every statement can have a GTID";
    ErrorCount "error_count" OfSession, Session ReadOnly None;
    EventScheduler "event_scheduler" Enum(&["OFF", "ON", "DISABLED"]), Global Dynamic OFF,
        only "the server has no events";
    ExpireLogsDays "expire_logs_days" int(0, 99), Global Dynamic is("0"),
        only "binlog_expire_logs_seconds says when files of the binary log go";
    ExplainFormat "explain_format" Enum(Format::NAMES), Both Dynamic is("TRADITIONAL");
    ExplicitDefaultsForTimestamp "explicit_defaults_for_timestamp" Bool, Both Dynamic ON,
        only "a TIMESTAMP column has only the defaults that CREATE TABLE gives it";
    ForeignKeyChecks "foreign_key_checks" Bool, Both Dynamic ON,
        inert "the server has no foreign keys yet";
    GeneralLog "general_log" Bool, Global Dynamic OFF, only "the server has no general log";
    GroupConcatMaxLen "group_concat_max_len" int(4, MAX), Both Dynamic is("1024");
    GtidBinlogPos "gtid_binlog_pos" TEXT, Global ReadOnly is("");
    GtidDomainId "gtid_domain_id" int(0, 0xffff_ffff), Global AtStart is("0");
    GtidExecuted "gtid_executed" TEXT, Global ReadOnly is("");
    GtidMode "gtid_mode" Enum(&["OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"]),
        Global AtStart OFF;
    GtidNext "gtid_next" Enum(&["AUTOMATIC", "ANONYMOUS"]), Session Dynamic is("AUTOMATIC");
    GtidPurged "gtid_purged" TEXT, Global ReadOnly is("");
    HaveOpenssl "have_openssl" TEXT, Global ReadOnly is("DISABLED");
    HaveSsl "have_ssl" TEXT, Global ReadOnly is("DISABLED");
    HaveStatementTimeout "have_statement_timeout" TEXT, Global ReadOnly is("YES");
    HistogramGenerationMaxMemSize "histogram_generation_max_mem_size" int(1_000_000, MAX),
        Both Dynamic is("20000000");
    Hostname "hostname" TEXT, Global ReadOnly is("");
    Identity "identity" OfSession, Session Dynamic None;
    InformationSchemaStatsExpiry "information_schema_stats_expiry" int(0, YEAR_S),
        Both Dynamic is("86400"), inert "statistics are never cached";
    InitConnect "init_connect" TEXT, Global Dynamic is(""),
        only "the server runs no statement for a new connection";
    InnodbAdaptiveFlushingLwm "innodb_adaptive_flushing_lwm" percent(0.0, 70.0),
        Global Dynamic is("12.000000");
    InnodbAdaptiveHashIndex "innodb_adaptive_hash_index" Bool, Global Dynamic OFF, only "there is \
        no adaptive hash index";
    InnodbAutoincLockMode "innodb_autoinc_lock_mode" int(0, 2), Global AtStart is("2");
    InnodbBufferPoolDumpAtShutdown "innodb_buffer_pool_dump_at_shutdown" Bool, Global Dynamic ON;
    InnodbBufferPoolDumpNow "innodb_buffer_pool_dump_now" Bool, Global Dynamic OFF;
    InnodbBufferPoolDumpPct "innodb_buffer_pool_dump_pct" int(1, 100), Global Dynamic is("25");
    InnodbBufferPoolFilename "innodb_buffer_pool_filename" TEXT, Global Dynamic
        is("ib_buffer_pool"), only "the list of the pool's pages has this name";
    InnodbBufferPoolInstances "innodb_buffer_pool_instances" int(0, 64), Global AtStart is("0");
    InnodbBufferPoolLoadAbort "innodb_buffer_pool_load_abort" Bool, Global Dynamic OFF;
    InnodbBufferPoolLoadAtStartup "innodb_buffer_pool_load_at_startup" Bool, Global AtStart ON;
    InnodbBufferPoolLoadNow "innodb_buffer_pool_load_now" Bool, Global Dynamic OFF;
    InnodbBufferPoolSize "innodb_buffer_pool_size" steps(5 << 20, 1 << 45, 1 << 20),
        Global Dynamic is("134217728");
    InnodbBufferPoolSizeMax "innodb_buffer_pool_size_max" steps(0, 1 << 45, 1 << 20),
        Global AtStart is("0");
    InnodbChangeBuffering "innodb_change_buffering"
        Enum(&["none", "inserts", "deletes", "changes", "purges", "all"]),
        Global Dynamic is("none"), only "there is no change buffer";
    InnodbChecksumAlgorithm "innodb_checksum_algorithm"
        Enum(&["crc32", "strict_crc32", "innodb", "none"]),
        Global Dynamic is("crc32"), only "the checksum of pages is CRC-32C";
    InnodbDeadlockDetect "innodb_deadlock_detect" Bool, Global Dynamic ON;
    InnodbDefaultRowFormat "innodb_default_row_format" Enum(&["redundant", "compact", "dynamic"]),
        Global Dynamic is("dynamic"), only "there is one row format";
    InnodbDoublewrite "innodb_doublewrite"
        Enum(&["OFF", "ON", "DETECT_ONLY", "DETECT_AND_RECOVER", "ATOMIC", "LEGACY", "REDO"]),
        Global Dynamic ON;
    InnodbDoublewriteBatchSize "innodb_doublewrite_batch_size" int(0, 128),
        Global AtStart is("0");
    InnodbDoublewriteDir "innodb_doublewrite_dir" NULLABLE, Global AtStart None;
    InnodbDoublewriteFiles "innodb_doublewrite_files" int(1, 8), Global AtStart is("1");
    InnodbDoublewritePages "innodb_doublewrite_pages" int(1, 128), Global AtStart is("128");
    InnodbFastShutdown "innodb_fast_shutdown" int(0, 2), Global Dynamic is("1"),
        only "a shutdown writes the dirty pages and does not wait for purge";
    InnodbFilePerTable "innodb_file_per_table" Bool, Global Dynamic ON,
        only "each table has a file of its own";
    InnodbFlushLogAtTimeout "innodb_flush_log_at_timeout" int(1, 2700), Global Dynamic is("1");
    InnodbFlushLogAtTrxCommit "innodb_flush_log_at_trx_commit" exact(0, 2),
        Followed Dynamic is("1");
    InnodbFlushMethod "innodb_flush_method"
        Enum(&["fsync", "O_DSYNC", "littlesync", "nosync", "O_DIRECT", "O_DIRECT_NO_FSYNC"]),
        Global AtStart is("O_DIRECT"), only "data files and log are written past the page cache";
    InnodbFlushNeighbors "innodb_flush_neighbors" int(0, 2), Global Dynamic is("0"),
        only "a page is written for its own age, not for its neighbours'";
    InnodbForceRecovery "innodb_force_recovery" int(0, 6), Global AtStart is("0");
    InnodbIdleFlushPct "innodb_idle_flush_pct" int(0, 100), Global Dynamic is("100");
    InnodbIoCapacity "innodb_io_capacity" int(100, 1 << 31), Global Dynamic is("10000");
    InnodbIoCapacityMax "innodb_io_capacity_max" int(100, 1 << 31), Global Dynamic is("20000");
    InnodbLockWaitTimeout "innodb_lock_wait_timeout" int(1, 1 << 30), Both Dynamic is("50");
    InnodbLogBufferSize "innodb_log_buffer_size" steps(256 << 10, u32::MAX as u64, 1024),
        Global Dynamic is("67108864");
    InnodbLogWriterThreads "innodb_log_writer_threads" Bool, Global Dynamic OFF;
    InnodbLruScanDepth "innodb_lru_scan_depth" int(100, 1 << 31), Global Dynamic is("1024");
    InnodbMaxDirtyPagesPct "innodb_max_dirty_pages_pct" percent(0.0, 99.99),
        Global Dynamic is("90.000000");
    InnodbMaxDirtyPagesPctLwm "innodb_max_dirty_pages_pct_lwm" percent(0.0, 99.99),
        Global Dynamic is("10.000000");
    InnodbMaxPurgeLag "innodb_max_purge_lag" int(0, u32::MAX as u64), Global Dynamic is("0");
    InnodbMaxPurgeLagDelay "innodb_max_purge_lag_delay" int(0, 10_000_000), Global Dynamic is("0");
    InnodbMaxUndoLogSize "innodb_max_undo_log_size" int(10 << 20, MAX),
        Global Dynamic is("1073741824");
    InnodbMonitorDisable "innodb_monitor_disable" TEXT, Global Dynamic is("");
    InnodbMonitorEnable "innodb_monitor_enable" TEXT, Global Dynamic is("");
    InnodbMonitorReset "innodb_monitor_reset" TEXT, Global Dynamic is("");
    InnodbMonitorResetAll "innodb_monitor_reset_all" TEXT, Global Dynamic is("");
    InnodbOldBlocksPct "innodb_old_blocks_pct" int(5, 95), Global Dynamic is("37");
    InnodbOldBlocksTime "innodb_old_blocks_time" int(0, u32::MAX as u64),
        Global Dynamic is("1000");
    InnodbPageCleaners "innodb_page_cleaners" int(1, 64), Global AtStart is("2");
    InnodbPageSize "innodb_page_size" int(4096, 65536), Global AtStart is("16384"),
        only "the page size is 16 KiB";
    InnodbPurgeRunNow "innodb_purge_run_now" Bool, Global Dynamic OFF;
    InnodbPurgeStopNow "innodb_purge_stop_now" Bool, Global Dynamic OFF;
    InnodbPurgeThreads "innodb_purge_threads" int(1, 32), Global AtStart is("4");
    InnodbReadOnly "innodb_read_only" Bool, Global AtStart OFF, only "not built yet";
    InnodbRedoLogCapacity "innodb_redo_log_capacity" steps(8 << 20, 1 << 39, 1 << 20),
        Global Dynamic is("1073741824");
    InnodbRollbackOnTimeout "innodb_rollback_on_timeout" Bool, Global AtStart OFF,
        only "a lock wait time-out rolls back the statement, not the transaction";
    InnodbSortBufferSize "innodb_sort_buffer_size" int(64 << 10, 64 << 20),
        Global AtStart is("1048576");
    InnodbStatsAutoRecalc "innodb_stats_auto_recalc" Bool, Global Dynamic ON;
    InnodbStatsPersistent "innodb_stats_persistent" Bool, Global Dynamic ON;
    InnodbStatsPersistentSamplePages "innodb_stats_persistent_sample_pages" int(1, MAX),
        Global Dynamic is("20");
    InnodbStatsTransientSamplePages "innodb_stats_transient_sample_pages" int(1, MAX),
        Global Dynamic is("8");
    InnodbStrictMode "innodb_strict_mode" Bool, Both Dynamic ON,
        inert "the errors that strict mode asks for are always errors";
    InnodbTableLocks "innodb_table_locks" Bool, Both Dynamic ON,
        inert "LOCK TABLES waits for every transaction that has written to the table, whatever \
            autocommit is";
    InnodbThreadConcurrency "innodb_thread_concurrency" int(0, 1000), Global Dynamic is("0"),
        only "sessions are tasks on one thread per core";
    InnodbUndoLogTruncate "innodb_undo_log_truncate" Bool, Global Dynamic ON;
    InnodbVersion "innodb_version" TEXT, Global ReadOnly is("8.0.36");
    InsertId "insert_id" OfSession, Session Dynamic None;
    InteractiveTimeout "interactive_timeout" int(1, YEAR_S), Both Dynamic is("28800");
    JoinBufferSize "join_buffer_size" int(128, MAX), Both Dynamic is("262144"),
        inert "joins use no buffer";
    KeyBufferSize "key_buffer_size" int(0, MAX), Global Dynamic is("8388608"),
        inert "only MyISAM uses it";
    LastInsertId "last_insert_id" OfSession, Session Dynamic None;
    LcMessages "lc_messages" Enum(&["en_US"]), Both Dynamic is("en_US");
    LcTimeNames "lc_time_names" Enum(&["en_US"]), Both Dynamic is("en_US");
    License "license" TEXT, Global ReadOnly is("Apache-2.0");
    LocalInfile "local_infile" Bool, Global Dynamic OFF;
    LockWaitTimeout "lock_wait_timeout" int(1, YEAR_S), Both Dynamic is("31536000");
    LogBin "log_bin" Bool, Global AtStart OFF;
    LogBinBasename "log_bin_basename" TEXT, Global ReadOnly is("");
    LogBinIndex "log_bin_index" TEXT, Global ReadOnly is("");
    LogError "log_error" TEXT, Global AtStart is("stderr");
    LogErrorVerbosity "log_error_verbosity" int(1, 3), Global Dynamic is("2");
    LogTimestamps "log_timestamps" Enum(&["UTC", "SYSTEM"]), Global Dynamic is("UTC"),
        only "the error log's times are in UTC";
    LowerCaseFileSystem "lower_case_file_system" Bool, Global ReadOnly OFF;
    LowerCaseTableNames "lower_case_table_names" int(0, 2), Global AtStart is("0"),
        only "table names are case-sensitive";
    MaxAllowedPacket "max_allowed_packet" steps(1024, 1 << 30, 1024), Both Dynamic is("67108864");
    MaxBinlogCacheSize "max_binlog_cache_size" steps(4096, MAX_CACHE, 4096),
        Global Dynamic is("18446744073709547520");
    MaxBinlogSize "max_binlog_size" steps(4096, 1 << 30, 4096), Global Dynamic is("1073741824");
    MaxConnections "max_connections" int(1, 100_000), Global Dynamic is("151");
    MaxErrorCount "max_error_count" int(0, 65535), Both Dynamic is("1024");
    MaxExecutionTime "max_execution_time" int(0, u32::MAX as u64), Both Dynamic is("0");
    MaxHeapTableSize "max_heap_table_size" steps(16384, MAX, 1024), Both Dynamic is("16777216"),
        inert "only MEMORY uses it";
    MaxJoinSize "max_join_size" int(1, MAX), Both Dynamic is("18446744073709551615"),
        only "not built yet";
    MaxPreparedStmtCount "max_prepared_stmt_count" int(0, 4_194_304), Global Dynamic is("16382");
    MaxSortLength "max_sort_length" int(4, 8_388_608), Both Dynamic is("1024"), inert "rows are \
        sorted by their whole values";
    MaxUserConnections "max_user_connections" int(0, u32::MAX as u64), Global Dynamic is("0"),
        only "not built yet";
    MetricsAddress "metrics_address" TEXT, Global AtStart is("");
    NetBufferLength "net_buffer_length" steps(1024, 1 << 20, 1024), Both Dynamic is("16384"),
        inert "network buffers begin small and grow with their content";
    NetReadTimeout "net_read_timeout" int(1, YEAR_S), Both Dynamic is("30");
    NetRetryCount "net_retry_count" int(1, MAX), Both Dynamic is("10"),
        inert "an interrupted system call is always repeated";
    NetWriteTimeout "net_write_timeout" int(1, YEAR_S), Both Dynamic is("60");
    OpenFilesLimit "open_files_limit" int(0, 1 << 20), Global AtStart is("0");
    OptimizerSwitch "optimizer_switch" OptimizerSwitch, Both Dynamic is("");
    ParserMaxMemSize "parser_max_mem_size" int(10_000_000, MAX), Both Dynamic is("536870912");
    PerformanceSchema "performance_schema" Bool, Global AtStart OFF, only "there is no performance \
        schema";
    PidFile "pid_file" TEXT, Global AtStart is("");
    Port "port" int(0, 65535), Global AtStart is("3306");
    Profiling "profiling" Bool, Both Dynamic OFF, only "not built yet";
    ProtocolVersion "protocol_version" int(10, 10), Global ReadOnly is("10");
    PseudoThreadId "pseudo_thread_id" OfSession, Session Dynamic None;
    RandSeed1 "rand_seed1" OfSession, Session Dynamic None;
    RandSeed2 "rand_seed2" OfSession, Session Dynamic None;
    ReadBufferSize "read_buffer_size" steps(8192, 1 << 31, 4096), Both Dynamic is("131072"),
        inert "only MyISAM uses it";
    ReadOnly "read_only" Bool, Global Dynamic OFF, only "not built yet";
    ReadRndBufferSize "read_rnd_buffer_size" int(1, 1 << 31), Both Dynamic is("262144"),
        inert "only MyISAM uses it";
    RedolithBinlogCommit "redolith_binlog_commit" Enum(&["unified", "classic"]),
        Global Dynamic is("unified");
    RedolithLogFlushDepth "redolith_log_flush_depth" exact(0, 16), Global Dynamic is("0");
    RedolithLogFlushPaceUs "redolith_log_flush_pace_us" exact(-1, 1_000_000),
        Global Dynamic is("-1");
    RedolithLogFlusherCpus "redolith_log_flusher_cpus" CpuList, Global Dynamic is("");
    RedolithLogThreadsNice "redolith_log_threads_nice" exact(-20, 19), Global Dynamic is("0");
    RedolithLogThreadsRealtime "redolith_log_threads_realtime" exact(0, 99), Global Dynamic is("0");
    RedolithLogWriter "redolith_log_writer" Enum(&["auto", "session", "leader", "dedicated"]),
        Global Dynamic is("auto");
    RedolithLogWriterCpus "redolith_log_writer_cpus" CpuList, Global Dynamic is("");
    RedolithLoginSeats "redolith_login_seats" int(16, 65535), Global Dynamic is("1024");
    RedolithServerMemory "redolith_server_memory" int(0, MAX), Global Dynamic is("0");
    RedolithStatementMemory "redolith_statement_memory" int(1 << 20, MAX),
        Both Dynamic is("268435456");
    RedolithTemporarySpace "redolith_temporary_space" int(0, MAX), Global Dynamic is("17179869184");
    RedolithWorkerAffinity "redolith_worker_affinity" Enum(&["auto", "off", "on"]),
        Global Dynamic is("auto");
    RequireSecureTransport "require_secure_transport" Bool, Global Dynamic OFF, only "TLS is not \
        built yet";
    RplSemiSyncMasterEnabled "rpl_semi_sync_master_enabled" Bool, Global Dynamic OFF;
    RplSemiSyncMasterTimeout "rpl_semi_sync_master_timeout" int(0, u32::MAX as u64),
        Global Dynamic is("10000");
    RplSemiSyncMasterTraceLevel "rpl_semi_sync_master_trace_level" int(0, u32::MAX as u64),
        Global Dynamic is("32"), inert "the error log tells when commits begin and cease to wait";
    RplSemiSyncMasterWaitForSlaveCount "rpl_semi_sync_master_wait_for_slave_count" int(1, 65535),
        Global Dynamic is("1");
    RplSemiSyncMasterWaitNoSlave "rpl_semi_sync_master_wait_no_slave" Bool, Global Dynamic ON;
    RplSemiSyncMasterWaitPoint "rpl_semi_sync_master_wait_point" WAIT_POINT,
        Global Dynamic is("AFTER_SYNC");
    RplSemiSyncSourceEnabled "rpl_semi_sync_source_enabled" Bool, Global Dynamic OFF;
    RplSemiSyncSourceTimeout "rpl_semi_sync_source_timeout" int(0, u32::MAX as u64),
        Global Dynamic is("10000");
    RplSemiSyncSourceTraceLevel "rpl_semi_sync_source_trace_level" int(0, u32::MAX as u64),
        Global Dynamic is("32"), inert "the error log tells when commits begin and cease to wait";
    RplSemiSyncSourceWaitForReplicaCount "rpl_semi_sync_source_wait_for_replica_count"
        int(1, 65535), Global Dynamic is("1");
    RplSemiSyncSourceWaitNoReplica "rpl_semi_sync_source_wait_no_replica" Bool, Global Dynamic ON;
    RplSemiSyncSourceWaitPoint "rpl_semi_sync_source_wait_point" WAIT_POINT,
        Global Dynamic is("AFTER_SYNC");
    SecureFilePriv "secure_file_priv" NULLABLE, Global AtStart None;
    ServerId "server_id" int(0, u32::MAX as u64), Global AtStart is("1");
    ServerUuid "server_uuid" TEXT, Global ReadOnly is("");
    ShowGipk "show_gipk_in_create_table_and_information_schema" Bool, Both Dynamic ON;
    SkipExternalLocking "skip_external_locking" Bool, Global AtStart ON,
        only "the server locks the data directory";
    SkipNameResolve "skip_name_resolve" Bool, Global AtStart ON,
        only "the server never looks up host names";
    SkipNetworking "skip_networking" Bool, Global AtStart OFF;
    SkipShowDatabase "skip_show_database" Bool, Global AtStart OFF, only "not built yet";
    SlowQueryLog "slow_query_log" Bool, Global Dynamic OFF, only "the server has no slow query log";
    Socket "socket" TEXT, Global AtStart is("/tmp/redolith.sock");
    SortBufferSize "sort_buffer_size" int(32768, MAX), Both Dynamic is("262144"),
        inert "a sort takes as much memory as its rows, up to an eighth of \
            `redolith_statement_memory`; then it goes on in a temporary file";
    SqlAutoIsNull "sql_auto_is_null" Bool, Both Dynamic OFF,
        only "IS NULL never finds the last inserted row";
    SqlBigSelects "sql_big_selects" Bool, Both Dynamic ON, only "no statement is refused for its \
        size";
    SqlBufferResult "sql_buffer_result" Bool, Both Dynamic OFF,
        inert "a slow client does not hold locks longer";
    SqlGenerateInvisiblePrimaryKey "sql_generate_invisible_primary_key" Bool, Both Dynamic OFF;
    SqlLogBin "sql_log_bin" Bool, Session Dynamic ON;
    SqlLogOff "sql_log_off" Bool, Both Dynamic OFF, inert "the server has no general log";
    SqlMode "sql_mode" SqlMode, Both Dynamic is(SQL_MODE);
    SqlNotes "sql_notes" Bool, Both Dynamic ON;
    SqlQuoteShowCreate "sql_quote_show_create" Bool, Both Dynamic ON,
        only "SHOW CREATE always quotes names";
    SqlRequirePrimaryKey "sql_require_primary_key" Bool, Both Dynamic OFF, only "not built yet";
    SqlSafeUpdates "sql_safe_updates" Bool, Both Dynamic OFF, only "not built yet";
    SqlSelectLimit "sql_select_limit" int(0, MAX), Both Dynamic is("18446744073709551615"),
        only "not built yet";
    SqlWarnings "sql_warnings" Bool, Both Dynamic OFF, inert "the warning count is always reported";
    SuperReadOnly "super_read_only" Bool, Global Dynamic OFF, only "not built yet";
    SyncBinlog "sync_binlog" int(0, u32::MAX as u64), Global Dynamic is("1");
    SystemTimeZone "system_time_zone" TEXT, Global ReadOnly is("UTC");
    TableDefinitionCache "table_definition_cache" int(400, 524_288), Global Dynamic is("4000"),
        inert "a table is opened once for all connections";
    TableOpenCache "table_open_cache" int(1, 524_288), Global Dynamic is("4000"), inert "a table \
        is opened once for all connections";
    TableOpenCacheInstances "table_open_cache_instances" int(1, 64), Global AtStart is("16"),
        inert "a table is opened once for all connections";
    ThreadCacheSize "thread_cache_size" int(0, 16384), Global Dynamic is("0"), inert "sessions are \
        tasks on one thread per core";
    // Twice the least; pages of a stack that no statement reaches cost nothing.
    ThreadStack "thread_stack" steps(LEAST_STACK_BYTES as u64, 1 << 30, 1024), Global AtStart
        is("33554432");
    TimeZone "time_zone" TimeZone, Both Dynamic is("SYSTEM");
    Timestamp "timestamp" OfSession, Session Dynamic None;
    TlsVersion "tls_version" TEXT, Global AtStart is(""), only "TLS is not built yet";
    TmpTableSize "tmp_table_size" int(1024, MAX), Both Dynamic is("16777216"),
        inert "a temporary result takes as much memory as its rows, up to \
            `redolith_statement_memory`; a derived table of more than an eighth of that goes to a \
            temporary file";
    Tmpdir "tmpdir" TEXT, Global AtStart is("/tmp");
    TransactionIsolation "transaction_isolation" ISOLATION, Both Dynamic is("REPEATABLE-READ");
    TransactionReadOnly "transaction_read_only" Bool, Both Dynamic OFF;
    UniqueChecks "unique_checks" Bool, Both Dynamic ON, inert "unique keys are always checked";
    Version "version" TEXT, Global AtStart is(super::SERVER_VERSION);
    VersionComment "version_comment" TEXT, Global ReadOnly is(super::VERSION_COMMENT);
    VersionCompileMachine "version_compile_machine" TEXT,
        Global ReadOnly is(std::env::consts::ARCH);
    VersionCompileOs "version_compile_os" TEXT, Global ReadOnly is(std::env::consts::OS);
    WaitTimeout "wait_timeout" int(1, YEAR_S), Both Dynamic is("28800");
    WarningCount "warning_count" OfSession, Session ReadOnly None;
}

/// Old names, which clients still use.
const ALIASES: &[(&str, Var)] = &[
    ("storage_engine", Var::DefaultStorageEngine),
    ("tx_isolation", Var::TransactionIsolation),
    ("tx_read_only", Var::TransactionReadOnly),
];

impl Var {
    /// Finds a variable by its name, without regard to case. `-` does not stand for `_`.
    pub fn from_name(name: &str) -> Option<Var> {
        let lower = name.to_ascii_lowercase();
        let found = TABLE.binary_search_by(|v| v.name.cmp(&lower)).ok().map(|i| ALL[i]);
        found.or_else(|| ALIASES.iter().find(|(n, _)| *n == lower).map(|(_, v)| *v))
    }
    pub fn get(self) -> &'static Variable {
        &TABLE[self as usize]
    }
    /// All variables in the order of their names.
    pub fn all() -> &'static [Var] {
        ALL
    }
    /// All variables in the order of their names.
    pub fn by_name() -> &'static [Var] {
        static SORTED: LazyLock<Vec<Var>> = LazyLock::new(|| {
            let mut all = ALL.to_vec();
            all.sort_unstable_by_key(|var| var.get().name);
            all
        });
        &SORTED
    }
    /// True for a command in the form of a variable: `ON` does something at once, and the value
    /// stays `OFF`. Such a variable has no option.
    pub fn is_order(self) -> bool {
        matches!(
            self,
            Var::InnodbPurgeRunNow
                | Var::InnodbPurgeStopNow
                | Var::InnodbBufferPoolDumpNow
                | Var::InnodbBufferPoolLoadAbort
                | Var::InnodbBufferPoolLoadNow
        )
    }
    /// The variable with the same meaning in another form, as in MySQL: for example, a character
    /// set and its collation.
    pub(super) fn twin(self) -> Option<Var> {
        Some(match self {
            Var::CharacterSetConnection => Var::CollationConnection,
            Var::CharacterSetDatabase => Var::CollationDatabase,
            Var::CharacterSetServer => Var::CollationServer,
            Var::CollationConnection => Var::CharacterSetConnection,
            Var::CollationDatabase => Var::CharacterSetDatabase,
            Var::CollationServer => Var::CharacterSetServer,
            Var::RedolithLogWriter => Var::InnodbLogWriterThreads,
            Var::InnodbLogWriterThreads => Var::RedolithLogWriter,
            // MySQL 8.0.26 has renamed them, and replicas ask for the old names.
            Var::RplSemiSyncMasterEnabled => Var::RplSemiSyncSourceEnabled,
            Var::RplSemiSyncMasterTimeout => Var::RplSemiSyncSourceTimeout,
            Var::RplSemiSyncMasterTraceLevel => Var::RplSemiSyncSourceTraceLevel,
            Var::RplSemiSyncMasterWaitForSlaveCount => Var::RplSemiSyncSourceWaitForReplicaCount,
            Var::RplSemiSyncMasterWaitNoSlave => Var::RplSemiSyncSourceWaitNoReplica,
            Var::RplSemiSyncMasterWaitPoint => Var::RplSemiSyncSourceWaitPoint,
            Var::RplSemiSyncSourceEnabled => Var::RplSemiSyncMasterEnabled,
            Var::RplSemiSyncSourceTimeout => Var::RplSemiSyncMasterTimeout,
            Var::RplSemiSyncSourceTraceLevel => Var::RplSemiSyncMasterTraceLevel,
            Var::RplSemiSyncSourceWaitForReplicaCount => Var::RplSemiSyncMasterWaitForSlaveCount,
            Var::RplSemiSyncSourceWaitNoReplica => Var::RplSemiSyncMasterWaitNoSlave,
            Var::RplSemiSyncSourceWaitPoint => Var::RplSemiSyncMasterWaitPoint,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::variable::Access;
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
        for (i, v) in TABLE.iter().enumerate() {
            assert_eq!(Var::from_name(&v.name.to_uppercase()), Some(ALL[i]));
            assert_eq!(ALL[i] as usize, i);
        }
        assert_eq!(Var::from_name("tx_isolation"), Some(Var::TransactionIsolation));
        assert_eq!(Var::from_name("nonsense"), None);
    }

    #[test]
    fn defaults_are_valid_and_shown_as_written() {
        for v in TABLE {
            let Some(text) = v.default else { continue };
            let taken = v.take_text(text).unwrap_or_else(|e| panic!("{}: {e}", v.name));
            assert!(!taken.truncated, "{}", v.name);
            if v.kind != Kind::OptimizerSwitch {
                assert_eq!(v.show(&taken.setting).as_deref(), Some(text), "{}", v.name);
            }
        }
    }

    #[test]
    fn what_is_settable_is_said_once() {
        for v in TABLE {
            assert!(v.only.is_none() || v.inert.is_none(), "{}", v.name);
            assert!(
                v.access != Access::ReadOnly || v.only.is_none() && v.inert.is_none(),
                "{}",
                v.name
            );
            assert_eq!(
                v.kind == Kind::OfSession,
                v.default.is_none() && v.kind != NULLABLE,
                "{}",
                v.name
            );
        }
    }
}
