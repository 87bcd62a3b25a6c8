//! The type of an expression, as MySQL derives it. A client sees it as the type of a result column,
//! and it decides how values are compared.
//!
//! Columns have a [`SqlType`](redolith_types::SqlType); expressions have an [`ExprType`]: a few
//! bytes that are copied freely. `length` counts characters for strings and is the display width
//! for all other types (`COUNT(*)` has 21, a signed INT column 11), because the protocol reports
//! these numbers.
use redolith_types::{Collation, LobSize};

/// The kind of a value, as finely divided as in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// The NULL literal, or a parameter of unknown type.
    Null,
    TinyInt,
    SmallInt,
    MediumInt,
    Int,
    BigInt,
    Float,
    Double,
    Decimal,
    Year,
    Bit,
    Date,
    Time,
    DateTime,
    Timestamp,
    Char,
    VarChar,
    /// TEXT and BLOB of every length; the collation tells TEXT from BLOB.
    Blob,
    Enum,
    Set,
    Json,
}

impl Kind {
    /// The type byte of the protocol (`enum_field_types`).
    pub fn field_type(self) -> u8 {
        match self {
            Kind::Decimal => 246,
            Kind::TinyInt => 1,
            Kind::SmallInt => 2,
            Kind::Int => 3,
            Kind::Float => 4,
            Kind::Double => 5,
            Kind::Null => 6,
            Kind::Timestamp => 7,
            Kind::BigInt => 8,
            Kind::MediumInt => 9,
            Kind::Date => 10,
            Kind::Time => 11,
            Kind::DateTime => 12,
            Kind::Year => 13,
            Kind::Bit => 16,
            Kind::Json => 245,
            // The protocol sends ENUM and SET as strings with a flag.
            Kind::Char | Kind::Enum | Kind::Set => 254,
            Kind::VarChar => 253,
            Kind::Blob => 252,
        }
    }
    pub fn is_integer(self) -> bool {
        matches!(
            self,
            Kind::TinyInt
                | Kind::SmallInt
                | Kind::MediumInt
                | Kind::Int
                | Kind::BigInt
                | Kind::Year
                | Kind::Bit
        )
    }
    pub fn is_numeric(self) -> bool {
        self.is_integer() || matches!(self, Kind::Float | Kind::Double | Kind::Decimal)
    }
    pub fn is_temporal(self) -> bool {
        matches!(self, Kind::Date | Kind::Time | Kind::DateTime | Kind::Timestamp)
    }
    pub fn is_string(self) -> bool {
        matches!(
            self,
            Kind::Char | Kind::VarChar | Kind::Blob | Kind::Enum | Kind::Set | Kind::Json
        )
    }
}

/// Decides which side's collation wins when two strings meet: the smaller value is the stronger
/// (MySQL manual, "Collation Coercibility in Expressions").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Coercibility {
    Explicit = 0,
    None = 1,
    Implicit = 2,
    System = 3,
    Literal = 4,
    Numeric = 5,
    Ignorable = 6,
}

impl Coercibility {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Coercibility::Explicit => "EXPLICIT",
            Coercibility::None => "NONE",
            Coercibility::Implicit => "IMPLICIT",
            Coercibility::System => "SYSCONST",
            Coercibility::Literal => "COERCIBLE",
            Coercibility::Numeric => "NUMERIC",
            Coercibility::Ignorable => "IGNORABLE",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExprType {
    pub kind: Kind,
    pub unsigned: bool,
    pub nullable: bool,
    /// Digits after the point: DECIMAL's scale or the fractional seconds; 31 for FLOAT/DOUBLE
    /// without a fixed number (MySQL's NOT_FIXED_DEC).
    pub decimals: u8,
    pub coercibility: Coercibility,
    pub collation: Collation,
    pub length: u32,
    /// A column with ZEROFILL: its text has leading zeros, up to `length` characters.
    pub zerofill: bool,
}

/// `decimals` of a floating-point value whose number of digits is not fixed.
pub const NOT_FIXED_DECIMALS: u8 = 31;

/// `decimals` of a parameterized decimal literal, whose scale differs from text to text: the
/// greatest scale.
pub const UNKNOWN_DECIMALS: u8 = 30;

impl ExprType {
    fn of(kind: Kind, length: u32, decimals: u8) -> ExprType {
        ExprType {
            kind,
            unsigned: false,
            nullable: false,
            decimals,
            coercibility: Coercibility::Numeric,
            collation: Collation::Binary,
            length,
            zerofill: false,
        }
    }
    /// The type of NULL and of parameters of unknown type.
    pub fn null() -> ExprType {
        ExprType {
            nullable: true,
            coercibility: Coercibility::Ignorable,
            ..ExprType::of(Kind::Null, 0, 0)
        }
    }
    /// A 64-bit integer shown in `length` characters.
    pub fn bigint(length: u32) -> ExprType {
        ExprType::of(Kind::BigInt, length, 0)
    }
    pub fn unsigned_bigint(length: u32) -> ExprType {
        ExprType { unsigned: true, ..ExprType::of(Kind::BigInt, length, 0) }
    }
    /// The type of comparisons and logic: 0, 1 (or NULL).
    pub fn boolean() -> ExprType {
        ExprType::of(Kind::BigInt, 1, 0)
    }
    pub fn double() -> ExprType {
        ExprType::of(Kind::Double, 23, NOT_FIXED_DECIMALS)
    }
    /// DECIMAL with `precision` digits, `scale` of them after the point.
    pub fn decimal(precision: u32, scale: u8) -> ExprType {
        let (precision, scale) = (precision.clamp(1, 65), scale.min(30));
        ExprType::of(Kind::Decimal, precision + 1 + (scale > 0) as u32, scale)
    }
    pub fn string(length: u32, collation: Collation) -> ExprType {
        ExprType {
            coercibility: Coercibility::Literal,
            collation,
            ..ExprType::of(Kind::VarChar, length, NOT_FIXED_DECIMALS)
        }
    }
    /// JSON. Its text is compared by its bytes.
    pub fn json() -> ExprType {
        ExprType {
            coercibility: Coercibility::Implicit,
            collation: Collation::Utf8mb4Bin,
            nullable: true,
            ..ExprType::of(Kind::Json, u32::MAX / 4, NOT_FIXED_DECIMALS)
        }
    }
    pub fn datetime(decimals: u8) -> ExprType {
        ExprType::of(
            Kind::DateTime,
            19 + if decimals > 0 { decimals as u32 + 1 } else { 0 },
            decimals,
        )
    }
    pub fn date() -> ExprType {
        ExprType::of(Kind::Date, 10, 0)
    }
    pub fn time(decimals: u8) -> ExprType {
        ExprType::of(Kind::Time, 10 + if decimals > 0 { decimals as u32 + 1 } else { 0 }, decimals)
    }
    pub fn nullable(self, nullable: bool) -> ExprType {
        ExprType { nullable, ..self }
    }
    pub fn unsigned(self, unsigned: bool) -> ExprType {
        ExprType { unsigned, ..self }
    }
    /// Digits after the point when a value of this type is shown as a DOUBLE.
    pub fn real_decimals(&self) -> u8 {
        match self.kind {
            Kind::Null => 0,
            Kind::Float | Kind::Double | Kind::Decimal => self.decimals,
            kind if kind.is_integer() => 0,
            kind if kind.is_temporal() => self.decimals,
            _ => NOT_FIXED_DECIMALS,
        }
    }
    /// The most characters that a string of this type may have. In a TEXT, each byte may be one.
    pub fn most_chars(&self) -> u32 {
        if self.kind == Kind::Blob { self.text_bytes() } else { self.length }
    }
    /// The most bytes that a TEXT or BLOB of this type may have. The limit of a TEXT in characters
    /// has lost the rest of its division by the bytes of a character.
    pub fn text_bytes(&self) -> u32 {
        let max = u64::from(self.collation.charset().max_len());
        let bytes = u64::from(self.length) * max;
        let limits = [LobSize::Tiny, LobSize::Normal, LobSize::Medium, LobSize::Long];
        let limit =
            limits.map(LobSize::max_bytes).into_iter().find(|n| (bytes..bytes + max).contains(n));
        u32::try_from(limit.unwrap_or(bytes)).unwrap_or(u32::MAX)
    }
    /// True for strings of bytes, not characters.
    pub fn is_binary(&self) -> bool {
        self.kind.is_string() && self.collation == Collation::Binary
    }
    /// Digits before and after the point of the value as a number.
    pub fn digits(&self) -> (u32, u8) {
        match self.kind {
            Kind::Decimal => {
                let extra = (self.decimals > 0) as u32 + !self.unsigned as u32;
                (self.length.saturating_sub(extra + self.decimals as u32), self.decimals)
            }
            // hhhmmss and YYYYMMDDhhmmss, with the fraction of a second after the point.
            Kind::Time => (7, self.decimals.min(6)),
            Kind::DateTime | Kind::Timestamp => (14, self.decimals.min(6)),
            _ => (self.length.saturating_sub(!self.unsigned as u32), 0),
        }
    }
}
