//! Expressions that begin with a word: columns, constants, CASE, CAST, and functions whose
//! arguments are not plain lists.
use super::ast::*;
use super::lexer::{Token, TokenKind, introduced_charset};
use super::parser::Parser;
use super::reserved::is_reserved;
use super::window::ONLY_WITH_OVER;
use crate::error::{Result, SqlError};
use crate::plan::IntervalUnit;
use redolith_types::Charset;

/// Reserved words that are function names before a parenthesis, besides [`ONLY_WITH_OVER`].
const RESERVED_FUNCTIONS: &[&str] = &[
    "GROUPING",
    "CHAR",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "CURRENT_USER",
    "DATABASE",
    "IF",
    "INSERT",
    "INTERVAL",
    "LEFT",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "MOD",
    "REPEAT",
    "REPLACE",
    "RIGHT",
    "SCHEMA",
    "UTC_DATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
    "VALUES",
];
/// Functions that need no parentheses.
const BARE_FUNCTIONS: &[&str] = &[
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "CURRENT_USER",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "UTC_DATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
];

impl Parser<'_> {
    /// At a word or a quoted name.
    pub(super) fn word_expr(&mut self) -> Result<Expr> {
        let position = self.position();
        let token = self.peek();
        if token.kind == TokenKind::QuotedName {
            return self.column_name().and_then(|name| self.node(position, ExprKind::Name(name)));
        }
        let word = String::from_utf8_lossy(token.text(self.text)).to_ascii_uppercase();
        let next_is_string = self.peek_at(1).kind == TokenKind::String;
        let kind = match word.as_str() {
            "NULL" => self.constant(ExprKind::Null),
            "TRUE" => self.constant(ExprKind::Bool(true)),
            "FALSE" => self.constant(ExprKind::Bool(false)),
            "CASE" => self.case()?,
            "CAST" if self.at_symbol_nth(1, "(") => self.cast()?,
            "CONVERT" => self.convert()?,
            "DEFAULT" => self.default_value()?,
            "EXISTS" => {
                self.advance();
                ExprKind::Exists(self.subselect()?)
            }
            "ROW" => {
                self.advance();
                ExprKind::Row(self.in_parens(|p| p.comma_list(|p| p.expr()))?)
            }
            "DATE" | "TIME" | "TIMESTAMP" if next_is_string => {
                self.advance();
                let kind = match word.as_str() {
                    "DATE" => TemporalLiteral::Date,
                    "TIME" => TemporalLiteral::Time,
                    _ => TemporalLiteral::Timestamp,
                };
                ExprKind::Temporal(kind, self.string_literal()?)
            }
            "INTERVAL" if !self.at_interval_function() => self.leading_interval()?,
            "MATCH" => {
                self.advance();
                self.in_parens(|p| p.comma_list(|p| p.expr()))?;
                self.expect("AGAINST")?;
                self.in_parens(|p| {
                    p.expr()?;
                    while !p.at_symbol(")") && !p.at_end() {
                        p.advance();
                    }
                    Ok(())
                })?;
                ExprKind::Unsupported("full-text search")
            }
            _ if let Some(charset) = self.introducer(token) => {
                self.advance();
                if self.kind() == TokenKind::Introduced {
                    self.strings(|number| ExprKind::Introduced(charset, number))?
                } else {
                    let number = self.number();
                    self.advance();
                    ExprKind::Introduced(charset, number)
                }
            }
            _ => return self.call_or_column(&word),
        };
        self.node(position, kind)
    }

    /// The character set, if the word at the cursor introduces a literal.
    fn introducer(&self, word: Token) -> Option<Charset> {
        let introduces = matches!(
            self.peek_at(1).kind,
            TokenKind::Introduced | TokenKind::Hex | TokenKind::Bits
        );
        if introduces { introduced_charset(word.text(self.text)) } else { None }
    }

    fn constant(&mut self, kind: ExprKind) -> ExprKind {
        self.advance();
        kind
    }

    fn call_or_column(&mut self, word: &str) -> Result<Expr> {
        let position = self.position();
        let reserved = is_reserved(word.as_bytes());
        if self.at_symbol_nth(1, "(")
            && (!reserved
                || [RESERVED_FUNCTIONS, ONLY_WITH_OVER].iter().any(|names| names.contains(&word)))
        {
            self.advance();
            let kind = self.call(word)?;
            let kind = self.window_call(kind)?;
            return self.node(position, kind);
        }
        if BARE_FUNCTIONS.contains(&word) {
            self.advance();
            return self.node(position, plain_call(word, Vec::new()));
        }
        let name = self.column_name()?;
        self.node(position, ExprKind::Name(name))
    }

    /// `column`, `table.column`, `database.table.column`.
    pub(super) fn column_name(&mut self) -> Result<ColumnName> {
        let mut parts = vec![self.ident()?];
        while parts.len() < 3 && self.at_symbol(".") {
            self.advance();
            parts.push(self.ident_after_dot()?);
        }
        let column = parts.pop().unwrap_or_default();
        let table = parts.pop();
        Ok(ColumnName { schema: parts.pop(), table, column })
    }

    fn get_format(&mut self) -> Result<ExprKind> {
        self.in_parens(|p| {
            let of = ["DATE", "TIME", "DATETIME", "TIMESTAMP"];
            let Some(of) = of.into_iter().find(|of| p.accept(of)) else { return p.fail() };
            p.expect_symbol(",")?;
            Ok(plain_call("GET_FORMAT", vec![keyword(of), p.expr()?]))
        })
    }
    /// A function call, at its parenthesis.
    fn call(&mut self, name: &str) -> Result<ExprKind> {
        match name {
            "EXTRACT" => {
                return self.in_parens(|p| {
                    let unit = p.unit_among(&IntervalUnit::NAMES)?;
                    p.expect("FROM")?;
                    Ok(extract(unit, p.expr()?))
                });
            }
            "DATE_ADD" | "ADDDATE" | "DATE_SUB" | "SUBDATE" => {
                return self.date_add(name.ends_with("SUB") || name.starts_with("SUB"));
            }
            "TIMESTAMPADD" => {
                return self.in_parens(|p| {
                    let (_, unit) = p.unit_among(IntervalUnit::SINGLE)?;
                    p.expect_symbol(",")?;
                    let amount = Box::new(p.expr()?);
                    p.expect_symbol(",")?;
                    Ok(ExprKind::Interval {
                        subtract: false,
                        date: Box::new(p.expr()?),
                        amount,
                        unit,
                    })
                });
            }
            "TIMESTAMPDIFF" => {
                return self.in_parens(|p| {
                    let (unit, _) = p.unit_among(IntervalUnit::SINGLE)?;
                    p.expect_symbol(",")?;
                    let from = p.expr()?;
                    p.expect_symbol(",")?;
                    let to = p.expr()?;
                    Ok(plain_call("TIMESTAMPDIFF", vec![keyword(unit), from, to]))
                });
            }
            "TRIM" => return self.trim(),
            "SUBSTRING" | "SUBSTR" | "MID" => {
                return self.in_parens(|p| {
                    let mut args = vec![p.expr()?];
                    let spelt = p.accept("FROM");
                    if !spelt {
                        p.expect_symbol(",")?;
                    }
                    args.push(p.expr()?);
                    if if spelt { p.accept("FOR") } else { p.accept_symbol(",") } {
                        args.push(p.expr()?);
                    }
                    Ok(plain_call("SUBSTRING", args))
                });
            }
            "POSITION" => {
                return self.in_parens(|p| {
                    // The needle is a bit_expr, so that the parser does not read IN as an operator.
                    let needle = p.deeper(|p| p.needle())?;
                    p.expect("IN")?;
                    Ok(plain_call("LOCATE", vec![needle, p.expr()?]))
                });
            }
            "VALUES" => return self.in_parens(|p| Ok(ExprKind::Values(p.column_name()?.column))),
            "CHAR" => {
                return self.in_parens(|p| {
                    let args = p.comma_list(|p| p.expr())?;
                    if p.accept("USING") {
                        let charset = p.word_or_string()?;
                        let position = p.position();
                        let inner = p.node(position, plain_call("CHAR", args))?;
                        return Ok(ExprKind::Transcode(Box::new(inner), charset));
                    }
                    Ok(plain_call("CHAR", args))
                });
            }
            "GROUP_CONCAT" => return self.group_concat(),
            "JSON_VALUE" => return self.json_value(),
            "GET_FORMAT" => return self.get_format(),
            _ => {}
        }
        self.in_parens(|p| {
            let mut call = Call {
                name: name.to_string(),
                distinct: false,
                star: false,
                args: Vec::new(),
                order: Vec::new(),
                separator: None,
            };
            if p.at_symbol("*") {
                p.advance();
                call.star = true;
                return Ok(ExprKind::Call(call));
            }
            call.distinct = p.accept("DISTINCT");
            if !call.distinct {
                p.accept("ALL");
            }
            if !p.at_symbol(")") {
                call.args = p.comma_list(|p| p.expr())?;
            }
            Ok(ExprKind::Call(call))
        })
    }

    fn date_add(&mut self, subtract: bool) -> Result<ExprKind> {
        self.in_parens(|p| {
            let date = Box::new(p.expr()?);
            p.expect_symbol(",")?;
            if p.at("INTERVAL") {
                let (amount, unit) = p.interval()?;
                return Ok(ExprKind::Interval { subtract, date, amount: Box::new(amount), unit });
            }
            let amount = Box::new(p.expr()?);
            Ok(ExprKind::Interval { subtract, date, amount, unit: IntervalUnit::Day })
        })
    }

    /// `INTERVAL amount unit + date`.
    fn leading_interval(&mut self) -> Result<ExprKind> {
        let (amount, unit) = self.interval()?;
        self.expect_symbol("+")?;
        let date = Box::new(self.deeper(|p| p.needle())?);
        Ok(ExprKind::Interval { subtract: false, date, amount: Box::new(amount), unit })
    }

    fn trim(&mut self) -> Result<ExprKind> {
        self.in_parens(|p| {
            let side = p.accept_any(&["BOTH", "LEADING", "TRAILING"]);
            let name = match side {
                Some("LEADING") => "LTRIM",
                Some("TRAILING") => "RTRIM",
                _ => "TRIM",
            };
            if side.is_some() && p.accept("FROM") {
                return Ok(plain_call(name, vec![p.expr()?]));
            }
            let first = p.expr()?;
            if p.accept("FROM") {
                return Ok(plain_call(name, vec![p.expr()?, first]));
            }
            if side.is_some() {
                return p.fail();
            }
            Ok(plain_call(name, vec![first]))
        })
    }

    fn group_concat(&mut self) -> Result<ExprKind> {
        self.in_parens(|p| {
            let distinct = p.accept("DISTINCT");
            let args = p.comma_list(|p| p.expr())?;
            let order = if p.accept_all(&["ORDER", "BY"]) { p.order_items()? } else { Vec::new() };
            let separator = if p.accept("SEPARATOR") { Some(p.string_literal()?) } else { None };
            Ok(ExprKind::Call(Call {
                name: "GROUP_CONCAT".into(),
                distinct,
                star: false,
                args,
                order,
                separator,
            }))
        })
    }

    /// `JSON_VALUE(doc, path [RETURNING type] [.. ON EMPTY] [.. ON ERROR])`, as a call with six
    /// arguments (see the function's line in `plan::function`).
    fn json_value(&mut self) -> Result<ExprKind> {
        self.in_parens(|p| {
            let document = p.expr()?;
            p.expect_symbol(",")?;
            let path = p.json_path()?;
            let ty = if p.accept("RETURNING") {
                p.cast_type()?
            } else {
                CastType::Char { length: Some(512), charset: None, bin: false }
            };
            let (mut modes, mut defaults) = (['n', 'n'], [null(), null()]);
            for (n, reaction) in p.json_reactions(false)?.into_iter().enumerate() {
                if let Some((mode, default)) = reaction {
                    (modes[n], defaults[n]) = (mode, default);
                }
            }
            let [on_empty, on_error] = defaults;
            let typed = json_value_type(ty);
            let modes = keyword(&modes.iter().collect::<String>());
            Ok(plain_call("JSON_VALUE", vec![document, path, modes, typed, on_empty, on_error]))
        })
    }

    /// A path of JSON_VALUE or JSON_TABLE, which is a literal.
    pub(super) fn json_path(&mut self) -> Result<Expr> {
        let first = self.peek();
        let path = self.expr()?;
        match path.kind {
            ExprKind::Literal(_) if first.kind.is_string() => Ok(path),
            ExprKind::Introduced(..) => Ok(path),
            _ => Err(self.error_at(first)),
        }
    }

    /// What is done ON EMPTY, and what ON ERROR: a letter and the default, where the clauses are
    /// there. ON EMPTY comes first, except `in_any_order`.
    pub(super) fn json_reactions(
        &mut self,
        in_any_order: bool,
    ) -> Result<[Option<(char, Expr)>; 2]> {
        let mut found = [None, None];
        while let Some(reaction) = self.json_reaction()? {
            let n = usize::from(!self.at("EMPTY"));
            let may_come = found[n].is_none() && (n == 1 || in_any_order || found[1].is_none());
            if !may_come || !self.accept(["EMPTY", "ERROR"][n]) {
                return self.fail();
            }
            found[n] = Some(reaction);
        }
        Ok(found)
    }
    /// `{NULL | ERROR | DEFAULT x} ON`, if it is there.
    fn json_reaction(&mut self) -> Result<Option<(char, Expr)>> {
        let follows = self.at_nth(1, "ON") && (self.at_nth(2, "EMPTY") || self.at_nth(2, "ERROR"));
        let reaction = if self.accept("DEFAULT") {
            if self.at("NULL") {
                return self.fail();
            }
            ('d', self.deeper(|p| p.needle())?)
        } else if follows && self.accept("NULL") {
            ('n', null())
        } else if follows && self.accept("ERROR") {
            ('e', null())
        } else {
            return Ok(None);
        };
        self.expect("ON")?;
        Ok(Some(reaction))
    }

    fn case(&mut self) -> Result<ExprKind> {
        self.expect("CASE")?;
        let operand = if self.at("WHEN") { None } else { Some(Box::new(self.expr()?)) };
        let mut branches = Vec::new();
        while self.accept("WHEN") {
            let when = self.expr()?;
            self.expect("THEN")?;
            branches.push((when, self.expr()?));
        }
        if branches.is_empty() {
            return self.fail();
        }
        let otherwise = if self.accept("ELSE") { Some(Box::new(self.expr()?)) } else { None };
        self.expect("END")?;
        Ok(ExprKind::Case { operand, branches, otherwise })
    }

    fn default_value(&mut self) -> Result<ExprKind> {
        self.advance();
        if self.at_symbol("(") {
            return Ok(ExprKind::Default(Some(self.in_parens(|p| p.column_name())?.column)));
        }
        Ok(ExprKind::Default(None))
    }

    fn cast(&mut self) -> Result<ExprKind> {
        self.advance();
        self.in_parens(|p| {
            let value = Box::new(p.expr()?);
            p.expect("AS")?;
            Ok(ExprKind::Cast(value, p.cast_type()?))
        })
    }

    /// CONVERT(x, type), CONVERT(x USING charset).
    fn convert(&mut self) -> Result<ExprKind> {
        self.advance();
        self.in_parens(|p| {
            let value = Box::new(p.expr()?);
            if p.accept("USING") {
                return Ok(ExprKind::Transcode(value, p.word_or_string()?));
            }
            p.expect_symbol(",")?;
            Ok(ExprKind::Cast(value, p.cast_type()?))
        })
    }

    fn cast_type(&mut self) -> Result<CastType> {
        let word = self.peek();
        let name = String::from_utf8_lossy(word.text(self.text)).to_ascii_uppercase();
        if word.kind != TokenKind::Word {
            return self.fail();
        }
        self.advance();
        if name == "NATIONAL" && !self.accept("CHAR") {
            self.expect("CHARACTER")?;
        }
        let args = if self.at_symbol("(") {
            self.in_parens(|p| p.comma_list(|p| p.unsigned_u32()))?
        } else {
            Vec::new()
        };
        let first = args.first().copied();
        let digits = |n: Option<u32>| n.unwrap_or(0).min(255) as u8;
        Ok(match name.as_str() {
            "SIGNED" | "UNSIGNED" => {
                if !self.accept("INTEGER") {
                    self.accept("INT");
                }
                if name == "SIGNED" { CastType::Signed } else { CastType::Unsigned }
            }
            "CHAR" | "CHARACTER" => self.cast_to_char(first)?,
            "NCHAR" | "NATIONAL" => {
                CastType::Char { length: first, charset: Some("utf8mb3".into()), bin: false }
            }
            "BINARY" => CastType::Binary(first),
            "DECIMAL" | "DEC" | "NUMERIC" => {
                CastType::Decimal(first.unwrap_or(10), digits(args.get(1).copied()))
            }
            "DOUBLE" => {
                self.accept("PRECISION");
                CastType::Double
            }
            "REAL" => match self.real(word) {
                "FLOAT" => CastType::Float,
                _ => CastType::Double,
            },
            "FLOAT" => {
                if first.is_some_and(|p| p > 24) {
                    CastType::Double
                } else {
                    CastType::Float
                }
            }
            "DATE" => CastType::Date,
            "TIME" => CastType::Time(digits(first)),
            "DATETIME" => CastType::DateTime(digits(first)),
            "YEAR" => CastType::Year,
            "JSON" => CastType::Json,
            _ => return Err(self.error_at(word)),
        })
    }
}

impl Parser<'_> {
    /// After CHAR(n): a character set and BINARY, in either order. BYTE is a character set of its
    /// own, which BINARY does not go with.
    fn cast_to_char(&mut self, length: Option<u32>) -> Result<CastType> {
        if self.accept("BYTE") {
            return Ok(CastType::Binary(length));
        }
        let mut bin = self.accept("BINARY");
        let charset = if self.accept("ASCII") {
            Some("latin1".into())
        } else if self.accept("UNICODE") {
            return Err(SqlError::unknown_character_set("ucs2"));
        } else if self.charset_keyword() {
            Some(self.charset_name()?)
        } else {
            None
        };
        bin = bin || charset.is_some() && self.accept("BINARY");
        Ok(CastType::Char { length, charset, bin })
    }
}

pub(super) fn plain_call(name: &str, args: Vec<Expr>) -> ExprKind {
    ExprKind::Call(Call {
        name: name.to_string(),
        distinct: false,
        star: false,
        args,
        order: Vec::new(),
        separator: None,
    })
}

fn null() -> Expr {
    Expr::new(ExprKind::Null, Span::default())
}

/// A NULL of the type that JSON_VALUE gives. Without a character set, its text has the collation
/// utf8mb4_bin.
fn json_value_type(ty: CastType) -> Expr {
    let cast = |ty| Expr::new(ExprKind::Cast(Box::new(null()), ty), Span::default());
    let CastType::Char { length, charset: None, bin: false } = ty else { return cast(ty) };
    let text = cast(CastType::Char { length, charset: Some("utf8mb4".into()), bin: false });
    Expr::new(ExprKind::Collate(Box::new(text), "utf8mb4_bin".into()), Span::default())
}

/// A keyword as a function's argument.
fn keyword(word: &str) -> Expr {
    Expr::new(ExprKind::Text(word.to_string()), Span::default())
}

/// EXTRACT of a date's field is a call of the function with that name.
fn extract((name, unit): (&str, IntervalUnit), value: Expr) -> ExprKind {
    match unit {
        IntervalUnit::Day => plain_call("DAYOFMONTH", vec![value]),
        IntervalUnit::Week | IntervalUnit::Month | IntervalUnit::Quarter | IntervalUnit::Year => {
            plain_call(name, vec![value])
        }
        _ => plain_call("EXTRACT", vec![keyword(name), value]),
    }
}
