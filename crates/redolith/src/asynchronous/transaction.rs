//! One transaction: the calls on tables, savepoints, and how it ends.
use super::Inner;
use super::rows::Rows;
use crate::definition::Table;
use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::value::{Key, Value};
use redolith_engine::dict::metadata_lock::{MetadataLockMode, MetadataLockSet};
use redolith_engine::dict::table::Table as EngineTable;
use redolith_engine::lock::{KillFlag, LockKey, Mode};
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::{Error as EngineError, Isolation, Result as EngineResult, Trx, WouldBlock};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a row is read that is going to be changed.
const FOR_UPDATE: Read = Read::Locking { mode: Mode::X, conflict: OnConflict::Wait };

/// A place in a transaction that it can be rolled back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint {
    transaction: u64,
    number: u64,
}

/// Whether a transaction can go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Health {
    Sound,
    /// A change is under way, or its future was dropped.
    Changing,
    /// It was a deadlock's victim, and is rolled back.
    Deadlocked,
}

/// A savepoint that the transaction can be rolled back to.
#[derive(Clone, Copy)]
struct ValidSavepoint {
    number: u64,
    place: redolith_engine::Savepoint,
    /// What the transaction was there. Going back does not mend what was half done before.
    health: Health,
}

/// A transaction or snapshot of the engine. It goes before `tables`, and both go before `inner`,
/// which may close the engine.
#[doc(hidden)]
pub struct State {
    trx: Trx,
    /// The metadata locks of the tables that the transaction has used: nobody drops those tables.
    tables: MetadataLockSet,
    inner: Arc<Inner>,
    /// Tells transactions of one process apart.
    number: u64,
    health: Health,
    savepoints: Vec<ValidSavepoint>,
    next_savepoint: u64,
}

impl State {
    fn new(inner: Arc<Inner>) -> State {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut trx = inner.engine.begin(KillFlag::new());
        trx.lock_wait_timeout = inner.lock_wait_timeout;
        State {
            trx,
            tables: MetadataLockSet::new(),
            inner,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            health: Health::Sound,
            savepoints: Vec::new(),
            next_savepoint: 1,
        }
    }
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
    /// Whether a call on this table can be made.
    pub(crate) fn check<K, V>(&self, table: &Table<K, V>) -> Result<()> {
        if table.database != self.inner.number {
            return Err(Error::OtherDatabase { table: table.name().into() });
        }
        self.sound()
    }
    /// The engine's transaction, for a call on this table, which nobody drops from now on.
    pub(crate) async fn on<K, V>(&mut self, table: &Table<K, V>) -> Result<&mut Trx> {
        self.check(table)?;
        let lock = &table.table.metadata_lock;
        if !self.tables.try_lock(lock, MetadataLockMode::Read) {
            self.inner.lock(&mut self.tables, lock, MetadataLockMode::Read, table.name()).await?;
        }
        if table.table.dropped.load(Ordering::Acquire) {
            return Err(Error::TableDropped { table: table.name().into() });
        }
        // A call that was dropped may have left another one.
        self.trx.isolation = Isolation::RepeatableRead;
        Ok(&mut self.trx)
    }
    fn sound(&self) -> Result<()> {
        match self.health {
            Health::Sound => Ok(()),
            Health::Changing => Err(Error::Interrupted),
            Health::Deadlocked => Err(Error::Deadlock),
        }
    }
    /// Takes back what a failed call has done, or the whole transaction of a deadlock's victim, so
    /// that the others go on.
    pub(crate) async fn failed<K, V>(
        &mut self,
        e: EngineError,
        table: &Table<K, V>,
        before: redolith_engine::Savepoint,
    ) -> Error {
        let undone = match e {
            EngineError::Deadlock => {
                self.health = Health::Deadlocked;
                self.trx.rollback().await
            }
            _ => self.trx.rollback_to(before).await,
        };
        if let Err(e) = undone {
            return Error::from_engine(e);
        }
        if self.health == Health::Changing {
            self.health = Health::Sound;
        }
        Error::of_table(e, table.name(), self.inner.lock_wait_timeout)
    }

    pub(crate) async fn get<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
        read: Read,
    ) -> Result<Option<V>> {
        let key = table.key(&key)?;
        let trx = self.on(table).await?;
        let before = trx.savepoint();
        let mut cursor = Cursor::point(table.table.clone(), key.clone(), read);
        let found = async {
            if read == FOR_UPDATE {
                lock_key(trx, &table.table, &key).await?;
            }
            if !cursor.next(trx).await? {
                return Ok(None);
            }
            cursor.payload(trx).await.map(Some)
        };
        match found.await {
            Ok(found) => found.map(|payload| table.value_of(payload)).transpose(),
            Err(e) => Err(self.failed(e, table, before).await),
        }
    }
    /// Runs a change that is taken back if it fails, and remembered if it is dropped half way.
    async fn change<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        change: Change<'_>,
    ) -> Result<bool> {
        let before = self.on(table).await?.savepoint();
        self.health = Health::Changing;
        match change.make(&mut self.trx, table).await {
            Ok(done) => {
                self.health = Health::Sound;
                Ok(done)
            }
            Err(e) => Err(self.failed(e, table, before).await),
        }
    }
    async fn commit(mut self, durability: Durability) -> Result<()> {
        if let Err(e) = self.sound() {
            self.trx.rollback().await.map_err(Error::from_engine)?;
            return Err(e);
        }
        let ticket = self.trx.commit().await.map_err(Error::from_engine)?;
        match (durability, ticket.lsn()) {
            (Durability::Durable, _) => ticket.durable().await,
            (Durability::Written, Some(lsn)) => {
                self.inner.engine.store.log.wait_written(lsn).await;
            }
            (Durability::Written, None) | (Durability::Eventual, _) => {}
        }
        Ok(())
    }
    fn savepoint(&mut self) -> Savepoint {
        let number = self.next_savepoint;
        self.next_savepoint += 1;
        let (place, health) = (self.trx.savepoint(), self.health);
        self.savepoints.push(ValidSavepoint { number, place, health });
        Savepoint { transaction: self.number, number }
    }
    async fn rollback_to(&mut self, to: Savepoint) -> Result<()> {
        if self.health == Health::Deadlocked {
            return Err(Error::Deadlock);
        }
        let place = self
            .savepoints
            .iter()
            .position(|s| to == Savepoint { transaction: self.number, number: s.number })
            .ok_or(Error::NoSuchSavepoint)?;
        self.savepoints.truncate(place + 1);
        self.health = Health::Changing;
        let ValidSavepoint { place, health, .. } = self.savepoints[place];
        self.trx.rollback_to(place).await.map_err(Error::from_engine)?;
        self.health = health;
        self.sound()
    }
}

/// A change of one row.
enum Change<'a> {
    Insert(&'a [u8]),
    Put { key: &'a [u8], row: &'a [u8] },
    Update { key: &'a [u8], row: &'a [u8] },
    Remove(&'a [u8]),
}
impl Change<'_> {
    /// False if there is no row to change.
    async fn make<K, V>(&self, trx: &mut Trx, table: &Table<K, V>) -> EngineResult<bool> {
        let table = &table.table;
        match *self {
            // Who is told of a duplicate often goes on to change that row: it is locked at once for
            // that, since two that shared it could not both go on.
            Change::Insert(row) => trx.insert_or_lock(table, row, Mode::X).await.map(|()| true),
            Change::Put { key, row } => match trx.insert_or_lock(table, row, Mode::X).await {
                Err(EngineError::DuplicateKey { index_no: 0, .. }) => {
                    change_row(trx, table, key, Some(row)).await
                }
                done => done.map(|()| true),
            },
            Change::Update { key, row } => change_row(trx, table, key, Some(row)).await,
            Change::Remove(key) => change_row(trx, table, key, None).await,
        }
    }
}
/// Gives the row with this key another value, or none. False if there is none, of which nothing is
/// locked.
async fn change_row(
    trx: &mut Trx,
    table: &Arc<EngineTable>,
    key: &[u8],
    row: Option<&[u8]>,
) -> EngineResult<bool> {
    let Some(cursor) = lock_existing(trx, table, key).await? else { return Ok(false) };
    match row {
        Some(row) => trx.update(table, cursor.row(), row).await?,
        None => trx.delete(table, cursor.row()).await?,
    }
    Ok(true)
}
/// Locks the row with this key, if there is one; else nothing.
async fn lock_existing(
    trx: &mut Trx,
    table: &Arc<EngineTable>,
    key: &[u8],
) -> EngineResult<Option<Cursor>> {
    let mut cursor = Cursor::point(table.clone(), key.to_vec(), FOR_UPDATE);
    let isolation = std::mem::replace(&mut trx.isolation, Isolation::ReadCommitted);
    let found = cursor.next(trx).await;
    trx.isolation = isolation;
    Ok(found?.then_some(cursor))
}
/// Locks a key that will be read for update, whether there is a row or not.
///
/// Where there is none, a locking read locks the gap, and several transactions may have the lock of
/// one gap. If all of them went on to insert the row, each would wait for the others: a deadlock.
/// So they wait for each other here, before they have the gap.
async fn lock_key(trx: &mut Trx, table: &Arc<EngineTable>, key: &[u8]) -> EngineResult<()> {
    if lock_existing(trx, table, key).await?.is_some() {
        return Ok(());
    }
    let engine = trx.engine().clone();
    let lock = LockKey::new(table.clustered().id, key);
    loop {
        match engine.locks.lock_row(trx.locks(), lock, Mode::X) {
            Ok(_) => return Ok(()),
            Err(WouldBlock::Lock(wait)) => {
                wait.wait(&engine.runtime, trx.lock_wait_timeout).await?
            }
            Err(WouldBlock::Failed(e)) => return Err(e),
            Err(other) => unreachable!("a row lock waits for {other:?}"),
        }
    }
}

/// What can be read with: a [`Transaction`] or a [`Snapshot`]. The trait is sealed.
pub trait Reader: Send {
    #[doc(hidden)]
    fn state(&mut self) -> &mut State;
}

/// A transaction that may read and write: see [`crate::Transaction`], whose calls these are.
pub struct Transaction(State);
impl Reader for Transaction {
    fn state(&mut self) -> &mut State {
        &mut self.0
    }
}
impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transaction({})", self.0.number)
    }
}
impl Transaction {
    pub(super) fn new(inner: Arc<Inner>) -> Transaction {
        Transaction(State::new(inner))
    }
    /// The value of a key, as this transaction sees it.
    pub async fn get<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
    ) -> Result<Option<V>> {
        self.0.get(table, key, Read::Consistent).await
    }
    /// The newest value of a key, whose row is locked until the transaction ends.
    pub async fn get_for_update<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
    ) -> Result<Option<V>> {
        self.0.get(table, key, FOR_UPDATE).await
    }
    /// The rows with keys in a range, from either end, as this transaction sees them.
    pub fn range<'k, K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        range: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<Rows<K, V>> {
        Rows::new(&mut self.0, table, range)
    }
    /// Inserts a row; [`Error::DuplicateKey`] if there is one with this key.
    pub async fn insert<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<()> {
        let row = table.row(&key, &value)?;
        self.0.change(table, Change::Insert(&row)).await.map(drop)
    }
    /// Inserts a row, or replaces the value of the one with this key.
    pub async fn put<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<()> {
        let (row, key) = (table.row(&key, &value)?, table.key(&key)?);
        self.0.change(table, Change::Put { key: &key, row: &row }).await.map(drop)
    }
    /// Replaces the value of a key. False if there is no such row, which is not inserted.
    pub async fn update<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<bool> {
        let (row, key) = (table.row(&key, &value)?, table.key(&key)?);
        self.0.change(table, Change::Update { key: &key, row: &row }).await
    }
    /// Removes a row. False if there is none with this key.
    pub async fn remove<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
    ) -> Result<bool> {
        let key = table.key(&key)?;
        self.0.change(table, Change::Remove(&key)).await
    }
    /// A place to which the transaction can be rolled back.
    pub fn savepoint(&mut self) -> Savepoint {
        self.0.savepoint()
    }
    /// Takes back all changes since the savepoint, which can be used again; later ones are gone.
    /// Rows stay locked.
    pub async fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.0.rollback_to(savepoint).await
    }
    /// Commits, and waits until the commit is on the disk.
    pub async fn commit(self) -> Result<()> {
        self.commit_with(Durability::Durable).await
    }
    /// Commits, and waits as long as the level says.
    pub async fn commit_with(self, durability: Durability) -> Result<()> {
        self.0.commit(durability).await
    }
    /// Takes back all changes.
    pub async fn rollback(mut self) -> Result<()> {
        self.0.trx.rollback().await.map_err(Error::from_engine)
    }
}

/// A transaction that only reads what was committed when it began: see [`crate::Snapshot`].
pub struct Snapshot(State);
impl Reader for Snapshot {
    fn state(&mut self) -> &mut State {
        &mut self.0
    }
}
impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.0.number)
    }
}
impl Snapshot {
    pub(super) fn new(inner: Arc<Inner>) -> Snapshot {
        let mut state = State::new(inner);
        state.trx.read_only = true;
        state.trx.open_view();
        Snapshot(state)
    }
    /// The value that a key had.
    pub async fn get<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: K::Ref<'_>,
    ) -> Result<Option<V>> {
        self.0.get(table, key, Read::Consistent).await
    }
    /// The rows with keys in a range, from either end.
    pub fn range<'k, K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        range: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<Rows<K, V>> {
        Rows::new(&mut self.0, table, range)
    }
}
