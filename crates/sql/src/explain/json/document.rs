//! A JSON document, printed with a line for each member as MySQL does.
use super::super::Meter;
use crate::error::Result;
use redolith_types::json::quote;

/// Deeper levels are not written further to the right: the text of a deep document would grow by
/// the square of its depth.
const MOST_INDENTED: usize = 64;

pub(super) enum Json {
    Text(String),
    Number(i64),
    Bool(bool),
    List(Vec<Json>),
    Object(Members),
}
impl Json {
    pub fn text(text: &str) -> Json {
        Json::Text(text.to_string())
    }
}

/// The members of an object, in their order. Lists with one key are one list (EXPLAIN-1).
#[derive(Default)]
pub(super) struct Members(Vec<(&'static str, Json)>);
impl Members {
    pub fn of(key: &'static str, members: Members) -> Members {
        Members(vec![(key, members.object())])
    }
    /// Adds a member. A list goes behind the list that the key has.
    pub fn push(&mut self, key: &'static str, value: Json) {
        match (self.0.iter_mut().find(|(there, _)| *there == key), value) {
            (Some((_, Json::List(list))), Json::List(more)) => list.extend(more),
            (_, value) => self.0.push((key, value)),
        }
    }
    pub fn append(&mut self, more: Members) {
        more.0.into_iter().for_each(|(key, value)| self.push(key, value));
    }
    pub fn remove(&mut self, keys: &[&str]) {
        self.0.retain(|(key, _)| !keys.contains(key));
    }
    pub fn object(self) -> Json {
        Json::Object(self)
    }
}

pub(super) fn text(json: &Json, meter: &mut dyn Meter) -> Result<Vec<u8>> {
    let mut printer = Printer { out: Vec::new(), paid: 0, meter };
    printer.value(json, 0)?;
    Ok(printer.out)
}

struct Printer<'m, 'd> {
    out: Vec<u8>,
    paid: usize,
    meter: &'m mut (dyn Meter + 'd),
}
impl Printer<'_, '_> {
    fn value(&mut self, json: &Json, depth: usize) -> Result<()> {
        self.meter.pay(self.out.len() - self.paid)?;
        self.paid = self.out.len();
        match json {
            Json::Text(text) => quote(text, &mut self.out),
            Json::Number(n) => self.out.extend_from_slice(n.to_string().as_bytes()),
            Json::Bool(b) => self.out.extend_from_slice(if *b { b"true" } else { b"false" }),
            Json::List(list) => {
                self.out.push(b'[');
                for (n, value) in list.iter().enumerate() {
                    self.line(n > 0, depth + 1);
                    self.value(value, depth + 1)?;
                }
                self.line(false, depth);
                self.out.push(b']');
            }
            Json::Object(Members(members)) => {
                self.out.push(b'{');
                for (n, (key, value)) in members.iter().enumerate() {
                    self.line(n > 0, depth + 1);
                    quote(key, &mut self.out);
                    self.out.extend_from_slice(b": ");
                    self.value(value, depth + 1)?;
                }
                self.line(false, depth);
                self.out.push(b'}');
            }
        }
        Ok(())
    }
    fn line(&mut self, comma: bool, depth: usize) {
        self.out.extend_from_slice(if comma { b",\n" } else { b"\n" });
        self.out.extend(std::iter::repeat_n(b' ', 2 * depth.min(MOST_INDENTED)));
    }
}
