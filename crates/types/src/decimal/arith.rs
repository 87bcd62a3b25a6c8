//! Exact arithmetic. The scale of a result follows MySQL: + and -: the greater of both; *: their sum; /: the dividend's plus an increment
//! (`div_precision_increment`, 4 by default); all at most 30, rounded half away from zero.
use std::cmp::Ordering;

use super::{Decimal, DecimalOverflow, MAX_SCALE, Wide};

impl Decimal {
    pub fn add(&self, other: &Decimal) -> Result<Decimal, DecimalOverflow> {
        let scale = self.scale.max(other.scale);
        // Fast path: both sides and the sum fit in 127 bits.
        if let (Some(a), Some(b)) = (self.small_at(scale), other.small_at(scale))
            && let Some(sum) = a.checked_add(b)
        {
            return Ok(Decimal::from_parts(sum, scale));
        }
        let (a, b) = (self.wide_at(scale), other.wide_at(scale));
        let (coef, negative) = if self.negative == other.negative {
            (a.checked_add(b).ok_or(DecimalOverflow)?, self.negative)
        } else {
            match a.cmp(&b) {
                Ordering::Less => (b.sub(a), other.negative),
                _ => (a.sub(b), self.negative),
            }
        };
        Decimal::build(coef, u32::from(scale), negative)
    }

    pub fn sub(&self, other: &Decimal) -> Result<Decimal, DecimalOverflow> {
        self.add(&-*other)
    }

    pub fn mul(&self, other: &Decimal) -> Result<Decimal, DecimalOverflow> {
        Decimal::build(self.coef.mul(other.coef), u32::from(self.scale) + u32::from(other.scale), self.negative != other.negative)
    }

    /// None: division by zero.
    pub fn div(&self, other: &Decimal, scale_increment: u8) -> Option<Result<Decimal, DecimalOverflow>> {
        if other.is_zero() {
            return None;
        }
        let scale = self.scale.saturating_add(scale_increment).min(MAX_SCALE);
        // self * 10^(scale + 1 + other.scale - self.scale) / other: one digit more than wanted, which decides the rounding.
        // The power is at least 1 and at most 61, so the dividend has at most 126 digits of the 154 that fit.
        let power = u32::from(scale) + 1 + u32::from(other.scale) - u32::from(self.scale);
        let dividend = self.coef.resize::<8>().expect("wider").mul_pow10(power).expect("126 digits fit in 512 bits");
        let quotient = dividend.div_rem(other.coef.resize().expect("wider")).0;
        let negative = self.negative != other.negative;
        let rounded = super::div_pow10_rounded(quotient, 1);
        Some(Decimal::build(rounded, u32::from(scale), negative))
    }

    /// Integer part of the quotient (DIV); None: division by zero.
    pub fn div_int(&self, other: &Decimal) -> Option<Result<Decimal, DecimalOverflow>> {
        if other.is_zero() {
            return None;
        }
        let scale = self.scale.max(other.scale);
        let quotient = self.wide_at(scale).div_rem(other.wide_at(scale)).0;
        Some(Decimal::build(quotient, 0, self.negative != other.negative))
    }

    /// Remainder with the sign of the dividend (%, MOD); None: division by zero.
    pub fn rem(&self, other: &Decimal) -> Option<Decimal> {
        if other.is_zero() {
            return None;
        }
        let scale = self.scale.max(other.scale);
        let rest = self.wide_at(scale).div_rem(other.wide_at(scale)).1;
        let coef = rest.resize::<4>().expect("a remainder has at most as many digits as one side");
        Some(Decimal { coef, scale, negative: self.negative && !coef.is_zero() })
    }

    fn small_at(&self, scale: u8) -> Option<i128> {
        let coef = i128::try_from(self.coef.to_u128()?).ok()?;
        let coef = if scale == self.scale { coef } else { coef.checked_mul(10i128.checked_pow(u32::from(scale - self.scale))?)? };
        Some(if self.negative { -coef } else { coef })
    }

    fn wide_at(&self, scale: u8) -> Wide<8> {
        self.coef.resize::<8>().expect("wider").mul_pow10(u32::from(scale - self.scale)).expect("95 digits fit in 512 bits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn scales_follow_mysql() {
        assert_eq!(d("1.50").add(&d("2.5")).unwrap().to_string(), "4.00");
        assert_eq!(d("1.5").mul(&d("-2.55")).unwrap().to_string(), "-3.825");
        assert_eq!(d("2").div(&d("3"), 4).unwrap().unwrap().to_string(), "0.6667");
        assert_eq!(d("-10.00").div(&d("4"), 4).unwrap().unwrap().to_string(), "-2.500000");
        assert_eq!(d("10.5").rem(&d("-3")).unwrap().to_string(), "1.5");
        assert_eq!(d("-10.5").div_int(&d("3")).unwrap().unwrap().to_string(), "-3");
        assert!(d("1").div(&d("0.0"), 4).is_none() && d("1").rem(&d("0")).is_none());
    }

    #[test]
    fn overflow_is_reported_and_fraction_digits_give_way_first() {
        let max = d(&"9".repeat(65));
        assert_eq!(max.add(&d("1")), Err(DecimalOverflow));
        assert_eq!(max.mul(&d("10")), Err(DecimalOverflow));
        assert_eq!(max.mul(&d("1.00")).unwrap().to_string(), "9".repeat(65));
        assert_eq!(max.sub(&max).unwrap().to_string(), "0");
        let tiny = d("0.000000000000000000000000000001");
        assert_eq!(tiny.mul(&tiny).unwrap().to_string(), format!("0.{}", "0".repeat(30)));
    }
}
