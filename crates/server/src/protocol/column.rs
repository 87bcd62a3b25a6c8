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
            // Each byte of a TEXT may be a character, which the client's character set changes.
            let chars = ty.most_chars();
            (c, chars.saturating_mul(max_bytes(c)))
        }
        _ if ty.kind == Kind::Blob => (ty.collation, ty.text_bytes()),
        _ if ty.kind.is_string() => {
            (ty.collation, ty.length.saturating_mul(max_bytes(ty.collation)))
        }
        _ => (Collation::Binary, ty.length),
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_text_is_its_bytes_as_characters_of_the_client() {
        let length = |bytes: u32, collation: Collation, results| {
            let chars = bytes / max_bytes(collation);
            let ty = ExprType { kind: Kind::Blob, ..ExprType::string(chars, collation) };
            let mut b = Vec::new();
            put_type(&mut b, &ty, 0, results);
            u32::from_le_bytes(b[3..7].try_into().unwrap())
        };
        let (utf8mb4, latin1) = (Collation::Utf8mb4GeneralCi, Collation::Latin1SwedishCi);
        for collation in [utf8mb4, Collation::Utf8mb3GeneralCi, latin1] {
            for bytes in [0xff, 0xffff, 0xff_ffff, u32::MAX] {
                assert_eq!(length(bytes, collation, Some(utf8mb4)), bytes.saturating_mul(4));
                assert_eq!(length(bytes, collation, Some(latin1)), bytes);
                assert_eq!(length(bytes, collation, None), bytes);
            }
        }
        assert_eq!(length(0xffff, Collation::Binary, Some(utf8mb4)), 0xffff);
        assert_eq!(length(4 * 5000, utf8mb4, Some(utf8mb4)), 4 * 4 * 5000, "of an expression");
    }
}
