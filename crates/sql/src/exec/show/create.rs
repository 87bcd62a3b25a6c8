//! Writes the text of SHOW CREATE TABLE and SHOW CREATE DATABASE. It equals MySQL 8.0's text to the
//! byte, because clients parse it and dumps consist of it.
use super::text;
use crate::error::Result;
use crate::exec::server_rows::Gathered;
use crate::memory::Account;
use redolith_types::convert::text_to_f64;
use redolith_types::sql_type::quoted;
use redolith_types::{
    CheckDef, Collation, Column, DefaultValue, IndexDef, SqlType, TableDef, Value,
};
use std::fmt::Write as _;

/// A column's default in the output of SHOW.
pub(crate) enum DefaultText {
    None,
    Null,
    /// A text or a number, without quotes.
    Literal(String),
    /// A value such as b'101' or 0xFF00, which stands without quotes.
    Bits(String),
    /// CURRENT_TIMESTAMP with its decimals.
    Now(String),
    /// An expression without its brackets.
    Expr(String),
}

pub(crate) fn default_text(c: &Column) -> DefaultText {
    // TEXT and BLOB have no default that is shown; JSON has NULL.
    let shows_null = !c.ty.is_lob() || c.ty == SqlType::Json;
    match &c.default {
        _ if c.generation.is_some() => DefaultText::None,
        None if c.nullable && shows_null => DefaultText::Null,
        None => DefaultText::None,
        Some(DefaultValue::Null) if !shows_null => DefaultText::None,
        Some(DefaultValue::Null) => DefaultText::Null,
        Some(DefaultValue::Literal(bytes)) => match c.ty {
            SqlType::Bit { .. } => DefaultText::Bits(bits(bytes)),
            SqlType::Float { .. } => DefaultText::Literal(float(&c.ty, bytes)),
            // Quoted bytes could not be sent in the client's character set and read again.
            _ if is_binary(&c.ty) && !bytes.iter().all(|b| matches!(b, b' '..=b'~')) => {
                DefaultText::Bits(format!("0x{}", crate::xa::hex(bytes).to_uppercase()))
            }
            _ => DefaultText::Literal(String::from_utf8_lossy(bytes).into_owned()),
        },
        Some(DefaultValue::CurrentTimestamp(fsp)) => DefaultText::Now(now(*fsp)),
        Some(DefaultValue::Expr(e)) => DefaultText::Expr(e.clone()),
    }
}

fn is_binary(ty: &SqlType) -> bool {
    matches!(ty, SqlType::Binary { .. } | SqlType::VarBinary { .. })
}

pub(super) fn now(fsp: u8) -> String {
    if fsp == 0 { "CURRENT_TIMESTAMP".into() } else { format!("CURRENT_TIMESTAMP({fsp})") }
}

fn bits(bytes: &[u8]) -> String {
    let number = bytes.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    format!("b'{number:b}'")
}

/// The default of a FLOAT, whose text has all digits of the number, as a column shows it.
fn float(ty: &SqlType, digits: &[u8]) -> String {
    let mut out = Vec::new();
    ty.write_text(&Value::Float(text_to_f64(digits).value as f32), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Puts a name in backticks.
pub(crate) fn name(s: &str) -> String {
    format!("`{}`", s.replace('`', "``"))
}

/// The indexes in MySQL's order: the primary key, unique keys without NULLs, other unique keys, the
/// rest. Within each class, indexes stand in the order in which they were made.
pub(super) fn in_display_order(def: &TableDef) -> Vec<&IndexDef> {
    let mut all: Vec<&IndexDef> = def.indexes.iter().collect();
    all.sort_by_key(|i| match (i.primary, i.unique) {
        (true, _) => 0,
        (_, true) if i.columns.iter().all(|c| !def.columns[c.column].nullable) => 1,
        (_, true) => 2,
        _ => 3,
    });
    all
}

/// Makes the row of SHOW CREATE TABLE. `next` is the next AUTO_INCREMENT value.
pub(super) fn show(
    def: &TableDef,
    temporary: bool,
    next: u64,
    out: &mut Gathered<'_>,
) -> Result<()> {
    let mark = out.memory().used();
    let mut made = table(def, &name(&def.name), next, out.memory())?;
    if temporary {
        made.insert_str("CREATE".len(), " TEMPORARY");
    }
    made.shrink_to_fit();
    // From here on, the charge for the row includes the text.
    out.memory().release_to(mark);
    out.push(vec![text(&def.name), Value::owned(made.into_bytes())])
}

/// Writes the text of CREATE TABLE for a table that the text calls `called`, and charges for it as
/// it grows.
pub(crate) fn table(
    def: &TableDef,
    called: &str,
    next: u64,
    memory: &mut Account,
) -> Result<String> {
    let mut out = format!("CREATE TABLE {called} (\n");
    let columns = def.columns.iter().map(|c| column(c, def.collation));
    let indexes = in_display_order(def).into_iter().map(|i| index(def, i));
    let checks = def.checks.iter().map(check);
    let mut counted = 0;
    for (n, line) in columns.chain(indexes).chain(checks).enumerate() {
        out.extend([if n > 0 { ",\n" } else { "" }, &line]);
        memory.recount(&mut counted, out.capacity())?;
    }
    out.push_str("\n) ENGINE=InnoDB");
    if def.auto_increment_column().is_some() && next > 1 {
        let _ = write!(out, " AUTO_INCREMENT={next}");
    }
    let charset = def.collation.charset().name();
    let _ = write!(out, " DEFAULT CHARSET={charset}");
    // MySQL 8 always names the collation of utf8mb4, because its default has changed.
    if charset == "utf8mb4" || !def.collation.is_default() {
        let _ = write!(out, " COLLATE={}", def.collation.name());
    }
    out.extend(def.statistics.said().map(|option| format!(" {option}")));
    if !def.comment.is_empty() {
        let _ = write!(out, " COMMENT={}", quoted(&def.comment));
    }
    Ok(out)
}

fn column(c: &Column, table: Collation) -> String {
    let mut out = format!("  {} {}", name(&c.name), c.ty.create_text(table));
    if let Some(generation) = &c.generation {
        let kind = if generation.stored { "STORED" } else { "VIRTUAL" };
        let _ = write!(out, " GENERATED ALWAYS AS ({}) {kind}", generation.expression);
    }
    if !c.nullable {
        out.push_str(" NOT NULL");
    } else if matches!(c.ty, SqlType::Timestamp { .. }) {
        out.push_str(" NULL");
    }
    if !c.auto_increment {
        match default_text(c) {
            DefaultText::None => {}
            DefaultText::Null => out.push_str(" DEFAULT NULL"),
            DefaultText::Literal(s) => out.extend([" DEFAULT ", &quoted(&s)]),
            DefaultText::Bits(s) | DefaultText::Now(s) => out.extend([" DEFAULT ", &s]),
            DefaultText::Expr(s) => out.extend([" DEFAULT (", &s, ")"]),
        }
    }
    if c.on_update_now {
        out.extend([" ON UPDATE ", &now(c.ty.fsp())]);
    }
    if c.auto_increment {
        out.push_str(" AUTO_INCREMENT");
    }
    if c.invisible {
        out.push_str(" /*!80023 INVISIBLE */");
    }
    if !c.comment.is_empty() {
        out.extend([" COMMENT ", &quoted(&c.comment)]);
    }
    out
}

fn check(c: &CheckDef) -> String {
    let enforced = if c.enforced { "" } else { " /*!80016 NOT ENFORCED */" };
    format!("  CONSTRAINT {} CHECK ({}){enforced}", name(&c.name), c.condition)
}

fn index(def: &TableDef, i: &IndexDef) -> String {
    let mut out = match (i.primary, i.unique) {
        (true, _) => "  PRIMARY KEY ".to_string(),
        (_, true) => format!("  UNIQUE KEY {} ", name(&i.name)),
        _ => format!("  KEY {} ", name(&i.name)),
    };
    let part = |p: &redolith_types::IndexColumn| {
        let mut text = name(&def.columns[p.column].name);
        if let Some(prefix) = p.prefix {
            let _ = write!(text, "({prefix})");
        }
        text.push_str(if p.desc { " DESC" } else { "" });
        text
    };
    let parts: Vec<String> = i.columns.iter().map(part).collect();
    let _ = write!(out, "({})", parts.join(","));
    out
}

pub(super) fn database(schema: &str, collation: Collation, if_not_exists: bool) -> String {
    let charset = collation.charset().name();
    let not_there = if if_not_exists { "/*!32312 IF NOT EXISTS*/ " } else { "" };
    let mut out = format!(
        "CREATE DATABASE {not_there}{} /*!40100 DEFAULT CHARACTER SET {charset}",
        name(schema)
    );
    if charset == "utf8mb4" || !collation.is_default() {
        let _ = write!(out, " COLLATE {}", collation.name());
    }
    out.push_str(" */ /*!80016 DEFAULT ENCRYPTION='N' */");
    out
}
