//! The state that all sessions share.
use crate::binlog::semi_sync;
use crate::exec::UserLocks;
use crate::exec::engine_catalog::EngineCatalog;
use crate::exec::global_read_lock::GlobalReadLock;
use crate::memory::ServerMemory;
use crate::plan_cache::PlanCache;
use crate::processes::Processes;
use crate::settings::{Settings, Var};
use crate::status::{Status, StatusValue};
use redolith_engine::Engine;
use redolith_replication::{Binlog, Replica};
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
    /// The number that the next table to be logged gets in events.
    pub(crate) logged_table_ids: Arc<AtomicU64>,
    pub catalog: EngineCatalog,
    pub plans: PlanCache,
    pub settings: Arc<Settings>,
    pub status: Arc<Status>,
    pub processes: Arc<Processes>,
    pub memory: Arc<ServerMemory>,
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
        if let Some(binlog) = &binlog {
            register_binlog(binlog, &engine, &settings, &status);
        }
        Arc::new(Database {
            engine,
            binlog,
            logged_table_ids: Arc::new(AtomicU64::new(1)),
            catalog,
            plans,
            settings,
            status,
            processes,
            global_read_lock: Arc::default(),
            user_locks: UserLocks::new(&memory),
            prepared_statements,
            memory,
        })
    }
}

/// Lets variables and counters show the binary log.
fn register_binlog(
    binlog: &Arc<Binlog>,
    engine: &Arc<Engine>,
    settings: &Settings,
    status: &Status,
) {
    let (log, to) = (binlog.clone(), engine.clone());
    settings.find_out(Var::GtidExecuted, move || {
        // A session sees its own commits, which the files may not have yet. If the disk refuses
        // them, the value is that of the files.
        to.runtime.work_long(&mut || {
            let _ = log.materialize(to.store.log.durable());
        });
        log.status().executed.to_string()
    });
    let (log, to) = (binlog.clone(), engine.clone());
    settings.find_out(Var::GtidPurged, move || {
        let mut purged = String::new();
        to.runtime.work_long(&mut || {
            purged = log.purged().map(|set| set.to_string()).unwrap_or_default();
        });
        purged
    });
    let (log, to) = (binlog.clone(), engine.clone());
    status.register(Box::new(move |put| {
        let lag = to.store.log.durable().0.saturating_sub(log.lsn().0);
        put("Redolith_binlog_dumps", StatusValue::Int(log.replicas().dumps() as u64));
        put("Redolith_binlog_lag_bytes", StatusValue::Int(lag));
        let behind = |(_, replica): (u32, Replica)| replica.sent.map(|at| log.bytes_behind(at));
        let most = log.replicas().dumping().into_iter().filter_map(behind).max();
        put("Redolith_replica_lag_bytes", StatusValue::Int(most.unwrap_or(0)));
    }));
    semi_sync::apply(settings, binlog);
    semi_sync::register(binlog, status);
}
