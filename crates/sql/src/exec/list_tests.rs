//! Conditions that a number column is one of several values (TEST-1): `column IN (1, 2, 3)`, and
//! `column IN (SELECT ..)` if the subquery has been run before the scan.
use super::env::Env;
use super::eval::Scope;
use super::row_tests::{Bound, Numbers};
use crate::plan::{AccessKind, Expr, ExprKind, SubqueryTest, TableAccess};
use redolith_types::{RowLayout, TableDef};
use std::sync::atomic::Ordering::Relaxed;

/// The most values of all lists of a scan. They are looked at before the first row, without giving
/// way.
const MOST_MEMBERS: usize = 1024;
/// The most values where few rows may be read: a dependent subquery looks at them in each run.
const FEW_MEMBERS: usize = 16;

/// How many values the lists of a scan may have together.
pub fn most_members(access: &TableAccess) -> usize {
    match access.path.kind {
        AccessKind::FullScan => {
            let rows = access.table.engine().rows.load(Relaxed);
            usize::try_from(rows).unwrap_or(0).clamp(FEW_MEMBERS, MOST_MEMBERS)
        }
        _ => FEW_MEMBERS,
    }
}

/// A list in which the column's number is, or is not.
pub struct ListTest {
    column: usize,
    /// In order.
    members: Box<[i128]>,
    negated: bool,
}

impl ListTest {
    /// The test of a condition on a column of source number `source`, if it has one with at most
    /// `most` values.
    pub fn of(
        condition: &Expr,
        source: u16,
        def: &TableDef,
        most: usize,
        at: Scope<'_>,
        env: &mut Env<'_>,
    ) -> Option<ListTest> {
        match &condition.kind {
            ExprKind::In { negated, how, value, list, .. } if list.len() <= most => {
                let column = value.column_of(source)?;
                let numbers = Numbers::of(&def.columns[column].ty, *how)?;
                let bounds = list.iter().map(|item| numbers.bound(item, at, env));
                ListTest::with(column, *negated, bounds)
            }
            ExprKind::Subquery(q) if !q.dependent => {
                let SubqueryTest::In { negated, values } = &q.test else { return None };
                let [(value, how)] = &values[..] else { return None };
                let column = value.column_of(source)?;
                let numbers = Numbers::of(&def.columns[column].ty, *how)?;
                let rows = &at.known.subqueries.get(q.body.slot as usize)?.rows;
                // NULL is not in a list of nothing, and is neither in another nor not in it.
                if rows.is_empty() || rows.len() > most {
                    return None;
                }
                let bounds = rows.iter().map(|row| numbers.bound_of(&row[0], env));
                ListTest::with(column, *negated, bounds)
            }
            _ => None,
        }
    }
    /// None if one of the values is no number of the column's kind.
    fn with(
        column: usize,
        negated: bool,
        bounds: impl ExactSizeIterator<Item = Option<Bound>>,
    ) -> Option<ListTest> {
        let mut members = Vec::with_capacity(bounds.len());
        for bound in bounds {
            match bound? {
                Bound::At(number, true) => members.push(number),
                // The column has no such number.
                Bound::At(_, false) => {}
                // With a NULL in the list, NOT IN is never true, and IN is true or NULL.
                Bound::Null if negated => return None,
                Bound::Null => {}
            }
        }
        members.sort_unstable();
        Some(ListTest { column, members: members.into(), negated })
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.members.len()
    }
    pub fn passes(&self, layout: &RowLayout, payload: &[u8]) -> bool {
        let Some(number) = Numbers::get(layout, payload, self.column) else { return false };
        self.members.binary_search(&number).is_ok() != self.negated
    }
}
