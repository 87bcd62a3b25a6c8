//! DDL statements. The plan decides everything about the new object except what depends on existing
//! rows.
use super::admin::TableName;
use super::dml::InsertPlan;
use crate::parse::ast::StatisticsOption;
pub use crate::parse::ast::ViewChange;
use crate::session_state::Level;
use redolith_engine::dict::view::ViewDef;
use redolith_types::{Collation, IndexDef, TableDef};

#[derive(Clone, Debug)]
pub enum DdlStmt {
    CreateDatabase {
        name: Box<str>,
        if_not_exists: bool,
        collation: Option<Collation>,
    },
    AlterDatabase {
        name: Box<str>,
        collation: Option<Collation>,
    },
    DropDatabase {
        name: Box<str>,
        if_exists: bool,
    },
    CreateTable(Box<CreateTable>),
    /// CREATE TABLE .. SELECT: run by the session, because it needs a transaction.
    CreateSelect(Box<CreateSelect>),
    /// CREATE TABLE .. LIKE
    CreateTableLike {
        name: TableName,
        like: TableName,
        temporary: bool,
        if_not_exists: bool,
    },
    DropTables {
        names: Vec<TableName>,
        /// Only temporary tables are meant. Without it, a temporary table hides another one.
        temporary: bool,
        if_exists: bool,
    },
    CreateView(Box<CreateView>),
    DropViews {
        names: Vec<TableName>,
        if_exists: bool,
    },
    Truncate(TableName),
    /// Renames all tables or none.
    RenameTables(Vec<(TableName, TableName)>),
    /// CREATE INDEX, DROP INDEX, and ALTER TABLE of all but columns and the primary key.
    AlterTable {
        table: TableName,
        actions: Vec<AlterAction>,
        /// As those of [`CreateTable`].
        notes: Vec<(Level, u16, String)>,
    },
    /// Other ALTER TABLE: run by the session, because it may need a transaction.
    Rebuild(Box<Rebuild>),
}

impl DdlStmt {
    /// CREATE TEMPORARY TABLE and DROP TEMPORARY TABLE: these end no transaction.
    pub fn is_temporary(&self) -> bool {
        match self {
            DdlStmt::CreateTable(create) => create.temporary,
            DdlStmt::CreateSelect(create) => create.create.temporary,
            DdlStmt::CreateTableLike { temporary, .. } | DdlStmt::DropTables { temporary, .. } => {
                *temporary
            }
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
pub struct CreateTable {
    pub def: TableDef,
    pub temporary: bool,
    pub if_not_exists: bool,
    /// The table option AUTO_INCREMENT = n.
    pub auto_increment: Option<u64>,
    /// Level, code and message of what the statement leaves: 1266 for another ENGINE, 1478 for
    /// options that are ignored, 1291 for duplicate names of an ENUM or SET.
    pub notes: Vec<(Level, u16, String)>,
}

#[derive(Clone, Debug)]
pub struct CreateView {
    pub def: ViewDef,
    pub change: ViewChange,
    pub unsaid: UnsaidOfView,
    /// The SELECT can be merged.
    pub is_plain: bool,
}

/// The clauses that the statement does not have. ALTER VIEW leaves the view what it had of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnsaidOfView {
    /// As in MySQL, ALGORITHM = UNDEFINED says nothing.
    pub algorithm: bool,
    pub definer: bool,
    pub security: bool,
}

#[derive(Clone, Debug)]
pub struct CreateSelect {
    pub create: CreateTable,
    /// How the rows get into the new table, whose place a definition without a table holds.
    pub insert: InsertPlan,
}

/// A table gets a new definition.
#[derive(Clone, Debug)]
pub struct Rebuild {
    pub table: TableName,
    /// The whole new definition, with the table's new name.
    pub def: TableDef,
    /// How the rows get into the new table, whose place a definition without a table holds. None if
    /// the rows stay as they are (ALTER-3).
    pub copy: Option<InsertPlan>,
    /// The old and the new names of the columns that stay.
    pub kept: Vec<(String, String)>,
    /// The table option AUTO_INCREMENT = n.
    pub auto_increment: Option<u64>,
    /// The values of the old AUTO_INCREMENT column go to the new one.
    pub keeps_counter: bool,
    /// As those of [`CreateTable`].
    pub notes: Vec<(Level, u16, String)>,
    /// The statement has DROP PRIMARY KEY, or its other form.
    pub drops_key: bool,
    /// The database's collation, if the definition depends on it (CONVERT TO CHARACTER SET
    /// DEFAULT). It may be another one when the statement has its locks.
    pub database_collation: Option<Collation>,
}

#[derive(Clone, Debug)]
pub enum AlterAction {
    AddIndex(IndexDef),
    DropIndex(Box<str>),
    RenameIndex {
        from: Box<str>,
        to: Box<str>,
    },
    RenameTable(TableName),
    AutoIncrement(u64),
    Comment(Box<str>),
    Statistics(StatisticsOption),
    /// The default for new columns.
    Collation(Collation),
    /// ENGINE = InnoDB, FORCE: the statement only commits.
    Rebuild,
}
