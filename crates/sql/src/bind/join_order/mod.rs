//! Chooses the order in which the sources of a FROM clause are joined.
//!
//! The binder numbers sources in the order of the text (FROM-1). Before conditions are placed, this
//! module gives the sources new numbers, if an order that the estimates find clearly cheaper
//! exists. What runs after it sees only the new numbers.
//!
//! **JOIN-1** A unit moves as a whole: a source outside all nests, or an outermost nest with all
//! that is in it. A nest stays behind each source that its ON names; if ON names no source outside,
//! the nest stays behind all sources before it. So no source passes the ON of an outer join in
//! which it takes part.
//! **JOIN-2** A LATERAL derived table stays behind the sources whose columns it takes. What stands
//! on the right of STRAIGHT_JOIN stays behind what stands on the left.
//! **JOIN-3** The order of the text holds for SELECT STRAIGHT_JOIN; where FOR UPDATE or FOR SHARE
//! stands in the SELECT or in a query inside it, because the order decides which rows are locked
//! (the locks that SERIALIZABLE adds are taken in any order); for statements with values that
//! depend on the order of rows, in derived tables, too (assignments of user variables, RAND());
//! and where a table has no statistics.
//! **JOIN-4** An order's estimated cost must be below [`CLEARLY`] of the cost of the text's order.
//! So estimates that are nearly equal do not make plans change.
//! **JOIN-6** In the order that is chosen, a source whose rows an index finds is read into a hash
//! table instead if that costs less for the estimated number of rows before it. Where orders are
//! not compared (JOIN-3), in a subquery that is run for each row, and where the statement gives a
//! hint for the source's indexes, the index is used. The plan keeps the access by the index, and
//! each run takes it if few rows are wanted, if reading locks rows, or if the table might need more
//! than a quarter of the statement's memory.
mod equal_columns;
mod estimate;
mod implied;
mod search;

use super::Binder;
use super::from::{FromClause, Raw, RawNest};
use super::order::{Purpose, Wanted, index_order};
use super::scope::Scope;
use super::select::RawKind;
use super::selectivity::{Known, Values, wanted_values};
use crate::error::Result;
use crate::parse::ast;
use crate::plan::function::Purity;
use crate::plan::{Expr, ExprKind, RowLock, SelectPlan};
use equal_columns::Classes;
use estimate::Inputs;
use implied::Implied;
use redolith_engine::dict::estimate::Statistics;
use search::Search;
use std::sync::Arc;

/// The steps that a statement may take to estimate and compare orders: a step is some nanoseconds,
/// and they are taken on a worker. A statement that has used them up keeps the order of its text.
pub(super) const STEPS: usize = 500_000;
/// The share of the cost of the text's order below which another order is chosen.
const CLEARLY: f64 = 0.8;
/// The number of rows that LIMIT is taken to want.
const LIMITED_ROWS: f64 = 100.0;
/// The cost of sorting a row, in rows read.
const SORT: f64 = 0.5;

/// A set of sources: bit n stands for source n. A FROM clause has at most 61 tables.
type Set = u64;

fn set_of(e: &Expr) -> Set {
    let mut set = 0;
    e.walk(&mut |e| {
        if let ExprKind::Column { source, .. } = e.kind {
            set |= 1 << source;
        }
    });
    set
}

/// What moves as a whole (JOIN-1).
struct Unit {
    first: usize,
    /// The number of sources, which follow each other.
    count: usize,
    is_nest: bool,
    /// The units that come before it.
    after: Set,
}
impl Unit {
    fn sources(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.count
    }
}

impl Binder<'_> {
    /// Gives the sources of a SELECT the numbers of their places in the cheapest order, and adds
    /// the conditions that follow from others (JOIN-5).
    pub(super) fn order_joins(
        &mut self,
        plan: &mut SelectPlan,
        from: &mut FromClause,
        conjuncts: &mut Vec<Expr>,
        lock: RowLock,
        select: &ast::Select,
        scope: &mut Scope,
    ) -> Result<()> {
        if from.sources.len() < 2 || from.sources.len() > Set::BITS as usize {
            return Ok(());
        }
        let given = conjuncts.len();
        let mut origins = Vec::new();
        for Implied { condition, of } in implied::of(conjuncts.iter().chain(&from.on)) {
            let mut nodes = 0;
            condition.walk(&mut |_| nodes += 1);
            self.charge(nodes)?;
            conjuncts.push(condition);
            origins.push(of);
        }
        let may_move = !select.straight_join
            && matches!(lock, RowLock::None | RowLock::ShareForChange)
            && !plan.locking
            && from.sources.iter().all(moves);
        let ors = conjuncts.len();
        if may_move {
            let equal = {
                let given: Vec<&Expr> = conjuncts[..given].iter().chain(&from.on).collect();
                Classes::of(from, given.iter().copied()).implied(&given)
            };
            self.charge(3 * equal.len())?;
            conjuncts.extend(equal);
        }
        let order = if may_move { self.cheaper_order(plan, from, conjuncts) } else { None };
        let order = order.unwrap_or_else(|| (0..from.sources.len()).collect());
        renumber(plan, from, conjuncts, scope, &order);
        let equal = conjuncts.split_off(ors);
        let equal = Classes::needed(from, conjuncts[..given].iter().chain(&from.on), equal);
        // An implied condition on the last source of its OR says nothing new there.
        let last = |of: &Set| order.iter().rposition(|old| of & 1 << old != 0);
        let implied = conjuncts.split_off(given).into_iter().zip(origins);
        let is_early = |(e, of): &(Expr, Set)| e.last_source().map(usize::from) < last(of);
        conjuncts.extend(implied.filter(is_early).map(|(e, _)| e));
        conjuncts.extend(equal);
        Ok(())
    }

    /// The cheapest order of the sources; None if that of the text stays. Notes which sources are
    /// found by hash in that order.
    fn cheaper_order(
        &mut self,
        plan: &SelectPlan,
        from: &mut FromClause,
        conjuncts: &[Expr],
    ) -> Option<Vec<usize>> {
        let units = units(from);
        let mut is_fixed = false;
        let mut look = |e: &Expr| is_fixed = is_fixed || e.any(&depends_on_order);
        plan.each_expr(&mut look);
        conjuncts.iter().chain(from.all_conditions()).for_each(&mut look);
        if is_fixed || from.sources.iter().any(has_effects) {
            return None;
        }
        // All tables are asked for, so that those without statistics get them together.
        let statistics: Vec<_> =
            from.sources.iter().map(|source| self.statistics_of(&source.kind)).collect();
        let statistics = statistics.into_iter().collect::<Option<Vec<_>>>()?;
        let values = self.values_for_histograms(from, conjuncts, &statistics);
        let inputs = Inputs::of(from, conjuncts, statistics, &values, self.join_steps);
        let is_given = units.iter().enumerate().all(|(n, unit)| unit.after == (1 << n) - 1);
        let order = if is_given { None } else { cheapest(plan, from, &inputs, &units) };
        let is_run_once = !conjuncts.iter().chain(from.all_conditions()).any(|e| e.any(&is_outer));
        let begins = order.as_ref().map_or(0, |order| order[0]);
        let leads = leader(plan, from, &units).is_some_and(|unit| units[unit].first == begins);
        // Where the first rows are enough, no hash table pays for them. All rows are wanted where
        // they are grouped or sorted first.
        let gathers = plan.grouping.is_some() || !plan.order.is_empty() && !leads;
        let most = match plan.limit.count {
            Some(_) if !gathers => LIMITED_ROWS,
            _ => f64::MAX,
        };
        let hashed = match is_run_once {
            true => hashed(&inputs, order.as_deref(), from.sources.len(), most),
            false => Vec::new(),
        };
        self.join_steps = inputs.steps_left();
        // Estimates that ran out of steps mean nothing.
        if self.join_steps == 0 {
            return None;
        }
        drop(inputs);
        hashed.into_iter().for_each(|source| from.sources[source].by_hash = true);
        order
    }

    /// The values that the estimates look up in histograms. The plan depends on these literals.
    fn values_for_histograms(
        &mut self,
        from: &FromClause,
        conjuncts: &[Expr],
        statistics: &[Option<Arc<Statistics>>],
    ) -> Values {
        if !self.parameterize || !statistics.iter().flatten().any(|s| s.has_histograms()) {
            return Values::default();
        }
        let histogram = |source: u16, column: u16| {
            let RawKind::Table { table, .. } = &from.sources[usize::from(source)].kind else {
                return None;
            };
            let statistics = statistics[usize::from(source)].as_ref()?;
            statistics.histogram(&table.def, usize::from(column))
        };
        let known = Known { histogram: &histogram, values: None };
        let mut wanted = Vec::new();
        let conditions = conjuncts.iter().chain(from.all_conditions());
        conditions.for_each(|e| wanted_values(e, &known, &mut wanted));
        let value = |n: u32| Some((n, self.literal_value(n).ok()?));
        wanted.into_iter().filter_map(value).collect()
    }

    /// The statistics of a source; None inside if it is not a table, None if they are wanted.
    #[allow(clippy::option_option)]
    fn statistics_of(&mut self, kind: &RawKind) -> Option<Option<Arc<Statistics>>> {
        match kind {
            RawKind::Table { table, .. } => self.statistics(table).map(Some),
            _ => Some(None),
        }
    }
}

fn moves(source: &Raw) -> bool {
    matches!(source.kind, RawKind::Table { .. } | RawKind::Derived(_) | RawKind::Lateral(..))
}

/// True for a derived table whose rows may depend on when it is made, or that locks rows (JOIN-3).
fn has_effects(source: &Raw) -> bool {
    match &source.kind {
        RawKind::Derived(plan) | RawKind::Lateral(plan, _) => plan.locking || plan.is_volatile(),
        _ => false,
    }
}

fn is_outer(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Outer(_))
}

/// True for what may have another value if rows come in another order (JOIN-3).
fn depends_on_order(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::AssignUserVariable(..) => true,
        ExprKind::UserVariable { assigned, .. } => *assigned,
        ExprKind::Call { function, .. } => function.purity() == Purity::Volatile,
        ExprKind::Subquery(q) => q.body.volatile || q.body.plan.locking,
        _ => false,
    }
}

/// The outermost nest around a source.
fn outermost(nests: &[RawNest], mut nest: Option<u16>) -> Option<u16> {
    while let Some(parent) = nest.and_then(|n| nests[n as usize].parent) {
        nest = Some(parent);
    }
    nest
}

fn units(from: &FromClause) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut last_nest = None;
    // The unit of each source.
    let mut unit_of = Vec::with_capacity(from.sources.len());
    for (s, source) in from.sources.iter().enumerate() {
        let nest = outermost(&from.nests, source.nest);
        match units.last_mut() {
            Some(unit) if nest.is_some() && nest == last_nest => unit.count += 1,
            _ => units.push(Unit { first: s, count: 1, is_nest: nest.is_some(), after: 0 }),
        }
        unit_of.push(units.len() - 1);
        last_nest = nest;
    }
    let of_sources = |set: Set| {
        let members = unit_of.iter().enumerate().filter(|(s, _)| set & 1 << s != 0);
        members.fold(0, |units, (_, unit)| units | 1 << unit)
    };
    let mut after = vec![0; units.len()];
    for (s, source) in from.sources.iter().enumerate() {
        let mut needs = source.after;
        if let RawKind::Lateral(_, outer) = &source.kind {
            needs |= outer.iter().fold(0, |set, e| set | set_of(e));
        }
        let mut nest = source.nest;
        while let Some(n) = nest {
            needs |= from.nests[n as usize].on.iter().fold(0, |set, e| set | set_of(e));
            nest = from.nests[n as usize].parent;
        }
        after[unit_of[s]] |= of_sources(needs);
    }
    for (n, unit) in units.iter_mut().enumerate() {
        unit.after = after[n] & !(1 << n);
        if unit.is_nest && unit.after == 0 {
            unit.after = (1 << n) - 1;
        }
    }
    units
}

/// The cheapest order of the units, as source numbers; None if it is not clearly cheaper than that
/// of the text.
fn cheapest(
    plan: &SelectPlan,
    from: &FromClause,
    inputs: &Inputs<'_>,
    units: &[Unit],
) -> Option<Vec<usize>> {
    let search = Search::new(units, |unit, placed| inputs.visit(unit, placed));
    let leader = leader(plan, from, units);
    let text: Vec<usize> = (0..units.len()).collect();
    let cost = |order: &[usize]| {
        let (cost, rows) = search.cost(order);
        match leader {
            // The rows come in the wanted order, and the first of them are enough.
            Some(leader) if order[0] == leader => cost * (LIMITED_ROWS / rows.max(1.0)).min(1.0),
            Some(_) => cost + rows * SORT,
            None => cost,
        }
    };
    let candidates = [search.best(None), leader.and_then(|leader| search.best(Some(leader)))];
    let (best, least) = candidates
        .into_iter()
        .flatten()
        .map(|order| (cost(&order), order))
        .reduce(|a, b| if b.0 < a.0 { b } else { a })
        .map(|(cost, order)| (order, cost))?;
    let is_better = best != text && least < cost(&text) * CLEARLY;
    is_better.then(|| best.into_iter().flat_map(|unit| units[unit].sources()).collect())
}

/// The sources that cost less by hash in an order; None is that of the text (JOIN-6).
fn hashed(inputs: &Inputs<'_>, order: Option<&[usize]>, count: usize, most: f64) -> Vec<usize> {
    let text: Vec<usize> = (0..count).collect();
    let (mut rows, mut placed, mut hashed) = (1f64, 0, Vec::new());
    for &source in order.unwrap_or(&text) {
        let visit = inputs.visit_source(source, placed);
        if visit.is_hashed(rows.min(most)) {
            hashed.push(source);
        }
        rows = (rows * visit.rows).max(1.0);
        placed |= 1 << source;
    }
    hashed
}

/// The unit whose index gives the rows in the order that ORDER BY .. LIMIT wants.
fn leader(plan: &SelectPlan, from: &FromClause, units: &[Unit]) -> Option<usize> {
    units.iter().position(|unit| {
        let RawKind::Table { table, .. } = &from.sources[unit.first].kind else { return false };
        let wanted = Wanted::of_source(plan, from.sources.len(), unit.first as u16);
        let gives = |index| index_order(&table.def, index, &[], &wanted.order).is_some();
        unit.after == 0
            && wanted.purpose == Purpose::Order
            && wanted.limited
            && (0..table.def.indexes.len()).any(|index| gives(Some(index)))
    })
}

/// Gives the sources their new numbers: `order` has the old number for each new one.
fn renumber(
    plan: &mut SelectPlan,
    from: &mut FromClause,
    conjuncts: &mut [Expr],
    scope: &mut Scope,
    order: &[usize],
) {
    if order.is_sorted() {
        return;
    }
    let mut new = vec![0u16; order.len()];
    order.iter().enumerate().for_each(|(n, old)| new[*old] = n as u16);
    let mut give = |e: &mut Expr| give_number(e, &new);
    plan.output.iter_mut().chain(&mut plan.having).for_each(&mut give);
    if let Some(grouping) = &mut plan.grouping {
        grouping.keys.iter_mut().for_each(&mut give);
        grouping.aggregates.iter_mut().flat_map(|a| &mut a.args).for_each(&mut give);
    }
    conjuncts.iter_mut().chain(&mut from.on).for_each(&mut give);
    for nest in &mut from.nests {
        nest.on.iter_mut().for_each(&mut give);
        // The sources of a nest follow each other as before (JOIN-1).
        (nest.first, nest.last) = (new[nest.first as usize], new[nest.last as usize]);
    }
    for source in &mut from.sources {
        if let RawKind::Lateral(_, outer) = &mut source.kind {
            outer.iter_mut().for_each(&mut give);
        }
    }
    from.sources = permuted(std::mem::take(&mut from.sources), order);
    // Only the tables' names are wanted from now on: columns of the scope keep their old numbers.
    scope.views.clear();
    scope.sources = permuted(std::mem::take(&mut scope.sources), order);
}

fn permuted<T>(list: Vec<T>, order: &[usize]) -> Vec<T> {
    let mut list: Vec<Option<T>> = list.into_iter().map(Some).collect();
    order.iter().filter_map(|old| list[*old].take()).collect()
}

fn give_number(e: &mut Expr, new: &[u16]) {
    if let ExprKind::Column { source, .. } = &mut e.kind {
        *source = new[*source as usize];
    }
    e.parts_mut(&mut |part| give_number(part, new));
}
