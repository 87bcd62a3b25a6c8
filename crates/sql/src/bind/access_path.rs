//! Chooses an index. Whether the table is scanned is decided by rules: a plan is shared by
//! statements with other values, and where a value is rare a scan costs far more than the average
//! tells. Which of several indexes is searched is decided by the table's statistics, if it has many
//! rows (PATH-5).
//!
//! The unit of cost is one row read from a table of a million rows. An equality leaves a hundredth
//! of the rows, two bounds leave a tenth, one bound leaves a third. A row read through a secondary
//! index costs 2.5, or 1 if the entry has all columns that the statement reads; sorting costs 0.5
//! more per row. Among equal costs the first index wins, so PRIMARY wins.
use super::Binder;
use super::columns_read::IndexSet;
use super::compare::and;
use super::cost::SECONDARY;
use super::index_union::{self, IndexUnion};
use super::order::{Purpose, Wanted, index_order};
use super::range::{Bounded, Finder, IndexRanges, not_consumed};
use crate::error::{Result, SqlError};
use crate::parse::ast::{HintKind, IndexHint};
use crate::plan::{
    AccessKind, AccessPath, Covering, Expr, ExprKind, KeyRange, RowLock, TableAccess,
};
use crate::table_info::TableInfo;
use redolith_engine::dict::estimate::Statistics;
use redolith_types::{IndexDef, TableDef, Value};
use std::sync::Arc;

const TABLE_ROWS: f64 = 1e6;
/// Statistics of fewer rows than this tell nothing of the rows to come.
const MANY_ROWS: u64 = 1000;
const SORT: f64 = 0.5;
/// The share of its rows for which a scan of a table that ends soon counts.
const FIRST_ROWS: f64 = 1e-4;
/// A group of a loose scan costs as much as so many rows.
const LOOSE_ROWS: f64 = 32.0;
/// The steps for the ranges of a statement's indexes: a range, or a condition in an OR, is one, for
/// each index that it is looked at for. Without steps a table is searched by its first index that
/// fits, and only if the ranges are no product of lists. More than `SHORT_RANGE_STEPS` are long
/// work: a range takes some 200 ns.
pub(super) const RANGE_STEPS: usize = 1_000_000;
const SHORT_RANGE_STEPS: usize = 20_000;

pub(super) struct Chosen {
    pub path: AccessPath,
    pub filter: Option<Expr>,
    /// True if the rows come in the wanted order.
    pub ordered: bool,
    /// The indexes that the conditions could use, for EXPLAIN.
    pub possible: Vec<u16>,
}

impl Chosen {
    pub fn into_access(self, table: Arc<TableInfo>, alias: Arc<str>, lock: RowLock) -> TableAccess {
        TableAccess {
            table,
            alias,
            path: self.path,
            lock,
            filter: self.filter,
            columns: Vec::new(),
            possible: self.possible,
            loose: None,
        }
    }
}

/// What the choice has to know of the ranges of an index.
#[derive(Clone, Copy)]
pub(super) struct Search {
    /// How many ranges there are.
    ranges: usize,
    equal_columns: usize,
    bounded: Bounded,
    /// Each range is one key of a unique index. (A unique index may hold many NULLs.)
    at_most_one_each: bool,
}

impl Search {
    pub(super) fn of(index: &IndexDef, found: &IndexRanges) -> Search {
        let at_most_one_each = index.unique
            && found.equal_columns == index.columns.len()
            && found.ranges.iter().all(|r| r.null_safe == 0);
        Search {
            ranges: found.ranges.len(),
            equal_columns: found.equal_columns,
            bounded: found.bounded,
            at_most_one_each,
        }
    }
    fn is_point(&self) -> bool {
        self.ranges == 1 && self.at_most_one_each
    }
    /// The number of rows that the ranges leave of a million.
    pub(super) fn rows(&self) -> f64 {
        if self.at_most_one_each {
            return self.ranges as f64;
        }
        let equal = 0.01f64.powi(self.equal_columns.min(8) as i32);
        let each = (TABLE_ROWS * equal * self.bounded.share()).max(1.0);
        (each * self.lists()).min(TABLE_ROWS)
    }
    /// The number of rows that the ranges of index `index` leave, by statistics.
    pub(super) fn known_rows(&self, index: usize, known: &Statistics) -> f64 {
        let all = known.rows as f64;
        let each = match self.equal_columns {
            _ if self.at_most_one_each => 1.0,
            0 => all,
            n => known.rows_per_key(index, n).unwrap_or(all),
        };
        (each * self.bounded.share() * self.lists()).min(all)
    }
    /// How many times the rows of a range are read. Many intervals of one column share its rows, so
    /// only the root of their number counts.
    fn lists(&self) -> f64 {
        let ranges = self.ranges as f64;
        if self.equal_columns > 0 { ranges } else { ranges.sqrt() }
    }
}

/// The ranges of several indexes may be many, so the candidates do not have them.
struct Candidate {
    index: Option<usize>,
    search: Option<Search>,
    reverse: bool,
    ordered: bool,
    cost: f64,
}

impl Candidate {
    /// The cost of searching the index, by statistics.
    fn cost_by(&self, known: &Statistics, row: f64, wanted: &Wanted) -> f64 {
        let (Some(i), Some(search)) = (self.index, &self.search) else { return f64::MAX };
        cost_of(search.known_rows(i, known), row, self.ordered, wanted)
    }
}

/// The indexes that the hints allow for searching and for ordering.
pub(super) struct Allowed {
    pub search: Vec<usize>,
    order: Vec<usize>,
    /// FORCE INDEX was given: the table is scanned only if no allowed index helps.
    forced: bool,
}

pub(super) fn allowed(table: &TableInfo, hints: &[IndexHint]) -> Result<Allowed> {
    let all: Vec<usize> = (0..table.def.indexes.len()).collect();
    let mut result = Allowed { search: all.clone(), order: all, forced: false };
    let (mut chosen_search, mut chosen_order): (Option<Vec<usize>>, Option<Vec<usize>>) =
        (None, None);
    let mut ignored_search = Vec::new();
    let mut ignored_order = Vec::new();
    for hint in hints {
        let mut named = Vec::with_capacity(hint.indexes.len());
        for name in &hint.indexes {
            let found = table.def.indexes.iter().position(|i| i.name.eq_ignore_ascii_case(name));
            named.push(found.ok_or_else(|| SqlError::no_such_key(name, &table.def.name))?);
        }
        match hint.kind {
            HintKind::Ignore => {
                ignored_search
                    .extend(hint.for_search.then_some(&named).into_iter().flatten().copied());
                ignored_order
                    .extend(hint.for_order.then_some(&named).into_iter().flatten().copied());
            }
            HintKind::Use | HintKind::Force => {
                result.forced |= hint.kind == HintKind::Force;
                if hint.for_search {
                    chosen_search.get_or_insert_default().extend(&named);
                }
                if hint.for_order || hint.for_search {
                    chosen_order.get_or_insert_default().extend(&named);
                }
            }
        }
    }
    if let Some(chosen) = chosen_search {
        result.search.retain(|i| chosen.contains(i));
    }
    if let Some(chosen) = chosen_order {
        result.order.retain(|i| chosen.contains(i));
    }
    result.search.retain(|i| !ignored_search.contains(i));
    result.order.retain(|i| !ignored_order.contains(i));
    Ok(result)
}

/// The cost of reading a row by an index.
pub(super) fn row_cost(def: &TableDef, covered_by: IndexSet, index: usize) -> f64 {
    let needs_search = def.clustered_index() != Some(index) && !covered_by.contains(index);
    if needs_search { SECONDARY } else { 1.0 }
}

impl Binder<'_> {
    /// Chooses the index of a table, and derives its ranges from the conditions.
    pub(super) fn choose_path(
        &mut self,
        table: &Arc<TableInfo>,
        source: u16,
        covered_by: IndexSet,
        mut conjuncts: Vec<Expr>,
        hints: &[IndexHint],
        wanted: &Wanted,
    ) -> Result<Chosen> {
        let allowed = allowed(table, hints)?;
        let clustered = table.def.clustered_index();
        if conjuncts.iter().any(never) {
            let path = AccessPath {
                index: clustered,
                kind: AccessKind::Empty,
                reverse: false,
                covering: Covering::No,
                keeps_order: false,
            };
            return Ok(Chosen { path, filter: None, ordered: true, possible: Vec::new() });
        }
        conjuncts.retain(|c| !always(c));
        let row = |index| row_cost(&table.def, covered_by, index);
        let finder = Finder::new(table, source);
        let tests = finder.tests(&conjuncts);
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut possible = Vec::new();
        // The ranges of the index that is the best one by the rules so far.
        let mut kept: Option<(usize, IndexRanges)> = None;
        for &i in &allowed.search {
            let index = &table.def.indexes[i];
            finder.left.set(self.range_steps);
            // As the first one, an index is searched however long the list.
            finder.lists_are_free.set(candidates.is_empty());
            let found = finder.ranges(index, &conjuncts, &tests);
            self.count_ranges(finder.left.get())?;
            let Some(found) = found else { continue };
            possible.push(i as u16);
            let candidate = searching(&table.def, i, &found, wanted, row(i));
            if candidates.iter().all(|c| candidate.cost < c.cost) {
                kept = Some((i, found));
            }
            candidates.push(candidate);
        }
        let is_one = |c: &Candidate| c.search.is_some_and(|search| search.is_point());
        if candidates.len() > 1
            && !candidates.iter().any(is_one)
            && let Some(known) = self.statistics(table).filter(|known| known.rows >= MANY_ROWS)
        {
            let cost = |c: &Candidate| c.cost_by(&known, c.index.map_or(1.0, row), wanted);
            let best =
                candidates.into_iter().reduce(|a, b| if cost(&b) < cost(&a) { b } else { a });
            candidates = best.into_iter().collect();
        }
        let has_filter = !conjuncts.is_empty();
        for &i in &allowed.order {
            if Some(i) != clustered
                && let Some(mut scan) = scanning(&table.def, i, wanted, row(i), !has_filter)
            {
                let share = self.loose_share(table, i, scan.reverse, has_filter, wanted);
                scan.cost *= share;
                if wanted.sorts() || share < 1.0 {
                    candidates.push(scan);
                }
            }
        }
        // The last candidate is a scan of the whole table in its stored order.
        let mut whole = scan_all(&table.def, clustered, wanted);
        if let Some(i) = clustered {
            whole.cost *= self.loose_share(table, i, whole.reverse, has_filter, wanted);
        }
        if allowed.forced && candidates.iter().any(|c| c.search.is_some() || c.ordered) {
            whole.cost = f64::MAX;
        }
        candidates.push(whole);
        let best = candidates
            .into_iter()
            .reduce(|a, b| if b.cost < a.cost { b } else { a })
            .expect("the scan of the whole table is a candidate");
        if !is_one(&best)
            && let Some(union) = self.union(table, &allowed, &finder, &conjuncts, &best, wanted)?
        {
            self.charge_ranges(
                union.bytes,
                union.parts.iter().map(|part| part.ranges.len()).sum(),
            )?;
            possible.extend(union.parts.iter().map(|part| part.index as u16));
            possible.sort_unstable();
            possible.dedup();
            return Ok(united(union, conjuncts, possible));
        }
        let found = match (best.index.filter(|_| best.search.is_some()), kept) {
            (None, _) => None,
            (Some(i), Some((of, found))) if of == i => Some(found),
            (Some(i), _) => {
                // They were found before, within the steps of the statement.
                finder.left.set(usize::MAX);
                finder.ranges(&table.def.indexes[i], &conjuncts, &tests)
            }
        };
        if let Some(found) = &found {
            self.charge_ranges(found.bytes, found.ranges.len())?;
        }
        Ok(finish(best, found, conjuncts, possible))
    }

    /// The share of an index's rows that a scan reads, if it leaves out many (LOOSE-1). With a
    /// filter nobody knows: a group in which no row passes is read to its end.
    fn loose_share(
        &mut self,
        table: &Arc<TableInfo>,
        index: usize,
        reverse: bool,
        has_filter: bool,
        wanted: &Wanted,
    ) -> f64 {
        let few = wanted.few.as_ref().filter(|_| !has_filter);
        let loose = few.and_then(|few| few.scan(&table.def, index, reverse, false));
        let Some(scan) = loose else { return 1.0 };
        if scan.columns == 0 {
            return FIRST_ROWS;
        }
        let known = self.statistics(table).filter(|known| known.rows >= MANY_ROWS);
        let rows = known.and_then(|known| known.rows_per_key(index, scan.columns as usize));
        rows.map_or(1.0, |rows| (LOOSE_ROWS / rows).min(1.0))
    }

    /// The union of several indexes that finds the rows of an OR, if it costs less than `best`.
    fn union(
        &mut self,
        table: &Arc<TableInfo>,
        allowed: &Allowed,
        finder: &Finder<'_>,
        conjuncts: &[Expr],
        best: &Candidate,
        wanted: &Wanted,
    ) -> Result<Option<IndexUnion>> {
        // A row that is refused may be found, and judged, once more.
        let is_changing = |e: &Expr| e.any(&Expr::is_changing_node);
        if allowed.search.len() < 2
            || !conjuncts.iter().any(|e| matches!(e.kind, ExprKind::Or(_)))
            || conjuncts.iter().any(is_changing)
        {
            return Ok(None);
        }
        finder.left.set(self.range_steps);
        finder.lists_are_free.set(false);
        let known = self.statistics(table).filter(|known| known.rows >= MANY_ROWS);
        let known = known.as_deref();
        let union = index_union::find(table, allowed, finder, conjuncts, known);
        self.count_ranges(finder.left.get())?;
        let with_sort = |cost: f64| {
            let rows = cost / SECONDARY;
            if wanted.sorts() { cost + rows * SORT } else { cost }
        };
        let known_best = |known: &Statistics| match &best.search {
            Some(_) => best.cost_by(known, SECONDARY, wanted),
            None => cost_of(known.rows as f64, 1.0, best.ordered, wanted),
        };
        Ok(union.filter(|union| {
            let is_known_better = |(of, known): (f64, _)| with_sort(of) < known_best(known);
            with_sort(union.cost) < best.cost
                && union.known_cost.zip(known).is_none_or(is_known_better)
        }))
    }
    /// Charges the memory of so many ranges, whose values take `bytes`.
    fn charge_ranges(&mut self, bytes: usize, ranges: usize) -> Result<()> {
        self.charge((bytes + ranges * size_of::<KeyRange>()).div_ceil(size_of::<Expr>()))
    }
    /// Notes how many steps are left for the derivation of ranges. Many are long work.
    fn count_ranges(&mut self, left: usize) -> Result<()> {
        let steps = self.range_steps - left;
        self.range_steps = left;
        if left < RANGE_STEPS - SHORT_RANGE_STEPS && self.cx.bounds.is_short() {
            return Err(self.cx.bounds.exceeded());
        }
        self.step(steps)
    }
}

impl Bounded {
    /// The share of the rows that the bounds leave.
    fn share(self) -> f64 {
        match self {
            Bounded::No => 1.0,
            Bounded::OneSide => 0.33,
            Bounded::Members => 0.3,
            Bounded::BothSides => 0.1,
            // Better than the whole table, and worse than anything else.
            Bounded::Perhaps => 0.39,
        }
    }
}

/// The cost of reading these rows of an index, and of sorting them.
fn cost_of(rows: f64, row: f64, ordered: bool, wanted: &Wanted) -> f64 {
    let sort = if ordered || !wanted.sorts() { 0.0 } else { rows * SORT };
    let read = if ordered && wanted.limited { rows * 0.5 } else { rows };
    read * row + sort
}

fn searching(
    def: &TableDef,
    i: usize,
    found: &IndexRanges,
    wanted: &Wanted,
    row: f64,
) -> Candidate {
    let search = Search::of(&def.indexes[i], found);
    let order = (wanted.purpose != Purpose::Nothing)
        .then(|| index_order(def, Some(i), &found.constant, &wanted.order))
        .flatten();
    let ordered = order.is_some() || search.is_point();
    Candidate {
        index: Some(i),
        search: Some(search),
        reverse: order.unwrap_or(false),
        ordered,
        cost: cost_of(search.rows(), row, ordered, wanted),
    }
}

/// The candidate that reads an index from end to end for its order.
fn scanning(
    def: &TableDef,
    index: usize,
    wanted: &Wanted,
    row: f64,
    no_filter: bool,
) -> Option<Candidate> {
    if wanted.purpose == Purpose::Nothing {
        return None;
    }
    let reverse = index_order(def, Some(index), &[], &wanted.order)?;
    let share = match (wanted.limited, no_filter) {
        (true, true) => FIRST_ROWS,
        (true, false) => 0.5,
        (false, _) => 1.0,
    };
    let cost = TABLE_ROWS * share * row;
    Some(Candidate { index: Some(index), search: None, reverse, ordered: true, cost })
}

fn scan_all(def: &TableDef, clustered: Option<usize>, wanted: &Wanted) -> Candidate {
    let order = match wanted.purpose {
        Purpose::Nothing => None,
        _ => clustered.and_then(|_| index_order(def, clustered, &[], &wanted.order)),
    };
    let sort = if order.is_some() || !wanted.sorts() { 0.0 } else { TABLE_ROWS * SORT };
    let share = if order.is_some() && wanted.limited { 0.5 } else { 1.0 };
    Candidate {
        index: clustered,
        search: None,
        reverse: order.unwrap_or(false),
        ordered: order.is_some(),
        cost: TABLE_ROWS * share + sort,
    }
}

fn finish(
    best: Candidate,
    found: Option<IndexRanges>,
    conjuncts: Vec<Expr>,
    possible: Vec<u16>,
) -> Chosen {
    let (kind, consumed) = match found {
        None => (AccessKind::FullScan, Vec::new()),
        Some(mut found) => {
            let kind = if best.search.is_some_and(|search| search.is_point()) {
                AccessKind::Point(std::mem::take(&mut found.ranges[0].prefix))
            } else {
                AccessKind::Ranges(found.ranges)
            };
            (kind, found.consumed)
        }
    };
    let left = not_consumed(conjuncts.len(), &consumed);
    let rest: Vec<Expr> =
        conjuncts.into_iter().zip(left).filter(|(_, left)| *left).map(|(e, _)| e).collect();
    let filter = Some(rest).filter(|r| !r.is_empty()).map(and);
    let path = AccessPath {
        index: best.index,
        kind,
        reverse: best.reverse,
        covering: Covering::No,
        keeps_order: best.ordered,
    };
    Chosen { path, filter, ordered: best.ordered, possible }
}

fn united(union: IndexUnion, conjuncts: Vec<Expr>, possible: Vec<u16>) -> Chosen {
    let path = AccessPath {
        index: None,
        kind: AccessKind::Union(union.parts),
        reverse: false,
        covering: Covering::No,
        keeps_order: false,
    };
    let filter = Some(conjuncts).filter(|all| !all.is_empty()).map(and);
    Chosen { path, filter, ordered: false, possible }
}

/// True if the condition is the literal false or NULL, or compares with the literal NULL.
fn never(e: &Expr) -> bool {
    match e.as_literal() {
        Some(Value::Null | Value::Int(0)) => true,
        _ => {
            let ExprKind::Compare { op, sides, .. } = &e.kind else { return false };
            *op != crate::plan::CompareOp::NullSafeEq
                && sides.iter().any(|s| matches!(s.as_literal(), Some(Value::Null)))
        }
    }
}
fn always(e: &Expr) -> bool {
    matches!(e.as_literal(), Some(Value::Int(n)) if *n != 0)
}
