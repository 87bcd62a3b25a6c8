//! Late rows: those that come when the memory for what a statement collects is used. They are
//! sorted, in a temporary file if they are many, and read when all rows have come.
use super::scan::check_killed;
use super::{Env, ExecContext, sorting};
use crate::error::Result;
use redolith_engine::sort::Sorter;

/// The eighths of the statement's memory up to which groups and keys are in memory.
pub const ROOM: usize = 3;

/// The sorter of late rows, with what the statement is charged for it.
#[derive(Default)]
pub struct LateSorter {
    pub rows: Sorter,
    charged: usize,
}
impl LateSorter {
    /// Takes a row. The caller calls [`Self::charge`] when it has released its own charges.
    pub fn push(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        Ok(self.rows.push(key, write)?)
    }
    pub fn charge(&mut self, env: &mut Env<'_>) -> Result<()> {
        env.keep(&mut self.charged, self.rows.memory())
    }
    /// Late rows take half as much memory as the sort of a result, which may be there, too.
    pub fn is_large(&self, env: &Env<'_>) -> bool {
        self.rows.bytes() >= env.spill_at() / 2
    }
    /// Moves the rows to a temporary file if they have become many.
    pub async fn spill(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        if !self.is_large(&cx.env) {
            return Ok(());
        }
        sorting::spill(cx, &mut self.rows, &mut self.charged).await
    }
    /// All rows have come. The last ones go to the file, too, if there is one: the memory is for
    /// those that read them.
    pub async fn end(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        if self.rows.is_in_file() && self.rows.bytes() > 0 {
            sorting::spill(cx, &mut self.rows, &mut self.charged).await?;
        }
        self.rows.shrink();
        self.charge(&mut cx.env)
    }
    /// Sorts the rows, after [`Self::end`].
    pub async fn sort(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        sorting::sort(cx, &mut self.rows, &mut self.charged).await
    }
    /// Gives the memory and the file back.
    pub fn free(&mut self, env: &mut Env<'_>) -> Result<()> {
        if self.rows.is_in_file() {
            // To free a large file takes long.
            env.be_heavy();
        }
        self.rows = Sorter::default();
        env.keep(&mut self.charged, 0)
    }
}

/// Ends the work on a row: other tasks get their turn, and KILL is looked at.
pub async fn turn(cx: &mut ExecContext<'_>) -> Result<()> {
    cx.env.step()?;
    check_killed(&cx.env)?;
    cx.trx.give_way().await;
    Ok(())
}
