//! The data dictionary: the schemas and the tables. It is a table itself, with rows in a tree of
//! the system space, so a transaction changes definitions atomically.
//!
//! The dictionary's own table has id 1. Its column `name VARBINARY` is the key, and `body LONGBLOB`
//! the record ([`codec`]). A schema's name is `d` and the schema; a table's or view's name is `t`,
//! the schema, a 0 byte and the table. What is known of the values in tables has rows, too
//! ([`known_values`]). Page 2 of the system space holds the counters, after the common header: next
//! object id u64 at 24 (tables, indexes and spaces share one sequence), transaction high-water mark
//! u64 at 32. Page 3 is the root of the dictionary's tree.
//!
//! - DICT-1: a table's file exists, durably, before the table's record commits, and is removed
//!   after the removal of the record is durable. So a file without a record is rubbish.
//! - DICT-2: a `Table` that DDL replaces or drops is marked `dropped`; its users look it up again
//!   by name.
pub mod alter;
mod codec;
pub(crate) mod counters;
mod ddl;
pub mod estimate;
mod files;
mod free_trees;
pub mod histogram;
pub mod index_build;
mod known_values;
pub mod metadata_lock;
pub mod new_table;
#[allow(missing_docs)] // `testing` shows it
#[cfg(any(test, feature = "testing"))]
pub mod record;
#[cfg(not(any(test, feature = "testing")))]
#[allow(unreachable_pub)]
pub(crate) mod record;
mod sample;
pub mod stored_statistics;
pub mod table;
pub mod temporary;
pub mod view;

use crate::{CommitTicket, Error, PageId, Result, SpaceId};
use hashbrown::{HashMap, HashSet};
use metadata_lock::MetadataLock;
use parking_lot::{Mutex, RwLock};
use record::SchemaRecord;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use table::Table;
use view::View;

/// The id of the dictionary's own table.
pub(crate) const DICT_TABLE: u64 = 1;
/// The id of its index.
pub(crate) const DICT_INDEX: u64 = 1;
/// The root page of its index.
pub(crate) const DICT_ROOT: u32 = 3;
/// The page of the engine's counters.
pub(crate) const COUNTERS: PageId = PageId { space: SpaceId::SYSTEM, no: 2 };
/// Offsets in the counters' page.
pub(crate) const NEXT_ID: usize = 24;
/// Transaction ids below this number may have been given.
pub(crate) const HIGH_WATER: usize = 32;
/// The first id of an object that is not the system's. It is above the reserved space ids.
pub(crate) const FIRST_ID: u64 = 1024;

/// All definitions, in memory.
#[derive(Default)]
pub struct Dictionary {
    /// Where the last commit that changed a definition ends in the redo log.
    pub(crate) changed_to: AtomicU64,
    state: RwLock<State>,
    metadata_lock: Mutex<MetadataLocks>,
    version: AtomicU64,
    /// What holds for tables that say nothing of their statistics.
    pub statistics_settings: Arc<stored_statistics::StatisticsSettings>,
    /// The number of the next temporary table.
    temporary: AtomicU64,
}
#[derive(Default)]
struct State {
    schemas: BTreeMap<String, SchemaRecord>,
    /// Tables by schema and name.
    tables: BTreeMap<String, BTreeMap<String, Arc<Table>>>,
    ids: HashMap<u64, Arc<Table>>,
    /// Views by schema and name.
    views: BTreeMap<String, BTreeMap<String, Arc<View>>>,
    known_values: known_values::KnownValues,
}

/// Metadata locks by name.
#[derive(Default)]
struct MetadataLocks {
    by_name: HashMap<String, Arc<MetadataLock>>,
    /// The number of locks that were in use when unused locks were last forgotten.
    in_use: usize,
}
/// With fewer locks than twice this number, none is forgotten.
const FEW_MDL_LOCKS: usize = 64;

impl MetadataLocks {
    /// A lock that only the map has is not in use: nobody holds it or waits for it, and meanwhile
    /// it can be got only through the map.
    fn forget_unused(&mut self) {
        if self.by_name.len() >= 2 * self.in_use.max(FEW_MDL_LOCKS) {
            self.by_name.retain(|_, lock| Arc::strong_count(lock) > 1);
            self.in_use = self.by_name.len();
        }
    }
}

impl Dictionary {
    /// Changes with every definition: plans made under another version are made again.
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }
    /// The record of a schema.
    pub fn schema(&self, name: &str) -> Option<SchemaRecord> {
        self.state.read().schemas.get(name).cloned()
    }
    /// The names of all schemas, sorted.
    pub fn schemas(&self) -> Vec<String> {
        self.state.read().schemas.keys().cloned().collect()
    }
    /// The table's present definition. Its counters may not be ready: `Engine::table` sees to that.
    pub fn table(&self, schema: &str, name: &str) -> Option<Arc<Table>> {
        self.state.read().tables.get(schema)?.get(name).cloned()
    }
    /// The tables of a schema, by name.
    pub fn tables(&self, schema: &str) -> Vec<Arc<Table>> {
        self.state
            .read()
            .tables
            .get(schema)
            .map(|t| t.values().cloned().collect())
            .unwrap_or_default()
    }
    /// Whether a table of the schema, other than those named in `besides`, has a check constraint
    /// whose name is wanted.
    pub fn has_check(&self, schema: &str, besides: &[&str], wanted: impl Fn(&str) -> bool) -> bool {
        let besides: HashSet<&str> = besides.iter().copied().collect();
        let state = self.state.read();
        let tables = state.tables.get(schema).into_iter().flatten();
        let mut others = tables.filter(|(name, _)| !besides.contains(name.as_str()));
        others.any(|(_, t)| t.def.checks.iter().any(|c| wanted(&c.name)))
    }
    /// The number of tables.
    pub fn len(&self) -> usize {
        self.state.read().ids.len()
    }
    /// Whether there is no schema.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// All tables of all schemas.
    pub fn all_tables(&self) -> Vec<Arc<Table>> {
        self.state.read().ids.values().cloned().collect()
    }
    /// The table that has this id.
    pub fn by_id(&self, id: u64) -> Option<Arc<Table>> {
        self.state.read().ids.get(&id).cloned()
    }
    /// Whether the table was dropped with its rows. (DDL that keeps them replaces only this form of
    /// it.)
    pub(crate) fn is_gone(&self, table: &Table) -> bool {
        table.dropped.load(Acquire) && self.by_id(table.id).is_none()
    }
    /// The metadata lock of a name. There is only one per name while anybody has it.
    pub fn metadata_lock(&self, name: &str) -> Arc<MetadataLock> {
        let mut locks = self.metadata_lock.lock();
        locks.forget_unused();
        locks.by_name.entry_ref(name).or_default().clone()
    }
    /// The record of a schema, or `NoSuchDatabase`.
    pub fn require_schema(&self, name: &str) -> Result<SchemaRecord> {
        self.schema(name).ok_or_else(|| Error::NoSuchDatabase(name.to_string()))
    }

    pub(crate) fn put_schema(&self, name: &str, record: SchemaRecord) {
        self.state.write().schemas.insert(name.to_string(), record);
        self.version.fetch_add(1, AcqRel);
    }
    /// Notes a commit that changes definitions, before anybody sees the change.
    fn changed_by(&self, commit: &CommitTicket) {
        if let Some(lsn) = commit.lsn() {
            self.changed_to.fetch_max(lsn.0, AcqRel);
        }
    }
    pub(crate) fn remove_schema(&self, name: &str) {
        self.state.write().schemas.remove(name);
        self.version.fetch_add(1, AcqRel);
    }
    /// Enters a table in the place of a table with its id (perhaps under another name) or its name.
    pub(crate) fn put_table(&self, table: Arc<Table>) {
        self.replace_tables(&[], [table]);
    }
    pub(crate) fn remove_table(&self, table: &Table) {
        self.replace_tables(&[table], []);
    }
    /// Makes all changes at once: a concurrent reader sees the state before or the state after.
    pub(crate) fn replace_tables(
        &self,
        removed: &[&Table],
        entered: impl IntoIterator<Item = Arc<Table>>,
    ) {
        let mut state = self.state.write();
        let s = &mut *state;
        for table in removed {
            table.dropped.store(true, Release);
            s.ids.remove(&table.id);
            if let Some(t) = s.tables.get_mut(&table.def.schema) {
                t.remove(&table.def.name);
            }
        }
        for table in entered {
            if let Some(old) = s.ids.insert(table.id, table.clone()) {
                old.dropped.store(true, Release);
                if let Some(t) = s.tables.get_mut(&old.def.schema) {
                    t.remove(&old.def.name);
                }
            }
            if table.id != DICT_TABLE {
                let old = s
                    .tables
                    .entry(table.def.schema.clone())
                    .or_default()
                    .insert(table.def.name.clone(), table);
                if let Some(old) = old {
                    old.dropped.store(true, Release);
                    s.ids.remove(&old.id);
                    s.known_values.forget(old.id);
                }
            }
        }
        // A renamed table is entered again with its id.
        for table in removed.iter().filter(|table| !s.ids.contains_key(&table.id)) {
            s.known_values.forget(table.id);
        }
        self.version.fetch_add(1, AcqRel);
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn metadata_locks_that_nobody_has_are_forgotten() {
        let dict = Dictionary::default();
        let had: Vec<_> = (0..200).map(|i| dict.metadata_lock(&format!("t/had/{i}"))).collect();
        for i in 0..10_000 {
            dict.metadata_lock(&format!("t/once/{i}"));
            let len = dict.metadata_lock.lock().by_name.len();
            assert!(len <= 2 * had.len() + 1, "{len} locks kept");
        }
        assert!(
            had.iter()
                .enumerate()
                .all(|(i, lock)| Arc::ptr_eq(lock, &dict.metadata_lock(&format!("t/had/{i}")))),
            "one lock for a name"
        );
    }
}
