//! UPDATE and DELETE of several tables.
//!
//! **MANY-1** The joined rows are all found before the first change, so no change can be met again.
//! Rows of the target tables are found under exclusive locks.
//! **MANY-2** A row of a target is changed once, with the values of the first joined row in which
//! it stands, however many joined rows it is in. Where a row of NULLs stands for it, nothing is
//! changed.
use super::dml::{Assignment, Constraints, GeneratedColumns};
use super::select::SelectPlan;
use crate::table_info::TableInfo;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct ManyPlan {
    /// The joined rows. Its outputs are the assigned values, for all that looks at expressions.
    pub select: SelectPlan,
    /// The changed tables by ascending source. A table may stand here under several aliases.
    pub targets: Vec<Target>,
    pub ignore: bool,
}

/// A table to change.
#[derive(Clone, Debug)]
pub struct Target {
    pub source: u16,
    pub table: Arc<TableInfo>,
    /// Empty for DELETE.
    pub assignments: Vec<Assignment>,
    /// As in [`UpdatePlan`](super::UpdatePlan).
    pub on_update_now: Vec<u16>,
    /// Of UPDATE.
    pub constraints: Option<Box<Constraints>>,
    /// Of UPDATE, those that the statement may change.
    pub generated_columns: Option<Box<GeneratedColumns>>,
}

impl ManyPlan {
    /// Whether source number `n` is changed.
    pub fn changes(&self, n: usize) -> bool {
        self.targets.iter().any(|target| target.source as usize == n)
    }
}
