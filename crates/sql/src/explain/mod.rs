//! EXPLAIN: what a statement would do, in the forms of MySQL 8.0.
//!
//! A plan is first described as query blocks with the tables that they read ([`block`]). All forms
//! are printed from this description: the table of the traditional form ([`traditional`]), the
//! document of FORMAT=JSON ([`json`]), and the operators of FORMAT=TREE ([`operators`], [`tree`]),
//! which EXPLAIN ANALYZE prints with what [`profile`] has measured.
//!
//! **EXPLAIN-1** FORMAT=JSON gives a valid document, whatever names and values the statement has.
//! **EXPLAIN-2** Each operator has one line of FORMAT=TREE: a name or a value never begins a line.
//! **EXPLAIN-3** The bytes of a description are charged while it is made ([`Meter`]). Expressions
//! that stand for others may make a text that is exponentially longer than the statement.
mod access;
mod block;
mod estimate;
mod expr;
mod json;
mod operators;
mod place;
mod profile;
mod traditional;
mod tree;

pub(crate) use profile::{Op, Profile, Role};

use crate::error::{Result, SqlError};
use crate::plan::{ExprType, SelectPlan, Statement};
use crate::sink::ColumnMeta;
use block::Explained;
use redolith_types::{Collation, Value};

/// A form of EXPLAIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Traditional,
    Json,
    Tree,
}
impl Format {
    /// The names in the order of the values of `explain_format`.
    pub const NAMES: &[&str] = &["TRADITIONAL", "JSON", "TREE"];
    const ALL: [Format; 3] = [Format::Traditional, Format::Json, Format::Tree];

    /// Error 1791 for an unknown name.
    pub fn by_name(name: &str) -> Result<Format> {
        let found = Format::NAMES.iter().position(|known| known.eq_ignore_ascii_case(name));
        found.map(|n| Format::ALL[n]).ok_or_else(|| SqlError::unknown_explain_format(name))
    }
    /// The format that `explain_format` names.
    pub fn of_setting(bits: u64) -> Format {
        Format::ALL.get(bits as usize).copied().unwrap_or(Format::Traditional)
    }
}

/// Pays for the memory and the time of a description (EXPLAIN-3).
pub(crate) trait Meter {
    /// Charges for `bytes` more, or ends the statement.
    fn pay(&mut self, bytes: usize) -> Result<()>;
}

type Row = Vec<Value<'static>>;

/// The columns and the rows of EXPLAIN.
pub(crate) fn explain(
    statement: &Statement,
    format: Format,
    meter: &mut dyn Meter,
) -> Result<(Vec<ColumnMeta>, Vec<Row>)> {
    let explained = Explained::of(statement, meter)?;
    match format {
        Format::Traditional => traditional::rows(&explained, meter),
        Format::Json => Ok(one_text(json::text(&explained, meter)?)),
        Format::Tree => {
            let operators = operators::of(&explained, None, meter)?;
            Ok(one_text(tree::text(&operators, meter)?.into_bytes()))
        }
    }
}

/// The operators of a SELECT that has run under a profile.
pub(crate) fn measured(
    plan: &SelectPlan,
    profile: &Profile,
    meter: &mut dyn Meter,
) -> Result<String> {
    let explained = Explained::of_run(plan, meter)?;
    tree::text(&operators::of(&explained, Some(profile), meter)?, meter)
}

fn one_text(text: Vec<u8>) -> (Vec<ColumnMeta>, Vec<Row>) {
    (vec![text_column()], vec![vec![Value::owned(text)]])
}

/// The only column of FORMAT=TREE and FORMAT=JSON.
pub(crate) fn text_column() -> ColumnMeta {
    let ty = ExprType::string(16_777_215, Collation::Utf8mb4GeneralCi);
    ColumnMeta::expression("EXPLAIN", ty)
}
