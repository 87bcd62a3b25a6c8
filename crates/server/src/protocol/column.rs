//! Column definitions (protocol 4.1).
//!
//!     catalog "def", schema, table, original table, name, original name   lenenc strings
//!     12                                                                  1 byte, the length of what follows
//!     collation 2, length 4, type 1, flags 2, decimals 1, zero 2
use super::lenenc::put_bytes;
use crate::standin::ColumnMeta;

pub fn put(b: &mut Vec<u8>, c: &ColumnMeta) {
    put_bytes(b, b"def");
    for s in [&c.schema, &c.table, &c.org_table, &c.name, &c.org_name] {
        put_bytes(b, s.as_bytes());
    }
    b.push(12);
    b.extend_from_slice(&c.collation_id.to_le_bytes());
    b.extend_from_slice(&c.length.to_le_bytes());
    b.push(c.field_type);
    b.extend_from_slice(&c.flags.to_le_bytes());
    b.push(c.decimals);
    b.extend_from_slice(&[0; 2]);
}

/// A parameter of a prepared statement: MySQL tells nothing of it but its name.
pub fn put_parameter(b: &mut Vec<u8>) {
    b.extend_from_slice(b"\x03def\0\0\0\x01?\0\x0c\x3f\0\0\0\0\0\xfd\x80\0\0\0\0");
}
