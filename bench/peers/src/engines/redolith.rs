//! Redolith's library in a program without an executor: each writer has a thread, which sleeps
//! until its commit is durable.
use super::{CACHE_BYTES, Engine, Kind, REDOLITH, Result, Shape};
use crate::load::{Load, Tally};
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::runtime::{Runtime, Threads, block_on};
use redolith_engine::{Config, DEFAULT_COLLATION, Trx};
use redolith_types::sql_type::{IntSize, Sign};
use redolith_types::{Column, IndexDef, SqlType, TableDef, Value};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

pub const KIND: Kind = Kind {
    name: REDOLITH,
    package: "redolith-engine",
    single_writer: false,
    settings: "defaults (doublewrite on, 1 GiB of redo); pool 256 MiB; a thread per writer, \
        Threads as runtime",
    open: |dir, shape| {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        Ok(Box::new(Database::open(dir, shape, disk.clone(), Threads::new(disk))?))
    },
};
const SCHEMA: &str = "bench";
const TABLE: &str = "t";

pub struct Database {
    engine: Arc<redolith_engine::Engine>,
    table: Arc<Table>,
}

/// t (k BIGINT UNSIGNED PRIMARY KEY, v VARBINARY(n) NOT NULL)
fn definition(value_bytes: usize) -> TableDef {
    let key = SqlType::Int { size: IntSize::Big, sign: Sign::UNSIGNED, display: None };
    TableDef {
        schema: SCHEMA.into(),
        name: TABLE.into(),
        columns: vec![
            Column::new("k", key).not_null(),
            Column::new("v", SqlType::VarBinary { len: value_bytes as u32 }).not_null(),
        ],
        indexes: vec![IndexDef::primary([0])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    }
}

impl Database {
    pub fn open(
        dir: &Path,
        shape: Shape,
        disk: Arc<dyn Disk>,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Database> {
        let mut config = Config::new(dir);
        config.pool_bytes = CACHE_BYTES as u64;
        block_on(async {
            let (engine, report) = redolith_engine::Engine::open(config, disk, runtime).await?;
            let table = if report.created {
                engine.create_schema(SCHEMA, DEFAULT_COLLATION, None).await?;
                engine.create_table(definition(shape.value_bytes), 1, None).await?
            } else {
                engine.table(SCHEMA, TABLE).await?.ok_or("the table is gone")?
            };
            Ok(Database { engine, table })
        })
    }
    pub fn session(&self) -> Session {
        Session {
            trx: self.engine.begin(KillFlag::new()),
            table: self.table.clone(),
            row: Vec::new(),
        }
    }
    pub fn rows(&self) -> Result<Option<u64>> {
        let mut trx = self.engine.begin(KillFlag::new());
        let mut all = Cursor::new(self.table.clone(), 0, Vec::new(), None, false, Read::Consistent);
        block_on(async {
            let mut n = 0;
            while all.next(&mut trx).await? {
                n += 1;
            }
            trx.rollback().await?;
            Ok(Some(n))
        })
    }
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.engine.metrics().into_iter().map(|(m, n)| (m.name, n)).collect()
    }
    pub fn close(self) -> Result<()> {
        Ok(block_on(self.engine.close())?)
    }
}

pub struct Session {
    trx: Trx,
    table: Arc<Table>,
    row: Vec<u8>,
}
impl Session {
    pub async fn put(&mut self, key: u64, value: &[u8]) -> Result<()> {
        self.insert(key, value).await?;
        self.commit().await
    }
    pub async fn insert(&mut self, key: u64, value: &[u8]) -> Result<()> {
        self.row.clear();
        self.table
            .layout
            .encode(&[Value::UInt(key), Value::Bytes(Cow::Borrowed(value))], &mut self.row);
        Ok(self.trx.insert(&self.table, &self.row).await?)
    }
    /// Commits, and returns when the commit is durable.
    pub async fn commit(&mut self) -> Result<()> {
        self.trx.commit().await?.durable().await;
        Ok(())
    }
}

impl Engine for Database {
    fn drive(&self, load: &Arc<Load>) -> Result<Tally> {
        load.threads(|| {
            let mut session = self.session();
            Ok(move |key, value: &[u8]| block_on(session.put(key, value)))
        })
    }
    fn rows(&self) -> Result<Option<u64>> {
        self.rows()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters()
    }
    fn close(self: Box<Self>) -> Result<()> {
        (*self).close()
    }
}
