//! Column types: their limits, their text in SHOW CREATE TABLE, and the presentation of stored
//! values.
use std::borrow::Cow;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{Charset, Collation, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum IntSize {
    Tiny,
    Small,
    Medium,
    Int,
    Big,
}

/// TINY.., plain, MEDIUM.. and LONG.. of TEXT and BLOB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LobSize {
    Tiny,
    Normal,
    Medium,
    Long,
}

/// UNSIGNED and ZEROFILL (which implies UNSIGNED).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Sign {
    pub unsigned: bool,
    pub zerofill: bool,
}

impl Sign {
    pub const SIGNED: Sign = Sign { unsigned: false, zerofill: false };
    pub const UNSIGNED: Sign = Sign { unsigned: true, zerofill: false };
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SqlType {
    /// `display`: the width in brackets; shown only for TINYINT(1) and ZEROFILL, as MySQL 8 does.
    Int {
        size: IntSize,
        sign: Sign,
        display: Option<u8>,
    },
    Decimal {
        precision: u8,
        scale: u8,
        sign: Sign,
    },
    /// `digits`: the deprecated (M,D).
    Float {
        digits: Option<(u8, u8)>,
        sign: Sign,
    },
    Double {
        digits: Option<(u8, u8)>,
        sign: Sign,
    },
    Char {
        chars: u32,
        collation: Collation,
    },
    VarChar {
        chars: u32,
        collation: Collation,
    },
    Text {
        size: LobSize,
        collation: Collation,
    },
    Binary {
        len: u32,
    },
    VarBinary {
        len: u32,
    },
    Blob {
        size: LobSize,
    },
    Date,
    Time {
        fsp: u8,
    },
    DateTime {
        fsp: u8,
    },
    /// Values are in UTC; `sql` shifts them to the session's zone.
    Timestamp {
        fsp: u8,
    },
    Year,
    Bit {
        bits: u8,
    },
    /// The names are in UTF-8. A stored value is `Value::UInt`: the position from 1, or 0 for the
    /// empty error value.
    Enum {
        names: Vec<String>,
        collation: Collation,
    },
    /// A stored value is `Value::UInt`: bit i set for `names[i]`.
    Set {
        names: Vec<String>,
        collation: Collation,
    },
    /// A stored value is `Value::Json`.
    Json,
}

impl IntSize {
    pub fn bytes(self) -> usize {
        match self {
            IntSize::Tiny => 1,
            IntSize::Small => 2,
            IntSize::Medium => 3,
            IntSize::Int => 4,
            IntSize::Big => 8,
        }
    }

    pub fn min_signed(self) -> i64 {
        i64::MIN >> (64 - 8 * self.bytes())
    }

    pub fn max_signed(self) -> i64 {
        i64::MAX >> (64 - 8 * self.bytes())
    }

    pub fn max_unsigned(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }

    fn name(self) -> &'static str {
        match self {
            IntSize::Tiny => "tinyint",
            IntSize::Small => "smallint",
            IntSize::Medium => "mediumint",
            IntSize::Int => "int",
            IntSize::Big => "bigint",
        }
    }

    /// The display width that MySQL assumes if none is given.
    pub fn default_display(self, unsigned: bool) -> u8 {
        match (self, unsigned) {
            (IntSize::Tiny, false) => 4,
            (IntSize::Tiny, true) => 3,
            (IntSize::Small, false) => 6,
            (IntSize::Small, true) => 5,
            (IntSize::Medium, false) => 9,
            (IntSize::Medium, true) => 8,
            (IntSize::Int, false) => 11,
            (IntSize::Int, true) => 10,
            (IntSize::Big, _) => 20,
        }
    }
}

impl LobSize {
    pub fn max_bytes(self) -> u64 {
        match self {
            LobSize::Tiny => 0xff,
            LobSize::Normal => 0xffff,
            LobSize::Medium => 0xff_ffff,
            LobSize::Long => 0xffff_ffff,
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            LobSize::Tiny => "tiny",
            LobSize::Normal => "",
            LobSize::Medium => "medium",
            LobSize::Long => "long",
        }
    }
}

impl SqlType {
    pub const BIGINT: SqlType =
        SqlType::Int { size: IntSize::Big, sign: Sign::SIGNED, display: None };
    pub const BIGINT_UNSIGNED: SqlType =
        SqlType::Int { size: IntSize::Big, sign: Sign::UNSIGNED, display: None };
    pub const INT: SqlType = SqlType::Int { size: IntSize::Int, sign: Sign::SIGNED, display: None };
    /// BOOL is TINYINT(1).
    pub const BOOL: SqlType =
        SqlType::Int { size: IntSize::Tiny, sign: Sign::SIGNED, display: Some(1) };
    pub const DOUBLE: SqlType = SqlType::Double { digits: None, sign: Sign::SIGNED };

    /// The type name alone (DATA_TYPE of INFORMATION_SCHEMA.COLUMNS): "varchar", "mediumtext".
    pub fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            SqlType::Int { size, .. } => size.name(),
            SqlType::Decimal { .. } => "decimal",
            SqlType::Float { .. } => "float",
            SqlType::Double { .. } => "double",
            SqlType::Char { .. } => "char",
            SqlType::VarChar { .. } => "varchar",
            SqlType::Text { size, .. } => return Cow::Owned(format!("{}text", size.prefix())),
            SqlType::Blob { size } => return Cow::Owned(format!("{}blob", size.prefix())),
            SqlType::Binary { .. } => "binary",
            SqlType::VarBinary { .. } => "varbinary",
            SqlType::Date => "date",
            SqlType::Time { .. } => "time",
            SqlType::DateTime { .. } => "datetime",
            SqlType::Timestamp { .. } => "timestamp",
            SqlType::Year => "year",
            SqlType::Bit { .. } => "bit",
            SqlType::Enum { .. } => "enum",
            SqlType::Set { .. } => "set",
            SqlType::Json => "json",
        })
    }

    /// The type as SHOW COLUMNS prints it: "int unsigned", "varchar(20)", "enum('a','b')".
    pub fn text(&self) -> String {
        let mut out = self.name().into_owned();
        let sign = match self {
            SqlType::Int { size, sign, display } => {
                let is_bool = *size == IntSize::Tiny && *display == Some(1) && !sign.unsigned;
                if sign.zerofill || is_bool {
                    let width = display.unwrap_or_else(|| size.default_display(sign.unsigned));
                    let _ = write!(out, "({width})");
                }
                *sign
            }
            SqlType::Decimal { precision, scale, sign } => {
                let _ = write!(out, "({precision},{scale})");
                *sign
            }
            SqlType::Float { digits, sign } | SqlType::Double { digits, sign } => {
                if let Some((digits, scale)) = digits {
                    let _ = write!(out, "({digits},{scale})");
                }
                *sign
            }
            SqlType::Char { chars: n, .. }
            | SqlType::VarChar { chars: n, .. }
            | SqlType::Binary { len: n }
            | SqlType::VarBinary { len: n } => {
                let _ = write!(out, "({n})");
                Sign::SIGNED
            }
            SqlType::Time { fsp: n }
            | SqlType::DateTime { fsp: n }
            | SqlType::Timestamp { fsp: n }
                if *n > 0 =>
            {
                let _ = write!(out, "({n})");
                Sign::SIGNED
            }
            SqlType::Bit { bits } => {
                let _ = write!(out, "({bits})");
                Sign::SIGNED
            }
            SqlType::Enum { names, .. } | SqlType::Set { names, .. } => {
                let quoted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
                let _ = write!(out, "({})", quoted.join(","));
                Sign::SIGNED
            }
            _ => Sign::SIGNED,
        };
        out.push_str(if sign.unsigned { " unsigned" } else { "" });
        out.push_str(if sign.zerofill { " zerofill" } else { "" });
        out
    }

    /// The type as SHOW CREATE TABLE prints it: with character set and collation where the
    /// collation differs from the table's. As in MySQL, the collation is also there if it is not
    /// the default of its character set.
    pub fn create_text(&self, table: Collation) -> String {
        let mut out = self.text();
        if let Some(collation) = self.collation() {
            let (charset, default) = (collation.charset(), collation.is_default());
            let differs = collation != table;
            if differs {
                let _ = write!(out, " CHARACTER SET {}", charset.name());
            }
            // The default of utf8mb4 is another one in MySQL 8, so a dump has to name it.
            let is_known = match differs {
                true => default && charset != Charset::Utf8mb4,
                false => default || collation == Collation::Utf8mb4Uca0900AiCi,
            };
            if !is_known {
                let _ = write!(out, " COLLATE {}", collation.name());
            }
        }
        out
    }

    /// The collation of character strings, ENUM and SET. `None` for other types, including binary
    /// strings.
    pub fn collation(&self) -> Option<Collation> {
        match self {
            SqlType::Char { collation, .. }
            | SqlType::VarChar { collation, .. }
            | SqlType::Text { collation, .. }
            | SqlType::Enum { collation, .. }
            | SqlType::Set { collation, .. } => Some(*collation),
            _ => None,
        }
    }

    /// The collation with which values compare: `Binary` for types without a collation.
    pub fn compare_collation(&self) -> Collation {
        self.collation().unwrap_or(Collation::Binary)
    }

    /// Whether the type is one of CHAR to LONGBLOB, whose stored values are `Value::Bytes`.
    pub fn is_string(&self) -> bool {
        matches!(
            self,
            SqlType::Char { .. }
                | SqlType::VarChar { .. }
                | SqlType::Text { .. }
                | SqlType::Binary { .. }
                | SqlType::VarBinary { .. }
                | SqlType::Blob { .. }
        )
    }

    /// Whether the type is one of those whose values have any length.
    pub fn is_lob(&self) -> bool {
        matches!(self, SqlType::Text { .. } | SqlType::Blob { .. } | SqlType::Json)
    }

    pub fn is_integer(&self) -> bool {
        matches!(self, SqlType::Int { .. })
    }

    pub fn is_numeric(&self) -> bool {
        matches!(
            self,
            SqlType::Int { .. }
                | SqlType::Decimal { .. }
                | SqlType::Float { .. }
                | SqlType::Double { .. }
        )
    }

    pub fn is_temporal(&self) -> bool {
        matches!(
            self,
            SqlType::Date
                | SqlType::Time { .. }
                | SqlType::DateTime { .. }
                | SqlType::Timestamp { .. }
        )
    }

    pub fn is_unsigned(&self) -> bool {
        match self {
            SqlType::Int { sign, .. }
            | SqlType::Decimal { sign, .. }
            | SqlType::Float { sign, .. }
            | SqlType::Double { sign, .. } => sign.unsigned,
            SqlType::Year | SqlType::Bit { .. } => true,
            _ => false,
        }
    }

    pub fn is_zerofill(&self) -> bool {
        match self {
            SqlType::Int { sign, .. }
            | SqlType::Decimal { sign, .. }
            | SqlType::Float { sign, .. }
            | SqlType::Double { sign, .. } => sign.zerofill,
            _ => false,
        }
    }

    /// The digits of a fractional second. 0 for types without a fraction.
    pub fn fsp(&self) -> u8 {
        match self {
            SqlType::Time { fsp } | SqlType::DateTime { fsp } | SqlType::Timestamp { fsp } => *fsp,
            _ => 0,
        }
    }

    /// The maximum of bytes of a string value, for limits of row size. `None` for types that are
    /// not strings.
    pub fn max_bytes(&self) -> Option<u64> {
        match self {
            SqlType::Char { chars, collation } | SqlType::VarChar { chars, collation } => {
                Some(u64::from(*chars) * u64::from(collation.charset().max_len()))
            }
            SqlType::Text { size, .. } | SqlType::Blob { size } => Some(size.max_bytes()),
            SqlType::Binary { len } | SqlType::VarBinary { len } => Some(u64::from(*len)),
            SqlType::Json => Some(LobSize::Long.max_bytes()),
            _ => None,
        }
    }

    /// The most characters, or bytes without a character set, of a string that is no TEXT or BLOB.
    pub fn max_chars(&self) -> Option<u32> {
        match self {
            SqlType::Char { chars: n, .. }
            | SqlType::VarChar { chars: n, .. }
            | SqlType::Binary { len: n }
            | SqlType::VarBinary { len: n } => Some(*n),
            _ => None,
        }
    }

    /// Converts a stored value to the form that expressions use: ENUM and SET become their text (in
    /// the column's character set), BIT becomes its bytes, and other values do not change.
    pub fn present<'a>(&'a self, value: Value<'a>) -> Value<'a> {
        match (self, value) {
            (SqlType::Enum { names, collation }, Value::UInt(index)) => {
                let name = usize::try_from(index)
                    .ok()
                    .and_then(|i| names.get(i.wrapping_sub(1)))
                    .map_or("", String::as_str);
                Value::Bytes(Charset::Utf8mb4.convert_lossy(name.as_bytes(), collation.charset()))
            }
            (SqlType::Set { names, collation }, Value::UInt(bits)) => {
                let members: Vec<&str> = names
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| bits >> i & 1 == 1)
                    .map(|(_, name)| name.as_str())
                    .collect();
                Value::Bytes(Cow::Owned(
                    Charset::Utf8mb4
                        .convert_lossy(members.join(",").as_bytes(), collation.charset())
                        .into_owned(),
                ))
            }
            (SqlType::Bit { bits }, Value::UInt(value)) => {
                let bytes = usize::from(*bits).div_ceil(8);
                Value::Bytes(Cow::Owned(value.to_be_bytes()[8 - bytes..].to_vec()))
            }
            (_, value) => value,
        }
    }

    /// Appends a stored value as the text protocol sends it, in the column's character set, with
    /// ZEROFILL, (M,D) and all digits of a fraction. NULL appends nothing.
    pub fn write_text(&self, value: &Value<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        match (self, value) {
            (
                SqlType::Time { fsp } | SqlType::DateTime { fsp } | SqlType::Timestamp { fsp },
                value,
            ) => value.write_text(Some(*fsp), out),
            (SqlType::Float { digits: Some((_, scale)), .. }, Value::Float(f)) => {
                let _ = write!(TextOut(out), "{f:.*}", usize::from(*scale));
            }
            (SqlType::Double { digits: Some((_, scale)), .. }, Value::Double(f)) => {
                let _ = write!(TextOut(out), "{f:.*}", usize::from(*scale));
            }
            (SqlType::Year, Value::UInt(year)) => {
                let _ = write!(TextOut(out), "{year:04}");
            }
            (SqlType::Enum { .. } | SqlType::Set { .. } | SqlType::Bit { .. }, value) => {
                self.present(value.borrow()).write_text(None, out)
            }
            (_, value) => value.write_text(None, out),
        }
        let zerofill_width = match self {
            SqlType::Int { size, sign: Sign { zerofill: true, unsigned }, display } => {
                display.unwrap_or_else(|| size.default_display(*unsigned))
            }
            SqlType::Decimal { precision, scale, sign: Sign { zerofill: true, .. } } => {
                precision + u8::from(*scale > 0)
            }
            SqlType::Float { digits, sign: Sign { zerofill: true, .. } } => {
                digits.map_or(12, |(m, _)| m)
            }
            SqlType::Double { digits, sign: Sign { zerofill: true, .. } } => {
                digits.map_or(22, |(m, _)| m)
            }
            _ => return,
        };
        let missing = usize::from(zerofill_width).saturating_sub(out.len() - start);
        if !matches!(value, Value::Null) {
            out.splice(start..start, std::iter::repeat_n(b'0', missing));
        }
    }
}

/// `fmt::Write` into bytes.
pub(crate) struct TextOut<'a>(pub &'a mut Vec<u8>);

impl std::fmt::Write for TextOut<'_> {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        self.0.extend_from_slice(s.as_bytes());
        Ok(())
    }
}

/// The text in quotes, like MySQL's append_unescaped: a statement that has it reads the same text,
/// unless backslashes are no escapes there (NO_BACKSLASH_ESCAPES).
pub fn quoted(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('\'');
    for c in s.chars() {
        match c {
            '\0' => out.push_str("\\0"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("''"),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_mysqls() {
        let collation = Collation::Utf8mb4GeneralCi;
        let zerofill = Sign { unsigned: true, zerofill: true };
        let texts = [
            (SqlType::INT, "int"),
            (SqlType::BOOL, "tinyint(1)"),
            (SqlType::BIGINT_UNSIGNED, "bigint unsigned"),
            (
                SqlType::Int { size: IntSize::Int, sign: zerofill, display: Some(5) },
                "int(5) unsigned zerofill",
            ),
            (SqlType::Decimal { precision: 10, scale: 2, sign: Sign::SIGNED }, "decimal(10,2)"),
            (SqlType::VarChar { chars: 20, collation }, "varchar(20)"),
            (SqlType::Text { size: LobSize::Medium, collation }, "mediumtext"),
            (SqlType::DateTime { fsp: 6 }, "datetime(6)"),
            (SqlType::Timestamp { fsp: 0 }, "timestamp"),
            (
                SqlType::Enum { names: vec!["a".into(), "it's".into()], collation },
                "enum('a','it''s')",
            ),
            (
                SqlType::Set {
                    names: vec!["\\".into(), "x\ny\r".into(), "\0\t".into()],
                    collation,
                },
                "set('\\\\','x\\ny\\r','\\0\t')",
            ),
        ];
        for (ty, text) in texts {
            assert_eq!(ty.text(), text);
        }
        let latin1_bin = SqlType::Char { chars: 3, collation: Collation::Latin1Bin };
        assert_eq!(
            latin1_bin.create_text(collation),
            "char(3) CHARACTER SET latin1 COLLATE latin1_bin"
        );
        let text = |collation, table| SqlType::VarChar { chars: 3, collation }.create_text(table);
        let (latin1, ai_ci) = (Collation::Latin1SwedishCi, Collation::Utf8mb4Uca0900AiCi);
        for (column, table, wanted) in [
            (Collation::Latin1Bin, latin1, " CHARACTER SET latin1 COLLATE latin1_bin"),
            (Collation::Latin1Bin, Collation::Latin1Bin, " COLLATE latin1_bin"),
            (latin1, collation, " CHARACTER SET latin1"),
            (latin1, latin1, ""),
            (collation, collation, ""),
            (collation, latin1, " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"),
            (collation, ai_ci, " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"),
            (ai_ci, collation, " CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"),
            (ai_ci, ai_ci, ""),
        ] {
            assert_eq!(text(column, table), format!("varchar(3){wanted}"));
        }
    }

    #[test]
    fn stored_values_are_presented() {
        let collation = Collation::Utf8mb4GeneralCi;
        let names = vec!["x".to_string(), "y".into(), "z".into()];
        let text = |ty: &SqlType, value: Value<'_>| {
            let mut out = Vec::new();
            ty.write_text(&value, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&SqlType::Enum { names: names.clone(), collation }, Value::UInt(2)), "y");
        assert_eq!(text(&SqlType::Set { names, collation }, Value::UInt(5)), "x,z");
        assert_eq!(text(&SqlType::Bit { bits: 9 }, Value::UInt(0x141)), "\u{1}A");
        let zerofill = Sign { unsigned: true, zerofill: true };
        assert_eq!(
            text(
                &SqlType::Int { size: IntSize::Int, sign: zerofill, display: Some(5) },
                Value::UInt(42)
            ),
            "00042"
        );
        assert_eq!(text(&SqlType::Year, Value::UInt(0)), "0000");
    }
}
