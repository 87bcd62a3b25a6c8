//! Expressions as text, for messages ("BIGINT value is out of range in '(`db`.`t`.`c` + 1)'").
use super::Row;
use crate::plan::{ArithOp, CompareOp, Expr, ExprKind, UnaryOp};
use redolith_types::Value;

pub fn text(e: &Expr, sources: &[Row<'_>], params: &[Value<'_>]) -> String {
    let print = |e: &Expr| text(e, sources, params);
    let list = |args: &[Expr]| args.iter().map(print).collect::<Vec<_>>().join(",");
    let quoted = |v: &Value<'_>| match v {
        Value::Bytes(_) => format!("'{v}'"),
        v => v.to_string(),
    };
    match &e.kind {
        ExprKind::Literal(v) => quoted(v),
        ExprKind::Param(n) => params.get(*n as usize).map_or("?".into(), quoted),
        ExprKind::Column { source, column } => match sources.get(*source as usize) {
            Some(Row::Stored { def, .. }) => {
                format!("`{}`.`{}`.`{}`", def.schema, def.name, def.columns[*column as usize].name)
            }
            _ => format!("column {column}"),
        },
        ExprKind::Arith { op, sides } => {
            format!("({} {} {})", print(&sides[0]), arith_sign(*op), print(&sides[1]))
        }
        ExprKind::Compare { op, sides, .. } => {
            format!("({} {} {})", print(&sides[0]), compare_sign(*op), print(&sides[1]))
        }
        ExprKind::Unary(UnaryOp::Minus, v) => format!("-({})", print(v)),
        ExprKind::Unary(UnaryOp::BitNot, v) => format!("~({})", print(v)),
        ExprKind::Unary(UnaryOp::Not, v) => format!("(not({}))", print(v)),
        ExprKind::Call { function, args } => {
            format!("{}({})", function.name().to_lowercase(), list(args))
        }
        ExprKind::Collate(v) => format!("({} collate {})", print(v), e.ty.collation.name()),
        ExprKind::Hex(v) | ExprKind::Member { number: v, .. } => print(v),
        ExprKind::Cast(v) | ExprKind::ConvertTo(v) => format!("cast({})", print(v)),
        ExprKind::UserVariable { name, .. } => format!("(@`{name}`)"),
        ExprKind::SystemVariable { name, .. } => format!("@@{name}"),
        ExprKind::GroupKey(n) => format!("group key {}", n + 1),
        ExprKind::Window(n) => format!("window function {}", n + 1),
        ExprKind::Aggregate(n) => format!("aggregate {}", n + 1),
        _ => "expression".into(),
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
fn compare_sign(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "=",
        CompareOp::NullSafeEq => "<=>",
        CompareOp::NotEq => "<>",
        CompareOp::Less => "<",
        CompareOp::LessEq => "<=",
        CompareOp::Greater => ">",
        CompareOp::GreaterEq => ">=",
    }
}
