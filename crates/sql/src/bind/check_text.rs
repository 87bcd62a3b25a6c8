//! The text of an expression of a table's definition, as the dictionary keeps it and SHOW prints
//! it: the condition of a CHECK constraint, the expression of a generated column, and a default
//! value that would mean something else in another mode.
//!
//! **CHECKTEXT-1** The text means the same whatever the session's settings are: each operation has
//! its own parentheses, columns stand without their table, names are in backticks, strings have the
//! name of their character set. It is MySQL's form of the expression.
//!
//! The text is made from the syntax tree. On the way the writer notes which columns the expression
//! names, and the first thing in it that no such expression may have.
use super::Binder;
use crate::error::{Result, SqlError};
use crate::exec::show::{quoted_name, quoted_text};
use crate::parse::ast::{self, BinaryOp, CastType, ColumnName, ExprKind as A, UnaryOp};
use crate::parse::lexer::TokenKind;
use crate::plan::Function;
use crate::plan::function::Purity;
use redolith_types::{Charset, Collation, TableDef};

/// An expression as text, and what it names.
pub(super) struct Written<'e> {
    pub text: String,
    pub columns: Vec<&'e ColumnName>,
    /// Why no check constraint or generated column may have the expression.
    pub refused: Option<SqlError>,
}

/// What an expression belongs to, with its name for messages.
#[derive(Clone, Copy)]
pub(super) enum TextOf<'w> {
    Check(&'w str),
    GeneratedColumn(&'w str),
    Default,
}
impl TextOf<'_> {
    fn variable(self) -> SqlError {
        match self {
            TextOf::Check(name) => SqlError::check_variable(name),
            TextOf::GeneratedColumn(name) => SqlError::generated_column_variable(name),
            TextOf::Default => SqlError::default_names_variable(""),
        }
    }
    fn function(self, function: &str) -> SqlError {
        let function = function.to_lowercase();
        match self {
            TextOf::Check(name) => SqlError::check_function(name, function),
            TextOf::GeneratedColumn(name) => {
                SqlError::generated_column_named_function(name, function)
            }
            TextOf::Default => SqlError::default_not_allowed(""),
        }
    }
    fn nameless_function(self) -> SqlError {
        match self {
            TextOf::Check(name) => SqlError::check_nameless_function(name),
            TextOf::GeneratedColumn(name) => SqlError::generated_column_function(name),
            TextOf::Default => SqlError::default_not_allowed(""),
        }
    }
}

/// Writes one expression.
struct Writer<'w, 'b, 'e> {
    binder: &'w mut Binder<'b>,
    of: TextOf<'w>,
    /// The table, which tells how the names of columns are spelt; None where there are none.
    def: Option<&'w TableDef>,
    out: Written<'e>,
}

impl Binder<'_> {
    /// An expression over the columns of a table as text (CHECKTEXT-1).
    pub(super) fn definition_text<'e>(
        &mut self,
        of: TextOf<'_>,
        def: &TableDef,
        e: &'e ast::Expr,
    ) -> Result<Written<'e>> {
        let out = Written { text: String::new(), columns: Vec::new(), refused: None };
        let mut writer = Writer { binder: self, of, def: Some(def), out };
        writer.expr(e)?;
        Ok(writer.out)
    }
    /// An expression without columns as text that means the same in every mode (CHECKTEXT-1).
    pub(super) fn text_for_all_modes(&mut self, e: &ast::Expr) -> Result<String> {
        let out = Written { text: String::new(), columns: Vec::new(), refused: None };
        let mut writer = Writer { binder: self, of: TextOf::Default, def: None, out };
        writer.expr(e)?;
        Ok(writer.out.text)
    }
}

impl<'e> Writer<'_, '_, 'e> {
    fn put(&mut self, text: &str) {
        self.out.text.push_str(text);
    }
    fn refuse(&mut self, error: SqlError) {
        self.out.refused.get_or_insert(error);
    }
    fn refuse_function(&mut self, function: &str) {
        self.refuse(self.of.function(function));
    }

    /// `(left operator right)`
    fn infix(&mut self, left: &'e ast::Expr, operator: &str, right: &'e ast::Expr) -> Result<()> {
        self.around("(", left, " ")?;
        self.put(operator);
        self.around(" ", right, ")")
    }
    /// `before value after`
    fn around(&mut self, before: &str, value: &'e ast::Expr, after: &str) -> Result<()> {
        self.put(before);
        self.expr(value)?;
        self.put(after);
        Ok(())
    }
    fn list(&mut self, list: &'e [ast::Expr], separator: &str) -> Result<()> {
        for (n, e) in list.iter().enumerate() {
            self.put(if n > 0 { separator } else { "" });
            self.expr(e)?;
        }
        Ok(())
    }

    fn expr(&mut self, e: &'e ast::Expr) -> Result<()> {
        self.binder.step(1)?;
        match &e.kind {
            A::Literal(number) => self.literal(*number),
            A::Introduced(charset, number) => self.introduced(*charset, *number),
            A::Temporal(kind, number) => {
                let kind = match kind {
                    ast::TemporalLiteral::Date => "DATE",
                    ast::TemporalLiteral::Time => "TIME",
                    ast::TemporalLiteral::Timestamp => "TIMESTAMP",
                };
                let value = self.binder.literal_text(*number)?;
                self.put(kind);
                self.put(&quoted_text(&value));
                Ok(())
            }
            A::Null => {
                self.put("NULL");
                Ok(())
            }
            A::Bool(b) => {
                self.put(if *b { "true" } else { "false" });
                Ok(())
            }
            A::Name(name) => {
                let found =
                    self.def.and_then(|def| Some(&def.columns[def.column(&name.column)?].name));
                let column = quoted_name(found.unwrap_or(&name.column));
                self.put(&column);
                self.out.columns.push(name);
                Ok(())
            }
            A::Unary(op, value) => match op {
                UnaryOp::Not => self.around("(not(", value, "))"),
                UnaryOp::Minus => self.around("-(", value, ")"),
                UnaryOp::BitNot => self.around("~(", value, ")"),
                UnaryOp::Plus => self.expr(value),
                UnaryOp::Binary => self.around("(binary ", value, ")"),
            },
            A::Binary(op, left, right) => self.infix(left, operator(*op), right),
            A::And(terms) => self.terms(terms, " and "),
            A::Or(terms) => self.terms(terms, " or "),
            A::Between { negated, value, low, high } => {
                self.around("(", value, if *negated { " not between " } else { " between " })?;
                self.expr(low)?;
                self.around(" and ", high, ")")
            }
            A::In { negated, value, list } => {
                self.around("(", value, if *negated { " not in (" } else { " in (" })?;
                self.list(list, ",")?;
                self.put("))");
                Ok(())
            }
            A::Like { negated, value, pattern, escape } => {
                self.around(if *negated { "(not((" } else { "(" }, value, " like ")?;
                self.expr(pattern)?;
                if let Some(escape) = escape {
                    self.around(" escape ", escape, "")?;
                }
                self.put(if *negated { ")))" } else { ")" });
                Ok(())
            }
            A::Regexp { negated, value, pattern } => {
                let [before, after] =
                    if *negated { ["(not(regexp_like(", ")))"] } else { ["regexp_like(", ")"] };
                self.around(before, value, ",")?;
                self.around("", pattern, after)
            }
            A::IsNull { negated, value } => {
                self.around("(", value, if *negated { " is not null)" } else { " is null)" })
            }
            A::IsTruth { negated, truth, value } => {
                let not = if *negated { "not " } else { "" };
                self.around("(", value, &format!(" is {not}{truth})"))
            }
            A::Case { operand, branches, otherwise } => {
                self.put("(case");
                if let Some(operand) = operand {
                    self.around(" ", operand, "")?;
                }
                for (when, then) in branches {
                    self.around(" when ", when, " then ")?;
                    self.expr(then)?;
                }
                if let Some(otherwise) = otherwise {
                    self.around(" else ", otherwise, "")?;
                }
                self.put(" end)");
                Ok(())
            }
            A::Cast(value, ty) => {
                let ty = self.cast_type(ty)?;
                self.around("cast(", value, &format!(" as {ty})"))
            }
            A::Transcode(value, charset) => {
                let charset = charset_named(charset)?.name();
                self.around("convert(", value, &format!(" using {charset})"))
            }
            A::Collate(value, name) => {
                let collation = Collation::from_name(name);
                let collation = collation.ok_or_else(|| SqlError::unknown_collation(name))?;
                // COLLATE binds more tightly than a sign.
                let is_signed = matches!(value.kind, A::Unary(..));
                let [before, after] = if is_signed { ["((", ")"] } else { ["(", ""] };
                self.around(before, value, &format!("{after} collate {})", collation.name()))
            }
            A::Interval { subtract, date, amount, unit } => {
                self.around("(", date, if *subtract { " - interval " } else { " + interval " })?;
                self.around("", amount, &format!(" {})", unit.name().to_lowercase()))
            }
            A::Call(call) => self.call(call),
            A::Row(list) => {
                self.put("(");
                self.list(list, ",")?;
                self.put(")");
                Ok(())
            }
            A::UserVariable(_) | A::Assign(..) | A::SystemVariable(..) => {
                self.refuse(self.of.variable());
                Ok(())
            }
            A::Default(_) => {
                self.refuse_function("default");
                Ok(())
            }
            A::Values(_) => {
                self.refuse_function("values");
                Ok(())
            }
            A::Window(window) => {
                self.refuse_function(&window.call.name);
                Ok(())
            }
            A::InSelect { .. }
            | A::Quantified { .. }
            | A::Select(_)
            | A::Exists(_)
            | A::Param(_)
            | A::Text(_)
            | A::Number(_) => {
                self.refuse(self.of.nameless_function());
                Ok(())
            }
            A::Unsupported(what) => Err(SqlError::unsupported(what)),
        }
    }

    fn terms(&mut self, terms: &'e [ast::Expr], operator: &str) -> Result<()> {
        self.put("(");
        self.list(terms, operator)?;
        self.put(")");
        Ok(())
    }

    /// A literal's text. Its tokens mean the same in every mode, except for strings.
    fn literal(&mut self, number: u32) -> Result<()> {
        let kind = self.binder.parsed.literal_kind(number);
        if !kind.is_string() {
            let token = self.binder.parsed.literals[number as usize];
            let text = token.text(self.binder.parsed.text);
            self.put(&String::from_utf8_lossy(text));
            return Ok(());
        }
        if kind == TokenKind::String
            && self.binder.literal_collation(number).charset() == Charset::Binary
        {
            let value = self.binder.literal_value(number)?;
            self.hex("_binary ", &value.to_bytes());
            return Ok(());
        }
        let text = self.binder.connection_text(number, Charset::Utf8mb4)?;
        self.put("_utf8mb4");
        self.put(&quoted_text(&text));
        Ok(())
    }
    fn introduced(&mut self, charset: Charset, number: u32) -> Result<()> {
        let value = self.binder.literal_value(number)?;
        let bytes = value.to_bytes();
        match std::str::from_utf8(&bytes) {
            Ok(text)
                if (text.is_ascii() || charset == Charset::Utf8mb4)
                    && self.binder.parsed.literal_kind(number).is_string() =>
            {
                let text = format!("_{}{}", charset.name(), quoted_text(text));
                self.put(&text);
            }
            _ => self.hex(&format!("_{} ", charset.name()), &bytes),
        }
        Ok(())
    }
    fn hex(&mut self, introducer: &str, bytes: &[u8]) {
        self.put(introducer);
        self.put("x'");
        bytes.iter().for_each(|b| self.out.text.push_str(&format!("{b:02X}")));
        self.put("'");
    }

    fn cast_type(&self, ty: &CastType) -> Result<String> {
        let sized = |name: &str, size: Option<u32>| match size {
            Some(size) => format!("{name}({size})"),
            None => name.to_string(),
        };
        let fraction = |name: &str, digits: u8| sized(name, (digits > 0).then_some(digits.into()));
        Ok(match ty {
            CastType::Signed => "signed".into(),
            CastType::Unsigned => "unsigned".into(),
            CastType::Char { length, charset, bin } => {
                let charset = match charset {
                    Some(name) => charset_named(name)?,
                    None => self.binder.cx.collation.charset(),
                };
                let bin = if *bin { " binary" } else { "" };
                format!("{} charset {}{bin}", sized("char", *length), charset.name())
            }
            CastType::Binary(length) => sized("binary", *length),
            CastType::Decimal(precision, scale) => format!("decimal({precision},{scale})"),
            CastType::Double => "double".into(),
            CastType::Float => "float".into(),
            CastType::Date => "date".into(),
            CastType::Time(digits) => fraction("time", *digits),
            CastType::DateTime(digits) => fraction("datetime", *digits),
            CastType::Year => "year".into(),
            CastType::Json => "json".into(),
        })
    }

    fn call(&mut self, call: &'e ast::Call) -> Result<()> {
        let known = Function::by_name(&call.name);
        let is_aggregate = call.star || call.distinct || super::view::is_aggregate(&call.name);
        if is_aggregate || known.is_some_and(|f| is_disallowed(f, call)) {
            self.refuse_function(known.map_or(call.name.as_str(), |function| function.name()));
        }
        match (call.name.as_str(), &call.args[..]) {
            ("TRIM" | "LTRIM" | "RTRIM", [value, what]) => {
                let side = match call.name.as_str() {
                    "TRIM" => "both",
                    "LTRIM" => "leading",
                    _ => "trailing",
                };
                self.around(&format!("trim({side} "), what, " from ")?;
                self.around("", value, ")")
            }
            ("EXTRACT", [ast::Expr { kind: A::Text(unit), .. }, value]) => {
                let unit = unit.to_lowercase();
                self.around(&format!("extract({unit} from "), value, ")")
            }
            ("TIMESTAMPDIFF", [ast::Expr { kind: A::Text(unit), .. }, from, to]) => {
                self.around(&format!("timestampdiff({unit},"), from, ",")?;
                self.around("", to, ")")
            }
            ("GET_FORMAT", [ast::Expr { kind: A::Text(of), .. }, place]) => {
                self.around(&format!("get_format({},", of.to_lowercase()), place, ")")
            }
            ("MEMBER OF", [value, array]) => {
                self.around("(", value, " member of (")?;
                self.around("", array, "))")
            }
            ("JSON_VALUE", _) => Err(SqlError::unsupported(match self.of {
                TextOf::Check(_) => "JSON_VALUE in a CHECK constraint",
                TextOf::GeneratedColumn(_) => "JSON_VALUE in a generated column",
                TextOf::Default => "JSON_VALUE in DEFAULT (expression) under this sql_mode",
            })),
            (name, args) => {
                self.put(&name.to_lowercase());
                self.put("(");
                self.list(args, ",")?;
                self.put(")");
                Ok(())
            }
        }
    }
}

/// Whether the value of a call depends on more than its arguments. As in MySQL, it may depend on
/// the session's time zone.
fn is_disallowed(function: Function, call: &ast::Call) -> bool {
    match function {
        Function::ConvertTz | Function::FromUnixTime => false,
        Function::UnixTimestamp => call.args.is_empty(),
        Function::Grouping => true,
        _ => function.purity() != Purity::Pure,
    }
}
fn charset_named(name: &str) -> Result<Charset> {
    Charset::from_name(name).ok_or_else(|| SqlError::unknown_character_set(name))
}

fn operator(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Xor => "xor",
        BinaryOp::Arith(op) => op.sign(),
        BinaryOp::Compare(op) => op.sign(),
    }
}

/// Whether a condition is true, false or unknown, and not a number or another value.
pub(super) fn is_boolean(e: &ast::Expr) -> bool {
    const FUNCTIONS: [&str; 7] = [
        "ISNULL",
        "REGEXP_LIKE",
        "JSON_VALID",
        "JSON_CONTAINS",
        "JSON_CONTAINS_PATH",
        "JSON_OVERLAPS",
        "MEMBER OF",
    ];
    match &e.kind {
        A::Binary(op, ..) => !matches!(op, BinaryOp::Arith(_)),
        A::Unary(op, _) => *op == UnaryOp::Not,
        A::And(_) | A::Or(_) | A::Between { .. } | A::In { .. } | A::InSelect { .. } => true,
        A::Quantified { .. } | A::Exists(_) | A::Like { .. } | A::Regexp { .. } => true,
        A::IsNull { .. } | A::IsTruth { .. } | A::Bool(_) | A::Unsupported(_) => true,
        A::Call(call) => FUNCTIONS.contains(&call.name.as_str()),
        _ => false,
    }
}
