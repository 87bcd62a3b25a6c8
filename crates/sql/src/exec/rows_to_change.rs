//! The rows that an UPDATE or DELETE finds before it changes the first of them.
//!
//! The clustered keys of the rows are kept, sorted by ORDER BY, and with a LIMIT only those of the
//! first rows. All rows that the statement has read stay locked, also those that LIMIT leaves out.
use super::correlated::answered;
use super::env::Env;
use super::eval::{Eval, Scope};
use super::scan::{Scan, check_killed};
use super::{ExecContext, sorting, sortkey};
use crate::error::Result;
use crate::plan::{DmlSort, TableAccess};
use redolith_engine::sort::Sorter;
use redolith_types::Collation;

pub struct RowsToChange {
    /// The clustered keys, by the keys of ORDER BY. Without ORDER BY all keys are empty, and the
    /// rows stay in the order in which they were found.
    sorter: Sorter,
    /// The number of rows that LIMIT still allows.
    left: u64,
}

impl RowsToChange {
    /// Finds the rows, at most `most`. Their memory stays charged to the statement.
    pub async fn find(
        cx: &mut ExecContext<'_>,
        access: &TableAccess,
        sort: &DmlSort,
        at: Scope<'_>,
        most: u64,
    ) -> Result<RowsToChange> {
        let mut scan = Scan::new(access, cx.trx, cx.env.settings.in_transaction, cx.scratch);
        scan.start(at, &mut cx.env)?;
        // A sorter of a greater limit would only work more: then it keeps all rows.
        let limit = (most < 1 << 24).then_some(most as usize);
        let (mut sorter, mut charged) = (Sorter::new(limit), 0);
        let (mut key, mut found) = (Vec::new(), 0);
        while (!sort.keys.is_empty() || found < most) && scan.next(cx, at).await? {
            found += 1;
            key.clear();
            let mark = cx.env.held();
            let sources = [scan.row()];
            for k in &sort.keys {
                let e = &sort.exprs[k.output as usize];
                let at = Scope { sources: &sources, ..at };
                let value = answered!(cx, at, Eval::new(at, &mut cx.env).numeric(e));
                let collation = if e.ty.kind.is_string() { k.collation } else { Collation::Binary };
                let env = &mut cx.env;
                sortkey::push_ordered(&value, &e.ty, collation, k.descending, env, &mut key)?;
            }
            cx.env.release_to(mark);
            if sorter.wants(&key) {
                sorter.push(&key, |row| row.extend_from_slice(scan.at().key))?;
                cx.env.keep(&mut charged, sorter.memory())?;
                sorting::spill_if_large(cx, &mut sorter, &mut charged).await?;
            }
        }
        scan.finish(cx);
        sorting::sort(cx, &mut sorter, &mut charged).await?;
        Ok(RowsToChange { sorter, left: most })
    }

    /// The clustered key of the next row; `None` after the last.
    pub fn next(&mut self, env: &mut Env<'_>) -> Result<Option<&[u8]>> {
        env.step()?;
        check_killed(env)?;
        if self.left == 0 || !self.sorter.advance()? {
            if self.sorter.is_in_file() {
                // To free a large file takes long.
                env.be_heavy();
            }
            return Ok(None);
        }
        self.left -= 1;
        Ok(Some(self.sorter.row()))
    }
}
