//! Estimates of rows and costs, in the unit of the choice of join orders ([`crate::bind::cost`]).
use super::access::How;
use super::block::{Block, Body, Reads, Table};
use super::place::Place;
use crate::bind::cost::{HASH_ROW, HASH_SEARCH, KEPT_ROW, SECONDARY, SEEK, SOME_ROWS};
use crate::bind::{DEFAULT_EQUAL, Known, share_of};
use crate::plan::{AccessKind, Covering, Expr, ExprKind, HashKey, HashLookup, TableAccess};
use redolith_types::Value;

/// What one scan of a source reads, and what it costs.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Estimate {
    pub rows: f64,
    pub cost: f64,
}
impl Estimate {
    /// The rows that a condition leaves.
    pub fn filtered(self, share: f64) -> Estimate {
        Estimate { rows: self.rows * share, ..self }
    }
    /// The inner side is read for each row.
    pub fn joined(self, inner: Estimate) -> Estimate {
        Estimate { rows: self.rows * inner.rows, cost: self.cost + self.rows * inner.cost }
    }
}

/// The rows that the table's statistics expect for values of the first columns of the index.
pub(super) fn rows_per_key(access: &TableAccess, columns: usize) -> Option<f64> {
    access.table.statistics()?.rows_per_key(access.path.index?, columns)
}

/// One scan of a table.
pub(super) fn of_access(access: &TableAccess, how: &How<'_>) -> Estimate {
    let path = &access.path;
    let is_clustered = path.index.is_none() || path.index == access.table.def.clustered_index();
    let row = if is_clustered || path.covering != Covering::No { 1.0 } else { SECONDARY };
    let rows = how.rows as f64;
    let seeks = match &path.kind {
        AccessKind::Empty => return Estimate::default(),
        AccessKind::FullScan => 0.0,
        AccessKind::Point(_) => 1.0,
        AccessKind::Ranges(ranges) => ranges.len() as f64,
        AccessKind::Union(parts) => {
            let seeks = parts.iter().map(|part| part.ranges.len()).sum::<usize>() as f64;
            return Estimate { rows, cost: seeks * SEEK + rows * SECONDARY };
        }
    };
    Estimate { rows, cost: seeks * SEEK + rows * row }
}

/// One scan of a source whose rows are kept.
pub(super) fn of_kept(rows: f64) -> Estimate {
    Estimate { rows, cost: rows * KEPT_ROW }
}
/// A source of which nothing is known.
pub(super) fn unknown() -> Estimate {
    of_kept(SOME_ROWS)
}

/// The share of rows that conditions leave.
pub(super) fn share<'e>(
    conditions: impl IntoIterator<Item = &'e Expr>,
    place: &Place<'_, '_>,
) -> f64 {
    let histogram = |source, column| place.histogram(source, column);
    let known = Known { histogram: &histogram, values: None };
    conditions.into_iter().map(|e| share_of(e, &known)).product()
}

/// The rows of `before`, each joined with those that a hash table finds for it.
pub(super) fn hash_joined(
    before: Estimate,
    table: &Table<'_>,
    lookup: &HashLookup,
    place: &Place<'_, '_>,
) -> Estimate {
    let own = table.scan.filtered(share(&lookup.own, place));
    let keys: f64 = lookup.keys.iter().map(|key| share_of_key(key, table)).product();
    let found = own.rows * keys;
    let made = own.cost + own.rows * HASH_ROW;
    Estimate {
        rows: before.rows * found,
        cost: before.cost + made + before.rows * (HASH_SEARCH + found),
    }
}
/// The share of a table's rows that have a value of a key.
fn share_of_key(key: &HashKey, table: &Table<'_>) -> f64 {
    let (Reads::Table(access), ExprKind::Column { column, .. }) = (&table.reads, &key.own.kind)
    else {
        return DEFAULT_EQUAL;
    };
    let values = || {
        let statistics = access.table.statistics()?;
        let indexes = access.table.def.indexes.iter();
        let i = indexes.clone().position(|index| {
            let first = index.columns.first();
            first.is_some_and(|part| part.column == *column as usize && part.prefix.is_none())
        })?;
        Some(statistics.rows.max(1) as f64 / statistics.rows_per_key(i, 1)?)
    };
    values().map_or(DEFAULT_EQUAL, |values| 1.0 / values.max(1.0))
}

/// The rows that a block gives.
pub(super) fn rows_of(block: &Block<'_>) -> f64 {
    let plan = block.plan;
    let mut rows = match &block.body {
        Body::NoTable => 1.0,
        Body::Tables(tables) => tables.last().map_or(0.0, |table| table.prefix.rows),
        Body::Set { parts, .. } => parts.iter().map(|(_, part)| rows_of(part)).sum(),
        Body::Windows { inner, .. } => rows_of(inner),
    };
    if let Some(grouping) = &plan.grouping {
        rows = if grouping.keys.is_empty() { 1.0 } else { (rows * DEFAULT_EQUAL).max(1.0) };
    }
    let literal = |e: &Option<Expr>| match e.as_ref()?.as_literal()? {
        Value::Int(n) => Some(*n as f64),
        Value::UInt(n) => Some(*n as f64),
        _ => None,
    };
    let offset = literal(&plan.limit.offset).unwrap_or(0.0);
    let count = literal(&plan.limit.count).unwrap_or(f64::INFINITY);
    (rows - offset).max(0.0).min(count)
}
/// What it costs to make the rows of a block.
pub(super) fn cost_of(block: &Block<'_>) -> f64 {
    match &block.body {
        Body::NoTable => 0.0,
        Body::Tables(tables) => tables.last().map_or(0.0, |table| table.prefix.cost),
        Body::Set { parts, .. } => parts.iter().map(|(_, part)| cost_of(part)).sum(),
        Body::Windows { inner, .. } => cost_of(inner),
    }
}
