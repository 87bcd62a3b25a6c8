//! Binds UNION, INTERSECT and EXCEPT.
//!
//! A UNION ALL is a source of its own: the rows of one SELECT after those of the other. What else a
//! UNION asks for is asked of the SELECT that reads this source: DISTINCT, ORDER BY, LIMIT. A UNION
//! without ALL also drops the duplicates of all SELECTs before it, so that only what follows the
//! last such UNION may have duplicates.
//!
//! INTERSECT and EXCEPT compare all rows before them with those of the next SELECT, so the operands
//! up to the last of them are one source that counts rows (SETOP-1). It is the first operand of the
//! UNIONs that follow.
use super::Binder;
use super::collation_mix::{Mix, UNION};
use super::expr::{Env, in_charset};
use super::scope::{Aliases, Clause, Scope};
use super::type_rules::unify;
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, ExprKind as A};
use crate::plan::{
    Coercibility, Expr, ExprKind, ExprType, Function, Kind, Limit, SelectPlan, SetKind,
    SetOperator, Source, SourceKind,
};
use crate::sink::ColumnMeta;

impl Binder<'_> {
    /// Binds a SELECT with set operators.
    pub(super) fn set_operation(
        &mut self,
        select: &ast::Select,
        outer: Option<&Env<'_>>,
    ) -> Result<SelectPlan> {
        let writes = |s: &ast::Select| !s.into.is_empty() || s.into_file.is_some();
        if writes(select) || select.more.iter().any(|(_, s)| writes(s)) {
            return Err(SqlError::unsupported("INTO in a UNION"));
        }
        let mut parts = Vec::with_capacity(1 + select.more.len());
        parts.push(match &select.first {
            Some(first) => self.select(first, outer)?,
            // The clauses of the first operand are those of the whole, in the syntax tree.
            None => self.operand(select, outer)?,
        });
        for (_, operand) in &select.more {
            parts.push(self.select(operand, outer)?);
        }
        let operators: Vec<SetOperator> = select.more.iter().map(|(o, _)| *o).collect();
        self.combine(parts, &operators, Some(select), outer)
    }

    /// The rows of `parts`, with an operator between each two. `whole` has the ORDER BY and LIMIT.
    pub(super) fn combine(
        &mut self,
        mut parts: Vec<SelectPlan>,
        operators: &[SetOperator],
        whole: Option<&ast::Select>,
        outer: Option<&Env<'_>>,
    ) -> Result<SelectPlan> {
        let mut operators = operators;
        let visible = parts[0].visible;
        if parts.iter().any(|part| part.visible != visible) {
            return Err(SqlError::wrong_select_columns());
        }
        let mut columns = Vec::with_capacity(visible);
        let mut mixes = Vec::with_capacity(visible);
        for n in 0..visible {
            let types: Vec<ExprType> = parts.iter().map(|part| part.columns[n].ty).collect();
            let ty = column_type(&types, UNION)?;
            if ty.kind.is_string() && ty.coercibility == Coercibility::None {
                return Err(SqlError::illegal_mix_of_many(UNION));
            }
            columns.push(ColumnMeta::expression(&parts[0].columns[n].name, ty));
            mixes.push(Mix::new(&types, UNION));
        }
        for part in &mut parts {
            // The parts are run whole.
            part.probe = None;
            let changes =
                part.output.iter().zip(&columns).any(|(e, column)| !is_column(e, &column.ty));
            if changes && (part.distinct || !part.order.is_empty()) {
                // The part sorts and compares its own values, which are converted afterwards.
                let mut own = part.columns.clone();
                for column in &mut own {
                    column.ty = column_type(&[column.ty], UNION)?;
                }
                let inner = std::mem::replace(
                    part,
                    self.over(SourceKind::Union(Vec::new()), false, own, None, None)?,
                );
                part.locking = inner.locking;
                part.sources[0].kind = SourceKind::Union(vec![inner]);
            }
            for ((output, column), mix) in part.output.iter_mut().zip(&columns).zip(&mixes) {
                output.change(|e| as_column(e, &column.ty, mix));
            }
            (part.columns, part.visible) = (columns.clone(), visible);
        }
        if let Some(last) = operators.iter().rposition(|o| o.kind != SetKind::Union) {
            let rest = parts.split_off(last + 2);
            let before = std::iter::once(SetOperator::UNION_ALL).chain(operators.iter().copied());
            let compared = SourceKind::Combined(before.zip(parts).collect());
            if rest.is_empty() {
                return self.over(compared, false, columns, whole, outer);
            }
            parts = vec![self.over(compared, false, columns.clone(), None, None)?];
            parts.extend(rest);
            operators = &operators[last + 1..];
        }
        // The first `n + 1` parts have no duplicates, because UNION `n` is without ALL.
        let last_distinct = operators.iter().rposition(|o| !o.all);
        let Some(distinct) = last_distinct.map(|n| n + 2) else {
            return self.over(SourceKind::Union(parts), false, columns, whole, outer);
        };
        let rest = parts.split_off(distinct);
        if rest.is_empty() {
            return self.over(SourceKind::Union(parts), true, columns, whole, outer);
        }
        let first = self.over(SourceKind::Union(parts), true, columns.clone(), None, None)?;
        let parts = std::iter::once(first).chain(rest).collect();
        self.over(SourceKind::Union(parts), false, columns, whole, outer)
    }

    /// The SELECT that reads the rows of `source`, with the ORDER BY and LIMIT of `whole`.
    pub(super) fn over(
        &mut self,
        source: SourceKind,
        distinct: bool,
        columns: Vec<ColumnMeta>,
        whole: Option<&ast::Select>,
        outer: Option<&Env<'_>>,
    ) -> Result<SelectPlan> {
        let mut scope = Scope::default();
        scope.add_derived("", &columns, false)?;
        let mut aliases = Aliases::default();
        let mut output = Vec::with_capacity(columns.len());
        for (n, column) in columns.iter().enumerate() {
            let at = scope.column((0, n));
            let value = Expr::new(at.expr.clone(), column.ty);
            aliases.list.push((column.name.to_string(), value.clone()));
            output.push(value);
        }
        let (mut order, mut limit) = (Vec::new(), Limit::default());
        if let Some(whole) = whole {
            let of_a_select = whole.whole_order.iter().find_map(|item| match &item.expr.kind {
                A::Name(name) => name.table.as_deref(),
                _ => None,
            });
            if let Some(table) = of_a_select {
                return Err(SqlError::new(
                    1250,
                    format!(
                        "Table '{table}' from one of the SELECTs cannot be used in ORDER clause"
                    ),
                ));
            }
            self.aggregates = None;
            let env = Env { aliases: Some(&aliases), outer, ..Env::new(&scope, Clause::Order) };
            order = self.order(&env, &whole.whole_order, &aliases, &mut output)?;
            limit = self.limit(&whole.whole_limit)?;
        }
        let mut locking = false;
        source.each_inner(&mut |part| locking |= part.locking);
        let dependent = output.iter().any(Expr::has_dependent);
        Ok(SelectPlan {
            nests: Vec::new(),
            sources: vec![Source {
                kind: source,
                alias: "".into(),
                nest: None,
                filter: None,
                lookup: None,
                by_index: None,
            }],
            condition: None,
            grouping: None,
            having: None,
            visible: columns.len(),
            output,
            distinct,
            order,
            limit,
            into: Vec::new(),
            into_file: None,
            columns,
            locking,
            dependent,
            counts_all: false,
            analyzed: false,
            probe: None,
        })
    }
}

/// The common type of the values of a column that `operation` makes.
pub(super) fn column_type(types: &[ExprType], operation: &'static str) -> Result<ExprType> {
    let ty = unify(types, operation)?;
    let bits = || types.iter().filter(|t| t.kind != Kind::Null);
    Ok(match bits().max_by_key(|t| t.length) {
        Some(widest) if bits().all(|t| t.kind == Kind::Bit) => widest.nullable(ty.nullable),
        _ => ty,
    })
}

/// Whether the values of an output are those of the union's column as they are.
fn is_column(e: &Expr, ty: &ExprType) -> bool {
    let same = e.ty.kind == ty.kind
        && e.ty.unsigned == ty.unsigned
        && e.ty.decimals == ty.decimals
        && e.ty.collation == ty.collation
        && !matches!(e.ty.kind, Kind::Enum | Kind::Set);
    same || e.ty.kind == Kind::Null && e.as_literal().is_some()
}

/// An output as a value of the union's column.
pub(super) fn as_column(mut e: Expr, ty: &ExprType, mix: &Mix) -> Expr {
    if is_column(&e, ty) {
        return e;
    }
    if e.ty.kind == Kind::Bit && ty.kind != Kind::Bit {
        // Beside other values, bits count as their number, in a text, too.
        let number = ExprType::unsigned_bigint(20).nullable(e.ty.nullable);
        e = Expr::new(ExprKind::Cast(Box::new(e)), number);
    }
    let nullable = e.ty.nullable;
    let args = vec![in_charset(e, ty, mix)];
    Expr::new(ExprKind::Call { function: Function::Coalesce, args }, ty.nullable(nullable))
}
