//! Column definitions (protocol 4.1).
//!
//! ```text
//! catalog "def", schema, table, original table, name, original name   lenenc strings
//! 12, the length of the rest                                          1 byte
//! collation 2, length 4, type 1, flags 2, decimals 1, zero 2
//! ```
use super::lenenc::put_bytes;
use redolith_sql::ColumnMeta;
use redolith_sql::plan::expr_type::{ExprType, Kind};
use redolith_types::{Charset, Collation};

/// Appends the definition of a column. `results` is the character set that the client wants strings
/// in; `None` if strings are sent as they are stored.
pub fn put(b: &mut Vec<u8>, c: &ColumnMeta, results: Option<Collation>) {
    put_bytes(b, b"def");
    // Names are in UTF-8, and the client reads them in the character set of its results.
    let other = results.map(Collation::charset).filter(|c| !c.is_utf8() && *c != Charset::Binary);
    for s in [&c.schema, &c.table, &c.org_table, &c.name, &c.org_name] {
        match other {
            Some(to) => put_bytes(b, &Charset::Utf8mb4.convert_lossy(s.as_bytes(), to)),
            None => put_bytes(b, s.as_bytes()),
        }
    }
    put_type(b, &c.ty, c.flags.0, results);
}

/// Appends the definition of a prepared statement's parameter: a column named `?`.
pub fn put_parameter(b: &mut Vec<u8>, ty: &ExprType) {
    b.extend_from_slice(b"\x03def\0\0\0\x01?\0");
    put_type(b, ty, redolith_sql::ColumnFlags::of_type(ty).0, None);
}

fn put_type(b: &mut Vec<u8>, ty: &ExprType, flags: u16, results: Option<Collation>) {
    let (collation, length) = match results {
        // JSON is sent as text, and its column is told as binary.
        _ if ty.kind == Kind::Json => (Collation::Binary, u32::MAX),
        // The engine counts lengths in characters, and the protocol in bytes.
        Some(c) if ty.kind.is_string() && ty.collation != Collation::Binary => {
            (c, ty.length.saturating_mul(max_bytes(c)))
        }
        _ if ty.kind.is_string() => {
            (ty.collation, ty.length.saturating_mul(max_bytes(ty.collation)))
        }
        _ => (Collation::Binary, ty.length),
    };
    // The length of a BLOB or TEXT is in bytes already.
    let length = if ty.kind == Kind::Blob { ty.length } else { length };
    b.push(12);
    b.extend_from_slice(&(collation.id()).to_le_bytes()[..2]);
    b.extend_from_slice(&length.to_le_bytes());
    b.push(ty.kind.field_type());
    b.extend_from_slice(&flags.to_le_bytes());
    b.push(ty.decimals);
    b.extend_from_slice(&[0; 2]);
}

fn max_bytes(collation: Collation) -> u32 {
    collation.charset().max_len()
}
