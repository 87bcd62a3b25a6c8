//! Functions of numbers.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::exec::env::next_random;
use crate::plan::{Expr, Function, Kind};
use redolith_types::convert::to_number;
use redolith_types::{Decimal, Value};
use std::sync::LazyLock;

/// The remainder of each byte by the CRC-32 polynomial (IEEE 802.3).
const CRC32: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut c = n as u32;
        let mut k = 0;
        while k < 8 {
            c = if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 };
            k += 1;
        }
        table[n] = c;
        n += 1;
    }
    table
};
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |c, b| CRC32[((c ^ *b as u32) & 0xff) as usize] ^ (c >> 8))
}

impl<'v> Eval<'v, '_, '_> {
    /// An argument as a number. A text becomes a double.
    fn arg_number(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        let value = self.number(e)?;
        if let Value::Bytes(_) = value {
            return Ok(Value::Double(self.double(&value)?));
        }
        Ok(to_number(&value).value)
    }

    pub(super) fn numeric_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        use Function as F;
        let f: fn(f64) -> Option<f64> = match function {
            F::Abs => return self.abs(&args[0], node),
            F::Ceiling | F::Floor => return self.whole(function == F::Ceiling, &args[0], node),
            F::Round | F::Truncate => return self.round(function == F::Truncate, args, node),
            F::Sign => {
                return Ok(match self.arg_number(&args[0])? {
                    Value::Null => Value::Null,
                    number => Value::Int(
                        number.compare(&Value::Int(0), redolith_types::Collation::Binary) as i64,
                    ),
                });
            }
            F::FormatBytes | F::FormatPicoTime => {
                let Some(n) = self.arg_double(&args[0])? else { return Ok(Value::Null) };
                let text = match function {
                    F::FormatBytes => super::units::bytes(n),
                    _ => super::units::picoseconds(n),
                };
                return Ok(Value::owned(text.into_bytes()));
            }
            F::Pi => return Ok(Value::Double(std::f64::consts::PI)),
            F::Power => {
                let (Some(a), Some(b)) = (self.arg_double(&args[0])?, self.arg_double(&args[1])?)
                else {
                    return Ok(Value::Null);
                };
                return self.finite(a.powf(b), node);
            }
            F::Atan if args.len() == 2 => {
                let (Some(a), Some(b)) = (self.arg_double(&args[0])?, self.arg_double(&args[1])?)
                else {
                    return Ok(Value::Null);
                };
                return Ok(Value::Double(a.atan2(b)));
            }
            F::Log if args.len() == 2 => {
                let (Some(base), Some(x)) =
                    (self.arg_double(&args[0])?, self.arg_double(&args[1])?)
                else {
                    return Ok(Value::Null);
                };
                if base > 0.0 && base != 1.0 && x > 0.0 {
                    return Ok(Value::Double(x.ln() / base.ln()));
                }
                self.env.warn(SqlError::no_logarithm())?;
                return Ok(Value::Null);
            }
            F::Rand => return self.rand(args, node),
            F::Crc32 => {
                return Ok(self
                    .arg_bytes(&args[0])?
                    .map_or(Value::Null, |b| Value::UInt(crc32(&b) as u64)));
            }
            F::BitCount if args[0].ty.is_binary() => {
                let Some(bytes) = self.arg_bytes(&args[0])? else { return Ok(Value::Null) };
                return Ok(Value::Int(bytes.iter().map(|b| i64::from(b.count_ones())).sum()));
            }
            F::BitCount => {
                let value = self.number(&args[0])?;
                return Ok(if value.is_null() {
                    Value::Null
                } else {
                    Value::Int(self.bit_operand(&value)?.count_ones() as i64)
                });
            }
            F::Sqrt => |x| (x >= 0.0).then(|| x.sqrt()),
            F::Exp => |x| Some(x.exp()),
            F::Ln | F::Log => |x| (x > 0.0).then(|| x.ln()),
            // This is MySQL's formula. Its last digit may differ from the exact logarithm.
            F::Log2 => |x| (x > 0.0).then(|| x.ln() / std::f64::consts::LN_2),
            F::Log10 => |x| (x > 0.0).then(|| x.log10()),
            F::Sin => |x| Some(x.sin()),
            F::Cos => |x| Some(x.cos()),
            F::Tan => |x| Some(x.tan()),
            F::Cot => |x| Some(1.0 / x.tan()),
            F::Asin => |x| (x.abs() <= 1.0).then(|| x.asin()),
            F::Acos => |x| (x.abs() <= 1.0).then(|| x.acos()),
            F::Atan => |x| Some(x.atan()),
            F::Degrees => |x| Some(x.to_degrees()),
            _ => |x| Some(x.to_radians()),
        };
        let x = self.arg_double(&args[0])?;
        if matches!(function, F::Ln | F::Log | F::Log2 | F::Log10) && x.is_some_and(|x| x <= 0.0) {
            self.env.warn(SqlError::no_logarithm())?;
        }
        match x.and_then(f) {
            Some(x) => self.finite(x, node),
            None => Ok(Value::Null),
        }
    }
    fn finite(&mut self, x: f64, node: &'v Expr) -> Result<Value<'v>> {
        if x.is_finite() { Ok(Value::Double(x)) } else { Err(self.out_of_range("DOUBLE", node)) }
    }

    fn abs(&mut self, e: &'v Expr, node: &'v Expr) -> Result<Value<'v>> {
        Ok(match self.arg_number(e)? {
            Value::Int(n) => {
                Value::Int(n.checked_abs().ok_or_else(|| self.out_of_range("BIGINT", node))?)
            }
            Value::Decimal(d) => Value::Decimal(d.abs()),
            Value::Double(x) => Value::Double(x.abs()),
            other => other,
        })
    }
    /// CEILING and FLOOR. The result is an integer if it fits into one.
    fn whole(&mut self, up: bool, e: &'v Expr, node: &'v Expr) -> Result<Value<'v>> {
        Ok(match self.arg_number(e)? {
            Value::Double(x) => Value::Double(if up { x.ceil() } else { x.floor() }),
            Value::Decimal(d) => {
                let d = if up { d.ceil() } else { d.floor() };
                match (node.ty.kind, d.to_i64(), d.to_u64()) {
                    (Kind::Decimal, ..) => Value::Decimal(d),
                    (_, Some(n), _) => Value::Int(n),
                    (_, None, Some(n)) => Value::UInt(n),
                    _ => return Err(self.out_of_range("BIGINT", node)),
                }
            }
            other => other,
        })
    }
    fn round(&mut self, truncate: bool, args: &'v [Expr], node: &'v Expr) -> Result<Value<'v>> {
        let value = self.arg_number(&args[0])?;
        let places = match args.get(1) {
            None => 0,
            Some(e) => match self.arg_int(e)? {
                None => return Ok(Value::Null),
                Some(n) => n.clamp(-400, 400) as i32,
            },
        };
        Ok(match value {
            Value::Null => Value::Null,
            Value::Double(x) => return self.finite(round_double(x, places, truncate), node),
            Value::Decimal(d) => {
                let rounded =
                    d.round_to(places, truncate).map_err(|_| self.out_of_range("DECIMAL", node))?;
                let scale =
                    if node.ty.kind == Kind::Decimal { node.ty.decimals } else { rounded.scale() };
                Value::Decimal(rounded.round(scale).unwrap_or(rounded))
            }
            value if places >= 0 => value,
            value => {
                let n = redolith_types::convert::exact_number(&value).unwrap_or(Decimal::ZERO);
                let rounded = n.round_to(places, truncate).ok();
                let unsigned = matches!(value, Value::UInt(_));
                let fitting = match unsigned {
                    true => rounded.and_then(|r| r.to_u64()).map(Value::UInt),
                    false => rounded.and_then(|r| r.to_i64()).map(Value::Int),
                };
                fitting.ok_or_else(|| {
                    self.out_of_range(if unsigned { "BIGINT UNSIGNED" } else { "BIGINT" }, node)
                })?
            }
        })
    }

    /// RAND(n) gives the same sequence for the same n, from MySQL's two linear generators. If n
    /// may differ from row to row, each row begins a sequence.
    fn rand(&mut self, args: &'v [Expr], node: &'v Expr) -> Result<Value<'v>> {
        const MAX: u64 = 0x3fff_ffff;
        let Some(e) = args.first() else { return Ok(Value::Double(self.env.random())) };
        let place = std::ptr::from_ref(node).addr();
        let begun = self.env.seeded.get(&place).filter(|_| !e.differs_by_row());
        let mut seeds = match begun {
            Some(begun) => *begun,
            None => {
                let seed = self.arg_int(e)?.unwrap_or(0) as u32 as u64;
                (
                    (seed * 0x10001 + 55_555_555) as u32 as u64 % MAX,
                    (seed * 0x1000_0001) as u32 as u64 % MAX,
                )
            }
        };
        let next = next_random(&mut seeds);
        self.env.seeded.insert(place, seeds);
        Ok(Value::Double(next))
    }
}

/// The nearest double to each power of ten. Repeated multiplication by ten would not give it.
static POWERS_OF_TEN: LazyLock<Vec<f64>> =
    LazyLock::new(|| (0..309).filter_map(|n| format!("1e{n}").parse().ok()).collect());

pub(super) fn round_double(x: f64, places: i32, truncate: bool) -> f64 {
    let Some(&unit) = POWERS_OF_TEN.get(places.unsigned_abs() as usize) else {
        return if places > 0 { x } else { 0.0 };
    };
    let scaled = if places >= 0 { x * unit } else { x / unit };
    if !scaled.is_finite() {
        return x;
    }
    let whole = if truncate { scaled.trunc() } else { scaled.round_ties_even() };
    if places >= 0 { whole / unit } else { whole * unit }
}

#[cfg(test)]
mod tests {
    #[test]
    fn crc_of_the_check_string() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(super::crc32(b""), 0);
    }
}
