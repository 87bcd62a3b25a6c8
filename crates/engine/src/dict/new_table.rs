//! A table that a transaction makes and fills: the table, its rows and the record for the binary
//! log commit together (CREATE TABLE .. SELECT). The table may take the place of another one, whose
//! rows it gets in a new form (ALTER TABLE).
//!
//! - NEWTABLE-1: the dictionary has the table's row, from the same transaction, before the first
//!   row of the table. So a start after a crash rolls the transaction back before it reads the
//!   dictionary, and finds in the row of the dictionary why the file exists.
//! - NEWTABLE-2: nobody but the transaction finds the table before [`NewTable::enter`], by name or
//!   by id. The transaction takes single rows back, such as one whose key is taken. When it is
//!   rolled back, or gives the table up, it passes over the rows, which go with the file.
//! - NEWTABLE-3: a replaced table keeps its file until the transaction has committed durably. Right
//!   before the commit, the redo log says that the file may go, so a start after a crash removes
//!   the file of whichever table the dictionary does not have.
//! - NEWTABLE-4: the secondary indexes of a new table may be built when it has all its rows
//!   ([`NewTable::build_later`], [`NewTable::build_indexes`]), and are built before the commit.
//!   Until then nobody knows whether a key of a unique index is taken.
//! - NEWTABLE-5: purge is held off from before the commit until the table is entered. It would not
//!   find the table of the transaction's undo log, and take the log for done: what the transaction
//!   itself has made obsolete would never be removed.
use super::ddl::Change;
use super::files::NewFile;
use super::histogram::{Histograms, kept};
use super::index_build::Building;
use super::record::{self, make_table};
use super::table::Table;
use crate::engine::Engine;
use crate::purge::{Held, hold_purge};
use crate::trx::Trx;
use crate::{CommitTicket, Error, Lsn, Result, SpaceId, TrxId};
use redolith_types::TableDef;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// A table that is being made. If it is dropped before the commit, its file goes; if it is dropped
/// after the commit, the table is entered.
pub struct NewTable {
    engine: Arc<Engine>,
    table: Arc<Table>,
    /// The table whose place it takes.
    replaces: Option<Arc<Table>>,
    /// The histograms that it keeps of that table.
    histograms: Histograms,
    /// Where the note ends that its file goes (NEWTABLE-3).
    noted: Lsn,
    state: State,
}
enum State {
    Filling(NewFile),
    /// NEWTABLE-5
    Committed {
        _held: Held<Arc<Engine>>,
    },
    /// Everybody sees the table, or nobody ever will.
    Done,
}

impl Engine {
    /// Makes a table in an open transaction, which fills it and commits. `auto_increment` is the
    /// first value to generate. The caller holds the metadata locks of a definition. If this fails,
    /// or the transaction does not commit, the caller rolls the transaction back.
    pub async fn begin_table(
        self: &Arc<Self>,
        trx: &mut Trx,
        def: TableDef,
        auto_increment: u64,
    ) -> Result<NewTable> {
        self.require_free_name(&def)?;
        self.make_in(trx, def, auto_increment, None, &[]).await
    }
    /// Like [`begin_table`](Self::begin_table), for a table that takes the place of another one,
    /// perhaps with another name. The caller holds the metadata locks of both names, and copies the
    /// rows that a consistent read finds: transactions that a crash has left open in the old table
    /// may not be rolled back yet. `columns` are the old and the new names of the columns whose
    /// values stay: they keep their histograms.
    pub async fn begin_replacement(
        self: &Arc<Self>,
        trx: &mut Trx,
        old: &Arc<Table>,
        def: TableDef,
        auto_increment: u64,
        columns: &[(String, String)],
    ) -> Result<NewTable> {
        if (&def.schema, &def.name) != (&old.def.schema, &old.def.name) {
            self.require_free_name(&def)?;
        }
        self.make_in(trx, def, auto_increment, Some(old.clone()), columns).await
    }
    fn require_free_name(&self, def: &TableDef) -> Result<()> {
        self.dict.require_schema(&def.schema)?;
        match self.dict.is_taken(&def.schema, &def.name) {
            true => Err(Error::TableExists(def.name.clone())),
            false => Ok(()),
        }
    }
    async fn make_in(
        self: &Arc<Self>,
        trx: &mut Trx,
        def: TableDef,
        auto_increment: u64,
        replaces: Option<Arc<Table>>,
        columns: &[(String, String)],
    ) -> Result<NewTable> {
        trx.ensure_id().await?;
        let since = trx.id();
        let (r, file) = self.new_file(def, auto_increment).await?;
        let name = record::table_name(&r.def.schema, &r.def.name);
        let row = record::table_row(&self.dict_table, &name, &r);
        let table = make_table(&self.dict, r, TrxId::NONE, |_| since);
        table.counters_ready.store(true, Release);
        trx.fills = Some(table.clone());
        let old = replaces.as_ref().map(|t| record::table_name(&t.def.schema, &t.def.name));
        let change = match &old {
            Some(old) if *old == name => Change::Put(name, row),
            _ => Change::Add(name, row),
        };
        let (mut histograms, mut moved) = (Histograms::new(), Vec::new());
        if let Some(old) = &replaces {
            let had = self.dict.histograms(old.id).unwrap_or_default();
            histograms = kept(&had, &table.def, columns);
            moved = self.move_histograms(old, table.id, &histograms);
            moved.extend(self.dict.without_statistics(old));
        }
        let state = State::Filling(file);
        let noted = Lsn::MAX;
        let new = NewTable { engine: self.clone(), table, replaces, histograms, noted, state };
        if let (Some(old), Change::Add(..)) = (old, &change) {
            self.change_row(trx, &Change::Remove(old)).await?;
        }
        self.change_row(trx, &change).await?;
        for change in &moved {
            self.change_row(trx, change).await?;
        }
        Ok(new)
    }
}

impl Trx {
    /// The statement that fills a new table has failed: nobody needs its rows any more.
    pub fn give_up_table(&mut self) {
        self.fills = None;
    }
}

impl NewTable {
    /// Commits the transaction (as [`Trx::commit_with`]), after which the table has to be entered.
    ///
    /// The redo log says right before that the replaced table's file may go (NEWTABLE-3): to fill
    /// the table may have taken many checkpoints, which forget what the redo log said before. From
    /// the commit on, the new file stays whatever becomes of the session.
    pub async fn commit(&mut self, trx: &mut Trx, record: Option<&[u8]>) -> Result<CommitTicket> {
        assert!(!self.table.entries_later.load(Acquire), "NEWTABLE-4: every row has its entries");
        // Purge may take its time to stop, and the note is to be young (NEWTABLE-3).
        let committed = State::Committed { _held: hold_purge(self.engine.clone()).await };
        if let Some(old) = &self.replaces {
            self.noted = self.engine.note_files(&[old.space]).await?;
        }
        let ticket = trx.commit_with(record).await?;
        self.engine.dict.changed_by(&ticket);
        if let State::Filling(file) = std::mem::replace(&mut self.state, committed) {
            file.keep();
        }
        Ok(ticket)
    }
    /// The table, for the transaction that fills it.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
    /// Leaves the entries of the rows in secondary indexes, if there are such indexes, to
    /// [`build_indexes`](Self::build_indexes). The table has no rows yet, and gets them by inserts
    /// only.
    pub fn build_later(&self) {
        self.table.entries_later.store(self.table.secondary().next().is_some(), Release);
    }
    /// Gives the rows their entries in the secondary indexes, if that was left for later. Fails
    /// with `DuplicateKey` if two rows have one key in a unique index.
    pub async fn build_indexes(&self, how: &Building) -> Result<()> {
        if self.table.entries_later.load(Acquire) {
            self.engine.fill_own_trees(&self.table, how).await?;
            self.table.entries_later.store(false, Release);
        }
        Ok(())
    }
    /// Shows the table to everybody: its transaction has committed durably. Then the file of the
    /// table goes whose place it takes. An error says that this file could not be removed.
    pub async fn enter(mut self) -> Result<()> {
        let old = self.show();
        let spaces = old.into_iter().collect();
        self.engine.discard_after(None, spaces, self.noted).await
    }
    /// Returns the space that is not needed any more.
    fn show(&mut self) -> Option<SpaceId> {
        // Purge goes on when this is dropped, at the end of the function (NEWTABLE-5).
        let state = std::mem::replace(&mut self.state, State::Done);
        let has_committed = matches!(state, State::Committed { .. });
        assert!(has_committed, "NEWTABLE-2: the transaction has committed");
        let old = self.replaces.take();
        self.engine.dict.set_histograms(self.table.id, std::mem::take(&mut self.histograms));
        self.engine.dict.replace_tables(old.as_deref().as_slice(), [self.table.clone()]);
        old.map(|old| old.space)
    }
    /// Removes the file: the transaction was rolled back.
    pub async fn discard(mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Filling(file) => file.discard().await,
            State::Committed { .. } | State::Done => Ok(()),
        }
    }
}

impl Drop for NewTable {
    fn drop(&mut self) {
        // The session is gone in the middle of its statement.
        if matches!(self.state, State::Committed { .. })
            && let Some(old) = self.show()
        {
            let (committed, noted) = (self.engine.store.log.tail(), self.noted);
            self.engine.spawn("discard", move |engine| async move {
                engine.store.log.flush_to(committed).await;
                if let Err(e) = engine.discard_all(&[old], noted).await {
                    tracing::warn!("the file of a table that was replaced stays: {e}");
                }
            });
        }
    }
}
