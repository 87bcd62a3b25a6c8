//! JSON values as in MySQL 8.0. A value is kept and stored in MySQL's binary form ([`binary`]), in
//! which a member of an object is found without reading the others; [`Json`] is the same value as a
//! tree, for the functions that make or change values.
//!
//! **JSON-1** A document has at most [`MAX_DEPTH`] arrays and objects inside each other: `parse`,
//! `encode` and `check` refuse more. So recursion over a document is bounded.
//! **JSON-2** Bytes from a page, from a client or from a binary log are checked ([`check`]) before
//! a value is made of them. After the check no walk visits more nodes than the document has bytes.
//! Every access is bounds-checked besides, and damage is [`JsonError::Damaged`], never a panic.
//! **JSON-3** The members of an object have different names and stand in MySQL's order: shorter
//! names first, and names of the same length by their bytes.
pub mod binary;
mod check;
mod compare;
mod contain;
mod convert;
pub mod edit;
mod encode;
mod number;
mod parse;
mod path;
mod place;
mod print;
mod seek;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Ordering;

pub use binary::{Container, JsonRef, View};
pub use check::check;
pub use compare::{compare, push_sort_key};
pub use contain::{contains, overlaps};
pub use convert::{as_scalar, from_value};
pub(crate) use convert::{compare_values, hash, is_true, write_text};
pub use encode::{encode, size};
pub use parse::{parse, parse_cost};
pub use path::{Index, Leg, Path};
pub use place::Place;
pub use print::{pretty, print, print_metered, print_unquoted, quote, quoted_len, write_opaque};
pub use seek::{seek, seek_where};

use crate::{Date, DateTime, Decimal, Time};

/// The most arrays and objects inside each other.
pub const MAX_DEPTH: usize = 100;
/// The most bytes of a member's name.
pub const MAX_KEY: usize = 0xffff;

/// Why there is no JSON value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text is no JSON: what is wrong, and the byte at which it is wrong.
    #[error("{why} at position {position}")]
    Text { why: &'static str, position: usize },
    #[error("The JSON document exceeds the maximum depth.")]
    TooDeep,
    #[error("The JSON object contains a key name that is too long.")]
    KeyTooLong,
    #[error("The JSON value is too big to be stored in a JSON column.")]
    TooBig,
    /// JSON has neither infinity nor NaN, which clients can send as parameters.
    #[error("DOUBLE value is out of range in 'JSON'")]
    NotFinite,
    /// The binary form breaks its rules.
    #[error("The JSON binary value contains invalid data.")]
    Damaged,
    /// Whoever asked wants no answer any more.
    #[error("Query execution was interrupted")]
    Stopped,
}

impl JsonError {
    /// MySQL's error number.
    pub fn code(&self) -> u16 {
        match self {
            JsonError::Text { .. } => 3140,
            JsonError::TooDeep => 3157,
            JsonError::KeyTooLong => 3151,
            JsonError::TooBig => 3150,
            JsonError::NotFinite => 1690,
            JsonError::Damaged => 3145,
            JsonError::Stopped => 1317,
        }
    }
}

pub type Result<T> = std::result::Result<T, JsonError>;

/// Hears about long work: how many values were met, and how many bytes the answer takes more. If it
/// says true, the work ends with [`JsonError::Stopped`].
pub type Meter<'m> = &'m mut dyn FnMut(usize, usize) -> bool;

/// A value as a tree. Strings and parts that are already in the binary form are borrowed where
/// possible.
#[derive(Clone, Debug)]
pub enum Json<'a> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    Decimal(Decimal),
    String(Cow<'a, str>),
    Date(Date),
    Time(Time),
    DateTime(DateTime),
    /// Bytes of another type: the protocol's number of the type, and the bytes.
    Opaque(u8, Cow<'a, [u8]>),
    Array(Vec<Json<'a>>),
    Object(Object<'a>),
    /// A value in the binary form.
    Raw(JsonRef<'a>),
}

/// The members of an object in MySQL's order.
#[derive(Clone, Debug, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Json<'a>)>,
}

/// MySQL's order of names: shorter names first.
pub fn key_order(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl<'a> Object<'a> {
    /// Makes an object of members in any order. Of members with one name the last one counts.
    pub fn new(mut members: Vec<(Cow<'a, str>, Json<'a>)>) -> Object<'a> {
        members.sort_by(|a, b| key_order(a.0.as_bytes(), b.0.as_bytes()));
        let mut last = 0;
        for n in 1..members.len() {
            if members[n].0 != members[last].0 {
                last += 1;
            }
            members.swap(last, n);
        }
        members.truncate(if members.is_empty() { 0 } else { last + 1 });
        Object { members }
    }
    pub fn members(&self) -> &[(Cow<'a, str>, Json<'a>)] {
        &self.members
    }
    pub fn into_members(self) -> Vec<(Cow<'a, str>, Json<'a>)> {
        self.members
    }
    fn place(&self, name: &str) -> std::result::Result<usize, usize> {
        self.members.binary_search_by(|m| key_order(m.0.as_bytes(), name.as_bytes()))
    }
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.place(name).ok().map(|n| &self.members[n].1)
    }
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json<'a>> {
        self.place(name).ok().map(|n| &mut self.members[n].1)
    }
    /// Sets a member, new or not.
    pub fn set(&mut self, name: Cow<'a, str>, value: Json<'a>) {
        match self.place(&name) {
            Ok(n) => self.members[n].1 = value,
            Err(n) => self.members.insert(n, (name, value)),
        }
    }
    pub fn remove(&mut self, name: &str) -> Option<Json<'a>> {
        self.place(name).ok().map(|n| self.members.remove(n).1)
    }
}

impl<'a> Json<'a> {
    pub fn text(text: &'a str) -> Json<'a> {
        Json::String(Cow::Borrowed(text))
    }
    /// The value in the binary form.
    pub fn to_binary(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        encode(self, &mut out)?;
        Ok(out)
    }
    /// Opens a value that is in the binary form: its own elements and members become nodes, what
    /// they contain stays in the binary form.
    pub fn open(&mut self) -> Result<&mut Json<'a>> {
        if let Json::Raw(raw) = self {
            *self = raw.open()?;
        }
        Ok(self)
    }
    pub fn is_array(&self) -> bool {
        matches!(self, Json::Array(_)) || matches!(self, Json::Raw(raw) if raw.is_array())
    }
    pub fn is_object(&self) -> bool {
        matches!(self, Json::Object(_)) || matches!(self, Json::Raw(raw) if raw.is_object())
    }
}
