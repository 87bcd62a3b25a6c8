//! Bound expressions as SQL, in the words of MySQL's notes.
//!
//! Each operation has its own parentheses. An expression of the select list or of GROUP BY stands
//! where the plan has its place; a subquery is `(select #2)`, by the number of its block.
use super::Meter;
use super::place::{ColumnName, Meaning, Place, Rows, Within};
use crate::error::Result;
use crate::exec::show::{quoted_name, quoted_text};
use crate::parse::reserved::is_reserved;
use crate::plan::{
    Aggregate, AggregateCall, Edge, Expr, ExprKind, ExprType, Frame, Function, Kind, SortKey,
    Subquery, SubqueryTest, UnaryOp, VariableScope, WindowCall, WindowFunction, WindowSort,
    WindowStage,
};
use redolith_types::{Charset, Value};
use std::collections::HashMap;

/// Expressions within expressions from this depth on are left out: what stands for another is
/// written within it, so their heights add up.
const MOST_DEPTH: u32 = crate::parse::MAX_HEIGHT;

/// How names are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Names {
    /// `t.a`: the table's alias and the column, in backticks where they need them.
    Short,
    /// `` `db`.`t`.`a` ``
    Full,
}

/// Writes expressions.
pub(super) struct Writer<'w, 'm> {
    pub out: String,
    names: Names,
    /// The numbers of the blocks of subqueries, by slot.
    ids: &'w HashMap<u16, i64>,
    meter: &'w mut (dyn Meter + 'm),
    paid: usize,
    depth: u32,
}

impl<'w, 'm> Writer<'w, 'm> {
    pub fn new(
        names: Names,
        ids: &'w HashMap<u16, i64>,
        meter: &'w mut (dyn Meter + 'm),
    ) -> Writer<'w, 'm> {
        Writer { out: String::new(), names, ids, meter, paid: 0, depth: 0 }
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }
    /// A name of one part.
    pub fn name(&mut self, name: &str) {
        push_name(self.names, name, &mut self.out);
    }
    fn column(&mut self, name: &ColumnName<'_>) {
        let schema = name.schema.filter(|_| self.names == Names::Full);
        for (n, part) in [schema, name.table, Some(name.column)].into_iter().flatten().enumerate() {
            self.put(if n > 0 { "." } else { "" });
            self.name(part);
        }
    }

    /// `before value after`
    fn around(&mut self, before: &str, e: &Expr, after: &str, at: &Place<'_, '_>) -> Result<()> {
        self.put(before);
        self.expr(e, at)?;
        self.put(after);
        Ok(())
    }
    fn infix(&mut self, sides: &[Expr; 2], sign: &str, at: &Place<'_, '_>) -> Result<()> {
        self.around("(", &sides[0], " ", at)?;
        self.put(sign);
        self.around(" ", &sides[1], ")", at)
    }
    pub fn list<'e>(
        &mut self,
        list: impl IntoIterator<Item = &'e Expr>,
        between: &str,
        at: &Place<'_, '_>,
    ) -> Result<()> {
        for (n, e) in list.into_iter().enumerate() {
            self.put(if n > 0 { between } else { "" });
            self.expr(e, at)?;
        }
        Ok(())
    }
    /// Conditions that must all hold.
    pub fn all<'e>(
        &mut self,
        conditions: impl IntoIterator<Item = &'e Expr>,
        at: &Place<'_, '_>,
    ) -> Result<()> {
        let mut parts = Vec::new();
        for condition in conditions {
            match &condition.kind {
                ExprKind::And(list) => parts.extend(list),
                _ => parts.push(condition),
            }
        }
        match &parts[..] {
            [only] => self.expr(only, at),
            parts => {
                self.put("(");
                self.list(parts.iter().copied(), " and ", at)?;
                self.put(")");
                Ok(())
            }
        }
    }

    pub fn expr(&mut self, e: &Expr, at: &Place<'_, '_>) -> Result<()> {
        let new = self.out.len().saturating_sub(self.paid);
        self.paid = self.out.len();
        self.meter.pay(new + 1)?;
        if self.depth >= MOST_DEPTH {
            self.put("...");
            return Ok(());
        }
        self.depth += 1;
        let written = self.node(e, at);
        self.depth -= 1;
        written
    }

    fn node(&mut self, e: &Expr, at: &Place<'_, '_>) -> Result<()> {
        use ExprKind as K;
        match &e.kind {
            K::Literal(value) => self.literal(value, &e.ty),
            K::Param(_) => self.put("?"),
            K::Column { .. } | K::GroupKey(_) | K::Outer(_) => return self.placed(e, at),
            K::Aggregate(n) => {
                match at.grouping().and_then(|grouping| grouping.aggregates.get(*n as usize)) {
                    Some(call) => return self.aggregate(call, at),
                    None => self.put("?"),
                }
            }
            K::Window(_) => self.put("?"),
            K::InsertedValue(n) => match &at.rows {
                Rows::Table(access) if (*n as usize) < access.table.def.columns.len() => {
                    self.put("values(");
                    self.name(&access.table.def.columns[*n as usize].name);
                    self.put(")");
                }
                _ => self.put("values(?)"),
            },
            K::UserVariable { name, .. } => {
                self.put("(@");
                push_name(Names::Short, name, &mut self.out);
                self.put(")");
            }
            K::AssignUserVariable(name, value) => {
                self.put("(@");
                push_name(Names::Short, name, &mut self.out);
                return self.around(":=", value, ")", at);
            }
            K::SystemVariable { scope, name } => {
                self.put(match scope {
                    VariableScope::Either => "@@",
                    VariableScope::Session => "@@session.",
                    VariableScope::Global => "@@global.",
                });
                push_name(Names::Short, name, &mut self.out);
            }
            K::Unary(UnaryOp::Not, value) => return self.around("(not(", value, "))", at),
            K::Unary(UnaryOp::Minus, value) => return self.around("-(", value, ")", at),
            K::Unary(UnaryOp::BitNot, value) => return self.around("~(", value, ")", at),
            K::Arith { op, sides } => return self.infix(sides, op.sign(), at),
            K::Compare { op, sides, .. } => return self.infix(sides, op.sign(), at),
            K::Between { negated, args, .. } => {
                let word = if *negated { " not between " } else { " between " };
                self.around("(", &args[0], word, at)?;
                self.around("", &args[1], " and ", at)?;
                return self.around("", &args[2], ")", at);
            }
            K::In { negated, value, list, .. } => {
                self.around("(", value, if *negated { " not in (" } else { " in (" }, at)?;
                self.list(list, ",", at)?;
                self.put("))");
            }
            K::Like { negated, escape, sides, .. } => {
                self.around(if *negated { "(not((" } else { "(" }, &sides[0], " like ", at)?;
                let pattern = match &sides[1].kind {
                    K::Call { function: Function::LikePattern, args } => &args[0],
                    _ => &sides[1],
                };
                self.expr(pattern, at)?;
                if let Some(c) = escape.filter(|c| *c != '\\') {
                    self.put(" escape ");
                    let quoted = one_line(&quoted_text(&c.to_string()));
                    self.put(&quoted);
                }
                self.put(if *negated { ")))" } else { ")" });
            }
            K::Regexp { negated, sides, .. } => {
                let [before, after] =
                    if *negated { ["(not(regexp_like(", ")))"] } else { ["regexp_like(", ")"] };
                self.around(before, &sides[0], ",", at)?;
                return self.around("", &sides[1], after, at);
            }
            K::IsNull { negated, value } => {
                let after = if *negated { " is not null)" } else { " is null)" };
                return self.around("(", value, after, at);
            }
            K::IsTruth { negated, truth, value } => {
                let not = if *negated { "not " } else { "" };
                return self.around("(", value, &format!(" is {not}{truth})"), at);
            }
            K::And(list) | K::Or(list) => {
                let word = if matches!(e.kind, K::And(_)) { " and " } else { " or " };
                self.put("(");
                self.list(list, word, at)?;
                self.put(")");
            }
            K::Xor(sides) => return self.infix(sides, "xor", at),
            K::Case { operand, branches, otherwise, .. } => {
                self.put("(case");
                if let Some(operand) = operand {
                    self.around(" ", operand, "", at)?;
                }
                for (when, then) in branches {
                    self.around(" when ", when, " then ", at)?;
                    self.expr(then, at)?;
                }
                if let Some(otherwise) = otherwise {
                    self.around(" else ", otherwise, "", at)?;
                }
                self.put(" end)");
            }
            K::Cast(value) => {
                self.around("cast(", value, " as ", at)?;
                let name = cast_name(&e.ty);
                self.put(&name);
                self.put(")");
            }
            K::Transcode(value) => {
                let after = format!(" using {})", e.ty.collation.charset().name());
                return self.around("convert(", value, &after, at);
            }
            K::Hex(bytes) => match bytes.as_literal() {
                Some(value) => {
                    self.put("0x");
                    self.hex(&value.to_bytes());
                }
                None => return self.expr(bytes, at),
            },
            K::Collate(value) => {
                let after = format!(" collate {})", e.ty.collation.name());
                return self.around("(", value, &after, at);
            }
            K::ConvertTo(value) => return self.expr(value, at),
            K::InCharset(met) => return self.expr(&met.0, at),
            K::Member { number, .. } => return self.expr(number, at),
            K::Interval { subtract, unit, sides } => {
                let sign = if *subtract { " - interval " } else { " + interval " };
                self.around("(", &sides[0], sign, at)?;
                return self.around(
                    "",
                    &sides[1],
                    &format!(" {})", unit.name().to_lowercase()),
                    at,
                );
            }
            K::Call { function, args } => return self.call(*function, args, at),
            K::Subquery(query) => return self.subquery(query, at),
        }
        Ok(())
    }

    /// A node that is a place in rows.
    fn placed(&mut self, e: &Expr, at: &Place<'_, '_>) -> Result<()> {
        match at.meaning(e) {
            Meaning::Name(name) => self.column(&name),
            Meaning::Other(other, Within::Here) => return self.expr(other, at),
            Meaning::Other(other, Within::Outside(place)) => return self.expr(other, place),
            Meaning::Other(other, Within::Inner(plan)) => {
                return self.expr(other, &at.with(plan));
            }
            Meaning::Window(stage, sort, call) => return self.window(stage, sort, call, at),
            Meaning::Unknown => self.put("?"),
        }
        Ok(())
    }

    fn literal(&mut self, value: &Value<'_>, ty: &ExprType) {
        let mut text = Vec::new();
        let quoted = match value {
            Value::Null => return self.put("NULL"),
            Value::Bytes(bytes) => return self.string(bytes, ty),
            Value::Json(_) => ["cast('", "' as json)"],
            Value::Date(_) => ["DATE'", "'"],
            Value::Time(_) => ["TIME'", "'"],
            Value::DateTime(_) => ["TIMESTAMP'", "'"],
            Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::Double(_) => ["", ""],
            Value::Decimal(_) => ["", ""],
        };
        value.write_text(None, &mut text);
        let text = String::from_utf8_lossy(&text);
        self.put(quoted[0]);
        match value {
            Value::Json(_) => {
                let inside = one_line(&quoted_text(&text));
                self.put(&inside[1..inside.len() - 1]);
            }
            _ => self.put(&text),
        }
        self.put(quoted[1]);
    }
    fn string(&mut self, bytes: &[u8], ty: &ExprType) {
        let charset = ty.collation.charset();
        let text = match charset {
            Charset::Binary => None,
            charset => charset.convert(bytes, Charset::Utf8mb4).ok(),
        };
        match text.as_deref().and_then(|text| std::str::from_utf8(text).ok()) {
            Some(text) => {
                let text = one_line(&quoted_text(text));
                self.put(&text);
            }
            None if bytes.is_ascii() && !bytes.iter().any(u8::is_ascii_control) => {
                let text = quoted_text(&String::from_utf8_lossy(bytes));
                self.put(&text);
            }
            None => {
                self.put("0x");
                self.hex(bytes);
            }
        }
    }
    fn hex(&mut self, bytes: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in bytes {
            self.out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            self.out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }

    fn call(&mut self, function: Function, args: &[Expr], at: &Place<'_, '_>) -> Result<()> {
        let unit = |e: &Expr| {
            let text = e.as_literal().map(Value::to_bytes).unwrap_or_default();
            one_line(&String::from_utf8_lossy(&text)).to_lowercase()
        };
        match (function, args) {
            (Function::LikePattern, [pattern, ..]) => self.expr(pattern, at),
            (Function::JsonValue, [document, path, ..]) => {
                self.around("json_value(", document, ", ", at)?;
                self.around("", path, ")", at)
            }
            (Function::JsonMember, [value, array]) => {
                self.around("(", value, " member of (", at)?;
                self.around("", array, "))", at)
            }
            (Function::Trim | Function::TrimLeading | Function::TrimTrailing, [value, what]) => {
                let side = match function {
                    Function::Trim => "both",
                    Function::TrimLeading => "leading",
                    _ => "trailing",
                };
                self.around(&format!("trim({side} "), what, " from ", at)?;
                self.around("", value, ")", at)
            }
            (Function::Extract, [of, value]) => {
                self.around(&format!("extract({} from ", unit(of)), value, ")", at)
            }
            (Function::TimestampDiff, [of, from, to]) => {
                self.around(&format!("timestampdiff({},", unit(of)), from, ",", at)?;
                self.around("", to, ")", at)
            }
            (Function::GetFormat, [of, place]) => {
                self.around(&format!("get_format({},", unit(of)), place, ")", at)
            }
            // The first argument is the number of the keys by which the group is grouped.
            (Function::Grouping, [_, places @ ..]) => {
                let keys = at.grouping().map_or(&[][..], |grouping| &grouping.keys);
                let place = |e: &Expr| match e.as_literal() {
                    Some(Value::Int(n)) => keys.get(*n as usize),
                    Some(Value::UInt(n)) => keys.get(*n as usize),
                    _ => None,
                };
                self.put("grouping(");
                self.list(places.iter().filter_map(place), ",", at)?;
                self.put(")");
                Ok(())
            }
            (function, args) => {
                self.put(&function.name().to_lowercase());
                self.put("(");
                self.list(args, ",", at)?;
                self.put(")");
                Ok(())
            }
        }
    }

    /// An aggregate. Its arguments are expressions before grouping.
    pub fn aggregate(&mut self, call: &AggregateCall, at: &Place<'_, '_>) -> Result<()> {
        self.put(aggregate_name(call.function));
        self.put("(");
        self.put(if call.distinct { "distinct " } else { "" });
        let values = &call.args[..(call.values as usize).min(call.args.len())];
        if call.args.is_empty() {
            self.put("0");
        }
        self.list(values, ",", at)?;
        if !call.order.is_empty() {
            self.put(" order by ");
            let key = |k: &SortKey| call.args.get(k.output as usize);
            self.keys(call.order.iter().filter_map(|k| Some((key(k)?, k.descending))), at)?;
        }
        if call.function == Aggregate::GroupConcat {
            self.put(" separator ");
            self.string(&call.separator, &call.ty);
        }
        self.put(")");
        Ok(())
    }
    /// Sort keys: `t.a, t.b DESC`.
    pub fn keys<'e>(
        &mut self,
        keys: impl Iterator<Item = (&'e Expr, bool)>,
        at: &Place<'_, '_>,
    ) -> Result<()> {
        for (n, (key, descending)) in keys.enumerate() {
            self.put(if n > 0 { ", " } else { "" });
            self.expr(key, at)?;
            self.put(if descending { " DESC" } else { "" });
        }
        Ok(())
    }

    pub fn window(
        &mut self,
        stage: &WindowStage,
        sort: &WindowSort,
        call: &WindowCall,
        at: &Place<'_, '_>,
    ) -> Result<()> {
        let needed = at.with_rows(Rows::Needed(stage, sort));
        match &call.function {
            WindowFunction::Aggregate(of) => self.aggregate(of, &needed)?,
            function => {
                self.put(window_name(function));
                self.put("(");
                let (value, default) = call.args.split_at(call.args.len().min(1));
                self.list(value.iter().chain(&call.number).chain(default), ",", &needed)?;
                self.put(")");
            }
        }
        let outputs = &stage.inner.output;
        let inner = at.with(&stage.inner);
        self.put(" OVER (");
        let mut space = "";
        if !sort.partition.is_empty() {
            self.put("PARTITION BY ");
            let keys = sort.partition.iter().filter_map(|c| outputs.get(*c as usize));
            self.list(keys, ",", &inner)?;
            space = " ";
        }
        if !sort.order.is_empty() {
            self.put(space);
            self.put("ORDER BY ");
            let key = |k: &SortKey| Some((outputs.get(k.output as usize)?, k.descending));
            self.keys(sort.order.iter().filter_map(key), &inner)?;
            space = " ";
        }
        self.frame(&call.frame, space, &needed)?;
        self.put(")");
        Ok(())
    }
    fn frame(&mut self, frame: &Frame, space: &str, at: &Place<'_, '_>) -> Result<()> {
        let by_rows = |edge: &Edge| matches!(edge, Edge::Row | Edge::Rows { .. });
        let is_default = matches!(frame.start, Edge::Unbounded)
            && matches!(frame.end, Edge::Unbounded | Edge::Peers);
        if is_default {
            return Ok(());
        }
        self.put(space);
        let rows = by_rows(&frame.start) || by_rows(&frame.end);
        self.put(if rows { "ROWS BETWEEN " } else { "RANGE BETWEEN " });
        self.edge(&frame.start, "UNBOUNDED PRECEDING", at)?;
        self.put(" AND ");
        self.edge(&frame.end, "UNBOUNDED FOLLOWING", at)
    }
    fn edge(&mut self, edge: &Edge, unbounded: &str, at: &Place<'_, '_>) -> Result<()> {
        match edge {
            Edge::Unbounded => self.put(unbounded),
            Edge::Row | Edge::Peers => self.put("CURRENT ROW"),
            Edge::Rows { number, before } => {
                let side = if *before { " PRECEDING" } else { " FOLLOWING" };
                return self.around("", number, side, at);
            }
            // The value at which the frame begins or ends.
            Edge::Value { limit, .. } => return self.expr(limit, at),
        }
        Ok(())
    }

    /// `(select #2)`
    pub fn select_number(&mut self, slot: u16) {
        let id = self.ids.get(&slot).copied().unwrap_or(0);
        self.put(&format!("(select #{id})"));
    }
    fn subquery(&mut self, query: &Subquery, at: &Place<'_, '_>) -> Result<()> {
        let slot = query.body.slot;
        match &query.test {
            SubqueryTest::Scalar => self.select_number(slot),
            SubqueryTest::Exists => {
                self.put("exists");
                self.select_number(slot);
            }
            SubqueryTest::In { negated, values } => {
                let is_row = values.len() != 1;
                self.put(if is_row { "((" } else { "(" });
                self.list(values.iter().map(|(value, _)| value), ",", at)?;
                self.put(if is_row { ")" } else { "" });
                self.put(if *negated { " not in " } else { " in " });
                self.select_number(slot);
                self.put(")");
            }
            SubqueryTest::Quantified { op, all, value, .. } => {
                let word = if *all { "all" } else { "any" };
                self.around("(", value, &format!(" {} {word} ", op.sign()), at)?;
                self.select_number(slot);
                self.put(")");
            }
        }
        Ok(())
    }
}

/// A text of which every character stands on one line (EXPLAIN-2).
pub(super) fn one_line(text: &str) -> String {
    let is_break = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if !text.contains(is_break) {
        return text.to_string();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_break(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Appends a name.
pub(super) fn push_name(names: Names, name: &str, out: &mut String) {
    let is_plain = |c: char| match c {
        '\u{2028}' | '\u{2029}' => false,
        c => c.is_ascii_alphanumeric() || c == '_' || c == '$' || c > '\u{9f}',
    };
    let needs_quotes = name.is_empty()
        || !name.chars().all(is_plain)
        || name.bytes().all(|b| b.is_ascii_digit())
        || is_reserved(name.as_bytes());
    if names == Names::Short && !needs_quotes {
        return out.push_str(name);
    }
    out.push_str(&one_line(&quoted_name(name)));
}

/// The type of a CAST.
fn cast_name(ty: &ExprType) -> String {
    let sized = |name: &str, size: u32| match size {
        0 | u32::MAX => name.to_string(),
        size => format!("{name}({size})"),
    };
    match ty.kind {
        Kind::Date => "date".into(),
        Kind::Time => sized("time", ty.decimals.into()),
        Kind::DateTime | Kind::Timestamp => sized("datetime", ty.decimals.into()),
        Kind::Float => "float".into(),
        Kind::Double => "double".into(),
        Kind::Year => "year".into(),
        Kind::Json => "json".into(),
        Kind::Decimal => {
            let (whole, scale) = ty.digits();
            format!("decimal({},{scale})", whole + u32::from(scale))
        }
        kind if kind.is_integer() => (if ty.unsigned { "unsigned" } else { "signed" }).into(),
        _ if ty.is_binary() => "binary".into(),
        _ => format!("char charset {}", ty.collation.charset().name()),
    }
}

pub(super) fn aggregate_name(function: Aggregate) -> &'static str {
    match function {
        Aggregate::Count => "count",
        Aggregate::Sum => "sum",
        Aggregate::Avg => "avg",
        Aggregate::Min => "min",
        Aggregate::Max => "max",
        Aggregate::AnyValue => "any_value",
        Aggregate::BitAnd => "bit_and",
        Aggregate::BitOr => "bit_or",
        Aggregate::BitXor => "bit_xor",
        Aggregate::StdDevPop => "std",
        Aggregate::StdDevSamp => "stddev_samp",
        Aggregate::VarPop => "variance",
        Aggregate::VarSamp => "var_samp",
        Aggregate::GroupConcat => "group_concat",
        Aggregate::JsonArrayAgg => "json_arrayagg",
        Aggregate::JsonObjectAgg => "json_objectagg",
    }
}
/// The name of a window function; that of an aggregate without its arguments.
pub(super) fn window_name(function: &WindowFunction) -> &'static str {
    match function {
        WindowFunction::RowNumber => "row_number",
        WindowFunction::Rank => "rank",
        WindowFunction::DenseRank => "dense_rank",
        WindowFunction::PercentRank => "percent_rank",
        WindowFunction::CumeDist => "cume_dist",
        WindowFunction::Ntile => "ntile",
        WindowFunction::Lag => "lag",
        WindowFunction::Lead => "lead",
        WindowFunction::FirstValue => "first_value",
        WindowFunction::LastValue => "last_value",
        WindowFunction::NthValue => "nth_value",
        WindowFunction::Aggregate(call) => aggregate_name(call.function),
    }
}
