//! Joins the sources of FROM with nested loops (SEL-1, SEL-5).
use super::ExecContext;
use super::correlated::{self, answered};
use super::eval::{Eval, Row, Scope};
use super::lateral::Lateral;
use super::rows::{Derived, Kept, kept_rows};
use super::scan::{Scan, check_killed};
use super::select::give_to_boxed;
use super::set_operation::Counted;
use super::{recursion, window};
use crate::error::{Result, SqlError};
use crate::information_schema;
use crate::plan::{Expr, Nest, SelectPlan, Source, SourceKind};
use redolith_engine::row::update::RowAt;
use smallvec::SmallVec;

/// The rows of a UNION: those of one part are kept at a time.
struct UnionRows<'p> {
    parts: std::slice::Iter<'p, SelectPlan>,
    kept: Kept,
    counted: usize,
    /// The most rows that are wanted of a part.
    most: u64,
}
impl<'p> UnionRows<'p> {
    fn new(parts: &'p [SelectPlan]) -> UnionRows<'p> {
        UnionRows { parts: parts.iter(), kept: Kept::few(Vec::new()), counted: 0, most: u64::MAX }
    }
    async fn advance(&mut self, cx: &mut ExecContext<'_>, at: Scope<'_>) -> Result<bool> {
        while !self.kept.advance()? {
            let Some(part) = self.parts.next() else { return Ok(false) };
            std::mem::replace(&mut self.kept, Kept::few(Vec::new())).free(&mut cx.env);
            cx.env.keep(&mut self.counted, 0)?;
            let mut made = Derived::default();
            give_to_boxed(cx, part, at.given(), self.most, &mut made).await?;
            self.kept = made.kept();
            cx.env.keep(&mut self.counted, self.kept.memory())?;
        }
        Ok(true)
    }
}

enum Rows<'p> {
    Scan(Scan<'p>),
    Kept(Box<Kept>),
    Lateral(Box<Lateral<'p>>),
    Union(Box<UnionRows<'p>>),
    Counted(Box<Counted>),
}
struct Level<'p> {
    source: &'p Source,
    rows: Rows<'p>,
    /// The nest whose rows of NULLs stand here (SEL-5).
    nulls: Option<u16>,
}

/// Where the loops go on.
enum Step {
    /// The source has its row; the loops go on behind it.
    Found(usize),
    /// The source has no more rows; the loops go on with the source before it.
    Exhausted(usize),
}

pub struct Loops<'p> {
    levels: SmallVec<[Level<'p>; 1]>,
    nests: &'p [Nest],
    /// For each nest: whether rows of it have matched.
    matched: Vec<bool>,
    begun: bool,
}

/// The current rows of all sources.
pub type Current<'r> = SmallVec<[Row<'r>; 2]>;

impl<'p> Loops<'p> {
    pub fn new() -> Loops<'p> {
        Loops { levels: SmallVec::new(), nests: &[], matched: Vec::new(), begun: false }
    }
    /// Opens the sources, and makes the rows of sources that are not tables. Called once, before
    /// the first row.
    pub async fn open(
        &mut self,
        cx: &mut ExecContext<'_>,
        plan: &'p SelectPlan,
        at: Scope<'_>,
    ) -> Result<()> {
        self.nests = &plan.nests;
        self.matched = vec![false; plan.nests.len()];
        let levels = &mut self.levels;
        for source in &plan.sources {
            let rows = match &source.kind {
                SourceKind::Table(access) => {
                    let in_transaction = cx.env.settings.in_transaction;
                    Rows::Scan(Scan::new(access, cx.trx, in_transaction, cx.scratch))
                }
                SourceKind::Derived(derived) => {
                    let kept = match cx.env.correlated.take_derived(derived) {
                        Some(mut kept) => {
                            kept.rewind();
                            kept
                        }
                        None => {
                            let kept = kept_rows(cx, derived, at).await?;
                            cx.env.keep(&mut 0, kept.memory())?;
                            kept
                        }
                    };
                    Rows::Kept(Box::new(kept))
                }
                SourceKind::Lateral { plan, outer } => {
                    Rows::Lateral(Box::new(Lateral::new(plan, outer)))
                }
                SourceKind::Union(parts) => Rows::Union(Box::new(UnionRows::new(parts))),
                SourceKind::Combined(parts) => {
                    Rows::Counted(Box::new(Box::pin(Counted::make(cx, parts, at)).await?))
                }
                SourceKind::Recursive(recursion) => {
                    let kept = Box::pin(recursion::rows(cx, recursion, at)).await?;
                    cx.env.keep(&mut 0, kept.memory())?;
                    Rows::Kept(Box::new(kept))
                }
                SourceKind::Windows(stage) => {
                    let kept = Box::pin(window::rows(cx, stage, at)).await?;
                    cx.env.keep(&mut 0, kept.memory())?;
                    Rows::Kept(Box::new(kept))
                }
                SourceKind::Iteration { slot, .. } => {
                    let mut kept = cx.env.iterations.take(*slot)?;
                    kept.rewind();
                    Rows::Kept(Box::new(kept))
                }
                SourceKind::Virtual(table) => {
                    let tables = super::wanted_tables::tables(cx, source, levels.len(), at.params)?;
                    let db = cx
                        .env
                        .database
                        .expect("statements that name INFORMATION_SCHEMA run in a session");
                    let rows = information_schema::rows(
                        *table,
                        db,
                        tables,
                        cx.env.settings.shows_generated_keys,
                        &mut cx.env.session.memory.statement,
                    )
                    .await?;
                    Rows::Kept(Box::new(Kept::few(rows)))
                }
            };
            levels.push(Level { source, rows, nulls: None });
        }
        Ok(())
    }
    /// No more than the first `most` rows are going to be read.
    pub fn at_most(&mut self, most: u64) {
        if let [Level { rows: Rows::Union(union), .. }] = &mut self.levels[..] {
            union.most = most;
        }
    }
    pub fn finish(self, cx: &mut ExecContext<'_>) -> Result<()> {
        for level in self.levels {
            match level.rows {
                Rows::Scan(scan) => scan.finish(cx),
                Rows::Kept(kept) => match &level.source.kind {
                    // The next run of a dependent subquery reads the same rows.
                    SourceKind::Derived(plan) if cx.env.correlated.is_inside() => {
                        cx.env.keep_derived(plan, *kept)?;
                    }
                    // The other members read the same rows.
                    SourceKind::Iteration { slot, .. } => cx.env.iterations.put(*slot, *kept),
                    _ => kept.free(&mut cx.env),
                },
                Rows::Lateral(lateral) => lateral.kept.free(&mut cx.env),
                Rows::Union(union) => union.kept.free(&mut cx.env),
                Rows::Counted(counted) => counted.free(&mut cx.env),
            }
        }
        Ok(())
    }

    /// The row of a table for the engine; None where a row of NULLs stands for it.
    pub fn at(&self, source: usize) -> Option<RowAt<'_>> {
        match &self.levels[source] {
            Level { nulls: Some(_), .. } => None,
            Level { rows: Rows::Scan(scan), .. } => Some(scan.at()),
            _ => None,
        }
    }
    pub fn current(&self) -> Current<'_> {
        self.upto(self.levels.len())
    }
    fn upto(&self, n: usize) -> Current<'_> {
        let mut rows = Current::new();
        self.levels[..n].iter().for_each(|level| rows.push(level.row()));
        rows
    }

    /// Goes to the next combination of rows. Returns false after the last. Without sources there is
    /// one combination.
    pub async fn next(&mut self, cx: &mut ExecContext<'_>, at: Scope<'_>) -> Result<bool> {
        let last = match self.levels.len() {
            0 => return Ok(!std::mem::replace(&mut self.begun, true)),
            n => n - 1,
        };
        loop {
            match self.next_at_hand(at, cx) {
                Ok(true) => return Ok(true),
                Ok(false) => break,
                Err(error) => {
                    if Box::pin(self.decided_late(at, cx, error)).await? {
                        return Ok(true);
                    }
                }
            }
        }
        let mut depth = last;
        if !self.begun {
            self.begun = true;
            depth = 0;
            self.start(0, at, cx)?;
        }
        loop {
            match self.step(depth, at, cx).await? {
                Step::Found(found) if found == last => return Ok(true),
                Step::Found(found) => {
                    depth = found + 1;
                    self.start(depth, at, cx)?;
                }
                Step::Exhausted(0) => return Ok(false),
                Step::Exhausted(exhausted) => depth = exhausted - 1,
            }
        }
    }
    /// Goes to the next row that passes, if the only source has such a row at hand. Most steps of a
    /// scan need no future. After false, there may still be a row.
    fn next_at_hand(&mut self, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<bool> {
        loop {
            let [Level { rows: Rows::Scan(scan), .. }] = &mut self.levels[..] else {
                return Ok(false);
            };
            if !scan.advance_at_hand(cx.trx, &mut cx.scratch.handlers) {
                return Ok(false);
            }
            cx.env.step()?;
            check_killed(&cx.env)?;
            if self.is_wanted(at, cx)? {
                return Ok(true);
            }
            self.levels[0].refuse(cx);
        }
    }
    /// Whether the row at hand passes, which has asked for a dependent subquery.
    #[cold]
    async fn decided_late(
        &mut self,
        at: Scope<'_>,
        cx: &mut ExecContext<'_>,
        asked: SqlError,
    ) -> Result<bool> {
        correlated::answer(cx, at, asked).await?;
        let passes = answered!(cx, at, self.is_wanted(at, cx));
        cx.env.correlated.end_unit();
        if !passes {
            self.levels[0].refuse(cx);
        }
        Ok(passes)
    }
    /// Whether the only source's row passes.
    fn is_wanted(&self, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<bool> {
        self.matches(0, at, cx)
    }
    fn start(&mut self, depth: usize, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<()> {
        let (outer, inner) = self.levels.split_at_mut(depth);
        let level = &mut inner[0];
        level.nulls = None;
        if let Some(nest) = level.source.nest
            && self.nests[nest as usize].first as usize == depth
        {
            self.matched[nest as usize] = false;
        }
        match &mut level.rows {
            Rows::Kept(kept) => kept.rewind(),
            Rows::Lateral(lateral) => lateral.is_made = false,
            // The only source is started once.
            Rows::Union(_) | Rows::Counted(_) => {}
            Rows::Scan(scan) => {
                let sources: Current<'_> = outer.iter().map(Level::row).collect();
                let mark = cx.env.held();
                scan.start(Scope { sources: &sources, ..at }, &mut cx.env)?;
                cx.env.release_to(mark);
            }
        }
        Ok(())
    }
    /// Goes to the next row of one source that passes, or to the rows of NULLs of the nest that
    /// begins with the source.
    async fn step(
        &mut self,
        depth: usize,
        at: Scope<'_>,
        cx: &mut ExecContext<'_>,
    ) -> Result<Step> {
        loop {
            cx.env.step()?;
            check_killed(&cx.env)?;
            if matches!(&self.levels[depth].rows, Rows::Lateral(rows) if !rows.is_made) {
                Box::pin(self.make_lateral(depth, at, cx)).await?;
            }
            let level = &mut self.levels[depth];
            if let Some(nest) = level.nulls {
                return Ok(Step::Exhausted(self.nests[nest as usize].first as usize));
            }
            let more = match &mut level.rows {
                Rows::Scan(scan) => {
                    let handlers = &mut cx.scratch.handlers;
                    scan.advance_at_hand(cx.trx, handlers)
                        || scan.advance(cx.trx, handlers, &mut cx.env).await?
                }
                Rows::Kept(kept) => {
                    cx.trx.give_way().await;
                    kept.advance()?
                }
                Rows::Lateral(lateral) => {
                    cx.trx.give_way().await;
                    lateral.kept.advance()?
                }
                Rows::Union(union) => {
                    cx.trx.give_way().await;
                    union.advance(cx, at).await?
                }
                Rows::Counted(counted) => {
                    cx.trx.give_way().await;
                    counted.advance()
                }
            };
            let nest = level.source.nest;
            if !more {
                let Some(nest) = nest.filter(|nest| self.wants_nulls(*nest, depth)) else {
                    return Ok(Step::Exhausted(depth));
                };
                let Nest { first, last, .. } = self.nests[nest as usize];
                let (first, last) = (first as usize, last as usize);
                self.levels[first..=last].iter_mut().for_each(|level| level.nulls = Some(nest));
                let passes = answered!(cx, at, self.completes(Some(nest), last, at, cx));
                return Ok(if passes { Step::Found(last) } else { Step::Exhausted(first) });
            }
            if answered!(cx, at, self.matches(depth, at, cx))
                && (nest.is_none() || answered!(cx, at, self.completes(nest, depth, at, cx)))
            {
                return Ok(Step::Found(depth));
            }
            self.levels[depth].refuse(cx);
        }
    }
    /// Makes the rows of a LATERAL derived table.
    async fn make_lateral(
        &mut self,
        depth: usize,
        at: Scope<'_>,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let (before, from) = self.levels.split_at_mut(depth);
        let Some(Level { rows: Rows::Lateral(lateral), .. }) = from.first_mut() else {
            return Ok(());
        };
        let sources: Current<'_> = before.iter().map(Level::row).collect();
        lateral.make(cx, Scope { sources: &sources, ..at }).await
    }
    /// Whether the nest begins with this source, whose rows have ended, and has met no match.
    fn wants_nulls(&self, nest: u16, depth: usize) -> bool {
        self.nests[nest as usize].first as usize == depth && !self.matched[nest as usize]
    }
    /// Notes the match of each nest that ends with this source, from the inside to the outside, as
    /// far as the conditions after it hold. Returns whether they all hold.
    fn completes(
        &mut self,
        mut nest: Option<u16>,
        depth: usize,
        at: Scope<'_>,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        while let Some(n) = nest {
            let Nest { last, parent, after, .. } = &self.nests[n as usize];
            if *last as usize != depth {
                break;
            }
            self.matched[n as usize] = true;
            if !self.holds(depth, after.as_ref(), at, cx)? {
                return Ok(false);
            }
            nest = *parent;
        }
        Ok(true)
    }
    /// True if the combination of rows up to this source passes the conditions that decide about
    /// the source's row.
    fn matches(&self, depth: usize, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<bool> {
        let source = self.levels[depth].source;
        let own = match &source.kind {
            SourceKind::Table(access) => access.filter.as_ref(),
            _ => None,
        };
        Ok(self.holds(depth, own, at, cx)? && self.holds(depth, source.filter.as_ref(), at, cx)?)
    }
    #[inline]
    fn holds(
        &self,
        depth: usize,
        condition: Option<&Expr>,
        at: Scope<'_>,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let Some(condition) = condition else { return Ok(true) };
        let sources = self.upto(depth + 1);
        Ok(Eval::new(Scope { sources: &sources, ..at }, &mut cx.env).truth(condition)?
            == Some(true))
    }
}

impl Level<'_> {
    /// Notes that the current row does not belong to the result.
    fn refuse(&mut self, cx: &ExecContext<'_>) {
        match &mut self.rows {
            Rows::Scan(scan) => scan.refuse(cx.trx),
            Rows::Kept(_) | Rows::Lateral(_) | Rows::Union(_) | Rows::Counted(_) => {}
        }
    }
    fn row(&self) -> Row<'_> {
        match &self.rows {
            _ if self.nulls.is_some() => Row::Nulls,
            Rows::Scan(scan) => scan.row(),
            Rows::Kept(kept) => Row::Values(kept.current()),
            Rows::Lateral(lateral) => Row::Values(lateral.kept.current()),
            Rows::Union(union) => Row::Values(union.kept.current()),
            Rows::Counted(counted) => Row::Values(counted.current()),
        }
    }
}
