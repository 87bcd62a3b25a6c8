//! Decimal arithmetic against big integers.
use num_bigint::{BigInt, Sign};
use proptest::prelude::*;
use redolith_types::Decimal;
use redolith_types::decimal::{DecimalOverflow, packed_len};

/// A number as coefficient and scale.
#[derive(Clone, Debug, PartialEq)]
struct Reference {
    coef: BigInt,
    scale: u32,
}

fn ten_to(n: u32) -> BigInt {
    BigInt::from(10).pow(n)
}

/// value / 10^n, half away from zero.
fn rounded_div(value: &BigInt, by: &BigInt) -> BigInt {
    let negative = (value.sign() == Sign::Minus) != (by.sign() == Sign::Minus);
    let (value, by) =
        (BigInt::from(value.magnitude().clone()), BigInt::from(by.magnitude().clone()));
    let q: BigInt = (value * 2 + &by) / (by * 2);
    if negative { -q } else { q }
}

impl Reference {
    fn of(d: &Decimal) -> Reference {
        Reference {
            coef: d.to_string().replace('.', "").parse().unwrap(),
            scale: u32::from(d.scale()),
        }
    }

    /// As a result of `Decimal`: at most 30 digits after the point and 65 in all.
    fn fitted(self) -> Result<Reference, DecimalOverflow> {
        for scale in (0..=self.scale.min(30)).rev() {
            let coef = rounded_div(&self.coef, &ten_to(self.scale - scale));
            if coef.magnitude() < ten_to(65).magnitude() {
                return Ok(Reference { coef, scale });
            }
        }
        Err(DecimalOverflow)
    }

    fn at(&self, scale: u32) -> BigInt {
        &self.coef * ten_to(scale - self.scale)
    }
}

fn decimal() -> impl Strategy<Value = Decimal> {
    let digits = prop_oneof![1..=18usize, 1..=65usize];
    digits
        .prop_flat_map(|n| {
            (
                prop::collection::vec(prop_oneof![0..=9u8, Just(0), Just(9)], n),
                0..=30u32,
                any::<bool>(),
            )
        })
        .prop_map(|(digits, scale, negative)| {
            let digits: String = digits.iter().map(|d| char::from(b'0' + d)).collect();
            Decimal::parse(
                format!("{}{digits}e-{scale}", if negative { "-" } else { "" }).as_bytes(),
            )
            .unwrap()
        })
}

fn check(ours: Result<Decimal, DecimalOverflow>, wanted: Reference) -> Result<(), TestCaseError> {
    prop_assert_eq!(ours.map(|d| Reference::of(&d)), wanted.fitted());
    if let Ok(d) = ours {
        prop_assert!(!(d.is_zero() && d.is_negative()), "DEC-2");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn sums_and_products(a in decimal(), b in decimal()) {
        let (x, y) = (Reference::of(&a), Reference::of(&b));
        let scale = x.scale.max(y.scale);
        check(a.add(&b), Reference { coef: x.at(scale) + y.at(scale), scale })?;
        check(a.sub(&b), Reference { coef: x.at(scale) - y.at(scale), scale })?;
        check(a.mul(&b), Reference { coef: &x.coef * &y.coef, scale: x.scale + y.scale })?;
        prop_assert_eq!(a.cmp(&b), x.at(scale).cmp(&y.at(scale)));
    }

    #[test]
    fn quotients_and_remainders(a in decimal(), b in decimal()) {
        let (x, y) = (Reference::of(&a), Reference::of(&b));
        if b.is_zero() {
            prop_assert!(a.div(&b, 4).is_none() && a.rem(&b).is_none() && a.div_int(&b).is_none());
            return Ok(());
        }
        // The groups of nine digits that both sides take, and as many as 4 digits more ask for.
        let groups = |digits: u32| digits.div_ceil(9) * 9;
        let filled = groups(x.scale) + groups(y.scale);
        let scale = groups(filled.max(x.scale + y.scale + 4)).min(45);
        // x / y = (x.coef / y.coef) * 10^(y.scale - x.scale)
        let coef = (&x.coef * ten_to(scale + y.scale)) / (&y.coef * ten_to(x.scale));
        check(a.div(&b, 4).unwrap(), Reference { coef, scale })?;
        let wide = x.scale.max(y.scale);
        let remainder = Reference { coef: x.at(wide) % y.at(wide), scale: wide };
        prop_assert_eq!(Reference::of(&a.rem(&b).unwrap()), remainder);
        check(a.div_int(&b).unwrap(), Reference { coef: x.at(wide) / y.at(wide), scale: 0 })?;
    }

    #[test]
    fn rounding_and_text(a in decimal(), scale in 0..=30u8) {
        let x = Reference::of(&a);
        prop_assert_eq!(Decimal::parse(a.to_string().as_bytes()), Some(a));
        let to = u32::from(scale);
        let coef = if to >= x.scale {
            x.at(to)
        } else {
            rounded_div(&x.coef, &ten_to(x.scale - to))
        };
        let fits = coef.magnitude() < ten_to(65).magnitude();
        let wanted = if fits { Ok(Reference { coef, scale: to }) } else { Err(DecimalOverflow) };
        prop_assert_eq!(a.round(scale).map(|d| Reference::of(&d)), wanted);
        prop_assert_eq!(a.to_f64(), a.to_string().parse::<f64>().unwrap());
    }

    #[test]
    fn packed_numbers_round_trip_and_order(
        a in decimal(),
        b in decimal(),
        precision in 1..=65u8,
        scale in 0..=30u8,
    ) {
        let scale = scale.min(precision);
        let pack = |d: &Decimal| {
            let fitting = d.round(scale).ok().filter(|d| d.fits(precision, scale))?;
            let mut out = vec![0; packed_len(precision, scale)];
            fitting.pack(precision, scale, &mut out);
            Some((fitting, out))
        };
        let (Some((a, packed_a)), Some((b, packed_b))) = (pack(&a), pack(&b)) else {
            return Ok(());
        };
        prop_assert_eq!(Decimal::unpack(precision, scale, &packed_a).to_string(), a.to_string());
        prop_assert_eq!(packed_a.cmp(&packed_b), a.cmp(&b));
    }

    #[test]
    fn any_text_parses_without_panic(text in "[ +-]?[0-9.]{0,90}(e[+-]?[0-9]{0,7})?.{0,3}") {
        let (number, used) = Decimal::parse_prefix(text.as_bytes());
        prop_assert!(used <= text.len());
        if let Ok(d) = number {
            prop_assert_eq!(Decimal::parse(d.to_string().as_bytes()), Some(d));
        }
    }
}
