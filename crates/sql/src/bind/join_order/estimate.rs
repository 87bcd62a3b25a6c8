//! Estimates what it costs to find the rows of a source for one row of the sources before it. The
//! unit of cost is one row read in the order of its key.
use super::super::access_path::{allowed, row_cost};
use super::super::columns_read::IndexSet;
use super::super::cost::{HASH_ROW, HASH_SEARCH, KEPT_ROW, SEEK, SOME_ROWS};
use super::super::from::{FromClause, Raw};
use super::super::hash_join::may_be_key;
use super::super::range::Finder;
use super::super::select::RawKind;
use super::super::selectivity::{
    DEFAULT_EQUAL, Known, Values, by_histogram, share_of, share_of_intervals,
};
use super::equal_columns::Classes;
use super::{Set, Unit, set_of};
use crate::plan::{AccessKind, CompareOp, Expr, ExprKind, SelectPlan, Source, SourceKind};
use crate::table_info::TableInfo;
use redolith_engine::dict::estimate::Statistics;
use redolith_types::IndexDef;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;

/// The least share of rows that orders of joins reckon with where histograms say less, as MySQL
/// does: rows may have come since, and an order that counts on none is the worst if there are some.
const LEAST_SHARE: f64 = 0.001;

/// The cost and the number of rows of a unit for one row of the sources before it.
#[derive(Clone, Copy)]
pub(super) struct Visit {
    pub cost: f64,
    pub rows: f64,
    /// The same with hash tables, if they can find rows of it.
    pub hashed: Option<Hashed>,
}
/// The cost of making hash tables, and of finding rows for one row of the sources before.
#[derive(Clone, Copy)]
pub(super) struct Hashed {
    once: f64,
    each: f64,
}
impl Visit {
    /// The cost for `times` rows of the sources before.
    pub fn cost_of(&self, times: f64) -> f64 {
        let plain = times * self.cost;
        self.hashed.map_or(plain, |hashed| plain.min(hashed.once + times * hashed.each))
    }
    /// Whether the cost for `times` rows is that with hash tables.
    pub fn is_hashed(&self, times: f64) -> bool {
        self.hashed.is_some() && self.cost_of(times) < times * self.cost
    }
}

/// A condition as it bears on one source.
struct Fact {
    /// The other sources that it reads.
    needs: Set,
    /// The share of the source's rows that it leaves.
    share: f64,
    search: Option<Search>,
    /// The condition is checked when an outer join has made its row.
    is_after: bool,
    /// The condition can be a key of a hash table (HASH-1).
    is_key: bool,
    /// The class of equal columns that the condition is about, and the source's column: of several
    /// conditions with the same one says all (JOIN-7).
    class: Option<(usize, u16)>,
}
/// A condition that an index whose columns are fixed up to this one can use.
#[derive(Clone, Copy)]
struct Search {
    column: usize,
    /// The number of values, each of which is equal; None for ranges.
    equal: Option<usize>,
}

struct Input<'f> {
    table: Option<(&'f Arc<TableInfo>, Arc<Statistics>)>,
    rows: f64,
    /// What the source costs for each row before it, if it is no table.
    cost: f64,
    /// The indexes that hints leave.
    indexes: Vec<usize>,
    covered_by: IndexSet,
    /// A hash table can hold its rows.
    may_be_hashed: bool,
    facts: Vec<Fact>,
}

/// The sources of a FROM clause with what is known of their rows.
pub(super) struct Inputs<'f> {
    list: Vec<Input<'f>>,
    classes: Classes,
    values: &'f Values,
    /// The steps that are left. Without steps the estimates are made up.
    steps: Cell<usize>,
}

impl<'f> Inputs<'f> {
    /// `statistics` are those of the sources that are tables, `values` those of parameters.
    pub fn of(
        from: &'f FromClause,
        conjuncts: &[Expr],
        statistics: Vec<Option<Arc<Statistics>>>,
        values: &'f Values,
        steps: usize,
    ) -> Inputs<'f> {
        let sources = from.sources.iter().zip(statistics);
        let list = sources.map(|(source, statistics)| Input::of(source, statistics)).collect();
        let classes = Classes::of(from, conjuncts.iter().chain(&from.on));
        let mut inputs = Inputs { list, classes, values, steps: Cell::new(steps) };
        conjuncts.iter().chain(&from.on).for_each(|e| inputs.note(from, None, e));
        for (n, nest) in from.nests.iter().enumerate() {
            nest.on.iter().for_each(|e| inputs.note(from, Some(n as u16), e));
        }
        inputs
    }

    pub fn steps_left(&self) -> usize {
        self.steps.get()
    }
    /// Takes steps. Returns false if none are left.
    fn step(&self, steps: usize) -> bool {
        self.steps.set(self.steps.get().saturating_sub(steps));
        self.steps.get() > 0
    }

    /// Notes what a condition, which decides about the rows of the nest `owner` or of the whole
    /// clause, tells of each source that it reads.
    fn note(&mut self, from: &FromClause, owner: Option<u16>, condition: &Expr) {
        let reads = set_of(condition);
        let indexes = |s: usize| self.list[s].table.as_ref().map_or(0, |t| t.0.def.indexes.len());
        let sources = (0..self.list.len()).filter(|s| reads & 1 << s != 0);
        if !self.step(sources.map(|s| 100 + 2 * indexes(s)).sum()) {
            return;
        }
        let joined = self.share_of_join(condition);
        for s in (0..self.list.len()).filter(|s| reads & 1 << s != 0) {
            let nest = from.sources[s].nest;
            if owner.is_some_and(|owner| !is_inside(from, nest, owner)) {
                continue;
            }
            let is_after = owner.is_none() && nest.is_some();
            let class = self.classes.class_at(s, condition);
            let fact = self.list[s].fact(s, condition, joined, is_after, self.values);
            self.list[s].facts.push(Fact { needs: reads & !(1 << s), class, ..fact });
        }
    }

    /// The share of the pairs of rows that `column = column` leaves: each value of the column with
    /// more of them has its row.
    fn share_of_join(&self, condition: &Expr) -> Option<f64> {
        let ExprKind::Compare { op: CompareOp::Eq, sides, .. } = &condition.kind else {
            return None;
        };
        let values = |e: &Expr| match e.kind {
            ExprKind::Column { source, column } => {
                self.list[source as usize].values(column as usize)
            }
            _ => None,
        };
        let values = [values(&sides[0]), values(&sides[1])];
        values.into_iter().flatten().reduce(f64::max).map(|values| 1.0 / values.max(1.0))
    }

    /// What one source costs for one row of the sources `placed`.
    pub fn visit_source(&self, source: usize, placed: Set) -> Visit {
        self.list[source].visit(placed, |steps| self.step(steps))
    }
    /// What a unit costs for one row of the sources `placed`.
    pub fn visit(&self, unit: &Unit, mut placed: Set) -> Visit {
        let mut whole = Visit { cost: 0.0, rows: 1.0, hashed: None };
        let mut left = 1.0;
        for s in unit.sources() {
            let visit = self.list[s].visit(placed, |steps| self.step(steps));
            let times = whole.rows.max(1.0);
            if whole.hashed.is_some() || visit.hashed.is_some() {
                let so_far = whole.hashed.unwrap_or(Hashed { once: 0.0, each: whole.cost });
                let here = visit.hashed.unwrap_or(Hashed { once: 0.0, each: visit.cost });
                whole.hashed = Some(Hashed {
                    once: so_far.once + here.once,
                    each: so_far.each + times * here.each,
                });
            }
            whole.cost += times * visit.cost;
            whole.rows *= visit.rows;
            placed |= 1 << s;
            let after = self.list[s].facts.iter().filter(|f| f.is_after && f.needs & !placed == 0);
            left *= after.map(|f| f.share).product::<f64>();
        }
        if unit.is_nest {
            // A row of NULLs stands where no row matches.
            whole.rows = whole.rows.max(1.0) * left;
        }
        whole
    }
}

/// Whether `nest` is the nest `around` or lies in it.
fn is_inside(from: &FromClause, mut nest: Option<u16>, around: u16) -> bool {
    while let Some(n) = nest {
        if n == around {
            return true;
        }
        nest = from.nests[n as usize].parent;
    }
    false
}

impl<'f> Input<'f> {
    fn of(raw: &'f Raw, statistics: Option<Arc<Statistics>>) -> Input<'f> {
        let kind = &raw.kind;
        let (mut rows, mut table, mut indexes) = (SOME_ROWS, None, Vec::new());
        let mut made = 0.0;
        match (kind, statistics) {
            (RawKind::Table { table: info, hints }, Some(statistics)) => {
                rows = statistics.rows.max(1) as f64;
                // A hint with a wrong name fails the statement when the path is chosen.
                indexes = allowed(info, hints).map(|allowed| allowed.search).unwrap_or_default();
                table = Some((info, statistics));
            }
            (RawKind::Derived(plan), _) => rows = rows_of(plan),
            // It is made again for each row.
            (RawKind::Lateral(plan, _), _) => (rows, made) = (rows_of(plan), rows_read_by(plan)),
            _ => {}
        }
        let may_be_hashed = !matches!(kind, RawKind::Lateral(..));
        let cost = rows * KEPT_ROW + made;
        Input {
            table,
            rows,
            cost,
            indexes,
            covered_by: raw.covered_by,
            may_be_hashed,
            facts: Vec::new(),
        }
    }

    fn fact(
        &self,
        source: usize,
        condition: &Expr,
        joined: Option<f64>,
        is_after: bool,
        values: &Values,
    ) -> Fact {
        let is_key = !is_after && may_be_key(source as u16, condition);
        let histogram = |of: u16, column: u16| {
            let (table, statistics) = self.table.as_ref().filter(|_| usize::from(of) == source)?;
            statistics.histogram(&table.def, usize::from(column))
        };
        let known = Known { histogram: &histogram, values: Some(values) };
        let told = by_histogram(condition, &known).map(|share| share.clamp(LEAST_SHARE, 1.0));
        let share = told.unwrap_or_else(|| share_of(condition, &known).max(LEAST_SHARE));
        let mut fact = Fact { needs: 0, share, search: None, is_after, is_key, class: None };
        if let Some((table, _)) = &self.table {
            let finder = Finder::anywhere(table, source as u16);
            let test = finder.tests(std::slice::from_ref(condition)).pop();
            if let Some(test) = test {
                let equal = test.all_equal().then_some(test.intervals.len());
                let each = self.values(test.column).map_or(DEFAULT_EQUAL, |values| 1.0 / values);
                fact.share = match (told, equal) {
                    (Some(share), _) => share,
                    (None, Some(count)) => (each * count as f64).min(1.0),
                    (None, None) => share_of_intervals(&test.intervals),
                };
                fact.search = Some(Search { column: test.column, equal }).filter(|_| !is_after);
            }
        }
        fact.share = joined.unwrap_or(fact.share);
        fact
    }

    /// The number of different values of a column, if an index begins with it.
    fn values(&self, column: usize) -> Option<f64> {
        let (table, statistics) = self.table.as_ref()?;
        let indexes = table.def.indexes.iter().enumerate();
        let found = indexes.filter_map(|(i, index)| match index.columns.first() {
            Some(part) if part.column == column && part.prefix.is_none() => {
                Some(self.rows / statistics.rows_per_key(i, 1)?)
            }
            _ => None,
        });
        found.reduce(f64::max)
    }

    /// What the source costs for one row of the sources `placed`.
    fn visit(&self, placed: Set, step: impl Fn(usize) -> bool) -> Visit {
        if !step(4 + self.facts.len()) {
            return Visit { cost: 1.0, rows: 1.0, hashed: None };
        }
        let mut facts: Vec<&Fact> =
            self.facts.iter().filter(|f| !f.is_after && f.needs & !placed == 0).collect();
        let mut known: SmallVec<[(usize, u16); 4]> = SmallVec::new();
        facts.retain(|f| match f.class {
            Some(class) if known.contains(&class) => false,
            class => {
                known.extend(class);
                true
            }
        });
        let share: f64 = facts.iter().map(|f| f.share).product();
        let has_key = facts.iter().any(|f| f.is_key && f.needs != 0);
        let hashed = (self.may_be_hashed && has_key).then(|| {
            let own = facts.iter().filter(|f| f.needs == 0).map(|f| f.share).product::<f64>();
            let read = if self.table.is_some() { self.rows } else { self.cost };
            let once = read + self.rows * own * HASH_ROW;
            Hashed { once, each: HASH_SEARCH + self.rows * share }
        });
        let Some((table, statistics)) = &self.table else {
            return Visit { cost: self.cost, rows: self.rows * share, hashed };
        };
        let mut best = Visit { cost: self.rows, rows: self.rows * share, hashed };
        for &i in &self.indexes {
            let parts = &table.def.indexes[i].columns;
            if !step(8 + facts.len() * parts.len()) {
                break;
            }
            let Some((read, seeks, rest)) =
                self.by_index(&table.def.indexes[i], i, statistics, &facts)
            else {
                continue;
            };
            let row = row_cost(&table.def, self.covered_by, i);
            best.cost = best.cost.min(SEEK * seeks + read * row);
            best.rows = best.rows.min(read * rest);
        }
        best
    }

    /// The number of rows that an index reads, the number of its ranges, and the share of the rows
    /// that the other conditions leave. None if no condition restricts its first column.
    fn by_index(
        &self,
        index: &IndexDef,
        i: usize,
        statistics: &Statistics,
        facts: &[&Fact],
    ) -> Option<(f64, f64, f64)> {
        let (mut fixed, mut seeks, mut share) = (0, 1.0, 1.0);
        let mut used = vec![false; facts.len()];
        for part in &index.columns {
            let here = |equal: bool| {
                let is_here = move |f: &Fact| {
                    f.search.is_some_and(|s| s.column == part.column && s.equal.is_some() == equal)
                };
                facts.iter().enumerate().filter(move |(_, f)| is_here(f))
            };
            let exact = here(true).min_by_key(|(_, f)| f.search.and_then(|s| s.equal));
            match exact.filter(|_| part.prefix.is_none()) {
                Some((n, fact)) => {
                    used[n] = true;
                    fixed += 1;
                    seeks *= fact.search.and_then(|s| s.equal).unwrap_or(1) as f64;
                }
                None => {
                    here(false).for_each(|(n, fact)| {
                        used[n] = true;
                        share *= fact.share;
                    });
                    break;
                }
            }
        }
        if !used.contains(&true) {
            return None;
        }
        let each = match fixed {
            0 => self.rows,
            _ if index.unique && fixed == index.columns.len() => 1.0,
            _ => statistics.rows_per_key(i, fixed)?,
        };
        let others = facts.iter().zip(used).filter(|(_, used)| !used);
        let rest = others.map(|(f, _)| f.share).product();
        Some(((each * seeks * share).min(self.rows), seeks, rest))
    }
}

/// A rough number of the rows that the sources of a derived table read.
fn rows_read_by(plan: &SelectPlan) -> f64 {
    plan.sources.iter().map(|source| rows_read_of(source).max(1.0)).product()
}
/// A rough number of the rows of a derived table.
fn rows_of(plan: &SelectPlan) -> f64 {
    let mut rows: f64 = plan.sources.iter().map(rows_of_source).product();
    if let Some(grouping) = &plan.grouping {
        rows = if grouping.keys.is_empty() { 1.0 } else { rows * 0.1 };
    }
    if plan.limit.count.is_some() {
        rows = rows.min(super::LIMITED_ROWS);
    }
    rows.max(1.0)
}
fn rows_of_source(source: &Source) -> f64 {
    let filters =
        |filter: &Option<Expr>| filter.as_ref().map_or(1.0, |e| share_of(e, &Known::NOTHING));
    let own = match &source.kind {
        SourceKind::Table(access) => filters(&access.filter),
        _ => 1.0,
    };
    rows_read_of(source) * own * filters(&source.filter)
}
fn rows_read_of(source: &Source) -> f64 {
    match &source.kind {
        SourceKind::Table(access) => {
            let all = access.table.rows().max(1) as f64;
            match &access.path.kind {
                AccessKind::Empty => 0.0,
                AccessKind::Point(_) => 1.0,
                AccessKind::Ranges(_) | AccessKind::Union(_) => {
                    (all * DEFAULT_EQUAL).min(SOME_ROWS)
                }
                AccessKind::FullScan => all,
            }
        }
        SourceKind::Derived(plan) | SourceKind::Lateral { plan, .. } => rows_of(plan),
        SourceKind::Union(parts) => parts.iter().map(rows_of).sum(),
        SourceKind::Combined(parts) => parts.iter().map(|(_, part)| rows_of(part)).sum(),
        SourceKind::Windows(stage) => rows_of(&stage.inner),
        SourceKind::Recursive(_)
        | SourceKind::Iteration { .. }
        | SourceKind::JsonTable(_)
        | SourceKind::Virtual(_) => SOME_ROWS,
    }
}
