//! Binds the definition of an index: finds its columns, invents a name if none is given, and checks
//! the limits.
use crate::error::{Result, SqlError};
use crate::parse::ast::{IndexKind, IndexPart, IndexSpec};
use crate::parse::limits::{MAX_INDEXES, MAX_KEY_PARTS, MAX_NAME_CHARS};
use redolith_types::{Column, IndexColumn, IndexDef, SqlType, TableDef};

const MAX_KEY_BYTES: u64 = 3072;

/// Adds an index to the definition. `nullable` tells which columns were declared NULL or NOT NULL.
/// A primary key makes its columns NOT NULL unless they were declared NULL.
pub(super) fn add(
    def: &mut TableDef,
    spec: &IndexSpec,
    nullable: &[Option<bool>],
) -> Result<IndexDef> {
    if def.indexes.len() >= MAX_INDEXES {
        return Err(SqlError::too_many_keys(MAX_INDEXES));
    }
    if spec.parts.len() > MAX_KEY_PARTS {
        return Err(SqlError::too_many_key_parts(MAX_KEY_PARTS));
    }
    let primary = spec.kind == IndexKind::Primary;
    if primary && def.indexes.iter().any(|i| i.primary) {
        return Err(SqlError::multiple_primary_key());
    }
    let mut columns: Vec<IndexColumn> = Vec::with_capacity(spec.parts.len());
    for part in &spec.parts {
        let found = part_column(def, part, primary)?;
        if columns.iter().any(|c| c.column == found.column) {
            return Err(SqlError::duplicate_column(&part.column));
        }
        columns.push(found);
    }
    let bytes: u64 = columns.iter().map(|c| key_bytes(&def.columns[c.column], c.prefix)).sum();
    if bytes > MAX_KEY_BYTES {
        return Err(SqlError::key_too_long(MAX_KEY_BYTES));
    }
    if primary {
        for part in &columns {
            if def.columns[part.column].generation.as_ref().is_some_and(|g| !g.stored) {
                return Err(SqlError::not_for_generated_columns(
                    "Defining a virtual generated column as primary key",
                ));
            }
            if nullable[part.column] == Some(true) {
                return Err(SqlError::primary_cannot_be_null());
            }
            def.columns[part.column].nullable = false;
            if def.columns[part.column].default == Some(redolith_types::DefaultValue::Null) {
                return Err(SqlError::invalid_default(&def.columns[part.column].name));
            }
        }
    }
    let name = index_name(def, spec, &columns)?;
    let index = IndexDef { name, unique: spec.kind != IndexKind::Plain, primary, columns };
    def.indexes.push(index.clone());
    Ok(index)
}

fn part_column(def: &TableDef, part: &IndexPart, primary: bool) -> Result<IndexColumn> {
    let column =
        def.column(&part.column).ok_or_else(|| SqlError::key_column_missing(&part.column))?;
    let ty = &def.columns[column].ty;
    let length = match ty {
        SqlType::Json => return Err(SqlError::json_as_key(&part.column)),
        SqlType::Char { chars, .. } | SqlType::VarChar { chars, .. } => Some(*chars),
        SqlType::Binary { len } | SqlType::VarBinary { len } => Some(*len),
        _ if ty.is_lob() => None,
        _ => {
            return if part.prefix.is_some() {
                Err(SqlError::wrong_prefix_key())
            } else {
                Ok(IndexColumn { column, prefix: None, desc: part.descending })
            };
        }
    };
    let prefix = match (part.prefix, length) {
        (None, None) => return Err(SqlError::blob_key_without_length(&part.column)),
        (Some(0), _) => {
            return Err(SqlError::new(
                1391,
                format!("Key part '{}' length cannot be 0", part.column),
            ));
        }
        (Some(prefix), Some(length)) if prefix > length => return Err(SqlError::wrong_prefix_key()),
        (Some(prefix), Some(length)) if prefix == length => None,
        (prefix, _) => prefix,
    };
    let _ = primary;
    Ok(IndexColumn { column, prefix, desc: part.descending })
}

fn key_bytes(column: &Column, prefix: Option<u32>) -> u64 {
    let per_char = column.ty.collation().map_or(1, |c| u64::from(c.charset().max_len()));
    match (prefix, column.ty.max_bytes()) {
        (Some(prefix), _) => u64::from(prefix) * per_char,
        (None, Some(bytes)) => bytes,
        (None, None) => 8,
    }
}

/// The index's name: PRIMARY, the given name, or the name of the first column (with a number if
/// that name is taken).
fn index_name(def: &TableDef, spec: &IndexSpec, columns: &[IndexColumn]) -> Result<String> {
    if spec.kind == IndexKind::Primary {
        return Ok("PRIMARY".into());
    }
    let taken = |name: &str| def.indexes.iter().any(|i| i.name.eq_ignore_ascii_case(name));
    if let Some(name) = &spec.name {
        check_name(name)?;
        return if taken(name) {
            Err(SqlError::duplicate_key_name(name))
        } else {
            Ok(name.clone())
        };
    }
    let base = &def.columns[columns[0].column].name;
    if !taken(base) && !base.eq_ignore_ascii_case("PRIMARY") {
        return Ok(base.clone());
    }
    Ok((2..).map(|n| format!("{base}_{n}")).find(|name| !taken(name)).unwrap_or_default())
}

/// Refuses the name of the primary key as that of an index that is to be renamed, or a new one.
pub(super) fn check_not_primary(name: &str) -> Result<()> {
    if name.eq_ignore_ascii_case("PRIMARY") { Err(wrong_name(name)) } else { Ok(()) }
}
fn wrong_name(name: &str) -> SqlError {
    SqlError::new(1280, format!("Incorrect index name '{name}'"))
}

/// Checks a name that a statement gives to an index other than the primary key.
pub(super) fn check_name(name: &str) -> Result<()> {
    check_not_primary(name)?;
    if name.is_empty() || name.ends_with(' ') {
        return Err(wrong_name(name));
    }
    if name.chars().count() > MAX_NAME_CHARS {
        return Err(SqlError::name_too_long(name));
    }
    Ok(())
}

/// Sorts the indexes in MySQL's order.
pub(super) fn sort(def: &mut TableDef) {
    let mut indexes = std::mem::take(&mut def.indexes);
    indexes.sort_by_key(|index| def.index_rank(index));
    def.indexes = indexes;
}

/// Error 1075: a table has at most one AUTO_INCREMENT column, and the column must be the first of
/// an index.
pub(super) fn check_auto_increment(def: &TableDef) -> Result<()> {
    let mut counting = def.columns.iter().enumerate().filter(|(_, c)| c.auto_increment);
    let Some((column, _)) = counting.next() else { return Ok(()) };
    let is_key = def.indexes.iter().any(|i| i.columns[0].column == column);
    if counting.next().is_some() || !is_key { Err(SqlError::wrong_auto_key()) } else { Ok(()) }
}
