//! Definitions change: each statement is a transaction on the dictionary's rows, with the work on files and trees around it (DICT-1).
//!
//! The callers hold the metadata locks: the table's exclusively, the schema's shared (or exclusively, to create or drop it).
use super::record::{self, SchemaRecord, TableRecord, TreeRecord, make_table};
use super::table::{Index, Table};
use crate::btree::Tree;
use crate::canary::{Canary, planted};
use crate::engine::Engine;
use crate::lock::{KillFlag, Mode};
use crate::mtr::Mtr;
use crate::page::index::{self, Builder};
use crate::row::cursor::{Cursor, OnConflict, Read};
use crate::row::insert::duplicate;
use crate::trx::Trx;
use crate::{Error, PageId, PageNo, Result, SpaceId, TrxId, Try, space};
use redolith_types::{Collation, IndexDef, TableDef};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// Keys sorted in memory at a time while an index is built.
const SORT_BYTES: usize = 64 << 20;

impl Engine {
    /// The table, ready for use. None if there is none of that name.
    pub async fn table(&self, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        let Some(t) = self.dict.table(schema, name) else { return Ok(None) };
        if !t.counters_ready.load(Acquire) {
            self.ready_counters(&t).await?;
        }
        Ok(Some(t))
    }

    pub async fn create_schema(self: &Arc<Self>, name: &str, collation: Collation) -> Result<()> {
        if self.dict.schema(name).is_some() {
            return Err(Error::DatabaseExists(name.to_string()));
        }
        let r = SchemaRecord { collation };
        self.change_dictionary(&[Change::Put(record::schema_name(name), record::row(&self.dict_table, &record::schema_name(name), &r))])
            .await?;
        self.dict.put_schema(name, r);
        Ok(())
    }
    pub async fn alter_schema(self: &Arc<Self>, name: &str, collation: Collation) -> Result<()> {
        self.dict.require_schema(name)?;
        let r = SchemaRecord { collation };
        self.change_dictionary(&[Change::Put(record::schema_name(name), record::row(&self.dict_table, &record::schema_name(name), &r))])
            .await?;
        self.dict.put_schema(name, r);
        Ok(())
    }
    /// Drops the schema and its tables, all or none.
    pub async fn drop_schema(self: &Arc<Self>, name: &str) -> Result<usize> {
        self.dict.require_schema(name)?;
        let tables = self.dict.tables(name);
        let mut changes: Vec<Change> = tables.iter().map(|t| Change::Remove(record::table_name(name, &t.def.name))).collect();
        changes.push(Change::Remove(record::schema_name(name)));
        self.change_dictionary(&changes).await?;
        self.dict.remove_schema(name);
        self.discard(&tables).await?;
        Ok(tables.len())
    }

    /// Creates a table. `auto_increment`: the first value to generate.
    pub async fn create_table(self: &Arc<Self>, def: TableDef, auto_increment: u64) -> Result<Arc<Table>> {
        self.dict.require_schema(&def.schema)?;
        if self.dict.table(&def.schema, &def.name).is_some() {
            return Err(Error::TableExists(def.name.clone()));
        }
        let (r, made) = self.new_space(def, auto_increment).await?;
        let name = record::table_name(&r.def.schema, &r.def.name);
        let done = self.change_dictionary(&[Change::Put(name.clone(), record::row(&self.dict_table, &name, &r))]).await;
        self.enter(r, made, done).await
    }
    /// A file with an empty tree for each index.
    async fn new_space(&self, def: TableDef, auto_increment: u64) -> Result<(TableRecord, SpaceId)> {
        let hidden = !def.indexes.first().is_some_and(|i| i.primary);
        let n = def.indexes.len() + hidden as usize;
        let first = self.take_ids(n as u64 + 2).await?;
        let space =
            SpaceId(u32::try_from(first + 1).map_err(|_| Error::Unsupported("more than 4 thousand million objects were created".into()))?);
        let trees: Vec<TreeRecord> = (0..n).map(|i| TreeRecord { id: first + 2 + i as u64, root: 2 + i as PageNo }).collect();
        let roots: Vec<Builder> = trees.iter().map(|t| Builder::new(t.id, 0)).collect();
        let pages: Vec<_> = roots.iter().map(|b| b.page()).collect();
        let label = format!("{}.{}", def.schema, def.name);
        self.store.spaces.create(space, &label, &pages)?;
        Ok((TableRecord { id: first, space: space.0, trees, auto_increment, def, unfinished: Vec::new() }, space))
    }
    /// Enters a table whose record has been put, or removes its file if that failed.
    async fn enter(&self, r: TableRecord, made: SpaceId, done: Result<TrxId>) -> Result<Arc<Table>> {
        match done {
            Ok(since) => {
                let t = make_table(&self.dict, r, TrxId::NONE, |_| since);
                t.counters_ready.store(true, Release);
                self.dict.put_table(t.clone());
                Ok(t)
            }
            Err(e) => {
                self.discard_space(made).await?;
                Err(e)
            }
        }
    }
    /// Drops tables, all or none.
    pub async fn drop_tables(self: &Arc<Self>, tables: &[Arc<Table>]) -> Result<()> {
        let changes: Vec<Change> = tables.iter().map(|t| Change::Remove(record::table_name(&t.def.schema, &t.def.name))).collect();
        self.change_dictionary(&changes).await?;
        self.discard(tables).await
    }
    /// After the tables' records have gone, durably: forgets them and removes their files. What cannot be removed now is at the next start.
    async fn discard(&self, tables: &[Arc<Table>]) -> Result<()> {
        tables.iter().for_each(|t| self.dict.remove_table(t));
        let mut done = Ok(());
        for t in tables {
            done = done.and(self.discard_space(t.space).await);
        }
        done
    }
    pub(crate) async fn discard_space(&self, space: SpaceId) -> Result<()> {
        let log = &self.store.log;
        while let Some(lsn) = self.store.pool.drop_space(space, log.durable()) {
            log.flush_to(lsn).await;
        }
        self.store.spaces.remove(space)
    }
    /// Empties a table: it gets a new file.
    pub async fn truncate_table(self: &Arc<Self>, t: &Arc<Table>) -> Result<Arc<Table>> {
        let (r, made) = self.new_space(t.def.clone(), 1).await?;
        let name = record::table_name(&r.def.schema, &r.def.name);
        let done = self.change_dictionary(&[Change::Put(name.clone(), record::row(&self.dict_table, &name, &r))]).await;
        let new = self.enter(r, made, done).await?;
        self.discard_space(t.space).await?;
        Ok(new)
    }
    /// Renames tables one after the other, all or none: `(table, new schema, new name)`.
    pub async fn rename_tables(self: &Arc<Self>, renames: &[(Arc<Table>, String, String)]) -> Result<()> {
        let mut changes = Vec::new();
        let mut records = Vec::new();
        for (t, schema, name) in renames {
            self.dict.require_schema(schema)?;
            let mut r = t.record();
            (r.def.schema, r.def.name) = (schema.clone(), name.clone());
            let new = record::table_name(schema, name);
            changes.push(Change::Remove(record::table_name(&t.def.schema, &t.def.name)));
            records.push((new, r));
        }
        for (new, r) in &records {
            let replaced = renames.iter().any(|(t, ..)| record::table_name(&t.def.schema, &t.def.name) == *new);
            if !replaced && self.dict.table(&r.def.schema, &r.def.name).is_some() {
                return Err(Error::TableExists(r.def.name.clone()));
            }
            changes.push(Change::Put(new.clone(), record::row(&self.dict_table, new, r)));
        }
        self.change_dictionary(&changes).await?;
        for (t, ..) in renames {
            self.dict.remove_table(t);
        }
        for ((t, ..), (_, r)) in renames.iter().zip(records) {
            let new = make_table(&self.dict, r, t.numbered_since, |tree| made_by(t, tree, TrxId::NONE));
            copy_counters(t, &new);
            if let Some(s) = self.store.spaces.get(new.space) {
                s.set_label(&new.full_name());
            }
            self.dict.put_table(new);
        }
        Ok(())
    }
    /// Changes what is only in the definition (comments, names of indexes, visibility, the AUTO_INCREMENT start). The indexes stay the same ones.
    pub async fn redefine_table(self: &Arc<Self>, t: &Arc<Table>, def: TableDef, auto_increment: Option<u64>) -> Result<Arc<Table>> {
        let mut r = t.record();
        r.def = def;
        if let Some(n) = auto_increment {
            r.auto_increment = n;
        }
        let new = self.replace_record(t, r).await?;
        if let Some(n) = auto_increment {
            // It goes up only: no value below one that is there.
            new.auto_increment.store(n, Release);
            new.counters_ready.store(false, Release);
            self.save_counter(&new).await?;
            self.ready_counters(&new).await?;
        }
        Ok(new)
    }
    async fn replace_record(self: &Arc<Self>, t: &Arc<Table>, r: TableRecord) -> Result<Arc<Table>> {
        let name = record::table_name(&r.def.schema, &r.def.name);
        let trx = self.change_dictionary(&[Change::Put(name.clone(), record::row(&self.dict_table, &name, &r))]).await?;
        let same = t.indexes.iter().zip(&r.trees).all(|(ix, tree)| ix.id == tree.id) && r.trees.len() >= t.indexes.len();
        let new = make_table(&self.dict, r, if same { t.numbered_since } else { trx }, |tree| made_by(t, tree, trx));
        copy_counters(t, &new);
        self.dict.put_table(new.clone());
        Ok(new)
    }

    /// Adds secondary indexes, built from the rows that are there. `DuplicateKey` if a unique one finds two rows with one key.
    pub async fn create_indexes(self: &Arc<Self>, t: &Arc<Table>, defs: Vec<IndexDef>, kill: Arc<KillFlag>) -> Result<Arc<Table>> {
        self.wait_for_rollbacks().await?;
        let first = self.take_ids(defs.len() as u64).await?;
        let mut trees = Vec::new();
        for i in 0..defs.len() as u64 {
            match self.settled_in_time(|| new_root(&self.store, t.space, first + i)).await {
                Ok(root) => trees.push(TreeRecord { id: first + i, root }),
                Err(e) => {
                    self.free_trees(t.space, &trees).await?;
                    return Err(e);
                }
            }
        }
        // Until the indexes are in the definition, the record names their trees as unfinished: what a crash leaves of them is freed.
        let mut r = t.record();
        r.unfinished = trees.clone();
        let t = &self.replace_record(t, r.clone()).await?;
        r.unfinished.clear();
        r.trees.extend(&trees);
        r.def.indexes.extend(defs.clone());
        let plan = make_table(&self.dict, r.clone(), t.numbered_since, |_| TrxId::NONE);
        let mut built = Ok(());
        for (i, ix) in plan.indexes.iter().enumerate().skip(t.indexes.len()) {
            built = self.build(t, &plan, i, ix, kill.clone()).await;
            if built.is_err() {
                break;
            }
        }
        if let Err(e) = built {
            self.free_trees(t.space, &trees).await?;
            self.replace_record(t, t.record()).await?;
            return Err(e);
        }
        self.replace_record(t, r).await
    }
    async fn build(self: &Arc<Self>, t: &Arc<Table>, plan: &Table, no: usize, ix: &Index, kill: Arc<KillFlag>) -> Result<()> {
        let mut trx = self.begin(kill.clone());
        let mut rows = Cursor::new(t.clone(), 0, Vec::new(), None, false, Read::Newest);
        let (mut keys, mut bytes, mut more): (Vec<(Box<[u8]>, bool)>, usize, bool) = (Vec::new(), 0, true);
        let mut e = Vec::new();
        while more {
            more = rows.next(&mut trx).await?;
            if more {
                let row = rows.row();
                if ix.key.external_column(&plan.layout, row.stored).is_some() {
                    // Columns of a key are kept in the row, and this one is too long for that.
                    return Err(Error::RowTooLarge { size: row.stored.len(), max: index::max_value(row.key.len()) });
                }
                plan.entry_key(no, row.stored, row.key, &mut e);
                if e.len() > index::MAX_KEY {
                    return Err(Error::KeyTooLong { size: e.len(), max: index::MAX_KEY });
                }
                bytes += e.len() + 16;
                keys.push((e.as_slice().into(), ix.key.has_null(&plan.layout, row.stored)));
            }
            if bytes >= SORT_BYTES || !more {
                if kill.is_killed() {
                    return Err(Error::Interrupted);
                }
                keys.sort_unstable();
                self.add_sorted(plan, no, ix, &keys).await?;
                keys.clear();
                bytes = 0;
                self.host.yield_now().await;
            }
        }
        trx.rollback().await
    }
    async fn add_sorted(&self, plan: &Table, no: usize, ix: &Index, keys: &[(Box<[u8]>, bool)]) -> Result<()> {
        for (e, has_null) in keys {
            if ix.def.unique && !has_null {
                let (prefix, clustered) = e.split_at(ix.key.skip_columns(e, ix.columns));
                if self.settled(|| crate::row::entry::find_duplicate(&self.store, ix, prefix, clustered, |_| Ok(()))).await?.is_some() {
                    return Err(duplicate(plan, no));
                }
            }
            self.settled_in_time(|| crate::row::entry::add(&self.store, ix, e)).await?;
        }
        Ok(())
    }
    /// Drops secondary indexes by their numbers in the definition.
    pub async fn drop_indexes(self: &Arc<Self>, t: &Arc<Table>, numbers: &[usize]) -> Result<Arc<Table>> {
        self.wait_for_rollbacks().await?;
        let mut r = t.record();
        let gone: Vec<TreeRecord> = numbers.iter().map(|n| r.trees[t.index_no(*n)]).collect();
        let keep = |i: usize| !numbers.contains(&i);
        r.def.indexes = t.def.indexes.iter().enumerate().filter(|(i, _)| keep(*i)).map(|(_, d)| d.clone()).collect();
        r.trees.retain(|x| !gone.contains(x));
        r.unfinished = gone.clone();
        // Purge takes no metadata lock: it may be in one of these trees.
        let _held = self.hold_purge().await;
        let new = self.replace_record(t, r).await?;
        self.free_trees(t.space, &gone).await?;
        self.replace_record(&new, new.record()).await
    }

    /// At start: frees trees that no index has.
    pub(crate) async fn free_unfinished(self: &Arc<Self>) -> Result<()> {
        let list = std::mem::take(&mut *self.unfinished.lock());
        for r in list {
            self.free_trees(SpaceId(r.space), &r.unfinished).await?;
            if let Some(t) = self.dict.by_id(r.id) {
                self.replace_record(&t, t.record()).await?;
            }
        }
        Ok(())
    }
    /// Frees the pages of trees that nobody uses: level by level from the leaves, the root last, so that it can be begun again. It is never given up for lack of
    /// room in the log: like a rollback it waits.
    async fn free_trees(&self, space: SpaceId, trees: &[TreeRecord]) -> Result<()> {
        for tree in trees {
            let t = Tree::new(space, tree.root, tree.id);
            while !self.settled(|| free_leftmost(&self.store, &t)).await? {}
        }
        Ok(())
    }

    /// Makes changes of the dictionary's rows, durably, in one transaction; its id.
    async fn change_dictionary(self: &Arc<Self>, changes: &[Change]) -> Result<TrxId> {
        let mut trx = self.begin(KillFlag::new());
        let mut done = Ok(());
        for c in changes {
            done = self.change_row(&mut trx, c).await;
            if done.is_err() {
                break;
            }
        }
        if let Err(e) = done {
            trx.rollback().await?;
            return Err(e);
        }
        let id = trx.id();
        let ticket = trx.commit().await?;
        if !planted(Canary::FileGoesFirst) {
            ticket.durable().await;
        }
        Ok(id)
    }
    async fn change_row(&self, trx: &mut Trx, change: &Change) -> Result<()> {
        let (Change::Put(name, _) | Change::Remove(name)) = change;
        let mut key = Vec::new();
        let bytes = redolith_types::Value::Bytes(std::borrow::Cow::Borrowed(name));
        self.dict_table.clustered().key.encode_values(&[bytes], &mut key);
        let mut c = Cursor::point(self.dict_table.clone(), key, Read::Locking { mode: Mode::X, conflict: OnConflict::Wait });
        let there = c.next(trx).await?;
        match change {
            Change::Put(_, row) if there => trx.update(&self.dict_table, c.row(), row).await,
            Change::Put(_, row) => trx.insert(&self.dict_table, row).await,
            Change::Remove(_) if there => trx.delete(&self.dict_table, c.row()).await,
            Change::Remove(_) => Ok(()),
        }
    }
}

enum Change {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
}
/// The transaction that made a tree of table `t`: `now` if it is new.
fn made_by(t: &Table, tree: &TreeRecord, now: TrxId) -> TrxId {
    t.indexes.iter().find(|i| i.id == tree.id).map_or(now, |i| i.since)
}
fn copy_counters(from: &Table, to: &Table) {
    to.auto_increment.store(from.auto_increment.load(Acquire), Release);
    to.row_id.store(from.row_id.load(Acquire), Release);
    to.rows.store(from.rows.load(Acquire), Release);
    to.counters_ready.store(from.counters_ready.load(Acquire), Release);
}
fn new_root(store: &crate::mtr::Store, space: SpaceId, id: u64) -> Try<PageNo> {
    let mut m = Mtr::begin(store)?;
    let free = space::reserve(&mut m, space, 1, 0)?;
    let at = m.create(PageId { space, no: free.pages[0] })?;
    free.take(&mut m);
    m.init(at);
    Builder::new(id, 0).store(&mut m.patch(at));
    m.commit();
    Ok(free.pages[0])
}
/// Frees the leftmost leaf's page, or a node that has lost its children; true when the root has gone too.
fn free_leftmost(store: &crate::mtr::Store, t: &Tree) -> Try<bool> {
    let mut m = Mtr::begin_reserved(store)?;
    let mut parent = m.x(PageId { space: t.space, no: t.root })?;
    if !index::is_index(m.page(parent)) || index::index_id(m.page(parent)) != t.index {
        return Ok(true);
    }
    let mut child = None;
    while index::level(m.page(parent)) > 0 {
        let Some(first) = index::first_rec(m.page(parent)) else { break };
        let id = PageId { space: t.space, no: index::child(m.page(parent), first) };
        let c = m.x(id)?;
        if index::level(m.page(c)) == 0 || index::first_rec(m.page(c)).is_none() {
            child = Some(c);
            break;
        }
        parent = c;
    }
    let target = child.unwrap_or(parent);
    let id = m.id(target);
    let map = space::prepare_free(&mut m, id)?;
    if child.is_some() {
        let first = index::first_rec(m.page(parent)).expect("it has the child");
        let pos = index::search(m.page(parent), index::key(m.page(parent), first));
        index::remove(&mut m.patch(parent), pos);
    }
    space::free(&mut m, target, map);
    m.commit();
    Ok(child.is_none())
}
