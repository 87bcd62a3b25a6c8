//! Column definitions (protocol 4.1).
//!
//!     catalog "def", schema, table, original table, name, original name   lenenc strings
//!     12                                                                  1 byte, the length of what follows
//!     collation 2, length 4, type 1, flags 2, decimals 1, zero 2
use super::lenenc::put_bytes;
use crate::standin::{ColumnMeta, ExprType};

pub fn put(b: &mut Vec<u8>, c: &ColumnMeta) {
    put_bytes(b, b"def");
    for s in [&c.schema, &c.table, &c.org_table, &c.name, &c.org_name] {
        put_bytes(b, s.as_bytes());
    }
    b.push(12);
    b.extend_from_slice(&c.ty.collation_id.to_le_bytes());
    b.extend_from_slice(&c.ty.length.to_le_bytes());
    b.push(c.ty.field_type);
    b.extend_from_slice(&c.flags.0.to_le_bytes());
    b.push(c.ty.decimals);
    b.extend_from_slice(&[0; 2]);
}

/// A parameter of a prepared statement: a column named `?`.
pub fn put_parameter(b: &mut Vec<u8>, ty: &ExprType) {
    b.extend_from_slice(b"\x03def\0\0\0\x01?\0\x0c");
    b.extend_from_slice(&ty.collation_id.to_le_bytes());
    b.extend_from_slice(&ty.length.to_le_bytes());
    b.extend_from_slice(&[ty.field_type, 0x80, 0, ty.decimals, 0, 0]);
}
