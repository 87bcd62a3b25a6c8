//! Rows of which those with equal keys count once, where the keys have outgrown their memory.
//!
//! **LATEROW-1** Where one more key would take the statement beyond three eighths of its memory,
//! the set of keys grows no more. Rows with other keys are late: they go to a sorter by their keys,
//! and so to a temporary file. When all rows have come, the first late row of each key counts.
use super::late_groups::{ROOM, is_large, spill, turn, write_rest};
use super::row_buffer::KeySet;
use super::{Env, ExecContext, sorting};
use crate::error::Result;
use redolith_engine::sort::Sorter;

#[derive(Default)]
pub struct LateRows {
    sorter: Sorter,
    charged: usize,
    is_sorted: bool,
    /// The key of the current row.
    key: Vec<u8>,
}
impl LateRows {
    /// Late rows, if the next key might take the statement beyond its share.
    pub fn begin(keys: &KeySet, env: &Env<'_>) -> Option<Box<LateRows>> {
        let begins = env.is_beyond(ROOM, keys.growth()) && env.temporary().is_some();
        begins.then(Box::default)
    }
    /// Takes a row. The caller calls [`Self::charge`] when it has released its own charges.
    pub fn push(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        Ok(self.sorter.push(key, write)?)
    }
    pub fn charge(&mut self, env: &mut Env<'_>) -> Result<()> {
        env.keep(&mut self.charged, self.sorter.memory())
    }
    pub fn is_large(&self, env: &Env<'_>) -> bool {
        is_large(&self.sorter, env)
    }
    /// Moves the rows to a temporary file if they have become many.
    pub async fn spill(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        spill(cx, &mut self.sorter, &mut self.charged).await
    }
    /// Goes to the first row of the next key, when all rows have come. Returns false after the
    /// last, and gives the memory back.
    pub async fn next(&mut self, cx: &mut ExecContext<'_>) -> Result<bool> {
        let is_first = !self.is_sorted;
        if is_first {
            write_rest(cx, &mut self.sorter, &mut self.charged).await?;
            sorting::sort(cx, &mut self.sorter, &mut self.charged).await?;
            self.is_sorted = true;
        }
        loop {
            turn(cx).await?;
            if !self.sorter.advance()? {
                if self.sorter.is_in_file() {
                    // To free a large file takes long.
                    cx.env.be_heavy();
                }
                self.sorter = Sorter::new(None);
                cx.env.keep(&mut self.charged, 0)?;
                return Ok(false);
            }
            if is_first || self.sorter.key() != self.key {
                break;
            }
        }
        self.key.clear();
        self.key.extend_from_slice(self.sorter.key());
        Ok(true)
    }
    /// The bytes of the current row.
    pub fn row(&self) -> &[u8] {
        self.sorter.row()
    }
}
