//! MySQL's packed decimal, used in rows, keys and the binary log. It has `precision - scale` digits
//! before and `scale` digits after the point. Nine digits take 4 bytes, big-endian; the odd digits
//! (the first before, the last after the point) take `ODD_BYTES`. The first bit is inverted, and a
//! negative number has all its bits inverted. So numbers of one type compare as their bytes do.
use super::{Decimal, POW10, Wide};

/// Bytes that 0..=9 odd digits take.
const ODD_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// The most digits of a number whose coefficient fits in 64 bits.
const MOST_SMALL: u8 = 18;

/// Bytes of DECIMAL(precision, scale).
pub const fn packed_len(precision: u8, scale: u8) -> usize {
    let (int, frac) = ((precision - scale) as usize, scale as usize);
    int / 9 * 4 + ODD_BYTES[int % 9] + frac / 9 * 4 + ODD_BYTES[frac % 9]
}

/// The digit counts of the groups of one type, first to last.
fn groups(precision: u8, scale: u8) -> impl DoubleEndedIterator<Item = u8> {
    let (int, frac) = (precision - scale, scale);
    // (odd, nines) before the point; (nines, odd) after it
    let int_nines = std::iter::repeat_n(9, usize::from(int / 9));
    let frac_nines = std::iter::repeat_n(9, usize::from(frac / 9));
    std::iter::once(int % 9).chain(int_nines).chain(frac_nines).chain(std::iter::once(frac % 9))
}

/// Whether `bytes` are the packed form of a number: each group is below 10^digits.
/// [`Decimal::unpack`] believes its bytes, so bytes from outside are asked for first.
pub fn is_packed(precision: u8, scale: u8, bytes: &[u8]) -> bool {
    let negative = bytes[0] & 0x80 == 0;
    let mut at = 0;
    groups(precision, scale).all(|digits| {
        let len = ODD_BYTES[usize::from(digits)];
        let group = bytes[at..at + len].iter().enumerate().fold(0, |group, (i, byte)| {
            let byte = if at + i == 0 { byte ^ 0x80 } else { *byte };
            group << 8 | u64::from(if negative { !byte } else { byte })
        });
        at += len;
        group < POW10[usize::from(digits)]
    })
}

/// The digits of a number as one integer, if the packed form at the start of `bytes` is short, and
/// eight bytes are there.
#[inline]
pub(crate) fn unpack_digits(precision: u8, scale: u8, bytes: &[u8]) -> Option<i64> {
    let len = packed_len(precision, scale);
    let word = bytes.first_chunk().filter(|_| precision <= MOST_SMALL && len <= 8)?;
    Some(unpack_word(precision, scale, *word, len))
}
/// The digits of a number whose packed form is the first `len` of eight bytes. The groups of a
/// damaged form may be too great; then the digits are any.
#[inline]
fn unpack_word(precision: u8, scale: u8, word: [u8; 8], len: usize) -> i64 {
    let word = u64::from_be_bytes(word) ^ 1 << 63;
    let negative = word >> 63 == 1;
    let mut word = (if negative { !word } else { word }) >> (64 - 8 * len);
    // From the last group to the first.
    let (mut coef, mut factor) = (0i64, 1i64);
    let mut group = |digits: u8| {
        let bits = 8 * ODD_BYTES[usize::from(digits)];
        let number = (word & ((1 << bits) - 1)) as i64;
        word >>= bits;
        coef = coef.wrapping_add(number.wrapping_mul(factor));
        factor = factor.wrapping_mul(POW10[usize::from(digits)] as i64);
    };
    let int = precision - scale;
    group(scale % 9);
    (0..scale / 9).for_each(|_| group(9));
    (0..int / 9).for_each(|_| group(9));
    group(int % 9);
    if negative { coef.wrapping_neg() } else { coef }
}

impl Decimal {
    /// Writes the packed form into `out`, which has `packed_len(precision, scale)` bytes. The
    /// number must fit (`fits`).
    pub fn pack(&self, precision: u8, scale: u8, out: &mut [u8]) {
        assert!(self.fits(precision, scale), "DEC: {self} stored as DECIMAL({precision},{scale})");
        assert_eq!(out.len(), packed_len(precision, scale));
        let flip = if self.negative { 0xff } else { 0 };
        let mut rest = self.coef;
        let mut end = out.len();
        for digits in groups(precision, scale).rev() {
            let (quotient, group) = rest.div_rem_small(POW10[usize::from(digits)]);
            rest = quotient;
            let len = ODD_BYTES[usize::from(digits)];
            for (to, from) in
                out[end - len..end].iter_mut().zip(&(group as u32).to_be_bytes()[4 - len..])
            {
                *to = from ^ flip;
            }
            end -= len;
        }
        out[0] ^= 0x80;
    }

    /// Reads the packed form at the start of `bytes`. Invalid digit groups (10^9 and above), which
    /// `pack` never writes, are read as they are.
    pub fn unpack(precision: u8, scale: u8, bytes: &[u8]) -> Decimal {
        if precision <= MOST_SMALL {
            return match unpack_digits(precision, scale, bytes) {
                Some(digits) => Decimal::from_parts(digits.into(), scale),
                None => Decimal::unpack_small(precision, scale, bytes),
            };
        }
        let negative = bytes[0] & 0x80 == 0;
        let flip = if negative { 0xff } else { 0 };
        let (mut small, mut wide) = (0u128, None::<Wide<4>>);
        let mut at = 0;
        for digits in groups(precision, scale) {
            let len = ODD_BYTES[usize::from(digits)];
            let mut group = 0u64;
            for (i, byte) in bytes[at..at + len].iter().enumerate() {
                let byte = if at + i == 0 { byte ^ 0x80 } else { *byte };
                group = group << 8 | u64::from(byte ^ flip);
            }
            at += len;
            let factor = POW10[usize::from(digits)];
            match &mut wide {
                Some(wide) => *wide = wide.mul_add_small(factor, group).unwrap_or(Wide::ZERO),
                None => match small
                    .checked_mul(u128::from(factor))
                    .and_then(|s| s.checked_add(u128::from(group)))
                {
                    Some(next) => small = next,
                    None => wide = Wide::from_u128(small).mul_add_small(factor, group),
                },
            }
        }
        let coef = wide.unwrap_or_else(|| Wide::from_u128(small));
        Decimal { coef, scale, negative: negative && !coef.is_zero() }
    }

    /// [`Self::unpack`] of a number whose digits fit in 64 bits, where its nine bytes, or the few
    /// at the end of a row, are no word.
    #[inline]
    fn unpack_small(precision: u8, scale: u8, bytes: &[u8]) -> Decimal {
        let negative = bytes[0] & 0x80 == 0;
        let flip = if negative { u32::MAX } else { 0 };
        let (mut coef, mut rest) = (0u64, bytes);
        let mut first = 0x80;
        let mut group = |digits: u8| {
            let len = ODD_BYTES[usize::from(digits)];
            let (front, behind) = rest.split_at(len);
            let mut word = [0; 4];
            word[4 - len..].copy_from_slice(front);
            if len > 0 {
                word[4 - len] ^= std::mem::take(&mut first);
            }
            let mask = (1u64 << (8 * len)) - 1;
            let number = u64::from(u32::from_be_bytes(word) ^ flip) & mask;
            coef = coef.wrapping_mul(POW10[usize::from(digits)]).wrapping_add(number);
            rest = behind;
        };
        let int = precision - scale;
        group(int % 9);
        (0..int / 9).for_each(|_| group(9));
        (0..scale / 9).for_each(|_| group(9));
        group(scale % 9);
        Decimal { coef: Wide::from_u128(u128::from(coef)), scale, negative: negative && coef != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    #[test]
    fn the_manuals_example() {
        // Example of the manual's "decimal2bin": 1234567890.1234 as DECIMAL(14,4), and the same
        // negated.
        let number = Decimal::parse(b"1234567890.1234").unwrap();
        let mut out = [0; 8];
        assert_eq!(packed_len(14, 4), 7);
        number.pack(14, 4, &mut out[..7]);
        assert_eq!(out[..7], [0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2]);
        (-number).pack(14, 4, &mut out[..7]);
        assert_eq!(out[..7], [0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d]);
        assert_eq!(Decimal::unpack(14, 4, &out).to_string(), "-1234567890.1234");
    }

    #[test]
    fn every_shape_round_trips_at_its_ends() {
        for precision in 1..=65u8 {
            for scale in 0..=precision.min(30) {
                let mut out = [0x5a; 40];
                let len = packed_len(precision, scale);
                for negative in [false, true] {
                    let number = Decimal::max_value(precision, scale, negative);
                    number.pack(precision, scale, &mut out[..len]);
                    assert!(is_packed(precision, scale, &out[..len]));
                    // The bytes behind it do not count.
                    for end in [len, out.len()] {
                        let read = Decimal::unpack(precision, scale, &out[..end]);
                        assert_eq!(read.to_string(), number.to_string());
                    }
                }
            }
        }
    }

    #[test]
    fn groups_with_too_many_digits_are_no_number() {
        // DECIMAL(10, 0) is a byte of one digit and four bytes of nine digits.
        for (bytes, is_number) in [
            ([0x89, 0x3b, 0x9a, 0xc9, 0xff], true),
            ([0x8a, 0, 0, 0, 0], false),
            ([0x80, 0x3b, 0x9a, 0xca, 0x00], false),
            ([0x76, 0xc4, 0x65, 0x36, 0x00], true),
            ([0x75, 0xff, 0xff, 0xff, 0xff], false),
            ([0x7f, 0xc4, 0x65, 0x35, 0xff], false),
        ] {
            assert_eq!(is_packed(10, 0, &bytes), is_number, "{bytes:x?}");
        }
    }

    /// A number and the same number in a wider type, which takes the long way, are equal: unpacked,
    /// in their order, and as factors and terms.
    #[test]
    fn short_numbers_are_read_and_calculated_as_long_ones() {
        let wide = |n: &Decimal| {
            let mut packed = vec![0; packed_len(40, n.scale())];
            n.pack(40, n.scale(), &mut packed);
            Decimal::unpack(40, n.scale(), &packed)
        };
        let numbers: Vec<Decimal> = [0, 1, 9, 10, 99, 123_456_789, 999_999_999, 1_000_000_000]
            .into_iter()
            .chain([123_456_789_012_345_678, 999_999_999_999_999_999, 100_000_000_000_000_000])
            .flat_map(|n: i128| [n, -n])
            .flat_map(|n| [0, 1, 2, 9, 10, 18].map(|scale| Decimal::from_parts(n, scale)))
            .collect();
        for a in &numbers {
            let mut packed = vec![0; packed_len(18, a.scale())];
            a.pack(18, a.scale(), &mut packed);
            let read = Decimal::unpack(18, a.scale(), &packed);
            assert_eq!((read.to_string(), read.cmp(a)), (a.to_string(), Ordering::Equal));
            assert_eq!(wide(a).to_string(), a.to_string());
            for b in &numbers {
                let by_double = a.to_f64().partial_cmp(&b.to_f64()).unwrap();
                let near = (a.to_f64() - b.to_f64()).abs() <= a.to_f64().abs() * 1e-12;
                assert!(near || a.cmp(b) == by_double, "{a} {b}");
                let difference = a.sub(b).unwrap();
                let sign = match (difference.is_zero(), difference.is_negative()) {
                    (true, _) => Ordering::Equal,
                    (_, true) => Ordering::Less,
                    (_, false) => Ordering::Greater,
                };
                assert_eq!(a.cmp(b), sign, "{a} {b}");
                // (a + 10^20) * b needs more than 64 bits.
                let far = Decimal::from_parts(10i128.pow(20), 0);
                let long = a.add(&far).unwrap().mul(b).unwrap().sub(&far.mul(b).unwrap()).unwrap();
                if a.scale() + b.scale() <= 30 {
                    assert_eq!(a.mul(b).unwrap().to_string(), long.to_string(), "{a} {b}");
                }
            }
        }
    }
}
