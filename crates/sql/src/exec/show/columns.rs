//! Makes the rows of SHOW COLUMNS (DESCRIBE) and SHOW INDEX.
use super::create::{DefaultText, default_text, in_display_order};
use super::{Made, int, nothing, text};
use crate::error::Result;
use crate::generated_key::hidden_column;
use redolith_engine::Engine;
use redolith_engine::dict::table::Table;
use redolith_types::{Column, IndexDef, TableDef, Value};
use std::sync::atomic::Ordering::Relaxed;

/// `shows_keys` says whether a generated primary key is shown (GIPK-3).
pub(super) fn columns(def: &TableDef, full: bool, shows_keys: bool) -> impl Iterator<Item = Made> {
    let hidden = hidden_column(def, shows_keys).is_some() as usize;
    def.columns.iter().enumerate().skip(hidden).map(move |(i, c)| column(def, i, c, full))
}

fn column(def: &TableDef, no: usize, c: &Column, full: bool) -> Made {
    let mut row = vec![text(&c.name), text(c.ty.text())];
    if full {
        row.push(c.ty.collation().map_or(Value::Null, |c| text(c.name())));
    }
    row.push(text(if c.nullable { "YES" } else { "NO" }));
    row.push(text(key(def, no)));
    row.push(match default_text(c) {
        DefaultText::None | DefaultText::Null => Value::Null,
        DefaultText::Literal(s)
        | DefaultText::Bits(s)
        | DefaultText::Now(s)
        | DefaultText::Expr(s) => text(s),
    });
    row.push(text(extra(c)));
    if full {
        row.push(text("select,insert,update,references"));
        row.push(text(&c.comment));
    }
    row
}

/// PRI for a column of the primary key (or of the unique key that replaces it), UNI for the only
/// column of a unique key, MUL for the first column of another index.
pub(crate) fn key(def: &TableDef, no: usize) -> &'static str {
    let has = |index: &IndexDef| index.columns.iter().any(|c| c.column == no);
    let leads = |index: &IndexDef| index.columns.first().is_some_and(|c| c.column == no);
    let whole = |index: &IndexDef| index.unique && index.columns.len() == 1;
    if def.shown_as_primary().is_some_and(|i| has(&def.indexes[i])) {
        "PRI"
    } else if def.indexes.iter().any(|i| leads(i) && whole(i)) {
        "UNI"
    } else if def.indexes.iter().any(leads) {
        "MUL"
    } else {
        ""
    }
}

pub(crate) fn extra(c: &Column) -> String {
    let mut parts = Vec::new();
    if c.auto_increment {
        parts.push("auto_increment".to_string());
    }
    if matches!(default_text(c), DefaultText::Now(_) | DefaultText::Expr(_)) {
        parts.push("DEFAULT_GENERATED".to_string());
    }
    if c.on_update_now {
        parts.push(format!("on update {}", super::create::now(c.ty.fsp())));
    }
    if let Some(generation) = &c.generation {
        let kind = if generation.stored { "STORED GENERATED" } else { "VIRTUAL GENERATED" };
        parts.push(kind.to_string());
    }
    if c.invisible {
        parts.push("INVISIBLE".to_string());
    }
    parts.join(" ")
}

/// The rows of SHOW INDEX: at most some hundred. `shows_keys` as for [`columns`].
pub(crate) async fn indexes(
    engine: &Engine,
    table: &Table,
    def: &TableDef,
    shows_keys: bool,
) -> Result<Vec<Made>> {
    let hidden = hidden_column(def, shows_keys);
    let rows = table.rows.load(Relaxed).max(0) as u64;
    let mut out = Vec::new();
    for index in in_display_order(def) {
        let no = def.indexes.iter().position(|other| std::ptr::eq(other, index));
        let no = no.expect("an index of the definition");
        let distinct = engine.distinct_values(table, no).await?;
        for (i, part) in index.columns.iter().enumerate() {
            let column = &def.columns[part.column];
            if hidden == Some(&*column.name) {
                continue;
            }
            let unique = index.unique && i + 1 == index.columns.len();
            out.push(vec![
                text(&def.name),
                int(!index.unique as u64),
                text(&index.name),
                int(i as u64 + 1),
                text(&column.name),
                text(if part.desc { "D" } else { "A" }),
                int(if unique { rows } else { distinct[i] }),
                part.prefix.map_or(Value::Null, int),
                Value::Null,
                text(if column.nullable { "YES" } else { "" }),
                text("BTREE"),
                nothing(),
                nothing(),
                text("YES"),
                Value::Null,
            ]);
        }
    }
    Ok(out)
}
