//! The parameters of COM_STMT_EXECUTE, decoded into values that borrow from the packet.
//!
//! ```text
//! null bitmap            (n + 7) / 8     bit set: NULL
//! types are sent         1               0: those of the execution before
//! types                  2 x n           MYSQL_TYPE_*, then 0x80 for unsigned; if sent
//! values                 by type         not for NULLs and for parameters that came as long data
//! ```
use super::capabilities::field_type as t;
use super::lenenc::{Malformed, Reader};
use super::temporal;
use redolith_types::{Decimal, Value};
use std::borrow::Cow;

/// A parameter's type as the client binds it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ParameterType {
    pub field_type: u8,
    pub unsigned: bool,
}
impl ParameterType {
    /// Whether the parameter is bytes without a character set.
    pub fn is_binary(self) -> bool {
        matches!(self.field_type, t::TINY_BLOB | t::MEDIUM_BLOB | t::LONG_BLOB | t::BLOB)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadParameters {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The packet has values without types, and no earlier execution has sent types.
    #[error("parameter types were never sent")]
    NoTypes,
    #[error("parameter type {0} is not known")]
    UnknownType(u8),
}

/// The part of the body before the values.
pub struct Parameters<'a> {
    nulls: &'a [u8],
    types: Option<&'a [u8]>,
    values: Reader<'a>,
}

impl<'a> Parameters<'a> {
    /// Reads the part before the values. `body` begins after the iteration count; `n`, the number
    /// of parameters, is above 0.
    pub fn read(body: &'a [u8], n: usize) -> Result<Parameters<'a>, Malformed> {
        let mut r = Reader::new(body);
        let nulls = r.bytes(n.div_ceil(8))?;
        let types = match r.u8()? {
            0 => None,
            1 => Some(r.bytes(2 * n)?),
            _ => return Err(Malformed),
        };
        Ok(Parameters { nulls, types, values: r })
    }

    /// The types sent with this execution, if any.
    pub fn types(&self) -> Option<impl ExactSizeIterator<Item = ParameterType> + Clone + 'a> {
        self.types.map(|t| {
            t.chunks_exact(2)
                .map(|t| ParameterType { field_type: t[0], unsigned: t[1] & 0x80 != 0 })
        })
    }

    /// Appends the values to `out`. `long_data(i)` returns the long data that was sent for
    /// parameter `i`.
    pub fn values(
        mut self,
        types: &[ParameterType],
        long_data: impl Fn(usize) -> Option<&'a [u8]>,
        out: &mut impl Extend<Value<'a>>,
    ) -> Result<(), BadParameters> {
        for (i, ty) in types.iter().enumerate() {
            let value = if let Some(data) = long_data(i) {
                Value::Bytes(Cow::Borrowed(data))
            } else if self.nulls[i / 8] >> (i % 8) & 1 == 1 {
                Value::Null
            } else {
                value(&mut self.values, *ty)?
            };
            out.extend([value]);
        }
        Ok(())
    }
}

fn value<'a>(r: &mut Reader<'a>, ty: ParameterType) -> Result<Value<'a>, BadParameters> {
    Ok(match (ty.field_type, ty.unsigned) {
        (t::NULL, _) => Value::Null,
        (t::TINY, false) => Value::Int(r.u8()? as i8 as i64),
        (t::TINY, true) => Value::UInt(r.u8()? as u64),
        (t::SHORT | t::YEAR, false) => Value::Int(r.u16()? as i16 as i64),
        (t::SHORT | t::YEAR, true) => Value::UInt(r.u16()? as u64),
        (t::LONG | t::INT24, false) => Value::Int(r.u32()? as i32 as i64),
        (t::LONG | t::INT24, true) => Value::UInt(r.u32()? as u64),
        (t::LONGLONG, false) => Value::Int(r.u64()? as i64),
        (t::LONGLONG, true) => Value::UInt(r.u64()?),
        (t::FLOAT, _) => Value::Float(f32::from_bits(r.u32()?)),
        (t::DOUBLE, _) => Value::Double(f64::from_bits(r.u64()?)),
        (t::DATE | t::NEWDATE | t::DATETIME | t::TIMESTAMP, _) => {
            let len = r.u8()?;
            temporal::read_date_time(
                r.bytes(len as usize)?,
                matches!(ty.field_type, t::DATE | t::NEWDATE),
            )?
        }
        (t::TIME, _) => {
            let len = r.u8()?;
            temporal::read_time(r.bytes(len as usize)?)?
        }
        // A DECIMAL arrives as its digits. As a string it would make arithmetic one of DOUBLEs,
        // which rounds money. What is no number is left to the statement as a string.
        (t::DECIMAL | t::NEWDECIMAL, _) => {
            let digits = r.string()?;
            Decimal::parse(digits).map_or(Value::Bytes(Cow::Borrowed(digits)), Value::Decimal)
        }
        (t::VARCHAR | t::VAR_STRING | t::STRING | t::ENUM | t::SET | t::BIT | t::JSON, _)
        | (t::TINY_BLOB | t::MEDIUM_BLOB | t::LONG_BLOB | t::BLOB | t::GEOMETRY, _) => {
            Value::Bytes(Cow::Borrowed(r.string()?))
        }
        (other, _) => return Err(BadParameters::UnknownType(other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<'a>(
        body: &'a [u8],
        types: &[ParameterType],
    ) -> Result<Vec<Value<'a>>, BadParameters> {
        let mut out = Vec::new();
        let p = Parameters::read(body, types.len())?;
        let sent: Option<Vec<_>> = p.types().map(|t| t.collect());
        p.values(sent.as_deref().unwrap_or(types), |_| None, &mut out)?;
        Ok(out)
    }
    fn any(n: usize) -> Vec<ParameterType> {
        vec![ParameterType { field_type: t::LONG, unsigned: false }; n]
    }

    #[test]
    fn integers_of_every_width_and_sign() {
        let mut b = vec![0, 0, 1];
        for (ty, sign) in [
            (t::TINY, 0),
            (t::TINY, 0x80),
            (t::SHORT, 0),
            (t::SHORT, 0x80),
            (t::LONG, 0),
            (t::LONG, 0x80),
            (t::LONGLONG, 0),
            (t::LONGLONG, 0x80),
        ] {
            b.extend([ty, sign]);
        }
        b[0] = 0;
        b.remove(1); // 8 parameters: one byte of bitmap
        b.extend([0xff; 1 + 1 + 2 + 2 + 4 + 4 + 8 + 8]);
        let expected: Vec<Value> = vec![
            Value::Int(-1),
            Value::UInt(255),
            Value::Int(-1),
            Value::UInt(65535),
            Value::Int(-1),
            Value::UInt(u32::MAX as u64),
            Value::Int(-1),
            Value::UInt(u64::MAX),
        ];
        assert_eq!(decode(&b, &any(8)).unwrap(), expected);
    }

    #[test]
    fn nulls_strings_floats_and_long_data() {
        let mut b =
            vec![0b0010, 1, t::VAR_STRING, 0, t::LONG, 0, t::DOUBLE, 0, t::BLOB, 0, t::FLOAT, 0];
        b.extend(b"\x03abc");
        b.extend(2.5f64.to_le_bytes());
        b.extend(1.5f32.to_le_bytes());
        let p = Parameters::read(&b, 5).unwrap();
        let types: Vec<_> = p.types().unwrap().collect();
        let mut out = Vec::new();
        p.values(&types, |i| (i == 3).then_some(&b"long"[..]), &mut out).unwrap();
        assert_eq!(
            out,
            [
                Value::Bytes(b"abc"[..].into()),
                Value::Null,
                Value::Double(2.5),
                Value::Bytes(b"long"[..].into()),
                Value::Float(1.5)
            ]
        );
    }

    #[test]
    fn decimals_are_exact_numbers() {
        let mut b = vec![0, 1, t::NEWDECIMAL, 0, t::DECIMAL, 0, t::NEWDECIMAL, 0];
        b.extend(b"\x1512345678901234567.890\x03-.5\x03abc");
        let decimal = |text: &str| Value::Decimal(Decimal::parse(text.as_bytes()).unwrap());
        let expected =
            [decimal("12345678901234567.890"), decimal("-0.5"), Value::Bytes(b"abc"[..].into())];
        // The scale is that of the digits.
        assert!(matches!(&expected[0], Value::Decimal(d) if d.scale() == 3));
        let got = decode(&b, &any(3)).unwrap();
        assert_eq!(got, expected);
        assert_eq!(got[0].to_bytes(), expected[0].to_bytes());
    }

    #[test]
    fn types_of_the_execution_before_serve_again() {
        let b = [0, 0, 7, 0, 0, 0];
        assert_eq!(decode(&b, &any(1)).unwrap(), [Value::Int(7)]);
        assert!(Parameters::read(&b, 1).unwrap().types().is_none());
        assert_eq!(Parameters::read(&[0, 2], 1).err(), Some(Malformed));
    }

    #[test]
    fn unknown_types_are_refused() {
        assert_eq!(
            decode(&[0, 1, 99, 0, 0, 0, 0, 0], &any(1)),
            Err(BadParameters::UnknownType(99))
        );
    }

    #[test]
    fn random_bodies_never_panic() {
        let mut x = 0x1234_5678_9abc_def1u64;
        let mut random = move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        let mut understood = 0;
        for _ in 0..50_000 {
            let n = 1 + random() as usize % 9;
            let mut b: Vec<u8> = (0..n.div_ceil(8)).map(|_| random() as u8).collect();
            b.push((random() % 8 != 0) as u8);
            for _ in 0..n {
                b.extend([(random() % 256) as u8, random() as u8]);
                if random() % 2 == 0 {
                    let at = b.len() - 2;
                    b[at] = [1, 2, 3, 4, 5, 7, 8, 10, 11, 12, 246, 252, 253, 254]
                        [random() as usize % 14];
                }
            }
            b.extend(
                (0..random() % 60).map(|_| {
                    if random() % 2 == 0 { (random() % 13) as u8 } else { random() as u8 }
                }),
            );
            understood += decode(&b, &any(n)).is_ok() as u32;
        }
        assert!(understood > 100, "the generator makes valid bodies too: {understood}");
    }
}
