//! Conditions with the expression of a generated column that has an index: they become conditions
//! on the column, which the index can answer. (MySQL, `substitute_gc_expression`)
//!
//! **GENCOL-3** A condition of WHERE is changed only where the column has the values that the
//! expression has: in a statement of one table (a row of NULLs, which an outer join adds, has NULL
//! in the column, whatever the expression makes of NULLs), where both have the same type, and where
//! the value does not depend on the session's time zone. Literals that a changed condition loses
//! are pinned (BIND-1), because the plan is right for their values alone.
use super::Binder;
use super::check::scope_of;
use super::result_columns::column_type;
use super::scope::Scope;
use crate::error::Result;
use crate::plan::{Expr, ExprKind, ExprType, Function, Kind};
use crate::table_info::TableInfo;
use redolith_types::{IndexDef, SqlType, TableDef, Value};
use std::sync::Arc;

/// A generated column that an index begins with or has.
struct Indexed {
    column: u16,
    value: Expr,
    ty: ExprType,
}

impl Binder<'_> {
    /// Changes the conditions of a statement whose only source is a table.
    pub(super) fn use_indexed_expressions(
        &mut self,
        scope: &Scope,
        conjuncts: &mut [Expr],
    ) -> Result<()> {
        let [source] = &scope.sources[..] else { return Ok(()) };
        let Some(table) = source.table.as_ref().filter(|table| has_candidates(&table.def)) else {
            return Ok(());
        };
        let candidates = self.candidates(table)?;
        for conjunct in conjuncts {
            self.use_columns(conjunct, &candidates)?;
        }
        Ok(())
    }

    fn candidates(&mut self, table: &Arc<TableInfo>) -> Result<Vec<Indexed>> {
        let scope = scope_of(table)?;
        let mut candidates = Vec::new();
        for column in 0..table.def.columns.len() {
            if !is_candidate(&table.def, column) {
                continue;
            }
            let value = self.generation(&scope, table, column)?;
            let ty = column_type(&table.def.columns[column]);
            if has_same_values(&value.ty, &ty) && !depends_on_time_zone(&value, &table.def) {
                candidates.push(Indexed { column: column as u16, value, ty });
            }
        }
        Ok(candidates)
    }

    /// Puts columns in the place of expressions that a condition compares.
    fn use_columns(&mut self, e: &mut Expr, candidates: &[Indexed]) -> Result<()> {
        self.step(candidates.len() + 1)?;
        match &mut e.kind {
            ExprKind::And(parts) | ExprKind::Or(parts) => {
                for part in parts {
                    self.use_columns(part, candidates)?;
                }
            }
            ExprKind::Compare { sides, .. } => {
                for side in &mut **sides {
                    self.use_column(side, candidates)?;
                }
            }
            ExprKind::Between { args, .. } => self.use_column(&mut args[0], candidates)?,
            ExprKind::In { value, .. } | ExprKind::IsNull { value, .. } => {
                self.use_column(value, candidates)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn use_column(&mut self, e: &mut Expr, candidates: &[Indexed]) -> Result<()> {
        if matches!(e.kind, ExprKind::Column { .. } | ExprKind::Literal(_) | ExprKind::Param(_)) {
            return Ok(());
        }
        for candidate in candidates {
            self.step(1)?;
            let mut literals = Vec::new();
            if has_same_values(&e.ty, &candidate.ty)
                && self.is_same_expression(e, &candidate.value, &mut literals)
            {
                self.pinned.extend(literals);
                let kind = ExprKind::Column { source: 0, column: candidate.column };
                *e = Expr::new(kind, candidate.ty);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether an expression of the statement is that of a column. `literals` gets the literals
    /// whose values were compared.
    fn is_same_expression(&self, given: &Expr, own: &Expr, literals: &mut Vec<u32>) -> bool {
        match (&given.kind, &own.kind) {
            (ExprKind::Param(number), ExprKind::Literal(value)) if self.parameterize => {
                literals.push(*number);
                let literal = self.parsed.literal(*number);
                literal.is_ok_and(|literal| is_same_literal((&literal, given), (value, own)))
            }
            (ExprKind::Literal(literal), ExprKind::Literal(value)) => {
                is_same_literal((literal, given), (value, own))
            }
            _ => {
                let is_text = given.ty.kind.is_string() && own.ty.kind.is_string();
                if is_text && given.ty.collation != own.ty.collation || !given.same_node(own) {
                    return false;
                }
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                given.parts(&mut |part| ours.push(part));
                own.parts(&mut |part| theirs.push(part));
                ours.len() == theirs.len()
                    && ours.iter().zip(theirs).all(|(a, b)| self.is_same_expression(a, b, literals))
            }
        }
    }
}

/// Whether literals have the same value. The collation of a text may differ: where it matters, the
/// node around the literal has another collation, too.
fn is_same_literal(
    (literal, given): (&Value<'_>, &Expr),
    (value, own): (&Value<'_>, &Expr),
) -> bool {
    let is_text = own.ty.kind.is_string();
    let has_same_charset = || given.ty.collation.charset() == own.ty.collation.charset();
    literal == value && is_text == given.ty.kind.is_string() && (!is_text || has_same_charset())
}

fn has_candidates(def: &TableDef) -> bool {
    (0..def.columns.len()).any(|column| is_candidate(def, column))
}
fn is_candidate(def: &TableDef, column: usize) -> bool {
    let has = |index: &IndexDef| index.columns.iter().any(|c| c.column == column);
    def.columns[column].generation.is_some() && def.indexes.iter().any(has)
}

/// Whether a column of type `column` has each value of an expression of type `e` as it is.
fn has_same_values(e: &ExprType, column: &ExprType) -> bool {
    use Kind::*;
    let is_integer = |kind| matches!(kind, TinyInt | SmallInt | MediumInt | Int | BigInt);
    match (e.kind, column.kind) {
        (a, b) if is_integer(a) && is_integer(b) => e.unsigned == column.unsigned,
        (Char | VarChar | Blob, VarChar | Blob) => e.collation == column.collation,
        (Double, Double) => column.decimals >= e.decimals,
        (Date, Date) | (Year, Year) => true,
        (Time, Time) | (DateTime, DateTime) => e.decimals == column.decimals,
        _ => false,
    }
}

fn depends_on_time_zone(value: &Expr, def: &TableDef) -> bool {
    use Function::{ConvertTz, FromUnixTime, UnixTimestamp};
    value.any(&|e| match &e.kind {
        ExprKind::Column { column, .. } => {
            matches!(def.columns[usize::from(*column)].ty, SqlType::Timestamp { .. })
        }
        ExprKind::Call { function, .. } => {
            matches!(function, ConvertTz | FromUnixTime | UnixTimestamp)
        }
        _ => e.ty.kind == Kind::Timestamp,
    })
}
