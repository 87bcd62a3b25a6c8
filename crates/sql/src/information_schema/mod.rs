//! INFORMATION_SCHEMA: tables that are made when they are read.
//!
//! The binder finds them by name ([`Virtual::from_name`]) and treats their
//! [definition](Virtual::info) like any table's; a plan reads them as a source of its own kind,
//! whose rows [`rows`] makes when the statement begins. Filters, joins, grouping and sorting are
//! the executor's, as for every source.
//!
//! ISCH-1: the names of the schema and of its tables are the same in upper and lower case (all
//! other names are told apart).
//! ISCH-2: nothing writes here: error 1044, whoever asks.
mod definition;
mod server;
mod tables;

use crate::database::Database;
use crate::error::Result;
use crate::exec::server_rows::{Gathered, Row};
use crate::exec::show;
use crate::memory::Account;
use crate::table_info::TableInfo;
use redolith_engine::dict::table::Table;
use redolith_types::Value;
use std::sync::{Arc, LazyLock};

pub const SCHEMA: &str = "information_schema";

/// ISCH-1.
pub fn is_schema(name: &str) -> bool {
    name.eq_ignore_ascii_case(SCHEMA)
}

macro_rules! tables {
    ($($name:ident $spelt:literal,)*) => {
        /// A table of INFORMATION_SCHEMA.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Virtual { $($name),* }
        const ALL: &[Virtual] = &[$(Virtual::$name),*];
        const NAMES: &[&str] = &[$($spelt),*];
    };
}
tables! {
    CharacterSets "CHARACTER_SETS",
    CheckConstraints "CHECK_CONSTRAINTS",
    CollationCharacterSetApplicability "COLLATION_CHARACTER_SET_APPLICABILITY",
    Collations "COLLATIONS",
    Columns "COLUMNS",
    ColumnStatistics "COLUMN_STATISTICS",
    Engines "ENGINES",
    Events "EVENTS",
    Files "FILES",
    InnodbMetrics "INNODB_METRICS",
    KeyColumnUsage "KEY_COLUMN_USAGE",
    Partitions "PARTITIONS",
    Processlist "PROCESSLIST",
    ReferentialConstraints "REFERENTIAL_CONSTRAINTS",
    Routines "ROUTINES",
    Schemata "SCHEMATA",
    Statistics "STATISTICS",
    TableConstraints "TABLE_CONSTRAINTS",
    Tables "TABLES",
    Triggers "TRIGGERS",
    Views "VIEWS",
}

static INFOS: LazyLock<Vec<Arc<TableInfo>>> = LazyLock::new(|| {
    ALL.iter().map(|t| Arc::new(TableInfo::definition(definition::definition(*t)))).collect()
});

impl Virtual {
    pub fn all() -> &'static [Virtual] {
        ALL
    }
    /// ISCH-1.
    pub fn from_name(name: &str) -> Option<Virtual> {
        NAMES.iter().position(|n| n.eq_ignore_ascii_case(name)).map(|i| ALL[i])
    }
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
    /// Its columns, as the binder wants them.
    pub fn info(self) -> &'static Arc<TableInfo> {
        &INFOS[self as usize]
    }
}

pub(crate) use tables::{base_tables, place};

/// All rows as they are now, charged as they are made; of tables only those of `asked`, where a row
/// takes more than a look into the dictionary.
pub async fn rows(
    table: Virtual,
    db: &Database,
    asked: Vec<Arc<Table>>,
    memory: &mut Account,
) -> Result<Vec<Row>> {
    show::before_tables(&db.engine);
    let mut out = Gathered::new(memory);
    match table {
        Virtual::CharacterSets => out.extend(server::character_sets())?,
        Virtual::CollationCharacterSetApplicability => {
            out.extend(server::collation_applicability())?
        }
        Virtual::Collations => out.extend(show::collations())?,
        Virtual::Columns => tables::columns(&db.engine, &mut out)?,
        Virtual::Engines => out.extend(show::engines())?,
        Virtual::InnodbMetrics => out.extend(server::metrics(db))?,
        Virtual::KeyColumnUsage => tables::key_column_usage(&db.engine, &mut out)?,
        Virtual::Processlist => out.extend(show::processes(&db.processes, true))?,
        Virtual::Schemata => out.extend(tables::schemata(&db.engine))?,
        Virtual::Statistics => tables::statistics(&db.engine, asked, &mut out).await?,
        Virtual::TableConstraints => tables::table_constraints(&db.engine, &mut out)?,
        Virtual::Tables => tables::tables(&db.engine, asked, &mut out).await?,
        // There is nothing of the kind.
        Virtual::CheckConstraints
        | Virtual::ColumnStatistics
        | Virtual::Events
        | Virtual::Files
        | Virtual::Partitions
        | Virtual::ReferentialConstraints
        | Virtual::Routines
        | Virtual::Triggers
        | Virtual::Views => {}
    }
    Ok(out.into_rows())
}

fn text(s: impl AsRef<str>) -> Value<'static> {
    Value::owned(s.as_ref().as_bytes().to_vec())
}
fn int(n: impl TryInto<u64>) -> Value<'static> {
    Value::UInt(n.try_into().unwrap_or(0))
}
/// The catalog, of which there is one.
fn def() -> Value<'static> {
    Value::bytes(b"def")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_definitions() {
        assert!(
            is_schema("INFORMATION_SCHEMA")
                && is_schema("Information_Schema")
                && !is_schema("test")
        );
        assert_eq!(Virtual::from_name("innodb_metrics"), Some(Virtual::InnodbMetrics));
        assert_eq!(Virtual::from_name("nothing"), None);
        for table in Virtual::all() {
            assert_eq!(Virtual::from_name(table.name()), Some(*table));
            assert_eq!(table.info().def.name, table.name());
        }
        assert_eq!(Virtual::InnodbMetrics.info().def.columns.len(), 17);
    }
}
