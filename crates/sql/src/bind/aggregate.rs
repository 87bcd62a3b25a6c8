//! Aggregate functions.
use super::collation_mix::{Mix, collation_of, result_collation};
use super::enum_set::number_of;
use super::expr::{Env, in_charset, operand};
use super::scope::Clause;
use super::{Binder, slot, type_rules};
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, Call};
use crate::plan::expr_set::SameIndex;
use crate::plan::{Aggregate, AggregateCall, Expr, ExprKind, ExprType, Kind, SortKey};
use redolith_types::{Charset, Collation};
use std::cell::Cell;
use std::collections::HashSet;

pub(super) fn by_name(name: &str) -> Option<Aggregate> {
    Some(match name {
        "COUNT" => Aggregate::Count,
        "SUM" => Aggregate::Sum,
        "AVG" => Aggregate::Avg,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        "ANY_VALUE" => Aggregate::AnyValue,
        "BIT_AND" => Aggregate::BitAnd,
        "BIT_OR" => Aggregate::BitOr,
        "BIT_XOR" => Aggregate::BitXor,
        "STD" | "STDDEV" | "STDDEV_POP" => Aggregate::StdDevPop,
        "STDDEV_SAMP" => Aggregate::StdDevSamp,
        "VAR_POP" | "VARIANCE" => Aggregate::VarPop,
        "VAR_SAMP" => Aggregate::VarSamp,
        "GROUP_CONCAT" => Aggregate::GroupConcat,
        "JSON_ARRAYAGG" => Aggregate::JsonArrayAgg,
        "JSON_OBJECTAGG" => Aggregate::JsonObjectAgg,
        _ => return None,
    })
}

/// A longer GROUP_CONCAT is a TEXT or a BLOB, as in MySQL.
const LONGEST_VARCHAR_CONCAT: u32 = 512;

/// The distinct aggregates of a SELECT.
#[derive(Default)]
pub(super) struct Aggregates {
    pub list: Vec<AggregateCall>,
    known: SameIndex,
}
impl Aggregates {
    /// The place of a call in the list. Adds the call if it is new.
    pub fn place(
        &mut self,
        call: AggregateCall,
        mut count: impl FnMut(usize) -> Result<()>,
    ) -> Result<usize> {
        let same = |other: &AggregateCall| {
            other.function == call.function
                && other.distinct == call.distinct
                && other.order.is_empty()
                && call.order.is_empty()
                && other.separator == call.separator
                && other.args.len() == call.args.len()
                && other.args.iter().zip(&call.args).all(|(a, b)| a.same(b))
        };
        let hash = self.known.hash(
            (std::mem::discriminant(&call.function), call.distinct, call.args.len()),
            &call.args,
        );
        let compared = Cell::new(0);
        let found = self.known.find(hash, |n| {
            compared.set(compared.get() + 1);
            same(&self.list[n])
        });
        if compared.get() > 1 {
            let bytes: usize = call.args.iter().map(Expr::bytes).sum();
            count(compared.get() * bytes.div_ceil(size_of::<Expr>()))?;
        }
        if let Some(place) = found {
            return Ok(place);
        }
        if same(&call) {
            self.known.insert(hash, self.list.len());
        }
        self.list.push(call);
        Ok(self.list.len() - 1)
    }
}

/// Checks how many arguments a call has, and of which form, with OVER or without.
pub(super) fn check_arguments(function: Aggregate, call: &Call) -> Result<()> {
    if call.star && function != Aggregate::Count {
        return Err(SqlError::syntax("*)", 1));
    }
    let is_json = matches!(function, Aggregate::JsonArrayAgg | Aggregate::JsonObjectAgg);
    if is_json && call.distinct {
        return Err(SqlError::syntax("DISTINCT", 1));
    }
    if function == Aggregate::JsonObjectAgg && call.args.len() != 2 {
        return Err(SqlError::wrong_parameter_count(&call.name));
    }
    let many = matches!(function, Aggregate::GroupConcat | Aggregate::JsonObjectAgg)
        || (function == Aggregate::Count && call.distinct);
    if !call.star && (call.args.is_empty() || (call.args.len() > 1 && !many)) {
        return Err(SqlError::wrong_parameter_count(&call.name));
    }
    Ok(())
}

impl Binder<'_> {
    pub(super) fn aggregate(
        &mut self,
        env: &Env<'_>,
        function: Aggregate,
        call: &Call,
    ) -> Result<Expr> {
        check_arguments(function, call)?;
        let found = self.aggregate_at(env, function, call, true)?;
        found.ok_or_else(SqlError::invalid_group_function)
    }

    /// Binds an aggregate in the query of `env`, or in a query around it. None if the query may not
    /// have it: an aggregate may not stand in an aggregate or in a clause before grouping.
    /// `is_own`: this is the query in whose text the aggregate stands.
    fn aggregate_at(
        &mut self,
        env: &Env<'_>,
        function: Aggregate,
        call: &Call,
        is_own: bool,
    ) -> Result<Option<Expr>> {
        let mut list = self.aggregates.take();
        if list.is_none() && self.taken.is_empty() {
            return Ok(None);
        }
        let inside = Env { windows: None, ..*env };
        let result = self.aggregate_among(&inside, function, call, list.as_mut(), is_own);
        self.aggregates = list;
        result
    }
    fn aggregate_among(
        &mut self,
        env: &Env<'_>,
        function: Aggregate,
        call: &Call,
        list: Option<&mut Aggregates>,
        is_own: bool,
    ) -> Result<Option<Expr>> {
        let known: Vec<usize> = self.taken.iter().map(|taken| taken.list.len()).collect();
        let mut args = self.arguments(env, function, call)?;
        if env.outer.is_some() && is_of_outer(&args) && !self.sorts_by_own(env, call, &args)? {
            // The arguments are bound again: subqueries in them would be, too, at each level.
            if args.iter().any(|e| e.any(&|e| matches!(e.kind, ExprKind::Subquery(_)))) {
                return Err(of_outer_query());
            }
            for (taken, known) in self.taken.iter_mut().zip(known) {
                taken.forget_from(known);
            }
            match self.aggregate_outside(env, function, call)? {
                None if is_own => args = self.arguments(env, function, call)?,
                None => return Err(of_outer_query()),
                found => return Ok(found),
            }
        }
        let Some(list) = list else { return Ok(None) };
        let call = self.aggregate_call(env, function, call, args)?;
        let ty = call.ty;
        let place = list.place(call, |nodes| self.compared(nodes))?;
        Ok(Some(Expr::new(ExprKind::Aggregate(slot(place)?), ty)))
    }

    /// Binds an aggregate whose columns are all those of queries around the subquery of `env`. As
    /// in MySQL, it is one of the innermost query whose columns it names; the subquery takes its
    /// value. If that query may not have it there, the subquery itself has it.
    fn aggregate_outside(
        &mut self,
        env: &Env<'_>,
        function: Aggregate,
        call: &Call,
    ) -> Result<Option<Expr>> {
        let (Some(outer), Some(own)) = (env.outer, self.taken.pop()) else { return Ok(None) };
        self.aggregates = self.around_aggregates.pop().flatten();
        let bound = self.aggregate_at(outer, function, call, false);
        self.around_aggregates.push(self.aggregates.take());
        self.taken.push(own);
        let of = self.taken.len() - 1;
        bound?.map(|value| self.take(outer, of, value)).transpose()
    }

    pub(super) fn arguments(
        &mut self,
        env: &Env<'_>,
        function: Aggregate,
        call: &Call,
    ) -> Result<Vec<Expr>> {
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            let bound = self.expr(env, arg)?;
            args.push(match function {
                Aggregate::Sum | Aggregate::Avg => operand(self.hex_as_number(arg, bound)),
                Aggregate::BitAnd | Aggregate::BitOr | Aggregate::BitXor => {
                    self.hex_as_number(arg, bound)
                }
                _ => bound,
            });
        }
        Ok(args)
    }

    /// An aggregate with these arguments, which [`Self::arguments`] has bound.
    pub(super) fn aggregate_call(
        &mut self,
        env: &Env<'_>,
        function: Aggregate,
        call: &Call,
        mut args: Vec<Expr>,
    ) -> Result<AggregateCall> {
        let order = self.group_concat_order(env, &call.order, &args)?;
        let arg = args.first().map(|a| a.ty).unwrap_or(ExprType::bigint(21));
        let ty = match function {
            Aggregate::Count => ExprType::bigint(21),
            Aggregate::Sum => type_rules::sum(&arg),
            Aggregate::Avg => type_rules::avg(&arg, self.cx.div_precision_increment),
            Aggregate::Min | Aggregate::Max | Aggregate::AnyValue => {
                if function != Aggregate::AnyValue {
                    let name = if function == Aggregate::Min { "MIN" } else { "MAX" };
                    // MySQL compares the argument with itself.
                    collation_of(&[&arg, &arg], name)?;
                }
                ExprType { zerofill: false, ..arg.nullable(true) }
            }
            Aggregate::BitAnd | Aggregate::BitOr | Aggregate::BitXor => bits_of(&args[0])?,
            Aggregate::StdDevPop
            | Aggregate::StdDevSamp
            | Aggregate::VarPop
            | Aggregate::VarSamp => ExprType::double().nullable(true),
            Aggregate::JsonArrayAgg | Aggregate::JsonObjectAgg => ExprType::json(),
            Aggregate::GroupConcat => {
                for arg in &mut args {
                    arg.change(|arg| self.to_string(arg));
                }
                let types: Vec<&ExprType> = args.iter().map(|a| &a.ty).collect();
                let (collation, coercibility) = result_collation(&types, "GROUP_CONCAT")?;
                let mix = Mix::new(types, "GROUP_CONCAT");
                let ty = ExprType {
                    coercibility,
                    ..concat_type(self.cx.group_concat_max_len, collation)
                };
                for arg in &mut args {
                    arg.change(|arg| in_charset(arg, &ty, &mix));
                }
                ty
            }
        };
        let values = args.len();
        let order = self.sort_keys(order, &mut args)?;
        let separator = match call.separator {
            Some(number) => self.connection_text(number, Charset::Utf8mb4)?,
            None => ",".to_string(),
        };
        let separator =
            Charset::Utf8mb4.convert_lossy(separator.as_bytes(), ty.collation.charset());
        // COUNT(expr) is COUNT(*) if the expression is never NULL.
        if function == Aggregate::Count
            && !call.distinct
            && args.first().is_some_and(|a| !a.ty.nullable)
        {
            args.clear();
        }
        // DISTINCT does not change these aggregates.
        let distinct = call.distinct
            && !matches!(function, Aggregate::Min | Aggregate::Max | Aggregate::AnyValue);
        debug_assert!(order.is_empty() || args.len() >= values);
        Ok(AggregateCall {
            function,
            distinct,
            args,
            ty,
            order,
            separator: separator.into_owned().into(),
            values: slot(values)?,
        })
    }

    /// Binds ORDER BY in GROUP_CONCAT, which sees the arguments before they become texts: numbers
    /// are sorted as numbers, and ENUM and SET by their numbers.
    fn group_concat_order(
        &mut self,
        env: &Env<'_>,
        order: &[ast::OrderItem],
        args: &[Expr],
    ) -> Result<Vec<(OrderKey, bool)>> {
        let mut keys = Vec::with_capacity(order.len());
        let mut positions = HashSet::new();
        for item in order {
            let expr = match self.position(&item.expr, args.len(), Clause::Order)? {
                // Only the first key of those that are the same decides.
                Some(n) if !positions.insert(n) => continue,
                Some(n) if args[n].ty.kind.is_string() && !is_numbered(args[n].ty.kind) => {
                    keys.push((OrderKey::Argument(n), item.descending));
                    continue;
                }
                Some(n) => {
                    self.charge(args[n].bytes().div_ceil(size_of::<Expr>()))?;
                    args[n].clone()
                }
                None => self.expr(env, &item.expr)?,
            };
            let table = |source: usize| env.scope.sources.get(source)?.table.clone();
            let expr = number_of(&expr, table).map_or(expr, |(number, _)| number);
            keys.push((OrderKey::Value(expr), item.descending));
        }
        Ok(keys)
    }

    /// Whether GROUP_CONCAT sorts by a column of the query of `env`: then it is of this query.
    fn sorts_by_own(&mut self, env: &Env<'_>, call: &Call, args: &[Expr]) -> Result<bool> {
        if call.order.is_empty() {
            return Ok(false);
        }
        let mut own = false;
        for (key, _) in self.group_concat_order(env, &call.order, args)? {
            if let OrderKey::Value(e) = key {
                if e.any(&|e| matches!(e.kind, ExprKind::Subquery(_))) {
                    return Err(of_outer_query());
                }
                own |= e.any(&|e| matches!(e.kind, ExprKind::Column { .. }));
            }
        }
        Ok(own)
    }

    /// The sort keys of GROUP_CONCAT. A key that is not an argument becomes a further argument.
    fn sort_keys(
        &mut self,
        order: Vec<(OrderKey, bool)>,
        args: &mut Vec<Expr>,
    ) -> Result<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(order.len());
        let mut known = match order[..] {
            [] => SameIndex::default(),
            _ => SameIndex::of(args, |nodes| self.compared(nodes))?,
        };
        for (key, descending) in order {
            let output = match key {
                OrderKey::Argument(n) => n,
                OrderKey::Value(expr) => match self.find_same(&known, &expr, args)? {
                    Some(n) => n,
                    None => {
                        known.insert_expr(&expr, args.len());
                        args.push(expr);
                        args.len() - 1
                    }
                },
            };
            let collation = args[output].ty.collation;
            keys.push(SortKey { output: slot(output)?, descending, collation });
        }
        Ok(keys)
    }
}

/// What GROUP_CONCAT sorts by.
enum OrderKey {
    /// An argument, by its text.
    Argument(usize),
    Value(Expr),
}

fn is_numbered(kind: Kind) -> bool {
    matches!(kind, Kind::Enum | Kind::Set)
}

/// The type of GROUP_CONCAT, which has at most `max_len` bytes. Each byte may be a character.
fn concat_type(max_len: usize, collation: Collation) -> ExprType {
    let longest = ExprType::json().length;
    let chars = u32::try_from(max_len).map_or(longest, |len| len.min(longest));
    let kind = if chars > LONGEST_VARCHAR_CONCAT { Kind::Blob } else { Kind::VarChar };
    ExprType { kind, nullable: true, ..ExprType::string(chars, collation) }
}

/// The longest argument of a bit function over binary strings, in bytes, as in MySQL.
pub(crate) const LONGEST_BITS: u32 = 511;

/// The type of BIT_AND, BIT_OR and BIT_XOR: over binary strings, which are no literals, it is a
/// binary string (MySQL manual, "Aggregate Function Descriptions").
fn bits_of(e: &Expr) -> Result<ExprType> {
    let arg = &e.ty;
    if !arg.is_binary() || !matches!(arg.kind, Kind::Char | Kind::VarChar | Kind::Blob) {
        return Ok(ExprType::unsigned_bigint(21));
    }
    // How long the values of other expressions are is seen when they are there.
    if arg.length > LONGEST_BITS && matches!(e.kind, ExprKind::Column { .. }) {
        return Err(SqlError::long_bits());
    }
    Ok(ExprType::string(arg.length.min(LONGEST_BITS), Collation::Binary))
}

fn of_outer_query() -> SqlError {
    SqlError::unsupported("this aggregate of an outer query in a subquery")
}

/// True for the arguments of an aggregate that belongs to an outer query, as in MySQL: all columns
/// that it names are columns of outer queries.
fn is_of_outer(args: &[Expr]) -> bool {
    let any = |test: &dyn Fn(&Expr) -> bool| args.iter().any(|arg| arg.any(test));
    any(&|e| matches!(e.kind, ExprKind::Outer(_)))
        && !any(&|e| matches!(e.kind, ExprKind::Column { .. }))
}
