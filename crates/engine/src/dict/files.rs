//! The files of tables: how they come and how they go.
//!
//! - TABLEFILE-1: a note in the redo log says that a file is being made or dropped
//!   (`note_files`), and is durable while the file has no record in the dictionary. With the note
//!   a start may delete a file that no table has.
//! - TABLEFILE-2: a dropped table's file is durably gone before its pages leave the buffer pool
//!   with changes that were not written. Else the checkpoint might pass changes that are in no
//!   file, and after a crash the start would find a file that is older than the redo log. If the
//!   file cannot be removed, its pages are written like all others.
//! - TABLEFILE-3: what a statement leaves to be removed is removed by a task, so a statement that
//!   ends in the middle leaves nothing.
use super::record::{TableRecord, TreeRecord};
use crate::canary::{Canary, planted};
use crate::engine::Engine;
use crate::mtr::Mtr;
use crate::page::index::Builder;
use crate::runtime::give_way;
use crate::sync::event::Event;
use crate::{CommitTicket, Error, Lsn, PageNo, Result, SpaceId};
use parking_lot::Mutex;
use redolith_types::TableDef;
use std::sync::Arc;

/// The files of one note. A frame of the redo log has room for many more.
const FILES_PER_NOTE: usize = 100;

/// The file of a table that is being made. The file goes unless it is kept.
#[must_use = "the file of a new table is kept or discarded"]
pub(super) struct NewFile {
    engine: Arc<Engine>,
    /// None once it is known what becomes of the file.
    space: Option<SpaceId>,
}
impl NewFile {
    /// The table has a durable record, or will have one.
    pub(super) fn keep(mut self) {
        self.space = None;
    }
    /// Removes the file.
    pub(super) async fn discard(mut self) -> Result<()> {
        let Some(space) = self.space else { return Ok(()) };
        let done = self.engine.discard_new(space).await;
        // Until here the task of `drop` would begin again.
        self.space = None;
        done
    }
}
impl Drop for NewFile {
    fn drop(&mut self) {
        let Some(space) = self.space.take() else { return };
        // The statement has ended in the middle.
        self.engine.spawn("discard", move |engine| async move {
            if let Err(e) = engine.discard_new(space).await {
                tracing::warn!("the file of a table that was not made stays: {e}");
            }
        });
    }
}

impl Engine {
    /// Makes a file with an empty tree for each index.
    pub(super) async fn new_file(
        self: &Arc<Self>,
        def: TableDef,
        auto_increment: u64,
    ) -> Result<(TableRecord, NewFile)> {
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
        // TABLEFILE-1
        let noted = self.note_files(&[space]).await?;
        self.store.log.flush_to(noted).await;
        self.store.spaces.create(space, &label, &pages)?;
        let (id, unfinished) = (first, Vec::new());
        Ok((
            TableRecord { id, space: space.0, trees, auto_increment, def, unfinished },
            NewFile { engine: self.clone(), space: Some(space) },
        ))
    }
    /// Notes in the redo log that the files of these spaces are being made or dropped
    /// (TABLEFILE-1).
    pub(super) async fn note_files(&self, spaces: &[SpaceId]) -> Result<Lsn> {
        self.retry_in_time(|| {
            let mut m = Mtr::begin_reserved(&self.store)?;
            spaces.iter().for_each(|s| m.note_file(*s));
            Ok(m.commit())
        })
        .await
    }
    /// As `note_files`, for any number of spaces. Returns the ends of the first and the last note.
    pub(super) async fn note_all_files(&self, spaces: &[SpaceId]) -> Result<(Lsn, Lsn)> {
        let (mut first, mut last) = (Lsn::MAX, Lsn(0));
        for some in spaces.chunks(FILES_PER_NOTE) {
            last = self.note_files(some).await?;
            first = first.min(last);
        }
        Ok((first, last))
    }
    /// Removes the files of tables that the dictionary has no more, when `ticket` says that this is
    /// durable. The notes of the files end at `noted` or later. Goes on if the future is dropped
    /// (TABLEFILE-3). The next start removes files that cannot be removed now, or sets them aside.
    pub(super) async fn discard_after(
        self: &Arc<Self>,
        ticket: Option<CommitTicket>,
        spaces: Vec<SpaceId>,
        noted: Lsn,
    ) -> Result<()> {
        if spaces.is_empty() {
            if let Some(ticket) = ticket {
                ticket.durable().await;
            }
            return Ok(());
        }
        let done = Arc::new((Mutex::new(None), Event::default()));
        let result = done.clone();
        self.spawn("discard", move |engine| async move {
            if let Some(ticket) = ticket
                && !planted(Canary::FileGoesFirst)
            {
                ticket.durable().await;
            }
            let discarded = engine.discard_all(&spaces, noted).await;
            if Arc::strong_count(&result) == 1
                && let Err(e) = &discarded
            {
                tracing::warn!("the file of a dropped table stays: {e}");
            }
            *result.0.lock() = Some(discarded);
            result.1.notify();
        });
        loop {
            let seen = done.1.seen();
            if let Some(discarded) = done.0.lock().take() {
                return discarded;
            }
            done.1.after(seen).await;
        }
    }
    /// Removes files of which the notes end at `noted` or later.
    pub(super) async fn discard_all(&self, spaces: &[SpaceId], noted: Lsn) -> Result<()> {
        let mut all = Ok(());
        let keep_first = |_, done| all = std::mem::replace(&mut all, Ok(())).and(done);
        self.discard_each(spaces, noted, keep_first).await;
        all
    }
    /// As `discard_all`; `done` gets what became of each file.
    pub(crate) async fn discard_each(
        &self,
        spaces: &[SpaceId],
        mut noted: Lsn,
        mut done: impl FnMut(SpaceId, Result<()>) + Send,
    ) {
        for (n, space) in spaces.iter().enumerate() {
            noted = self.note_if_passed(&spaces[n..], noted).await;
            done(*space, self.discard_space(*space).await);
        }
    }
    /// Removes the file of a table that was not made.
    async fn discard_new(&self, space: SpaceId) -> Result<()> {
        self.note_again(&[space]).await;
        self.discard_space(space).await
    }
    /// Notes files again if a checkpoint has passed their notes, of which the first ends at `noted`
    /// (TABLEFILE-1). The files that come last need theirs at once, too, because nothing else
    /// explains them until their turn. Returns the end of the first note.
    pub(crate) async fn note_if_passed(&self, spaces: &[SpaceId], noted: Lsn) -> Lsn {
        if self.store.log.checkpoint_lsn() >= noted {
            return self.note_again(spaces).await;
        }
        noted
    }
    /// Returns the end of the first note.
    pub(crate) async fn note_again(&self, spaces: &[SpaceId]) -> Lsn {
        match self.note_all_files(spaces).await {
            Ok((first, last)) => {
                self.store.log.flush_to(last).await;
                first
            }
            // A crash before the files are gone would leave files that nothing explains.
            Err(e) => {
                tracing::warn!("the redo log does not say that a file goes: {e}");
                Lsn::MAX
            }
        }
    }
    /// Removes a space: first its file, then its pages (TABLEFILE-2).
    pub(crate) async fn discard_space(&self, space: SpaceId) -> Result<()> {
        self.store.spaces.remove_file(space)?;
        self.forget_space(space).await;
        Ok(())
    }
    /// Forgets a space whose file is gone, and its pages.
    pub(crate) async fn forget_space(&self, space: SpaceId) {
        let (pool, log) = (&self.store.pool, &self.store.log);
        self.store.spaces.set_gone(space);
        loop {
            let mut forgetting = pool.begin_forgetting(space, log.durable());
            while forgetting.part() {
                give_way(&*self.runtime).await;
            }
            match forgetting.end() {
                Some(stays) => log.flush_to(stays).await,
                None => break,
            }
        }
        self.store.spaces.forget(space);
    }
}

#[cfg(all(test, not(model)))]
mod tests;
