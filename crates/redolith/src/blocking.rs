//! The calls for programs without an executor: each runs the future of [`crate::asynchronous`] on
//! the calling thread, which sleeps while it waits.
use crate::asynchronous::{self, MAX_RUNS, Reader, Rows, Savepoint};
use crate::definition::{Table, TableDefinition};
use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::options::Builder;
use crate::value::{Key, Value};
use parking_lot::Mutex;
use redolith_engine::runtime::block_on;
use std::fmt;
use std::ops::RangeBounds;
use std::path::Path;

/// An open database, in one directory. Clones are handles of the same database, for other threads;
/// the last handle or transaction to be dropped closes it.
#[derive(Clone, Debug)]
pub struct Database {
    database: asynchronous::Database,
}
impl From<asynchronous::Database> for Database {
    /// A handle with blocking calls of the same database.
    fn from(database: asynchronous::Database) -> Database {
        Database { database }
    }
}
impl From<Database> for asynchronous::Database {
    fn from(blocking: Database) -> asynchronous::Database {
        blocking.database
    }
}
impl Database {
    /// Opens the database in this directory, or makes a new one in an empty directory. One
    /// `Database` at a time has a directory open: [`Error::InUse`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Database> {
        Builder::default().open(directory)
    }
    /// For a database that is not opened with the defaults:
    /// `Database::builder().cache_bytes(1 << 30).open("data")`.
    pub fn builder() -> Builder {
        Builder::default()
    }
    /// The table of this definition. It is created, durably, if there is none of its name;
    /// [`Error::TableMismatch`] if the one that there is has other types.
    pub fn table<K: Key, V: Value>(
        &self,
        definition: TableDefinition<K, V>,
    ) -> Result<Table<K, V>> {
        block_on(self.database.table(definition))
    }
    /// The names of all tables, sorted.
    pub fn tables(&self) -> Vec<String> {
        self.database.tables()
    }
    /// Drops the table of this name with its rows, durably. False if there is none.
    ///
    /// It waits for the transactions and snapshots that have used the table, as long as for a row
    /// lock: [`Error::TableInUse`]. Calls with a handle of the table fail afterwards:
    /// [`Error::TableDropped`].
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("drop-table-{}", std::process::id()));
    /// # let db = redolith::Database::open(&directory)?;
    /// db.table(redolith::TableDefinition::<u64, String>::new("owners"))?;
    /// assert_eq!(db.tables(), ["owners"]);
    /// assert!(db.drop_table("owners")?);
    /// assert!(db.tables().is_empty() && !db.drop_table("owners")?);
    /// # db.close()?;
    /// # std::fs::remove_dir_all(directory).unwrap();
    /// # Ok::<(), redolith::Error>(())
    /// ```
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        block_on(self.database.drop_table(name))
    }
    /// Begins a transaction that may read and write. Any number of them may be open at a time.
    pub fn begin(&self) -> Transaction {
        Transaction { transaction: Mutex::new(self.database.begin()) }
    }
    /// Begins a transaction that only reads, and sees what is committed now, whatever is committed
    /// later. Old versions of rows are kept while it exists.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { snapshot: Mutex::new(self.database.snapshot()) }
    }
    /// Runs `work` in a transaction and commits it durably. If it ends in a deadlock, the
    /// transaction is rolled back and `work` runs again, up to a hundred times. An error of `work`
    /// (perhaps its own: [`Error::other`]) rolls back, and is returned.
    pub fn transact<T>(&self, mut work: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        let mut runs = 1;
        loop {
            let transaction = self.begin();
            let done = match work(&transaction) {
                Ok(done) => transaction.commit().map(|()| done),
                Err(e) => transaction.rollback().and(Err(e)),
            };
            match done {
                Err(Error::Deadlock) if runs < MAX_RUNS => {
                    block_on(self.database.pause_after(runs));
                }
                done => return done,
            }
            runs += 1;
        }
    }
    /// Closes the database: the next one to open it has nothing to recover. All transactions must
    /// have ended and all other handles been dropped, or else the last of them closes it.
    pub fn close(self) -> Result<()> {
        block_on(self.database.close())
    }
}

/// A transaction that may read and write.
///
/// - **What it sees:** its own changes, and what was committed when it first read. Later commits do
///   not change what `get` and `range` return.
/// - **Locks:** `insert`, `put`, `update`, `remove` and [`get_for_update`](Self::get_for_update)
///   lock their row until the transaction ends, and wait for a transaction that has it locked.
///   Other rows can be written by others meanwhile. Reads wait for nobody.
/// - **Lost updates:** between a `get` and a `put` of the same key another transaction may commit a
///   change of that row, which the `put` overwrites. Read with `get_for_update` what is going to be
///   changed.
/// - **Deadlocks:** where transactions wait for each other in a circle, one of them is rolled back
///   and told so: [`Error::Deadlock`]. [`Database::transact`] runs it again.
///
/// Dropped without a commit, it is rolled back on a thread of the database; its rows stay locked
/// until that is done.
pub struct Transaction {
    transaction: Mutex<asynchronous::Transaction>,
}
impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transaction.lock().fmt(f)
    }
}
impl Transaction {
    /// The value of a key, as this transaction sees it.
    pub fn get<K: Key, V: Value>(&self, table: &Table<K, V>, key: K::Ref<'_>) -> Result<Option<V>> {
        block_on(self.transaction.lock().get(table, key))
    }
    /// The newest value of a key, which may be newer than what `get` returns. The row is locked
    /// until the transaction ends; if there is none, no other transaction inserts it until then.
    pub fn get_for_update<K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
    ) -> Result<Option<V>> {
        block_on(self.transaction.lock().get_for_update(table, key))
    }
    /// The rows with keys in a range, in their order, as this transaction sees them; with `rev()`
    /// in the opposite order. Other calls may be made while the iterator exists.
    pub fn range<'k, K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        range: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<Range<'_, K, V>> {
        let rows = self.transaction.lock().range(table, range)?;
        Ok(Range { rows, of: &self.transaction, failed: false })
    }
    /// Inserts a row; [`Error::DuplicateKey`] if there is one with this key.
    pub fn insert<K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<()> {
        block_on(self.transaction.lock().insert(table, key, value))
    }
    /// Inserts a row, or replaces the value of the one with this key.
    pub fn put<K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<()> {
        block_on(self.transaction.lock().put(table, key, value))
    }
    /// Replaces the value of a key. False if there is no such row, which is not inserted.
    pub fn update<K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<bool> {
        block_on(self.transaction.lock().update(table, key, value))
    }
    /// Removes a row. False if there is none with this key.
    pub fn remove<K: Key, V: Value>(&self, table: &Table<K, V>, key: K::Ref<'_>) -> Result<bool> {
        block_on(self.transaction.lock().remove(table, key))
    }
    /// A place to which the transaction can be rolled back.
    pub fn savepoint(&self) -> Savepoint {
        self.transaction.lock().savepoint()
    }
    /// Takes back all changes since the savepoint, which can be used again; later ones are gone.
    /// Rows stay locked.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        block_on(self.transaction.lock().rollback_to(savepoint))
    }
    /// Commits. When this returns, the commit is on the disk.
    pub fn commit(self) -> Result<()> {
        self.commit_with(Durability::Durable)
    }
    /// Commits, and waits as long as the level says.
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        block_on(self.transaction.into_inner().commit_with(durability))
    }
    /// Takes back all changes.
    pub fn rollback(self) -> Result<()> {
        block_on(self.transaction.into_inner().rollback())
    }
}

/// A transaction that only reads, and sees what was committed when it began. It locks nothing and
/// waits for nobody. Threads may share it.
pub struct Snapshot {
    snapshot: Mutex<asynchronous::Snapshot>,
}
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot.lock().fmt(f)
    }
}
impl Snapshot {
    /// The value that a key had.
    pub fn get<K: Key, V: Value>(&self, table: &Table<K, V>, key: K::Ref<'_>) -> Result<Option<V>> {
        block_on(self.snapshot.lock().get(table, key))
    }
    /// The rows with keys in a range, in their order; with `rev()` in the opposite order.
    pub fn range<'k, K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        range: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<Range<'_, K, V>> {
        let rows = self.snapshot.lock().range(table, range)?;
        Ok(Range { rows, of: &self.snapshot, failed: false })
    }
}

/// The rows of a range, from either end. After an error it gives nothing more.
pub struct Range<'t, K, V> {
    rows: Rows<K, V>,
    of: &'t Mutex<dyn Reader>,
    failed: bool,
}
impl<K, V> fmt::Debug for Range<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows.fmt(f)
    }
}
impl<K: Key, V: Value> Range<'_, K, V> {
    fn given(&mut self, row: Result<Option<(K, V)>>) -> Option<Result<(K, V)>> {
        self.failed = row.is_err();
        row.transpose()
    }
}
impl<K: Key, V: Value> Iterator for Range<'_, K, V> {
    type Item = Result<(K, V)>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let row = block_on(self.rows.next(&mut *self.of.lock()));
        self.given(row)
    }
}
impl<K: Key, V: Value> DoubleEndedIterator for Range<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let row = block_on(self.rows.next_back(&mut *self.of.lock()));
        self.given(row)
    }
}
