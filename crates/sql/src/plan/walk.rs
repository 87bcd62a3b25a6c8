//! Going through an expression's nodes.
use super::expr::{Expr, ExprKind, SubqueryTest};
use super::function::Purity;

impl Expr {
    /// Calls `f` with each direct part.
    pub fn parts(&self, f: &mut dyn FnMut(&Expr)) {
        use ExprKind::*;
        match &self.kind {
            Literal(_)
            | Param(_)
            | Column { .. }
            | GroupKey(_)
            | Aggregate(_)
            | InsertedValue(_)
            | UserVariable(_)
            | SystemVariable { .. } => {}
            AssignUserVariable(_, e)
            | Unary(_, e)
            | Cast(e)
            | Collate(e)
            | ConvertTo(e)
            | IsNull { value: e, .. }
            | IsTruth { value: e, .. } => f(e),
            Arith { sides, .. }
            | Compare { sides, .. }
            | Like { sides, .. }
            | Regexp { sides, .. }
            | Interval { sides, .. }
            | Xor(sides) => sides.iter().for_each(f),
            Between { args, .. } => args.iter().for_each(f),
            In { value, list, .. } => {
                f(value);
                list.iter().for_each(f);
            }
            And(list) | Or(list) | Call { args: list, .. } => list.iter().for_each(f),
            Case { operand, branches, otherwise, .. } => {
                if let Some(e) = operand {
                    f(e);
                }
                for (when, then) in branches {
                    f(when);
                    f(then);
                }
                if let Some(e) = otherwise {
                    f(e);
                }
            }
            Subquery(s) => {
                if let SubqueryTest::In { value, .. } = &s.test {
                    f(value);
                }
            }
        }
    }

    pub fn parts_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        use ExprKind::*;
        match &mut self.kind {
            Literal(_)
            | Param(_)
            | Column { .. }
            | GroupKey(_)
            | Aggregate(_)
            | InsertedValue(_)
            | UserVariable(_)
            | SystemVariable { .. } => {}
            AssignUserVariable(_, e)
            | Unary(_, e)
            | Cast(e)
            | Collate(e)
            | ConvertTo(e)
            | IsNull { value: e, .. }
            | IsTruth { value: e, .. } => f(e),
            Arith { sides, .. }
            | Compare { sides, .. }
            | Like { sides, .. }
            | Regexp { sides, .. }
            | Interval { sides, .. }
            | Xor(sides) => sides.iter_mut().for_each(f),
            Between { args, .. } => args.iter_mut().for_each(f),
            In { value, list, .. } => {
                f(value);
                list.iter_mut().for_each(f);
            }
            And(list) | Or(list) | Call { args: list, .. } => list.iter_mut().for_each(f),
            Case { operand, branches, otherwise, .. } => {
                if let Some(e) = operand {
                    f(e);
                }
                for (when, then) in branches {
                    f(when);
                    f(then);
                }
                if let Some(e) = otherwise {
                    f(e);
                }
            }
            Subquery(s) => {
                if let SubqueryTest::In { value, .. } = &mut s.test {
                    f(value);
                }
            }
        }
    }

    /// This node and all below it.
    pub fn walk(&self, f: &mut dyn FnMut(&Expr)) {
        f(self);
        self.parts(&mut |part| part.walk(f));
    }

    /// Levels of the tree from here down.
    pub fn height(&self) -> u32 {
        let mut below = 0;
        self.parts(&mut |part| below = below.max(part.height()));
        below + 1
    }

    /// Does any node satisfy the test?
    pub fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = test(self);
        if !found {
            self.parts(&mut |part| found = found || part.any(test));
        }
        found
    }

    /// The same value for every row of a statement: parameters, variables that are only read, NOW().
    pub fn is_constant(&self) -> bool {
        !self.any(&|e| match &e.kind {
            ExprKind::Column { .. }
            | ExprKind::GroupKey(_)
            | ExprKind::Aggregate(_)
            | ExprKind::InsertedValue(_)
            | ExprKind::AssignUserVariable(..) => true,
            // Assignments elsewhere in the statement may change a variable between rows.
            ExprKind::UserVariable(_) => true,
            ExprKind::Call { function, .. } => function.purity() == Purity::Volatile,
            _ => false,
        })
    }

    /// The last source whose column it reads; None: no column.
    pub fn last_source(&self) -> Option<u16> {
        let mut last = None;
        self.walk(&mut |e| {
            if let ExprKind::Column { source, .. } = e.kind {
                last = last.max(Some(source));
            }
        });
        last
    }

    /// Equal in structure: the same value whenever both are evaluated on the same row. (False where that takes more than a look.)
    pub fn same(&self, other: &Expr) -> bool {
        use ExprKind::*;
        // Strings that compare otherwise are sorted and grouped otherwise.
        if self.ty.kind.is_string() && other.ty.kind.is_string() && self.ty.collation != other.ty.collation {
            return false;
        }
        let all = |a: &[Expr], b: &[Expr]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b));
        match (&self.kind, &other.kind) {
            (Literal(a), Literal(b)) => a == b,
            (Param(a), Param(b)) => a == b,
            (Column { source: s, column: c }, Column { source: s2, column: c2 }) => (s, c) == (s2, c2),
            (GroupKey(a), GroupKey(b)) | (Aggregate(a), Aggregate(b)) | (InsertedValue(a), InsertedValue(b)) => a == b,
            (UserVariable(a), UserVariable(b)) => a == b,
            (SystemVariable { scope: s, name: n }, SystemVariable { scope: s2, name: n2 }) => (s, n) == (s2, n2),
            (Unary(o, a), Unary(o2, b)) => o == o2 && a.same(b),
            (Arith { op, sides }, Arith { op: op2, sides: sides2 }) => op == op2 && all(&**sides, &**sides2),
            (Compare { op, how, sides }, Compare { op: op2, how: how2, sides: sides2 }) => {
                (op, how) == (op2, how2) && all(&**sides, &**sides2)
            }
            (Like { negated, collation, escape, sides }, Like { negated: n, collation: c, escape: e, sides: s }) => {
                (negated, collation, escape) == (n, c, e) && all(&**sides, &**s)
            }
            (IsNull { negated, value }, IsNull { negated: n, value: v }) => negated == n && value.same(v),
            (And(a), And(b)) | (Or(a), Or(b)) => all(a, b),
            (Collate(a), Collate(b)) => a.same(b),
            (Cast(a), Cast(b)) | (ConvertTo(a), ConvertTo(b)) => self.ty == other.ty && a.same(b),
            (Interval { subtract, unit, sides }, Interval { subtract: s2, unit: u2, sides: sides2 }) => {
                (subtract, unit) == (s2, u2) && all(&**sides, &**sides2)
            }
            (Call { function: f, args: a }, Call { function: g, args: b }) => f == g && f.purity() != Purity::Volatile && all(a, b),
            _ => false,
        }
    }
}
