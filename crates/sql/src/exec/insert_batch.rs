//! Rows of an INSERT that go to the engine together, because a leaf takes many rows at once for
//! little more than it takes one.
//!
//! Rows wait here while a statement makes its next rows, if the statement ends at the first row
//! that fails: so not with IGNORE, REPLACE and ON DUPLICATE KEY UPDATE, which have to know for each
//! row whether its key is taken.
//!
//! - ROWBATCH-1: before a statement ends or fails because of a later row, the waiting rows are
//!   inserted. So the first row that fails is the one whose error the client gets, and the warnings
//!   are those of the rows up to it.
//! - ROWBATCH-2: a batch has at most [`MOST_ROWS`] rows and [`MOST_BYTES`] and one row more. A row
//!   that is long goes in by itself, because it is in the account of memory.
use super::ExecContext;
use super::auto_increment::CounterLock;
use super::duplicate_entry::duplicate_entry;
use super::insert::Work;
use super::long_rows::LONG_ROW;
use crate::error::{Result, SqlError};
use crate::plan::{InsertPlan, OnDuplicate};
use redolith_engine::row::batch::RowBatch;
use redolith_engine::{Error as EngineError, Trx};

/// The most rows and bytes of a batch, in which several leaves' rows fit.
const MOST_ROWS: usize = 1024;
const MOST_BYTES: usize = 64 << 10;

/// The rows of a statement that are made and not yet inserted.
#[derive(Default)]
pub(super) struct Pending {
    rows: RowBatch,
    notes: Vec<Note>,
}
/// What the statement has to know of a row when it is inserted.
struct Note {
    /// The AUTO_INCREMENT value, and whether it is generated.
    number: Option<(u64, bool)>,
    /// The number of warnings so far.
    warnings: u64,
}
impl Pending {
    /// A place for rows of this statement, if they may wait.
    pub(super) fn of(plan: &InsertPlan) -> Option<Box<Pending>> {
        let waits = matches!(plan.on_duplicate, OnDuplicate::Error)
            && !plan.ignore
            && Trx::takes_batches(plan.table.engine());
        waits.then(Box::default)
    }
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    pub(super) fn memory(&self) -> usize {
        self.rows.memory() + self.notes.capacity() * size_of::<Note>()
    }
}

impl Work<'_> {
    /// Whether the row may wait. Where the AUTO-INC lock is taken for each row, it may not.
    pub(super) fn takes(&self, cx: &ExecContext<'_>, payload: &[u8]) -> bool {
        self.pending.is_some()
            && payload.len() <= LONG_ROW
            && cx.env.settings.auto_increment_lock == CounterLock::Never
    }
    pub(super) fn add_pending(&mut self, cx: &ExecContext<'_>, payload: &[u8]) {
        let Some(pending) = &mut self.pending else { return };
        if let Some((given, false)) = self.auto.current {
            self.auto.waiting = self.auto.waiting.max(given);
        }
        pending.rows.push(payload);
        pending
            .notes
            .push(Note { number: self.auto.current, warnings: cx.env.session.warnings.count() });
    }
    pub(super) fn has_enough_pending(&self) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|p| p.rows.len() >= MOST_ROWS || p.rows.bytes() >= MOST_BYTES)
    }
    /// Inserts the rows that wait (ROWBATCH-1).
    pub(super) async fn insert_pending(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        match self.pending.take_if(|p| !p.is_empty()) {
            Some(pending) => Box::pin(self.insert_these(cx, pending)).await,
            None => Ok(()),
        }
    }
    async fn insert_these(
        &mut self,
        cx: &mut ExecContext<'_>,
        mut pending: Box<Pending>,
    ) -> Result<()> {
        assert!(
            pending.rows.len() <= MOST_ROWS && pending.rows.bytes() <= MOST_BYTES + LONG_ROW,
            "ROWBATCH-2"
        );
        let info = &self.plan.table;
        let table = info.engine();
        let done = cx.trx.insert_batch(table, &mut pending.rows).await;
        let inserted = done.as_ref().map_or_else(|(n, _)| *n, |()| pending.rows.len());
        cx.scratch.handlers.write += inserted as u64 + done.is_err() as u64;
        cx.trx.rows.inserted += inserted as u64;
        for (n, note) in pending.notes[..inserted].iter().enumerate() {
            if let Some(log) = &mut cx.log {
                log.inserted(info, pending.rows.payload(n), &mut cx.env.session.memory)?;
            }
            self.inserted(table, note.number);
        }
        if let Err((n, error)) = done {
            // The rows behind the one that failed count as never made.
            cx.env.session.warnings.cut_to(pending.notes[n].warnings);
            return Err(match error {
                EngineError::DuplicateKey { index_no, .. } => {
                    duplicate_entry(info, index_no, pending.rows.payload(n))
                }
                other => other.into(),
            });
        }
        self.auto.waiting = 0;
        pending.rows.clear();
        pending.notes.clear();
        self.pending = Some(pending);
        Ok(())
    }
    /// The error of a statement whose present row has failed with `error`: that of a waiting row,
    /// if one fails, too.
    pub(super) async fn fails_with(
        &mut self,
        cx: &mut ExecContext<'_>,
        error: SqlError,
    ) -> SqlError {
        self.insert_pending(cx).await.err().unwrap_or(error)
    }
}
