//! For tests: an engine in a folder of its own, with sessions.
use super::admin::{self, AdminContext, Ran};
use super::ddl::{self, DdlContext};
use super::engine_catalog::EngineCatalog;
use super::global_read_lock::GlobalReadLock;
use super::locks::SessionLocks;
use super::rows::Collected;
use super::set::{NextTransaction, variable_type};
use crate::bind::type_rules::of_value;
use crate::bind::{BindContext, Params, bind};
use crate::error::Result;
use crate::memory::{ServerMemory, SessionMemory};
use crate::parse::Bounds;
use crate::parse::charsets::TextCharsets;
use crate::plan::{Plan, Statement};
use crate::processes::Processes;
use crate::session_state::{Done, SessionState, Warnings};
use crate::settings::{SessionVars, Settings, Var};
use crate::sql_mode::SqlMode;
use crate::status::Status;
use crate::temporary_tables::TemporaryTables;
use redolith_disk::{Disk, RealDisk};
use redolith_engine::commit_stream::{CommitStream, no_stream};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::{Runtime, Threads, block_on};
use redolith_engine::{Config, Engine};
use redolith_replication::{Binlog, Place};
use redolith_types::{Collation, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub struct Dir(PathBuf);
impl Dir {
    fn new() -> Dir {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("redolith-sql-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = Dir(std::env::temp_dir().join(name));
        // A killed process with the same number may have left the folder.
        let _ = std::fs::remove_dir_all(&dir.0);
        dir
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
    pub settings: Settings,
    pub status: Status,
    pub processes: Arc<Processes>,
    pub memory: Arc<ServerMemory>,
    pub global_read_lock: Arc<GlobalReadLock>,
    pub binlog: Option<Arc<Binlog>>,
    _dir: Dir,
}
impl Server {
    /// A server with the database `test`.
    pub fn new() -> Server {
        Server::on(Arc::new(RealDisk::new()), |_| ())
    }
    /// A server on the caller's disk, with the caller's settings.
    pub fn on(disk: Arc<dyn Disk>, set: impl FnOnce(&mut Config)) -> Server {
        Server::hosted(disk.clone(), Threads::new(disk), set)
    }
    /// A server on the caller's disk and runtime, with the caller's settings.
    pub fn hosted(
        disk: Arc<dyn Disk>,
        runtime: Arc<dyn Runtime>,
        set: impl FnOnce(&mut Config),
    ) -> Server {
        Server::open(Dir::new(), disk, runtime, set, None)
    }
    /// A server whose binary log is on.
    pub fn logging() -> Server {
        Server::logging_on(Arc::new(RealDisk::new()))
    }
    /// The same, on the caller's disk.
    pub fn logging_on(disk: Arc<dyn Disk>) -> Server {
        let dir = Dir::new();
        let place = Place { dir: dir.0.clone(), base: "binlog".into() };
        let binlog = Binlog::new(disk.clone(), place).unwrap();
        let server =
            Server::open(dir, disk.clone(), Threads::new(disk), |_| (), Some(binlog.clone()));
        let options = redolith_replication::record::Options {
            server_id: 7,
            checksum: redolith_binlog::Checksum::Crc32,
            max_file_bytes: 1 << 30,
            gtids: true,
            uuid: redolith_binlog::Uuid([9; 16]),
            server_version: crate::settings::SERVER_VERSION.into(),
        };
        block_on(binlog.start(&server.engine, options)).unwrap();
        server
    }
    fn open(
        dir: Dir,
        disk: Arc<dyn Disk>,
        runtime: Arc<dyn Runtime>,
        set: impl FnOnce(&mut Config),
        binlog: Option<Arc<Binlog>>,
    ) -> Server {
        let mut config = Config::new(&dir.0);
        (config.pool_bytes, config.log_segment_bytes, config.log_capacity_bytes) =
            (8 << 20, 1 << 20, 16 << 20);
        set(&mut config);
        let stream = match &binlog {
            Some(binlog) => binlog.clone() as Arc<dyn CommitStream>,
            None => no_stream(),
        };
        let (engine, _) = block_on(Engine::open_with(config, disk, runtime, stream)).unwrap();
        block_on(engine.create_schema("test", Collation::Utf8mb4GeneralCi, None)).unwrap();
        Server {
            catalog: EngineCatalog::new(engine.clone()),
            settings: Settings::default(),
            status: Status::new(),
            processes: Processes::new(),
            memory: ServerMemory::new(),
            global_read_lock: Arc::default(),
            engine,
            binlog,
            _dir: dir,
        }
    }
    pub fn session(&self) -> Session<'_> {
        let process = self.processes.add("localhost", 0);
        let state = SessionState {
            handlers: Default::default(),
            id: process.id,
            user: "root".into(),
            host: "localhost".into(),
            schema: Some("test".into()),
            found_rows_flag: false,
            random: None,
            user_variables: Default::default(),
            temporary: TemporaryTables::new(&self.engine, &self.memory),
            warnings: Warnings::default(),
            last_insert_id: 0,
            row_count: 0,
            found_rows: 0,
            process,
            memory: SessionMemory::new(&self.memory),
        };
        let mut vars = SessionVars::new(&self.settings);
        vars.set(&self.settings, Var::LockWaitTimeout, Some(&Value::UInt(5))).unwrap();
        Session {
            server: self,
            vars,
            locks: SessionLocks::new(self.global_read_lock.clone(), state.id),
            next: NextTransaction::default(),
            in_transaction: false,
            lock_wait_timeout: Duration::from_secs(5),
            kill: state.process.interrupt.clone(),
            state,
        }
    }
}
impl Drop for Server {
    fn drop(&mut self) {
        if let Some(binlog) = &self.binlog {
            block_on(binlog.stop(&self.engine)).unwrap();
        }
        block_on(self.engine.close()).unwrap();
    }
}

#[derive(Debug)]
pub struct Answer {
    pub ran: Ran,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

pub struct Session<'s> {
    pub server: &'s Server,
    pub state: SessionState,
    pub vars: SessionVars,
    pub locks: SessionLocks,
    pub next: NextTransaction,
    pub in_transaction: bool,
    pub kill: Arc<KillFlag>,
    pub lock_wait_timeout: Duration,
}
impl Session<'_> {
    pub fn plan(&self, text: &str) -> Result<Plan> {
        let mode = SqlMode::default();
        let bounds = Bounds { memory: usize::MAX, process: &self.state.process };
        let parsed = crate::parse::parse(
            text.as_bytes(),
            0..text.len(),
            None,
            mode,
            TextCharsets::UTF8,
            bounds,
        )?;
        let cx = BindContext {
            catalog: &self.server.catalog,
            schema: self.state.schema.as_deref(),
            account: (&self.state.user, &self.state.host),
            mode,
            collation: Collation::Utf8mb4GeneralCi,
            utf8mb4: Collation::Utf8mb4GeneralCi,
            file_charset: redolith_types::Charset::Utf8mb4,
            div_precision_increment: 4,
            group_concat_max_len: 1024,
            explain_format: crate::explain::Format::Traditional,
            variable_type: &variable_type,
            user_variable_type: &|name| {
                self.state.user_variables.get(name).map(|v| of_value(&v.value, v.collation))
            },
            untyped: &[],
            bounds,
        };
        let plan = bind(&parsed, &cx, Params::Marks)?.plan;
        // The first attempt may want statistics.
        if block_on(self.server.catalog.ready(&plan, 0))? {
            return Ok(plan);
        }
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
                generates_keys: self.vars.is_on(Var::SqlGenerateInvisiblePrimaryKey),
                server_collation: Collation::Utf8mb4GeneralCi,
                sorting: None,
                log: None,
            };
            if let Some(done) = block_on(ddl::run(&mut cx, stmt, bound_at))? {
                return Ok(done);
            }
        }
    }
    /// Runs a statement of `admin::run`. Returns its rows as text ("NULL" for NULL) or its outcome.
    pub fn run(&mut self, text: &str) -> Result<Answer> {
        let bound_at = self.server.engine.dict.version();
        let plan = self.plan(text)?;
        if !matches!(&plan.body, Statement::Show(_)) {
            self.state.warnings.clear();
        }
        let mut cx = AdminContext {
            xa: &Default::default(),
            binlog: None,
            engine: &self.server.engine,
            database: None,
            settings: &self.server.settings,
            status: &self.server.status,
            processes: &self.server.processes,
            temporary: None,
            session: &mut self.state,
            vars: &mut self.vars,
            locks: &mut self.locks,
            next: &mut self.next,
            in_transaction: self.in_transaction,
            parameters: Collation::Utf8mb4GeneralCi,
            binary_params: &[],
            log: None,
        };
        let mut rows = Collected::default();
        let ran = block_on(admin::run(&mut cx, &plan, &[], bound_at, &mut rows))?;
        let shown = |v: &Value<'_>| if v.is_null() { "NULL".to_string() } else { v.to_string() };
        let rows = rows.rows.iter().map(|row| row.iter().map(shown).collect()).collect();
        Ok(Answer { ran, columns: plan.columns.iter().map(|c| c.name.to_string()).collect(), rows })
    }
    pub fn rows(&mut self, text: &str) -> Vec<Vec<String>> {
        self.run(text).expect(text).rows
    }
    pub fn error(&mut self, text: &str) -> u16 {
        self.run(text).expect_err(text).code
    }
    /// The value of an expression, through `SET @value = ..`.
    pub fn value(&mut self, expression: &str) -> Value<'static> {
        self.run(&format!("SET @value = {expression}")).unwrap();
        self.state.user_variables.get("value").unwrap().value.clone()
    }
    pub fn ddl_after(&mut self, timeout_ms: u64, text: &str) -> Result<Done> {
        self.lock_wait_timeout = Duration::from_millis(timeout_ms);
        self.ddl(text)
    }
    /// The error number and the message of a statement that must fail.
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
    /// Inserts rows into a table and commits.
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
