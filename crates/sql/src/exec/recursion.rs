//! The rows of a recursive common table expression.
//!
//! **REC-1** The seed's rows come first. Each iteration gives the rows of the iteration before to
//! every recursive member, and all that the members make are the rows of the next. It ends with an
//! iteration that makes no row. With UNION DISTINCT, a row that has come before does not count.
//! **REC-2** A member's values are stored as in a table whose columns have the types of the seed,
//! so they are rounded, or an error in strict mode.
//! **REC-3** KILL and time limits reach every iteration, and more than `cte_max_recursion_depth`
//! iterations are error 3636. All rows, and those of an iteration, go to files if they are many.
//! The keys of UNION DISTINCT are in memory, charged to the statement.
//! **REC-4** The members' uncorrelated subqueries and derived tables are made once for all
//! iterations, except subqueries that may differ each time (RAND(), user variables).
use super::column_conversion::convert;
use super::eval::Scope;
use super::row_buffer::KeySet;
use super::rows::{Derived, Kept, kept_rows};
use super::scan::check_killed;
use super::select::{RowTarget, limits};
use super::{Env, ExecContext, sortkey};
use crate::error::{Result, SqlError};
use crate::plan::{Recursion, SelectPlan};
use crate::sql_mode::SqlMode;
use redolith_types::Value;
use smallvec::SmallVec;

/// The rows of the iteration before, for the members that a statement is running.
#[derive(Default)]
pub struct Iterations(Vec<(u16, Kept)>);
impl Iterations {
    pub fn put(&mut self, slot: u16, rows: Kept) {
        self.0.push((slot, rows));
    }
    /// The rows for the recursion with this number.
    pub fn take(&mut self, slot: u16) -> Result<Kept> {
        let n = self.0.iter().position(|(of, _)| *of == slot);
        let n = n.ok_or_else(|| SqlError::internal("a recursive member runs by itself"))?;
        Ok(self.0.swap_remove(n).1)
    }
}

/// Makes all rows. The caller charges for what they hold.
pub async fn rows(cx: &mut ExecContext<'_>, recursion: &Recursion, at: Scope<'_>) -> Result<Kept> {
    let (skip, count) = limits(&recursion.limit, at, &mut cx.env)?;
    let mut work = Work {
        recursion,
        all: Derived::default(),
        next: Derived::default(),
        seen: recursion.distinct.then(KeySet::default),
        key: Vec::new(),
        skip,
        left: skip.saturating_add(count),
        charged: 0,
    };
    let seed = kept_rows(cx, &recursion.seed, at).await?;
    work.take(cx, seed, None).await?;
    let (mut iterations, most) = (0, cx.env.settings.cte_max_recursion_depth);
    while work.next.rows() > 0 && work.left > 0 {
        iterations += 1;
        if iterations > most {
            return Err(SqlError::recursion_too_deep(iterations));
        }
        let mut before = std::mem::take(&mut work.next).kept();
        let mut charged = 0;
        cx.env.keep(&mut charged, before.memory())?;
        for member in &recursion.members {
            cx.env.iterations.put(recursion.slot, before);
            // As a dependent subquery does, the member finds what its run before has made (REC-4).
            let outside = cx.env.correlated.enter();
            let made = kept_rows(cx, member, at).await;
            cx.env.correlated.leave(outside);
            let made = made?;
            before = cx.env.iterations.take(recursion.slot)?;
            work.take(cx, made, Some(member)).await?;
        }
        before.free(&mut cx.env);
        cx.env.keeps_no_more(charged);
    }
    work.all.drain(cx).await?;
    cx.env.keeps_no_more(work.charged);
    Ok(work.all.kept())
}

struct Work<'p> {
    recursion: &'p Recursion,
    /// All rows so far, and those of the iteration under way.
    all: Derived,
    next: Derived,
    /// UNION DISTINCT: the keys of the rows so far.
    seen: Option<KeySet>,
    key: Vec<u8>,
    /// LIMIT: the rows that do not come out, and the rows that are still wanted.
    skip: u64,
    left: u64,
    charged: usize,
}

impl Work<'_> {
    /// Takes the rows of the seed or of a member.
    async fn take(
        &mut self,
        cx: &mut ExecContext<'_>,
        mut made: Kept,
        member: Option<&SelectPlan>,
    ) -> Result<()> {
        let mut charged = 0;
        cx.env.keep(&mut charged, made.memory())?;
        // An iteration counts as a step, even without rows.
        cx.env.step()?;
        cx.trx.give_way().await;
        while self.left > 0 && made.advance()? {
            cx.env.step()?;
            check_killed(&cx.env)?;
            let mark = cx.env.held();
            let mut values: SmallVec<[Value<'_>; 8]> = SmallVec::new();
            match member {
                None => values.extend(made.current().iter().map(Value::borrow)),
                Some(member) => self.store(made.current(), member, &mut values, &mut cx.env)?,
            }
            let is_new = self.is_new(&values, &mut cx.env)?;
            if is_new {
                self.left -= 1;
                self.next.row(&values);
                if self.skip > 0 {
                    self.skip -= 1;
                } else {
                    self.all.row(&values);
                }
            }
            drop(values);
            cx.env.release_to(mark);
            if self.next.wants_drain() {
                self.next.drain(cx).await?;
            }
            if self.all.wants_drain() {
                self.all.drain(cx).await?;
            }
            let keys = self.seen.as_ref().map_or(0, KeySet::memory);
            cx.env.keep(&mut self.charged, self.all.held() + self.next.held() + keys)?;
            cx.trx.give_way().await;
        }
        made.free(&mut cx.env);
        cx.env.keeps_no_more(charged);
        Ok(())
    }
    /// Stores a member's row as a row of the recursion (REC-2).
    fn store<'v>(
        &self,
        row: &'v [Value<'static>],
        member: &SelectPlan,
        into: &mut SmallVec<[Value<'v>; 8]>,
        env: &mut Env<'_>,
    ) -> Result<()> {
        let mode = env.settings.sql_mode;
        let strict = mode.has(SqlMode::STRICT_TRANS_TABLES) || mode.has(SqlMode::STRICT_ALL_TABLES);
        let before = std::mem::replace(&mut env.strict, strict);
        let mut result = Ok(());
        for ((value, column), output) in row.iter().zip(&self.recursion.columns).zip(&member.output)
        {
            let from = env.charset_of(output);
            match convert(value.borrow(), column, from, 1, env) {
                Ok(value) => into.push(value),
                Err(e) => {
                    result = Err(e);
                    break;
                }
            }
        }
        env.strict = before;
        result
    }
    /// Whether a row counts, and notes that it has come.
    fn is_new(&mut self, row: &[Value<'_>], env: &mut Env<'_>) -> Result<bool> {
        let Some(seen) = &mut self.seen else { return Ok(true) };
        self.key.clear();
        for (value, column) in row.iter().zip(&self.recursion.seed.columns) {
            sortkey::push(value, &column.ty, column.ty.collation, env, &mut self.key)?;
        }
        Ok(seen.insert(&self.key).1)
    }
}
