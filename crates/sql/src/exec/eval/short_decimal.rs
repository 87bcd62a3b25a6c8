//! Sums, differences and products of short exact numbers. They are calculated as integers, and only
//! the result of a whole tree becomes a value: a value of a DECIMAL is large, and is moved often.
use super::{Eval, Row};
use crate::error::Result;
use crate::plan::expr_type::UNKNOWN_DECIMALS;
use crate::plan::{ArithOp, Expr, ExprKind, Kind};
use redolith_types::decimal::MAX_SCALE;
use redolith_types::{Decimal, Value};

/// `digits` / 10^`scale`. Digits have up to 127 bits, so that they can be negated.
#[derive(Clone, Copy)]
pub(in crate::exec) struct Short {
    digits: i128,
    scale: u8,
}
pub(super) fn has_short_form(op: ArithOp) -> bool {
    matches!(op, ArithOp::Add | ArithOp::Subtract | ArithOp::Multiply)
}
pub(in crate::exec) enum Found {
    Number(Short),
    Null,
    /// Another kind of value or of expression, or too many digits.
    Other,
}

impl<'v> Eval<'v, '_, '_> {
    /// The value of an operation whose type is DECIMAL, if all that it consists of is short; None
    /// if it is to be calculated in the general way, with the same result. Then its sides are not
    /// tried again, or a long sum would be walked once for each of its terms.
    pub(super) fn short_arith(
        &mut self,
        op: ArithOp,
        sides: &'v [Expr; 2],
        node: &'v Expr,
    ) -> Result<Option<Value<'v>>> {
        Ok(match self.short_operation(op, sides, node)? {
            Found::Number(short) => Some(Value::Decimal(short.into())),
            Found::Null => Some(Value::Null),
            Found::Other => None,
        })
    }
    fn short_operation(
        &mut self,
        op: ArithOp,
        sides: &'v [Expr; 2],
        node: &'v Expr,
    ) -> Result<Found> {
        if !has_short_form(op) {
            return Ok(Found::Other);
        }
        let a = match self.short(&sides[0])? {
            Found::Number(a) => a,
            other => return Ok(other),
        };
        let b = match self.short(&sides[1])? {
            Found::Number(b) => b,
            other => return Ok(other),
        };
        let result = match op {
            ArithOp::Multiply => a.times(b),
            ArithOp::Add => a.plus(b),
            _ => a.plus(b.negated()),
        };
        let Some(result) = result else { return Ok(Found::Other) };
        // As in `decimal_arith`: some zeros have no decimals.
        let is_bare = result.digits == 0
            && node.ty.decimals < UNKNOWN_DECIMALS
            && match op {
                ArithOp::Multiply => (a.digits < 0) != (b.digits < 0),
                ArithOp::Subtract => true,
                _ => a.digits != 0,
            };
        let scale = if is_bare { 0 } else { result.scale };
        Ok(Found::Number(Short { digits: result.digits, scale }))
    }
    /// The value of a number that [`Eval::short`] has found to be another: its operands are not
    /// tried again.
    pub(in crate::exec) fn other_number(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        let before = self.is_not_short;
        self.is_not_short |= matches!(&e.kind, ExprKind::Arith { op, .. } if has_short_form(*op));
        let value = self.number(e);
        self.is_not_short = before;
        value
    }
    /// A short number, without a value of it.
    pub(in crate::exec) fn short(&mut self, e: &'v Expr) -> Result<Found> {
        let exact = e.ty.kind == Kind::Decimal || e.ty.kind.is_integer();
        match &e.kind {
            ExprKind::Column { source, column } if exact => {
                self.env.step()?;
                let Some(row) = self.at.sources.get(usize::from(*source)) else {
                    return Ok(Found::Null);
                };
                if let Row::Stored { layout, payload, .. } = row
                    && let Some((digits, scale)) =
                        layout.short_coefficient(payload, usize::from(*column))
                {
                    return Ok(Found::Number(Short { digits: digits.into(), scale }));
                }
                Ok(number(&row.stored(usize::from(*column))))
            }
            ExprKind::Literal(value) if exact => Ok(number(value)),
            ExprKind::Param(n) if exact => Ok(number(&self.at.params[*n as usize])),
            ExprKind::Arith { op, sides } if e.ty.kind == Kind::Decimal => {
                self.env.step()?;
                self.short_operation(*op, sides, e)
            }
            _ => Ok(Found::Other),
        }
    }
}
fn number(value: &Value<'_>) -> Found {
    match value {
        Value::Int(n) => Found::Number(Short { digits: (*n).into(), scale: 0 }),
        Value::UInt(n) => Found::Number(Short { digits: (*n).into(), scale: 0 }),
        Value::Decimal(n) => match n.short_coefficient() {
            Some(digits) => Found::Number(Short { digits, scale: n.scale() }),
            None => Found::Other,
        },
        Value::Null => Found::Null,
        _ => Found::Other,
    }
}
impl Short {
    pub const ZERO: Short = Short { digits: 0, scale: 0 };

    /// None if the value is no number, or has too many digits.
    pub fn of(value: &Value<'_>) -> Option<Short> {
        match number(value) {
            Found::Number(n) => Some(n),
            _ => None,
        }
    }
    fn times(self, other: Short) -> Option<Short> {
        let scale = self.scale + other.scale;
        let digits = self.digits.checked_mul(other.digits)?;
        (scale <= MAX_SCALE && digits != i128::MIN).then_some(Short { digits, scale })
    }
    /// The sum, with the decimals of the side that has more of them; None if it is not short.
    #[inline]
    pub fn plus(self, other: Short) -> Option<Short> {
        let scale = self.scale.max(other.scale);
        let digits = self.at(scale)?.checked_add(other.at(scale)?)?;
        (digits != i128::MIN).then_some(Short { digits, scale })
    }
    pub fn negated(self) -> Short {
        Short { digits: -self.digits, ..self }
    }
    #[inline]
    fn at(self, scale: u8) -> Option<i128> {
        match scale - self.scale {
            0 => Some(self.digits),
            more => self.digits.checked_mul(10i128.checked_pow(more.into())?),
        }
    }
}
impl From<Short> for Decimal {
    fn from(short: Short) -> Decimal {
        Decimal::from_parts(short.digits, short.scale)
    }
}
