//! What the client/server protocol says of a column's type: type code, flags, length and character
//! set, as MySQL reports them.
use crate::{Charset, Collation, IntSize, LobSize, SqlType};

/// Column definition flags. Those of `type_info` come from the type; NOT_NULL, keys, AUTO_INCREMENT
/// and defaults are the table's to add.
pub mod flags {
    pub const NOT_NULL: u16 = 1;
    pub const PRI_KEY: u16 = 2;
    pub const UNIQUE_KEY: u16 = 4;
    pub const MULTIPLE_KEY: u16 = 8;
    pub const BLOB: u16 = 16;
    pub const UNSIGNED: u16 = 32;
    pub const ZEROFILL: u16 = 64;
    pub const BINARY: u16 = 128;
    pub const ENUM: u16 = 256;
    pub const AUTO_INCREMENT: u16 = 512;
    pub const TIMESTAMP: u16 = 1024;
    pub const SET: u16 = 2048;
    pub const NO_DEFAULT: u16 = 4096;
    pub const ON_UPDATE_NOW: u16 = 8192;
    pub const NUM: u16 = 32768;
}

/// Column type codes.
pub mod code {
    pub const DECIMAL: u8 = 246;
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const BIT: u8 = 16;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
}

/// `decimals` of FLOAT and DOUBLE without (M,D): as many as there are.
const NOT_FIXED_DECIMALS: u8 = 31;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireType {
    pub code: u8,
    pub flags: u16,
    /// Greatest length in bytes of the text form, in the result's character set.
    pub length: u32,
    /// Collation id; 63 for all that is not character text.
    pub charset: u16,
    pub decimals: u8,
}

impl SqlType {
    /// `results`: the collation text is sent in (character_set_results' default); None: the
    /// column's own (character_set_results = NULL).
    pub fn wire(&self, results: Option<Collation>) -> WireType {
        use SqlType as T;
        let fraction = |fsp: u8| if fsp == 0 { 0 } else { 1 + u32::from(fsp) };
        let (code, length, decimals) = match self {
            T::Int { size, sign, display } => {
                let code = match size {
                    IntSize::Tiny => code::TINY,
                    IntSize::Small => code::SHORT,
                    IntSize::Medium => code::INT24,
                    IntSize::Int => code::LONG,
                    IntSize::Big => code::LONGLONG,
                };
                (code, u32::from(display.unwrap_or_else(|| size.default_display(sign.unsigned))), 0)
            }
            T::Decimal { precision, scale, sign } => {
                let length =
                    u32::from(*precision) + u32::from(*scale > 0) + u32::from(!sign.unsigned);
                (code::DECIMAL, length, *scale)
            }
            T::Float { digits, .. } => (
                code::FLOAT,
                digits.map_or(12, |(m, _)| m.into()),
                digits.map_or(NOT_FIXED_DECIMALS, |(_, d)| d),
            ),
            T::Double { digits, .. } => (
                code::DOUBLE,
                digits.map_or(22, |(m, _)| m.into()),
                digits.map_or(NOT_FIXED_DECIMALS, |(_, d)| d),
            ),
            T::Char { chars, .. } => {
                (code::STRING, self.text_length(u64::from(*chars), results), 0)
            }
            T::VarChar { chars, .. } => {
                (code::VAR_STRING, self.text_length(u64::from(*chars), results), 0)
            }
            T::Text { size: LobSize::Long, .. } => (code::BLOB, u32::MAX, 0),
            T::Text { size, .. } => (code::BLOB, self.text_length(size.max_bytes(), results), 0),
            T::Binary { len } => (code::STRING, *len, 0),
            T::VarBinary { len } => (code::VAR_STRING, *len, 0),
            T::Blob { size } => (code::BLOB, size.max_bytes() as u32, 0),
            T::Date => (code::DATE, 10, 0),
            T::Time { fsp } => (code::TIME, 10 + fraction(*fsp), *fsp),
            T::DateTime { fsp } => (code::DATETIME, 19 + fraction(*fsp), *fsp),
            T::Timestamp { fsp } => (code::TIMESTAMP, 19 + fraction(*fsp), *fsp),
            T::Year => (code::YEAR, 4, 0),
            T::Bit { bits } => (code::BIT, u32::from(*bits), 0),
            T::Enum { names, .. } => {
                let chars = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
                (code::STRING, self.text_length(chars as u64, results), 0)
            }
            T::Set { names, .. } => {
                let chars: usize = names.iter().map(|name| name.chars().count() + 1).sum();
                (code::STRING, self.text_length(chars.saturating_sub(1) as u64, results), 0)
            }
        };
        let charset = self.collation().map_or(Collation::Binary, |own| results.unwrap_or(own)).id();
        WireType { code, flags: self.wire_flags(), length, charset, decimals }
    }

    fn text_length(&self, chars: u64, results: Option<Collation>) -> u32 {
        let charset = results.or(self.collation()).map_or(Charset::Binary, Collation::charset);
        (chars * u64::from(charset.max_len())).min(u64::from(u32::MAX)) as u32
    }

    fn wire_flags(&self) -> u16 {
        use SqlType as T;
        let of_sign = |sign: &crate::Sign| {
            let unsigned = if sign.unsigned { flags::UNSIGNED } else { 0 };
            let zerofill = if sign.zerofill { flags::ZEROFILL } else { 0 };
            flags::NUM | unsigned | zerofill
        };
        let binary = match self.collation() {
            Some(collation) if collation.is_case_insensitive() => 0,
            Some(_) => flags::BINARY,
            None if self.is_string() => flags::BINARY,
            None => 0,
        };
        binary
            | match self {
                T::Int { sign, .. }
                | T::Decimal { sign, .. }
                | T::Float { sign, .. }
                | T::Double { sign, .. } => of_sign(sign),
                T::Text { .. } | T::Blob { .. } => flags::BLOB,
                T::Date | T::Time { .. } | T::DateTime { .. } | T::Timestamp { .. } => {
                    flags::BINARY
                }
                T::Year => flags::NUM | flags::UNSIGNED | flags::ZEROFILL,
                T::Bit { .. } => flags::UNSIGNED,
                T::Enum { .. } => flags::ENUM,
                T::Set { .. } => flags::SET,
                T::Char { .. } | T::VarChar { .. } | T::Binary { .. } | T::VarBinary { .. } => 0,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sign;

    #[test]
    fn as_mysql_reports_them() {
        let utf8 = Some(Collation::Utf8mb4GeneralCi);
        let wire = |ty: SqlType| {
            let w = ty.wire(utf8);
            (w.code, w.flags, w.length, w.charset, w.decimals)
        };
        let collation = Collation::Latin1SwedishCi;
        assert_eq!(wire(SqlType::INT), (3, 32768, 11, 63, 0));
        assert_eq!(wire(SqlType::BIGINT_UNSIGNED), (8, 32800, 20, 63, 0));
        assert_eq!(wire(SqlType::BOOL), (1, 32768, 1, 63, 0));
        assert_eq!(
            wire(SqlType::Decimal { precision: 10, scale: 2, sign: Sign::SIGNED }),
            (246, 32768, 12, 63, 2)
        );
        assert_eq!(wire(SqlType::DOUBLE), (5, 32768, 22, 63, 31));
        assert_eq!(wire(SqlType::VarChar { chars: 20, collation }), (253, 0, 80, 45, 0));
        assert_eq!(
            wire(SqlType::Char { chars: 3, collation: Collation::Utf8mb4Bin }),
            (254, 128, 12, 45, 0)
        );
        assert_eq!(
            wire(SqlType::Text { size: LobSize::Normal, collation }),
            (252, 16, 262_140, 45, 0)
        );
        assert_eq!(wire(SqlType::Blob { size: LobSize::Tiny }), (252, 144, 255, 63, 0));
        assert_eq!(wire(SqlType::DateTime { fsp: 3 }), (12, 128, 23, 63, 3));
        assert_eq!(
            wire(SqlType::Enum { names: vec!["a".into(), "bcd".into()], collation }),
            (254, 256, 12, 45, 0)
        );
        assert_eq!(SqlType::VarChar { chars: 20, collation }.wire(None).charset, 8);
    }
}
