//! Binds comparisons, logical operators and arithmetic.
use super::collation_mix::{IN, Mix, collation_of};
use super::expr::{Env, as_number, in_compared_charset, operand};
use super::{Binder, type_rules};
use crate::error::{Result, SqlError};
use crate::exec::eval::one_escape;
use crate::parse::ast::{self, BinaryOp};
use crate::plan::{
    ArithOp, CompareAs, CompareOp, Expr, ExprKind, ExprType, Function, Kind, PatternStart,
};
use crate::sql_mode::SqlMode;
use redolith_types::{Charset, Value};

/// The most columns of rows that are compared by order: each is a level of the expression.
const MOST_ORDERED: usize = 1000;

impl Binder<'_> {
    pub(super) fn binary(
        &mut self,
        env: &Env<'_>,
        op: BinaryOp,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> Result<Expr> {
        match op {
            BinaryOp::Compare(op) => {
                if let (ast::ExprKind::Row(l), ast::ExprKind::Row(r)) = (&left.kind, &right.kind) {
                    return self.compare_rows(env, op, l, r);
                }
                if matches!(
                    (&left.kind, &right.kind),
                    (ast::ExprKind::Row(_), ast::ExprKind::Select(_))
                        | (ast::ExprKind::Select(_), ast::ExprKind::Row(_))
                ) {
                    return Err(SqlError::unsupported("comparing a row with a subquery"));
                }
                let [left, right] = self.sides(env, left, right)?;
                self.compare(op, left, right)
            }
            BinaryOp::Arith(op) => {
                let hex = [self.is_hex_number(left), self.is_hex_number(right)];
                let mut sides = [self.expr(env, left)?, self.expr(env, right)?];
                if type_rules::works_on_bytes(op, &sides, hex) {
                    return Ok(bits_of_bytes(op, sides, hex[1]));
                }
                for (side, hex) in sides.iter_mut().zip(hex) {
                    side.change(|side| operand(if hex { as_number(side) } else { side }));
                }
                let [l, r] = &sides;
                // Clients are told the other side's type. Any kind of number may come (BIND-3).
                self.guess(l, &r.ty);
                self.guess(r, &l.ty);
                let mut ty = type_rules::arith(op, &l.ty, &r.ty, self.cx.div_precision_increment);
                if op == ArithOp::Subtract && self.cx.mode.has(SqlMode::NO_UNSIGNED_SUBTRACTION) {
                    ty.unsigned = false;
                }
                Ok(Expr::new(ExprKind::Arith { op, sides: Box::new(sides) }, ty))
            }
            BinaryOp::Xor => {
                let sides = [self.condition(env, left)?, self.condition(env, right)?];
                let ty = ExprType::boolean().nullable(sides.iter().any(|s| s.ty.nullable));
                Ok(Expr::new(ExprKind::Xor(Box::new(sides)), ty))
            }
        }
    }

    /// The two sides of a comparison.
    fn sides(&mut self, env: &Env<'_>, left: &ast::Expr, right: &ast::Expr) -> Result<[Expr; 2]> {
        let (left_hex, right_hex) = (self.is_hex_number(left), self.is_hex_number(right));
        let mut sides = [self.by_value(env, left)?, self.by_value(env, right)?];
        if left_hex && sides[1].ty.kind.is_numeric() {
            sides[0].change(as_number);
        }
        if right_hex && sides[0].ty.kind.is_numeric() {
            sides[1].change(as_number);
        }
        Ok(sides)
    }

    /// A parameter of unknown type takes the type of the other operand.
    pub(super) fn learn(&mut self, param: &Expr, from: &ExprType) {
        self.guess(param, from);
        if let ExprKind::Param(n) = param.kind
            && from.kind != Kind::Null
        {
            self.untyped.remove(&n);
        }
    }
    /// Handles a parameter that is compared. Beside a string its type stays open: the parameter's
    /// value decides whether numbers or strings are compared (BIND-3). The type also stays open
    /// beside an expression that depends on an open parameter (`COALESCE(?, 1) < ?`).
    fn meet(&mut self, param: &Expr, other: &ExprType, is_open: bool) {
        if is_open || other.kind.is_string() {
            self.guess(param, other)
        } else {
            self.learn(param, other)
        }
    }
    /// True if the expression's type depends on an open parameter. Always false unless `may_meet`:
    /// only a parameter on the other side needs the answer.
    fn is_open(&self, expr: &Expr, may_meet: bool) -> bool {
        may_meet
            && !self.untyped.is_empty()
            && expr.any(&|e| matches!(&e.kind, ExprKind::Param(n) if self.untyped.contains(n)))
    }
    /// Like [`Self::learn`], but the type is only told to clients; the parameter stays open.
    fn guess(&mut self, param: &Expr, from: &ExprType) {
        if let ExprKind::Param(n) = param.kind
            && let Some(ty) = self.param_types.get_mut(n as usize)
            && ty.kind == Kind::Null
        {
            *ty = from.nullable(true);
        }
    }

    pub(super) fn compare(&mut self, op: CompareOp, left: Expr, right: Expr) -> Result<Expr> {
        let left = year_of(&right, left);
        let right = year_of(&left, right);
        let left = dated_year(left, &right.ty);
        let right = dated_year(right, &left.ty);
        let how = type_rules::compare_sides(&left, &right, op.sign())?;
        let mix = Mix::new([&left.ty, &right.ty], op.sign());
        let is_param = |e: &Expr| matches!(e.kind, ExprKind::Param(_));
        let open = [self.is_open(&right, is_param(&left)), self.is_open(&left, is_param(&right))];
        self.meet(&left, &right.ty, open[0]);
        self.meet(&right, &left.ty, open[1]);
        let nullable = op != CompareOp::NullSafeEq && (left.ty.nullable || right.ty.nullable);
        let left = year_for(&right, left);
        let right = year_for(&left, right);
        let sides = Box::new([fit(left, how, &mix), fit(right, how, &mix)]);
        self.meet_constants(&sides[..])?;
        Ok(Expr::new(ExprKind::Compare { op, how, sides }, ExprType::boolean().nullable(nullable)))
    }

    /// Notes the constants of a comparison that have to be dates, or texts of its character set
    /// (CONST-1).
    fn meet_constants(&mut self, sides: &[Expr]) -> Result<()> {
        let is_met = |e: &&Expr| match &e.kind {
            ExprKind::ConvertTo(value) => e.ty.kind.is_temporal() && value.is_constant(),
            ExprKind::InCharset(met) => met.0.is_constant(),
            _ => false,
        };
        for e in sides.iter().filter(is_met).filter(|e| !e.has_subquery()) {
            let mut nodes = 0;
            e.walk(&mut |_| nodes += 1);
            self.charge(nodes)?;
            self.constants.push(e.clone());
        }
        Ok(())
    }

    /// Binds (a, b) = (c, d) as a = c AND b = d, and <> as its negation.
    fn compare_rows(
        &mut self,
        env: &Env<'_>,
        op: CompareOp,
        left: &[ast::Expr],
        right: &[ast::Expr],
    ) -> Result<Expr> {
        if left.len() != right.len() {
            return Err(SqlError::operand_columns(left.len()));
        }
        let (part, negated) = match op {
            CompareOp::Eq | CompareOp::NullSafeEq => (op, false),
            CompareOp::NotEq => (CompareOp::Eq, true),
            _ => return self.order_rows(env, op, left, right),
        };
        let mut parts = Vec::with_capacity(left.len());
        for (l, r) in left.iter().zip(right) {
            parts.push(self.binary(env, BinaryOp::Compare(part), l, r)?);
        }
        let all = and(parts);
        Ok(if negated { not(all) } else { all })
    }

    /// Binds (a, b) < (c, d) as a < c OR a = c AND b < d.
    fn order_rows(
        &mut self,
        env: &Env<'_>,
        op: CompareOp,
        left: &[ast::Expr],
        right: &[ast::Expr],
    ) -> Result<Expr> {
        if left.len() > MOST_ORDERED {
            return Err(SqlError::nested_too_deeply());
        }
        let strict = match op {
            CompareOp::LessEq => CompareOp::Less,
            CompareOp::GreaterEq => CompareOp::Greater,
            op => op,
        };
        let mut sides = Vec::with_capacity(left.len());
        for (l, r) in left.iter().zip(right) {
            // The parts are bound once, because each binding of rows within rows would double
            // that of their parts. So a row within a row has no order: error 1241.
            sides.push(self.sides(env, l, r)?);
        }
        let mut ordered = None;
        for [l, r] in sides.into_iter().rev() {
            let Some(rest) = ordered.take() else {
                ordered = Some(self.compare(op, l, r)?);
                continue;
            };
            let [l, r] = [l, r].map(|side| self.copy_alias(&side).map(|copy| (side, copy)));
            let ((l, l2), (r, r2)) = (l?, r?);
            let first = self.compare(strict, l, r)?;
            let equal = self.compare(CompareOp::Eq, l2, r2)?;
            ordered = Some(or(vec![first, and(vec![equal, rest])]));
        }
        let ordered = ordered.ok_or_else(|| SqlError::operand_columns(1))?;
        self.check_height(&ordered)?;
        Ok(ordered)
    }

    pub(super) fn between(
        &mut self,
        env: &Env<'_>,
        negated: bool,
        args: [&ast::Expr; 3],
    ) -> Result<Expr> {
        let hex = args.map(|arg| self.is_hex_number(arg));
        let mut bound = [
            self.by_value(env, args[0])?,
            self.by_value(env, args[1])?,
            self.by_value(env, args[2])?,
        ];
        let numeric = |e: &Expr| e.ty.kind.is_numeric();
        for n in 0..3 {
            let is_beside_numbers =
                if n == 0 { bound[1..].iter().all(numeric) } else { numeric(&bound[0]) };
            if hex[n] && is_beside_numbers {
                bound[n].change(as_number);
            }
        }
        let is_range =
            bound[0].is_column_of_any_query() && bound[1..].iter().all(Expr::is_constant);
        // Whether a date that is no column meets two bounds as a date or as a number, the kinds of
        // both bounds say.
        let is_open = self.is_open(&bound[0], true) || !is_range && bound[0].ty.kind.is_temporal();
        self.meet(&bound[1], &bound[0].ty, is_open);
        self.meet(&bound[2], &bound[0].ty, is_open);
        let how = type_rules::compare_all([&bound[0].ty, &bound[1].ty, &bound[2].ty], is_range)?;
        let how = type_rules::compare_with_all(&bound[0], &bound[1..], how);
        let nullable = bound.iter().any(|b| b.ty.nullable);
        let mix = Mix::new(bound.iter().map(|b| &b.ty), "BETWEEN");
        let [value, low, high] = bound;
        let (low, high) = (year_for(&value, low), year_for(&value, high));
        // Beside a column of dates, each constant bound is converted for its own comparison, even
        // if the bounds have two kinds.
        let is_dated = is_range
            && how == CompareAs::ByValue
            && value.ty.kind.is_temporal()
            && value.ty.kind != Kind::Year;
        let column = value.ty;
        let fitted = |bound: Expr| -> Result<Expr> {
            let how =
                if is_dated { type_rules::compare_as(&column, &bound.ty, "BETWEEN")? } else { how };
            Ok(fit(bound, how, &mix))
        };
        let args = Box::new([fitted(value)?, fitted(low)?, fitted(high)?]);
        self.meet_constants(&args[..])?;
        Ok(Expr::new(
            ExprKind::Between { negated, how, args },
            ExprType::boolean().nullable(nullable),
        ))
    }

    pub(super) fn in_list(
        &mut self,
        env: &Env<'_>,
        negated: bool,
        value: &ast::Expr,
        list: &[ast::Expr],
    ) -> Result<Expr> {
        if let ast::ExprKind::Row(columns) = &value.kind {
            return self.row_in_list(env, negated, columns, list);
        }
        let value = self.expr(env, value)?;
        let is_open = self.is_open(&value, true);
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            let hex = self.is_hex_number(item);
            let bound = self.by_value(env, item)?;
            self.meet(&bound, &value.ty, is_open);
            items.push(if hex && value.ty.kind.is_numeric() { as_number(bound) } else { bound });
        }
        // IN of one value is a comparison.
        let operation = if items.len() == 1 { "=" } else { IN };
        let types = || items.iter().map(|item| &item.ty);
        let how = type_rules::common_of(&value.ty, types(), operation)?;
        let how = type_rules::compare_with_all(&value, &items, how);
        let mix = Mix::new([&value.ty].into_iter().chain(types()), operation);
        let nullable = value.ty.nullable || items.iter().any(|i| i.ty.nullable);
        let value = Box::new(fit(value, how, &mix));
        // If the items have several kinds, each has its own comparison.
        let how_of = |item: &Expr| {
            if how == CompareAs::ByValue {
                type_rules::compare_sides(&value, item, operation)
            } else {
                Ok(how)
            }
        };
        let as_years = are_years(&items);
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let how = how_of(&item)?;
            list.push(fit(if as_years { year_for(&value, item) } else { item }, how, &mix));
        }
        self.meet_constants(std::slice::from_ref(&value))?;
        self.meet_constants(&list)?;
        let sorted = sort_literals(&mut list, how);
        Ok(Expr::new(
            ExprKind::In { negated, how, value, list, sorted },
            ExprType::boolean().nullable(nullable),
        ))
    }

    fn row_in_list(
        &mut self,
        env: &Env<'_>,
        negated: bool,
        columns: &[ast::Expr],
        list: &[ast::Expr],
    ) -> Result<Expr> {
        let mut alternatives = Vec::with_capacity(list.len());
        for item in list {
            let ast::ExprKind::Row(values) = &item.kind else {
                return Err(SqlError::operand_columns(columns.len()));
            };
            alternatives.push(self.compare_rows(env, CompareOp::Eq, columns, values)?);
        }
        let any = or(alternatives);
        Ok(if negated { not(any) } else { any })
    }

    pub(super) fn like(
        &mut self,
        env: &Env<'_>,
        negated: bool,
        value: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
    ) -> Result<Expr> {
        let start = match pattern.kind {
            ast::ExprKind::Literal(number) => self.parsed.pattern_start(number),
            _ => PatternStart::Unknown,
        };
        let (value, mut pattern) =
            (self.string_operand(env, value)?, self.string_operand(env, pattern)?);
        self.learn(&pattern, &value.ty);
        let no_backslash = self.cx.mode.has(SqlMode::NO_BACKSLASH_ESCAPES);
        let escape = match escape {
            // Where a backslash is no escape in literals, it is none in patterns, either.
            None => (!no_backslash).then_some('\\'),
            Some(e) => {
                let e = self.pinned(|b| b.string_operand(env, e))?;
                match e.as_literal() {
                    Some(Value::Bytes(b)) => {
                        let utf8 = e.ty.collation.charset().convert_lossy(b, Charset::Utf8mb4);
                        one_escape(&utf8, self.cx.mode)?
                    }
                    _ if !is_known_at_start(&e) => return Err(SqlError::wrong_arguments("ESCAPE")),
                    _ => {
                        self.learn(&e, &ExprType::string(1, self.cx.collation));
                        let (function, ty) = (Function::LikePattern, pattern.ty);
                        pattern =
                            Expr::new(ExprKind::Call { function, args: vec![pattern, e] }, ty);
                        Some('\\')
                    }
                }
            }
        };
        let types = [&value.ty, &pattern.ty];
        let (collation, _) = collation_of(&types, "LIKE")?;
        let mix = Mix::new(types, "LIKE");
        let how = CompareAs::String(collation);
        let nullable = value.ty.nullable || pattern.ty.nullable;
        let sides = Box::new([fit(value, how, &mix), fit(pattern, how, &mix)]);
        self.meet_constants(&sides[..])?;
        Ok(Expr::new(
            ExprKind::Like { negated, collation, escape, start, sides },
            ExprType::boolean().nullable(nullable),
        ))
    }
}

/// True if the value is the same for all evaluations of the statement.
fn is_known_at_start(e: &Expr) -> bool {
    let differs = |e: &Expr| {
        e.is_changing_node()
            || matches!(&e.kind, ExprKind::Outer(_))
            || matches!(&e.kind, ExprKind::Subquery(q) if q.dependent)
    };
    !e.differs_by_row() && !e.any(&differs)
}

/// Binds a bit operator whose operands are binary strings. `hex`: the right side is a hexadecimal
/// or bit literal, which is a number only as the count of a shift.
fn bits_of_bytes(op: ArithOp, mut sides: [Expr; 2], hex: bool) -> Expr {
    let [bits, other] = &mut sides;
    let ty = if matches!(op, ArithOp::ShiftLeft | ArithOp::ShiftRight) {
        if hex {
            other.change(as_number);
        }
        type_rules::bytes(&[&bits.ty]).nullable(bits.ty.nullable || other.ty.nullable)
    } else {
        type_rules::bytes(&[&bits.ty, &other.ty])
    };
    Expr::new(ExprKind::Arith { op, sides: Box::new(sides) }, ty)
}

/// Joins conditions by AND and flattens inner ANDs.
pub(super) fn and(parts: Vec<Expr>) -> Expr {
    join(
        parts,
        |e| match e.kind {
            ExprKind::And(inner) => Ok(inner),
            _ => Err(e),
        },
        ExprKind::And,
    )
}
pub(super) fn or(parts: Vec<Expr>) -> Expr {
    join(
        parts,
        |e| match e.kind {
            ExprKind::Or(inner) => Ok(inner),
            _ => Err(e),
        },
        ExprKind::Or,
    )
}
fn join(
    parts: Vec<Expr>,
    open: impl Fn(Expr) -> std::result::Result<Vec<Expr>, Expr>,
    make: impl Fn(Vec<Expr>) -> ExprKind,
) -> Expr {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match open(part) {
            Ok(inner) => flat.extend(inner),
            Err(one) => flat.push(one),
        }
    }
    if flat.len() == 1 {
        return flat.remove(0);
    }
    let nullable = flat.iter().any(|p| p.ty.nullable);
    Expr::new(make(flat), ExprType::boolean().nullable(nullable))
}
pub(super) fn not(value: Expr) -> Expr {
    let ty = ExprType::boolean().nullable(value.ty.nullable);
    Expr::new(ExprKind::Unary(crate::plan::UnaryOp::Not, Box::new(value)), ty)
}

/// Prepares one side of a comparison. A constant beside a date becomes a date; a string is
/// converted, without loss, to the character set of the comparison of `mix`.
fn fit(value: Expr, how: CompareAs, mix: &Mix) -> Expr {
    match how {
        CompareAs::Date | CompareAs::DateTime | CompareAs::Time
            if !value.ty.kind.is_temporal() && value.is_constant() =>
        {
            if value.as_literal().is_some_and(|v| v.is_null()) {
                return value;
            }
            if value.ty.kind == Kind::Year {
                return value;
            }
            let ty = match how {
                CompareAs::Time => ExprType::time(6),
                _ => ExprType::datetime(6),
            };
            Expr::new(ExprKind::ConvertTo(Box::new(value)), ty.nullable(true))
        }
        CompareAs::String(collation) => in_compared_charset(value, collation, mix),
        _ => value,
    }
}

/// Prepares a constant that a YEAR column is compared with: one or two digits get a century, by the
/// rules for storing into the column.
pub(super) fn year_for(column: &Expr, value: Expr) -> Expr {
    let is_year = column.ty.kind == Kind::Year && column.is_column_of_any_query();
    if !is_year || value.ty.kind == Kind::Year || !value.is_constant() {
        return value;
    }
    let value = if matches!(value.kind, ExprKind::Hex(_)) { as_number(value) } else { value };
    let ty =
        ExprType { kind: Kind::Year, ..ExprType::unsigned_bigint(4) }.nullable(value.ty.nullable);
    Expr::new(ExprKind::ConvertTo(Box::new(value)), ty)
}

/// True if a YEAR column compares with the items of this list as years: the items must be constants
/// of one kind. A list of several kinds is compared with the number of the year.
fn are_years(list: &[Expr]) -> bool {
    let kind = |e: &Expr| match e.ty.kind {
        Kind::Float | Kind::Double => 1,
        kind if kind.is_temporal() && kind != Kind::Year => 2,
        _ => 0,
    };
    let mut kinds = list.iter().filter(|e| e.ty.kind != Kind::Null).map(kind);
    let first = kinds.next();
    list.iter().all(Expr::is_constant) && kinds.all(|k| Some(k) == first)
}

/// Replaces a constant date by its year if the other side is a YEAR column.
fn year_of(column: &Expr, value: Expr) -> Expr {
    let is_dated = value.ty.kind.is_temporal() && value.ty.kind != Kind::Time;
    if is_dated { year_for(column, value) } else { value }
}

/// Turns a YEAR beside a date into the number of day 0 of month 0 of that year (2024 becomes
/// 20240000).
fn dated_year(value: Expr, other: &ExprType) -> Expr {
    let unit = match other.kind {
        Kind::Date => 10_000,
        Kind::DateTime | Kind::Timestamp => 10_000_000_000,
        _ => return value,
    };
    if value.ty.kind != Kind::Year {
        return value;
    }
    let ty = ExprType::bigint(20).nullable(value.ty.nullable);
    let unit = Expr::literal(Value::Int(unit), ExprType::bigint(20));
    Expr::new(ExprKind::Arith { op: ArithOp::Multiply, sides: Box::new([value, unit]) }, ty)
}

/// Sorts a list of literals for binary search. Returns false, without sorting, for other lists.
fn sort_literals(list: &mut [Expr], how: CompareAs) -> bool {
    let collation = match how {
        CompareAs::Int | CompareAs::Decimal => redolith_types::Collation::Binary,
        CompareAs::String(c) => c,
        _ => return false,
    };
    if list.len() < 4 || !list.iter().all(|e| e.as_literal().is_some_and(|v| !v.is_null())) {
        return false;
    }
    list.sort_by(|a, b| match (a.as_literal(), b.as_literal()) {
        (Some(a), Some(b)) => a.compare(b, collation),
        _ => std::cmp::Ordering::Equal,
    });
    true
}
