//! Arithmetic in BIGINT, BIGINT UNSIGNED, DECIMAL and DOUBLE. The node's type selects the domain.
//! Where a parameter's type was not known, the values select the domain.
use super::Eval;
use super::short_decimal::has_short_form;
use crate::error::{Result, SqlError};
use crate::plan::expr_type::UNKNOWN_DECIMALS;
use crate::plan::{ArithOp, Expr, Kind};
use crate::sql_mode::SqlMode;
use redolith_types::convert::{exact_number, to_decimal, to_f64};
use redolith_types::{Decimal, Value};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Domain {
    Int,
    Decimal,
    Double,
}
fn domain(value: &Value<'_>) -> Domain {
    match value {
        Value::Int(_) | Value::UInt(_) | Value::Date(_) | Value::Null => Domain::Int,
        Value::Decimal(_) => Domain::Decimal,
        Value::Time(t) if t.microseconds() == 0 => Domain::Int,
        Value::DateTime(t) if t.microsecond() == 0 => Domain::Int,
        Value::Time(_) | Value::DateTime(_) => Domain::Decimal,
        Value::Float(_) | Value::Double(_) | Value::Bytes(_) | Value::Json(_) => Domain::Double,
    }
}

/// Turns a time into a number with all the decimals of the time's type.
fn whole_fraction<'x>(value: Value<'x>, e: &Expr) -> Value<'x> {
    if e.ty.decimals == 0 || !e.ty.kind.is_temporal() {
        return value;
    }
    let number = exact_number(&value).and_then(|n| n.round(e.ty.decimals.min(6)).ok());
    number.map_or(value, Value::Decimal)
}

/// The number times ten to a power, with all digits that it has; None if it has too many.
fn times_power_of_ten(value: &Value<'_>, power: i32) -> Option<Decimal> {
    let text = match value {
        Value::Float(_) | Value::Double(_) => format!("{:e}", to_f64(value).value),
        value => format!("{}e0", to_decimal(value).value),
    };
    let (digits, exponent) = text.split_once('e')?;
    let exponent = exponent.parse::<i32>().ok()? + power;
    Decimal::parse(format!("{digits}e{exponent}").as_bytes())
}

/// The bits of all bytes as one number, shifted by `count` bits; what leaves the bytes is lost.
fn shifted(bytes: &[u8], count: u64, left: bool) -> Vec<u8> {
    let whole = usize::try_from(count / 8).map_or(bytes.len(), |n| n.min(bytes.len()));
    let rest = (count % 8) as u32;
    let byte = |at: Option<usize>| at.and_then(|at| bytes.get(at)).map_or(0, |b| u16::from(*b));
    // Each byte of the result is a part of two neighbours.
    if left {
        let pair = |at: usize| byte(Some(at)) << 8 | byte(Some(at + 1));
        (whole..whole + bytes.len()).map(|at| (pair(at) << rest >> 8) as u8).collect()
    } else {
        let pair = |at: usize| byte(at.checked_sub(whole + 1)) << 8 | byte(at.checked_sub(whole));
        (0..bytes.len()).map(|at| (pair(at) >> rest) as u8).collect()
    }
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn arith(
        &mut self,
        op: ArithOp,
        sides: &'v [Expr; 2],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        if node.ty.kind.is_string() {
            return self.bits_of_bytes(op, sides);
        }
        let tried = self.is_not_short;
        if node.ty.kind == Kind::Decimal && has_short_form(op) && !tried {
            if let Some(value) = self.short_arith(op, sides, node)? {
                return Ok(value);
            }
            self.is_not_short = true;
        }
        let a = self.number(&sides[0])?;
        if a.is_null() {
            self.is_not_short = tried;
            return Ok(Value::Null);
        }
        let b = self.number(&sides[1])?;
        self.is_not_short = tried;
        if b.is_null() {
            return Ok(Value::Null);
        }
        match op {
            ArithOp::BitAnd
            | ArithOp::BitOr
            | ArithOp::BitXor
            | ArithOp::ShiftLeft
            | ArithOp::ShiftRight => return self.bits(op, &a, &b),
            ArithOp::IntDivide => return self.int_divide(&a, &b, node),
            _ => {}
        }
        let by_value = sides.iter().any(|s| s.ty.kind == Kind::Null) || node.ty.kind == Kind::Null;
        let domain = match node.ty.kind {
            _ if by_value => domain(&a).max(domain(&b)).max(if op == ArithOp::Divide {
                Domain::Decimal
            } else {
                Domain::Int
            }),
            Kind::Decimal => Domain::Decimal,
            Kind::Float | Kind::Double => Domain::Double,
            _ => Domain::Int,
        };
        match domain {
            Domain::Int => {
                let has_unsigned = matches!((&a, &b), (Value::UInt(_), _) | (_, Value::UInt(_)));
                let subtracts_signed = op == ArithOp::Subtract
                    && self.env.settings.sql_mode.has(SqlMode::NO_UNSIGNED_SUBTRACTION);
                let unsigned = node.ty.unsigned || (by_value && has_unsigned && !subtracts_signed);
                self.int_arith(op, &a, &b, unsigned, node)
            }
            Domain::Decimal => {
                let (a, b) = (whole_fraction(a, &sides[0]), whole_fraction(b, &sides[1]));
                self.decimal_arith(op, &a, &b, node)
            }
            Domain::Double => self.double_arith(op, &a, &b, node),
        }
    }

    fn int_arith(
        &mut self,
        op: ArithOp,
        a: &Value<'v>,
        b: &Value<'v>,
        unsigned: bool,
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        if let (Value::Int(x), Value::Int(y), false) = (a, b, unsigned) {
            let result = match op {
                ArithOp::Add => x.checked_add(*y),
                ArithOp::Subtract => x.checked_sub(*y),
                ArithOp::Multiply => x.checked_mul(*y),
                _ if *y == 0 => return self.divided_by_zero(),
                _ => Some(x.wrapping_rem(*y)),
            };
            return result.map(Value::Int).ok_or_else(|| self.out_of_range("BIGINT", node));
        }
        let (x, y) = (self.integer(a)?, self.integer(b)?);
        let result = match op {
            ArithOp::Add => x.checked_add(y),
            ArithOp::Subtract => x.checked_sub(y),
            ArithOp::Multiply => x.checked_mul(y),
            _ if y == 0 => return self.divided_by_zero(),
            _ => x.checked_rem(y),
        };
        // The remainder takes the sign, and so the type, of the dividend.
        let unsigned = if op == ArithOp::Modulo { matches!(a, Value::UInt(_)) } else { unsigned };
        self.int_result(result, unsigned, node)
    }
    fn int_result(
        &mut self,
        result: Option<i128>,
        unsigned: bool,
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        let fitting = match unsigned {
            true => result.and_then(|n| u64::try_from(n).ok()).map(Value::UInt),
            false => result.and_then(|n| i64::try_from(n).ok()).map(Value::Int),
        };
        fitting.ok_or_else(|| {
            self.out_of_range(if unsigned { "BIGINT UNSIGNED" } else { "BIGINT" }, node)
        })
    }

    fn decimal_arith(
        &mut self,
        op: ArithOp,
        a: &Value<'_>,
        b: &Value<'_>,
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        let (x, y) = (self.decimal(a)?, self.decimal(b)?);
        let result = match op {
            ArithOp::Add => x.add(&y),
            ArithOp::Subtract => x.sub(&y),
            // MySQL returns zero without decimals for a product of -0. A product whose scale is
            // not known (parameterized literals) keeps its own decimals.
            ArithOp::Multiply
                if (x.is_zero() || y.is_zero())
                    && x.is_negative() != y.is_negative()
                    && node.ty.decimals < UNKNOWN_DECIMALS =>
            {
                Ok(Decimal::ZERO)
            }
            ArithOp::Multiply => x.mul(&y),
            ArithOp::Divide => match x.div(&y, self.env.settings.div_precision_increment) {
                Some(quotient) => quotient,
                None => return self.divided_by_zero(),
            },
            _ => match x.rem(&y) {
                Some(rest) => Ok(rest),
                None => return self.divided_by_zero(),
            },
        };
        // The sum of two opposite numbers is zero without decimals, too.
        let result = match result {
            Ok(rest)
                if matches!(op, ArithOp::Add | ArithOp::Subtract)
                    && rest.is_zero()
                    && (op == ArithOp::Subtract || !x.is_zero())
                    && node.ty.decimals < UNKNOWN_DECIMALS =>
            {
                Ok(Decimal::ZERO)
            }
            result => result,
        };
        result.map(Value::Decimal).map_err(|_| self.out_of_range("DECIMAL", node))
    }
    fn double_arith(
        &mut self,
        op: ArithOp,
        a: &Value<'_>,
        b: &Value<'_>,
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        let (x, y) = (self.double(a)?, self.double(b)?);
        let result = match op {
            ArithOp::Add => x + y,
            ArithOp::Subtract => x - y,
            ArithOp::Multiply => x * y,
            _ if y == 0.0 => return self.divided_by_zero(),
            ArithOp::Divide => x / y,
            _ => x % y,
        };
        if result.is_finite() {
            Ok(Value::Double(result))
        } else {
            Err(self.out_of_range("DOUBLE", node))
        }
    }
    /// Evaluates DIV: the integer part of an exact quotient.
    fn int_divide(&mut self, a: &Value<'v>, b: &Value<'v>, node: &'v Expr) -> Result<Value<'v>> {
        let unsigned = node.ty.unsigned;
        if let (Value::Int(_) | Value::UInt(_), Value::Int(_) | Value::UInt(_)) = (a, b) {
            let (x, y) = (self.integer(a)?, self.integer(b)?);
            return if y == 0 {
                self.divided_by_zero()
            } else {
                self.int_result(x.checked_div(y), unsigned, node)
            };
        }
        // MySQL's DECIMAL keeps 80 decimals for such a small divisor, and `Decimal` would keep no
        // digit of it. So both sides are multiplied by a power of ten.
        let mut power = 0;
        if let Value::Float(_) | Value::Double(_) = b {
            let divisor = to_f64(b).value;
            if (1e-80..1e-12).contains(&divisor.abs()) {
                power = -divisor.abs().log10().floor() as i32;
            }
        }
        let (x, y) = match (power, times_power_of_ten(a, power), times_power_of_ten(b, power)) {
            (0, ..) => (self.decimal(a)?, self.decimal(b)?),
            (_, Some(x), Some(y)) => (x, y),
            // So great a quotient is no integer.
            _ => return self.int_result(None, unsigned, node),
        };
        match x.div_int(&y) {
            None => self.divided_by_zero(),
            Some(quotient) => {
                self.int_result(quotient.ok().and_then(|q| q.to_i128()), unsigned, node)
            }
        }
    }

    /// The 64 bits of an operand of a bit operator. A negative integer keeps its bits.
    pub(super) fn bit_operand(&mut self, value: &Value<'_>) -> Result<u64> {
        Ok(match value {
            Value::Int(n) => *n as u64,
            Value::UInt(n) => *n,
            // A double becomes the nearest BIGINT.
            Value::Double(_) | Value::Float(_) => {
                self.integer(value)?.clamp(i64::MIN as i128, i64::MAX as i128) as u64
            }
            value => self.integer(value)?.clamp(i64::MIN as i128, u64::MAX as i128) as u64,
        })
    }
    fn bits(&mut self, op: ArithOp, a: &Value<'_>, b: &Value<'_>) -> Result<Value<'v>> {
        let (x, y) = (self.bit_operand(a)?, self.bit_operand(b)?);
        Ok(Value::UInt(match op {
            ArithOp::BitAnd => x & y,
            ArithOp::BitOr => x | y,
            ArithOp::BitXor => x ^ y,
            ArithOp::ShiftLeft => u32::try_from(y).ok().and_then(|y| x.checked_shl(y)).unwrap_or(0),
            _ => u32::try_from(y).ok().and_then(|y| x.checked_shr(y)).unwrap_or(0),
        }))
    }
    /// A bit operator on binary strings, byte by byte: the result is as long as its operands.
    fn bits_of_bytes(&mut self, op: ArithOp, sides: &'v [Expr; 2]) -> Result<Value<'v>> {
        let Some(a) = self.arg_bytes(&sides[0])? else { return Ok(Value::Null) };
        let combine: fn(u8, u8) -> u8 = match op {
            ArithOp::BitAnd => |a, b| a & b,
            ArithOp::BitOr => |a, b| a | b,
            ArithOp::BitXor => |a, b| a ^ b,
            _ => {
                let count = self.number(&sides[1])?;
                if count.is_null() {
                    return Ok(Value::Null);
                }
                let count = self.bit_operand(&count)?;
                return Ok(Value::owned(shifted(&a, count, op == ArithOp::ShiftLeft)));
            }
        };
        let Some(b) = self.arg_bytes(&sides[1])? else { return Ok(Value::Null) };
        if a.len() != b.len() {
            return Err(SqlError::unequal_bits());
        }
        Ok(Value::owned(a.iter().zip(&*b).map(|(a, b)| combine(*a, *b)).collect()))
    }
    pub(super) fn bit_not(&mut self, e: &'v Expr, node: &'v Expr) -> Result<Value<'v>> {
        if node.ty.kind.is_string() {
            let bytes = self.arg_bytes(e)?;
            return Ok(bytes.map_or(Value::Null, |b| Value::owned(b.iter().map(|b| !b).collect())));
        }
        let value = self.number(e)?;
        if value.is_null() { Ok(Value::Null) } else { Ok(Value::UInt(!self.bit_operand(&value)?)) }
    }
    pub(super) fn negate(&mut self, e: &'v Expr, node: &'v Expr) -> Result<Value<'v>> {
        Ok(match self.number(e)? {
            Value::Null => Value::Null,
            Value::Int(n) => {
                Value::Int(n.checked_neg().ok_or_else(|| self.out_of_range("BIGINT", node))?)
            }
            Value::UInt(n) => match i64::try_from(-(n as i128)) {
                Ok(n) => Value::Int(n),
                // Only a literal has this type: a literal may be any number.
                Err(_) if node.ty.kind == Kind::Decimal => Value::Decimal(-Decimal::from(n)),
                Err(_) => return Err(self.out_of_range("BIGINT", node)),
            },
            Value::Decimal(d) => Value::Decimal(-d),
            Value::Bytes(text) => Value::Double(-self.double(&Value::Bytes(text))?),
            Value::Json(json) => Value::Double(-self.double(&Value::Json(json))?),
            value => match exact_number(&value) {
                Some(d) if d.scale() == 0 => Value::Int(-d.to_i64().unwrap_or(0)),
                Some(d) => Value::Decimal(-d),
                None => Value::Double(-self.double(&value)?),
            },
        })
    }

    pub(super) fn decimal(&mut self, value: &Value<'_>) -> Result<Decimal> {
        if let Value::Decimal(d) = value {
            return Ok(*d);
        }
        let converted = to_decimal(value);
        if converted.truncated {
            self.env.warn(SqlError::truncated_wrong_value("DECIMAL", value))?;
        }
        Ok(converted.value)
    }
    fn divided_by_zero(&mut self) -> Result<Value<'v>> {
        self.env.division_by_zero()?;
        Ok(Value::Null)
    }
    #[cold]
    pub(super) fn out_of_range(&self, kind: &str, node: &Expr) -> SqlError {
        SqlError::value_out_of_range(
            kind,
            super::print::text(node, self.at.sources, self.at.params),
        )
    }
}
