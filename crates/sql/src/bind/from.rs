//! Binds the FROM clause: its tables, and the conditions of its joins.
//!
//! **FROM-1** Sources are numbered in the order in which the executor reads them. The right side
//! of a RIGHT JOIN comes before its left side; otherwise the order is that of the text.
//! **FROM-2** The tables that a row of NULLs may stand for together are a nest
//! ([`plan::Nest`](crate::plan::Nest)): the right side of a LEFT JOIN, the left side of a RIGHT
//! JOIN. A nest never begins with a nest: the source before which it stands is not in it.
use super::Binder;
use super::columns_read::IndexSet;
use super::derived::{is_changing, name_columns};
use super::enum_set::keep_numbers;
use super::expr::Env;
use super::scope::{Clause, Scope};
use super::select::{RawKind, flatten};
use super::slot;
use super::view::ViewPlace;
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, FactorKind, Join, JoinOn, JoinSide, TableFactor};
use crate::plan::{CompareOp, Expr};
use std::collections::HashSet;

/// The FROM clause before its conditions are placed.
#[derive(Clone, Default)]
pub(super) struct FromClause {
    pub sources: Vec<Raw>,
    pub nests: Vec<RawNest>,
    /// The conditions of inner joins outside all nests.
    pub on: Vec<Expr>,
    /// What new rows of the views must pass (VDML-2).
    pub checks: Vec<Expr>,
}
/// A FROM item before its conditions are known.
#[derive(Clone)]
pub(super) struct Raw {
    pub kind: RawKind,
    /// The innermost nest.
    pub nest: Option<u16>,
    /// The sources that stay before it because of STRAIGHT_JOIN: bit n stands for source n.
    pub after: u64,
    /// Its rows are found by hash, although an index finds them, too (JOIN-6).
    pub by_hash: bool,
    /// The table's indexes that have all columns that the statement reads.
    pub covered_by: IndexSet,
}
impl Raw {
    pub fn new(kind: RawKind, nest: Option<u16>, after: u64) -> Raw {
        Raw { kind, nest, after, by_hash: false, covered_by: IndexSet::NONE }
    }
}
#[derive(Clone)]
pub(super) struct RawNest {
    pub first: u16,
    pub last: u16,
    pub parent: Option<u16>,
    /// The conditions of its own join and of the inner joins within it.
    pub on: Vec<Expr>,
}

/// ER_BAD_FIELD_ERROR
const UNKNOWN_COLUMN: u16 = 1054;

/// The columns of a join in the order of `*`: source and column of each.
type Star = Vec<(usize, usize)>;

/// What is around a part of the clause.
#[derive(Clone, Copy)]
struct Around<'e> {
    outer: Option<&'e Env<'e>>,
    /// SELECT STRAIGHT_JOIN
    straight: bool,
    /// Columns may be NULL although their tables say otherwise: WITH ROLLUP.
    nullable: bool,
    nest: Option<u16>,
}

impl RawNest {
    /// Whether the source is in the nest.
    pub fn has(&self, source: u16) -> bool {
        (self.first..=self.last).contains(&source)
    }
}

impl FromClause {
    /// Opens a nest before the next source.
    fn open(&mut self, parent: Option<u16>) -> Result<u16> {
        let first = slot(self.sources.len())?;
        self.nests.push(RawNest { first, last: first, parent, on: Vec::new() });
        slot(self.nests.len() - 1)
    }
    fn close(&mut self, nest: u16) {
        self.nests[nest as usize].last = (self.sources.len() - 1) as u16;
    }
    /// The sources from `place` on stay behind those from `first` on that are before `place`.
    fn hold(&mut self, first: usize, place: usize) {
        let before = (first..place).fold(0, |set, n| set | 1u64.checked_shl(n as u32).unwrap_or(0));
        self.sources[place..].iter_mut().for_each(|source| source.after |= before);
    }
    /// The conditions that decide about the rows of a nest, or of the whole clause.
    pub fn conditions(&mut self, nest: Option<u16>) -> &mut Vec<Expr> {
        match nest {
            Some(nest) => &mut self.nests[nest as usize].on,
            None => &mut self.on,
        }
    }
    /// Every condition of the clause.
    pub fn all_conditions(&self) -> impl Iterator<Item = &Expr> + Clone {
        self.on.iter().chain(self.nests.iter().flat_map(|nest| &nest.on))
    }
}

impl Binder<'_> {
    pub(super) fn from(
        &mut self,
        select: &ast::Select,
        scope: &mut Scope,
        outer: Option<&Env<'_>>,
    ) -> Result<FromClause> {
        let mut from = FromClause::default();
        if !select.from.is_empty() {
            let (straight, nullable) = (select.straight_join, select.rollup);
            let around = Around { outer, straight, nullable, nest: None };
            scope.star = self.joins(&select.from, &mut from, scope, around)?;
        }
        scope.seen_from = 0;
        Ok(from)
    }

    /// Joins with commas between them: what stands on the two sides of a comma does not see each
    /// other.
    fn joins(
        &mut self,
        factors: &[TableFactor],
        from: &mut FromClause,
        scope: &mut Scope,
        around: Around<'_>,
    ) -> Result<Star> {
        let mut star = Star::new();
        let is_comma = |factor: &TableFactor| matches!(factor.join, Join::Comma);
        for chain in factors.chunk_by(|_, next| !is_comma(next)) {
            star.append(&mut self.chain(chain, from, scope, around)?);
        }
        Ok(star)
    }

    /// Joins from left to right (FROM-1). The right sides of RIGHT JOINs come first, the last of
    /// them before all others, and each RIGHT JOIN ends a nest.
    fn chain(
        &mut self,
        chain: &[TableFactor],
        from: &mut FromClause,
        scope: &mut Scope,
        around: Around<'_>,
    ) -> Result<Star> {
        let is_right = |factor: &&TableFactor| matches!(factor.join, Join::Of(JoinSide::Right, _));
        let mut waiting = Vec::new();
        let mut at = around;
        for right in chain.iter().filter(is_right).rev() {
            let first = scope.sources.len();
            let star = match self.factor(right, from, scope, at) {
                Err(error) if self.refers_to_left(chain, right, &error, around) => {
                    let alias = right.alias.as_deref().unwrap_or_default();
                    return Err(SqlError::lateral_right_join(alias));
                }
                star => star?,
            };
            waiting.push((first, star, at));
            at.nest = Some(from.open(at.nest)?);
        }
        let mut first = scope.sources.len();
        let mut star = self.factor(&chain[0], from, scope, at)?;
        for factor in &chain[1..] {
            let Join::Of(side, on) = &factor.join else { continue };
            let (right, owner) = match side {
                JoinSide::Inner => (self.factor(factor, from, scope, at)?, at.nest),
                JoinSide::Straight => {
                    let place = from.sources.len();
                    let right = self.factor(factor, from, scope, at)?;
                    from.hold(first, place);
                    (right, at.nest)
                }
                JoinSide::Left => {
                    let nest = Some(from.open(at.nest)?);
                    let right = self.factor(factor, from, scope, Around { nest, ..at })?;
                    nest.iter().for_each(|nest| from.close(*nest));
                    (right, nest)
                }
                JoinSide::Right => {
                    let nest = at.nest;
                    nest.iter().for_each(|nest| from.close(*nest));
                    let (start, right, outside) =
                        waiting.pop().expect("each RIGHT JOIN has left its right side");
                    (first, at) = (start, outside);
                    (right, nest)
                }
            };
            scope.seen_from = first;
            // The columns that the join's coalesced ones come from stand first in `*`.
            let (kept, other) =
                if *side == JoinSide::Right { (right, star) } else { (star, right) };
            let (common, mut conditions) = match on {
                JoinOn::Nothing => (Vec::new(), Vec::new()),
                JoinOn::Condition(condition) => {
                    self.aggregates = None;
                    let env = Env { scope, outer: at.outer, ..Env::new(scope, Clause::On) };
                    let mut parts = Vec::new();
                    let mut condition = self.condition(&env, condition)?;
                    if matches!(side, JoinSide::Inner | JoinSide::Straight) {
                        condition = self.with_zero_dates(condition, scope)?;
                    }
                    flatten(condition, &mut parts);
                    (Vec::new(), parts)
                }
                JoinOn::Using(names) => self.using(scope, &kept, &other, names)?,
                JoinOn::Natural => {
                    let names = natural_names(scope, &kept, &other);
                    self.using(scope, &kept, &other, &names)?
                }
            };
            from.conditions(owner).append(&mut conditions);
            star = match (on, side) {
                // Without coalesced columns `*` has the order of the text.
                (JoinOn::Nothing | JoinOn::Condition(_), JoinSide::Right) => [other, kept].concat(),
                _ => {
                    let common: HashSet<_> = common.into_iter().collect();
                    let (mut star, rest): (Star, Star) =
                        kept.into_iter().partition(|at| common.contains(at));
                    star.extend(rest);
                    star.extend(other.into_iter().filter(|at| !scope.column(*at).merged));
                    star
                }
            };
        }
        Ok(star)
    }

    /// Whether the right side of a RIGHT JOIN has failed only because it names tables of the left
    /// side, which are read after it. The statement fails in either case. This is asked once in a
    /// statement: joins within joins would each be bound twice as often as the one around them.
    fn refers_to_left(
        &mut self,
        chain: &[TableFactor],
        right: &TableFactor,
        error: &SqlError,
        around: Around<'_>,
    ) -> bool {
        let is_lateral = matches!(
            right.kind,
            FactorKind::JsonTable(_) | FactorKind::Derived { lateral: true, .. }
        );
        if !is_lateral || error.code != UNKNOWN_COLUMN || self.tells_error {
            return false;
        }
        self.tells_error = true;
        let left = chain.iter().take_while(|factor| !std::ptr::eq(*factor, right));
        let (mut from, mut scope) = (FromClause::default(), Scope::default());
        left.chain([right]).all(|factor| self.factor(factor, &mut from, &mut scope, around).is_ok())
    }

    fn factor(
        &mut self,
        factor: &TableFactor,
        from: &mut FromClause,
        scope: &mut Scope,
        around: Around<'_>,
    ) -> Result<Star> {
        if let FactorKind::Nested(inner) = &factor.kind {
            return self.joins(inner, from, scope, around);
        }
        if let FactorKind::Table { name, hints } = &factor.kind
            && let Some(view) = self.view_named(name)?
        {
            if let Some(index) = hints.iter().flat_map(|hint| &hint.indexes).next() {
                return Err(SqlError::no_such_key(index, &name.name));
            }
            let place = ViewPlace {
                alias: factor.alias.as_deref().unwrap_or(&name.name),
                nest: around.nest,
                nullable: around.nest.is_some() || around.nullable,
            };
            self.view(&view, place, from, scope)?;
            return Ok(std::mem::take(&mut scope.star));
        }
        let kind = self.leaf(factor, scope, around)?;
        from.sources.push(Raw::new(kind, around.nest, 0));
        Ok(std::mem::take(&mut scope.star))
    }

    /// Binds a table, and adds its columns to the scope.
    fn leaf(
        &mut self,
        factor: &TableFactor,
        scope: &mut Scope,
        around: Around<'_>,
    ) -> Result<RawKind> {
        let (left, nullable) = (around.nest.is_some(), around.nest.is_some() || around.nullable);
        Ok(match &factor.kind {
            FactorKind::Table { name, hints } => match self.virtual_table(name)? {
                Some(table) => {
                    // The table is known by its name as written in the statement (ISCH-1).
                    scope.add_table(
                        table.info(),
                        Some(factor.alias.as_deref().unwrap_or(&name.name)),
                        nullable,
                    )?;
                    RawKind::Virtual(table)
                }
                None => {
                    let table = self.open_table(name, false)?;
                    self.describe(table.def.columns.len())?;
                    scope.add_table(&table, factor.alias.as_deref(), nullable)?;
                    RawKind::Table { table, hints: hints.clone() }
                }
            },
            FactorKind::Itself { name, inside } => {
                let alias = factor.alias.as_deref().unwrap_or(name);
                let forced = around.straight && !scope.sources.is_empty();
                self.itself(name, *inside, left || forced, alias, scope)?
            }
            FactorKind::JsonTable(table) => {
                let alias = factor.alias.as_deref().unwrap_or_default();
                scope.seen_from = 0;
                let env =
                    Env { scope, outer: around.outer, ..Env::new(scope, Clause::TableFunction) };
                let (mut plan, outer) = self.json_table(&env, table, alias)?;
                let source = scope.add_derived(alias, &plan.columns, nullable)?;
                keep_numbers(&mut plan, &mut scope.sources[source as usize].columns);
                RawKind::Lateral(Box::new(plan), outer)
            }
            FactorKind::Derived { select, columns, lateral: true, .. } => {
                let alias = factor.alias.as_deref().ok_or_else(SqlError::derived_needs_alias)?;
                scope.seen_from = 0;
                let recursions = std::mem::take(&mut self.recursions);
                let env = Env { scope, outer: around.outer, ..Env::new(scope, Clause::From) };
                let bound = self.subselect(&env, select);
                self.recursions = recursions;
                let (mut plan, outer) = bound?;
                plan.probe = None;
                name_columns(&mut plan, columns)?;
                let source = scope.add_derived(alias, &plan.columns, nullable)?;
                keep_numbers(&mut plan, &mut scope.sources[source as usize].columns);
                RawKind::Lateral(Box::new(plan), outer)
            }
            FactorKind::Derived { select, columns, again, recursive, .. } => {
                let alias = factor.alias.as_deref().ok_or_else(SqlError::derived_needs_alias)?;
                // A derived table sees nothing outside.
                let taken = std::mem::take(&mut self.taken);
                let recursions = std::mem::take(&mut self.recursions);
                let plan = match recursive {
                    Some(name) => self.recursive(name, columns, select),
                    None => self.select(select, None),
                };
                (self.taken, self.recursions) = (taken, recursions);
                let mut plan = plan?;
                name_columns(&mut plan, columns)?;
                if *again && is_changing(&plan) {
                    return Err(SqlError::unsupported(
                        "several uses of a common table expression whose values differ",
                    ));
                }
                let source = scope.add_derived(alias, &plan.columns, nullable)?;
                keep_numbers(&mut plan, &mut scope.sources[source as usize].columns);
                RawKind::Derived(Box::new(plan))
            }
            FactorKind::Nested(_) => unreachable!("a join is not a table"),
        })
    }

    /// Binds USING (columns): each column must be equal on both sides. `*` and plain names mean
    /// the column of `kept`, and do not see that of `other`. Returns the columns of `kept`.
    fn using(
        &mut self,
        scope: &mut Scope,
        kept: &Star,
        other: &Star,
        names: &[impl AsRef<str>],
    ) -> Result<(Star, Vec<Expr>)> {
        let (mut common, mut conditions) = (Star::new(), Vec::new());
        for name in names {
            let name = name.as_ref();
            let (left, right) = (one(scope, kept, name)?, one(scope, other, name)?);
            let (l, r) = (self.column_value(scope, left)?, self.column_value(scope, right)?);
            conditions.push(self.compare(CompareOp::Eq, l, r)?);
            common.push(left);
            scope.column_mut(right).merged = true;
        }
        Ok((common, conditions))
    }
}

/// The column of one side that USING names.
fn one(scope: &Scope, side: &Star, name: &str) -> Result<(usize, usize)> {
    let is_named = |at: &&(usize, usize)| scope.column(**at).name.eq_ignore_ascii_case(name);
    let mut found = side.iter().filter(is_named);
    match (found.next(), found.next()) {
        (Some(at), None) => Ok(*at),
        (Some(_), Some(_)) => Err(SqlError::ambiguous_column(name, Clause::From.name())),
        (None, _) => hidden(scope, side, name)
            .ok_or_else(|| SqlError::unknown_column(name, Clause::From.name())),
    }
}
/// An invisible column, which `*` does not have.
fn hidden(scope: &Scope, side: &Star, name: &str) -> Option<(usize, usize)> {
    let sources: HashSet<usize> = side.iter().map(|(source, _)| *source).collect();
    let find = |s: usize| {
        let source = scope.named(s);
        source.column(name).filter(|c| source.columns[*c].hidden).map(|c| (s, c))
    };
    sources.into_iter().find_map(find)
}

/// The names that both sides of a NATURAL JOIN have, in the order of `kept`.
fn natural_names(scope: &Scope, kept: &Star, other: &Star) -> Vec<std::sync::Arc<str>> {
    let lower = |at: &(usize, usize)| scope.column(*at).name.to_ascii_lowercase();
    let names: HashSet<String> = other.iter().map(lower).collect();
    let mut known = HashSet::new();
    let common = kept.iter().filter(|at| names.contains(&lower(at)));
    // A name that `kept` has twice is ambiguous, which the search for it tells.
    common.filter(|at| known.insert(lower(at))).map(|at| scope.column(*at).name.clone()).collect()
}

/// The place of a condition that decides about the rows of the nest `owner`, or of the whole
/// clause.
pub(super) enum At {
    /// Where the source's row is read.
    Source(usize),
    /// Where the nest within `owner` has its row, which may be that of NULLs.
    After(usize),
}
impl FromClause {
    /// Where a condition is decided. As in MySQL, RAND() has a number for each combination of rows,
    /// but not beside correlated subqueries (`answers`): there it is decided with the first source,
    /// because conditions that are decided together begin again when a subquery has its answer.
    pub fn place_of(&self, owner: Option<u16>, condition: &Expr, answers: bool) -> At {
        let (first, last) = match owner {
            Some(nest) => (self.nests[nest as usize].first, self.nests[nest as usize].last),
            None => (0, self.sources.len() as u16 - 1),
        };
        let source = match !answers && condition.any(&Expr::is_changing_node) {
            true => last as usize,
            false => condition.last_source().unwrap_or(0).max(first) as usize,
        };
        let (mut nest, mut inside) = (self.sources[source].nest, None);
        while nest != owner {
            inside = nest;
            nest = nest.and_then(|nest| self.nests[nest as usize].parent);
        }
        inside.map_or(At::Source(source), |nest| At::After(nest as usize))
    }
}
