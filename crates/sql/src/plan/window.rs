//! Windows: the rows of a SELECT with the values of window functions beside them.
//!
//! **WIN-1** A SELECT with window functions is two: the inner one makes rows of all values that the
//! functions and the result need, after WHERE, GROUP BY and HAVING. The outer one reads these rows
//! with the functions' values behind them, in the order of [`WindowStage::sorts`], and does what
//! comes after windows: its own expressions, DISTINCT, ORDER BY, LIMIT.
use super::expr::Expr;
use super::select::{AggregateCall, SelectPlan, SortKey};

#[derive(Clone, Debug)]
pub struct WindowStage {
    pub inner: SelectPlan,
    /// Empty where the outer SELECT has no window functions: it evaluates outputs after the inner
    /// one has sorted its rows.
    pub sorts: Vec<WindowSort>,
}

/// The functions whose windows have the same partitions and the same order.
#[derive(Clone, Debug)]
pub struct WindowSort {
    /// Columns of the inner SELECT.
    pub partition: Vec<u16>,
    /// Columns of the inner SELECT, with their directions.
    pub order: Vec<SortKey>,
    /// The columns of the inner SELECT that the functions need of other rows. Expressions of
    /// `calls` number them from 0.
    pub needed: Vec<u16>,
    pub calls: Vec<WindowCall>,
}

#[derive(Clone, Debug)]
pub struct WindowCall {
    pub function: WindowFunction,
    /// The value, and the default of LAG and LEAD; of aggregates the arguments are in the function.
    pub args: Vec<Expr>,
    /// The number of buckets, rows or places: a literal or a parameter.
    pub number: Option<Expr>,
    pub frame: Frame,
}

#[derive(Clone, Debug)]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    Aggregate(AggregateCall),
}
impl WindowFunction {
    pub fn by_name(name: &str) -> Option<WindowFunction> {
        Some(match name {
            "ROW_NUMBER" => WindowFunction::RowNumber,
            "RANK" => WindowFunction::Rank,
            "DENSE_RANK" => WindowFunction::DenseRank,
            "PERCENT_RANK" => WindowFunction::PercentRank,
            "CUME_DIST" => WindowFunction::CumeDist,
            "NTILE" => WindowFunction::Ntile,
            "LAG" => WindowFunction::Lag,
            "LEAD" => WindowFunction::Lead,
            "FIRST_VALUE" => WindowFunction::FirstValue,
            "LAST_VALUE" => WindowFunction::LastValue,
            "NTH_VALUE" => WindowFunction::NthValue,
            _ => return None,
        })
    }
}

/// The rows of a partition that a function sees from the current row.
#[derive(Clone, Debug)]
pub struct Frame {
    pub start: Edge,
    pub end: Edge,
}
impl Frame {
    /// All rows of the partition.
    pub const PARTITION: Frame = Frame { start: Edge::Unbounded, end: Edge::Unbounded };
}

#[derive(Clone, Debug)]
pub enum Edge {
    /// The partition's edge.
    Unbounded,
    /// ROWS: the current row.
    Row,
    /// ROWS: so many rows before the current row (`before`) or behind it. The number is a literal
    /// or a parameter.
    Rows { number: Expr, before: bool },
    /// RANGE: the first or last row with the current row's sort keys.
    Peers,
    /// RANGE: the first row whose `value` is not before the current row's `limit`, or the last
    /// whose `value` is not behind it. Both are of one type.
    Value { value: Expr, limit: Expr, descending: bool, before: bool },
}
