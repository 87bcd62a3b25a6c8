//! For tests: an engine in a folder of its own, and what a session has.
use super::catalog::EngineCatalog;
use super::ddl::{self, DdlContext};
use super::locks::SessionLocks;
use crate::bind::{BindContext, Params, bind};
use crate::error::Result;
use crate::plan::{Plan, Statement};
use crate::processes::Processes;
use crate::session::state::{Done, SessionState, Warnings};
use crate::sql_mode::SqlMode;
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::table::Table;
use redolith_engine::host::{Threads, block_on};
use redolith_engine::lock::KillFlag;
use redolith_engine::{Config, Engine};
use redolith_types::{Collation, Value};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub struct Dir(PathBuf);
impl Dir {
    fn new() -> Dir {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("redolith-sql-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Dir(std::env::temp_dir().join(name))
    }
}
impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub struct Server {
    pub engine: Arc<Engine>,
    pub catalog: EngineCatalog,
    pub processes: Arc<Processes>,
    _dir: Dir,
}
impl Server {
    /// With the database `test`.
    pub fn new() -> Server {
        let dir = Dir::new();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let mut config = Config::new(&dir.0);
        (config.pool_bytes, config.log_segment_bytes, config.log_capacity_bytes) = (8 << 20, 1 << 20, 16 << 20);
        let (engine, _) = block_on(Engine::open(config, disk.clone(), Threads::new(disk))).unwrap();
        block_on(engine.create_schema("test", Collation::Utf8mb4GeneralCi)).unwrap();
        Server { catalog: EngineCatalog::new(engine.clone()), engine, processes: Processes::new(), _dir: dir }
    }
    pub fn session(&self) -> Session<'_> {
        let process = self.processes.add("localhost", 0);
        let state = SessionState {
            id: process.id,
            user: "root".into(),
            host: "localhost".into(),
            schema: Some("test".into()),
            found_rows_flag: false,
            user_variables: HashMap::new(),
            warnings: Warnings::default(),
            last_insert_id: 0,
            row_count: 0,
            found_rows: 0,
            process,
        };
        Session { server: self, state, locks: SessionLocks::default(), kill: KillFlag::new(), lock_wait_timeout: Duration::from_secs(5) }
    }
}
impl Drop for Server {
    fn drop(&mut self) {
        block_on(self.engine.close()).unwrap();
    }
}

pub struct Session<'s> {
    pub server: &'s Server,
    pub state: SessionState,
    pub locks: SessionLocks,
    pub kill: Arc<KillFlag>,
    pub lock_wait_timeout: Duration,
}
impl Session<'_> {
    pub fn plan(&self, text: &str) -> Result<Plan> {
        let mode = SqlMode::default();
        let parsed = crate::parse::parse(text.as_bytes(), 0..text.len(), None, mode)?;
        let cx = BindContext {
            catalog: &self.server.catalog,
            schema: self.state.schema.as_deref(),
            mode,
            collation: Collation::Utf8mb4GeneralCi,
            variable_type: &|_| None,
        };
        Ok(bind(&parsed, &cx, Params::Marks)?.plan)
    }
    pub fn ddl(&mut self, text: &str) -> Result<Done> {
        loop {
            let bound_at = self.server.engine.dict.version();
            let plan = self.plan(text)?;
            let Statement::Ddl(stmt) = &plan.body else { panic!("not a definition: {text}") };
            self.state.warnings.clear();
            let mut cx = DdlContext {
                engine: &self.server.engine,
                session: &mut self.state,
                locks: &mut self.locks,
                lock_wait_timeout: self.lock_wait_timeout,
                server_collation: Collation::Utf8mb4GeneralCi,
            };
            if let Some(done) = block_on(ddl::run(&mut cx, stmt, bound_at))? {
                return Ok(done);
            }
        }
    }
    pub fn ddl_after(&mut self, timeout_ms: u64, text: &str) -> Result<Done> {
        self.lock_wait_timeout = Duration::from_millis(timeout_ms);
        self.ddl(text)
    }
    /// Error number and message of a statement that must fail.
    pub fn ddl_error(&mut self, text: &str) -> (u16, String) {
        let e = self.ddl(text).expect_err(text);
        (e.code, e.message.into())
    }
    pub fn warnings(&self) -> Vec<(u16, &str)> {
        self.state.warnings.list().iter().map(|w| (w.code, &*w.message)).collect()
    }
    pub fn table(&self, name: &str) -> Arc<Table> {
        block_on(self.server.engine.table("test", name)).unwrap().unwrap()
    }
    /// Puts rows into a table and commits.
    pub fn insert(&self, table: &str, rows: &[&[Value<'_>]]) {
        let (table, mut bytes) = (self.table(table), Vec::new());
        let mut trx = self.server.engine.begin(self.kill.clone());
        for row in rows {
            bytes.clear();
            table.layout.encode(row, &mut bytes);
            block_on(trx.insert(&table, &bytes)).unwrap();
        }
        block_on(async { trx.commit().await.unwrap().durable().await });
    }
}
