//! Which Rust types keys and values may have, and the SQL columns that hold them.
//!
//! | Rust | in a key | in a value |
//! |---|---|---|
//! | `u8` .. `u64`, `i8` .. `i64` | TINYINT .. BIGINT, UNSIGNED or not | the same |
//! | `bool` | TINYINT(1) | the same |
//! | `f64` | - | DOUBLE |
//! | `String` | VARBINARY, with the comment 'text' | LONGTEXT |
//! | `Vec<u8>` | VARBINARY, with the comment 'bytes' | LONGBLOB |
//! | `Option<C>` | - | the column of `C`, without NOT NULL |
//!
//! Text in a key is VARBINARY because `utf8mb4_bin`, like most collations of MySQL, pads with
//! spaces: "a" and "a " would be one key.
use redolith_types::sql_type::Sign;
use redolith_types::{Collation, IntSize, LobSize, RowLayout, SqlType, Value as SqlValue};

/// Most bytes that the text and bytes in a key may have. The columns of a key that hold text or
/// bytes share them equally: each of two may have half of it.
pub const MAX_KEY_BYTES: usize = 2048;
/// Most bytes that the text and bytes in a value may have together: 256 MiB.
pub const MAX_VALUE_BYTES: usize = 256 << 20;

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// Where a column is.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Key,
    Value,
}
/// A column of a definition.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    /// Tells text in a key from bytes, which have the same SQL type.
    pub(crate) comment: &'static str,
}
impl Shape {
    fn of(ty: SqlType) -> Shape {
        Shape { ty, nullable: false, comment: "" }
    }
    fn variable(role: Role, comment: &'static str, in_value: SqlType) -> Shape {
        match role {
            Role::Key => Shape {
                ty: SqlType::VarBinary { len: MAX_KEY_BYTES as u32 },
                nullable: false,
                comment,
            },
            Role::Value => Shape::of(in_value),
        }
    }
}
/// The columns of a stored row, one after the other.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Fields<'p> {
    pub(crate) layout: &'p RowLayout,
    pub(crate) payload: &'p [u8],
    pub(crate) column: usize,
}
impl<'p> Fields<'p> {
    fn next(&mut self) -> SqlValue<'p> {
        let column = self.column;
        self.column += 1;
        self.layout.get(self.payload, column)
    }
}

/// What a value may be: a [`Column`], a tuple of up to six columns, or `()` for a table that only
/// has keys.
///
/// The trait is sealed. Another type is stored as a tuple of its fields, or as the bytes
/// (`Vec<u8>`) that a serializer makes of it.
pub trait Value: Sealed + Sized + Send + 'static {
    /// How a value is given to a call: `&str` for `String`, `&[u8]` for `Vec<u8>`, a tuple of those
    /// for a tuple, and the type itself for numbers.
    type Ref<'a>: Send;
    #[doc(hidden)]
    fn columns(role: Role, out: &mut Vec<Shape>);
    #[doc(hidden)]
    fn push<'v>(given: &'v Self::Ref<'_>, out: &mut Vec<SqlValue<'v>>);
    /// None if the columns hold something else.
    #[doc(hidden)]
    fn pull(row: &mut Fields<'_>) -> Option<Self>;
}

/// What a key may be: an integer, `bool`, `String`, `Vec<u8>`, or a tuple of up to four of these.
///
/// Keys are in the order of their type: numbers by value, text and bytes byte by byte, tuples by
/// their first element, then their second, and so on.
pub trait Key: Value {}

/// What one SQL column holds: an integer, `bool`, `f64`, `String`, `Vec<u8>`, or an [`Option`] of
/// one of these.
pub trait Column: Value {}

macro_rules! integers {
    ($($rust:ty: $size:ident $sign:ident $value:ident;)*) => {$(
        impl Sealed for $rust {}
        impl Value for $rust {
            type Ref<'a> = $rust;
            fn columns(_: Role, out: &mut Vec<Shape>) {
                let (size, sign) = (IntSize::$size, Sign::$sign);
                out.push(Shape::of(SqlType::Int { size, sign, display: None }));
            }
            fn push<'v>(given: &'v $rust, out: &mut Vec<SqlValue<'v>>) {
                out.push(SqlValue::$value((*given).into()));
            }
            fn pull(row: &mut Fields<'_>) -> Option<$rust> {
                match row.next() {
                    SqlValue::$value(n) => n.try_into().ok(),
                    _ => None,
                }
            }
        }
        impl Column for $rust {}
        impl Key for $rust {}
    )*};
}
integers! {
    u8: Tiny UNSIGNED UInt;
    u16: Small UNSIGNED UInt;
    u32: Int UNSIGNED UInt;
    u64: Big UNSIGNED UInt;
    i8: Tiny SIGNED Int;
    i16: Small SIGNED Int;
    i32: Int SIGNED Int;
    i64: Big SIGNED Int;
}

impl Sealed for bool {}
impl Value for bool {
    type Ref<'a> = bool;
    fn columns(_: Role, out: &mut Vec<Shape>) {
        out.push(Shape::of(SqlType::BOOL));
    }
    fn push<'v>(given: &'v bool, out: &mut Vec<SqlValue<'v>>) {
        out.push(SqlValue::Int((*given).into()));
    }
    fn pull(row: &mut Fields<'_>) -> Option<bool> {
        match row.next() {
            SqlValue::Int(n) => Some(n != 0),
            _ => None,
        }
    }
}
impl Column for bool {}
impl Key for bool {}

impl Sealed for f64 {}
impl Value for f64 {
    type Ref<'a> = f64;
    fn columns(_: Role, out: &mut Vec<Shape>) {
        out.push(Shape::of(SqlType::DOUBLE));
    }
    fn push<'v>(given: &'v f64, out: &mut Vec<SqlValue<'v>>) {
        out.push(SqlValue::Double(*given));
    }
    fn pull(row: &mut Fields<'_>) -> Option<f64> {
        match row.next() {
            SqlValue::Double(n) => Some(n),
            _ => None,
        }
    }
}
impl Column for f64 {}

impl Sealed for String {}
impl Value for String {
    type Ref<'a> = &'a str;
    fn columns(role: Role, out: &mut Vec<Shape>) {
        let collation = Collation::Utf8mb4Bin;
        out.push(Shape::variable(role, "text", SqlType::Text { size: LobSize::Long, collation }));
    }
    fn push<'v>(given: &'v &str, out: &mut Vec<SqlValue<'v>>) {
        out.push(SqlValue::text(given));
    }
    fn pull(row: &mut Fields<'_>) -> Option<String> {
        match row.next() {
            SqlValue::Bytes(bytes) => String::from_utf8(bytes.into_owned()).ok(),
            _ => None,
        }
    }
}
impl Column for String {}
impl Key for String {}

impl Sealed for Vec<u8> {}
impl Value for Vec<u8> {
    type Ref<'a> = &'a [u8];
    fn columns(role: Role, out: &mut Vec<Shape>) {
        out.push(Shape::variable(role, "bytes", SqlType::Blob { size: LobSize::Long }));
    }
    fn push<'v>(given: &'v &[u8], out: &mut Vec<SqlValue<'v>>) {
        out.push(SqlValue::bytes(given));
    }
    fn pull(row: &mut Fields<'_>) -> Option<Vec<u8>> {
        match row.next() {
            SqlValue::Bytes(bytes) => Some(bytes.into_owned()),
            _ => None,
        }
    }
}
impl Column for Vec<u8> {}
impl Key for Vec<u8> {}

impl<C: Column> Sealed for Option<C> {}
impl<C: Column> Value for Option<C> {
    type Ref<'a> = Option<C::Ref<'a>>;
    fn columns(role: Role, out: &mut Vec<Shape>) {
        let first = out.len();
        C::columns(role, out);
        out[first..].iter_mut().for_each(|column| column.nullable = true);
    }
    fn push<'v>(given: &'v Option<C::Ref<'_>>, out: &mut Vec<SqlValue<'v>>) {
        match given {
            Some(given) => C::push(given, out),
            None => out.push(SqlValue::Null),
        }
    }
    fn pull(row: &mut Fields<'_>) -> Option<Option<C>> {
        if row.layout.is_null(row.payload, row.column) {
            row.column += 1;
            return Some(None);
        }
        C::pull(row).map(Some)
    }
}
impl<C: Column> Column for Option<C> {}

impl Sealed for () {}
impl Value for () {
    type Ref<'a> = ();
    fn columns(_: Role, _: &mut Vec<Shape>) {}
    fn push<'v>(_: &'v (), _: &mut Vec<SqlValue<'v>>) {}
    fn pull(_: &mut Fields<'_>) -> Option<()> {
        Some(())
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)*) => {$(
        impl<$($name: Column),+> Sealed for ($($name,)+) {}
        impl<$($name: Column),+> Value for ($($name,)+) {
            type Ref<'a> = ($($name::Ref<'a>,)+);
            fn columns(role: Role, out: &mut Vec<Shape>) {
                $($name::columns(role, out);)+
            }
            #[allow(non_snake_case)] // the elements have the names of their types
            fn push<'v>(given: &'v Self::Ref<'_>, out: &mut Vec<SqlValue<'v>>) {
                let ($($name,)+) = given;
                $($name::push($name, out);)+
            }
            fn pull(row: &mut Fields<'_>) -> Option<Self> {
                Some(($($name::pull(row)?,)+))
            }
        }
    )*};
}
tuples! { A B; A B C; A B C D; A B C D E; A B C D E F; }
impl<A: Key + Column, B: Key + Column> Key for (A, B) {}
impl<A: Key + Column, B: Key + Column, C: Key + Column> Key for (A, B, C) {}
impl<A: Key + Column, B: Key + Column, C: Key + Column, D: Key + Column> Key for (A, B, C, D) {}
