//! The limits of RANGE frames of numbers.
use crate::plan::{ArithOp, CompareAs, CompareOp, Expr, ExprKind, ExprType, Kind};
use redolith_types::Value;

/// The limit `value + n` or `value - n` of a frame of numbers. It is NULL where it is beyond all
/// doubles, as one beyond all dates is. `n` is not negative.
pub(super) fn frame_limit(value: &Expr, n: Expr, subtract: bool) -> Expr {
    let ty = value.ty;
    let arith = |op, sides| Expr::new(ExprKind::Arith { op, sides: Box::new(sides) }, ty);
    let op = if subtract { ArithOp::Subtract } else { ArithOp::Add };
    let limit = arith(op, [value.clone(), n.clone()]);
    if ty.kind != Kind::Double {
        return limit;
    }
    let greatest = Expr::literal(Value::Double(f64::MAX), ty);
    let (op, edge) = match subtract {
        true => (CompareOp::Less, [n, greatest]),
        false => (CompareOp::Greater, [greatest, n]),
    };
    let sides = Box::new([value.clone(), arith(ArithOp::Subtract, edge)]);
    let is_beyond = ExprKind::Compare { op, how: CompareAs::Double, sides };
    let is_beyond = Expr::new(is_beyond, ExprType::boolean().nullable(true));
    let null = Expr::literal(Value::Null, ExprType::null());
    let case = ExprKind::Case {
        operand: None,
        how: CompareAs::ByValue,
        branches: vec![(is_beyond, null)],
        otherwise: Some(Box::new(limit)),
    };
    Expr::new(case, ty)
}
