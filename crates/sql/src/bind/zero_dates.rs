//! `column IS NULL` finds zero dates where the column is a DATE or DATETIME that is NOT NULL: ODBC
//! has no date '0000-00-00', so its clients see NULL there and search for it (MySQL manual,
//! "Comparison Functions and Operators", IS NULL).
//!
//! As in MySQL, this holds for the conditions of WHERE, HAVING and inner joins and for the parts of
//! their AND and OR, and nowhere else: `NOT (column IS NULL)` and `column IS NULL` as a value mean
//! what they say.
use super::Binder;
use super::compare::{and, or};
use super::scope::Scope;
use crate::error::Result;
use crate::plan::{CompareOp, Expr, ExprKind, ExprType, Function, Kind};
use redolith_types::{Date, DateTime, Value};

impl Binder<'_> {
    /// A condition of `scope` as a whole, which also finds zero dates.
    pub(super) fn with_zero_dates(&mut self, condition: Expr, scope: &Scope) -> Result<Expr> {
        let Expr { kind, ty } = condition;
        Ok(match kind {
            ExprKind::And(parts) => and(self.each_with_zero_dates(parts, scope)?),
            ExprKind::Or(parts) => or(self.each_with_zero_dates(parts, scope)?),
            // ISNULL() is another name of IS NULL.
            ExprKind::Call { function: Function::IsNull, mut args }
                if args.len() == 1 && is_certain_date(&args[0], scope) =>
            {
                let value = Box::new(args.remove(0));
                let is_null = Expr::new(ExprKind::IsNull { negated: false, value }, ty);
                self.with_zero_dates(is_null, scope)?
            }
            ExprKind::IsNull { negated: false, value } if is_certain_date(&value, scope) => {
                let zero = match value.ty.kind {
                    Kind::Date => Expr::literal(Value::Date(Date::ZERO), ExprType::date()),
                    _ => Expr::literal(Value::DateTime(DateTime::ZERO), ExprType::datetime(0)),
                };
                let is_zero = self.compare(CompareOp::Eq, (*value).clone(), zero)?;
                // A row that an outer join has made has NULL there.
                if value.ty.nullable {
                    let kind = ExprKind::IsNull { negated: false, value };
                    or(vec![is_zero, Expr::new(kind, ty)])
                } else {
                    is_zero
                }
            }
            kind => Expr::new(kind, ty),
        })
    }
    fn each_with_zero_dates(&mut self, parts: Vec<Expr>, scope: &Scope) -> Result<Vec<Expr>> {
        parts.into_iter().map(|part| self.with_zero_dates(part, scope)).collect()
    }
}

/// Whether this is a column of dates or moments that is NOT NULL, though an outer join may make it
/// NULL.
fn is_certain_date(value: &Expr, scope: &Scope) -> bool {
    let ExprKind::Column { source, column } = value.kind else { return false };
    let is_nullable = match scope.sources.get(usize::from(source)).map(|s| &s.table) {
        Some(Some(table)) => table.def.columns[usize::from(column)].nullable,
        _ => value.ty.nullable,
    };
    matches!(value.ty.kind, Kind::Date | Kind::DateTime) && !is_nullable
}
