//! DDL statements. The plan decides everything about the new object except what depends on existing
//! rows.
use super::admin::TableName;
use super::dml::InsertPlan;
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
        if_not_exists: bool,
    },
    DropTables {
        names: Vec<TableName>,
        if_exists: bool,
    },
    Truncate(TableName),
    /// Renames all tables or none.
    RenameTables(Vec<(TableName, TableName)>),
    /// CREATE INDEX, DROP INDEX and ALTER TABLE.
    AlterTable {
        table: TableName,
        actions: Vec<AlterAction>,
    },
}

#[derive(Clone, Debug)]
pub struct CreateTable {
    pub def: TableDef,
    pub if_not_exists: bool,
    /// The table option AUTO_INCREMENT = n.
    pub auto_increment: Option<u64>,
    /// Code and message of the warnings that the statement leaves (1266 for another ENGINE, ...).
    pub notes: Vec<(u16, String)>,
}

#[derive(Clone, Debug)]
pub struct CreateSelect {
    pub create: CreateTable,
    /// How the rows get into the new table, whose place a definition without a table holds.
    pub insert: InsertPlan,
}

#[derive(Clone, Debug)]
pub enum AlterAction {
    AddIndex(IndexDef),
    DropIndex(Box<str>),
    DropPrimaryKey,
    RenameIndex {
        from: Box<str>,
        to: Box<str>,
    },
    RenameTable(TableName),
    AutoIncrement(u64),
    Comment(Box<str>),
    /// The default for new columns.
    Collation(Collation),
    /// ENGINE = InnoDB, FORCE: the statement only commits.
    Rebuild,
}
