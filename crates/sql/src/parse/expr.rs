//! The grammar of expressions, with the levels of MySQL's grammar (`sql_yacc.yy`: expr, bool_pri,
//! predicate, bit_expr, simple_expr).
//!
//! The operators from the loosest to the tightest: `:=`; OR `||`; XOR; AND `&&`; NOT; IS TRUE;
//! comparisons, IS NULL; IN, BETWEEN, LIKE, REGEXP; `|`; `&`; `<< >>`; `+ -`; `* / DIV % MOD`; `^`;
//! `||` with PIPES_AS_CONCAT; unary `- + ~ !`; BINARY, COLLATE.
use super::ast::*;
use super::call::plain_call;
use super::lexer::TokenKind;
use super::limits::MAX_NAME_CHARS;
use super::parser::{Parser, Place};
use crate::error::{Result, SqlError};
use crate::plan::{ArithOp, CompareOp, Function, IntervalUnit, VariableScope};
use crate::sql_mode::SqlMode;

impl Parser<'_> {
    pub fn expr(&mut self) -> Result<Expr> {
        self.deeper(Self::or_expr)
    }

    pub(super) fn node(&mut self, position: Place, kind: ExprKind) -> Result<Expr> {
        // The binder makes one node of the plan from each node of the tree, so both are charged.
        self.charge(size_of::<Expr>() + size_of::<crate::plan::Expr>());
        let expr = Expr::new(kind, self.span_from(position));
        self.check_height(expr.height)?;
        Ok(expr)
    }

    fn binary(&mut self, position: Place, op: BinaryOp, left: Expr, right: Expr) -> Result<Expr> {
        self.node(position, ExprKind::Binary(op, Box::new(left), Box::new(right)))
    }

    /// `operand (op operand)*` for an operator whose operands become one list (AND, OR).
    fn terms(
        &mut self,
        operand: fn(&mut Self) -> Result<Expr>,
        accept: fn(&mut Self) -> bool,
        make: fn(Vec<Expr>) -> ExprKind,
    ) -> Result<Expr> {
        let position = self.position();
        let first = operand(self)?;
        if !accept(self) {
            return Ok(first);
        }
        let mut terms = vec![first, operand(self)?];
        while accept(self) {
            terms.push(operand(self)?);
            self.check_terms(terms.len())?;
        }
        self.node(position, make(terms))
    }

    fn or_expr(&mut self) -> Result<Expr> {
        self.terms(Self::xor_expr, Self::accept_or, ExprKind::Or)
    }
    fn accept_or(&mut self) -> bool {
        if self.mode.has(SqlMode::PIPES_AS_CONCAT) || !self.at_symbol("||") {
            return self.accept("OR");
        }
        let pipes = self.advance();
        self.kept_as(pipes, "or");
        true
    }
    fn xor_expr(&mut self) -> Result<Expr> {
        let position = self.position();
        let mut left = self.and_expr()?;
        while self.accept("XOR") {
            let right = self.and_expr()?;
            left = self.binary(position, BinaryOp::Xor, left, right)?;
        }
        Ok(left)
    }
    fn and_expr(&mut self) -> Result<Expr> {
        self.terms(Self::not_expr, |p| p.accept("AND") || p.accept_symbol("&&"), ExprKind::And)
    }

    fn not_expr(&mut self) -> Result<Expr> {
        let position = self.position();
        if self.mode.has(SqlMode::HIGH_NOT_PRECEDENCE) || !self.accept("NOT") {
            return self.truth_expr();
        }
        self.negation(position, Self::not_expr)
    }
    /// After the NOT at `position`. Expressions without NOT need no room for it on the stack.
    #[inline(never)]
    fn negation(
        &mut self,
        position: Place,
        operand: fn(&mut Self) -> Result<Expr>,
    ) -> Result<Expr> {
        let begin = self.position();
        let inner = self.deeper(operand)?;
        self.note_not(position, begin);
        self.node(position, ExprKind::Unary(UnaryOp::Not, Box::new(inner)))
    }

    /// bool_pri IS [NOT] TRUE | FALSE | UNKNOWN | NULL, comparisons.
    fn truth_expr(&mut self) -> Result<Expr> {
        let position = self.position();
        let mut left = self.predicate()?;
        loop {
            if self.accept("IS") {
                let negated = self.accept("NOT");
                let value = Box::new(left);
                let kind = match self.accept_any(&["NULL", "UNKNOWN", "TRUE", "FALSE"]) {
                    Some("TRUE") => ExprKind::IsTruth { negated, truth: true, value },
                    Some("FALSE") => ExprKind::IsTruth { negated, truth: false, value },
                    Some(_) => ExprKind::IsNull { negated, value },
                    None => return self.fail(),
                };
                left = self.node(position, kind)?;
            } else if let Some(op) = self.compare_op() {
                if op != CompareOp::NullSafeEq
                    && let Some(quantifier) = self.accept_any(&["ANY", "SOME", "ALL"])
                {
                    let (all, value) = (quantifier == "ALL", Box::new(left));
                    let select = self.subselect()?;
                    let kind = match (op, all) {
                        (CompareOp::Eq, false) => {
                            ExprKind::InSelect { negated: false, value, select }
                        }
                        (CompareOp::NotEq, true) => {
                            ExprKind::InSelect { negated: true, value, select }
                        }
                        _ => ExprKind::Quantified { op, all, value, select },
                    };
                    left = self.node(position, kind)?;
                    continue;
                }
                let right = self.predicate()?;
                left = self.binary(position, BinaryOp::Compare(op), left, right)?;
            } else {
                return Ok(left);
            }
        }
    }

    fn compare_op(&mut self) -> Option<CompareOp> {
        let token = self.peek();
        if token.kind != TokenKind::Symbol {
            return None;
        }
        let op = match token.text(self.text) {
            b"=" => CompareOp::Eq,
            b"<=>" => CompareOp::NullSafeEq,
            b"<>" | b"!=" => CompareOp::NotEq,
            b"<" => CompareOp::Less,
            b"<=" => CompareOp::LessEq,
            b">" => CompareOp::Greater,
            b">=" => CompareOp::GreaterEq,
            _ => return None,
        };
        self.advance();
        Some(op)
    }

    /// bit_expr [NOT] IN | BETWEEN | LIKE | REGEXP ...
    fn predicate(&mut self) -> Result<Expr> {
        let position = self.position();
        let value = self.bit_expr()?;
        let negated = self.at("NOT")
            && ["IN", "BETWEEN", "LIKE", "REGEXP", "RLIKE"].iter().any(|k| self.at_nth(1, k))
            && self.accept("NOT");
        let kind = if self.accept("IN") {
            self.in_list(negated, Box::new(value))?
        } else if self.accept("BETWEEN") {
            let low = Box::new(self.bit_expr()?);
            self.expect("AND")?;
            let high = Box::new(self.deeper(Self::predicate)?);
            ExprKind::Between { negated, value: Box::new(value), low, high }
        } else if self.accept("LIKE") {
            let pattern = Box::new(self.concatenated()?);
            let escape =
                if self.accept("ESCAPE") { Some(Box::new(self.concatenated()?)) } else { None };
            ExprKind::Like { negated, value: Box::new(value), pattern, escape }
        } else if self.accept("REGEXP") || self.accept("RLIKE") {
            ExprKind::Regexp {
                negated,
                value: Box::new(value),
                pattern: Box::new(self.bit_expr()?),
            }
        } else if self.at("SOUNDS") && self.at_nth(1, "LIKE") {
            self.sounds_like(position, value)?
        } else if self.at("MEMBER") && self.at_nth(1, "OF") {
            self.accept_all(&["MEMBER", "OF"]);
            let array = self.in_parens(|p| p.expr())?;
            plain_call("MEMBER OF", vec![value, array])
        } else {
            return Ok(value);
        };
        self.node(position, kind)
    }

    /// SOUNDS LIKE compares the sounds of both sides.
    fn sounds_like(&mut self, position: Place, value: Expr) -> Result<ExprKind> {
        self.accept_all(&["SOUNDS", "LIKE"]);
        let other = self.bit_expr()?;
        let value = self.node(position, plain_call("SOUNDEX", vec![value]))?;
        let other = self.node(position, plain_call("SOUNDEX", vec![other]))?;
        Ok(ExprKind::Binary(BinaryOp::Compare(CompareOp::Eq), Box::new(value), Box::new(other)))
    }
    fn in_list(&mut self, negated: bool, value: Box<Expr>) -> Result<ExprKind> {
        if self.at_symbol("(") && self.at_subquery() {
            let select = self.subselect()?;
            return Ok(ExprKind::InSelect { negated, value, select });
        }
        let list = self.in_parens(|p| p.comma_list(|p| p.expr()))?;
        Ok(ExprKind::In { negated, value, list })
    }

    fn bit_expr(&mut self) -> Result<Expr> {
        self.binary_bits(0)
    }

    /// Arithmetic and bit operators of at least precedence `min`, which associate to the left.
    fn binary_bits(&mut self, min: u8) -> Result<Expr> {
        let position = self.position();
        let mut left = self.concatenated()?;
        while let Some((op, precedence)) = self.peek_bit_op() {
            if precedence < min {
                break;
            }
            self.advance();
            let additive = matches!(op, ArithOp::Add | ArithOp::Subtract);
            if additive
                && self.at("INTERVAL")
                && !self.at_symbol_nth(1, ",")
                && !self.at_interval_function()
            {
                left = self.plus_interval(position, op == ArithOp::Subtract, left)?;
                continue;
            }
            let right = self.deeper(|p| p.binary_bits(precedence + 1))?;
            left = self.binary(position, BinaryOp::Arith(op), left, right)?;
        }
        Ok(left)
    }

    /// An operand in which IN is not an operator: POSITION(x IN y), INTERVAL 1 DAY + x.
    pub(super) fn needle(&mut self) -> Result<Expr> {
        self.bit_expr()
    }

    fn peek_bit_op(&self) -> Option<(ArithOp, u8)> {
        let token = self.peek();
        if token.kind == TokenKind::Word {
            return if self.at("DIV") {
                Some((ArithOp::IntDivide, 5))
            } else if self.at("MOD") {
                Some((ArithOp::Modulo, 5))
            } else {
                None
            };
        }
        if token.kind != TokenKind::Symbol {
            return None;
        }
        Some(match token.text(self.text) {
            b"|" => (ArithOp::BitOr, 1),
            b"&" => (ArithOp::BitAnd, 2),
            b"<<" => (ArithOp::ShiftLeft, 3),
            b">>" => (ArithOp::ShiftRight, 3),
            b"+" => (ArithOp::Add, 4),
            b"-" => (ArithOp::Subtract, 4),
            b"*" => (ArithOp::Multiply, 5),
            b"/" => (ArithOp::Divide, 5),
            b"%" => (ArithOp::Modulo, 5),
            b"^" => (ArithOp::BitXor, 6),
            _ => return None,
        })
    }

    /// At INTERVAL: `date + INTERVAL amount unit`.
    fn plus_interval(&mut self, position: Place, subtract: bool, date: Expr) -> Result<Expr> {
        let (amount, unit) = self.interval()?;
        self.node(
            position,
            ExprKind::Interval { subtract, date: Box::new(date), amount: Box::new(amount), unit },
        )
    }

    /// `INTERVAL amount unit`.
    pub(super) fn interval(&mut self) -> Result<(Expr, IntervalUnit)> {
        self.expect("INTERVAL")?;
        let amount = self.expr()?;
        let unit = self.interval_unit()?;
        Ok((amount, unit))
    }

    pub(super) fn interval_unit(&mut self) -> Result<IntervalUnit> {
        Ok(self.unit_among(&IntervalUnit::NAMES)?.1)
    }
    /// One of these units, with its keyword; error 1064 for any other token.
    pub(super) fn unit_among(
        &mut self,
        units: &'static [(&'static str, IntervalUnit)],
    ) -> Result<(&'static str, IntervalUnit)> {
        match units.iter().find(|(name, _)| self.at(name)) {
            Some(unit) => {
                self.advance();
                Ok(*unit)
            }
            None => self.fail(),
        }
    }

    /// An operand of `||`, with its prefixes and COLLATE.
    fn unary_expr(&mut self) -> Result<Expr> {
        let position = self.position();
        let op = if self.accept_symbol("-") {
            UnaryOp::Minus
        } else if self.accept_symbol("+") {
            UnaryOp::Plus
        } else if self.accept_symbol("~") {
            UnaryOp::BitNot
        } else if self.accept_symbol("!") {
            UnaryOp::Not
        } else if self.mode.has(SqlMode::HIGH_NOT_PRECEDENCE) && self.accept("NOT") {
            return self.negation(position, Self::unary_expr);
        } else if self.at("BINARY") && !self.at_symbol_nth(1, ".") {
            self.advance();
            UnaryOp::Binary
        } else {
            return self.collated();
        };
        let inner = self.deeper(Self::unary_expr)?;
        self.node(position, ExprKind::Unary(op, Box::new(inner)))
    }

    fn collated(&mut self) -> Result<Expr> {
        let position = self.position();
        let mut value = self.simple_expr()?;
        loop {
            if self.accept("COLLATE") {
                let collation = self.word_or_string()?;
                value = self.node(position, ExprKind::Collate(Box::new(value), collation))?;
            } else if self.at_symbol("->") || self.at_symbol("->>") {
                let unquoted = self.at_symbol("->>");
                self.advance();
                let at = self.position();
                let number = self.string_literal()?;
                let path = self.node(at, ExprKind::Literal(number))?;
                value = self.node(position, plain_call("JSON_EXTRACT", vec![value, path]))?;
                if unquoted {
                    value = self.node(position, plain_call("JSON_UNQUOTE", vec![value]))?;
                }
            } else {
                return Ok(value);
            }
        }
    }

    /// MySQL's simple_expr: with PIPES_AS_CONCAT, `value || x || ..` as calls of CONCAT. A call
    /// takes as many arguments as it may have, which keeps the tree low.
    #[inline]
    fn concatenated(&mut self) -> Result<Expr> {
        match self.mode.has(SqlMode::PIPES_AS_CONCAT) {
            true => self.with_pipes(),
            false => self.unary_expr(),
        }
    }
    /// It is not inlined, so that expressions without pipes need no room for it on the stack.
    #[inline(never)]
    fn with_pipes(&mut self) -> Result<Expr> {
        let position = self.position();
        let value = self.unary_expr()?;
        if !self.at_symbol("||") {
            return Ok(value);
        }
        let (_, most) = Function::Concat.arity();
        let mut args = vec![value];
        while self.at_symbol("||") {
            if args.len() == most {
                let so_far = plain_call("CONCAT", std::mem::take(&mut args));
                self.note_concat(position);
                args.push(self.node(position, so_far)?);
            }
            let pipes = self.advance();
            self.kept_as(pipes, ",");
            args.push(self.unary_expr()?);
        }
        self.note_concat(position);
        self.node(position, plain_call("CONCAT", args))
    }

    fn simple_expr(&mut self) -> Result<Expr> {
        let position = self.position();
        let kind = match self.kind() {
            TokenKind::Param => {
                let number = self.number();
                self.advance();
                ExprKind::Param(number)
            }
            TokenKind::String | TokenKind::National => self.strings(ExprKind::Literal)?,
            kind if kind.is_literal() => {
                let number = self.number();
                self.advance();
                ExprKind::Literal(number)
            }
            TokenKind::UserVariable => return self.user_variable(),
            TokenKind::SystemVariable => self.system_variable()?,
            TokenKind::Symbol if self.at_symbol("(") => return self.parenthesized(),
            TokenKind::Symbol if self.at_symbol("{") => return self.odbc_escape(),
            TokenKind::Word | TokenKind::QuotedName => return self.word_expr(),
            _ => return self.fail(),
        };
        self.node(position, kind)
    }

    /// ODBC: `{d '2020-01-01'}` is a date, and `{fn UCASE('a')}` the expression in it. As in
    /// MySQL, the word before an expression may be any.
    fn odbc_escape(&mut self) -> Result<Expr> {
        let position = self.position();
        self.expect_symbol("{")?;
        let word = self.ident()?;
        let inner = self.expr()?;
        self.expect_symbol("}")?;
        let temporal = match word.to_ascii_lowercase().as_str() {
            "d" => Some(TemporalLiteral::Date),
            "t" => Some(TemporalLiteral::Time),
            "ts" => Some(TemporalLiteral::Timestamp),
            _ => None,
        };
        let kind = match (temporal, inner.kind) {
            (Some(temporal), ExprKind::Literal(n))
                if self.literals[n as usize].kind == TokenKind::String =>
            {
                ExprKind::Temporal(temporal, n)
            }
            (_, kind) => kind,
        };
        self.node(position, kind)
    }

    /// Adjacent strings: 'a' 'b' is 'ab'. `kind` makes a part of the number of its literal: after
    /// an introducer, all parts have its character set.
    pub(super) fn strings(&mut self, kind: impl Fn(u32) -> ExprKind) -> Result<ExprKind> {
        let position = self.position();
        let first = self.number();
        self.advance();
        if self.kind() != TokenKind::String {
            return Ok(kind(first));
        }
        let mut args = vec![self.node(position, kind(first))?];
        while self.kind() == TokenKind::String {
            let position = self.position();
            let number = self.string_literal()?;
            args.push(self.node(position, kind(number))?);
        }
        Ok(ExprKind::Call(Call {
            name: "CONCAT".into(),
            distinct: false,
            star: false,
            args,
            order: Vec::new(),
            separator: None,
        }))
    }

    fn parenthesized(&mut self) -> Result<Expr> {
        let position = self.position();
        if self.at_subquery() {
            let select = self.subselect()?;
            return self.node(position, ExprKind::Select(select));
        }
        let mut list = self.in_parens(|p| p.comma_list(|p| p.expr()))?;
        match list.len() {
            1 => {
                let inner = list.remove(0);
                self.node(position, inner.kind)
            }
            _ => self.node(position, ExprKind::Row(list)),
        }
    }

    fn user_variable(&mut self) -> Result<Expr> {
        let position = self.position();
        let name = self.user_variable_name()?;
        if self.accept_symbol(":=") {
            let value = self.expr()?;
            self.charge(size_of::<String>() + name.len());
            self.assigned.insert(name.clone());
            return self.node(position, ExprKind::Assign(name, Box::new(value)));
        }
        self.node(position, ExprKind::UserVariable(name))
    }

    /// The name after `@`, in lower case.
    pub(super) fn user_variable_name(&mut self) -> Result<String> {
        let token = self.peek();
        if token.kind != TokenKind::UserVariable {
            return self.fail();
        }
        self.advance();
        let bytes = &token.text(self.text)[1..];
        let name = match bytes.first() {
            Some(b'`') => super::literal::unquote_name(bytes),
            Some(b'\'' | b'"') => {
                super::literal::string(bytes, self.backslash_escapes()).into_owned()
            }
            _ => bytes.to_vec(),
        };
        let name = self.charsets.name(&name)?;
        if name.chars().count() > MAX_NAME_CHARS {
            return Err(SqlError::illegal_user_variable(name));
        }
        Ok(name.to_lowercase())
    }

    /// At `@@`: `@@[SESSION.|LOCAL.|GLOBAL.]name`.
    fn system_variable(&mut self) -> Result<ExprKind> {
        self.advance();
        let (scope, name) = self.system_variable_name()?;
        Ok(ExprKind::SystemVariable(scope, name))
    }
    pub(super) fn system_variable_name(&mut self) -> Result<(VariableScope, String)> {
        let mut scope = VariableScope::Either;
        if self.at_symbol_nth(1, ".") {
            scope = match self.accept_any(&["SESSION", "LOCAL", "GLOBAL"]) {
                Some("GLOBAL") => VariableScope::Global,
                Some(_) => VariableScope::Session,
                None => VariableScope::Either,
            };
            if scope != VariableScope::Either {
                self.expect_symbol(".")?;
            }
        }
        let mut name = self.ident_after_dot()?;
        if self.accept_symbol(".") {
            name = format!("{name}.{}", self.ident_after_dot()?);
        }
        Ok((scope, name.to_ascii_lowercase()))
    }
}
