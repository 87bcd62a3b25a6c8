//! DDL: each statement is one transaction on the dictionary's rows, with the work on files and
//! trees around it (DICT-1).
//!
//! The dictionary in memory changes in the moment of the commit, before the commit is durable. So a
//! future that is dropped while it waits leaves both alike. Nobody can do anything with the change
//! that becomes durable before the change itself: its commit is later in the redo log.
//!
//! The record that a statement's function may get travels with the commit of that transaction
//! ([`crate::commit_stream`]).
//!
//! The callers hold the metadata locks: `Exclusive` on the table, and `Read` on its schema, or
//! `Exclusive` to create or drop the schema.
use super::files::NewFile;
use super::histogram::{Histograms, kept_in_place};
use super::record::{self, SchemaRecord, TableRecord, TreeRecord, make_table};
use super::table::Table;
use super::view::View;
use crate::engine::Engine;
use crate::lock::{KillFlag, Mode};
use crate::row::cursor::{Cursor, OnConflict, Read};
use crate::trx::Trx;
use crate::{CommitTicket, Error, Lsn, Result, SpaceId, TrxId};
use hashbrown::HashSet;
use redolith_types::{Collation, TableDef};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

impl Engine {
    /// The table, ready for use; `None` if there is no table of that name.
    pub async fn table(&self, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        loop {
            let Some(t) = self.dict.table(schema, name) else { return Ok(None) };
            let ready = self.open_table(&t).await;
            // The caller need not hold a metadata lock, so the file may be gone meanwhile (DICT-2).
            if !t.dropped.load(Acquire) {
                return ready.map(|()| Some(t));
            }
        }
    }
    /// Makes the table's counters ready if they are not.
    pub(super) async fn open_table(&self, t: &Table) -> Result<()> {
        match t.counters_ready.load(Acquire) {
            true => Ok(()),
            false => self.ready_counters(t).await,
        }
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
        let key = record::schema_name(name);
        let row = record::schema_row(&self.dict_table, &key, &r);
        let put = |_| self.dict.put_schema(name, r);
        self.change_dictionary(&[Change::Put(key, row)], record, put).await
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
        let key = record::schema_name(name);
        let row = record::schema_row(&self.dict_table, &key, &r);
        let put = |_| self.dict.put_schema(name, r);
        self.change_dictionary(&[Change::Put(key, row)], record, put).await
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
        changes.extend(tables.iter().flat_map(|t| self.dict.without_values(t)));
        changes.extend(views.iter().map(|v| Change::Remove(v.key())));
        changes.push(Change::Remove(record::schema_name(name)));
        let spaces: Vec<SpaceId> = tables.iter().map(|t| t.space).collect();
        let (noted, _) = self.note_all_files(&spaces).await?;
        let gone = |_| {
            tables.iter().for_each(|t| self.dict.remove_table(t));
            self.dict.remove_schema(name);
            self.dict.replace_views(&views, Vec::new());
        };
        let ((), ticket) = self.commit_changes(&changes, record, gone).await?;
        self.discard_after(Some(ticket), spaces, noted).await?;
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
        let (r, file) = self.new_file(def, auto_increment).await?;
        let (new, ticket) = self.enter(r, file, Change::Add, None, record, |now| now).await?;
        ticket.durable().await;
        Ok(new)
    }
    /// Commits the record of a table whose file has been made, and with that enters the table. If
    /// this fails, the file goes. `put` makes the change of the dictionary's row. The table gets
    /// the histograms of the one that it `replaces`. `since` says from the transaction's number
    /// which views see the table's trees.
    pub(super) async fn enter(
        self: &Arc<Self>,
        r: TableRecord,
        file: NewFile,
        put: impl FnOnce(Vec<u8>, Vec<u8>) -> Change,
        replaces: Option<&Table>,
        record: Option<Vec<u8>>,
        since: impl FnOnce(TrxId) -> TrxId,
    ) -> Result<(Arc<Table>, CommitTicket)> {
        let name = record::table_name(&r.def.schema, &r.def.name);
        let row = record::table_row(&self.dict_table, &name, &r);
        let mut changes = vec![put(name, row)];
        let (id, mut histograms) = (r.id, Histograms::new());
        if let Some(old) = replaces {
            let had = self.dict.histograms(old.id).unwrap_or_default();
            histograms = kept_in_place(&had, &old.def, &r.def);
            changes.extend(self.move_histograms(old, id, &histograms));
            changes.extend(self.dict.without_statistics(old));
        }
        let entered = |now| {
            let since = since(now);
            let t = make_table(&self.dict, r, TrxId::NONE, |_| since);
            t.counters_ready.store(true, Release);
            self.dict.set_histograms(id, histograms);
            self.dict.put_table(t.clone());
            t
        };
        match self.commit_changes(&changes, record, entered).await {
            Ok(entered) => {
                file.keep();
                Ok(entered)
            }
            Err(e) => {
                file.discard().await?;
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
        let mut changes: Vec<Change> = tables
            .iter()
            .map(|t| Change::Remove(record::table_name(&t.def.schema, &t.def.name)))
            .collect();
        changes.extend(tables.iter().flat_map(|t| self.dict.without_values(t)));
        let spaces: Vec<SpaceId> = tables.iter().map(|t| t.space).collect();
        let (noted, _) = self.note_all_files(&spaces).await?;
        let gone = |_| tables.iter().for_each(|t| self.dict.remove_table(t));
        let ((), ticket) = self.commit_changes(&changes, record, gone).await?;
        self.discard_after(Some(ticket), spaces, noted).await
    }
    /// Empties a table by giving it a new file.
    pub async fn truncate_table(
        self: &Arc<Self>,
        t: &Arc<Table>,
        record: Option<Vec<u8>>,
    ) -> Result<Arc<Table>> {
        let (r, file) = self.new_file(t.def.clone(), 1).await?;
        // To make the file takes long. A checkpoint that passed the note before the commit would
        // leave nothing that explains the old file.
        let noted = self.note_files(&[t.space]).await?;
        let (new, ticket) = self.enter(r, file, Change::Put, Some(t), record, |now| now).await?;
        self.discard_after(Some(ticket), vec![t.space], noted).await?;
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
        let old_tables =
            renames.iter().map(|(t, ..)| record::table_name(&t.def.schema, &t.def.name));
        let replaced: HashSet<Vec<u8>> =
            old_tables.chain(views.iter().map(|(v, ..)| v.key())).collect();
        let mut renamed_views = Vec::with_capacity(views.len());
        for (view, schema, name) in views {
            self.dict.require_schema(schema)?;
            let mut def = view.def.clone();
            (def.def.schema, def.def.name) = (schema.clone(), name.clone());
            let new = record::table_name(schema, name);
            if !replaced.contains(&new) && self.dict.is_taken(schema, name) {
                return Err(Error::TableExists(name.clone()));
            }
            let row = record::view_row(&self.dict_table, &new, &def);
            changes.push(Change::Add(new, row));
            renamed_views.push(View::new(&self.dict, def));
        }
        for (new, r) in &records {
            if !replaced.contains(new) && self.dict.is_taken(&r.def.schema, &r.def.name) {
                return Err(Error::TableExists(r.def.name.clone()));
            }
            changes.push(Change::Add(new.clone(), record::table_row(&self.dict_table, new, r)));
        }
        let renamed = |_| {
            let renamed = renames.iter().zip(records).map(|((t, ..), (_, r))| {
                let new = make_table(&self.dict, r, t.numbered_since, |tree| {
                    made_by(t, tree, TrxId::NONE)
                });
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
        };
        self.change_dictionary(&changes, record, renamed).await
    }
    /// Makes changes of the dictionary's rows durably, in one transaction. `apply` makes them in
    /// memory, and gets the transaction's id.
    pub(super) async fn change_dictionary<T>(
        self: &Arc<Self>,
        changes: &[Change],
        record: Option<Vec<u8>>,
        apply: impl FnOnce(TrxId) -> T,
    ) -> Result<T> {
        let (applied, ticket) = self.commit_changes(changes, record, apply).await?;
        ticket.durable().await;
        Ok(applied)
    }
    /// As [`change_dictionary`](Self::change_dictionary), without the wait until the changes are
    /// durable.
    pub(super) async fn commit_changes<T>(
        self: &Arc<Self>,
        changes: &[Change],
        record: Option<Vec<u8>>,
        apply: impl FnOnce(TrxId) -> T,
    ) -> Result<(T, CommitTicket)> {
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
        // Nothing waits between the commit and `apply`.
        let ticket = trx.commit_with(record.as_deref()).await?;
        self.dict.changed_by(&ticket);
        Ok((apply(id), ticket))
    }
    /// Waits until all that the dictionary says is durable.
    pub async fn definitions_durable(&self) {
        let changed = Lsn(self.dict.changed_to.load(Acquire));
        if changed > self.store.log.durable() {
            self.store.log.flush_to(changed).await;
        }
    }
    pub(super) async fn change_row(&self, trx: &mut Trx, change: &Change) -> Result<()> {
        let (Change::Put(name, _) | Change::Add(name, _) | Change::Remove(name)) = change;
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
            Change::Add(name, _) if there => Err(Error::TableExists(record::object_name(name))),
            Change::Put(_, row) | Change::Add(_, row) => trx.insert(&self.dict_table, row).await,
            Change::Remove(_) if there => trx.delete(&self.dict_table, c.row()).await,
            Change::Remove(_) => Ok(()),
        }
    }
}

/// A change of the dictionary's rows: the name of a row, and the row.
pub(super) enum Change {
    /// The row may have the name already.
    Put(Vec<u8>, Vec<u8>),
    /// No row has the name. The metadata locks see to that; if they should fail, an error is better
    /// than the loss of another table's record.
    Add(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
}
/// The transaction that made a tree of table `t`: `now` if it is new.
pub(super) fn made_by(t: &Table, tree: &TreeRecord, now: TrxId) -> TrxId {
    t.indexes.iter().find(|i| i.id == tree.id).map_or(now, |i| i.since)
}
pub(super) fn copy_counters(from: &Table, to: &Table) {
    // This is read first: `ready_counters` may be at work on the old table, and what is copied
    // before it ends is not ready.
    let ready = from.counters_ready.load(Acquire);
    to.auto_increment.store(from.auto_increment.load(Acquire), Release);
    to.row_id.store(from.row_id.load(Acquire), Release);
    to.rows.store(from.rows.load(Acquire), Release);
    to.changes.store(from.changes.load(Acquire), Release);
    to.counters_ready.store(ready, Release);
}
