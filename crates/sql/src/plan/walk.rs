//! Traversal of an expression's nodes.
use super::access::{AccessKind, TableAccess};
use super::expr::{Expr, ExprKind};
use super::function::{Function, Purity};
use super::select::{SelectPlan, SourceKind};
use super::subquery::{Subquery, SubqueryBody, SubqueryTest};
use std::collections::HashSet;
use std::sync::Arc;

/// Calls `f` with each direct part of a node, by shared or mutable reference.
macro_rules! each_part {
    ($kind:expr, $f:ident, $iter:ident $(, $mutable:tt)?) => {{
        use ExprKind::*;
        match $kind {
            Literal(_) | Param(_) | Column { .. } | GroupKey(_) | Aggregate(_) | Window(_) => {}
            InsertedValue(_) | UserVariable { .. } | SystemVariable { .. } | Outer(_) => {}
            AssignUserVariable(_, e) | Unary(_, e) => $f(e),
            Cast(e) | Transcode(e) | Hex(e) | Collate(e) | ConvertTo(e) => $f(e),
            InCharset(met) => $f(&$($mutable)? met.0),
            IsNull { value: e, .. } | IsTruth { value: e, .. } | Member { number: e, .. } => $f(e),
            Arith { sides, .. } | Compare { sides, .. } => sides.$iter().for_each($f),
            Like { sides, .. } | Regexp { sides, .. } => sides.$iter().for_each($f),
            Interval { sides, .. } | Xor(sides) => sides.$iter().for_each($f),
            Between { args, .. } => args.$iter().for_each($f),
            In { value, list, .. } => {
                $f(value);
                list.$iter().for_each($f);
            }
            And(list) | Or(list) | Call { args: list, .. } => list.$iter().for_each($f),
            Case { operand, branches, otherwise, .. } => {
                if let Some(e) = operand {
                    $f(e);
                }
                for (when, then) in branches {
                    $f(when);
                    $f(then);
                }
                if let Some(e) = otherwise {
                    $f(e);
                }
            }
            Subquery(s) => {
                match &$($mutable)? s.test {
                    SubqueryTest::In { values, .. } => {
                        values.$iter().for_each(|(value, _)| $f(value))
                    }
                    SubqueryTest::Quantified { value, .. } => $f(value),
                    SubqueryTest::Scalar | SubqueryTest::Exists => {}
                }
                s.outer.$iter().for_each($f);
            }
        }
    }};
}

impl Expr {
    pub fn parts<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        each_part!(&self.kind, f, iter)
    }
    pub fn parts_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        each_part!(&mut self.kind, f, iter_mut, mut)
    }

    /// Calls `f` with this node and all nodes below it.
    pub fn walk(&self, f: &mut dyn FnMut(&Expr)) {
        f(self);
        self.parts(&mut |part| part.walk(f));
    }

    /// The number of levels of the tree from this node down, with those of subqueries.
    pub fn height(&self) -> u32 {
        let mut below = match &self.kind {
            ExprKind::Subquery(q) => q.body.height,
            _ => 0,
        };
        self.parts(&mut |part| below = below.max(part.height()));
        below + 1
    }

    /// True if this node or a node below it satisfies the test.
    pub fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = test(self);
        if !found {
            self.parts(&mut |part| found = found || part.any(test));
        }
        found
    }

    /// True for date arithmetic. Its result counts as a date or a time, even if the operand was
    /// text and the result's type is text.
    pub fn is_calculated_date(&self) -> bool {
        matches!(
            self.kind,
            ExprKind::Interval { .. }
                | ExprKind::Call { function: Function::AddTime | Function::SubTime, .. }
        )
    }

    /// True if the expression has the same value for every row of a statement: parameters, system
    /// variables, NOW(). Expressions that read user variables do not count as constant, nor does
    /// what a subquery takes from outside.
    pub fn is_constant(&self) -> bool {
        self.is_fixed() && !self.any(&|e| matches!(e.kind, ExprKind::Outer(_)))
    }
    /// True if the expression is a column of this query or of a query around it.
    pub fn is_column_of_any_query(&self) -> bool {
        matches!(self.kind, ExprKind::Column { .. } | ExprKind::Outer(_))
    }
    /// True if the expression has the same value for every row of one run of its query: constants,
    /// and what a subquery takes from outside.
    pub fn is_fixed(&self) -> bool {
        // An assignment elsewhere in the statement may change a variable between rows.
        !self.differs_by_row() && !self.any(&|e| matches!(e.kind, ExprKind::UserVariable { .. }))
    }
    pub fn has_subquery(&self) -> bool {
        self.any(&|e| matches!(e.kind, ExprKind::Subquery(_)))
    }
    /// True if a dependent subquery stands in the expression (SUB-1).
    pub fn has_dependent(&self) -> bool {
        self.any(&|e| matches!(&e.kind, ExprKind::Subquery(q) if q.dependent))
    }
    /// True if an evaluation has an effect or may give another value next time.
    pub fn is_volatile_node(&self) -> bool {
        match &self.kind {
            ExprKind::AssignUserVariable(..) | ExprKind::UserVariable { .. } => true,
            ExprKind::Call { function, .. } => function.purity() == Purity::Volatile,
            ExprKind::Subquery(q) => q.body.volatile,
            _ => false,
        }
    }
    /// True if an evaluation has an effect or may give another value next time in the statement.
    pub fn is_changing_node(&self) -> bool {
        match &self.kind {
            ExprKind::AssignUserVariable(..) => true,
            ExprKind::UserVariable { assigned, .. } => *assigned,
            // What an INSERT before this statement has left.
            ExprKind::Call { function: Function::LastInsertId, args } => !args.is_empty(),
            ExprKind::Call { function, .. } => function.purity() == Purity::Volatile,
            ExprKind::Subquery(q) => q.body.changing,
            _ => false,
        }
    }
    /// True if the value may differ from row to row even when nothing assigns the user variables
    /// that the expression reads.
    pub fn differs_by_row(&self) -> bool {
        self.any(&|e| match &e.kind {
            ExprKind::Column { .. }
            | ExprKind::GroupKey(_)
            | ExprKind::Aggregate(_)
            | ExprKind::Window(_)
            | ExprKind::InsertedValue(_)
            | ExprKind::AssignUserVariable(..) => true,
            ExprKind::Call { function, .. } => function.purity() == Purity::Volatile,
            ExprKind::Subquery(q) => q.body.changing,
            _ => false,
        })
    }

    /// The column of a source that the expression is; None if it is something else.
    pub fn column_of(&self, source: u16) -> Option<usize> {
        match self.kind {
            ExprKind::Column { source: s, column } if s == source => Some(column as usize),
            _ => None,
        }
    }
    /// The last source whose column the expression reads; None if it reads no column.
    pub fn last_source(&self) -> Option<u16> {
        let mut last = None;
        self.walk(&mut |e| {
            if let ExprKind::Column { source, .. } = e.kind {
                last = last.max(Some(source));
            }
        });
        last
    }

    /// True if the expressions have the same structure, and so the same value whenever both are
    /// evaluated on the same row. A subquery equals its copies only. An expression whose value may
    /// change from call to call equals nothing.
    pub fn same(&self, other: &Expr) -> bool {
        // Strings with different collations sort and group differently.
        if self.ty.kind.is_string()
            && other.ty.kind.is_string()
            && self.ty.collation != other.ty.collation
        {
            return false;
        }
        if !self.same_node(other) {
            return false;
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        self.parts(&mut |part| ours.push(part));
        other.parts(&mut |part| theirs.push(part));
        ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| a.same(b))
    }

    /// True if the nodes are equal apart from their parts.
    pub fn same_node(&self, other: &Expr) -> bool {
        use ExprKind::*;
        match (&self.kind, &other.kind) {
            (Literal(a), Literal(b)) => a == b,
            (Param(a), Param(b)) => a == b,
            (Outer(a), Outer(b)) => a == b && self.ty.kind == other.ty.kind,
            (Subquery(a), Subquery(b)) => a.is_copy_of(b) && !a.body.volatile,
            (Column { source: s, column: c }, Column { source: s2, column: c2 }) => {
                (s, c, self.ty.kind) == (s2, c2, other.ty.kind)
            }
            (Member { table, column, .. }, Member { table: t, column: c, .. }) => {
                Arc::ptr_eq(table, t) && column == c
            }
            (GroupKey(a), GroupKey(b))
            | (Aggregate(a), Aggregate(b))
            | (Window(a), Window(b))
            | (InsertedValue(a), InsertedValue(b)) => a == b,
            (UserVariable { name: a, .. }, UserVariable { name: b, .. }) => a == b,
            (SystemVariable { scope: s, name: n }, SystemVariable { scope: s2, name: n2 }) => {
                (s, n) == (s2, n2)
            }
            (Unary(a, _), Unary(b, _)) => a == b,
            (Arith { op: a, .. }, Arith { op: b, .. }) => a == b,
            (Compare { op, how, .. }, Compare { op: op2, how: how2, .. }) => {
                (op, how) == (op2, how2)
            }
            (Between { negated, how, .. }, Between { negated: n, how: h, .. }) => {
                (negated, how) == (n, h)
            }
            (In { negated, how, sorted, .. }, In { negated: n, how: h, sorted: s, .. }) => {
                (negated, how, sorted) == (n, h, s)
            }
            (
                Like { negated, collation, escape, .. },
                Like { negated: n, collation: c, escape: e, .. },
            ) => (negated, collation, escape) == (n, c, e),
            (Regexp { negated, collation, .. }, Regexp { negated: n, collation: c, .. }) => {
                (negated, collation) == (n, c)
            }
            (IsNull { negated: a, .. }, IsNull { negated: b, .. }) => a == b,
            (IsTruth { negated, truth, .. }, IsTruth { negated: n, truth: t, .. }) => {
                (negated, truth) == (n, t)
            }
            (And(_), And(_))
            | (Or(_), Or(_))
            | (Xor(_), Xor(_))
            | (Hex(_), Hex(_))
            | (Collate(_), Collate(_)) => true,
            (
                Case { operand, how, otherwise, .. },
                Case { operand: o, how: h, otherwise: e, .. },
            ) => how == h && operand.is_some() == o.is_some() && otherwise.is_some() == e.is_some(),
            (Cast(_), Cast(_))
            | (Transcode(_), Transcode(_))
            | (ConvertTo(_), ConvertTo(_))
            | (InCharset(_), InCharset(_)) => self.ty == other.ty,
            (Interval { subtract, unit, .. }, Interval { subtract: s, unit: u, .. }) => {
                (subtract, unit) == (s, u)
            }
            (Call { function: a, .. }, Call { function: b, .. }) => {
                a == b && a.purity() != Purity::Volatile
            }
            _ => false,
        }
    }
}

impl Subquery {
    /// True if both come from the same subquery of the statement's text.
    fn is_copy_of(&self, other: &Subquery) -> bool {
        Arc::ptr_eq(&self.body, &other.body)
    }
}

impl TableAccess {
    /// Calls `f` with each expression of the path's keys.
    pub fn each_key<'p>(&'p self, f: &mut dyn FnMut(&'p Expr)) {
        match &self.path.kind {
            AccessKind::Empty | AccessKind::FullScan => {}
            AccessKind::Point(values) => values.iter().for_each(f),
            AccessKind::Ranges(ranges) => ranges.iter().for_each(|range| range.each_expr(f)),
            AccessKind::Union(parts) => {
                parts.iter().flat_map(|part| &part.ranges).for_each(|range| range.each_expr(f));
            }
        }
    }
}

impl SelectPlan {
    /// Calls `f` with each expression of this SELECT: not with those of SELECTs inside it.
    pub fn each_expr<'p>(&'p self, f: &mut dyn FnMut(&'p Expr)) {
        for source in &self.sources {
            source.filter.iter().for_each(&mut *f);
            source.lookup.iter().for_each(|lookup| lookup.each_expr(f));
            match &source.kind {
                SourceKind::Table(access) => {
                    access.filter.iter().for_each(&mut *f);
                    access.each_key(f);
                }
                SourceKind::Lateral { outer, .. } => outer.iter().for_each(&mut *f),
                SourceKind::JsonTable(table) => f(&table.document),
                _ => {}
            }
        }
        self.nests.iter().flat_map(|nest| &nest.after).for_each(&mut *f);
        self.condition.iter().for_each(&mut *f);
        if let Some(g) = &self.grouping {
            g.keys.iter().for_each(&mut *f);
            g.aggregates.iter().flat_map(|a| &a.args).for_each(&mut *f);
        }
        self.having.iter().chain(&self.output).for_each(f);
    }

    /// The number of levels of the tree.
    pub fn height(&self) -> u32 {
        let mut below = 0;
        self.each_expr(&mut |e| below = below.max(e.height()));
        for source in &self.sources {
            source.kind.each_inner(&mut |inner| below = below.max(inner.height()));
        }
        below + 1
    }

    /// Calls `f` with this SELECT and with each SELECT inside it: operands of set operations,
    /// subqueries and, if `derived`, derived tables. A subquery that copies of an expression share
    /// comes once: copies of copies may be any number.
    pub fn each_select<'p>(&'p self, derived: bool, f: &mut dyn FnMut(&'p SelectPlan)) {
        self.each_new_select(derived, &mut HashSet::new(), f);
    }
    fn each_new_select<'p>(
        &'p self,
        derived: bool,
        seen: &mut HashSet<*const SubqueryBody>,
        f: &mut dyn FnMut(&'p SelectPlan),
    ) {
        f(self);
        for source in &self.sources {
            if derived || !matches!(source.kind, SourceKind::Derived(_)) {
                source.kind.each_inner(&mut |inner| inner.each_new_select(derived, seen, f));
            }
        }
        self.each_expr(&mut |e| {
            e.each_subquery(&mut |q| {
                if seen.insert(Arc::as_ptr(&q.body)) {
                    q.body.plan.each_new_select(derived, seen, f);
                }
            });
        });
    }

    /// The derived tables of this SELECT.
    pub fn derived(&self) -> impl Iterator<Item = &SelectPlan> {
        self.sources.iter().filter_map(|source| match &source.kind {
            SourceKind::Derived(inner) => Some(&**inner),
            _ => None,
        })
    }

    /// True if a table that is read directly, at any depth but not through a derived table,
    /// satisfies the test.
    pub fn reads_directly(&self, test: &dyn Fn(&TableAccess) -> bool) -> bool {
        let mut found = false;
        self.each_select(false, &mut |select| {
            found |= select
                .sources
                .iter()
                .any(|s| matches!(&s.kind, SourceKind::Table(access) if test(access)));
        });
        found
    }

    /// True if its rows may be others each time that it is run.
    pub fn is_volatile(&self) -> bool {
        let mut found = false;
        self.each_select(true, &mut |select| {
            select.each_expr(&mut |e| found = found || e.any(&Expr::is_volatile_node));
        });
        found
    }
}

impl Expr {
    /// Calls `f` with each subquery in the expression, but not with subqueries of their queries.
    pub fn each_subquery<'e>(&'e self, f: &mut dyn FnMut(&'e Subquery)) {
        if let ExprKind::Subquery(q) = &self.kind {
            f(q);
        }
        self.parts(&mut |part| part.each_subquery(f));
    }
}
