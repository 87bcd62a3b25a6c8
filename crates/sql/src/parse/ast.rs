//! The syntax tree: the statement before any name is looked up. Names are owned, because parsing is
//! not the hot path. Literals are numbers into [`Parsed::literals`](super::Parsed).
mod definition;
mod json_table;

pub use super::window::{Frame, FrameBound, Over, WindowCall, WindowSpec};
use crate::explain::Format;
use crate::plan::{
    IntervalUnit, Isolation, SetOperator, SetTarget, TableLock, TransactionStmt, VariableScope,
    XaVerb,
};
pub use definition::*;
pub use json_table::*;
use redolith_types::Charset;

/// A range of bytes in the statement's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
    /// The number of levels of the tree from here down, with those of subqueries. It bounds the
    /// stack that recursion over the tree needs.
    pub height: u32,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    /// The number of the literal in the statement.
    Literal(u32),
    /// `_utf8mb4'text'`
    Introduced(Charset, u32),
    /// DATE'..', TIME'..', TIMESTAMP'..'
    Temporal(TemporalLiteral, u32),
    Null,
    Bool(bool),
    /// A string or a number that the parser itself adds (units).
    Text(String),
    Number(i64),
    Param(u32),
    Name(ColumnName),
    UserVariable(String),
    Assign(String, Box<Expr>),
    SystemVariable(VariableScope, String),
    /// DEFAULT as a value, DEFAULT(column)
    Default(Option<String>),
    /// VALUES(column)
    Values(String),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// ANDs in a row are one level, however many they are. The same holds for ORs.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Between {
        negated: bool,
        value: Box<Expr>,
        low: Box<Expr>,
        high: Box<Expr>,
    },
    In {
        negated: bool,
        value: Box<Expr>,
        list: Vec<Expr>,
    },
    InSelect {
        negated: bool,
        value: Box<Expr>,
        select: Box<Select>,
    },
    /// `value op ANY (SELECT ..)`; `all` for ALL.
    Quantified {
        op: crate::plan::CompareOp,
        all: bool,
        value: Box<Expr>,
        select: Box<Select>,
    },
    Like {
        negated: bool,
        value: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<Box<Expr>>,
    },
    Regexp {
        negated: bool,
        value: Box<Expr>,
        pattern: Box<Expr>,
    },
    IsNull {
        negated: bool,
        value: Box<Expr>,
    },
    IsTruth {
        negated: bool,
        truth: bool,
        value: Box<Expr>,
    },
    Case {
        operand: Option<Box<Expr>>,
        branches: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Cast(Box<Expr>, CastType),
    /// CONVERT(x USING charset)
    Transcode(Box<Expr>, String),
    Collate(Box<Expr>, String),
    /// date ± INTERVAL amount unit
    Interval {
        subtract: bool,
        date: Box<Expr>,
        amount: Box<Expr>,
        unit: IntervalUnit,
    },
    Call(Call),
    /// `f(..) OVER ..`
    Window(Box<WindowCall>),
    Row(Vec<Expr>),
    Select(Box<Select>),
    Exists(Box<Select>),
    /// `= ANY (select)`, MATCH, JSON paths, ...: MySQL has this feature, and this
    /// server does not.
    Unsupported(&'static str),
}

impl Expr {
    pub fn new(kind: ExprKind, span: Span) -> Expr {
        let mut below = 0;
        kind.heights(&mut |height| below = below.max(height));
        Expr { kind, span, height: below + 1 }
    }
}

impl ExprKind {
    /// Calls `f` with the height of each part.
    fn heights(&self, f: &mut dyn FnMut(u32)) {
        use ExprKind::*;
        let mut each = |list: &[Expr]| list.iter().for_each(|e| f(e.height));
        match self {
            Literal(_) | Introduced(..) | Temporal(..) | Null | Bool(_) | Text(_) | Number(_)
            | Param(_) | Name(_) | UserVariable(_) | SystemVariable(..) | Default(_)
            | Values(_) | Unsupported(_) => {}
            Assign(_, e) | Unary(_, e) | Cast(e, _) | Transcode(e, _) | Collate(e, _) => {
                f(e.height)
            }
            IsNull { value, .. } | IsTruth { value, .. } => f(value.height),
            Binary(_, left, right) => [left, right].iter().for_each(|e| f(e.height)),
            And(list) | Or(list) | Row(list) => each(list),
            Between { value, low, high, .. } => [value, low, high].iter().for_each(|e| f(e.height)),
            In { value, list, .. } => {
                each(list);
                f(value.height);
            }
            InSelect { value, select, .. } | Quantified { value, select, .. } => {
                [value.height, select.height].into_iter().for_each(f)
            }
            Like { value, pattern, escape, .. } => [Some(value), Some(pattern), escape.as_ref()]
                .into_iter()
                .flatten()
                .for_each(|e| f(e.height)),
            Regexp { value, pattern, .. } => [value, pattern].iter().for_each(|e| f(e.height)),
            Case { operand, branches, otherwise } => {
                operand.iter().chain(otherwise).for_each(|e| f(e.height));
                branches.iter().for_each(|(when, then)| f(when.height.max(then.height)));
            }
            Interval { date, amount, .. } => [date, amount].iter().for_each(|e| f(e.height)),
            Call(call) => {
                each(&call.args);
                call.order.iter().for_each(|o| f(o.expr.height));
            }
            Window(window) => {
                each(&window.call.args);
                if let Over::Spec(spec) = &window.over {
                    each(&spec.partition);
                    spec.order.iter().for_each(|o| f(o.expr.height));
                }
            }
            Select(select) | Exists(select) => f(select.height),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnName {
    pub schema: Option<String>,
    pub table: Option<String>,
    pub column: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TemporalLiteral {
    Date,
    Time,
    Timestamp,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    Not,
    Minus,
    Plus,
    BitNot,
    /// BINARY x
    Binary,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    Xor,
    Arith(crate::plan::ArithOp),
    Compare(crate::plan::CompareOp),
}

#[derive(Clone, Debug)]
pub struct Call {
    /// The function's name in upper case.
    pub name: String,
    pub distinct: bool,
    /// COUNT(*)
    pub star: bool,
    pub args: Vec<Expr>,
    /// GROUP_CONCAT
    pub order: Vec<OrderItem>,
    pub separator: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CastType {
    Signed,
    Unsigned,
    /// `bin` for the _bin collation of the character set.
    Char {
        length: Option<u32>,
        charset: Option<String>,
        bin: bool,
    },
    Binary(Option<u32>),
    Decimal(u32, u8),
    Double,
    Float,
    Date,
    Time(u8),
    DateTime(u8),
    Year,
    Json,
}

/// The name of a table, with its database if the text has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    pub schema: Option<String>,
    pub name: String,
}

#[derive(Clone, Debug, Default)]
pub struct Select {
    pub distinct: bool,
    pub items: Vec<SelectItem>,
    pub from: Vec<TableFactor>,
    pub filter: Option<Expr>,
    pub group: Vec<Expr>,
    pub rollup: bool,
    pub having: Option<Expr>,
    /// WINDOW
    pub windows: Vec<(String, WindowSpec)>,
    pub order: Vec<OrderItem>,
    pub limit: Limit,
    /// FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE
    pub locks: Vec<Lock>,
    /// INTO @a, @b
    pub into: Vec<String>,
    /// INTO OUTFILE, INTO DUMPFILE
    pub into_file: Option<Box<IntoFile>>,
    /// SQL_CALC_FOUND_ROWS
    pub calc_found_rows: bool,
    pub straight_join: bool,
    /// The height, as in an expression.
    pub height: u32,
    /// The operand before `more`, if it is itself of several operands. The clauses above are empty
    /// then.
    pub first: Option<Box<Select>>,
    /// Further operands, each with the operator before it. `whole_order` and `whole_limit` are the
    /// ORDER BY and LIMIT of the whole.
    pub more: Vec<(SetOperator, Select)>,
    pub whole_order: Vec<OrderItem>,
    pub whole_limit: Limit,
    /// WITH RECURSIVE is defining a name, and this operand refers to it.
    pub recursive: bool,
}
impl Select {
    /// The last SELECT in the text, if it has no parentheses.
    pub fn last_operand(&mut self) -> &mut Select {
        match self.more.len() {
            0 => self,
            operands => self.more[operands - 1].1.last_operand(),
        }
    }
    /// The first SELECT in the text.
    pub fn first_select(&self) -> &Select {
        self.first.as_ref().map_or(self, |first| first.first_select())
    }
    /// Whether the SELECT itself has ORDER BY or LIMIT.
    pub fn is_cut_or_sorted(&self) -> bool {
        !self.order.is_empty() || self.limit.count.is_some()
    }
    /// Whether an operand refers to the name that WITH RECURSIVE is defining.
    pub fn refers_to_itself(&self) -> bool {
        self.recursive
            || self.first.as_ref().is_some_and(|first| first.refers_to_itself())
            || self.more.iter().any(|(_, operand)| operand.refers_to_itself())
    }
}
#[derive(Clone, Debug)]
pub enum SelectItem {
    /// `*`, `t.*`, `db.t.*`, or the word of TABLE t; an empty span if the parser has made it.
    Wildcard(Option<Name>, Span),
    /// Without an alias the item's text is its name in the result.
    Expr { expr: Expr, alias: Option<String> },
}
#[derive(Clone, Debug)]
pub struct TableFactor {
    pub kind: FactorKind,
    pub alias: Option<String>,
    pub join: Join,
}
#[derive(Clone, Debug)]
pub enum FactorKind {
    Table {
        name: Name,
        hints: Vec<IndexHint>,
    },
    Derived {
        select: Box<Select>,
        /// The names of the columns, if they are not those of the SELECT.
        columns: Vec<String>,
        /// LATERAL: it sees the tables before it.
        lateral: bool,
        /// The statement has the same rows at another place, too: WITH has named them.
        again: bool,
        /// The name, if WITH RECURSIVE has defined it by itself.
        recursive: Option<String>,
    },
    JsonTable(Box<JsonTable>),
    /// The name of a common table expression within its own definition: the rows of the iteration
    /// before. `inside` if it stands in a subquery or a derived table.
    Itself {
        name: String,
        inside: bool,
    },
    /// Joins in parentheses, or on the right side of a join: `a LEFT JOIN (b JOIN c ..) ON ..`.
    Nested(Vec<TableFactor>),
}
/// The way in which a factor is joined to the factors before it.
#[derive(Clone, Debug)]
pub enum Join {
    /// The factor is the first.
    None,
    /// A comma binds more loosely than the other joins: the joins on its two sides do not see each
    /// other.
    Comma,
    /// [INNER|CROSS] JOIN, STRAIGHT_JOIN, LEFT JOIN, RIGHT JOIN, with NATURAL or without.
    Of(JoinSide, JoinOn),
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinSide {
    Inner,
    /// STRAIGHT_JOIN: an inner join whose left side is read first.
    Straight,
    Left,
    Right,
}
#[derive(Clone, Debug)]
pub enum JoinOn {
    /// A cross join.
    Nothing,
    Condition(Expr),
    Using(Vec<String>),
    Natural,
}
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexHint {
    pub kind: HintKind,
    /// FOR JOIN / ORDER BY / GROUP BY: a hint that is only for ordering does not restrict the
    /// search.
    pub for_search: bool,
    pub for_order: bool,
    /// PRIMARY is a name like the others.
    pub indexes: Vec<String>,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HintKind {
    Use,
    Force,
    Ignore,
}
#[derive(Clone, Debug)]
pub struct OrderItem {
    pub expr: Expr,
    pub descending: bool,
}
#[derive(Clone, Debug, Default)]
pub struct Limit {
    pub count: Option<Expr>,
    pub offset: Option<Expr>,
}
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    pub exclusive: bool,
    pub conflict: crate::plan::OnConflict,
    /// FOR UPDATE OF: only these tables are locked.
    pub of: Vec<Name>,
}

#[derive(Clone, Debug)]
pub struct Insert {
    pub replace: bool,
    pub ignore: bool,
    pub table: Name,
    /// None: all visible columns in order.
    pub columns: Option<Vec<String>>,
    pub source: InsertSource,
    /// `AS new(a, b)`: an alias for the new row in ON DUPLICATE KEY UPDATE, with its column names.
    pub row_alias: Option<(String, Vec<String>)>,
    pub on_duplicate: Vec<(ColumnName, Expr)>,
}
#[derive(Clone, Debug)]
pub enum InsertSource {
    Values(Vec<Vec<Expr>>),
    Select(Box<Select>),
}
#[derive(Clone, Debug)]
pub struct Load {
    pub local: bool,
    /// The file's name, as a number of a literal.
    pub file: u32,
    pub duplicates: LoadDuplicates,
    pub table: Name,
    pub charset: Option<String>,
    pub format: TextFormat,
    /// IGNORE n LINES
    pub skip: u64,
    /// Empty: all visible columns in order.
    pub targets: Vec<LoadTarget>,
    pub set: Vec<(ColumnName, Expr)>,
}
/// What LOAD DATA does with rows whose key is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadDuplicates {
    Error,
    Ignore,
    Replace,
}
/// What takes a field of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadTarget {
    Column(ColumnName),
    Variable(String),
}
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IntoFile {
    pub file: u32,
    pub charset: Option<String>,
    /// None: INTO DUMPFILE.
    pub format: Option<TextFormat>,
}
/// FIELDS and LINES of a text file: numbers of literals.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TextFormat {
    pub fields_terminated: Option<u32>,
    pub enclosed: Option<u32>,
    pub optionally: bool,
    pub escaped: Option<u32>,
    pub lines_starting: Option<u32>,
    pub lines_terminated: Option<u32>,
}
#[derive(Clone, Debug)]
pub struct Update {
    pub ignore: bool,
    pub tables: Vec<TableFactor>,
    pub assignments: Vec<(ColumnName, Expr)>,
    pub filter: Option<Expr>,
    pub order: Vec<OrderItem>,
    pub limit: Limit,
}
impl Update {
    /// True unless the statement names a single table.
    pub fn is_many(&self) -> bool {
        !matches!(&self.tables[..], [TableFactor { kind: FactorKind::Table { .. }, .. }])
    }
}
#[derive(Clone, Debug)]
pub struct Delete {
    pub ignore: bool,
    /// `DELETE a, b FROM ..`: the tables to change; empty in a DELETE of one table.
    pub targets: Vec<Name>,
    pub tables: Vec<TableFactor>,
    pub filter: Option<Expr>,
    pub order: Vec<OrderItem>,
    pub limit: Limit,
}

#[derive(Clone, Debug)]
pub enum ShowFilter {
    None,
    Like(u32),
    Where(Expr),
}
#[derive(Clone, Debug)]
pub struct Show {
    pub what: ShowWhat,
    pub filter: ShowFilter,
}
/// As [`ShowKind`](crate::plan::ShowKind), with unresolved names.
#[derive(Clone, Debug)]
pub enum ShowWhat {
    Tables {
        schema: Option<String>,
        full: bool,
    },
    TableStatus(Option<String>),
    OpenTables(Option<String>),
    Columns {
        table: Name,
        full: bool,
    },
    Index(Name),
    CreateTable(Name),
    CreateView(Name),
    Triggers(Option<String>),
    Events(Option<String>),
    /// `SHOW BINLOG EVENTS [IN 'file'] [FROM position] [LIMIT [offset,] count]`
    BinlogEvents {
        file: Option<u32>,
        from: u64,
        offset: u64,
        count: u64,
    },
    /// The user and the host; None for CURRENT_USER.
    Grants(Option<(String, String)>),
    /// Forms that need no name.
    Plain(crate::plan::ShowKind),
}

/// The name of an XA transaction. The parts are numbers of literals.
#[derive(Clone, Copy, Debug)]
pub struct Xid {
    pub gtrid: u32,
    pub bqual: Option<u32>,
    pub format_id: u32,
}

#[derive(Clone, Debug)]
pub enum SetItem {
    User(String, Expr),
    System { target: SetTarget, name: String, value: SetValue },
    Names { charset: Option<String>, collation: Option<String> },
    CharacterSet(Option<String>),
    Transaction { target: SetTarget, isolation: Option<Isolation>, read_only: Option<bool> },
}
#[derive(Clone, Debug)]
pub enum SetValue {
    Expr(Expr),
    Word(String),
    Default,
}

/// EXPLAIN of a statement.
#[derive(Clone, Debug)]
pub struct Explain {
    /// EXPLAIN ANALYZE: the statement runs.
    pub analyze: bool,
    /// None: `explain_format` decides.
    pub format: Option<Format>,
    pub statement: Statement,
}

#[derive(Clone, Debug)]
pub enum Statement {
    /// The text has only a comment.
    Empty,
    Select(Box<Select>),
    Insert(Insert),
    Load(Box<Load>),
    Update(Update),
    Delete(Delete),
    Explain(Box<Explain>),
    Show(Show),
    Set(Vec<SetItem>),
    Transaction(TransactionStmt),
    Xa {
        verb: XaVerb,
        xid: Xid,
    },
    Use(String),
    Do(Vec<Expr>),
    Kill {
        id: Expr,
        query_only: bool,
    },
    CreateDatabase {
        name: String,
        if_not_exists: bool,
        charset: Option<String>,
        collation: Option<String>,
    },
    AlterDatabase {
        name: Option<String>,
        charset: Option<String>,
        collation: Option<String>,
    },
    DropDatabase {
        name: String,
        if_exists: bool,
    },
    CreateTable(Box<CreateTable>),
    CreateTableLike {
        name: Name,
        like: Name,
        temporary: bool,
        if_not_exists: bool,
    },
    DropTables {
        names: Vec<Name>,
        temporary: bool,
        if_exists: bool,
    },
    CreateView(Box<CreateView>),
    DropViews {
        names: Vec<Name>,
        if_exists: bool,
    },
    Truncate(Name),
    RenameTables(Vec<(Name, Name)>),
    Alter {
        table: Name,
        actions: Vec<Alter>,
    },
    /// CHECK, ANALYZE, OPTIMIZE, REPAIR, CHECKSUM TABLE
    Maintain(Maintenance, Vec<Name>),
    /// ANALYZE TABLE .. UPDATE HISTOGRAM with a number of buckets; without, DROP HISTOGRAM.
    Histogram {
        tables: Vec<Name>,
        columns: Vec<String>,
        buckets: Option<u32>,
    },
    LockTables(Vec<(Name, TableLock)>),
    UnlockTables,
    FlushTables {
        names: Vec<Name>,
        read_lock: bool,
    },
    Flush(Vec<crate::plan::FlushWhat>),
    /// RESET BINARY LOGS AND GTIDS; the number after TO.
    ResetMaster(Option<u64>),
    /// PURGE BINARY LOGS TO 'file'
    PurgeLogsTo(u32),
    /// PURGE BINARY LOGS BEFORE time; the expression is seconds since 1970.
    PurgeLogsBefore(Expr),
    /// PREPARE name FROM 'text' | @variable
    Prepare {
        name: String,
        from: PrepareFrom,
    },
    /// EXECUTE name USING @a, @b
    Execute {
        name: String,
        using: Vec<String>,
    },
    Deallocate(String),
}
impl Statement {
    /// Whether the statement is a definition or LOCK TABLES, which commits the open transaction.
    /// Definitions of temporary tables do not.
    pub fn commits_implicitly(&self, is_temporary: impl Fn(&Name) -> bool) -> bool {
        match self {
            Statement::CreateDatabase { .. }
            | Statement::AlterDatabase { .. }
            | Statement::DropDatabase { .. }
            | Statement::CreateView(_)
            | Statement::DropViews { .. }
            | Statement::RenameTables(_)
            | Statement::LockTables(_) => true,
            Statement::CreateTable(create) => !create.temporary,
            Statement::CreateTableLike { temporary, .. }
            | Statement::DropTables { temporary, .. } => !temporary,
            Statement::Truncate(table) | Statement::Alter { table, .. } => !is_temporary(table),
            _ => false,
        }
    }
}
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PrepareFrom {
    Literal(u32),
    Variable(String),
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maintenance {
    Check,
    Analyze,
    Optimize,
    Repair,
    Checksum,
}
