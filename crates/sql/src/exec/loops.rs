//! Joins the sources of FROM with nested loops (SEL-1, SEL-5).
mod profiled;

use super::ExecContext;
use super::correlated::{self, answered};
use super::eval::{Eval, Row, Scope};
use super::hash_rows::{self, HashRows};
use super::json_table::JsonRows;
use super::lateral::Lateral;
use super::rows::{Derived, Kept, kept_rows};
use super::scan::{Scan, check_killed, read_mode};
use super::select::give_to_boxed;
use super::set_operation::Counted;
use super::{Env, recursion, wanted_tables, window};
use crate::error::{Result, SqlError};
use crate::information_schema::{self, Virtual};
use crate::plan::{Expr, HashLookup, Nest, SelectPlan, Source, SourceKind, TableAccess};
use profiled::ProfiledLoops;
use redolith_engine::row::cursor::Read;
use redolith_engine::row::update::RowAt;
use redolith_types::{Column, SqlType};
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
    JsonTable(Box<JsonRows<'p>>),
}
struct Level<'p> {
    source: &'p Source,
    rows: Rows<'p>,
    hash: Hash<'p>,
    /// What a lookup has left of the filter of a table: conditions that read other sources.
    joined: Option<&'p Expr>,
    /// The nest whose rows of NULLs stand here (SEL-5).
    nulls: Option<u16>,
}
/// Whether the rows of a source are found by hash.
enum Hash<'p> {
    No,
    /// From the second time on that the source is started. A dependent subquery is run for each
    /// outer row, and a run that starts the source once is no faster with a hash table. The number
    /// is that of all hash tables of the SELECT.
    Later(&'p HashLookup, usize),
    /// The source has been started once, without its table.
    Soon(&'p HashLookup, usize),
    Yes(Box<HashRows<'p>>),
}

/// A SELECT of which so few rows are wanted makes no hash table in the place of an index.
const FEW: u64 = 100;

/// The bytes that hash tables in the place of indexes may have together.
fn room(env: &Env<'_>) -> usize {
    2 * env.spill_at()
}
/// Whether a table that an index serves as well is read into a hash table (JOIN-6): not if the scan
/// would lock its rows, or if the hash table might need more than what is left of `room`.
fn is_hashed(access: &TableAccess, cx: &ExecContext<'_>, room: &mut usize) -> bool {
    let in_transaction = cx.env.settings.in_transaction;
    if read_mode(access.lock, cx.trx, in_transaction) != Read::Consistent {
        return false;
    }
    let def = &access.table.def;
    let width: usize = access.columns.iter().map(|c| most_bytes(&def.columns[*c as usize])).sum();
    let rows = usize::try_from(access.table.rows()).unwrap_or(usize::MAX);
    let bytes = rows.saturating_mul(hash_rows::ROW_BYTES + width);
    let fits = bytes <= *room;
    *room = room.saturating_sub(if fits { bytes } else { 0 });
    fits
}
/// The bytes that a long value of a column takes in a hash table.
fn most_bytes(column: &Column) -> usize {
    match &column.ty {
        SqlType::Char { chars, .. } | SqlType::VarChar { chars, .. } => *chars as usize,
        SqlType::Binary { len } | SqlType::VarBinary { len } => *len as usize,
        ty if ty.is_lob() => usize::from(u16::MAX),
        SqlType::Json => usize::from(u16::MAX),
        _ => 2 * size_of::<u128>(),
    }
}

/// Makes the rows of a table of INFORMATION_SCHEMA, which is FROM item number `no`.
async fn virtual_rows(
    cx: &mut ExecContext<'_>,
    table: Virtual,
    source: &Source,
    no: usize,
    at: Scope<'_>,
) -> Result<Kept> {
    let asked = wanted_tables::asked(cx, table, source, no, at.params)?;
    let db = cx.env.database.expect("statements that name INFORMATION_SCHEMA run in a session");
    let shows_keys = cx.env.settings.shows_generated_keys;
    let memory = &mut cx.env.session.memory.statement;
    Ok(Kept::of_statement(information_schema::rows(table, db, asked, shows_keys, memory).await?))
}

/// Where the loops go on.
enum Step {
    /// The source has its row; the loops go on behind it.
    Found(usize),
    /// The source has no more rows; the loops go on with the source before it.
    Exhausted(usize),
}

/// The loops over all sources, one inside the other.
///
/// **LOOP-1** While rows are at hand, a step needs no future ([`Loops::go_on_at_hand`]): reading a
/// page and making the rows of a source do. Between two steps `depth` is the source whose next row
/// is wanted.
pub struct Loops<'p> {
    levels: SmallVec<[Level<'p>; 1]>,
    nests: &'p [Nest],
    /// For each nest: whether rows of it have matched.
    matched: Vec<bool>,
    begun: bool,
    /// What EXPLAIN ANALYZE measures of the loops. Then no row is at hand, as each step tells the
    /// time.
    profiled: Option<Box<ProfiledLoops>>,
    depth: usize,
    /// Whether the source number `depth` had a row when it was last asked for one.
    more: bool,
    /// Why a step without a future has failed, for the step with one.
    failed: Option<SqlError>,
}

/// The current rows of all sources.
pub type Current<'r> = SmallVec<[Row<'r>; 2]>;

impl<'p> Loops<'p> {
    pub fn new() -> Loops<'p> {
        Loops {
            levels: SmallVec::new(),
            nests: &[],
            matched: Vec::new(),
            begun: false,
            profiled: None,
            depth: 0,
            more: false,
            failed: None,
        }
    }
    /// Opens the sources, and makes the rows of sources that are not tables. Called once, before
    /// the first row. No more than the first `most` combinations of rows are going to be read.
    pub async fn open(
        &mut self,
        cx: &mut ExecContext<'_>,
        plan: &'p SelectPlan,
        at: Scope<'_>,
        most: u64,
    ) -> Result<()> {
        self.profiled = ProfiledLoops::of(plan, &mut cx.env);
        self.nests = &plan.nests;
        self.matched = vec![false; plan.nests.len()];
        let tables = plan.sources.iter().filter(|source| source.lookup.is_some()).count();
        let mut room = if most < FEW { 0 } else { room(&cx.env) };
        let levels = &mut self.levels;
        for source in &plan.sources {
            if let Some(profiled) = &mut self.profiled {
                profiled.makes(source, &mut cx.env);
            }
            let mut lookup = source.lookup.as_deref();
            let mut joined = None;
            let rows = match &source.kind {
                SourceKind::Table(access) => {
                    let in_transaction = cx.env.settings.in_transaction;
                    let instead = lookup.and_then(|lookup| lookup.instead.as_deref());
                    let (access, filter) = match (lookup, instead) {
                        (Some(_), Some(instead)) if !is_hashed(access, cx, &mut room) => {
                            lookup = None;
                            cx.env.takes_index(source);
                            (instead, instead.filter.as_ref())
                        }
                        (Some(lookup), _) => {
                            joined = access.filter.as_ref();
                            (access, lookup.own.as_ref())
                        }
                        (None, _) => (access, access.filter.as_ref()),
                    };
                    let mut scan = Scan::new(access, cx.trx, in_transaction, cx.scratch);
                    if plan.sources.len() == 1 {
                        scan.expect(most);
                    }
                    Rows::Scan(scan.of_source(levels.len() as u16, filter))
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
                SourceKind::JsonTable(table) => {
                    Rows::JsonTable(Box::new(JsonRows::open(table, at, &mut cx.env)?))
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
                    let kept = match cx.env.correlated.take_virtual(source) {
                        Some(mut kept) => {
                            kept.rewind();
                            kept
                        }
                        None => {
                            Box::pin(virtual_rows(cx, *table, source, levels.len(), at)).await?
                        }
                    };
                    Rows::Kept(Box::new(kept))
                }
            };
            let hash = match lookup {
                None => Hash::No,
                Some(lookup) if cx.env.correlated.is_inside() => Hash::Later(lookup, tables),
                Some(lookup) => Hash::Yes(Box::new(HashRows::new(lookup, tables))),
            };
            levels.push(Level { source, rows, hash, joined, nulls: None });
            if let Some(profiled) = &self.profiled {
                profiled.made(&mut cx.env);
            }
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
                    SourceKind::Virtual(_) if cx.env.correlated.is_inside() => {
                        cx.env.keep_virtual(level.source, *kept)?;
                    }
                    // The other members read the same rows.
                    SourceKind::Iteration { slot, .. } => cx.env.iterations.put(*slot, *kept),
                    _ => kept.free(&mut cx.env),
                },
                Rows::Lateral(lateral) => lateral.kept.free(&mut cx.env),
                Rows::Union(union) => union.kept.free(&mut cx.env),
                Rows::Counted(counted) => counted.free(&mut cx.env),
                Rows::JsonTable(rows) => rows.free(&mut cx.env),
            }
        }
        Ok(())
    }

    /// The row of a table for the engine; None where a row of NULLs stands for it.
    pub fn at(&self, source: usize) -> Option<RowAt<'_>> {
        match &self.levels[source] {
            Level { nulls: Some(_), .. } => None,
            // The cursor is not on a row that was found by hash (HASH-2).
            Level { hash: Hash::No, rows: Rows::Scan(scan), .. } => Some(scan.at()),
            _ => None,
        }
    }
    /// Calls `f` with the current rows of the first `n` sources.
    #[inline]
    fn with_rows<T>(&self, n: usize, f: impl FnOnce(&[Row<'_>]) -> T) -> T {
        match &self.levels[..n] {
            [only] => f(&[only.row()]),
            _ => f(&self.upto(n)),
        }
    }
    /// Calls `f` with the current rows of all sources.
    #[inline]
    pub fn with_current<T>(&self, f: impl FnOnce(&[Row<'_>]) -> T) -> T {
        self.with_rows(self.levels.len(), f)
    }
    pub fn current(&self) -> Current<'_> {
        self.upto(self.levels.len())
    }
    fn upto(&self, n: usize) -> Current<'_> {
        let mut rows = Current::new();
        self.levels[..n].iter().for_each(|level| rows.push(level.row()));
        rows
    }

    /// Calls `f` with each combination of rows at hand, if it is no more than a row of a table that
    /// its scan has decided about, until `f` returns false. Other combinations are left to `next`.
    pub fn each_at_hand(
        &mut self,
        cx: &mut ExecContext<'_>,
        mut f: impl FnMut(&[Row<'_>], &mut Env<'_>) -> Result<bool>,
    ) -> Result<()> {
        let [Level { source, rows: Rows::Scan(scan), .. }] = &mut self.levels[..] else {
            return Ok(());
        };
        if !self.begun || source.filter.is_some() || !scan.rest().is_empty() {
            return Ok(());
        }
        while scan.advance_at_hand(cx.trx, &mut cx.scratch.handlers) {
            cx.env.step()?;
            scan.found();
            if !f(&[scan.row()], &mut cx.env)? {
                break;
            }
        }
        Ok(())
    }
    /// Goes to the next combination of rows if it is at hand. Returns None if it may not be: then
    /// the caller calls `next`. Most steps thus need no future.
    #[inline]
    pub fn next_at_hand(&mut self, cx: &mut ExecContext<'_>, at: Scope<'_>) -> Option<bool> {
        if !self.begun || self.levels.is_empty() {
            return None;
        }
        match self.go_on_at_hand(at, cx) {
            Ok(found) => found,
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }
    /// Goes to the next combination of rows. Returns false after the last. Without sources there is
    /// one combination.
    pub async fn next(&mut self, cx: &mut ExecContext<'_>, at: Scope<'_>) -> Result<bool> {
        if self.levels.is_empty() {
            return Ok(!std::mem::replace(&mut self.begun, true));
        }
        if self.profiled.is_some() {
            return Box::pin(self.next_profiled(cx, at)).await;
        }
        if !self.begun {
            self.begun = true;
            self.start(0, at, cx)?;
        }
        loop {
            let at_hand = match self.failed.take() {
                Some(error) => Err(error),
                None => self.go_on_at_hand(at, cx),
            };
            let step = match at_hand {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => self.step(at, cx).await?,
                Err(error) => Box::pin(self.decided_late(at, cx, error)).await?,
            };
            if let Some(step) = step
                && let Some(found) = self.move_on(step, at, cx)?
            {
                return Ok(found);
            }
        }
    }
    /// Goes on as far as no future is needed. Returns None where a future is needed, and otherwise
    /// whether there is a combination of rows.
    fn go_on_at_hand(&mut self, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<Option<bool>> {
        loop {
            let level = &mut self.levels[self.depth];
            let step = if let Some(nest) = level.nulls {
                Some(Step::Exhausted(self.nests[nest as usize].first as usize))
            } else {
                match level.advance_at_hand(cx)? {
                    Some(more) => self.more = more,
                    None => return Ok(None),
                }
                cx.env.step()?;
                check_killed(&cx.env)?;
                self.judge(at, cx)?
            };
            if let Some(step) = step
                && let Some(found) = self.move_on(step, at, cx)?
            {
                return Ok(Some(found));
            }
        }
    }
    /// Goes to the next row of a source.
    async fn step(&mut self, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<Option<Step>> {
        cx.env.step()?;
        check_killed(&cx.env)?;
        let depth = self.depth;
        if self.levels[depth].has_to_be_made() {
            Box::pin(self.make(depth, at, cx)).await?;
        }
        match self.advance(at, cx).await? {
            Some(more) => self.more = more,
            None => return Ok(None),
        }
        Ok(answered!(cx, at, self.judge(at, cx)))
    }
    /// Reads the next row of the present source. Returns None where rows are at hand.
    #[inline]
    async fn advance(&mut self, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<Option<bool>> {
        let level = &mut self.levels[self.depth];
        Ok(Some(match (&level.hash, &mut level.rows) {
            (Hash::Yes(_), _) | (_, Rows::Lateral(_) | Rows::Kept(_) | Rows::JsonTable(_)) => {
                cx.trx.give_way().await;
                return Ok(None);
            }
            (_, Rows::Scan(scan)) => {
                scan.advance(cx.trx, &mut cx.scratch.handlers, &mut cx.env).await?
            }
            (_, Rows::Union(union)) => {
                cx.trx.give_way().await;
                union.advance(cx, at).await?
            }
            (_, Rows::Counted(counted)) => {
                cx.trx.give_way().await;
                counted.advance(&mut cx.env)?
            }
        }))
    }
    /// The step after a judgement that has asked for a dependent subquery.
    #[cold]
    async fn decided_late(
        &mut self,
        at: Scope<'_>,
        cx: &mut ExecContext<'_>,
        asked: SqlError,
    ) -> Result<Option<Step>> {
        correlated::answer(cx, at, asked).await?;
        let step = answered!(cx, at, self.judge(at, cx));
        cx.env.correlated.end_unit();
        Ok(step)
    }
    /// Decides about the row to which the source number `depth` went last, or about its end: the
    /// rows of NULLs of the nest that begins with the source may come. Returns None if the source's
    /// next row is wanted. A judgement that has failed can be repeated.
    fn judge(&mut self, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<Option<Step>> {
        let depth = self.depth;
        let Level { source: Source { nest, .. }, nulls, .. } = self.levels[depth];
        if !self.more {
            // If the judgement is repeated, the rows of NULLs are there already.
            let wants = |nest: &u16| nulls.is_some() || self.wants_nulls(*nest, depth);
            let Some(nest) = nulls.or(*nest).filter(wants) else {
                return Ok(Some(Step::Exhausted(depth)));
            };
            let Nest { first, last, .. } = self.nests[nest as usize];
            let (first, last) = (first as usize, last as usize);
            self.levels[first..=last].iter_mut().for_each(|level| level.nulls = Some(nest));
            let passes = self.completes(Some(nest), last, at, cx)?;
            return Ok(Some(if passes { Step::Found(last) } else { Step::Exhausted(first) }));
        }
        if self.matches(depth, at, cx)?
            && (nest.is_none() || self.completes(*nest, depth, at, cx)?)
        {
            if let Rows::Scan(scan) = &mut self.levels[depth].rows {
                scan.found();
            }
            return Ok(Some(Step::Found(depth)));
        }
        self.levels[depth].refuse(cx);
        Ok(None)
    }
    /// Goes to the source that comes next. Returns whether there is a combination of rows, if that
    /// is known.
    fn move_on(
        &mut self,
        step: Step,
        at: Scope<'_>,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<bool>> {
        match step {
            Step::Found(found) => {
                self.depth = found;
                if found + 1 == self.levels.len() {
                    return Ok(Some(true));
                }
                self.depth = found + 1;
                self.start(found + 1, at, cx)?;
            }
            Step::Exhausted(0) => return Ok(Some(false)),
            Step::Exhausted(exhausted) => self.depth = exhausted - 1,
        }
        Ok(None)
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
        match level.hash {
            Hash::Later(lookup, tables) => level.hash = Hash::Soon(lookup, tables),
            Hash::Soon(lookup, tables) => {
                level.hash = Hash::Yes(Box::new(HashRows::new(lookup, tables)));
            }
            Hash::No | Hash::Yes(_) => {}
        }
        if let Some(profiled) = &self.profiled {
            profiled.begin(depth, matches!(level.hash, Hash::Yes(_)), &mut cx.env);
        }
        let sources: Current<'_> = outer.iter().map(Level::row).collect();
        let at = Scope { sources: &sources, ..at };
        if let Hash::Yes(hash) = &mut level.hash {
            // The table is made when the first row is wanted, and then asked.
            return if hash.is_made() { hash.find(at, &mut cx.env) } else { Ok(()) };
        }
        match &mut level.rows {
            Rows::Kept(kept) => kept.rewind(),
            Rows::Lateral(lateral) => lateral.is_made = false,
            // The only source is started once.
            Rows::Union(_) | Rows::Counted(_) | Rows::JsonTable(_) => {}
            Rows::Scan(scan) => {
                scan.start(at, &mut cx.env)?;
            }
        }
        Ok(())
    }
    /// Makes the rows of a LATERAL derived table, or the hash table of a source.
    async fn make(&mut self, depth: usize, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<()> {
        let (before, from) = self.levels.split_at_mut(depth);
        let level = &mut from[0];
        let sources: Current<'_> = before.iter().map(Level::row).collect();
        let here = Scope { sources: &sources, ..at };
        match (&mut level.hash, &mut level.rows) {
            (Hash::Yes(hash), Rows::Scan(scan)) => {
                hash.make_of_scan(scan, depth, at, cx).await?;
                hash.find(here, &mut cx.env)
            }
            (Hash::Yes(hash), Rows::Kept(kept)) => {
                hash.make_of_kept(kept, depth, at, cx).await?;
                hash.find(here, &mut cx.env)
            }
            (_, Rows::Lateral(lateral)) => lateral.make(cx, here).await,
            _ => Ok(()),
        }
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
        let first = nest;
        let mut passes = true;
        while let Some(n) = nest {
            let Nest { last, parent, after, .. } = &self.nests[n as usize];
            if *last as usize != depth {
                break;
            }
            self.matched[n as usize] = true;
            passes = self.holds(depth, after.as_ref(), at, cx)?;
            if !passes {
                break;
            }
            nest = *parent;
        }
        if let Some(profiled) = &self.profiled {
            self.count_judged(profiled, first, nest, depth, &mut cx.env);
        }
        Ok(passes)
    }
    /// True if the combination of rows up to this source passes the conditions that decide about
    /// the source's row.
    fn matches(&self, depth: usize, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<bool> {
        let Level { source, rows, hash, joined, .. } = &self.levels[depth];
        // What a lookup has left of the conditions on the source alone; its table has no rows that
        // do not pass them.
        let own;
        let left = match (rows, hash) {
            (_, Hash::Yes(_)) => &[],
            (Rows::Scan(scan), _) => scan.rest(),
            (_, Hash::Later(lookup, _) | Hash::Soon(lookup, _)) => {
                own = lookup.own.as_ref();
                own.as_slice()
            }
            (_, Hash::No) => &[],
        };
        let mut conditions = left.iter().copied().chain(*joined).chain(&source.filter).peekable();
        if conditions.peek().is_none() {
            return Ok(true);
        }
        self.with_rows(depth + 1, |sources| {
            for condition in conditions {
                let at = Scope { sources, ..at };
                if Eval::new(at, &mut cx.env).truth(condition)? != Some(true) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
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
        self.with_rows(depth + 1, |sources| {
            let at = Scope { sources, ..at };
            Ok(Eval::new(at, &mut cx.env).truth(condition)? == Some(true))
        })
    }
}

impl Level<'_> {
    /// Goes to the next row, if no future is needed for that; returns None otherwise, and whether
    /// there is a row if it is known.
    #[inline]
    fn advance_at_hand(&mut self, cx: &mut ExecContext<'_>) -> Result<Option<bool>> {
        if let Hash::Yes(hash) = &mut self.hash {
            return if hash.is_made() { hash.advance(&cx.env).map(Some) } else { Ok(None) };
        }
        Ok(match &mut self.rows {
            Rows::Scan(scan) => {
                scan.advance_at_hand(cx.trx, &mut cx.scratch.handlers).then_some(true)
            }
            Rows::Kept(kept) => Some(kept.advance()?),
            Rows::JsonTable(rows) => Some(rows.advance(&mut cx.env)?),
            Rows::Lateral(lateral) if lateral.is_made => Some(lateral.kept.advance()?),
            Rows::Lateral(_) | Rows::Union(_) | Rows::Counted(_) => None,
        })
    }
    fn has_to_be_made(&self) -> bool {
        match (&self.hash, &self.rows) {
            (Hash::Yes(hash), _) => !hash.is_made(),
            (_, Rows::Lateral(lateral)) => !lateral.is_made,
            _ => false,
        }
    }
    /// Notes that the current row does not belong to the result.
    fn refuse(&mut self, cx: &ExecContext<'_>) {
        match (&self.hash, &mut self.rows) {
            (Hash::Yes(_), _) => {}
            (_, Rows::Scan(scan)) => scan.refuse(cx.trx),
            (_, Rows::Kept(_) | Rows::Lateral(_) | Rows::Union(_) | Rows::Counted(_)) => {}
            (_, Rows::JsonTable(_)) => {}
        }
    }
    fn row(&self) -> Row<'_> {
        match (&self.hash, &self.rows) {
            _ if self.nulls.is_some() => Row::Nulls,
            (Hash::Yes(hash), Rows::Scan(scan)) => hash.row_of(scan),
            (Hash::Yes(hash), Rows::Kept(kept)) => Row::Values(hash.values_of(kept)),
            (_, Rows::Scan(scan)) => scan.row(),
            (_, Rows::Kept(kept)) => Row::Values(kept.current()),
            (_, Rows::Lateral(lateral)) => Row::Values(lateral.kept.current()),
            (_, Rows::Union(union)) => Row::Values(union.kept.current()),
            (_, Rows::Counted(counted)) => Row::Values(counted.current()),
            (_, Rows::JsonTable(rows)) => rows.row(),
        }
    }
}
