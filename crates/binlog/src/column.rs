//! The columns of a table as TABLE_MAP events describe them.
//!
//! The type byte and the metadata bytes of a column, which together are its [`Kind`]:
//!
//! | type | code | metadata |
//! |---|---|---|
//! | TINYINT, SMALLINT, MEDIUMINT, INT, BIGINT | 1, 2, 9, 3, 8 | |
//! | FLOAT, DOUBLE | 4, 5 | bytes of a value: 4 or 8 |
//! | YEAR, DATE | 13, 10 | |
//! | TIMESTAMP(n), DATETIME(n), TIME(n) | 17, 18, 19 | n |
//! | BIT(n) | 16 | n % 8, n / 8 |
//! | DECIMAL(p, s) | 246 | p, s |
//! | VARCHAR, VARBINARY | 15 | u16: the most bytes |
//! | TEXT, BLOB | 252 | bytes of the length: 1 to 4 |
//! | JSON | 245 | bytes of the length: 4 |
//! | CHAR, BINARY | 254 | 0xfe xor the bits 8 and 9 of the most bytes, shifted to 4 and 5; the bits 0 to 7 |
//! | ENUM, SET | 254 | 0xf7 or 0xf8; bytes of a value |
use crate::DecodeError;
use crate::bytes::{Input, put_u16};
use redolith_types::{Collation, IntSize, SqlType};

pub(crate) mod code {
    pub(crate) const TINY: u8 = 1;
    pub(crate) const SHORT: u8 = 2;
    pub(crate) const LONG: u8 = 3;
    pub(crate) const FLOAT: u8 = 4;
    pub(crate) const DOUBLE: u8 = 5;
    pub(crate) const LONGLONG: u8 = 8;
    pub(crate) const INT24: u8 = 9;
    pub(crate) const DATE: u8 = 10;
    pub(crate) const YEAR: u8 = 13;
    pub(crate) const VARCHAR: u8 = 15;
    pub(crate) const BIT: u8 = 16;
    pub(crate) const TIMESTAMP2: u8 = 17;
    pub(crate) const DATETIME2: u8 = 18;
    pub(crate) const TIME2: u8 = 19;
    pub(crate) const JSON: u8 = 245;
    pub(crate) const NEWDECIMAL: u8 = 246;
    pub(crate) const ENUM: u8 = 247;
    pub(crate) const SET: u8 = 248;
    pub(crate) const BLOB: u8 = 252;
    pub(crate) const STRING: u8 = 254;
}

/// The type of a column, as far as it decides the bytes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TINYINT to BIGINT. The sign is in [`Column::unsigned`].
    Int(IntSize),
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// DECIMAL.
    Decimal {
        /// Digits.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// BIT(bits), 1 to 64.
    Bit {
        /// The number of bits.
        bits: u8,
    },
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME with so many digits of a fractional second.
    Time {
        /// 0 to 6.
        fsp: u8,
    },
    /// DATETIME with so many digits of a fractional second.
    DateTime {
        /// 0 to 6.
        fsp: u8,
    },
    /// TIMESTAMP with so many digits of a fractional second.
    Timestamp {
        /// 0 to 6.
        fsp: u8,
    },
    /// CHAR and BINARY. The padding at the end of a value is not in a row.
    Char {
        /// The most bytes of a value, at most 1023.
        max_bytes: u16,
    },
    /// VARCHAR and VARBINARY.
    VarChar {
        /// The most bytes of a value.
        max_bytes: u16,
    },
    /// TEXT and BLOB of all lengths.
    Blob {
        /// Bytes of a value's length: 1 to 4.
        len_bytes: u8,
    },
    /// JSON. A value is a document in MySQL's binary form.
    Json {
        /// Bytes of a value's length: 4 in practice.
        len_bytes: u8,
    },
    /// ENUM. A value is the number of a member, from 1.
    Enum {
        /// Bytes of a value: 1 or 2.
        bytes: u8,
    },
    /// SET. A value has a bit for each member.
    Set {
        /// Bytes of a value: 1, 2, 3, 4 or 8.
        bytes: u8,
    },
}

impl Kind {
    /// The kind of an SQL type.
    pub fn of(ty: &SqlType) -> Kind {
        let max_bytes = || ty.max_bytes().unwrap_or(0).min(0xffff) as u16;
        match ty {
            SqlType::Int { size, .. } => Kind::Int(*size),
            SqlType::Float { .. } => Kind::Float,
            SqlType::Double { .. } => Kind::Double,
            SqlType::Decimal { precision, scale, .. } => {
                Kind::Decimal { precision: *precision, scale: *scale }
            }
            SqlType::Bit { bits } => Kind::Bit { bits: *bits },
            SqlType::Year => Kind::Year,
            SqlType::Date => Kind::Date,
            SqlType::Time { fsp } => Kind::Time { fsp: *fsp },
            SqlType::DateTime { fsp } => Kind::DateTime { fsp: *fsp },
            SqlType::Timestamp { fsp } => Kind::Timestamp { fsp: *fsp },
            SqlType::Char { .. } | SqlType::Binary { .. } => Kind::Char { max_bytes: max_bytes() },
            SqlType::VarChar { .. } | SqlType::VarBinary { .. } => {
                Kind::VarChar { max_bytes: max_bytes() }
            }
            SqlType::Text { size, .. } | SqlType::Blob { size } => {
                Kind::Blob { len_bytes: (size.max_bytes().ilog2() / 8 + 1) as u8 }
            }
            SqlType::Json => Kind::Json { len_bytes: 4 },
            SqlType::Enum { names, .. } => Kind::Enum { bytes: 1 + u8::from(names.len() > 255) },
            SqlType::Set { names, .. } => Kind::Set {
                bytes: match names.len().div_ceil(8) {
                    few @ 0..=4 => few.max(1) as u8,
                    _ => 8,
                },
            },
        }
    }

    /// The type's number in a TABLE_MAP event.
    pub fn code(self) -> u8 {
        match self {
            Kind::Int(IntSize::Tiny) => code::TINY,
            Kind::Int(IntSize::Small) => code::SHORT,
            Kind::Int(IntSize::Medium) => code::INT24,
            Kind::Int(IntSize::Int) => code::LONG,
            Kind::Int(IntSize::Big) => code::LONGLONG,
            Kind::Float => code::FLOAT,
            Kind::Double => code::DOUBLE,
            Kind::Decimal { .. } => code::NEWDECIMAL,
            Kind::Bit { .. } => code::BIT,
            Kind::Year => code::YEAR,
            Kind::Date => code::DATE,
            Kind::Time { .. } => code::TIME2,
            Kind::DateTime { .. } => code::DATETIME2,
            Kind::Timestamp { .. } => code::TIMESTAMP2,
            Kind::VarChar { .. } => code::VARCHAR,
            Kind::Blob { .. } => code::BLOB,
            Kind::Json { .. } => code::JSON,
            Kind::Char { .. } | Kind::Enum { .. } | Kind::Set { .. } => code::STRING,
        }
    }

    /// Appends the metadata bytes.
    pub(crate) fn put_metadata(self, out: &mut Vec<u8>) {
        match self {
            Kind::Float => out.push(4),
            Kind::Double => out.push(8),
            Kind::Decimal { precision, scale } => out.extend_from_slice(&[precision, scale]),
            Kind::Bit { bits } => out.extend_from_slice(&[bits % 8, bits / 8]),
            Kind::Time { fsp } | Kind::DateTime { fsp } | Kind::Timestamp { fsp } => out.push(fsp),
            Kind::Char { max_bytes } => out.extend_from_slice(&[
                code::STRING ^ ((max_bytes & 0x300) >> 4) as u8,
                max_bytes as u8,
            ]),
            Kind::VarChar { max_bytes } => put_u16(out, max_bytes),
            Kind::Blob { len_bytes } | Kind::Json { len_bytes } => out.push(len_bytes),
            Kind::Enum { bytes } => out.extend_from_slice(&[code::ENUM, bytes]),
            Kind::Set { bytes } => out.extend_from_slice(&[code::SET, bytes]),
            Kind::Int(_) | Kind::Year | Kind::Date => {}
        }
    }

    /// The kind of the column number `column` whose type is `code`. Takes its metadata bytes.
    pub(crate) fn decode(
        code: u8,
        metadata: &mut Input<'_>,
        column: usize,
    ) -> Result<Kind, DecodeError> {
        let kind = match code {
            code::TINY => Kind::Int(IntSize::Tiny),
            code::SHORT => Kind::Int(IntSize::Small),
            code::INT24 => Kind::Int(IntSize::Medium),
            code::LONG => Kind::Int(IntSize::Int),
            code::LONGLONG => Kind::Int(IntSize::Big),
            code::FLOAT => metadata.u8().map(|_| Kind::Float)?,
            code::DOUBLE => metadata.u8().map(|_| Kind::Double)?,
            code::YEAR => Kind::Year,
            code::DATE => Kind::Date,
            code::TIMESTAMP2 => Kind::Timestamp { fsp: metadata.u8()? },
            code::DATETIME2 => Kind::DateTime { fsp: metadata.u8()? },
            code::TIME2 => Kind::Time { fsp: metadata.u8()? },
            code::NEWDECIMAL => Kind::Decimal { precision: metadata.u8()?, scale: metadata.u8()? },
            code::BIT => {
                let [odd, whole] = metadata.array()?;
                Kind::Bit { bits: whole.saturating_mul(8).saturating_add(odd) }
            }
            code::VARCHAR => Kind::VarChar { max_bytes: metadata.u16()? },
            code::BLOB => Kind::Blob { len_bytes: metadata.u8()? },
            code::JSON => Kind::Json { len_bytes: metadata.u8()? },
            code::STRING => {
                let [real, low] = metadata.array()?;
                match real {
                    code::ENUM => Kind::Enum { bytes: low },
                    code::SET => Kind::Set { bytes: low },
                    _ if real | 0x30 == code::STRING => Kind::Char {
                        max_bytes: u16::from((real & 0x30) ^ 0x30) << 4 | u16::from(low),
                    },
                    code => return Err(DecodeError::UnknownType { column, code }),
                }
            }
            code => return Err(DecodeError::UnknownType { column, code }),
        };
        match kind.is_possible() {
            true => Ok(kind),
            false => Err(metadata.wrong("a column has impossible metadata")),
        }
    }

    /// Whether a table can have such a column, so that reading a value of it cannot go wrong.
    fn is_possible(self) -> bool {
        match self {
            Kind::Time { fsp } | Kind::DateTime { fsp } | Kind::Timestamp { fsp } => fsp <= 6,
            Kind::Decimal { precision, scale } => {
                (1..=65).contains(&precision) && scale <= precision.min(30)
            }
            Kind::Bit { bits } => (1..=64).contains(&bits),
            Kind::Blob { len_bytes } | Kind::Json { len_bytes } => (1..=4).contains(&len_bytes),
            Kind::Enum { bytes } => matches!(bytes, 1 | 2),
            Kind::Set { bytes } => matches!(bytes, 1..=4 | 8),
            _ => true,
        }
    }

    /// Whether the optional metadata have a sign for the column. A YEAR has one in MySQL since 8.0,
    /// though not in MariaDB. (MySQL, `has_signedess_information_type`)
    pub(crate) fn has_sign(self) -> bool {
        use Kind::*;
        matches!(self, Int(_) | Float | Double | Decimal { .. } | Year)
    }

    /// Whether the optional metadata have a collation for the column as for a string.
    pub(crate) fn is_string(self) -> bool {
        matches!(self, Kind::Char { .. } | Kind::VarChar { .. } | Kind::Blob { .. })
    }

    /// Whether the column is an ENUM or a SET.
    pub(crate) fn has_members(self) -> bool {
        matches!(self, Kind::Enum { .. } | Kind::Set { .. })
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The type.
    pub kind: Kind,
    /// Whether a number has no sign.
    pub unsigned: bool,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// MySQL's id of the collation of a string, ENUM or SET; 63 for binary strings. 0: unknown, as
    /// in an event without optional metadata, or none.
    pub collation_id: u16,
    /// The name, in UTF-8. Empty: unknown.
    pub name: Vec<u8>,
    /// The members of an ENUM or SET, in the column's character set. Empty: unknown.
    pub members: Vec<Vec<u8>>,
    /// Whether `SELECT *` shows the column.
    pub visible: bool,
}

impl Column {
    /// The column as the server's dictionary has it.
    pub fn of(column: &redolith_types::Column) -> Column {
        let ty = &column.ty;
        let collation_id = match ty {
            SqlType::Binary { .. } | SqlType::VarBinary { .. } | SqlType::Blob { .. } => {
                Collation::Binary.id()
            }
            ty => ty.collation().map_or(0, Collation::id),
        };
        let members = match ty {
            SqlType::Enum { names, collation } | SqlType::Set { names, collation } => {
                let utf8 = redolith_types::Charset::Utf8mb4;
                let convert = |name: &String| {
                    utf8.convert_lossy(name.as_bytes(), collation.charset()).into_owned()
                };
                names.iter().map(convert).collect()
            }
            _ => Vec::new(),
        };
        Column {
            kind: Kind::of(ty),
            unsigned: ty.is_unsigned(),
            nullable: column.nullable,
            collation_id,
            name: column.name.clone().into_bytes(),
            members,
            visible: !column.invisible,
        }
    }
}
