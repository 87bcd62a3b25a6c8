//! Conditions that a number column is one of several values (TEST-1): `column IN (1, 2, 3)`, and
//! `column IN (SELECT ..)` if the subquery has been run before the scan.
use super::env::Env;
use super::eval::Scope;
use super::row_tests::{Bound, Numbers};
use crate::plan::{Expr, ExprKind, SubqueryTest};
use redolith_types::{RowLayout, TableDef};

/// The most values of a list. They are looked at before the first row, without giving way.
const MOST_MEMBERS: usize = 1024;

/// A list in which the column's number is, or is not.
pub struct ListTest {
    column: usize,
    /// In order.
    members: Box<[i128]>,
    negated: bool,
}

impl ListTest {
    /// The test of a condition on a column of source number `source`, if it has one.
    pub fn of(
        condition: &Expr,
        source: u16,
        def: &TableDef,
        at: Scope<'_>,
        env: &mut Env<'_>,
    ) -> Option<ListTest> {
        match &condition.kind {
            ExprKind::In { negated, how, value, list, .. } if list.len() <= MOST_MEMBERS => {
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
                if rows.is_empty() || rows.len() > MOST_MEMBERS {
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

    pub fn passes(&self, layout: &RowLayout, payload: &[u8]) -> bool {
        let Some(number) = Numbers::get(layout, payload, self.column) else { return false };
        self.members.binary_search(&number).is_ok() != self.negated
    }
}
