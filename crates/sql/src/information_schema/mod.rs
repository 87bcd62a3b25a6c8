//! INFORMATION_SCHEMA: tables whose rows are made when they are read.
//!
//! The binder finds a table by name ([`Virtual::from_name`]) and treats its
//! [definition](Virtual::info) like the definition of any table. In a plan the table is a source of
//! its own kind; [`rows`] makes its rows when the statement begins. The executor filters, joins,
//! groups and sorts the rows like the rows of every source.
//!
//! ISCH-1: case does not matter in the names of the schema and of its tables. (It matters in the
//! names of other schemas and tables.)
//! ISCH-2: no statement writes here: a write is error 1044 for every user.
mod column_statistics;
mod definition;
mod innodb;
mod server;
mod tables;
mod views;

use crate::database::Database;
use crate::error::Result;
use crate::exec::scan::go_on;
use crate::exec::server_rows::{Gathered, Row};
use crate::exec::show;
use crate::memory::Account;
use crate::processes::Process;
use crate::table_info::TableInfo;
use redolith_engine::Engine;
use redolith_engine::dict::table::Table;
use redolith_engine::dict::view::View;
use redolith_engine::runtime::give_way;
use redolith_types::Value;
use std::sync::{Arc, LazyLock};

pub const SCHEMA: &str = "information_schema";

/// True if `name` is INFORMATION_SCHEMA (ISCH-1).
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
    InnodbBufferPage "INNODB_BUFFER_PAGE",
    InnodbBufferPageLru "INNODB_BUFFER_PAGE_LRU",
    InnodbBufferPoolStats "INNODB_BUFFER_POOL_STATS",
    InnodbMetrics "INNODB_METRICS",
    InnodbTrx "INNODB_TRX",
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
    /// Finds a table by its name (ISCH-1).
    pub fn from_name(name: &str) -> Option<Virtual> {
        NAMES.iter().position(|n| n.eq_ignore_ascii_case(name)).map(|i| ALL[i])
    }
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
    /// The table's definition for the binder.
    pub fn info(self) -> &'static Arc<TableInfo> {
        &INFOS[self as usize]
    }
}

pub(crate) use tables::tables_and_views;

/// The tables and views about which rows are asked for.
pub struct Asked {
    pub tables: Vec<Arc<Table>>,
    pub views: Vec<Arc<View>>,
    pub process: Arc<Process>,
}
impl Asked {
    /// Called before the rows about each of them: a dictionary may be large.
    async fn pause(&self, engine: &Engine) -> Result<()> {
        go_on(&self.process)?;
        give_way(&*engine.runtime).await;
        Ok(())
    }
}

/// Makes the rows of a table and charges for them. Of the rows about tables and views, only those
/// in `asked` are made. `shows_keys` says whether generated primary keys are
/// shown (GIPK-3).
pub async fn rows(
    table: Virtual,
    db: &Database,
    asked: Asked,
    shows_keys: bool,
    memory: &mut Account,
) -> Result<Vec<Row>> {
    show::before_tables(&db.engine);
    let mut out = Gathered::new(memory);
    match table {
        Virtual::CheckConstraints => tables::check_constraints(&db.engine, asked, &mut out).await?,
        Virtual::CharacterSets => out.extend(server::character_sets())?,
        Virtual::CollationCharacterSetApplicability => {
            out.extend(server::collation_applicability())?
        }
        Virtual::Collations => out.extend(show::collations())?,
        Virtual::Columns => tables::columns(&db.engine, asked, shows_keys, &mut out).await?,
        Virtual::Engines => out.extend(show::engines())?,
        Virtual::InnodbBufferPage => innodb::pages(db, &asked, &mut out).await?,
        Virtual::InnodbBufferPageLru => innodb::pages_by_age(db, &asked, &mut out).await?,
        Virtual::InnodbBufferPoolStats => out.push(innodb::pool_stats(db))?,
        Virtual::InnodbMetrics => out.extend(server::metrics(db))?,
        Virtual::InnodbTrx => innodb::transactions(db, &asked, &mut out).await?,
        Virtual::KeyColumnUsage => {
            tables::key_column_usage(&db.engine, asked, shows_keys, &mut out).await?
        }
        Virtual::Processlist => out.extend(show::processes_in_schema(&db.processes))?,
        Virtual::Schemata => out.extend(tables::schemata(&db.engine))?,
        Virtual::Statistics => tables::statistics(&db.engine, asked, shows_keys, &mut out).await?,
        Virtual::TableConstraints => {
            tables::table_constraints(&db.engine, asked, shows_keys, &mut out).await?
        }
        Virtual::Tables => tables::tables(&db.engine, asked, &mut out).await?,
        Virtual::ColumnStatistics => column_statistics::rows(&db.engine, asked, &mut out).await?,
        // The server has none of these objects.
        Virtual::Events
        | Virtual::Files
        | Virtual::Partitions
        | Virtual::ReferentialConstraints
        | Virtual::Routines
        | Virtual::Triggers => {}
        Virtual::Views => views::views(&db.engine, asked, &mut out).await?,
    }
    Ok(out.into_rows())
}

fn text(s: impl AsRef<str>) -> Value<'static> {
    Value::owned(s.as_ref().as_bytes().to_vec())
}
fn int(n: impl TryInto<u64>) -> Value<'static> {
    Value::UInt(n.try_into().unwrap_or(0))
}
/// The name of the only catalog.
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
