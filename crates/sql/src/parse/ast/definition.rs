//! The syntax tree of definitions: columns, indexes, CREATE TABLE and ALTER TABLE.
use super::{Expr, Name, Select, Span};
use crate::plan::UnsaidOfView;
use redolith_engine::dict::view::{Algorithm, CheckOption};
use redolith_types::StatisticsOptions;
use std::num::NonZeroU16;

/// A column's type as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataType {
    /// The name in upper case, with synonyms resolved (INTEGER is INT, BOOL is TINYINT(1), ...).
    pub name: &'static str,
    /// The numbers in parentheses: (length) or (precision, scale).
    pub args: Vec<u32>,
    pub unsigned: bool,
    pub zerofill: bool,
    pub charset: Option<String>,
    pub collation: Option<String>,
    /// The members of an ENUM or SET, as numbers of literals.
    pub members: Vec<u32>,
}
#[derive(Clone, Debug)]
pub struct ColumnDef {
    pub name: String,
    pub ty: DataType,
    /// NULL or NOT NULL; None if the text has neither.
    pub nullable: Option<bool>,
    pub default: Option<Expr>,
    /// DEFAULT (expr) in parentheses, which is evaluated for each row.
    pub default_is_expression: bool,
    pub on_update: Option<Expr>,
    pub auto_increment: bool,
    pub invisible: bool,
    pub comment: Option<u32>,
    pub primary: bool,
    pub unique: bool,
    pub checks: Vec<CheckSpec>,
    pub generation: Option<GenerationSpec>,
    /// SERIAL DEFAULT VALUE, REFERENCES, ...
    pub unsupported: Option<&'static str>,
}
/// `[GENERATED ALWAYS] AS (expression) [VIRTUAL | STORED]`
#[derive(Clone, Debug)]
pub struct GenerationSpec {
    pub expression: Expr,
    pub stored: bool,
}
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexPart {
    pub column: String,
    pub prefix: Option<u32>,
    pub descending: bool,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexKind {
    Primary,
    Unique,
    Plain,
}
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexSpec {
    pub kind: IndexKind,
    pub name: Option<String>,
    pub parts: Vec<IndexPart>,
    pub comment: Option<u32>,
}
/// `[CONSTRAINT [name]] CHECK (condition) [[NOT] ENFORCED]`
#[derive(Clone, Debug)]
pub struct CheckSpec {
    pub name: Option<String>,
    pub condition: Expr,
    pub enforced: bool,
    /// The column in whose definition the constraint stands, which is the only one that it may
    /// name.
    pub column: Option<String>,
}
/// What CREATE TABLE and ALTER TABLE ADD may have beside columns.
#[derive(Clone, Debug)]
pub enum TableElement {
    Index(IndexSpec),
    Check(CheckSpec),
}
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    pub engine: Option<String>,
    pub charset: Option<String>,
    pub collation: Option<String>,
    pub auto_increment: Option<u64>,
    pub comment: Option<u32>,
    /// The options about statistics, in the order of the text.
    pub statistics: Vec<StatisticsOption>,
    /// The messages of warning 1478, about what the table does not get.
    pub ignored: Vec<String>,
}
/// A table option about statistics; None is DEFAULT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatisticsOption {
    Persistent(Option<bool>),
    AutoRecalc(Option<bool>),
    SamplePages(Option<NonZeroU16>),
}
impl StatisticsOption {
    pub fn apply(self, to: &mut StatisticsOptions) {
        match self {
            StatisticsOption::Persistent(said) => to.persistent = said,
            StatisticsOption::AutoRecalc(said) => to.auto_recalc = said,
            StatisticsOption::SamplePages(said) => to.sample_pages = said,
        }
    }
}
#[derive(Clone, Debug)]
pub struct CreateTable {
    pub name: Name,
    pub temporary: bool,
    pub if_not_exists: bool,
    pub columns: Vec<ColumnDef>,
    pub indexes: Vec<IndexSpec>,
    /// The check constraints of the table and of its columns, in the order of the text.
    pub checks: Vec<CheckSpec>,
    pub options: TableOptions,
    pub select: Option<Box<Select>>,
    /// What becomes of a row of the SELECT whose key is taken.
    pub on_taken: OnTaken,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViewChange {
    Create,
    CreateOrReplace,
    Alter,
}
#[derive(Clone, Debug)]
pub struct CreateView {
    pub name: Name,
    pub columns: Vec<String>,
    pub select: Box<Select>,
    /// The place of the SELECT in the text.
    pub span: Span,
    pub change: ViewChange,
    pub algorithm: Algorithm,
    /// None: the user.
    pub definer: Option<(String, String)>,
    pub invoker: bool,
    pub unsaid: UnsaidOfView,
    pub check: CheckOption,
}

/// What becomes of a row whose key is taken: IGNORE, REPLACE, or neither word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnTaken {
    Error,
    Ignore,
    Replace,
}
#[derive(Clone, Debug)]
pub enum Alter {
    AddIndex(IndexSpec),
    DropIndex(String),
    DropPrimaryKey,
    AddCheck(CheckSpec),
    DropCheck(String),
    /// DROP CONSTRAINT of any kind.
    DropConstraint(String),
    /// `ALTER CHECK name [NOT] ENFORCED`
    Enforce(String, bool),
    /// `ALTER CONSTRAINT name [NOT] ENFORCED`
    EnforceConstraint(String, bool),
    RenameIndex(String, String),
    RenameTo(Name),
    Options(TableOptions),
    AddColumn(ColumnDef, Place),
    /// CHANGE and MODIFY: the column's present name, and all that it shall be.
    ChangeColumn {
        from: String,
        column: ColumnDef,
        place: Place,
    },
    DropColumn(String),
    RenameColumn(String, String),
    /// SET DEFAULT value, SET DEFAULT (expression), and without one DROP DEFAULT.
    Default {
        column: String,
        value: Option<Expr>,
        is_expression: bool,
    },
    /// SET VISIBLE, SET INVISIBLE
    Visible(String, bool),
    /// CONVERT TO CHARACTER SET charset [COLLATE collation]; DEFAULT is an empty name.
    Convert(String, Option<String>),
    /// FORCE, ENABLE/DISABLE KEYS, ALGORITHM, LOCK
    Nothing,
    Unsupported(&'static str),
}

impl Alter {
    /// The definition of a column that the action has.
    pub fn column_def(&self) -> Option<&ColumnDef> {
        match self {
            Alter::AddColumn(column, _) | Alter::ChangeColumn { column, .. } => Some(column),
            _ => None,
        }
    }
}

/// The place of a column that ALTER TABLE adds or changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// Where it is, or at the end.
    Unsaid,
    First,
    After(String),
}
