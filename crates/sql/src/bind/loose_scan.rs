//! Loose index scans: SELECTs that want few rows of each group of an index's keys.
//!
//! **LOOSE-1** A scan leaves out rows of a group (CURSOR-4) only where the SELECT has no use for
//! them: its GROUP BY or DISTINCT tells rows apart by columns in which they are equal, and of each
//! group it wants MIN or MAX of the key's next column, which the first and the last row have. A
//! last row is only known where no condition is left to the executor.
use crate::plan::{
    AccessKind, AccessPath, Aggregate, Expr, ExprKind, Kind, LooseScan, RowLock, SelectPlan,
    SourceKind,
};
use redolith_types::{IndexColumn, TableDef};

/// What a SELECT of one table wants of its rows.
#[derive(Debug, Default)]
pub(super) struct FewRows {
    /// The columns by which rows are told apart.
    columns: Vec<usize>,
    /// The columns of which each group's MIN (false) or MAX (true) is wanted.
    extremes: Vec<(usize, bool)>,
}

impl FewRows {
    /// None if the SELECT wants all rows.
    pub fn of(plan: &SelectPlan) -> Option<FewRows> {
        let mut few = FewRows::default();
        let Some(grouping) = &plan.grouping else {
            if !plan.distinct {
                return None;
            }
            few.columns = plan.output.iter().map(column).collect::<Option<_>>()?;
            return Some(few);
        };
        if grouping.rollup || plan.dependent {
            return None;
        }
        few.columns = grouping.keys.iter().map(column).collect::<Option<_>>()?;
        for call in &grouping.aggregates {
            let args = &call.args[..(call.values as usize).min(call.args.len())];
            match (call.function, args) {
                (Aggregate::AnyValue, _) => {}
                (Aggregate::Min | Aggregate::Max, [arg]) => {
                    // They compare the texts of ENUM and SET, but an index has the order of the
                    // numbers.
                    if matches!(arg.ty.kind, Kind::Enum | Kind::Set) {
                        return None;
                    }
                    few.extremes.push((column(arg)?, call.function == Aggregate::Max));
                }
                (Aggregate::Count | Aggregate::Sum | Aggregate::Avg, args) if call.distinct => {
                    for arg in args {
                        // Texts that are equal in their collation may be different numbers.
                        if call.function != Aggregate::Count && arg.ty.kind.is_string() {
                            return None;
                        }
                        few.columns.push(column(arg)?);
                    }
                }
                _ => return None,
            }
        }
        Some(few)
    }
    /// An order of the rows that brings groups together: columns, none of them descending.
    pub fn order(&self) -> Vec<(usize, bool)> {
        let mut order: Vec<(usize, bool)> = Vec::new();
        let extremes = self.extremes.iter().map(|(column, _)| *column).take(1);
        let of_all = extremes.filter(|_| self.columns.is_empty());
        for column in self.columns.iter().copied().chain(of_all) {
            if !order.contains(&(column, false)) {
                order.push((column, false));
            }
        }
        order
    }

    /// How an index is read in its order, or in reverse. `has_filter`: the executor has conditions
    /// to check. None if all its rows have to be read.
    pub fn scan(
        &self,
        def: &TableDef,
        index: usize,
        reverse: bool,
        has_filter: bool,
    ) -> Option<LooseScan> {
        let own: Vec<&IndexColumn> =
            def.indexes[index].columns.iter().take_while(|part| part.prefix.is_none()).collect();
        let place = |column: usize| own.iter().position(|part| part.column == column);
        let mut columns = 0;
        for column in &self.columns {
            columns = columns.max(place(*column)? + 1);
        }
        let mut scan = LooseScan { columns: columns as u16, ends: false, not_null: None };
        let others = self.extremes.iter().filter(|(column, _)| {
            // The column is the same in the whole group.
            place(*column).is_none_or(|place| place >= columns)
        });
        for &(column, is_max) in others {
            let next = next_column(def, index, columns).filter(|next| next.column == column)?;
            let ascends = next.desc == reverse;
            // NULLs come first where values ascend, and MIN has no use for them.
            let nullable = def.columns[column].nullable && !is_max;
            match is_max == ascends {
                true if reverse || has_filter || nullable => return None,
                true => scan.ends = true,
                false if nullable => scan.not_null = Some(column as u16),
                false => {}
            }
        }
        Some(scan)
    }
}

/// The column behind the first `columns` of an index's key. The clustered key follows the columns
/// of a secondary index.
fn next_column(def: &TableDef, index: usize, columns: usize) -> Option<&IndexColumn> {
    let own = &def.indexes[index].columns;
    let clustered = def.clustered_index().filter(|clustered| *clustered != index);
    let of_rows = clustered.map_or(&[][..], |clustered| &def.indexes[clustered].columns);
    own.iter().chain(of_rows).nth(columns).filter(|next| next.prefix.is_none())
}

fn column(e: &Expr) -> Option<usize> {
    match e.kind {
        ExprKind::Column { source: 0, column } => Some(column as usize),
        _ => None,
    }
}

/// Notes how the only table of a complete plan is read, if the SELECT wants few of its rows.
pub(super) fn find(plan: &mut SelectPlan) {
    let found = loose_scan(plan);
    if let [source] = &mut plan.sources[..]
        && let SourceKind::Table(access) = &mut source.kind
    {
        access.loose = found;
    }
}
fn loose_scan(plan: &SelectPlan) -> Option<LooseScan> {
    let [source] = &plan.sources[..] else { return None };
    let SourceKind::Table(access) = &source.kind else { return None };
    let AccessPath { index: Some(index), kind, reverse, .. } = &access.path else { return None };
    if !matches!(kind, AccessKind::FullScan | AccessKind::Ranges(_))
        || access.lock != RowLock::None
        || plan.dependent
        || plan.grouping.as_ref().is_some_and(|grouping| grouping.first_row)
    {
        return None;
    }
    let mut filters = access.filter.iter().chain(&source.filter).peekable();
    let has_filter = filters.peek().is_some();
    if filters.any(|filter| filter.any(&Expr::is_volatile_node)) {
        return None;
    }
    FewRows::of(plan)?.scan(&access.table.def, *index, *reverse, has_filter)
}
