//! The columns that a statement reads of each table, and the indexes that have them all.
//!
//! **READS-1** `TableAccess::columns` has every column that the executor reads of the table's rows:
//! what else a row has may be NULL there, or left in its external pages.
use super::from::FromClause;
use super::select::RawKind;
use crate::plan::{Covering, Expr, ExprKind, RowLock, SelectPlan, SourceKind, TableAccess};
use crate::table_info::TableInfo;

/// Indexes of a table, by their numbers in its definition. Numbers from 64 on are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct IndexSet(u64);

impl IndexSet {
    pub const NONE: IndexSet = IndexSet(0);

    pub fn contains(self, index: usize) -> bool {
        index < 64 && self.0 & 1 << index != 0
    }
    /// The secondary indexes from whose entries the values of these columns can be made.
    fn with(table: &TableInfo, columns: &[u16]) -> IndexSet {
        let clustered = table.def.clustered_index();
        let indexes = (0..table.def.indexes.len().min(64)).filter(|i| Some(*i) != clustered);
        let covering = indexes.filter(|i| table.entries_have(*i, columns));
        IndexSet(covering.fold(0, |set, i| set | 1 << i))
    }
}

/// The columns that expressions read, for each source.
struct ColumnsRead(Vec<Vec<u16>>);

impl ColumnsRead {
    /// What the select list, the groups and the sort keys read.
    fn of(plan: &SelectPlan, sources: usize) -> ColumnsRead {
        let mut read = ColumnsRead(vec![Vec::new(); sources]);
        plan.output.iter().for_each(|e| read.add(e));
        if let Some(g) = &plan.grouping {
            g.keys.iter().for_each(|e| read.add(e));
            g.aggregates.iter().flat_map(|a| &a.args).for_each(|e| read.add(e));
        }
        read
    }
    fn add(&mut self, e: &Expr) {
        e.walk(&mut |e| {
            if let ExprKind::Column { source, column } = e.kind
                && let Some(list) = self.0.get_mut(source as usize)
            {
                list.push(column);
            }
        })
    }
    /// The lists, ascending.
    fn sorted(self) -> impl Iterator<Item = Vec<u16>> {
        self.0.into_iter().map(|mut columns| {
            columns.sort_unstable();
            columns.dedup();
            columns
        })
    }
}

/// Finds the indexes that have all columns that the statement will read, before its joins are
/// ordered and its access paths are chosen. Rows that are locked are read themselves.
pub(super) fn find_covering(
    plan: &SelectPlan,
    from: &mut FromClause,
    conjuncts: &[Expr],
    lock: RowLock,
) {
    let has_indexes = |kind: &RawKind| match kind {
        RawKind::Table { table, .. } => {
            table.def.indexes.len() > usize::from(table.def.clustered_index().is_some())
        }
        _ => false,
    };
    if lock != RowLock::None || !from.sources.iter().any(|raw| has_indexes(&raw.kind)) {
        return;
    }
    let mut read = ColumnsRead::of(plan, from.sources.len());
    conjuncts.iter().chain(from.all_conditions()).for_each(|e| read.add(e));
    for raw in &from.sources {
        if let RawKind::Lateral(_, outer) = &raw.kind {
            outer.iter().for_each(|e| read.add(e));
        }
    }
    for (raw, columns) in from.sources.iter_mut().zip(read.sorted()) {
        if let RawKind::Table { table, .. } = &raw.kind {
            raw.covered_by = IndexSet::with(table, &columns);
        }
    }
}

/// Notes the columns that a complete plan reads of each table.
pub(super) fn note(plan: &mut SelectPlan) {
    let mut read = ColumnsRead::of(plan, plan.sources.len());
    plan.nests.iter().flat_map(|nest| &nest.after).for_each(|e| read.add(e));
    for source in &plan.sources {
        source.filter.iter().for_each(|e| read.add(e));
        source.lookup.iter().for_each(|lookup| lookup.each_expr(&mut |e| read.add(e)));
        match &source.kind {
            SourceKind::Table(access) => {
                access.filter.iter().for_each(|e| read.add(e));
                access.each_key(&mut |e| read.add(e));
            }
            SourceKind::Lateral { outer, .. } => outer.iter().for_each(|e| read.add(e)),
            _ => {}
        }
    }
    for (source, columns) in plan.sources.iter_mut().zip(read.sorted()) {
        if let SourceKind::Table(access) = &mut source.kind {
            if let Some(by_index) = &mut source.by_index {
                set_columns(by_index, columns.clone());
            }
            set_columns(access, columns);
        }
    }
}

pub(super) fn set_columns(access: &mut TableAccess, columns: Vec<u16>) {
    let def = &access.table.def;
    let held = |i: usize, c: u16| {
        def.indexes[i].columns.iter().any(|p| p.column == c as usize && p.prefix.is_none())
    };
    let clustered = def.clustered_index();
    let covers = |i| columns.iter().all(|&c| held(i, c) || clustered.is_some_and(|k| held(k, c)));
    access.path.covering = match access.path.index {
        Some(i) if Some(i) == clustered || !covers(i) => Covering::No,
        Some(i) if access.table.entries_have(i, &columns) => Covering::Values,
        Some(_) => Covering::Columns,
        None => Covering::No,
    };
    access.columns = columns;
}
