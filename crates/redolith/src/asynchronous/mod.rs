//! The same database with calls that are futures, for any executor.
//!
//! The types have the names and calls of the blocking ones. What differs:
//! - Calls take `&mut self`: a transaction is one task's.
//! - [`Transaction::range`] gives [`Rows`], whose [`next`](Rows::next) is given the transaction, so
//!   that rows can be read and changed in between.
//! - [`Database::retry_deadlocks`] is what `transact` is there.
//! - A future that changes something and is dropped before its end may leave the change half done.
//!   The transaction then refuses to commit ([`Error::Interrupted`]); it can be rolled back, whole
//!   or to a savepoint. A dropped `commit` has committed whole or not at all.
//! - An open whose future is dropped goes on, and then closes the database again; a close whose
//!   future is dropped goes on, too. Until its end the directory is in use. A panic meanwhile ends
//!   the process, as one of any task does.
//! - A call of [`Rows`] whose future is dropped has read nothing: the next call reads that row.
//! - A transaction that is dropped is rolled back on a thread of the database. The last handle to
//!   be dropped closes the database, which blocks: await [`Database::close`] instead.
//!
//! The database's own tasks run on threads of its own, whatever the executor. Calls block the
//! executor's thread where they work on files themselves, which is faster than handing the work
//! over: a commit that no other one precedes writes and syncs the redo log, and so does a change
//! that finds the log's buffer full; a change may wait for its file to grow. An executor with one
//! thread runs no other task meanwhile.
mod rows;
mod running;
mod transaction;
pub use rows::Rows;
pub use transaction::{Reader, Savepoint, Snapshot, Transaction};

use crate::definition::{SCHEMA, Table, TableDefinition};
use crate::error::{Error, Result};
use crate::options::Builder;
use crate::tasks::Tasks;
use crate::value::{Key, Value};
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::metadata_lock::{
    MetadataLock, MetadataLockMode, MetadataLockSet, MetadataLockWait,
};
use redolith_engine::dict::table::Table as EngineTable;
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::block_on;
use redolith_engine::{DEFAULT_COLLATION, Engine, Error as EngineError};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a transaction runs that ends in a deadlock each time.
pub(crate) const MAX_RUNS: u32 = 100;

/// An open database, in one directory. Clones are handles of the same database; the last handle or
/// transaction to be dropped closes it.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}
impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({})", self.inner.engine.config.dir.display())
    }
}

/// What handles and transactions share.
pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    pub(crate) lock_wait_timeout: Duration,
    /// Tells databases of one process apart.
    pub(crate) number: u64,
    closed: bool,
}
impl Inner {
    /// Takes a metadata lock; [`Error::TableInUse`] if others hold it for too long.
    async fn lock(
        &self,
        set: &mut MetadataLockSet,
        lock: &Arc<MetadataLock>,
        mode: MetadataLockMode,
        table: &str,
    ) -> Result<()> {
        let (kill, waited) = (KillFlag::new(), self.lock_wait_timeout);
        let wait = MetadataLockWait { runtime: &self.engine.runtime, timeout: waited, kill: &kill };
        set.lock(lock, mode, wait).await.map_err(|e| match e {
            EngineError::LockWaitTimeout => Error::TableInUse { table: table.into(), waited },
            e => Error::of_table(e, table, waited),
        })
    }
    async fn close(mut self) -> Result<()> {
        self.closed = true;
        let engine = self.engine.clone();
        let close = async move { engine.close().await.map_err(Error::from_engine) };
        running::run_on(&*self.engine.runtime, "close", close, |_| async {}).await
    }
}
impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody is left to be told of an error; the next open recovers then.
        if !self.closed {
            let _ = block_on(self.engine.close());
        }
    }
}

impl Database {
    /// Opens the database in this directory, or makes a new one in an empty directory.
    pub async fn open(directory: impl AsRef<Path>) -> Result<Database> {
        Builder::default().open_async(directory).await
    }
    /// For a database that is not opened with the defaults; ends in [`Builder::open_async`].
    pub fn builder() -> Builder {
        Builder::default()
    }
    pub(crate) async fn open_with(options: &Builder, directory: &Path) -> Result<Database> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        redolith_engine::abort_when_poisoned();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let tasks = Tasks::new(disk.clone());
        let (config, lock_wait_timeout) = (options.config(directory), options.lock_wait_timeout);
        let runtime = tasks.clone();
        let open = async move {
            let opened = Engine::open(config, disk, runtime).await;
            let (engine, _) = opened.map_err(Error::from_engine)?;
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let inner = Inner { engine, lock_wait_timeout, number, closed: false };
            Ok(Database { inner: Arc::new(inner) })
        };
        // Nobody is left to be told of an error of the close; the next open recovers then.
        let unwanted = |opened: Result<Database>| async {
            if let Ok(database) = opened {
                let _ = database.close().await;
            }
        };
        running::run_on(&*tasks, "open", open, unwanted).await
    }

    /// The table of this definition. It is created, durably, if there is none of its name;
    /// [`Error::TableMismatch`] if the one that there is has other types.
    pub async fn table<K: Key, V: Value>(
        &self,
        definition: TableDefinition<K, V>,
    ) -> Result<Table<K, V>> {
        definition.check_name()?;
        let named = |e| Error::of_table(e, definition.name(), self.inner.lock_wait_timeout);
        let table = match self.stored(definition.name()).await.map_err(named)? {
            Some(table) => table,
            None => {
                let _alone = self.definitions(definition.name()).await?;
                self.created(definition).await.map_err(named)?
            }
        };
        // Another task may have made it a moment ago.
        self.inner.engine.definitions_durable().await;
        definition.check_stored(&table.def)?;
        Ok(Table::new(table, self.inner.number))
    }
    async fn stored(&self, name: &str) -> redolith_engine::Result<Option<Arc<EngineTable>>> {
        self.inner.engine.table(SCHEMA, name).await
    }
    /// While the lock is held, nobody else creates or drops a table.
    async fn definitions(&self, table: &str) -> Result<MetadataLockSet> {
        let (mut locks, lock) =
            (MetadataLockSet::new(), self.inner.engine.dict.metadata_lock(SCHEMA));
        self.inner.lock(&mut locks, &lock, MetadataLockMode::Exclusive, table).await?;
        Ok(locks)
    }
    async fn created<K: Key, V: Value>(
        &self,
        definition: TableDefinition<K, V>,
    ) -> redolith_engine::Result<Arc<EngineTable>> {
        let engine = &self.inner.engine;
        // Another thread may have created it while this one waited.
        if let Some(table) = self.stored(definition.name()).await? {
            return Ok(table);
        }
        match engine.create_schema(SCHEMA, DEFAULT_COLLATION, None).await {
            Ok(()) | Err(EngineError::DatabaseExists(_)) => {}
            Err(e) => return Err(e),
        }
        engine.create_table(definition.stored(), 1, None).await
    }
    /// The names of all tables, sorted.
    pub fn tables(&self) -> Vec<String> {
        let tables = self.inner.engine.dict.tables(SCHEMA);
        tables.iter().map(|table| table.def.name.clone()).collect()
    }
    /// Drops the table of this name with its rows, durably. False if there is none.
    ///
    /// It waits for the transactions and snapshots that have used the table, as long as for a row
    /// lock: [`Error::TableInUse`]. Calls with a handle of the table fail afterwards:
    /// [`Error::TableDropped`].
    pub async fn drop_table(&self, name: &str) -> Result<bool> {
        let mut locks = self.definitions(name).await?;
        let named = |e| Error::of_table(e, name, self.inner.lock_wait_timeout);
        let Some(table) = self.stored(name).await.map_err(named)? else { return Ok(false) };
        let lock = &table.metadata_lock;
        self.inner.lock(&mut locks, lock, MetadataLockMode::Exclusive, name).await?;
        self.inner.engine.drop_tables(std::slice::from_ref(&table), None).await.map_err(named)?;
        Ok(true)
    }

    /// Begins a transaction that may read and write. Any number of them may be open at a time.
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.inner.clone())
    }
    /// Begins a transaction that only reads, and sees what is committed now, whatever is committed
    /// later.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.inner.clone())
    }
    /// Runs `work` with a new transaction, which it has to commit. If it ends in a deadlock it runs
    /// again with another one, up to a hundred times. A transaction that it does not commit is
    /// rolled back.
    pub async fn retry_deadlocks<T, F: Future<Output = Result<T>>>(
        &self,
        mut work: impl FnMut(Transaction) -> F,
    ) -> Result<T> {
        let mut runs = 1;
        loop {
            match work(self.begin()).await {
                Err(Error::Deadlock) if runs < MAX_RUNS => self.pause_after(runs).await,
                done => return done,
            }
            runs += 1;
        }
    }
    /// A pause at random, longer after each run that ended in a deadlock: else the same
    /// transactions might meet again and again.
    pub(crate) async fn pause_after(&self, runs: u32) {
        let longest_us = 50u64 << runs.min(8);
        let pause = self.inner.engine.disk.random() % longest_us;
        self.inner.engine.runtime.sleep(Duration::from_micros(pause)).await;
    }
    /// Closes the database: the next one to open it has nothing to recover. All transactions must
    /// have ended and all other handles been dropped, or else the last of them closes it.
    pub async fn close(self) -> Result<()> {
        match Arc::try_unwrap(self.inner) {
            Ok(inner) => inner.close().await,
            Err(inner) => Err(Error::StillInUse { handles: Arc::strong_count(&inner) - 1 }),
        }
    }
}
