//! Binds expressions: each syntax node becomes a bound node.
use super::collation_mix::{Mix, collation_of};
use super::compare::{and, or};
use super::scope::{Aliases, Clause, ColumnNames, Scope, written};
use super::window::has_window;
use super::{Binder, type_rules};
use crate::error::{Result, SqlError};
use crate::memory::bytes_of;
use crate::parse::ast::{self, ColumnName};
use crate::parse::lexer::TokenKind;
use crate::parse::parameterize::is_wide_integer;
use crate::plan::expr_set::SameIndex;
use crate::plan::expr_type::UNKNOWN_DECIMALS;
use crate::plan::{Coercibility, CompareAs, Expr, ExprKind, ExprType, Kind, UnaryOp};
use crate::sql_mode::SqlMode;
use redolith_types::{Charset, Collation, Decimal, Value};

/// The greatest number of nodes that aliases may be replaced by, per byte of the statement. Real
/// statements need about a hundredth.
const COPIES_PER_BYTE: usize = 64;

/// The columns that HAVING can name.
#[derive(Clone, Copy)]
pub struct Named<'s> {
    /// The columns that are selected or grouped by.
    pub columns: &'s [Expr],
    pub index: &'s SameIndex,
    /// The columns of GROUP BY.
    pub grouped: &'s ColumnNames,
    /// The items of the select list that are columns.
    pub selected: &'s ColumnNames,
}

/// The names that are visible to an expression.
#[derive(Clone, Copy)]
pub struct Env<'s> {
    pub scope: &'s Scope,
    pub clause: Clause,
    /// The names of the select items, for GROUP BY, HAVING and ORDER BY.
    pub aliases: Option<&'s Aliases>,
    /// For HAVING: what it can name beside the aliases.
    pub named: Option<Named<'s>>,
    /// For the select list: the items so far, which only a subquery in it can name, and all items
    /// of the list.
    pub items: Option<(&'s Aliases, &'s [ast::SelectItem])>,
    /// Where window functions may stand: the named windows.
    pub windows: Option<&'s [(String, ast::WindowSpec)]>,
    /// What the subquery around this place can name outside (see [`super::outer`]).
    pub outer: Option<&'s Env<'s>>,
}
impl<'s> Env<'s> {
    pub fn new(scope: &'s Scope, clause: Clause) -> Env<'s> {
        Env { scope, clause, aliases: None, named: None, items: None, windows: None, outer: None }
    }
}

/// The length, in characters, that a field of a file is taken to have.
const MAX_LOADED_CHARS: u32 = 16 << 20;

impl Binder<'_> {
    pub(super) fn expr(&mut self, env: &Env<'_>, expr: &ast::Expr) -> Result<Expr> {
        use ast::ExprKind as A;
        self.charge(1)?;
        match &expr.kind {
            A::Literal(number) => self.literal(*number),
            A::Introduced(charset, number) => self.introduced(*charset, *number),
            A::Temporal(kind, number) => self.temporal_literal(*kind, *number),
            A::Null => Ok(Expr::literal(Value::Null, ExprType::null())),
            A::Bool(b) => Ok(Expr::literal(Value::Int(*b as i64), ExprType::boolean())),
            A::Number(n) => {
                Ok(Expr::literal(Value::Int(*n), ExprType::bigint(n.to_string().len() as u32 + 1)))
            }
            A::Text(text) => {
                let ty = ExprType::string(text.chars().count() as u32, Collation::Utf8mb4GeneralCi);
                Ok(Expr::literal(Value::from(text.as_str()), ty))
            }
            // A text statement has no values for parameters.
            A::Param(_) if self.parameterize => Err(self.syntax_at(expr.span)),
            A::Param(_) | A::UserVariable(_) | A::Assign(..) | A::SystemVariable(..)
                if self.rewrites.is_some() =>
            {
                Err(SqlError::variable_in_view())
            }
            A::Param(number) => {
                // What the statement has learned of the parameter elsewhere is for clients alone:
                // each use of a common table expression binds it anew, as if it were the first.
                let ty = match self.cx.untyped.binary_search_by_key(number, |(n, _)| *n) {
                    Ok(at) => self.cx.untyped[at].1,
                    Err(_) => ExprType::null(),
                };
                if ty.kind == Kind::Null {
                    self.untyped.insert(*number);
                }
                // A length tells a string from a literal, which is no document beside JSON.
                let length = if ty.kind.is_string() { ty.length.max(1) } else { ty.length };
                let ty = ExprType { length, ..ty };
                Ok(Expr::new(ExprKind::Param(*number), ty))
            }
            A::Name(name) => {
                self.note_name(env, name, expr.span)?;
                self.name(env, name)
            }
            A::UserVariable(name) => Ok(Expr::new(
                ExprKind::UserVariable {
                    name: name.as_str().into(),
                    assigned: self.parsed.assigned.contains(name),
                },
                self.user_variable_type(name),
            )),
            A::Assign(name, value) => {
                let value = self.expr(env, value)?;
                let ty = value.ty;
                Ok(Expr::new(
                    ExprKind::AssignUserVariable(name.as_str().into(), Box::new(value)),
                    ty,
                ))
            }
            A::SystemVariable(scope, name) => {
                let ty = (self.cx.variable_type)(name)
                    .ok_or_else(|| SqlError::unknown_variable(name))?;
                Ok(Expr::new(
                    ExprKind::SystemVariable { scope: *scope, name: name.as_str().into() },
                    ty,
                ))
            }
            A::Default(_) | A::Values(_) => self.default_or_values(env, expr),
            A::Unary(op, value) => self.unary(env, *op, value),
            A::Binary(op, left, right) => self.binary(env, *op, left, right),
            A::And(terms) => Ok(and(self.conditions(env, terms)?)),
            A::Or(terms) => Ok(or(self.conditions(env, terms)?)),
            A::Between { negated, value, low, high } => {
                self.between(env, *negated, [value, low, high])
            }
            A::In { negated, value, list } => self.in_list(env, *negated, value, list),
            A::InSelect { negated, value, select } => self.in_select(env, *negated, value, select),
            A::Quantified { op, all, value, select } => {
                self.quantified(env, *op, *all, value, select)
            }
            A::Like { negated, value, pattern, escape } => {
                self.like(env, *negated, value, pattern, escape.as_deref())
            }
            A::Regexp { negated, value, pattern } => {
                let sides = [self.string_operand(env, value)?, self.string_operand(env, pattern)?];
                let types = [&sides[0].ty, &sides[1].ty];
                let (collation, _) = collation_of(&types, "REGEXP_LIKE")?;
                let mix = Mix::new(types, "REGEXP_LIKE");
                let ty = ExprType::boolean().nullable(sides.iter().any(|s| s.ty.nullable));
                let sides = sides.map(|side| in_compared_charset(side, collation, &mix));
                Ok(Expr::new(
                    ExprKind::Regexp { negated: *negated, collation, sides: Box::new(sides) },
                    ty,
                ))
            }
            A::IsNull { negated, value } => {
                let value = Box::new(self.expr(env, value)?);
                Ok(Expr::new(ExprKind::IsNull { negated: *negated, value }, ExprType::boolean()))
            }
            A::IsTruth { negated, truth, value } => {
                let value = Box::new(self.condition(env, value)?);
                Ok(Expr::new(
                    ExprKind::IsTruth { negated: *negated, truth: *truth, value },
                    ExprType::boolean(),
                ))
            }
            A::Case { operand, branches, otherwise } => {
                self.case(env, operand.as_deref(), branches, otherwise.as_deref())
            }
            A::Cast(value, ty) => self.cast(env, value, ty),
            A::Transcode(value, charset) => {
                let charset = charset_named(charset)?;
                let value = self.expr(env, value)?;
                Ok(transcode(value, self.cx.default_collation(charset)))
            }
            A::Collate(value, name) => self.collate(env, value, name),
            A::Interval { subtract, date, amount, unit } => {
                let sides = [self.expr(env, date)?, self.expr(env, amount)?];
                let ty = interval_type(&sides[0].ty, &sides[1].ty, *unit);
                Ok(Expr::new(
                    ExprKind::Interval { subtract: *subtract, unit: *unit, sides: Box::new(sides) },
                    ty,
                ))
            }
            A::Call(call) => self.call(env, call, expr.span),
            A::Window(window) => self.window(env, window),
            A::Row(_) => Err(SqlError::operand_columns(1)),
            A::Select(select) => self.scalar_subquery(env, select),
            A::Exists(select) => self.exists(env, select),
            A::Unsupported(what) => Err(SqlError::unsupported(what)),
        }
    }

    fn conditions(&mut self, env: &Env<'_>, list: &[ast::Expr]) -> Result<Vec<Expr>> {
        list.iter().map(|e| self.condition(env, e)).collect()
    }

    /// Binds a condition. There, X'05' is the number 5.
    pub(super) fn condition(&mut self, env: &Env<'_>, expr: &ast::Expr) -> Result<Expr> {
        let bound = self.expr(env, expr)?;
        Ok(self.hex_as_number(expr, bound))
    }

    /// The bound form of `expr` in a place that wants a number.
    pub(super) fn hex_as_number(&self, expr: &ast::Expr, bound: Expr) -> Expr {
        if self.is_hex_number(expr) { as_number(bound) } else { bound }
    }

    /// Binds a literal, or makes it a parameter (BIND-1). A wide integer is pinned, because its
    /// value decides whether the type is BIGINT, BIGINT UNSIGNED or DECIMAL.
    fn literal(&mut self, number: u32) -> Result<Expr> {
        if is_wide_integer(self.parsed.literals[number as usize]) {
            return self.pinned(|b| b.parameterized(number));
        }
        self.parameterized(number)
    }

    /// Binds an expression that is only stored or compared. There, only a literal's value counts,
    /// so wide integers become parameters, too: many applications use them as keys.
    pub(super) fn by_value(&mut self, env: &Env<'_>, expr: &ast::Expr) -> Result<Expr> {
        match expr.kind {
            ast::ExprKind::Literal(number) => self.parameterized(number),
            ast::ExprKind::Unary(ast::UnaryOp::Minus, ref v)
                if matches!(v.kind, ast::ExprKind::Literal(_)) && !self.is_hex(v) =>
            {
                Ok(negate(self.by_value(env, v)?))
            }
            _ => self.expr(env, expr),
        }
    }

    fn parameterized(&mut self, number: u32) -> Result<Expr> {
        let kind = self.parsed.literal_kind(number);
        if self.parameterize && !self.pinning {
            let ty = match kind {
                TokenKind::Integer if is_wide_integer(self.parsed.literals[number as usize]) => {
                    ExprType::decimal(65, 0)
                }
                TokenKind::Integer => ExprType::bigint(20),
                TokenKind::Decimal => ExprType::decimal(65, UNKNOWN_DECIMALS),
                TokenKind::Float => ExprType::double(),
                kind if kind.is_string() => ExprType::string(0, self.literal_collation(number)),
                _ => ExprType::string(0, Collation::Binary),
            };
            self.parameterized[number as usize] = true;
            return Ok(hex_or_not(Expr::new(ExprKind::Param(number), ty), kind));
        }
        let value = self.literal_value(number)?;
        let ty = Self::value_type(&value, kind, self.literal_collation(number));
        Ok(hex_or_not(Expr::literal(value, ty), kind))
    }

    fn value_type(value: &Value<'_>, kind: TokenKind, collation: Collation) -> ExprType {
        let width = |value: &Value<'_>| value.to_bytes().len() as u32;
        match value {
            // MySQL counts one character for the sign.
            Value::Int(_) => ExprType::bigint(width(value) + 1),
            Value::UInt(_) => ExprType::unsigned_bigint(width(value)),
            Value::Decimal(d) => {
                ExprType::decimal((d.int_digits().max(1) + d.scale()) as u32, d.scale())
            }
            Value::Bytes(b) if kind.is_string() => {
                ExprType::string(collation.charset().char_count(b) as u32, collation)
            }
            Value::Bytes(b) => ExprType::string(b.len() as u32, Collation::Binary),
            _ => ExprType::double(),
        }
    }

    /// Binds `_latin1'..'`: a literal with the name of its character set. A hexadecimal literal is
    /// checked, as in MySQL, because its bytes may be invalid UTF-8 or ASCII.
    fn introduced(&mut self, charset: Charset, number: u32) -> Result<Expr> {
        let collation = self.cx.default_collation(charset);
        let any_bytes = matches!(charset, Charset::Binary | Charset::Latin1)
            || self.parsed.literal_kind(number).is_string();
        let mut literal =
            if any_bytes { self.literal(number)? } else { self.pinned(|b| b.literal(number))? };
        // With the name of a character set, a hexadecimal literal is never a number.
        if let ExprKind::Hex(bytes) = literal.kind {
            literal = *bytes;
        }
        if !any_bytes
            && let Some(Value::Bytes(b)) = literal.as_literal()
            && let Err(at) = charset.validate(b)
        {
            return Err(SqlError::invalid_bytes(charset.name(), &b[at.0..]));
        }
        if literal.ty.length > 0
            && let Some(Value::Bytes(b)) = literal.as_literal()
        {
            literal.ty.length = collation.charset().char_count(b) as u32;
        }
        literal.ty.collation = collation;
        Ok(literal)
    }

    fn temporal_literal(&mut self, kind: ast::TemporalLiteral, number: u32) -> Result<Expr> {
        use redolith_types::convert;
        let value = self.literal_value(number)?;
        let charset = self.literal_collation(number).charset();
        let wrong = |what: &str| {
            let shown = value.shown(charset);
            SqlError::new(1525, format!("Incorrect {what} value: '{shown}'"))
        };
        let today = redolith_types::Date::ZERO;
        // The mode of the text: a view and a CHECK keep the literals that they were made with.
        let mode = self.parsed.mode;
        let is_refused = |date: redolith_types::Date| match date.is_zero() {
            true => mode.has(SqlMode::NO_ZERO_DATE),
            false => (date.month() == 0 || date.day() == 0) && mode.has(SqlMode::NO_ZERO_IN_DATE),
        };
        Ok(match kind {
            ast::TemporalLiteral::Date => {
                let date = convert::to_date(&value, today)
                    .filter(|d| !d.truncated && !is_refused(d.value))
                    .ok_or_else(|| wrong("DATE"))?;
                Expr::literal(Value::Date(date.value), ExprType::date())
            }
            ast::TemporalLiteral::Time => {
                let time = convert::to_time(&value)
                    .filter(|t| !t.truncated)
                    .ok_or_else(|| wrong("TIME"))?;
                Expr::literal(Value::Time(time.value), ExprType::time(time.fsp))
            }
            ast::TemporalLiteral::Timestamp => {
                let at = convert::to_datetime(&value, today, 0)
                    .filter(|at| !at.truncated && !is_refused(at.value.date()))
                    .ok_or_else(|| wrong("DATETIME"))?;
                let ty = ExprType::datetime(at.fsp);
                // A literal with an offset depends on the session's time zone, which the plan does
                // not know. The value is made when the plan is run.
                let has_offset = convert::to_datetime(&value, today, 1)
                    .is_none_or(|other| other.value != at.value);
                if has_offset {
                    let text = Expr::literal(value, ExprType::string(0, self.cx.collation));
                    return Ok(Expr::new(ExprKind::Cast(Box::new(text)), ty.nullable(true)));
                }
                Expr::literal(Value::DateTime(at.value), ty)
            }
        })
    }

    /// The type of the user variable's present value. A variable without a value is NULL.
    fn user_variable_type(&mut self, name: &str) -> ExprType {
        self.reads_user_variables = true;
        let ty = if self.loaded_variables.iter().any(|loaded| loaded == name) {
            ExprType::string(MAX_LOADED_CHARS, self.loaded_collation)
        } else {
            (self.cx.user_variable_type)(name).unwrap_or(ExprType::null())
        };
        ExprType { coercibility: Coercibility::Implicit, nullable: true, ..ty }
    }

    /// Copies the expression that an alias names. The number of copied nodes is limited, because
    /// copies of copies would make a large tree from a short text.
    fn copy(&mut self, env: &Env<'_>, expr: &Expr) -> Result<Expr> {
        let in_aggregate = self.aggregates.is_none() && env.clause != Clause::Group;
        if in_aggregate && expr.any(&|e| matches!(e.kind, ExprKind::Aggregate(_))) {
            return Err(SqlError::invalid_group_function());
        }
        self.copy_alias(expr)
    }
    pub(super) fn copy_alias(&mut self, expr: &Expr) -> Result<Expr> {
        self.check_height(expr)?;
        let (mut nodes, mut strings) = (0, 0);
        expr.walk(&mut |node| {
            nodes += 1;
            if let ExprKind::Literal(value) = &node.kind {
                strings += bytes_of(value);
            }
        });
        self.copied += nodes;
        self.charge(nodes + strings / size_of::<Expr>())?;
        if self.copied > COPIES_PER_BYTE * self.parsed.text.len() {
            Err(SqlError::nested_too_deeply())
        } else {
            Ok(expr.clone())
        }
    }

    fn name(&mut self, env: &Env<'_>, name: &ColumnName) -> Result<Expr> {
        let alias = || {
            let aliases = env.aliases.filter(|_| name.table.is_none())?;
            aliases.find(&name.column).map(|n| &aliases.list[n].1)
        };
        let is_one = || env.aliases.is_some_and(|aliases| !aliases.has_several(&name.column));
        // Except inside an aggregate, HAVING looks at the columns of GROUP BY first, as the
        // standard has it, and then at the select list. Other clauses look at the columns first.
        if env.clause == Clause::Having && self.aggregates.is_some() {
            if name.table.is_none()
                && let Some(named) = env.named
            {
                if let Some(column) = named.grouped.find(&name.column, env.clause)? {
                    return self.copy(env, column);
                }
                named.selected.find(&name.column, env.clause)?;
            }
            if let Some(expr) = alias() {
                if has_window(expr) {
                    return Err(SqlError::misplaced_window_alias(&name.column));
                }
                return self.copy(env, expr);
            }
            // HAVING knows only the columns that are selected or grouped by.
            if let Some(at) = env.scope.find(name, env.clause)? {
                let column = self.column_value(env.scope, at)?;
                let is_known = |n: Named<'_>| n.index.find_expr(&column, n.columns).is_some();
                let known = env.named.is_some_and(is_known);
                if known {
                    return Ok(column);
                }
                let outer = self.outer_name(env, name)?;
                return outer
                    .ok_or_else(|| SqlError::unknown_column(written(name), env.clause.name()));
            }
        }
        let found = match env.scope.find(name, env.clause) {
            // GROUP BY takes the item of the select list if several tables have the column.
            Err(_) if env.clause == Clause::Group && alias().is_some_and(|_| is_one()) => None,
            found => found?,
        };
        match found {
            Some(at) => self.column_value(env.scope, at),
            None => match alias() {
                Some(expr) if env.windows.is_none() && has_window(expr) => {
                    Err(SqlError::misplaced_window_alias(&name.column))
                }
                Some(expr) => self.copy(env, expr),
                None => match self.outer_name(env, name)? {
                    Some(outer) => Ok(outer),
                    None => Err(super::outer::unknown(env, name)),
                },
            },
        }
    }

    /// Binds DEFAULT(column) and VALUES(column).
    fn default_or_values(&mut self, env: &Env<'_>, expr: &ast::Expr) -> Result<Expr> {
        let unqualified =
            |column: &str| ColumnName { schema: None, table: None, column: column.to_string() };
        match &expr.kind {
            ast::ExprKind::Default(Some(column)) => {
                let name = unqualified(column);
                let mut scope = env.scope;
                let mut found = scope.find(&name, env.clause)?;
                let mut outer = env.outer;
                while let (None, Some(around)) = (found, outer) {
                    (scope, outer) = (around.scope, around.outer);
                    found = scope.find(&name, env.clause)?;
                }
                let Some((source, index)) = found else {
                    return Err(SqlError::unknown_column(column, env.clause.name()));
                };
                let base = scope.base_column((source, index));
                let table = base.and_then(|(s, c)| Some((scope.sources[s].table.clone()?, c)));
                let Some((table, index)) = table else {
                    return Err(SqlError::no_default(column));
                };
                self.column_default(&table, index)
            }
            ast::ExprKind::Values(_) if env.outer.is_some() => {
                Err(SqlError::unsupported("VALUES() in a subquery"))
            }
            ast::ExprKind::Values(column) => {
                let bound = match env.scope.inserted {
                    Some(place) => env.scope.column_at(place, column, env.clause)?,
                    None => env.scope.resolve(&unqualified(column), env.clause)?,
                };
                Ok(match bound.kind {
                    ExprKind::Column { column, .. } => {
                        Expr::new(ExprKind::InsertedValue(column), bound.ty.nullable(true))
                    }
                    _ => bound,
                })
            }
            _ => Err(SqlError::wrong_usage("DEFAULT", "an expression")),
        }
    }

    fn unary(&mut self, env: &Env<'_>, op: ast::UnaryOp, value: &ast::Expr) -> Result<Expr> {
        let hex = self.is_hex_number(value);
        let mut operand = self.expr(env, value)?;
        if hex && op != ast::UnaryOp::Binary {
            operand = as_number(operand);
        }
        if op == ast::UnaryOp::Minus {
            operand = self::operand(operand);
        }
        let nullable = operand.ty.nullable;
        Ok(match op {
            ast::UnaryOp::Plus => operand,
            ast::UnaryOp::Not => Expr::new(
                ExprKind::Unary(UnaryOp::Not, Box::new(operand)),
                ExprType::boolean().nullable(nullable),
            ),
            ast::UnaryOp::BitNot => {
                let ty = type_rules::bit_not(&operand.ty);
                Expr::new(ExprKind::Unary(UnaryOp::BitNot, Box::new(operand)), ty)
            }
            ast::UnaryOp::Minus => negate(operand),
            ast::UnaryOp::Binary => transcode(operand, Collation::Binary),
        })
    }

    /// Binds one of several alternatives. A decimal literal is pinned, because its digits decide
    /// the common type.
    pub(super) fn chosen(&mut self, env: &Env<'_>, e: &ast::Expr) -> Result<Expr> {
        if self.is_decimal_literal(e) { self.pinned(|b| b.expr(env, e)) } else { self.expr(env, e) }
    }
    fn is_decimal_literal(&self, e: &ast::Expr) -> bool {
        match &e.kind {
            ast::ExprKind::Literal(number) => {
                self.parsed.literal_kind(*number) == TokenKind::Decimal
            }
            ast::ExprKind::Unary(ast::UnaryOp::Minus, of) => self.is_decimal_literal(of),
            _ => false,
        }
    }

    fn case(
        &mut self,
        env: &Env<'_>,
        operand: Option<&ast::Expr>,
        branches: &[(ast::Expr, ast::Expr)],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Expr> {
        let operand = operand.map(|o| self.expr(env, o)).transpose()?;
        let mut bound = Vec::with_capacity(branches.len());
        for (when, then) in branches {
            let when =
                if operand.is_some() { self.expr(env, when)? } else { self.condition(env, when)? };
            bound.push((when, self.chosen(env, then)?));
        }
        let otherwise = otherwise.map(|o| self.chosen(env, o)).transpose()?;
        let (mut how, mut operand) = (CompareAs::ByValue, operand);
        if let Some(of) = &mut operand {
            let whens = || bound.iter().map(|(when, _)| &when.ty);
            how = type_rules::common_of(&of.ty, whens(), "CASE")?;
            if let CompareAs::String(collation) = how {
                let mix = Mix::new([&of.ty].into_iter().chain(whens()), "CASE");
                let met = |e| in_compared_charset(e, collation, &mix);
                of.change(met);
                bound.iter_mut().for_each(|(when, _)| when.change(met));
            }
        }
        let mut results: Vec<ExprType> = bound.iter().map(|(_, then)| then.ty).collect();
        results.extend(otherwise.as_ref().map(|o| o.ty));
        let ty = type_rules::unify(&results, "CASE")?
            .nullable(otherwise.is_none() || results.iter().any(|t| t.nullable));
        let mix = Mix::new(&results, "CASE");
        let branches =
            bound.into_iter().map(|(when, then)| (when, in_charset(then, &ty, &mix))).collect();
        let otherwise = otherwise.map(|o| Box::new(in_charset(o, &ty, &mix)));
        Ok(Expr::new(
            ExprKind::Case { operand: operand.map(Box::new), how, branches, otherwise },
            ty,
        ))
    }

    fn cast(&mut self, env: &Env<'_>, value: &ast::Expr, to: &ast::CastType) -> Result<Expr> {
        use ast::CastType as C;
        let hex = self.is_hex(value);
        let mut value = self.expr(env, value)?;
        let ty = match to {
            C::Signed => ExprType::bigint(value.ty.length.clamp(1, 21)),
            C::Unsigned => ExprType::unsigned_bigint(value.ty.length.clamp(1, 21)),
            C::Char { length, charset, bin } => {
                let collation = match charset {
                    Some(name) => self.cx.default_collation(charset_named(name)?),
                    None => self.cx.collation,
                };
                let collation = if *bin { collation.bin() } else { collation };
                ExprType {
                    coercibility: Coercibility::Implicit,
                    ..ExprType::string(length.unwrap_or(u32::MAX), collation)
                }
            }
            C::Binary(length) => ExprType {
                coercibility: Coercibility::Implicit,
                ..ExprType::string(length.unwrap_or(u32::MAX), Collation::Binary)
            },
            C::Decimal(precision, scale) => {
                check_decimal(*precision, *scale, "CAST")?;
                ExprType::decimal(*precision, *scale)
            }
            C::Double => ExprType::double(),
            C::Float => ExprType { kind: Kind::Float, length: 12, ..ExprType::double() },
            C::Date => ExprType::date(),
            C::Time(fsp) => ExprType::time(check_fsp(*fsp, "CAST")?),
            C::DateTime(fsp) => ExprType::datetime(check_fsp(*fsp, "CAST")?),
            C::Year => ExprType { kind: Kind::Year, ..ExprType::unsigned_bigint(4) },
            C::Json => ExprType::json(),
        };
        if hex && ty.kind.is_numeric() {
            value = as_number(value);
        }
        // A conversion of a string to a date or of bytes to text gives NULL if it fails.
        let nullable =
            value.ty.nullable || ty.kind.is_temporal() || may_be_no_text(&value, ty.collation);
        Ok(Expr::new(ExprKind::Cast(Box::new(value)), ty.nullable(nullable)))
    }

    fn collate(&mut self, env: &Env<'_>, value: &ast::Expr, name: &str) -> Result<Expr> {
        let collation =
            Collation::from_name(name).ok_or_else(|| SqlError::unknown_collation(name))?;
        let value = self.string_operand(env, value)?;
        let have = value.ty.collation.charset();
        if value.ty.kind.is_string()
            && have != collation.charset()
            && collation != Collation::Binary
        {
            return Err(SqlError::collation_charset_mismatch(name, have.name()));
        }
        let ty = ExprType { collation, coercibility: Coercibility::Explicit, ..value.ty };
        // COLLATE changes only comparisons, not the value. A bare column must not stay a bare
        // column, because its indexes have the order of the old collation.
        if matches!(value.kind, ExprKind::Column { .. } | ExprKind::Member { .. })
            && value.ty.collation != collation
        {
            return Ok(Expr::new(ExprKind::Collate(Box::new(value)), ty));
        }
        Ok(Expr { ty, ..value })
    }

    /// Binds an operand as a string. A value that is not a string becomes a string in the
    /// connection's character set.
    pub(super) fn string_operand(&mut self, env: &Env<'_>, value: &ast::Expr) -> Result<Expr> {
        let value = self.expr(env, value)?;
        Ok(self.to_string(value))
    }
    pub(super) fn to_string(&self, value: Expr) -> Expr {
        if value.ty.kind == Kind::Json {
            // As JSON, the value would be compared as a document whatever its collation is.
            let ty = ExprType { kind: Kind::VarChar, ..value.ty };
            return Expr::new(ExprKind::ConvertTo(Box::new(value)), ty);
        }
        if value.ty.kind.is_string() || value.ty.kind == Kind::Null {
            return value;
        }
        let mut ty = ExprType {
            nullable: value.ty.nullable,
            coercibility: Coercibility::Numeric,
            ..ExprType::string(value.ty.length, self.cx.collation)
        };
        if value.ty.kind == Kind::Bit {
            // The text of a BIT column consists of its bytes.
            (ty.collation, ty.coercibility) = (Collation::Binary, Coercibility::Implicit);
        }
        // The display width of a number is not a limit, so the text must not be cut.
        Expr::new(ExprKind::ConvertTo(Box::new(value)), ty)
    }
}

/// Binds -x. A literal is negated here, so that -1 is a literal.
fn negate(operand: Expr) -> Expr {
    let ty = match type_rules::domain(&operand.ty) {
        type_rules::Domain::Double => {
            ExprType { decimals: operand.ty.real_decimals(), ..ExprType::double() }
        }
        type_rules::Domain::Decimal => {
            let (int, scale) = operand.ty.digits();
            ExprType::decimal(int + u32::from(scale), scale)
        }
        // BIGINT holds only half of the negated BIGINT UNSIGNED numbers. As in MySQL, the negation
        // of a constant is a DECIMAL; the negation of a column fails if BIGINT cannot hold it.
        _ if operand.ty.unsigned && operand.as_literal().is_none() && operand.is_constant() => {
            ExprType::decimal(20, 0)
        }
        _ => ExprType::bigint(operand.ty.length + 1),
    };
    let ty = ty.nullable(operand.ty.nullable);
    let value = match operand.as_literal() {
        Some(Value::Int(i64::MIN)) => return beyond(Decimal::from(1u64 << 63)),
        Some(Value::Int(v)) => v.checked_neg().map(Value::Int),
        Some(Value::UInt(v)) if *v == 1 << 63 => Some(Value::Int(i64::MIN)),
        Some(Value::UInt(v)) if *v > 1 << 63 => return beyond(-Decimal::from(*v)),
        Some(Value::Double(v)) => Some(Value::Double(-v)),
        Some(Value::Decimal(v)) => Some(Value::Decimal(-*v)),
        _ => None,
    };
    match value {
        Some(value) => Expr::literal(value, ty),
        None => Expr::new(ExprKind::Unary(UnaryOp::Minus, Box::new(operand)), ty),
    }
}

/// Marks a hexadecimal or bit literal, whose bytes may be a number.
fn hex_or_not(literal: Expr, kind: TokenKind) -> Expr {
    if !matches!(kind, TokenKind::Hex | TokenKind::Bits) {
        return literal;
    }
    let ty = literal.ty;
    Expr::new(ExprKind::Hex(Box::new(literal)), ty)
}

/// An integer literal that only DECIMAL can hold.
fn beyond(number: Decimal) -> Expr {
    Expr::literal(Value::Decimal(number), ExprType::decimal(number.int_digits().into(), 0))
}

/// The number of 0x10 or b'101': its bytes are read in big-endian order.
pub(super) fn as_number(value: Expr) -> Expr {
    let ty = ExprType { kind: Kind::Bit, ..ExprType::unsigned_bigint(20) };
    Expr::new(ExprKind::Cast(Box::new(value)), ty)
}

pub(super) fn charset_named(name: &str) -> Result<Charset> {
    Charset::from_name(name).ok_or_else(|| SqlError::unknown_character_set(name))
}

/// An operand of arithmetic: a NULL is a DOUBLE there, as in MySQL, which the type of the result
/// shows. What a parameter is shows with its value.
pub(super) fn operand(value: Expr) -> Expr {
    let is_open = |e: &Expr| matches!(e.kind, ExprKind::Param(_) | ExprKind::UserVariable { .. });
    if value.ty.kind != Kind::Null || value.any(&is_open) {
        return value;
    }
    let ty = ExprType { decimals: 0, ..ExprType::double() }.nullable(true);
    Expr { ty, ..value }
}

/// Converts a string to the character set of `collation`.
pub(super) fn transcode(value: Expr, collation: Collation) -> Expr {
    if collation == Collation::Binary {
        return as_bytes(value);
    }
    let nullable = value.ty.nullable || may_be_no_text(&value, collation);
    let ty = transcoded_type(&value, collation).nullable(nullable);
    Expr::new(ExprKind::Transcode(Box::new(value)), ty)
}
/// The bytes of a string, all of them and no more. A cast to BINARY(n) would cut them, or pad them.
fn as_bytes(value: Expr) -> Expr {
    let mut ty = transcoded_type(&value, Collation::Binary);
    if ty.length != u32::MAX && value.ty.kind.is_string() {
        ty.length = ty.length.saturating_mul(value.ty.collation.charset().max_len());
    }
    Expr::new(ExprKind::ConvertTo(Box::new(value)), ty)
}
/// True if the value has bytes without a character set, which may be invalid in that of
/// `collation`.
fn may_be_no_text(value: &Expr, collation: Collation) -> bool {
    let bytes = value.ty.kind.is_string() && value.ty.collation == Collation::Binary;
    (bytes || value.ty.kind == Kind::Bit) && collation != Collation::Binary
}
fn transcoded_type(value: &Expr, collation: Collation) -> ExprType {
    // The length of a parameter or a hexadecimal literal is not known here, and that of JSON and
    // its text is no limit.
    let is_open = matches!(value.kind, ExprKind::Param(_) | ExprKind::Hex(_))
        || value.ty.length >= ExprType::json().length;
    let length = if is_open { u32::MAX } else { value.ty.most_chars() };
    ExprType {
        kind: Kind::VarChar,
        unsigned: false,
        length,
        collation,
        coercibility: Coercibility::Implicit,
        ..value.ty
    }
}

/// Converts a string to the character set of `ty` if that is another character set. `mix` has the
/// operands that meet there.
pub(super) fn in_charset(value: Expr, ty: &ExprType, mix: &Mix) -> Expr {
    if !differs(&value.ty, ty) {
        return value;
    }
    let (from, to) = (value.ty.collation.charset(), ty.collation.charset());
    let has_all = from == Charset::Ascii
        || to == Charset::Utf8mb4
        || (from == Charset::Latin1 && to == Charset::Utf8mb3);
    let ty = transcoded_type(&value, ty.collation);
    // A character that the new set lacks is an error, as in MySQL; it does not become '?'.
    Expr::new(
        if has_all {
            ExprKind::Transcode(Box::new(value))
        } else {
            ExprKind::InCharset(Box::new((value, mix.error())))
        },
        ty,
    )
}
/// True if both are strings whose character sets differ, so that one must be converted.
fn differs(a: &ExprType, b: &ExprType) -> bool {
    let (x, y) = (a.collation, b.collation);
    a.kind.is_string()
        && b.kind.is_string()
        && x.charset() != y.charset()
        && x != Collation::Binary
        && y != Collation::Binary
}
/// Converts a string to the character set of a comparison. A character that this set lacks must not
/// become '?', which could then equal a '?'.
pub(super) fn in_compared_charset(value: Expr, collation: Collation, mix: &Mix) -> Expr {
    let ty = ExprType::string(u32::MAX, collation);
    // Only the value of an open parameter shows whether it is a string.
    let is_open = value.ty.kind == Kind::Null && matches!(value.kind, ExprKind::Param(_));
    let may_lack = !matches!(collation.charset(), Charset::Utf8mb4 | Charset::Binary);
    if differs(&value.ty, &ty) || (is_open && may_lack) {
        let ty =
            ExprType { coercibility: Coercibility::Implicit, nullable: value.ty.nullable, ..ty };
        return Expr::new(ExprKind::InCharset(Box::new((value, mix.error()))), ty);
    }
    value
}

pub(super) fn check_fsp(fsp: u8, function: &str) -> Result<u8> {
    if fsp > 6 { Err(SqlError::too_big_precision(fsp, function, 6)) } else { Ok(fsp) }
}
pub(super) fn check_decimal(precision: u32, scale: u8, column: &str) -> Result<()> {
    if scale > 30 {
        return Err(SqlError::too_big_scale(scale, column, 30));
    }
    if precision > 65 {
        return Err(SqlError::too_big_precision(precision, column, 65));
    }
    if precision < scale as u32 {
        return Err(SqlError::scale_over_precision(column));
    }
    Ok(())
}

/// The type of `date + INTERVAL`. A DATE stays a DATE if the unit is a day or longer. A TIME stays
/// a TIME if the unit has no days; otherwise the sum is a moment counted from today (MySQL 8.0.28).
/// A string stays a string, whose value shows whether it has a time.
fn interval_type(date: &ExprType, amount: &ExprType, unit: crate::plan::IntervalUnit) -> ExprType {
    use crate::plan::IntervalUnit::*;
    let days = matches!(unit, Day | Week | Month | Quarter | Year | YearMonth);
    let has_days = days || matches!(unit, DayHour | DayMinute | DaySecond | DayMicrosecond);
    let amount_decimals = match unit {
        Microsecond | SecondMicrosecond | MinuteMicrosecond | HourMicrosecond | DayMicrosecond => 6,
        Second if amount.kind != Kind::Null => amount.real_decimals().min(6),
        _ => 0,
    };
    let decimals = date.decimals.max(amount_decimals);
    let ty = match date.kind {
        Kind::Date if days => ExprType::date(),
        Kind::Date => ExprType::datetime(amount_decimals),
        Kind::DateTime | Kind::Timestamp => ExprType::datetime(decimals),
        Kind::Time if has_days => ExprType::datetime(decimals),
        Kind::Time => ExprType::time(decimals),
        _ => ExprType::string(
            29,
            if date.kind.is_string() { date.collation } else { Collation::Utf8mb4GeneralCi },
        ),
    };
    ty.nullable(true)
}

/// The error for an unknown function. As in MySQL, the message names a stored function of the
/// default database.
pub(super) fn no_such_function(schema: Option<&str>, name: &str) -> SqlError {
    SqlError::does_not_exist(
        "FUNCTION",
        match schema {
            Some(schema) => format!("{schema}.{name}"),
            None => name.to_string(),
        },
    )
}
