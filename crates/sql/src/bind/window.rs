//! Binds window functions (WIN-1).
//!
//! While the select list and ORDER BY are bound, a window function is an [`ExprKind::Window`] with
//! its number, and the expressions of its arguments and its window are kept here. GROUP BY rewrites
//! them like outputs. Then the SELECT is split in two, and each [`ExprKind::Window`] becomes a
//! column of the rows that the windows give.
use super::collation_mix::Mix;
use super::enum_set::number_of;
use super::expr::Env;
use super::frame_limit::frame_limit;
use super::scope::Scope;
use super::set_operation::{as_column, column_type};
use super::{Binder, aggregate, slot};
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, FrameBound, Over, WindowSpec};
use crate::parse::lexer::TokenKind;
use crate::plan::expr_set::SameIndex;
use crate::plan::{
    Aggregate, AggregateCall, Edge, Expr, ExprKind, ExprType, Frame, Kind, SelectPlan, SortKey,
    SourceKind, WindowCall, WindowFunction, WindowSort, WindowStage,
};
use crate::sink::ColumnMeta;
use redolith_types::{Collation, Value};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};

/// The window functions of a SELECT so far.
#[derive(Default)]
pub(super) struct Windows {
    calls: Vec<Pending>,
    sorts: Vec<Order>,
    /// What the functions need of a row. GROUP BY rewrites it.
    exprs: Vec<Expr>,
    /// The keys of sorts among `exprs`, and the sorts by the numbers of their keys: a text may have
    /// a thousand functions over a thousand keys.
    keys: SameIndex,
    by_keys: HashMap<(Vec<usize>, Vec<(usize, bool)>), usize>,
}
/// Partitions and order: numbers of expressions.
struct Order {
    partition: Vec<usize>,
    order: Vec<(usize, bool, Collation)>,
}
struct Pending {
    function: WindowFunction,
    /// The numbers of the arguments.
    args: Vec<usize>,
    number: Option<Expr>,
    frame: Frame,
    sort: usize,
}

/// A window with what it inherits.
struct Resolved<'s> {
    name: String,
    partition: &'s [ast::Expr],
    order: &'s [ast::OrderItem],
    frame: Option<&'s ast::Frame>,
}

/// The name of a window without a name, in messages.
const UNNAMED: &str = "<unnamed window>";

type Named = [(String, WindowSpec)];

fn find<'s>(named: &'s Named, name: &str) -> Result<&'s WindowSpec> {
    let found = named.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
    found.map(|(_, spec)| spec).ok_or_else(|| SqlError::no_such_window(name))
}

/// Checks the names of WINDOW and what they inherit, whether they are used or not.
pub(super) fn check_names(named: &Named) -> Result<()> {
    for (n, (name, spec)) in named.iter().enumerate() {
        if named[..n].iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return Err(SqlError::window_defined_twice(name));
        }
        resolve(named, name, spec)?;
    }
    Ok(())
}

fn resolve<'s>(named: &'s Named, name: &str, spec: &'s WindowSpec) -> Result<Resolved<'s>> {
    let mut resolved = Resolved {
        name: name.to_string(),
        partition: &spec.partition,
        order: &spec.order,
        frame: spec.frame.as_ref(),
    };
    let (mut at, mut steps) = (spec, 0);
    while let Some(base) = &at.base {
        let inherited = find(named, base)?;
        steps += 1;
        if steps > named.len() {
            return Err(SqlError::windows_in_a_circle());
        }
        if !at.partition.is_empty() {
            return Err(SqlError::window_cannot_partition());
        }
        if inherited.frame.is_some() {
            return Err(SqlError::window_with_frame_inherited(base));
        }
        if !inherited.order.is_empty() {
            if !resolved.order.is_empty() {
                return Err(SqlError::window_ordered_twice(name, base));
            }
            resolved.order = &inherited.order;
        }
        resolved.partition = &inherited.partition;
        at = inherited;
    }
    Ok(resolved)
}

/// The error for a window function where none may stand.
fn misplaced(call: &ast::Call) -> SqlError {
    SqlError::misplaced_window_function(call.name.to_lowercase())
}
fn is_window(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Window(_))
}
/// Whether the expression has a window function of its own SELECT.
pub(super) fn has_window(e: &Expr) -> bool {
    e.any(&is_window)
}

impl Windows {
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
    fn expr(&mut self, e: Expr) -> usize {
        self.exprs.push(e);
        self.exprs.len() - 1
    }
    /// The number of the sort with these keys, an earlier one if it is the same.
    fn sort(&mut self, partition: Vec<usize>, order: Vec<(usize, bool, Collation)>) -> usize {
        let next = self.sorts.len();
        let by = order.iter().map(|(n, descending, _)| (*n, *descending)).collect();
        let number = *self.by_keys.entry((partition.clone(), by)).or_insert(next);
        if number == next {
            self.sorts.push(Order { partition, order });
        }
        number
    }
}

impl Binder<'_> {
    pub(super) fn window(&mut self, env: &Env<'_>, window: &ast::WindowCall) -> Result<Expr> {
        let Some(named) = env.windows else { return Err(misplaced(&window.call)) };
        let window_of = match &window.over {
            Over::Name(name) => resolve(named, name, find(named, name)?)?,
            Over::Spec(spec) => resolve(named, UNNAMED, spec)?,
        };
        // What belongs to the function has no window functions of its own.
        let inner = Env { windows: None, ..*env };
        self.pinned(|b| b.window_call(&inner, &window.call, &window_of))
    }

    fn window_call(
        &mut self,
        env: &Env<'_>,
        call: &ast::Call,
        window: &Resolved<'_>,
    ) -> Result<Expr> {
        let nested = |e: SqlError| {
            if e.code == 3593 { SqlError::window_function_in_window(&window.name) } else { e }
        };
        let (mut partition, mut known) = (Vec::new(), HashSet::new());
        for e in window.partition {
            let bound = self.window_key(env, e, &window.name).map_err(nested)?;
            if !bound.is_constant() {
                let key = self.number_of_key(bound)?;
                partition.extend(known.insert(key).then_some(key));
            }
        }
        let mut order = Vec::new();
        for item in window.order {
            let bound = self.window_key(env, &item.expr, &window.name).map_err(nested)?;
            order.push((bound, item.descending));
        }
        let (function, args, number, ty) = self.window_function(env, call)?;
        let frame = self.window_frame(env, window, &order, !order.is_empty())?;
        let framed = matches!(
            function,
            WindowFunction::FirstValue
                | WindowFunction::LastValue
                | WindowFunction::NthValue
                | WindowFunction::Aggregate(_)
        );
        let frame = if framed { frame } else { Frame::PARTITION };
        // The map of sorts and the plan have the numbers of the keys once more.
        let numbers = (partition.len() + order.len()) * size_of::<(usize, SortKey)>();
        self.charge(numbers.div_ceil(size_of::<Expr>()))?;
        let (mut order_keys, mut sorted) = (Vec::with_capacity(order.len()), HashSet::new());
        for (e, descending) in order.into_iter().filter(|(e, _)| !e.is_constant()) {
            let collation = e.ty.collation;
            let key = self.number_of_key(e)?;
            if sorted.insert(key) {
                order_keys.push((key, descending, collation));
            }
        }
        let sort = self.windows.sort(partition, order_keys);
        let args = args.into_iter().map(|e| self.windows.expr(e)).collect();
        self.windows.calls.push(Pending { function, args, number, frame, sort });
        if self.windows.calls.len() > MOST_CALLS {
            return Err(SqlError::unsupported("more than 1000 window functions in a SELECT"));
        }
        Ok(Expr::new(ExprKind::Window(slot(self.windows.calls.len() - 1)?), ty))
    }

    /// The number of a sort's key, an earlier one if it is the same.
    fn number_of_key(&mut self, e: Expr) -> Result<usize> {
        let windows = std::mem::take(&mut self.windows);
        let found = self.find_same(&windows.keys, &e, &windows.exprs);
        self.windows = windows;
        if let Some(number) = found? {
            return Ok(number);
        }
        self.windows.keys.insert_expr(&e, self.windows.exprs.len());
        Ok(self.windows.expr(e))
    }

    fn window_key(&mut self, env: &Env<'_>, e: &ast::Expr, name: &str) -> Result<Expr> {
        if let ast::ExprKind::Literal(n) = e.kind
            && self.parsed.literal_kind(n) == TokenKind::Integer
        {
            return Err(SqlError::window_by_position(name));
        }
        let bound = self.expr(env, e)?;
        if has_window(&bound) {
            return Err(SqlError::window_function_in_window(name));
        }
        Ok(bound)
    }

    /// The function, its arguments, its number (of buckets, rows) and its type.
    fn window_function(
        &mut self,
        env: &Env<'_>,
        call: &ast::Call,
    ) -> Result<(WindowFunction, Vec<Expr>, Option<Expr>, ExprType)> {
        use WindowFunction as F;
        let Some(function) = F::by_name(&call.name) else {
            let Some(of) = aggregate::by_name(&call.name) else {
                return Err(SqlError::syntax("OVER", 1));
            };
            return self.window_aggregate(env, of, call);
        };
        let wrong_count = || SqlError::wrong_parameter_count(&call.name);
        let counts = match function {
            F::RowNumber | F::Rank | F::DenseRank | F::PercentRank | F::CumeDist => 0..=0,
            F::Ntile | F::FirstValue | F::LastValue => 1..=1,
            F::Lag | F::Lead => 1..=3,
            F::NthValue | F::Aggregate(_) => 2..=2,
        };
        if !counts.contains(&call.args.len()) || call.star || call.distinct {
            return Err(wrong_count());
        }
        let unsigned = ExprType::unsigned_bigint(21);
        let double = ExprType::double();
        let number_at = match function {
            F::Ntile => Some(0),
            F::Lag | F::Lead | F::NthValue => Some(1),
            _ => None,
        };
        let number = match number_at.and_then(|n| call.args.get(n)) {
            Some(e) => {
                Some(self.window_number(&call.name, e, matches!(function, F::Lag | F::Lead))?)
            }
            None => None,
        };
        let mut args = Vec::new();
        for (n, e) in call.args.iter().enumerate() {
            if Some(n) == number_at {
                continue;
            }
            let bound = self.expr(env, e)?;
            if has_window(&bound) {
                return Err(misplaced(call));
            }
            args.push(bound);
        }
        let ty = match function {
            F::RowNumber | F::Rank | F::DenseRank => unsigned,
            F::Ntile => unsigned.nullable(true),
            F::PercentRank | F::CumeDist => double,
            _ => {
                let types: Vec<ExprType> = args.iter().map(|e| e.ty).collect();
                let name = if matches!(function, F::Lead) { "LEAD" } else { "LAG" };
                let ty = column_type(&types, name)?.nullable(true);
                let mix = Mix::new(&types, name);
                for arg in &mut args {
                    arg.change(|e| as_column(e, &ty, &mix));
                }
                ExprType { zerofill: false, ..ty }
            }
        };
        Ok((function, args, number, ty))
    }

    /// NTILE(n), LAG(x, n), NTH_VALUE(x, n).
    fn window_number(&mut self, function: &str, e: &ast::Expr, or_zero: bool) -> Result<Expr> {
        let wrong = || SqlError::wrong_arguments(function.to_lowercase());
        match e.kind {
            ast::ExprKind::Param(_) => {}
            ast::ExprKind::Literal(n) if self.parsed.literal_kind(n) == TokenKind::Integer => {
                match self.literal_value(n)? {
                    Value::Int(n) if n > 0 || or_zero => {}
                    Value::UInt(_) => {}
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(wrong()),
        }
        let bound = self.expr(&Env::new(&Scope::default(), super::scope::Clause::None), e)?;
        self.learn(&bound, &ExprType::unsigned_bigint(20));
        Ok(bound)
    }

    fn window_aggregate(
        &mut self,
        env: &Env<'_>,
        function: Aggregate,
        call: &ast::Call,
    ) -> Result<(WindowFunction, Vec<Expr>, Option<Expr>, ExprType)> {
        match function {
            Aggregate::GroupConcat => {
                return Err(SqlError::unsupported("group_concat as window function"));
            }
            Aggregate::AnyValue => return Err(SqlError::syntax("OVER", 1)),
            _ if call.distinct => {
                return Err(SqlError::unsupported("<window function>(DISTINCT ..)"));
            }
            _ => {}
        }
        aggregate::check_arguments(function, call)?;
        let args = self.arguments(env, function, call)?;
        let mut bound = self.aggregate_call(env, function, call, args)?;
        let picks = matches!(function, Aggregate::Min | Aggregate::Max);
        if picks || matches!(function, Aggregate::JsonArrayAgg | Aggregate::JsonObjectAgg) {
            // They take the texts of ENUM and SET, and the rows have the numbers.
            for arg in &mut bound.args {
                if matches!(arg.ty.kind, Kind::Enum | Kind::Set) {
                    let types = [arg.ty];
                    let ty = column_type(&types, "MIN")?.nullable(true);
                    let mix = Mix::new(&types, "MIN");
                    arg.change(|arg| as_column(arg, &ty, &mix));
                    bound.ty = if picks { ty } else { bound.ty };
                }
            }
        }
        if bound.args.iter().any(has_window) {
            return Err(misplaced(call));
        }
        let args: Vec<Expr> = std::mem::take(&mut bound.args);
        let ty = bound.ty.nullable(function != Aggregate::Count && bound.ty.nullable);
        Ok((WindowFunction::Aggregate(AggregateCall { ty, ..bound }), args, None, ty))
    }

    fn window_frame(
        &mut self,
        env: &Env<'_>,
        window: &Resolved<'_>,
        order: &[(Expr, bool)],
        ordered: bool,
    ) -> Result<Frame> {
        let name = &window.name;
        let Some(frame) = window.frame else {
            let end = if ordered { Edge::Peers } else { Edge::Unbounded };
            return Ok(Frame { start: Edge::Unbounded, end });
        };
        if let Some(what) = frame.unsupported {
            return Err(SqlError::unsupported(what));
        }
        use FrameBound as B;
        match (&frame.start, &frame.end) {
            (B::UnboundedFollowing, _) => return Err(SqlError::frame_start_illegal(name)),
            (_, B::UnboundedPreceding) => return Err(SqlError::frame_end_illegal(name)),
            (B::CurrentRow | B::Following(..), B::Preceding(..))
            | (B::Following(..), B::CurrentRow) => return Err(SqlError::frame_illegal(name)),
            _ => {}
        }
        let mut edge = |bound: &FrameBound| -> Result<Edge> {
            let (amount, unit, before) = match bound {
                B::UnboundedPreceding | B::UnboundedFollowing => return Ok(Edge::Unbounded),
                B::CurrentRow if frame.rows => return Ok(Edge::Row),
                B::CurrentRow => return Ok(Edge::Peers),
                B::Preceding(amount, unit) => (amount, *unit, true),
                B::Following(amount, unit) => (amount, *unit, false),
            };
            if frame.rows {
                if unit.is_some() {
                    return Err(SqlError::rows_with_interval(name));
                }
                return self.rows_edge(env, name, amount, before);
            }
            self.range_edge(env, name, amount, unit, before, order)
        };
        Ok(Frame { start: edge(&frame.start)?, end: edge(&frame.end)? })
    }

    fn rows_edge(
        &mut self,
        env: &Env<'_>,
        name: &str,
        amount: &ast::Expr,
        before: bool,
    ) -> Result<Edge> {
        if let ast::ExprKind::Literal(n) = amount.kind
            && !matches!(self.literal_value(n)?, Value::Int(_) | Value::UInt(_))
        {
            return Err(SqlError::frame_illegal(name));
        }
        let number = self.expr(env, amount)?;
        self.learn(&number, &ExprType::unsigned_bigint(20));
        Ok(Edge::Rows { number, before })
    }

    /// RANGE n PRECEDING: the executor compares the values of rows with a limit, which is an
    /// expression of the current row.
    fn range_edge(
        &mut self,
        env: &Env<'_>,
        name: &str,
        amount: &ast::Expr,
        unit: Option<crate::plan::IntervalUnit>,
        before: bool,
        order: &[(Expr, bool)],
    ) -> Result<Edge> {
        let [(value, descending)] = order else {
            return Err(SqlError::range_without_order(name));
        };
        let ty = value.ty;
        if !ty.kind.is_temporal() && !ty.kind.is_numeric() || ty.kind == Kind::Bit {
            return Err(SqlError::range_without_order(name));
        }
        let n = self.expr(env, amount)?;
        if n.as_literal()
            .is_some_and(|v| v.is_null() || redolith_types::convert::to_f64(v).value < 0.0)
            || n.ty.kind.is_string() && unit.is_none()
        {
            return Err(SqlError::frame_illegal(name));
        }
        if !n.is_constant() || has_window(&n) {
            return Err(SqlError::frame_not_constant(name));
        }
        // In descending order, the rows before have greater values.
        let subtract = before != *descending;
        let (value, limit) = match (unit, ty.kind.is_temporal()) {
            (None, true) => return Err(SqlError::range_wants_interval(name)),
            (Some(_), false) => return Err(SqlError::range_without_interval(name)),
            (Some(unit), true) => {
                // A DATE and hours are a moment.
                let ty = match ty.kind {
                    Kind::Time => ExprType::time(6),
                    _ => ExprType::datetime(6),
                };
                let ty = ty.nullable(true);
                let value = Expr::new(ExprKind::Cast(Box::new(value.clone())), ty);
                let sides = Box::new([value.clone(), n]);
                (value, Expr::new(ExprKind::Interval { subtract, unit, sides }, ty))
            }
            (None, false) => {
                let doubles = |kind| matches!(kind, Kind::Double | Kind::Float | Kind::Null);
                let wide = if doubles(ty.kind) || doubles(n.ty.kind) {
                    ExprType::double()
                } else {
                    // Signed and wide enough: a limit below zero is no error.
                    ExprType::decimal(65, ty.digits().1.max(n.ty.digits().1))
                };
                let wide = wide.nullable(true);
                let value = Expr::new(ExprKind::Cast(Box::new(value.clone())), wide);
                let n = Expr::new(ExprKind::Cast(Box::new(n)), wide);
                let limit = frame_limit(&value, n, subtract);
                (value, limit)
            }
        };
        Ok(Edge::Value { value, limit, descending: *descending, before })
    }

    /// The expressions that GROUP BY rewrites with the outputs. The edges of frames keep the
    /// numbers of theirs.
    pub(super) fn take_window_exprs(&mut self) -> Result<Vec<Expr>> {
        let mut exprs = std::mem::take(&mut self.windows.exprs);
        for call in &mut self.windows.calls {
            for edge in [&mut call.frame.start, &mut call.frame.end] {
                let Edge::Value { value, limit, .. } = edge else { continue };
                for e in [value, limit] {
                    let kind = ExprKind::Column { source: 0, column: slot(exprs.len())? };
                    let place = Expr::new(kind, e.ty);
                    exprs.push(std::mem::replace(e, place));
                }
            }
        }
        Ok(exprs)
    }

    /// Splits a SELECT with window functions in two (WIN-1). `output` has the outputs of the whole,
    /// `exprs` what the functions need. Returns the outputs of the inner SELECT; those of the whole
    /// become expressions over its columns and the functions' values.
    pub(super) fn split_at_windows(
        &mut self,
        scope: &Scope,
        output: &mut [Expr],
        exprs: Vec<Expr>,
    ) -> Result<(Vec<Expr>, Vec<WindowSort>)> {
        let windows = std::mem::take(&mut self.windows);
        let compare = &mut |nodes| self.compared(nodes);
        let mut split = Split::new(scope, compare);
        let numbers = exprs.into_iter().map(|e| split.number(e)).collect::<Result<Vec<u16>>>()?;
        let mut places = vec![0; windows.calls.len()];
        let mut sorts: Vec<WindowSort> = windows
            .sorts
            .iter()
            .map(|sort| WindowSort {
                partition: sort.partition.iter().map(|n| numbers[*n]).collect(),
                order: sort
                    .order
                    .iter()
                    .map(|(n, descending, collation)| SortKey {
                        output: numbers[*n],
                        descending: *descending,
                        collation: *collation,
                    })
                    .collect(),
                needed: Vec::new(),
                calls: Vec::new(),
            })
            .collect();
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); sorts.len()];
        for (n, mut call) in windows.calls.into_iter().enumerate() {
            let sort = &mut sorts[call.sort];
            members[call.sort].push(n);
            let mut column = |number: usize| {
                let input = numbers[number];
                let place = match sort.needed.iter().position(|n| *n == input) {
                    Some(place) => place,
                    None => {
                        sort.needed.push(input);
                        sort.needed.len() - 1
                    }
                };
                let ty = split.inputs[input as usize].ty;
                Expr::new(ExprKind::Column { source: 0, column: place as u16 }, ty)
            };
            let args: Vec<Expr> = call.args.iter().map(|n| column(*n)).collect();
            for edge in [&mut call.frame.start, &mut call.frame.end] {
                if let Edge::Value { value, limit, .. } = edge {
                    for e in [value, limit] {
                        let ExprKind::Column { column: number, .. } = e.kind else { continue };
                        *e = column(number as usize);
                    }
                }
            }
            let (function, args) = match call.function {
                WindowFunction::Aggregate(of) => {
                    (WindowFunction::Aggregate(AggregateCall { args, ..of }), Vec::new())
                }
                other => (other, args),
            };
            sort.calls.push(WindowCall { function, args, number: call.number, frame: call.frame });
        }
        for e in output.iter_mut() {
            if !split.find_inputs(e)? {
                split.make_input(e)?;
            }
        }
        let inputs = split.inputs;
        let mut next = inputs.len();
        for n in members.into_iter().flatten() {
            places[n] = next;
            next += 1;
        }
        slot(next)?;
        for e in output.iter_mut() {
            place_windows(e, &places);
        }
        Ok((inputs, sorts))
    }

    /// The outer of the two SELECTs, without what `whole` asks for beside its outputs.
    pub(super) fn over_windows(
        &mut self,
        inner: SelectPlan,
        sorts: Vec<WindowSort>,
        output: Vec<Expr>,
        visible: usize,
        columns: Vec<ColumnMeta>,
    ) -> Result<SelectPlan> {
        let (locking, dependent) = (inner.locking, inner.dependent);
        let stage = SourceKind::Windows(Box::new(WindowStage { inner, sorts }));
        let mut plan = self.over(stage, false, Vec::new(), None, None)?;
        (plan.output, plan.visible, plan.columns) = (output, visible, columns);
        (plan.locking, plan.dependent) = (locking, dependent);
        Ok(plan)
    }
}

/// The most window functions of a SELECT.
const MOST_CALLS: usize = 1000;

/// The outputs of the inner SELECT so far.
pub(super) struct Split<'s> {
    scope: &'s Scope,
    pub inputs: Vec<Expr>,
    known: SameIndex,
    /// [`Binder::compared`].
    compare: &'s mut dyn FnMut(usize) -> Result<()>,
}
impl<'s> Split<'s> {
    pub fn new(scope: &'s Scope, compare: &'s mut dyn FnMut(usize) -> Result<()>) -> Split<'s> {
        Split { scope, inputs: Vec::new(), known: SameIndex::default(), compare }
    }
    /// The place of an expression among the inputs, which have the numbers of ENUM and SET.
    pub fn number(&mut self, e: Expr) -> Result<u16> {
        let table = |source: usize| self.scope.sources.get(source).and_then(|s| s.table.clone());
        let e = number_of(&e, table).map_or(e, |(number, _)| number);
        if let Some(n) = self.known.find_counting(&e, &self.inputs, &mut *self.compare)? {
            return slot(n);
        }
        self.known.insert_expr(&e, self.inputs.len());
        self.inputs.push(e);
        slot(self.inputs.len() - 1)
    }
    /// Makes inputs of all that an output with window functions needs of the inner SELECT. Returns
    /// false, and changes nothing, if it has no window function.
    fn find_inputs(&mut self, e: &mut Expr) -> Result<bool> {
        if is_window(e) {
            return Ok(true);
        }
        let (mut found, mut failed) = (SmallVec::<[bool; 8]>::new(), None);
        e.parts_mut(&mut |part| match self.find_inputs(part) {
            Ok(has_window) => found.push(has_window),
            Err(e) => failed = Some(e),
        });
        if failed.is_none() && !found.contains(&true) {
            return Ok(false);
        }
        let mut found = found.into_iter();
        e.parts_mut(&mut |part| {
            if failed.is_none() && found.next() == Some(false) {
                failed = self.make_input(part).err();
            }
        });
        failed.map_or(Ok(true), Err)
    }
    /// Makes inputs of the columns in an expression.
    pub fn take_columns(&mut self, e: &mut Expr) -> Result<()> {
        if matches!(e.kind, ExprKind::Column { .. } | ExprKind::Member { .. }) {
            return self.make_input(e);
        }
        let mut result = Ok(());
        e.parts_mut(&mut |part| {
            if result.is_ok() {
                result = self.take_columns(part);
            }
        });
        result
    }
    /// Makes an input of an expression without window functions.
    pub fn make_input(&mut self, e: &mut Expr) -> Result<()> {
        if e.is_fixed() && !e.has_dependent() {
            return Ok(());
        }
        let table = |source: usize| self.scope.sources.get(source).and_then(|s| s.table.clone());
        let names = number_of(e, table);
        let ty = e.ty;
        let column = |n, ty| Expr::new(ExprKind::Column { source: 0, column: n }, ty);
        *e = match names {
            Some((number, names)) => {
                let number_ty = number.ty;
                let n = self.number(number)?;
                Expr::new(names.of(column(n, number_ty)), ty)
            }
            None => {
                let whole = std::mem::replace(e, Expr::literal(Value::Null, ExprType::null()));
                column(self.number(whole)?, ty)
            }
        };
        Ok(())
    }
}

/// Makes columns of the window functions in an output.
fn place_windows(e: &mut Expr, places: &[usize]) {
    if let ExprKind::Window(n) = e.kind {
        e.kind = ExprKind::Column { source: 0, column: places[n as usize] as u16 };
        return;
    }
    e.parts_mut(&mut |part| place_windows(part, places));
}
