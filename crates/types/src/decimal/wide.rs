//! Fixed-width unsigned integers for decimals: `N` little-endian 64-bit limbs. Coefficients have 4
//! limbs (10^77), products and quotients 8.

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Wide<const N: usize>(pub [u64; N]);

/// Powers of ten that fit in 64 bits.
pub(crate) const POW10: [u64; 20] = {
    let mut table = [1u64; 20];
    let mut i = 1;
    while i < 20 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

impl<const N: usize> Wide<N> {
    pub const ZERO: Self = Wide([0; N]);

    pub fn from_u128(value: u128) -> Self {
        let mut limbs = [0; N];
        limbs[0] = value as u64;
        limbs[1] = (value >> 64) as u64;
        Wide(limbs)
    }

    pub fn to_u128(self) -> Option<u128> {
        self.0[2..]
            .iter()
            .all(|limb| *limb == 0)
            .then(|| u128::from(self.0[1]) << 64 | u128::from(self.0[0]))
    }

    pub fn to_u64(self) -> Option<u64> {
        self.0[1..].iter().all(|limb| *limb == 0).then_some(self.0[0])
    }

    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|limb| *limb == 0)
    }

    /// The same number in `M` limbs; None if it does not fit.
    pub fn resize<const M: usize>(self) -> Option<Wide<M>> {
        let mut limbs = [0; M];
        let n = N.min(M);
        limbs[..n].copy_from_slice(&self.0[..n]);
        self.0[n..].iter().all(|limb| *limb == 0).then_some(Wide(limbs))
    }

    /// self * factor + addend; None on overflow.
    pub fn mul_add_small(self, factor: u64, addend: u64) -> Option<Self> {
        let mut carry = u128::from(addend);
        let mut limbs = [0; N];
        for (out, limb) in limbs.iter_mut().zip(self.0) {
            carry += u128::from(limb) * u128::from(factor);
            *out = carry as u64;
            carry >>= 64;
        }
        (carry == 0).then_some(Wide(limbs))
    }

    pub fn mul_pow10(self, mut power: u32) -> Option<Self> {
        let mut out = self;
        while power > 0 && !out.is_zero() {
            let step = power.min(19);
            out = out.mul_add_small(POW10[step as usize], 0)?;
            power -= step;
        }
        Some(out)
    }

    pub fn div_rem_small(self, divisor: u64) -> (Self, u64) {
        // A number of one word needs one division of the processor.
        if self.0[1..].iter().all(|limb| *limb == 0) {
            return (Self::from_u128(u128::from(self.0[0] / divisor)), self.0[0] % divisor);
        }
        let mut rest = 0u128;
        let mut limbs = [0; N];
        for i in (0..N).rev() {
            rest = rest << 64 | u128::from(self.0[i]);
            limbs[i] = (rest / u128::from(divisor)) as u64;
            rest %= u128::from(divisor);
        }
        (Wide(limbs), rest as u64)
    }

    pub fn checked_add(self, other: Self) -> Option<Self> {
        let mut carry = false;
        let mut limbs = self.0;
        for (limb, add) in limbs.iter_mut().zip(other.0) {
            let (sum, c1) = limb.overflowing_add(add);
            let (sum, c2) = sum.overflowing_add(u64::from(carry));
            (*limb, carry) = (sum, c1 | c2);
        }
        (!carry).then_some(Wide(limbs))
    }

    /// self - other, which must not be greater.
    pub fn sub(self, other: Self) -> Self {
        let mut borrow = false;
        let mut limbs = self.0;
        for (limb, take) in limbs.iter_mut().zip(other.0) {
            let (diff, b1) = limb.overflowing_sub(take);
            let (diff, b2) = diff.overflowing_sub(u64::from(borrow));
            (*limb, borrow) = (diff, b1 | b2);
        }
        debug_assert!(!borrow);
        Wide(limbs)
    }

    fn bits(&self) -> u32 {
        self.0
            .iter()
            .rposition(|limb| *limb != 0)
            .map_or(0, |i| i as u32 * 64 + 64 - self.0[i].leading_zeros())
    }

    /// Quotient and remainder. Word division where both fit in 128 bits; shift and subtract
    /// otherwise (rare: over 38 digits).
    pub fn div_rem(self, divisor: Self) -> (Self, Self) {
        debug_assert!(!divisor.is_zero());
        if let (Some(a), Some(b)) = (self.to_u128(), divisor.to_u128()) {
            return (Self::from_u128(a / b), Self::from_u128(a % b));
        }
        let (mut quotient, mut rest) = (Self::ZERO, Self::ZERO);
        for bit in (0..self.bits()).rev() {
            let mut carry = self.0[bit as usize / 64] >> (bit % 64) & 1;
            for limb in &mut rest.0 {
                (*limb, carry) = (*limb << 1 | carry, *limb >> 63);
            }
            if rest >= divisor {
                rest = rest.sub(divisor);
                quotient.0[bit as usize / 64] |= 1 << (bit % 64);
            }
        }
        (quotient, rest)
    }
}

impl Wide<4> {
    pub fn mul(self, other: Self) -> Wide<8> {
        let mut limbs = [0u64; 8];
        for i in 0..4 {
            let mut carry = 0u128;
            for j in 0..4 {
                carry += u128::from(self.0[i]) * u128::from(other.0[j]) + u128::from(limbs[i + j]);
                limbs[i + j] = carry as u64;
                carry >>= 64;
            }
            limbs[i + 4] = carry as u64;
        }
        Wide(limbs)
    }
}

impl<const N: usize> PartialOrd for Wide<N> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<const N: usize> Ord for Wide<N> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}
