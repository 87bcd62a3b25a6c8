//! Tables, columns and indexes as the dictionary stores them. The engine puts a version in front of
//! the encoded record.
use crate::{Collation, SqlType};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU16;

/// A column's DEFAULT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DefaultValue {
    Null,
    /// The literal's text in UTF-8, or its bytes for a binary column. It is converted when it is
    /// used.
    Literal(Vec<u8>),
    /// CURRENT_TIMESTAMP(fsp).
    CurrentTimestamp(u8),
    /// The text of an expression, without the brackets around it.
    Expr(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub ty: SqlType,
    pub nullable: bool,
    pub default: Option<DefaultValue>,
    pub auto_increment: bool,
    /// ON UPDATE CURRENT_TIMESTAMP
    pub on_update_now: bool,
    pub comment: String,
    pub invisible: bool,
    /// What a generated column is calculated from. (Records of format 2 of the data directory,
    /// which serde reads, have none.)
    #[serde(skip)]
    pub generation: Option<Generation>,
}

/// The expression of a generated column. The values of VIRTUAL columns are stored in the row as
/// those of STORED columns are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// SQL text in UTF-8, which means the same whatever the session's settings are.
    pub expression: String,
    /// STORED; false: VIRTUAL.
    pub stored: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexColumn {
    /// Position in `TableDef::columns`.
    pub column: usize,
    /// The number of characters (bytes of a binary column) that are indexed. `None` for all.
    pub prefix: Option<u32>,
    pub desc: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDef {
    pub name: String,
    pub unique: bool,
    pub primary: bool,
    pub columns: Vec<IndexColumn>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDef {
    pub schema: String,
    pub name: String,
    pub columns: Vec<Column>,
    /// The indexes, the primary index first if there is one.
    pub indexes: Vec<IndexDef>,
    /// The default collation of new columns.
    pub collation: Collation,
    pub comment: String,
    /// The CHECK constraints, in the order in which they were made. (Records of format 2 of the
    /// data directory, which serde reads, have none.)
    #[serde(skip)]
    pub checks: Vec<CheckDef>,
    /// What the table says of its statistics. (As the constraints, it is not in format 2.)
    #[serde(skip)]
    pub statistics: StatisticsOptions,
}

/// The table options about the statistics of indexes. Where the table says nothing, a setting of
/// the server counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StatisticsOptions {
    /// STATS_PERSISTENT: whether the statistics outlive the server.
    pub persistent: Option<bool>,
    /// STATS_AUTO_RECALC: whether they are made anew when many rows have come or gone.
    pub auto_recalc: Option<bool>,
    /// STATS_SAMPLE_PAGES: the number of leaves of each index that are looked at.
    pub sample_pages: Option<NonZeroU16>,
}
impl StatisticsOptions {
    /// The options that the table has, as `NAME=value`, in MySQL's order.
    pub fn said(&self) -> impl Iterator<Item = String> {
        let switches = [
            self.persistent.map(|on| format!("STATS_PERSISTENT={}", on as u8)),
            self.auto_recalc.map(|on| format!("STATS_AUTO_RECALC={}", on as u8)),
            self.sample_pages.map(|pages| format!("STATS_SAMPLE_PAGES={pages}")),
        ];
        switches.into_iter().flatten()
    }
}

/// A CHECK constraint. Its name is unique among the check constraints of a database, without regard
/// to case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckDef {
    pub name: String,
    /// The condition as SQL text in UTF-8, which means the same whatever the session's settings
    /// are.
    pub condition: String,
    /// False: rows are not checked.
    pub enforced: bool,
}

impl Column {
    /// A visible nullable column without default or comment.
    pub fn new(name: impl Into<String>, ty: SqlType) -> Column {
        Column {
            name: name.into(),
            ty,
            nullable: true,
            default: None,
            auto_increment: false,
            on_update_now: false,
            comment: String::new(),
            invisible: false,
            generation: None,
        }
    }

    pub fn not_null(mut self) -> Column {
        self.nullable = false;
        self
    }
}

impl IndexColumn {
    pub fn new(column: usize) -> IndexColumn {
        IndexColumn { column, prefix: None, desc: false }
    }
}

impl IndexDef {
    pub fn primary(columns: impl IntoIterator<Item = usize>) -> IndexDef {
        let columns = columns.into_iter().map(IndexColumn::new).collect();
        IndexDef { name: "PRIMARY".into(), unique: true, primary: true, columns }
    }

    pub fn secondary(
        name: impl Into<String>,
        unique: bool,
        columns: impl IntoIterator<Item = usize>,
    ) -> IndexDef {
        let columns = columns.into_iter().map(IndexColumn::new).collect();
        IndexDef { name: name.into(), unique, primary: false, columns }
    }
}

impl TableDef {
    /// Position of a column by name, without regard to case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// The index rows are clustered by, whose columns every other index ends in: the primary key;
    /// None: a hidden row id.
    pub fn clustered_index(&self) -> Option<usize> {
        self.indexes.iter().position(|i| i.primary)
    }

    /// The place of an index in MySQL's order: PRIMARY, unique keys without NULLs, other unique
    /// keys, the rest. Indexes of one rank are in the order in which they were added.
    pub fn index_rank(&self, index: &IndexDef) -> u8 {
        match (index.primary, index.unique) {
            (true, _) => 0,
            (_, true) if index.columns.iter().all(|c| !self.columns[c.column].nullable) => 1,
            (_, true) => 2,
            _ => 3,
        }
    }

    /// The index that clients are told is the primary key: that, else the first unique index over
    /// NOT NULL columns in full, as in MySQL.
    pub fn shown_as_primary(&self) -> Option<usize> {
        let whole = |c: &IndexColumn| !self.columns[c.column].nullable && c.prefix.is_none();
        let fits = |index: &IndexDef| index.unique && index.columns.iter().all(whole);
        self.clustered_index().or_else(|| self.indexes.iter().position(fits))
    }

    /// Position of a check constraint by name, without regard to case.
    pub fn check(&self, name: &str) -> Option<usize> {
        self.checks.iter().position(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// Gives the table another name. As in MySQL, the check constraints whose names were made from
    /// the table's name (`t_chk_1`) get names that are made from the new one.
    pub fn rename(&mut self, schema: impl Into<String>, name: impl Into<String>) {
        let name = name.into();
        for check in &mut self.checks {
            if let Some(number) = generated_check_number(&self.name, &check.name) {
                check.name = format!("{name}{GENERATED_CHECK}{number}");
            }
        }
        (self.schema, self.name) = (schema.into(), name);
    }

    /// The number of the next generated name of a check constraint: the least that is greater than
    /// those of the names that the table has.
    pub fn next_check_number(&self) -> u64 {
        let numbers = self.checks.iter().filter_map(|c| {
            generated_check_number(&self.name, &c.name).and_then(|n| n.parse::<u64>().ok())
        });
        numbers.max().unwrap_or(0).saturating_add(1)
    }
    /// The name of a check constraint that was defined without one.
    pub fn generated_check_name(&self, number: u64) -> String {
        format!("{}{GENERATED_CHECK}{number}", self.name)
    }

    pub fn auto_increment_column(&self) -> Option<usize> {
        self.columns.iter().position(|c| c.auto_increment)
    }
}

/// What stands between the table's name and the number in a generated name of a check constraint.
const GENERATED_CHECK: &str = "_chk_";

/// The digits behind `table_chk_`, if the name has that form.
fn generated_check_number<'n>(table: &str, check: &'n str) -> Option<&'n str> {
    let (start, rest) = check.split_at_checked(table.len())?;
    let digits = rest.strip_prefix(GENERATED_CHECK)?;
    let counts = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (start.eq_ignore_ascii_case(table) && counts).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_clustered_by_the_primary_key_alone() {
        let columns =
            vec![Column::new("a", SqlType::INT), Column::new("B", SqlType::INT).not_null()];
        let mut table = TableDef {
            schema: "s".into(),
            name: "t".into(),
            columns,
            indexes: vec![IndexDef::secondary("ua", true, [0])],
            collation: Collation::Utf8mb4GeneralCi,
            comment: String::new(),
            checks: Vec::new(),
            statistics: Default::default(),
        };
        let indexes = |table: &TableDef| (table.clustered_index(), table.shown_as_primary());
        assert_eq!(indexes(&table), (None, None));
        table.indexes.push(IndexDef::secondary("ub", true, [1]));
        assert_eq!(indexes(&table), (None, Some(1)));
        table.indexes.insert(0, IndexDef::primary([1]));
        assert_eq!(indexes(&table), (Some(0), Some(0)));
        assert_eq!((table.column("b"), table.column("c")), (Some(1), None));
    }

    #[test]
    fn generated_names_of_checks_follow_the_table() {
        let check = |name: &str| CheckDef {
            name: name.into(),
            condition: "(1 = 1)".into(),
            enforced: true,
        };
        let mut table = TableDef {
            schema: "s".into(),
            name: "t".into(),
            columns: Vec::new(),
            indexes: Vec::new(),
            collation: Collation::Utf8mb4GeneralCi,
            comment: String::new(),
            checks: Vec::new(),
            statistics: Default::default(),
        };
        assert_eq!(table.generated_check_name(table.next_check_number()), "t_chk_1");
        table.checks = ["T_chk_7", "t_chk_", "t_chk_2x", "own", "tt_chk_9"].map(check).into();
        assert_eq!(table.next_check_number(), 8);
        table.rename("s", "new");
        let names: Vec<&str> = table.checks.iter().map(|c| &*c.name).collect();
        assert_eq!(names, ["new_chk_7", "t_chk_", "t_chk_2x", "own", "tt_chk_9"]);
        assert_eq!((table.check("OWN"), table.check("gone")), (Some(3), None));
    }
}
