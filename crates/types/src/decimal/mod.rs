//! DECIMAL: an exact number of up to 65 digits, at most 30 of them after the point, as an integer
//! coefficient and a scale.
//!
//! DEC-1: the coefficient is below 10^65 and the scale at most 30.
//! DEC-2: zero is never negative.
//! `arith` has + - * / %, `packed` the storage format, this file construction, rounding, comparison
//! and text.
mod arith;
mod packed;
mod wide;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Neg;

use wide::{POW10, Wide};

pub(crate) use packed::unpack_digits;
pub use packed::{is_packed, packed_len};

pub const MAX_PRECISION: u8 = 65;
pub const MAX_SCALE: u8 = 30;

#[derive(Clone, Copy)]
pub struct Decimal {
    coef: Wide<4>,
    scale: u8,
    negative: bool,
}

/// The result of an operation has more than 65 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("DECIMAL value is out of range")]
pub struct DecimalOverflow;

/// 10^n for n <= 77.
fn pow10(n: u32) -> Wide<4> {
    Wide([1, 0, 0, 0]).mul_pow10(n).expect("10^77 fits in 256 bits")
}

/// value / 10^power, rounded half away from zero.
fn div_pow10_rounded<const N: usize>(value: Wide<N>, power: u32) -> Wide<N> {
    if power == 0 {
        return value;
    }
    // Truncate to one digit more than wanted. This digit alone decides the rounding.
    let mut kept = value;
    let mut rest = power - 1;
    while rest > 0 && !kept.is_zero() {
        let step = rest.min(19);
        kept = kept.div_rem_small(POW10[step as usize]).0;
        rest -= step;
    }
    let (quotient, digit) = kept.div_rem_small(10);
    if digit >= 5 { quotient.mul_add_small(1, 1).unwrap_or(quotient) } else { quotient }
}

impl Decimal {
    pub const ZERO: Decimal = Decimal { coef: Wide([0; 4]), scale: 0, negative: false };

    /// Brings any coefficient and scale into DEC-1. Digits after the point that do not fit are
    /// rounded away.
    fn build<const N: usize>(
        coef: Wide<N>,
        scale: u32,
        negative: bool,
    ) -> Result<Decimal, DecimalOverflow> {
        let limit = pow10(u32::from(MAX_PRECISION));
        let mut drop = scale.saturating_sub(u32::from(MAX_SCALE));
        loop {
            if drop > scale {
                return Err(DecimalOverflow);
            }
            match div_pow10_rounded(coef, drop).resize::<4>() {
                Some(fitting) if fitting < limit => {
                    return Ok(Decimal {
                        coef: fitting,
                        scale: (scale - drop) as u8,
                        negative: negative && !fitting.is_zero(),
                    });
                }
                _ => drop += 1,
            }
        }
    }

    /// coefficient / 10^scale; scale at most 30.
    pub fn from_parts(coefficient: i128, scale: u8) -> Decimal {
        assert!(scale <= MAX_SCALE, "DEC-1: scale");
        Decimal {
            coef: Wide::from_u128(coefficient.unsigned_abs()),
            scale,
            negative: coefficient < 0,
        }
    }

    /// The coefficient with its sign, if it has up to 127 bits.
    pub fn short_coefficient(&self) -> Option<i128> {
        let coef = i128::try_from(self.coef.to_u128()?).ok()?;
        Some(if self.negative { -coef } else { coef })
    }
    /// The greatest number of DECIMAL(precision, scale): all nines.
    pub fn max_value(precision: u8, scale: u8, negative: bool) -> Decimal {
        Decimal { coef: pow10(u32::from(precision)).sub(Wide::from_u128(1)), scale, negative }
    }

    pub fn scale(&self) -> u8 {
        self.scale
    }
    /// The number times 10^scale, if it fits.
    pub fn coefficient(&self) -> Option<i128> {
        let coef = i128::try_from(self.coef.to_u128()?).ok()?;
        Some(if self.negative { -coef } else { coef })
    }

    pub fn is_negative(&self) -> bool {
        self.negative
    }

    pub fn is_zero(&self) -> bool {
        self.coef.is_zero()
    }

    /// Number of digits of the coefficient (0 for zero).
    fn digits(&self) -> u32 {
        if let Some(small) = self.coef.to_u128() {
            return small.checked_ilog10().map_or(0, |n| n + 1);
        }
        (39..=u32::from(MAX_PRECISION)).find(|n| self.coef < pow10(*n)).expect("DEC-1")
    }

    /// Digits before the point, at least 0; with `scale` this is the precision MySQL gives a
    /// literal.
    pub fn int_digits(&self) -> u8 {
        self.digits().saturating_sub(u32::from(self.scale)) as u8
    }

    pub fn abs(mut self) -> Decimal {
        self.negative = false;
        self
    }

    /// Rounded (half away from zero) or extended to `scale` digits after the point.
    pub fn round(&self, scale: u8) -> Result<Decimal, DecimalOverflow> {
        let scale = scale.min(MAX_SCALE);
        match scale.cmp(&self.scale) {
            Ordering::Equal => Ok(*self),
            Ordering::Less => {
                let coef = div_pow10_rounded(self.coef, u32::from(self.scale - scale));
                Self::build(coef, u32::from(scale), self.negative)
            }
            Ordering::Greater => {
                let coef = self
                    .coef
                    .mul_pow10(u32::from(scale - self.scale))
                    .filter(|c| *c < pow10(u32::from(MAX_PRECISION)));
                Ok(Decimal { coef: coef.ok_or(DecimalOverflow)?, scale, negative: self.negative })
            }
        }
    }

    /// ROUND(self, places) and TRUNCATE: `places` may be negative (digits before the point). The
    /// scale does not grow.
    pub fn round_to(&self, places: i32, truncate: bool) -> Result<Decimal, DecimalOverflow> {
        if places >= i32::from(self.scale) {
            return Ok(*self);
        }
        let drop = (i32::from(self.scale) - places).clamp(0, 200) as u32;
        let coef = if truncate {
            if drop > 76 { Wide::ZERO } else { self.coef.div_rem(pow10(drop)).0 }
        } else {
            div_pow10_rounded(self.coef, drop)
        };
        let zeros = (-places).clamp(0, 200) as u32;
        Self::build(
            coef.mul_pow10(zeros).ok_or(DecimalOverflow)?,
            places.max(0) as u32,
            self.negative,
        )
    }

    pub fn floor(&self) -> Decimal {
        let whole = self.round_to(0, true).expect("fewer digits");
        if self.negative && whole != *self {
            whole.sub(&Decimal::from(1i64)).unwrap_or(whole)
        } else {
            whole
        }
    }

    pub fn ceil(&self) -> Decimal {
        -(-*self).floor()
    }

    /// Whether the number fits DECIMAL(precision, scale) without losing digits before the point; it
    /// must have that scale already.
    pub fn fits(&self, precision: u8, scale: u8) -> bool {
        self.scale == scale && self.coef < pow10(u32::from(precision))
    }

    /// Parses the number at the start of `text` ([+-]digits[.digits][e[+-]digits], leading spaces
    /// skipped). Returns the value and the number of bytes used (0 if there is no number). Digits
    /// after the 30th place are rounded; a number that is too great gives DecimalOverflow.
    pub fn parse_prefix(text: &[u8]) -> (Result<Decimal, DecimalOverflow>, usize) {
        let start = text.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(text.len());
        let mut at = start;
        let negative = text.get(at) == Some(&b'-');
        if matches!(text.get(at), Some(b'-' | b'+')) {
            at += 1;
        }
        // Up to 130 significant digits are kept exactly; the rest count only for the exponent.
        let (mut coef, mut exponent, mut digits, mut point) =
            (Wide::<8>::ZERO, 0i64, 0usize, false);
        while let Some(&b) = text.get(at) {
            match b {
                b'0'..=b'9' => {
                    digits += 1;
                    match coef.mul_add_small(10, u64::from(b - b'0')) {
                        Some(next) => {
                            coef = next;
                            exponent -= i64::from(point);
                        }
                        None => exponent += i64::from(!point),
                    }
                }
                b'.' if !point => point = true,
                _ => break,
            }
            at += 1;
        }
        if digits == 0 {
            return (Ok(Decimal::ZERO), 0);
        }
        if matches!(text.get(at), Some(b'e' | b'E')) {
            let mut end = at + 1;
            let minus = text.get(end) == Some(&b'-');
            if matches!(text.get(end), Some(b'-' | b'+')) {
                end += 1;
            }
            let first = end;
            let mut power = 0i64;
            while let Some(b) = text.get(end).filter(|b| b.is_ascii_digit()) {
                power = (power * 10 + i64::from(b - b'0')).min(100_000);
                end += 1;
            }
            if end > first {
                exponent += if minus { -power } else { power };
                at = end;
            }
        }
        (Self::from_scientific(coef, exponent, negative), at)
    }

    fn from_scientific(
        coef: Wide<8>,
        exponent: i64,
        negative: bool,
    ) -> Result<Decimal, DecimalOverflow> {
        if coef.is_zero() {
            return Ok(Decimal {
                scale: (-exponent).clamp(0, i64::from(MAX_SCALE)) as u8,
                ..Decimal::ZERO
            });
        }
        match exponent {
            0.. => Self::build(
                coef.mul_pow10(exponent.min(155) as u32).ok_or(DecimalOverflow)?,
                0,
                negative,
            ),
            -400..0 => Self::build(coef, (-exponent) as u32, negative),
            _ => Ok(Decimal { scale: MAX_SCALE, ..Decimal::ZERO }),
        }
    }

    /// The whole text as a number, spaces around it allowed.
    pub fn parse(text: &[u8]) -> Option<Decimal> {
        let (value, used) = Self::parse_prefix(text);
        (used > 0 && text[used..].iter().all(u8::is_ascii_whitespace))
            .then_some(value.ok())
            .flatten()
    }

    pub fn to_f64(&self) -> f64 {
        if let Some(small) = self.coef.to_u128() {
            // Both operands are exact, so one division rounds correctly.
            if small < 1 << 53 && self.scale <= 22 {
                let magnitude = small as f64 / 10f64.powi(i32::from(self.scale));
                return if self.negative { -magnitude } else { magnitude };
            }
        }
        self.to_string().parse().unwrap_or(0.0)
    }

    /// Rounded to an integer; None if out of range.
    pub fn to_i128(&self) -> Option<i128> {
        let whole = div_pow10_rounded(self.coef, u32::from(self.scale)).to_u128()?;
        let whole = i128::try_from(whole).ok()?;
        Some(if self.negative { -whole } else { whole })
    }

    pub fn to_i64(&self) -> Option<i64> {
        self.to_i128().and_then(|n| i64::try_from(n).ok())
    }

    pub fn to_u64(&self) -> Option<u64> {
        self.to_i128().and_then(|n| u64::try_from(n).ok())
    }

    /// Appends the text: all `scale` digits after the point, "0" before it if there are none.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        let mut digits = [b'0'; 80];
        let mut start = digits.len();
        let mut rest = self.coef;
        while !rest.is_zero() {
            let (quotient, mut group) = rest.div_rem_small(POW10[19]);
            rest = quotient;
            for _ in 0..19 {
                if rest.is_zero() && group == 0 {
                    break;
                }
                start -= 1;
                digits[start] = b'0' + (group % 10) as u8;
                group /= 10;
            }
        }
        if self.negative {
            out.push(b'-');
        }
        let point = digits.len() - usize::from(self.scale);
        let start = start.min(point - 1);
        out.extend_from_slice(&digits[start..point]);
        if self.scale > 0 {
            out.push(b'.');
            out.extend_from_slice(&digits[point..]);
        }
    }
}

impl Neg for Decimal {
    type Output = Decimal;

    fn neg(mut self) -> Decimal {
        self.negative = !self.negative && !self.is_zero();
        self
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Decimal {
        Decimal::from_parts(i128::from(value), 0)
    }
}

impl From<u64> for Decimal {
    fn from(value: u64) -> Decimal {
        Decimal::from_parts(i128::from(value), 0)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(70);
        self.write_text(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.negative != other.negative {
            return other.negative.cmp(&self.negative);
        }
        let by = i32::from(self.scale) - i32::from(other.scale);
        let magnitude = match (by, self.coef.to_u64(), other.coef.to_u64()) {
            (0, Some(a), Some(b)) => a.cmp(&b),
            (0, ..) => self.coef.cmp(&other.coef),
            (-19..=19, Some(a), Some(b)) => {
                let grow = |n: u64, by: i32| u128::from(n) * u128::from(POW10[by.max(0) as usize]);
                grow(a, -by).cmp(&grow(b, by))
            }
            // 10^65 * 10^30 needs 316 bits.
            _ => {
                let (a, b): (Wide<8>, Wide<8>) =
                    (self.coef.resize().expect("wider"), other.coef.resize().expect("wider"));
                let grow = |w: Wide<8>, by: i32| {
                    w.mul_pow10(by.max(0) as u32).expect("95 digits fit in 512 bits")
                };
                grow(a, -by).cmp(&grow(b, by))
            }
        };
        if self.negative { magnitude.reverse() } else { magnitude }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Numeric equality: 1.0 equals 1.00.
impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (mut coef, mut scale) = (self.coef, self.scale);
        while scale > 0 {
            let (quotient, digit) = coef.div_rem_small(10);
            if digit != 0 {
                break;
            }
            (coef, scale) = (quotient, scale - 1);
        }
        (coef, scale, self.negative).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn text_round_trips() {
        let nines = "9".repeat(65);
        let fraction = format!("-{}.{}", "1234567".repeat(5), "123456789".repeat(3) + "123");
        for text in [
            "0",
            "0.00",
            "1",
            "-1",
            "123.4500",
            "-0.001",
            "10000000000000000000",
            "100000000000000000000.5",
            &nines,
            &fraction,
        ] {
            assert_eq!(d(text).to_string(), text);
        }
        assert_eq!(d("-0.00").to_string(), "0.00");
        assert_eq!(d(" +.5e1 ").to_string(), "5");
        assert_eq!(d("1.5e-3").to_string(), "0.0015");
        assert_eq!(d("12e3").to_string(), "12000");
        assert_eq!(Decimal::parse_prefix(b"12.5abc").1, 4);
        assert_eq!(Decimal::parse_prefix(b"12e").1, 2);
        assert_eq!(Decimal::parse_prefix(b"abc").1, 0);
        assert_eq!(Decimal::parse(&[b'9'; 66]), None);
        assert_eq!(
            d(&format!("0.{}5", "0".repeat(30))).to_string(),
            format!("0.{}1", "0".repeat(29))
        );
    }

    #[test]
    fn rounds_half_away_from_zero() {
        for (text, scale, wanted) in [
            ("2.5", 0, "3"),
            ("-2.5", 0, "-3"),
            ("2.449", 1, "2.4"),
            ("0.05", 1, "0.1"),
            ("1", 2, "1.00"),
            ("-0.04", 1, "0.0"),
        ] {
            assert_eq!(d(text).round(scale).unwrap().to_string(), wanted);
        }
        assert_eq!(
            Decimal::parse_prefix(format!("{}.5", "9".repeat(65)).as_bytes()),
            (Err(DecimalOverflow), 67)
        );
        assert_eq!(d("1234.5").round_to(-2, false).unwrap().to_string(), "1200");
        assert_eq!(d("1299.5").round_to(-2, true).unwrap().to_string(), "1200");
        assert_eq!(
            (d("-1.5").floor().to_string(), d("-1.5").ceil().to_string()),
            ("-2".into(), "-1".into())
        );
    }

    #[test]
    fn converts() {
        assert_eq!(
            d("123456789012345678901234567890.25").to_f64(),
            123456789012345678901234567890.25
        );
        assert_eq!(d("0.1").to_f64(), 0.1);
        assert_eq!(
            (d("9223372036854775807.4").to_i64(), d("9223372036854775807.5").to_i64()),
            (Some(i64::MAX), None)
        );
        assert_eq!((d("18446744073709551615").to_u64(), d("-1").to_u64()), (Some(u64::MAX), None));
    }

    #[test]
    fn compares_across_scales() {
        assert_eq!(d("1.0"), d("1.000"));
        assert!(d("-1.1") < d("-1.09") && d("0.1") < d("0.11") && d("-5") < d("0.00"));
        assert!(d(&"9".repeat(65)) > d("0.000000000000000000000000000001"));
    }
}
