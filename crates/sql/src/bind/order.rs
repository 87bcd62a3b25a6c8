//! Finds out whether an index gives the rows in the order that the statement wants.
use super::access_path::Chosen;
use super::loose_scan::FewRows;
use super::select::single_extreme;
use crate::plan::{Expr, ExprKind, SelectPlan};
use crate::table_info::TableInfo;
use redolith_types::TableDef;

/// The order in which a statement wants the rows of its first table.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The columns of source 0 with their direction (true: descending). Empty if any order will do.
    pub order: Vec<(usize, bool)>,
    pub purpose: Purpose,
    /// Only the first rows are needed.
    pub limited: bool,
    /// What the statement wants of the rows of its only table, if not all of them.
    pub few: Option<FewRows>,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    Nothing,
    Order,
    /// GROUP BY needs an order that brings equal keys together.
    Group,
    /// MIN or MAX can be read from the first row.
    Extreme,
    /// Rows of groups can be left out; the order itself is of no use.
    Few,
}

impl Wanted {
    pub const NOTHING: Wanted =
        Wanted { order: Vec::new(), purpose: Purpose::Nothing, limited: false, few: None };

    pub fn of(plan: &SelectPlan, sources: usize) -> Wanted {
        Wanted::of_source(plan, sources, 0)
    }
    /// What the statement would want of source `first` if it came first.
    pub fn of_source(plan: &SelectPlan, sources: usize, first: u16) -> Wanted {
        let column = |e: &crate::plan::Expr| match e.kind {
            ExprKind::Column { source, column } if source == first => Some(column as usize),
            _ => None,
        };
        if sources == 0 {
            return Wanted::NOTHING;
        }
        let few = if sources == 1 { FewRows::of(plan) } else { None };
        let by_groups = few.as_ref().map(FewRows::order);
        let some = |order: Option<Vec<(usize, bool)>>, purpose, limited| match order {
            Some(order) if !order.is_empty() => Wanted { order, purpose, limited, few },
            _ => Wanted::NOTHING,
        };
        if let Some(grouping) = &plan.grouping {
            if grouping.rollup {
                return Wanted::NOTHING;
            }
            if let Some((descending, column)) = single_extreme(&grouping.aggregates)
                && grouping.implicit
                && sources == 1
            {
                return some(Some(vec![(column as usize, descending)]), Purpose::Extreme, true);
            }
            if grouping.implicit && sources == 1 {
                return some(by_groups, Purpose::Few, false);
            }
            let keys = grouping.keys.iter().map(|k| column(k).map(|c| (c, false))).collect();
            return some(keys, Purpose::Group, false);
        }
        if plan.distinct && plan.order.is_empty() && sources == 1 {
            return some(by_groups, Purpose::Few, false);
        }
        let order = plan
            .order
            .iter()
            .map(|k| column(&plan.output[k.output as usize]).map(|c| (c, k.descending)))
            .collect();
        some(order, Purpose::Order, plan.limit.count.is_some() && !plan.distinct)
    }

    /// Whether rows in another order have to be sorted.
    pub fn sorts(&self) -> bool {
        !matches!(self.purpose, Purpose::Nothing | Purpose::Few)
    }

    /// Removes sorting from the plan if the chosen access path makes it needless.
    pub fn satisfied(&mut self, plan: &mut SelectPlan, chosen: &Chosen, table: &TableInfo) {
        match self.purpose {
            Purpose::Nothing | Purpose::Few => {}
            Purpose::Order if chosen.ordered => {
                plan.order.clear();
                plan.output.truncate(plan.visible);
            }
            Purpose::Order => {}
            Purpose::Group | Purpose::Extreme => {
                let Some(grouping) = &mut plan.grouping else { return };
                if self.purpose == Purpose::Group {
                    grouping.sorted = chosen.ordered;
                    // Groups come in the order of their keys, so ORDER BY the keys needs no
                    // sorting.
                    let in_order = plan.order.len() <= grouping.keys.len()
                        && plan.order.iter().enumerate().all(|(n, k)| {
                            !k.descending && group_key(&plan.output[k.output as usize]) == Some(n)
                        });
                    if chosen.ordered && in_order {
                        plan.order.clear();
                        plan.output.truncate(plan.visible);
                    }
                } else {
                    // MIN ignores NULLs, but NULLs come first in an index.
                    let column = self.order[0].0;
                    grouping.first_row =
                        chosen.ordered && (self.order[0].1 || !table.def.columns[column].nullable);
                }
            }
        }
    }
}

/// The number of the GROUP BY expression that this output is.
fn group_key(output: &Expr) -> Option<usize> {
    match &output.kind {
        ExprKind::GroupKey(n) => Some(*n as usize),
        ExprKind::Member { number, .. } => group_key(number),
        _ => None,
    }
}

/// Returns Some(reverse) if an index gives its rows in the wanted order. `constant` lists the
/// columns with one value in all rows.
pub(super) fn index_order(
    def: &TableDef,
    index: Option<usize>,
    constant: &[usize],
    wanted: &[(usize, bool)],
) -> Option<bool> {
    let clustered = def.clustered_index();
    let mut columns: Vec<(usize, bool)> = Vec::new();
    let mut unique_at = usize::MAX;
    for n in [index, clustered] {
        let Some(n) = n else { continue };
        for part in &def.indexes[n].columns {
            if part.prefix.is_some() {
                // The order by a prefix is not the order by the column, so the rest does not count.
                return matches(&columns, unique_at, constant, wanted);
            }
            columns.push((part.column, part.desc));
        }
        let not_null = def.indexes[n].columns.iter().all(|c| !def.columns[c.column].nullable);
        if def.indexes[n].unique && not_null {
            unique_at = unique_at.min(columns.len());
        }
        if index == clustered {
            break;
        }
    }
    matches(&columns, unique_at, constant, wanted)
}

fn matches(
    columns: &[(usize, bool)],
    unique_at: usize,
    constant: &[usize],
    wanted: &[(usize, bool)],
) -> Option<bool> {
    let (mut at, mut reverse) = (0, None);
    for &(column, descending) in wanted {
        if constant.contains(&column) {
            continue;
        }
        while at < columns.len() && columns[at].0 != column && constant.contains(&columns[at].0) {
            at += 1;
        }
        if at >= unique_at {
            break;
        }
        let &(have, stored_descending) = columns.get(at)?;
        let backwards = descending != stored_descending;
        if have != column || reverse.is_some_and(|r| r != backwards) {
            return None;
        }
        reverse = Some(backwards);
        at += 1;
    }
    Some(reverse.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests SEL-3.
    #[test]
    fn orders_match_from_the_first_column_that_varies() {
        let columns = [(1, false), (2, false), (0, false)];
        assert_eq!(matches(&columns, 3, &[], &[(1, false), (2, false)]), Some(false));
        assert_eq!(matches(&columns, 3, &[], &[(1, true)]), Some(true));
        assert_eq!(matches(&columns, 3, &[1], &[(2, true)]), Some(true));
        assert_eq!(matches(&columns, 3, &[], &[(2, false)]), None);
        assert_eq!(matches(&columns, 3, &[], &[(1, false), (2, true)]), None);
        // Columns after a unique key do not change the order.
        assert_eq!(matches(&columns, 1, &[], &[(1, false), (9, true)]), Some(false));
    }
}
