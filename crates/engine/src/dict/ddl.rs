//! DDL: each statement is one transaction on the dictionary's rows, with the work on files and
//! trees around it (DICT-1).
//!
//! The record that a statement's function may get travels with the commit of that transaction
//! ([`crate::commit_stream`]).
//!
//! The callers hold the metadata locks: `Exclusive` on the table, and `Read` on its schema, or
//! `Exclusive` to create or drop the schema.
use super::record::{self, SchemaRecord, TableRecord, TreeRecord, make_table};
use super::table::Table;
use super::view::View;
use crate::canary::{Canary, planted};
use crate::engine::Engine;
use crate::lock::{KillFlag, Mode};
use crate::mtr::Mtr;
use crate::page::index::Builder;
use crate::row::cursor::{Cursor, OnConflict, Read};
use crate::trx::Trx;
use crate::{Error, Lsn, PageNo, Result, SpaceId, TrxId};
use redolith_types::{Collation, TableDef};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

impl Engine {
    /// The table, ready for use; `None` if there is no table of that name.
    pub async fn table(&self, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        let Some(t) = self.dict.table(schema, name) else { return Ok(None) };
        if !t.counters_ready.load(Acquire) {
            self.ready_counters(&t).await?;
        }
        Ok(Some(t))
    }

    /// Makes a schema. `DatabaseExists` if there is one of this name.
    pub async fn create_schema(
        self: &Arc<Self>,
        name: &str,
        collation: Collation,
        record: Option<Vec<u8>>,
    ) -> Result<()> {
        if self.dict.schema(name).is_some() {
            return Err(Error::DatabaseExists(name.to_string()));
        }
        let r = SchemaRecord { collation };
        self.change_dictionary(
            &[Change::Put(
                record::schema_name(name),
                record::schema_row(&self.dict_table, &record::schema_name(name), &r),
            )],
            record,
        )
        .await?;
        self.dict.put_schema(name, r);
        Ok(())
    }
    /// Changes the default collation of a schema.
    pub async fn alter_schema(
        self: &Arc<Self>,
        name: &str,
        collation: Collation,
        record: Option<Vec<u8>>,
    ) -> Result<()> {
        self.dict.require_schema(name)?;
        let r = SchemaRecord { collation };
        self.change_dictionary(
            &[Change::Put(
                record::schema_name(name),
                record::schema_row(&self.dict_table, &record::schema_name(name), &r),
            )],
            record,
        )
        .await?;
        self.dict.put_schema(name, r);
        Ok(())
    }
    /// Drops the schema with its tables and views, all or none. Returns their number.
    pub async fn drop_schema(
        self: &Arc<Self>,
        name: &str,
        record: Option<Vec<u8>>,
    ) -> Result<usize> {
        self.dict.require_schema(name)?;
        let (tables, views) = (self.dict.tables(name), self.dict.views(name));
        let mut changes: Vec<Change> =
            tables.iter().map(|t| Change::Remove(record::table_name(name, &t.def.name))).collect();
        changes.extend(views.iter().map(|v| Change::Remove(v.key())));
        changes.push(Change::Remove(record::schema_name(name)));
        self.note_tables(&tables).await?;
        self.change_dictionary(&changes, record).await?;
        self.dict.remove_schema(name);
        self.dict.replace_views(&views, Vec::new());
        self.discard(&tables).await?;
        Ok(tables.len() + views.len())
    }

    /// Creates a table. `auto_increment` is the first value to generate.
    pub async fn create_table(
        self: &Arc<Self>,
        def: TableDef,
        auto_increment: u64,
        record: Option<Vec<u8>>,
    ) -> Result<Arc<Table>> {
        self.dict.require_schema(&def.schema)?;
        if self.dict.is_taken(&def.schema, &def.name) {
            return Err(Error::TableExists(def.name.clone()));
        }
        let (r, made) = self.new_space(def, auto_increment).await?;
        let name = record::table_name(&r.def.schema, &r.def.name);
        let done = self
            .change_dictionary(
                &[Change::Put(name.clone(), record::table_row(&self.dict_table, &name, &r))],
                record,
            )
            .await;
        self.enter(r, made, done).await
    }
    /// Makes a file with an empty tree for each index.
    pub(super) async fn new_space(
        &self,
        def: TableDef,
        auto_increment: u64,
    ) -> Result<(TableRecord, SpaceId)> {
        let hidden = !def.indexes.first().is_some_and(|i| i.primary);
        let n = def.indexes.len() + hidden as usize;
        let first = self.take_ids(n as u64 + 2).await?;
        let space = SpaceId(u32::try_from(first + 1).map_err(|_| {
            Error::Unsupported("more than 4 thousand million objects were created".into())
        })?);
        let trees: Vec<TreeRecord> = (0..n)
            .map(|i| TreeRecord { id: first + 2 + i as u64, root: 2 + i as PageNo })
            .collect();
        let roots: Vec<Builder> = trees.iter().map(|t| Builder::new(t.id, 0)).collect();
        let pages: Vec<_> = roots.iter().map(|b| b.page()).collect();
        let label = format!("{}.{}", def.schema, def.name);
        // The note must be durable before the file exists. Otherwise a crash could leave a file
        // without an explanation in the redo log.
        let noted = self.note_files(&[space]).await?;
        self.store.log.flush_to(noted).await;
        self.store.spaces.create(space, &label, &pages)?;
        Ok((
            TableRecord {
                id: first,
                space: space.0,
                trees,
                auto_increment,
                def,
                unfinished: Vec::new(),
            },
            space,
        ))
    }
    /// Enters a table whose record has been put, or removes its file if that failed.
    pub(super) async fn enter(
        &self,
        r: TableRecord,
        made: SpaceId,
        done: Result<TrxId>,
    ) -> Result<Arc<Table>> {
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
    pub async fn drop_tables(
        self: &Arc<Self>,
        tables: &[Arc<Table>],
        record: Option<Vec<u8>>,
    ) -> Result<()> {
        let changes: Vec<Change> = tables
            .iter()
            .map(|t| Change::Remove(record::table_name(&t.def.schema, &t.def.name)))
            .collect();
        self.note_tables(tables).await?;
        self.change_dictionary(&changes, record).await?;
        self.discard(tables).await
    }
    /// Forgets tables whose records have gone durably, and removes their files. The next start
    /// removes files that cannot be removed now.
    async fn discard(&self, tables: &[Arc<Table>]) -> Result<()> {
        tables.iter().for_each(|t| self.dict.remove_table(t));
        let mut done = Ok(());
        for t in tables {
            done = done.and(self.discard_space(t.space).await);
        }
        done
    }
    pub(crate) async fn discard_space(&self, space: SpaceId) -> Result<()> {
        self.forget_space(space).await;
        self.store.spaces.remove(space)
    }
    /// Removes the pages of a space from the buffer pool. The space's file keeps its content.
    pub(crate) async fn forget_space(&self, space: SpaceId) {
        let log = &self.store.log;
        while let Some(lsn) = self.store.pool.drop_space(space, log.durable()) {
            log.flush_to(lsn).await;
        }
    }
    async fn note_tables(&self, tables: &[Arc<Table>]) -> Result<()> {
        let spaces: Vec<SpaceId> = tables.iter().map(|t| t.space).collect();
        // A redo log frame has room for thousands of notes.
        for some in spaces.chunks(1000) {
            self.note_files(some).await?;
        }
        Ok(())
    }
    /// Notes in the redo log that the files of these spaces are being made or dropped. After that,
    /// a start may delete the files if no table has them.
    pub(super) async fn note_files(&self, spaces: &[SpaceId]) -> Result<Lsn> {
        self.retry_in_time(|| {
            let mut m = Mtr::begin_reserved(&self.store)?;
            spaces.iter().for_each(|s| m.note_file(*s));
            Ok(m.commit())
        })
        .await
    }
    /// Empties a table by giving it a new file.
    pub async fn truncate_table(
        self: &Arc<Self>,
        t: &Arc<Table>,
        record: Option<Vec<u8>>,
    ) -> Result<Arc<Table>> {
        self.note_files(&[t.space]).await?;
        let (r, made) = self.new_space(t.def.clone(), 1).await?;
        let name = record::table_name(&r.def.schema, &r.def.name);
        let done = self
            .change_dictionary(
                &[Change::Put(name.clone(), record::table_row(&self.dict_table, &name, &r))],
                record,
            )
            .await;
        let new = self.enter(r, made, done).await?;
        self.discard_space(t.space).await?;
        Ok(new)
    }
    /// Renames tables and views one after the other, all or none. A rename is `(table, new schema,
    /// new name)`.
    pub async fn rename_tables(
        self: &Arc<Self>,
        renames: &[(Arc<Table>, String, String)],
        views: &[(Arc<View>, String, String)],
        record: Option<Vec<u8>>,
    ) -> Result<()> {
        let mut changes = Vec::new();
        let mut records = Vec::new();
        // A view's new name may be the old one of a table, so all old names go first.
        changes.extend(views.iter().map(|(v, ..)| Change::Remove(v.key())));
        for (t, schema, name) in renames {
            self.dict.require_schema(schema)?;
            let mut r = t.record();
            r.def.rename(schema, name);
            let new = record::table_name(schema, name);
            changes.push(Change::Remove(record::table_name(&t.def.schema, &t.def.name)));
            records.push((new, r));
        }
        let replaced = |new: &Vec<u8>| {
            let mut tables = renames.iter().map(|(t, ..)| &t.def);
            tables.any(|def| record::table_name(&def.schema, &def.name) == *new)
                || views.iter().any(|(v, ..)| v.key() == *new)
        };
        let mut renamed_views = Vec::with_capacity(views.len());
        for (view, schema, name) in views {
            self.dict.require_schema(schema)?;
            let mut def = view.def.clone();
            (def.def.schema, def.def.name) = (schema.clone(), name.clone());
            let new = record::table_name(schema, name);
            if !replaced(&new) && self.dict.is_taken(schema, name) {
                return Err(Error::TableExists(name.clone()));
            }
            let row = record::view_row(&self.dict_table, &new, &def);
            changes.push(Change::Put(new, row));
            renamed_views.push(View::new(&self.dict, def));
        }
        for (new, r) in &records {
            if !replaced(new) && self.dict.is_taken(&r.def.schema, &r.def.name) {
                return Err(Error::TableExists(r.def.name.clone()));
            }
            changes.push(Change::Put(new.clone(), record::table_row(&self.dict_table, new, r)));
        }
        self.change_dictionary(&changes, record).await?;
        let renamed = renames.iter().zip(records).map(|((t, ..), (_, r))| {
            let new =
                make_table(&self.dict, r, t.numbered_since, |tree| made_by(t, tree, TrxId::NONE));
            copy_counters(t, &new);
            if let Some(s) = self.store.spaces.get(new.space) {
                s.set_label(&new.full_name());
            }
            new
        });
        let renamed: Vec<_> = renamed.collect();
        let old: Vec<&Table> = renames.iter().map(|(t, ..)| &**t).collect();
        self.dict.replace_tables(&old, renamed);
        if !views.is_empty() {
            let old: Vec<Arc<View>> = views.iter().map(|(v, ..)| v.clone()).collect();
            self.dict.replace_views(&old, renamed_views);
        }
        Ok(())
    }
    /// Makes changes of the dictionary's rows durably, in one transaction. Returns the
    /// transaction's id.
    pub(super) async fn change_dictionary(
        self: &Arc<Self>,
        changes: &[Change],
        record: Option<Vec<u8>>,
    ) -> Result<TrxId> {
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
        let ticket = trx.commit_with(record.as_deref()).await?;
        if !planted(Canary::FileGoesFirst) {
            ticket.durable().await;
        }
        Ok(id)
    }
    pub(super) async fn change_row(&self, trx: &mut Trx, change: &Change) -> Result<()> {
        let (Change::Put(name, _) | Change::Remove(name)) = change;
        let mut key = Vec::new();
        let bytes = redolith_types::Value::Bytes(std::borrow::Cow::Borrowed(name));
        self.dict_table.clustered().key.encode_values(&[bytes], &mut key);
        let mut c = Cursor::point(
            self.dict_table.clone(),
            key,
            Read::Locking { mode: Mode::X, conflict: OnConflict::Wait },
        );
        let there = c.next(trx).await?;
        match change {
            Change::Put(_, row) if there => trx.update(&self.dict_table, c.row(), row).await,
            Change::Put(_, row) => trx.insert(&self.dict_table, row).await,
            Change::Remove(_) if there => trx.delete(&self.dict_table, c.row()).await,
            Change::Remove(_) => Ok(()),
        }
    }
}

pub(super) enum Change {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
}
/// The transaction that made a tree of table `t`: `now` if it is new.
pub(super) fn made_by(t: &Table, tree: &TreeRecord, now: TrxId) -> TrxId {
    t.indexes.iter().find(|i| i.id == tree.id).map_or(now, |i| i.since)
}
pub(super) fn copy_counters(from: &Table, to: &Table) {
    to.auto_increment.store(from.auto_increment.load(Acquire), Release);
    to.row_id.store(from.row_id.load(Acquire), Release);
    to.rows.store(from.rows.load(Acquire), Release);
    to.counters_ready.store(from.counters_ready.load(Acquire), Release);
}
