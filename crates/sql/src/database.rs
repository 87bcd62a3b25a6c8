//! The state that all sessions share.
use crate::binlog::{self, Filter};
use crate::exec::UserLocks;
use crate::exec::engine_catalog::EngineCatalog;
use crate::exec::global_read_lock::GlobalReadLock;
use crate::memory::ServerMemory;
use crate::plan_cache::PlanCache;
use crate::processes::Processes;
use crate::settings::Settings;
use crate::status::{Status, StatusValue};
use crate::temporary::temporary_space;
use crate::xa::XaTransactions;
use redolith_engine::Engine;
use redolith_engine::temporary::TemporarySpace;
use redolith_replication::Binlog;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The most texts in the plan cache. (sysbench with 250 tables has 2,250 prepared statements; text
/// statements add a few for each table.)
const MAX_PLANS: usize = 32 << 10;
/// The most memory for texts and plans in the plan cache, by the plans' own estimate.
const MAX_PLAN_BYTES: usize = 64 << 20;

pub struct Database {
    pub engine: Arc<Engine>,
    /// The binary log, if it is on.
    pub binlog: Option<Arc<Binlog>>,
    /// The databases that the binary log has.
    pub(crate) log_filter: Arc<Filter>,
    /// The number that the next table to be logged gets in events.
    pub(crate) logged_table_ids: Arc<AtomicU64>,
    /// The XA transactions of all sessions.
    pub(crate) xa: Arc<XaTransactions>,
    pub catalog: EngineCatalog,
    pub plans: PlanCache,
    pub settings: Arc<Settings>,
    pub status: Arc<Status>,
    pub processes: Arc<Processes>,
    pub memory: Arc<ServerMemory>,
    /// The temporary files of all statements.
    pub temporary: Arc<TemporarySpace>,
    pub(crate) global_read_lock: Arc<GlobalReadLock>,
    pub(crate) user_locks: UserLocks,
    /// The number of prepared statements in all sessions, for `max_prepared_stmt_count`.
    pub(crate) prepared_statements: Arc<AtomicU64>,
}

impl Database {
    pub fn new(
        engine: Arc<Engine>,
        binlog: Option<Arc<Binlog>>,
        settings: Arc<Settings>,
        status: Arc<Status>,
        processes: Arc<Processes>,
    ) -> Arc<Database> {
        status.monitors.start(engine.disk.wall_us());
        let catalog = EngineCatalog::new(engine.clone());
        let memory = ServerMemory::new();
        let plans = PlanCache::new(MAX_PLANS, MAX_PLAN_BYTES, memory.clone());
        let prepared_statements = Arc::new(AtomicU64::new(0));
        let count = prepared_statements.clone();
        status.register(Box::new(move |put| {
            put("Prepared_stmt_count", StatusValue::Int(count.load(Relaxed)))
        }));
        memory.register(&status);
        let temporary = temporary_space(&settings, &status);
        if let Some(binlog) = &binlog {
            binlog::register(binlog, &engine, &settings, &status);
        }
        let xa = XaTransactions::found(&engine, &memory);
        let log_filter = Arc::new(Filter::of(&settings));
        Arc::new(Database {
            engine,
            binlog,
            log_filter,
            logged_table_ids: Arc::new(AtomicU64::new(1)),
            xa,
            catalog,
            plans,
            settings,
            status,
            processes,
            global_read_lock: Arc::default(),
            user_locks: UserLocks::new(&memory),
            prepared_statements,
            memory,
            temporary,
        })
    }
}
