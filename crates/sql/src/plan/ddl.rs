//! Definitions. Everything about the new object is decided here, except what depends on the rows that are there.
use super::admin::TableName;
use redolith_types::{Collation, Column, IndexDef, TableDef};

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
    /// All or none.
    RenameTables(Vec<(TableName, TableName)>),
    /// CREATE INDEX, DROP INDEX and ALTER TABLE alike.
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
    /// CREATE TABLE .. [AS] SELECT: filled with it; `def` has the select's columns too.
    pub select: Option<Box<super::InsertPlan>>,
    /// Warnings to leave (1286/1266 for another ENGINE, ...): code and message.
    pub notes: Vec<(u16, String)>,
}

#[derive(Clone, Debug)]
pub enum AlterAction {
    /// Column numbers are those of the table as it is (or becomes with earlier actions).
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
    AddColumn {
        column: Column,
        after: Option<Box<str>>,
        first: bool,
    },
    DropColumn(Box<str>),
    /// ENGINE = InnoDB, FORCE: nothing to do but to commit.
    Rebuild,
}
