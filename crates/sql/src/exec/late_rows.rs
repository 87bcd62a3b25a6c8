//! Rows of which those with equal keys count once, where the keys have outgrown their memory.
//!
//! **LATEROW-1** Where one more key would take the statement beyond three eighths of its memory,
//! the set of keys grows no more. Rows with other keys are late: they go to a sorter by their keys,
//! and so to a temporary file. When all rows have come, the first late row of each key counts.
use super::late_sorter::{LateSorter, ROOM, turn};
use super::row_buffer::KeySet;
use super::{Env, ExecContext};
use crate::error::Result;

#[derive(Default)]
pub struct LateRows {
    pub sorter: LateSorter,
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
    /// Goes to the first row of the next key, when all rows have come. Returns false after the
    /// last, and gives the memory back.
    pub async fn next(&mut self, cx: &mut ExecContext<'_>) -> Result<bool> {
        let is_first = !self.is_sorted;
        if is_first {
            self.sorter.end(cx).await?;
            self.sorter.sort(cx).await?;
            self.is_sorted = true;
        }
        loop {
            turn(cx).await?;
            if !self.sorter.rows.advance()? {
                self.sorter.free(&mut cx.env)?;
                return Ok(false);
            }
            if is_first || self.sorter.rows.key() != self.key {
                break;
            }
        }
        self.key.clear();
        self.key.extend_from_slice(self.sorter.rows.key());
        Ok(true)
    }
    /// The bytes of the current row.
    pub fn row(&self) -> &[u8] {
        self.sorter.rows.row()
    }
}
