//! Exact arithmetic. The scale of a result follows MySQL: for + and - the greater scale, for * the
//! sum, at most 30, rounded half away from zero. A quotient has whole groups of nine digits, at
//! least as many as the dividend's scale plus an increment (`div_precision_increment`, 4 by
//! default) requires. A quotient is rounded to this scale when it is shown, but not when the
//! calculation goes on. (MySQL, `do_div_mod` of strings/decimal.c)
use std::cmp::Ordering;

use super::{Decimal, DecimalOverflow, MAX_SCALE, POW10, Wide};

/// Digits that MySQL keeps in a word.
const GROUP: u32 = 9;
/// The maximum of digits after the point to which a quotient is calculated. A result holds fewer,
/// so it is rounded.
const MAX_QUOTIENT_SCALE: u32 = 45;

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
        let scale = self.scale + other.scale;
        if let (Some(a), Some(b)) = (self.coef.to_u64(), other.coef.to_u64())
            && scale <= MAX_SCALE
        {
            let product = u128::from(a) * u128::from(b);
            let negative = self.negative != other.negative && product != 0;
            return Ok(Decimal { coef: Wide::from_u128(product), scale, negative });
        }
        Decimal::build(
            self.coef.mul(other.coef),
            u32::from(self.scale) + u32::from(other.scale),
            self.negative != other.negative,
        )
    }

    /// Divides. `None` for a division by zero.
    pub fn div(
        &self,
        other: &Decimal,
        scale_increment: u8,
    ) -> Option<Result<Decimal, DecimalOverflow>> {
        if other.is_zero() {
            return None;
        }
        let scale = quotient_scale(self.scale, other.scale, scale_increment);
        // self * 10^(scale + other.scale - self.scale) / other. The power is at most 75, so the
        // dividend has at most 140 digits of the 154 that fit.
        let power = scale + u32::from(other.scale) - u32::from(self.scale);
        let dividend = self
            .coef
            .resize::<8>()
            .expect("wider")
            .mul_pow10(power)
            .expect("140 digits fit in 512 bits");
        let quotient = dividend.div_rem(other.coef.resize().expect("wider")).0;
        Some(Decimal::build(quotient, scale, self.negative != other.negative))
    }

    /// The integer part of the quotient (DIV). `None` for a division by zero.
    pub fn div_int(&self, other: &Decimal) -> Option<Result<Decimal, DecimalOverflow>> {
        if other.is_zero() {
            return None;
        }
        let scale = self.scale.max(other.scale);
        let quotient = self.wide_at(scale).div_rem(other.wide_at(scale)).0;
        Some(Decimal::build(quotient, 0, self.negative != other.negative))
    }

    /// The remainder with the sign of the dividend (%, MOD). `None` for a division by zero.
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
        let coef = match scale - self.scale {
            0 => coef,
            power => coef.checked_mul(i128::from(*POW10.get(usize::from(power))?))?,
        };
        Some(if self.negative { -coef } else { coef })
    }

    fn wide_at(&self, scale: u8) -> Wide<8> {
        self.coef
            .resize::<8>()
            .expect("wider")
            .mul_pow10(u32::from(scale - self.scale))
            .expect("95 digits fit in 512 bits")
    }
}

/// The number of digits after the point of a quotient, not fewer than the dividend's: the groups of
/// both sides, and more if the increment requires more.
fn quotient_scale(dividend: u8, divisor: u8, increment: u8) -> u32 {
    let (dividend, divisor) = (u32::from(dividend), u32::from(divisor));
    let groups = dividend.next_multiple_of(GROUP) + divisor.next_multiple_of(GROUP);
    groups
        .max(dividend + divisor + u32::from(increment))
        .next_multiple_of(GROUP)
        .min(MAX_QUOTIENT_SCALE)
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
        assert_eq!(d("10.5").rem(&d("-3")).unwrap().to_string(), "1.5");
        assert_eq!(d("-10.5").div_int(&d("3")).unwrap().unwrap().to_string(), "-3");
        assert!(d("1").div(&d("0.0"), 4).is_none() && d("1").rem(&d("0")).is_none());
    }

    #[test]
    fn quotients_have_whole_groups_of_digits_cut_off() {
        let quotient = |a: &str, b: &str, increment| d(a).div(&d(b), increment).unwrap().unwrap();
        for (a, b, increment, wanted) in [
            ("2", "3", 4, "0.666666666"),
            ("2", "3", 10, "0.666666666666666666"),
            ("1", "7", 0, "0"),
            ("-10.00", "4", 4, "-2.500000000"),
            ("-0.1", "3", 9, "-0.033333333333333333"),
            ("1", "3.00", 4, "0.333333333"),
            ("1.00", "3.00", 4, "0.333333333333333333"),
            // At the limit the result is rounded.
            ("0.0000000000000000000000000001", "0.3", 4, "0.000000000000000000000000000333"),
            ("2.0000000000000000000000000000", "3", 4, "0.666666666666666666666666666667"),
        ] {
            assert_eq!(quotient(a, b, increment).to_string(), wanted, "{a} / {b}");
        }
        let (most, tiny) = (d(&"9".repeat(65)), d("0.000000000000000000000000000001"));
        assert_eq!(quotient(&"9".repeat(65), "1", 30), most);
        assert_eq!(most.div(&tiny, 30), Some(Err(DecimalOverflow)));
        assert_eq!(tiny.div(&most, 30).unwrap().unwrap(), Decimal::ZERO);
        assert_eq!(tiny.div(&tiny, 30).unwrap().unwrap(), d("1"));
        // A known question about MySQL: 14620 / 9432456 / (24250 / 9432456) is 0.60288653.
        let (a, b) = (quotient("14620", "9432456", 4), quotient("24250", "9432456", 4));
        assert_eq!(a.div(&b, 4).unwrap().unwrap().round(8).unwrap().to_string(), "0.60288653");
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
