//! The primary key that the server makes for a table that is created without one, while
//! `sql_generate_invisible_primary_key` is on: a first column `my_row_id`, as in MySQL 8.0.30.
//!
//! **GIPK-1** A definition alone tells whether its key was generated: nothing else on disk says so.
//! A column that a user has defined in just this way counts as generated, too.
//! **GIPK-2** The binary log has the definition with the generated key. A replica generates no keys
//! of its own, so it would lack the column otherwise.
//! **GIPK-3** `show_gipk_in_create_table_and_information_schema` hides the key from SHOW and from
//! INFORMATION_SCHEMA. It changes nothing else: a statement that names the column finds it.
use crate::error::{Result, SqlError};
use redolith_types::{Column, IndexDef, SqlType, TableDef};
use std::borrow::Cow;

/// The name of the generated column.
pub const NAME: &str = "my_row_id";

/// True if the table's primary key was generated (GIPK-1).
pub fn has_generated_key(def: &TableDef) -> bool {
    let is_alone = |index: &IndexDef| matches!(&index.columns[..], [part] if part.column == 0);
    let counts = |c: &Column| {
        c.name.eq_ignore_ascii_case(NAME)
            && c.ty == SqlType::BIGINT_UNSIGNED
            && !c.nullable
            && c.auto_increment
            && c.invisible
    };
    def.columns.first().is_some_and(counts)
        && def.clustered_index().is_some_and(|i| is_alone(&def.indexes[i]))
}

/// Adds the key to a definition that has no primary key. Returns false if the definition has one.
pub fn generate(def: &mut TableDef) -> Result<bool> {
    if def.clustered_index().is_some() {
        return Ok(false);
    }
    if def.column(NAME).is_some() {
        return Err(SqlError::generated_key_column_exists());
    }
    if def.auto_increment_column().is_some() {
        return Err(SqlError::generated_key_counter_exists());
    }
    let mut column = Column::new(NAME, SqlType::BIGINT_UNSIGNED).not_null();
    (column.auto_increment, column.invisible) = (true, true);
    def.columns.insert(0, column);
    for part in def.indexes.iter_mut().flat_map(|index| &mut index.columns) {
        part.column += 1;
    }
    def.indexes.insert(0, IndexDef::primary([0]));
    debug_assert!(has_generated_key(def), "GIPK-1");
    Ok(true)
}

/// The name of the column that SHOW and INFORMATION_SCHEMA leave out (GIPK-3).
pub fn hidden_column(def: &TableDef, shows: bool) -> Option<&str> {
    (!shows && has_generated_key(def)).then(|| &*def.columns[0].name)
}

/// The definition as SHOW CREATE TABLE shows it (GIPK-3): an index keeps only its other columns.
pub fn shown(def: &TableDef, shows: bool) -> Cow<'_, TableDef> {
    if hidden_column(def, shows).is_none() {
        return Cow::Borrowed(def);
    }
    let mut def = def.clone();
    def.columns.remove(0);
    for index in &mut def.indexes {
        index.columns.retain(|part| part.column != 0);
        index.columns.iter_mut().for_each(|part| part.column -= 1);
    }
    def.indexes.retain(|index| !index.columns.is_empty());
    Cow::Owned(def)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_types::Collation;

    fn table(columns: Vec<Column>, indexes: Vec<IndexDef>) -> TableDef {
        TableDef {
            schema: "s".into(),
            name: "t".into(),
            columns,
            indexes,
            collation: Collation::Utf8mb4GeneralCi,
            comment: String::new(),
            checks: Vec::new(),
            statistics: Default::default(),
        }
    }

    /// Tests GIPK-1 and GIPK-3.
    #[test]
    fn a_generated_key_is_known_by_its_definition_and_can_be_hidden() {
        let columns = vec![Column::new("a", SqlType::INT), Column::new("b", SqlType::INT)];
        let mut def = table(columns, vec![IndexDef::secondary("b", false, [1])]);
        let before = def.clone();
        assert!(!has_generated_key(&def));
        assert_eq!(generate(&mut def), Ok(true));
        assert!(has_generated_key(&def));
        assert_eq!(def.indexes[1].columns[0].column, 2);
        assert_eq!(*shown(&def, true), def);
        assert_eq!(*shown(&def, false), before);
        assert_eq!((hidden_column(&def, false), hidden_column(&def, true)), (Some(NAME), None));
        assert_eq!(generate(&mut def), Ok(false));
        def.columns[0].invisible = false;
        assert!(!has_generated_key(&def));
    }

    #[test]
    fn a_key_is_not_generated_beside_a_counter_or_a_column_of_its_name() {
        let mut counter = Column::new("id", SqlType::INT).not_null();
        counter.auto_increment = true;
        let mut def = table(vec![counter], vec![IndexDef::secondary("id", false, [0])]);
        assert_eq!(generate(&mut def).unwrap_err().code, 4109);
        let mut def = table(vec![Column::new("My_Row_Id", SqlType::INT)], Vec::new());
        assert_eq!(generate(&mut def).unwrap_err().code, 4108);
        def.indexes.push(IndexDef::primary([0]));
        assert_eq!(generate(&mut def), Ok(false));
    }
}
