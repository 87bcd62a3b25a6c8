//! Expressions as text, for messages ("BIGINT value is out of range in '(`db`.`t`.`c` + 1)'").
use super::Row;
use crate::plan::{ArithOp, Expr, ExprKind, UnaryOp};
use redolith_types::Value;
use std::fmt::Write;

/// A message has no more of an expression than this many bytes. What follows is not written, so
/// that neither long literals nor many levels cost anything.
const MOST: usize = 512;

pub fn text(e: &Expr, sources: &[Row<'_>], params: &[Value<'_>]) -> String {
    let mut out = String::new();
    Printer { sources, params, out: &mut out }.print(e);
    out
}

struct Printer<'a> {
    sources: &'a [Row<'a>],
    params: &'a [Value<'a>],
    out: &'a mut String,
}

impl Printer<'_> {
    fn print(&mut self, e: &Expr) {
        if self.out.len() > MOST {
            return;
        }
        match &e.kind {
            ExprKind::Literal(v) => self.value(v),
            ExprKind::Param(n) => match self.params.get(*n as usize) {
                Some(v) => self.value(v),
                None => self.out.push('?'),
            },
            ExprKind::Column { source, column } => match self.sources.get(*source as usize) {
                Some(Row::Stored { def, .. }) => {
                    let name = &def.columns[*column as usize].name;
                    self.write(format_args!("`{}`.`{}`.`{name}`", def.schema, def.name))
                }
                _ => self.write(format_args!("column {column}")),
            },
            ExprKind::Arith { op, sides } => self.sides(sides, arith_sign(*op)),
            ExprKind::Compare { op, sides, .. } => self.sides(sides, op.sign()),
            ExprKind::Unary(UnaryOp::Minus, v) => self.around("-(", v, ")"),
            ExprKind::Unary(UnaryOp::BitNot, v) => self.around("~(", v, ")"),
            ExprKind::Unary(UnaryOp::Not, v) => self.around("(not(", v, "))"),
            ExprKind::Call { function, args } => {
                self.write(format_args!("{}(", function.name().to_lowercase()));
                for (n, arg) in args.iter().enumerate() {
                    if self.out.len() > MOST {
                        return;
                    }
                    self.out.push_str(if n > 0 { "," } else { "" });
                    self.print(arg);
                }
                self.out.push(')');
            }
            ExprKind::Collate(v) => {
                self.around("(", v, "");
                self.write(format_args!(" collate {})", e.ty.collation.name()))
            }
            ExprKind::Hex(v) | ExprKind::Member { number: v, .. } => self.print(v),
            ExprKind::Cast(v) | ExprKind::ConvertTo(v) => self.around("cast(", v, ")"),
            ExprKind::InCharset(met) => self.print(&met.0),
            ExprKind::Transcode(v) => {
                self.around("convert(", v, "");
                self.write(format_args!(" using {})", e.ty.collation.charset().name()))
            }
            ExprKind::UserVariable { name, .. } => self.write(format_args!("(@`{name}`)")),
            ExprKind::SystemVariable { name, .. } => self.write(format_args!("@@{name}")),
            ExprKind::GroupKey(n) => self.write(format_args!("group key {}", n + 1)),
            ExprKind::Window(n) => self.write(format_args!("window function {}", n + 1)),
            ExprKind::Aggregate(n) => self.write(format_args!("aggregate {}", n + 1)),
            _ => self.out.push_str("expression"),
        }
    }
    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        let written = self.out.write_fmt(text);
        debug_assert!(written.is_ok(), "a String takes all text");
    }
    fn value(&mut self, v: &Value<'_>) {
        match v {
            Value::Bytes(text) => {
                let text = String::from_utf8_lossy(&text[..text.len().min(MOST)]);
                self.write(format_args!("'{text}'"))
            }
            v => self.write(format_args!("{v}")),
        }
    }
    fn around(&mut self, before: &str, e: &Expr, behind: &str) {
        self.out.push_str(before);
        self.print(e);
        self.out.push_str(behind);
    }
    fn sides(&mut self, sides: &[Expr; 2], sign: &str) {
        self.around("(", &sides[0], " ");
        self.out.push_str(sign);
        self.around(" ", &sides[1], ")");
    }
}

fn arith_sign(op: ArithOp) -> &'static str {
    match op {
        ArithOp::Add => "+",
        ArithOp::Subtract => "-",
        ArithOp::Multiply => "*",
        ArithOp::Divide => "/",
        ArithOp::IntDivide => "DIV",
        ArithOp::Modulo => "%",
        ArithOp::BitAnd => "&",
        ArithOp::BitOr => "|",
        ArithOp::BitXor => "^",
        ArithOp::ShiftLeft => "<<",
        ArithOp::ShiftRight => ">>",
    }
}
