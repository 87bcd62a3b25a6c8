//! INSERT, REPLACE, UPDATE, DELETE.
//!
//! **DML-1** `fill` and `defaults` have one entry per column of the table, in table order: the
//! executor makes a row in one pass over them.
//! **DML-2** With `InsertRows::Repeat` one row's expressions serve all rows. Row i sees the
//! parameters from `i * stride` on (a slice; `Param(n)` is parameter `n + i * stride`), and
//! expressions after the rows see the parameters from `(rows - 1) * stride` on. None of these
//! expressions has a subquery, since a subquery runs once for the statement.
//! **DML-3** If a value of a VALUES list reads a `Column`, it reads the row that is being made, and
//! `names_columns` is set: the executor then evaluates the values in the order of the list.
use super::access::TableAccess;
use super::admin::TableName;
use super::expr::{Expr, ExprKind};
use super::load::LoadPlan;
use super::select::{Limit, SelectPlan, SortKey};
use crate::table_info::TableInfo;
use redolith_types::{SqlType, Value};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct InsertPlan {
    pub table: Arc<TableInfo>,
    pub rows: InsertRows,
    /// The source of each column's value.
    pub fill: Vec<Fill>,
    /// The value of each column for which the statement gives none.
    pub defaults: Vec<DefaultFill>,
    /// DML-3
    pub names_columns: bool,
    pub on_duplicate: OnDuplicate,
    /// INSERT IGNORE: errors of a row become warnings (values are adjusted, duplicates skipped).
    pub ignore: bool,
    pub check: Option<Box<ViewCheck>>,
    pub constraints: Option<Box<Constraints>>,
    pub generated_columns: Option<Box<GeneratedColumns>>,
}

/// The generated columns that a statement calculates for each row that it makes or changes; plans
/// of other tables have none.
#[derive(Clone, Debug)]
pub struct GeneratedColumns {
    /// In the order of the table, so that each column stands behind those that it reads.
    pub list: Vec<GeneratedColumn>,
    /// The columns that the expressions read, ascending.
    pub reads: Vec<u16>,
}
#[derive(Clone, Debug)]
pub struct GeneratedColumn {
    pub column: u16,
    /// `Column { source: 0, .. }` is a column of the new row.
    pub value: Expr,
    /// The columns that the expression reads, ascending.
    pub reads: Vec<u16>,
}
impl GeneratedColumns {
    pub fn of(list: Vec<GeneratedColumn>) -> GeneratedColumns {
        let mut reads: Vec<u16> = list.iter().flat_map(|g| &g.reads).copied().collect();
        reads.sort_unstable();
        reads.dedup();
        GeneratedColumns { list, reads }
    }
    /// Makes them generated columns of the same table with one more column in front of the others.
    pub fn shift_columns(&mut self) {
        self.reads.iter_mut().for_each(|column| *column += 1);
        for generated in &mut self.list {
            generated.column += 1;
            generated.reads.iter_mut().for_each(|column| *column += 1);
            shift_columns(&mut generated.value);
        }
    }
}
fn shift_columns(e: &mut Expr) {
    if let ExprKind::Column { column, .. } = &mut e.kind {
        *column += 1;
    }
    e.parts_mut(&mut shift_columns);
}

/// The enforced CHECK constraints of a table, which each row that a statement makes or changes must
/// pass; plans of other tables have none.
#[derive(Clone, Debug)]
pub struct Constraints {
    pub list: Vec<Constraint>,
    /// The columns that the conditions read, ascending.
    pub columns: Vec<u16>,
}
impl Constraints {
    /// Makes them constraints of the same table with one more column in front of the others.
    pub fn shift_columns(&mut self) {
        self.columns.iter_mut().for_each(|column| *column += 1);
        self.list.iter_mut().for_each(|constraint| shift_columns(&mut constraint.condition));
    }
}
#[derive(Clone, Debug)]
pub struct Constraint {
    pub name: Box<str>,
    /// `Column { source: 0, .. }` is a column of the new row.
    pub condition: Expr,
}

/// WITH CHECK OPTION: what a row must pass that a statement writes through a view.
#[derive(Clone, Debug)]
pub struct ViewCheck {
    /// `Column { source: 0, .. }` is a column of the new row.
    pub conditions: Vec<Expr>,
    pub schema: Box<str>,
    pub name: Box<str>,
}

impl InsertPlan {
    /// True for LOAD DATA.
    pub fn loads(&self) -> bool {
        matches!(self.rows, InsertRows::File(_))
    }
    /// The names behind the number that this output of the SELECT is.
    pub fn members_of(&self, output: usize) -> Option<&MemberNames> {
        match &self.rows {
            InsertRows::Select { members, .. } => members.get(output)?.as_ref(),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub enum InsertRows {
    /// Each row has as many values as the statement has columns.
    Rows(Vec<Vec<InsertValue>>),
    /// Rows of the same form (DML-2).
    Repeat { row: Vec<InsertValue>, stride: u32 },
    /// `buffer`: the statement also reads the table that it writes, so it reads all rows before it
    /// inserts the first. `members` has an entry for each output that an ENUM gives to an ENUM:
    /// the output is the number, and the entry has the names.
    Select { select: Box<SelectPlan>, buffer: bool, members: Vec<Option<MemberNames>> },
    /// LOAD DATA: rows of a file.
    File(Box<LoadPlan>),
}
/// The column of an ENUM or SET whose type defines the names.
#[derive(Clone, Debug)]
pub struct MemberNames {
    pub table: Arc<TableInfo>,
    pub column: u16,
}
impl MemberNames {
    pub fn ty(&self) -> &SqlType {
        &self.table.def.columns[usize::from(self.column)].ty
    }
    /// The expression that gives the name of `number`.
    pub fn of(self, number: Expr) -> ExprKind {
        ExprKind::Member { number: Box::new(number), table: self.table, column: self.column }
    }
}
#[derive(Clone, Debug)]
pub enum InsertValue {
    Expr(Expr),
    /// The keyword DEFAULT: the column gets its default, as if the statement did not name it.
    Default,
}

/// The source of a column's value in a new row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Value n of the row. NULL or 0 in an AUTO_INCREMENT column stands for the next number.
    Given(u16),
    /// Value n of the row, which another table has in a column of the same type (ALTER TABLE). No
    /// mode refuses it.
    Kept(u16),
    /// The statement does not name the column: its entry in `defaults` applies.
    Default,
}
#[derive(Clone, Debug)]
pub enum DefaultFill {
    /// The value already has the column's type.
    Literal(Value<'static>),
    /// DEFAULT (expression), CURRENT_TIMESTAMP, and literals whose value depends on the session
    /// (TIMESTAMP). The executor converts the value to the column's type.
    Expr(Box<Expr>),
    AutoIncrement,
    /// The value is calculated when the row has all others.
    Generated,
    /// NOT NULL without a default: error 1364 in strict mode; otherwise, and with IGNORE, the
    /// type's zero value and a warning.
    Missing,
    /// The same for a column that the rows of an INSERT into this view leave out: error 1423.
    MissingBelowView(Box<TableName>),
    /// NOT NULL without a default, for rows that are there already (ALTER TABLE): the type's zero
    /// value. The mode decides whether there may be a zero date.
    Zero,
}

#[derive(Clone, Debug)]
pub enum OnDuplicate {
    Error,
    /// Assignments in order. `Column` of source 0 refers to the existing row (with earlier
    /// assignments applied), of source 1 to the row of the SELECT (ODKU-1), `InsertedValue` to the
    /// new row.
    Update(Vec<Assignment>),
    Replace,
}

#[derive(Clone, Debug)]
pub struct Assignment {
    pub column: u16,
    pub value: Expr,
    /// The value reads a column that an earlier assignment of this statement has set. As in MySQL,
    /// it sees the new value.
    pub reads_assigned: bool,
}

#[derive(Clone, Debug)]
pub struct UpdatePlan {
    /// The access's `lock` is Exclusive.
    pub access: TableAccess,
    pub assignments: Vec<Assignment>,
    /// Columns with ON UPDATE CURRENT_TIMESTAMP that the statement does not assign. They are set if
    /// another column of the row changes.
    pub on_update_now: Vec<u16>,
    /// An assignment or ON UPDATE changes a column of the scanned index (or of the clustered key):
    /// the executor finds all rows before it changes the first (the Halloween problem).
    pub collect_first: bool,
    pub sort: DmlSort,
    pub limit: Limit,
    pub ignore: bool,
    pub check: Option<Box<ViewCheck>>,
    pub constraints: Option<Box<Constraints>>,
    /// Those that the statement may change.
    pub generated_columns: Option<Box<GeneratedColumns>>,
}

#[derive(Clone, Debug)]
pub struct DeletePlan {
    pub access: TableAccess,
    pub sort: DmlSort,
    pub limit: Limit,
    pub ignore: bool,
}

/// ORDER BY of UPDATE and DELETE if no index gives the order: `keys` refer to `exprs`.
#[derive(Clone, Debug, Default)]
pub struct DmlSort {
    pub exprs: Vec<Expr>,
    pub keys: Vec<SortKey>,
}
