//! Row images: the values of a row as ROWS events have them.
//!
//! | type | bytes of a value |
//! |---|---|
//! | TINYINT to BIGINT | 1, 2, 3, 4 or 8, little-endian |
//! | FLOAT, DOUBLE | 4 or 8, little-endian |
//! | DECIMAL | packed ([`redolith_types::decimal`]) |
//! | BIT(n) | (n + 7) / 8, big-endian |
//! | YEAR | 1: year - 1900; 0 is 0000 |
//! | DATE | 3, little-endian: year << 9, month << 5, day |
//! | TIME, DATETIME, TIMESTAMP | `temporal` |
//! | CHAR, BINARY | length in 1 byte, or in 2 if the column may have over 255 bytes; bytes without padding |
//! | VARCHAR, VARBINARY | the same; all bytes |
//! | TEXT, BLOB | length in 1 to 4 bytes; all bytes |
//! | ENUM, SET | 1 or 2, or 1, 2, 3, 4 or 8, little-endian |
//!
//! Values are those of [`redolith_types::Value`]: `Int` or `UInt` by the sign, `UInt` for BIT,
//! YEAR, ENUM and SET, and `DateTime` in UTC for TIMESTAMP. The padding of CHAR (spaces) and BINARY
//! (zeros) is not in an image, as in MySQL (`Field_string::pack`).
mod decode;
mod encode;
mod temporal;

pub(crate) use encode::put_image;

pub use decode::{Row, RowChange, RowIter};
